//! The host backend alone, through the contract. Order is proved with gates, never by sleeping.

mod adversary;

use super::*;
use crate::backend::{
    Access, Endpoint, Geometry, HostBody, HostEntry, HostThread, LaunchDescriptor, ParameterLayout, Pattern, RawAllocation,
};
use crate::gate::Gate;
use std::ffi::c_void;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

struct Body<F>(F);

impl<F: Fn(&HostThread<'_>, *const *mut c_void) + Send + Sync> HostBody for Body<F> {
    unsafe fn run(&self, thread: &HostThread<'_>, parameters: *const *mut c_void) {
        (self.0)(thread, parameters);
    }
}

fn entry(name: &str, body: impl Fn(&HostThread<'_>, *const *mut c_void) + Send + Sync + 'static) -> HostEntry {
    HostEntry {
        name: name.into(),
        parameters: Arc::new([ParameterLayout { offset: 0, bytes: 8 }]),
        static_shared_bytes: 4096,
        max_block_threads: 0,
        body: Arc::new(Body(body)),
    }
}

/// A device and everything the tests do with it.
struct Rig {
    host: Host,
    device: Device,
}

#[track_caller]
fn origin<'a>() -> Origin<'a> {
    const NONE: &[Access] = &[];
    Origin { accesses: NONE, caller: Location::caller() }
}

impl Rig {
    fn new(config: &HostConfig) -> Self {
        let host = Host::new(config);
        let device = host.device_open(0).unwrap();
        Self { host, device }
    }

    fn threads(threads: usize) -> Self {
        Self::new(&HostConfig::default().with_threads(NonZeroUsize::new(threads).unwrap()))
    }

    fn stream(&self) -> Stream {
        self.host.stream_create(&self.device, &StreamDescriptor::default()).unwrap()
    }

    fn allocate(&self, bytes: u64) -> RawAllocation {
        self.host.allocate(&self.device, &AllocationDescriptor::new(bytes, MemoryKind::Unified)).unwrap()
    }

    fn free(&self, memory: RawAllocation) {
        // SAFETY: the tests wait for their work first.
        unsafe { self.host.free(&self.device, memory) }.unwrap();
    }

    fn call(&self, stream: &Stream, function: impl FnOnce() + Send + 'static) {
        // SAFETY: the tests' functions do not unwind.
        unsafe { self.host.stream_host_function(stream, HostFunction::new(function)) }.unwrap();
    }

    fn hold(&self, stream: &Stream) -> Gate {
        let gate = Gate::new();
        // SAFETY: a gate's function does not unwind.
        unsafe { self.host.stream_host_function(stream, gate.function()) }.unwrap();
        gate
    }

    fn event(&self) -> Event {
        self.host.event_create(&self.device, &EventDescriptor::timing()).unwrap()
    }

    fn record(&self, stream: &Stream, event: &Event) {
        // SAFETY: no other call on the event is in progress.
        unsafe { self.host.event_record(stream, event) }.unwrap();
    }

    fn wait_event(&self, stream: &Stream, event: &Event) {
        // SAFETY: no record is in progress.
        unsafe { self.host.stream_wait_event(stream, event) }.unwrap();
    }

    /// Waits on the host for everything submitted so far.
    fn finish(&self, stream: &Stream) -> Result<()> {
        let event = self.host.event_create(&self.device, &EventDescriptor::ordering())?;
        // SAFETY: as above.
        unsafe { self.host.event_record(stream, &event)? };
        self.host.event_wait(&event)
    }

    fn load(&self, entry: HostEntry) -> Function {
        let name = Arc::clone(&entry.name);
        // SAFETY: the tests' entries are well formed.
        let module = unsafe { self.host.module_load(&self.device, &Image::Host(&[entry])) }.unwrap();
        self.host.function(&module, &name).unwrap()
    }

    fn launch(&self, stream: &Stream, function: &Function, grid: u32, block: u32, parameter: u64) -> Result<()> {
        let mut parameter = parameter;
        let pointers = [(&raw mut parameter).cast()];
        let layout = [ParameterLayout { offset: 0, bytes: 8 }];
        let descriptor = LaunchDescriptor::new(Geometry::new([grid, 1, 1], [block, 1, 1]), &pointers, &layout, origin());
        // SAFETY: one parameter of eight bytes, as every entry here has; memory outlives the work.
        unsafe { self.host.launch(stream, function, &descriptor) }
    }

    fn fill(&self, stream: &Stream, memory: RawAllocation, pattern: Pattern) {
        let descriptor = FillDescriptor::new(memory.address, pattern, memory.bytes / pattern.bytes(), origin());
        // SAFETY: the whole of live memory.
        unsafe { self.host.fill(stream, &descriptor) }.unwrap();
    }

    fn endpoint(&self, memory: RawAllocation) -> Endpoint {
        Endpoint::Device { address: memory.address, ordinal: self.device.ordinal() }
    }

    fn copy(&self, stream: &Stream, descriptor: &CopyDescriptor<'_>) {
        // SAFETY: the tests' ranges are live and disjoint.
        unsafe { self.host.copy(stream, descriptor) }.unwrap();
    }
}

fn bytes(memory: &RawAllocation) -> &[u8] {
    // SAFETY: live memory that the host reaches and nobody writes while the tests read it.
    unsafe { std::slice::from_raw_parts(memory.host, memory.bytes as usize) }
}

/// A word of memory that has at least so many.
fn word<'a>(start: *const AtomicU32, index: usize) -> &'a AtomicU32 {
    // SAFETY: the tests' memory has a word per thread.
    let at = unsafe { start.add(index) };
    // SAFETY: it is live while the kernel runs, and every access is atomic.
    unsafe { &*at }
}

/// The parameter of every entry here.
fn parameter(parameters: *const *mut c_void) -> u64 {
    // SAFETY: every launch passes one.
    let pointer = unsafe { *parameters };
    // SAFETY: it is eight bytes.
    unsafe { *pointer.cast::<u64>() }
}

fn is_poisoned<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(error) => match error.kind() {
            ErrorKind::DevicePoisoned { cause, .. } => cause.to_string(),
            other => panic!("{other:?}"),
        },
        Ok(value) => panic!("{value:?}"),
    }
}

#[test]
fn work_of_one_stream_runs_in_order() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    let (send, receive) = mpsc::channel();
    let gate = rig.hold(&stream);
    for number in 0..100 {
        let send = send.clone();
        rig.call(&stream, move || send.send(number).unwrap());
    }
    assert!(receive.try_recv().is_err(), "the gate holds the stream");
    gate.open();
    rig.finish(&stream).unwrap();
    assert_eq!(receive.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_gate_holds_one_stream_while_another_proceeds() {
    let rig = Rig::new(&HostConfig::default());
    let (held, free) = (rig.stream(), rig.stream());
    let gate = rig.hold(&held);
    let event = rig.event();
    rig.record(&held, &event);
    rig.finish(&free).unwrap();
    rig.call(&free, || ());
    rig.finish(&free).unwrap();
    assert!(!rig.host.event_query(&event).unwrap());
    gate.open();
    rig.host.event_wait(&event).unwrap();
    assert!(rig.host.event_query(&event).unwrap());
}

#[test]
fn an_event_orders_two_streams() {
    let rig = Rig::new(&HostConfig::default());
    let (a, b) = (rig.stream(), rig.stream());
    let done = Arc::new(AtomicBool::new(false));
    let (write, read) = (Arc::clone(&done), Arc::clone(&done));
    let event = rig.event();
    // a: [gate, write, record]   b: [wait, read]
    let gate = rig.hold(&a);
    rig.call(&a, move || write.store(true, Ordering::Relaxed));
    rig.record(&a, &event);
    rig.wait_event(&b, &event);
    rig.call(&b, move || assert!(read.load(Ordering::Relaxed)));
    let after = rig.event();
    rig.record(&b, &after);
    assert!(!rig.host.event_query(&after).unwrap());
    gate.open();
    rig.host.event_wait(&after).unwrap();
}

#[test]
fn a_wait_keeps_its_point_when_the_event_is_recorded_again() {
    let rig = Rig::new(&HostConfig::default());
    let (a, b) = (rig.stream(), rig.stream());
    let event = rig.event();
    // a: [gate 1, record, gate 2, record]   b: [wait for the first]
    let first = rig.hold(&a);
    rig.record(&a, &event);
    rig.wait_event(&b, &event);
    let second = rig.hold(&a);
    rig.record(&a, &event);
    first.open();
    rig.finish(&b).unwrap();
    assert!(!second.is_open() && !rig.host.event_query(&event).unwrap());
    second.open();
    rig.host.event_wait(&event).unwrap();
}

#[test]
fn an_unrecorded_event_is_complete_and_orders_nothing() {
    let rig = Rig::new(&HostConfig::default());
    let (stream, event) = (rig.stream(), rig.event());
    assert!(rig.host.event_query(&event).unwrap());
    rig.host.event_wait(&event).unwrap();
    rig.wait_event(&stream, &event);
    rig.finish(&stream).unwrap();
    let error = rig.host.event_elapsed(&event, &event).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotReady);
}

#[test]
fn timing_events_measure_what_lies_between() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    let (start, end, untimed) = (rig.event(), rig.event(), rig.host.event_create(&rig.device, &EventDescriptor::ordering()).unwrap());
    rig.record(&stream, &start);
    rig.call(&stream, || std::thread::sleep(Duration::from_millis(5)));
    rig.record(&stream, &end);
    rig.host.event_wait(&end).unwrap();
    assert!(rig.host.event_elapsed(&start, &end).unwrap() >= Duration::from_millis(5));
    let error = rig.host.event_elapsed(&start, &untimed).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }));
}

#[test]
fn an_event_outlives_its_stream() {
    let rig = Rig::new(&HostConfig::default());
    let (stream, event) = (rig.stream(), rig.event());
    let gate = rig.hold(&stream);
    rig.record(&stream, &event);
    drop(stream);
    assert!(!rig.host.event_query(&event).unwrap());
    gate.open();
    rig.host.event_wait(&event).unwrap();
}

#[test]
fn submissions_do_not_block_the_host() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    let memory = rig.allocate(4096);
    let gate = rig.hold(&stream);
    for _ in 0..10_000 {
        rig.fill(&stream, memory, Pattern::U8(1));
    }
    assert_eq!(bytes(&memory)[0], POISON, "the gate is closed still");
    gate.open();
    rig.finish(&stream).unwrap();
    assert!(bytes(&memory).iter().all(|&byte| byte == 1));
    rig.free(memory);
}

#[test]
fn fills_repeat_patterns_of_every_size() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    let memory = rig.allocate(1000);
    for (pattern, first) in [(Pattern::U8(7), [7; 4]), (Pattern::U16(0x0102), [2, 1, 2, 1]), (Pattern::U32(0x0102_0304), [4, 3, 2, 1])] {
        rig.fill(&stream, memory, pattern);
        rig.finish(&stream).unwrap();
        assert!(bytes(&memory).chunks(4).all(|chunk| chunk == first));
    }
    rig.free(memory);
}

#[test]
fn a_pitched_copy_leaves_the_gaps_alone() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    let (source, destination) = (rig.allocate(64), rig.allocate(128));
    // SAFETY: 64 bytes that nobody else uses yet.
    unsafe { std::slice::from_raw_parts_mut(source.host, 64) }.iter_mut().zip(0..).for_each(|(byte, number)| *byte = number);
    let mut descriptor = CopyDescriptor::linear(rig.endpoint(source), rig.endpoint(destination), 3, origin());
    (descriptor.rows, descriptor.slices) = (2, 2);
    (descriptor.source_pitch, descriptor.destination_pitch) = ([4, 16], [8, 32]);
    rig.copy(&stream, &descriptor);
    rig.finish(&stream).unwrap();
    let mut expected = [POISON; 128];
    for (slice, row) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for byte in 0..3 {
            expected[slice * 32 + row * 8 + byte] = (slice * 16 + row * 4 + byte) as u8;
        }
    }
    assert_eq!(bytes(&destination), expected);
    rig.free(source);
    rig.free(destination);
}

#[test]
fn a_linear_copy_reaches_from_pinned_memory_to_another_device_and_back() {
    let rig = Rig::new(&HostConfig::new(2).with_peers(|_, _| false));
    let second = rig.host.device_open(1).unwrap();
    let pinned = rig.host.allocate(&rig.device, &AllocationDescriptor::new(256, MemoryKind::Pinned)).unwrap();
    let there = rig.host.allocate(&second, &AllocationDescriptor::new(256, MemoryKind::Device)).unwrap();
    let back = rig.allocate(256);
    assert!(there.host.is_null() && there.address.0.is_multiple_of(256));
    let stream = rig.stream();
    rig.fill(&stream, pinned, Pattern::U8(9));
    let there_end = Endpoint::Device { address: there.address, ordinal: 1 };
    rig.copy(&stream, &CopyDescriptor::linear(Endpoint::Host(pinned.host), there_end, 256, origin()));
    rig.copy(&stream, &CopyDescriptor::linear(there_end, rig.endpoint(back), 256, origin()));
    rig.finish(&stream).unwrap();
    assert!(bytes(&back).iter().all(|&byte| byte == 9));
    rig.free(pinned);
    rig.free(back);
    // SAFETY: its copies are complete.
    unsafe { rig.host.free(&second, there) }.unwrap();
}

#[test]
fn a_launch_runs_every_thread_of_every_block_once() {
    let rig = Rig::threads(4);
    let stream = rig.stream();
    let (grid, block) = ([7, 5, 3], [4, 3, 2]);
    let threads = 7 * 5 * 3 * 4 * 3 * 2;
    let memory = rig.allocate(4 * threads);
    rig.fill(&stream, memory, Pattern::U32(0));
    let function = rig.load(entry("count", |thread, parameters| {
        let flat = |[x, y, z]: [u32; 3], [w, h, _]: [u32; 3]| (x + w * (y + h * z)) as usize;
        let index = flat(thread.block, thread.grid_size) * 24 + flat(thread.thread, thread.block_size);
        let start: *const AtomicU32 = std::ptr::with_exposed_provenance(parameter(parameters) as usize);
        word(start, index).fetch_add(1, Ordering::Relaxed);
    }));
    let mut address = memory.address.0;
    let pointers = [(&raw mut address).cast()];
    let layout = [ParameterLayout { offset: 0, bytes: 8 }];
    // SAFETY: as for `Rig::launch`.
    unsafe { rig.host.launch(&stream, &function, &LaunchDescriptor::new(Geometry::new(grid, block), &pointers, &layout, origin())) }
        .unwrap();
    rig.finish(&stream).unwrap();
    assert!(bytes(&memory).chunks(4).all(|word| word == [1, 0, 0, 0]));
    rig.free(memory);
}

/// Each round every thread adds its neighbour's value of the round before; `None` ends a thread early.
fn neighbours(rounds: u32, ends_early: impl Fn(u32) -> bool + Send + Sync + 'static) -> HostEntry {
    entry("neighbours", move |thread, parameters| {
        let (me, count) = (thread.thread[0], thread.block_size[0]);
        if ends_early(me) {
            return;
        }
        let word = |index: u32| word(thread.shared.cast(), index as usize);
        word(me).store(0, Ordering::Relaxed);
        for round in 0..rounds {
            thread.barrier.wait();
            let seen = word((me + 1) % count).load(Ordering::Relaxed);
            assert!(ends_early((me + 1) % count) || seen == round, "thread {me} saw {seen} in round {round}");
            thread.barrier.wait();
            word(me).store(round + 1, Ordering::Relaxed);
        }
        let start: *const AtomicU32 = std::ptr::with_exposed_provenance(parameter(parameters) as usize);
        // SAFETY: the parameter is the address of one word.
        unsafe { &*start }.fetch_add(1, Ordering::Relaxed);
    })
}

fn count_neighbours(rig: &Rig, grid: u32, block: u32, entry: HostEntry) -> Result<u32> {
    let (stream, memory) = (rig.stream(), rig.allocate(4));
    rig.fill(&stream, memory, Pattern::U32(0));
    let function = rig.load(entry);
    rig.launch(&stream, &function, grid, block, memory.address.0)?;
    rig.finish(&stream)?;
    let count = u32::from_le_bytes(bytes(&memory).try_into().unwrap());
    rig.free(memory);
    Ok(count)
}

#[test]
fn a_thousand_threads_meet_at_every_barrier() {
    assert_eq!(count_neighbours(&Rig::threads(4), 8, 1024, neighbours(10, |_| false)).unwrap(), 8 * 1024);
}

#[test]
fn threads_that_ended_are_not_waited_for() {
    assert_eq!(count_neighbours(&Rig::threads(2), 3, 100, neighbours(5, |thread| thread.is_multiple_of(3))).unwrap(), 3 * 66);
}

#[test]
fn one_thread_meets_itself() {
    assert_eq!(count_neighbours(&Rig::threads(2), 5, 1, neighbours(3, |_| false)).unwrap(), 5);
}

#[test]
fn blocks_run_in_parallel() {
    let rig = Rig::threads(2);
    let stream = rig.stream();
    let met = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(Gate::new());
    let (meet, open) = (Arc::clone(&met), Arc::clone(&gate));
    let function = rig.load(entry("meet", move |_, _| match meet.fetch_add(1, Ordering::Relaxed) {
        0 => assert!(open.wait()),
        _ => open.open(),
    }));
    rig.launch(&stream, &function, 2, 1, 0).unwrap();
    rig.finish(&stream).unwrap();
    assert!(gate.is_open());
}

#[test]
fn parameters_are_copied_before_the_launch_returns() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    let (send, receive) = mpsc::channel();
    let function = rig.load(entry("send", move |_, parameters| send.send(parameter(parameters)).unwrap()));
    let gate = rig.hold(&stream);
    for value in 0..3 {
        rig.launch(&stream, &function, 1, 1, value).unwrap();
    }
    gate.open();
    rig.finish(&stream).unwrap();
    assert_eq!(receive.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn blocked_kernels_do_not_stop_other_streams() {
    let rig = Rig::threads(3);
    let gate = Arc::new(Gate::new());
    let hold = Arc::clone(&gate);
    let blocked = rig.load(entry("blocked", move |thread, _| assert!(thread.block[0] == 0 || hold.wait())));
    // More streams than the pool has threads, and more blocks: every thread of the pool is held.
    let streams: Vec<_> = (0..8).map(|_| rig.stream()).collect();
    for stream in &streams {
        rig.launch(stream, &blocked, 16, 1, 0).unwrap();
    }
    assert_eq!(count_neighbours(&rig, 32, 64, neighbours(2, |_| false)).unwrap(), 32 * 64);
    gate.open();
    streams.iter().for_each(|stream| rig.finish(stream).unwrap());
}

/// Counts how often it is dropped.
struct Owned(Arc<AtomicU32>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_poisons_the_device_and_drops_what_waits() {
    let rig = Rig::threads(2);
    let (stream, other) = (rig.stream(), rig.stream());
    let memory = rig.allocate(16);
    let drops = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&drops);
    let function = rig.load(entry("faulty", move |thread, _| {
        let _owned = Owned(Arc::clone(&counted));
        thread.barrier.wait();
        assert!(thread.thread[0] != 5, "index {} is bad", 5);
        thread.barrier.wait();
    }));
    let gate = rig.hold(&stream);
    rig.launch(&stream, &function, 1, 64, 0).unwrap();
    let (event, owned) = (rig.event(), Owned(Arc::clone(&drops)));
    rig.call(&stream, move || drop(owned));
    rig.record(&stream, &event);
    rig.wait_event(&other, &event);
    gate.open();
    let cause = is_poisoned(rig.host.event_wait(&event));
    assert_eq!(cause, "kernel `faulty` panicked in thread [5, 0, 0] of block [0, 0, 0]: index 5 is bad");
    for answer in [
        rig.finish(&other),
        rig.launch(&stream, &function, 1, 1, 0),
        rig.host.event_query(&event).map(|_| ()),
        rig.host.stream_create(&rig.device, &StreamDescriptor::default()).map(|_| ()),
        // SAFETY: nothing uses it any more.
        unsafe { rig.host.free(&rig.device, memory) },
        // SAFETY: a function that does nothing.
        unsafe { rig.host.stream_host_function(&stream, HostFunction::new(|| ())) },
    ] {
        assert_eq!(is_poisoned(answer), cause);
    }
    // The worker has dropped all when the last owner of the count is this test and the kernel.
    drop(stream);
    let patience = std::time::Instant::now();
    while drops.load(Ordering::Relaxed) < 65 && patience.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    assert_eq!(drops.load(Ordering::Relaxed), 65, "64 threads and one host function");
}

#[test]
fn a_host_function_that_panics_poisons_the_device() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    rig.call(&stream, || panic!("no"));
    assert_eq!(is_poisoned(rig.finish(&stream)), "a host function panicked: no");
}

#[test]
fn a_panic_stops_the_other_blocks_of_a_launch() {
    let rig = Rig::threads(4);
    let stream = rig.stream();
    let function = rig.load(entry("faulty", |thread, _| assert!(thread.block[0] != 1000)));
    rig.launch(&stream, &function, u32::MAX >> 1, 32, 0).unwrap();
    assert!(is_poisoned(rig.finish(&stream)).contains("of block [1000, 0, 0]"));
}

#[test]
fn a_fault_is_met_even_if_another_block_never_ends() {
    let rig = Rig::threads(2);
    let stream = rig.stream();
    let gate = Arc::new(Gate::new());
    let (hold, first) = (Arc::clone(&gate), AtomicBool::new(true));
    let function = rig.load(entry("faulty", move |_, _| {
        if first.swap(false, Ordering::Relaxed) {
            let _ = hold.wait();
        } else {
            panic!("no")
        }
    }));
    rig.launch(&stream, &function, 2, 1, 0).unwrap();
    let event = rig.event();
    rig.record(&stream, &event);
    assert!(is_poisoned(rig.host.event_wait(&event)).contains("no"));
    assert!(!gate.is_open());
    gate.open();
}

#[test]
fn a_fault_reaches_devices_that_wait_for_it_and_no_others() {
    let rig = Rig::new(&HostConfig::new(3));
    let on = |ordinal| Rig { host: rig.host.clone(), device: rig.host.device_open(ordinal).unwrap() };
    let (waiting, bystander) = (on(1), on(2));
    let (a, b, c) = (rig.stream(), waiting.stream(), bystander.stream());
    let function = rig.load(entry("faulty", |_, _| panic!("no")));
    let event = rig.event();
    // a: [gate, fault, record]   b: [wait]   c: []
    let gate = rig.hold(&a);
    rig.launch(&a, &function, 1, 1, 0).unwrap();
    rig.record(&a, &event);
    waiting.wait_event(&b, &event);
    let after = waiting.event();
    waiting.record(&b, &after);
    gate.open();
    assert!(is_poisoned(waiting.host.event_wait(&after)).contains("device 0 failed"));
    bystander.call(&c, || ());
    bystander.finish(&c).unwrap();
}

#[test]
fn memory_beyond_the_limit_is_refused_with_the_true_figures() {
    let rig = Rig::new(&HostConfig::new(2).with_memory(1 << 20));
    let half = rig.allocate(1 << 19);
    let error = rig.host.allocate(&rig.device, &AllocationDescriptor::new((1 << 19) + 1, MemoryKind::Device)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::OutOfMemory { requested: (1 << 19) + 1, free: 1 << 19, total: 1 << 20, held: 0 });
    assert!(rig.host.allocate(&rig.device, &AllocationDescriptor::new(u64::MAX, MemoryKind::Device)).is_err());
    let error = rig.host.allocate(&rig.device, &AllocationDescriptor::new(u64::MAX, MemoryKind::Pinned)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Overflow { .. }));
    assert_eq!(rig.host.memory_info(&rig.host.device_open(1).unwrap()).unwrap(), MemoryInfo { free: 1 << 20, total: 1 << 20 });
    rig.free(half);
    assert_eq!(rig.host.memory_info(&rig.device).unwrap().free, 1 << 20);
}

#[test]
fn fresh_memory_is_poisoned_and_aligned() {
    let rig = Rig::new(&HostConfig::default());
    let memory = rig.allocate(1000);
    assert!(bytes(&memory).iter().all(|&byte| byte == POISON));
    assert_eq!(memory.address.0 % 256, 0);
    assert_eq!(memory.host.addr() as u64, memory.address.0);
    rig.free(memory);
}

#[test]
fn a_missing_function_names_those_there_are() {
    let rig = Rig::new(&HostConfig::default());
    let entries = [entry("one", |_, _| ()), entry("two", |_, _| ())];
    // SAFETY: well formed.
    let module = unsafe { rig.host.module_load(&rig.device, &Image::Host(&entries)) }.unwrap();
    let error = rig.host.function(&module, "three").unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NoSuchFunction { name: "three".into(), present: vec!["one".into(), "two".into()] });
    let function = rig.host.function(&module, "two").unwrap();
    let info = rig.host.function_info(&function).unwrap();
    assert_eq!(info.parameters.as_deref(), Some(&[ParameterLayout { offset: 0, bytes: 8 }][..]));
    assert_eq!((info.max_block_threads, info.static_shared_bytes, info.max_dynamic_shared_bytes), (1024, 4096, (227 << 10) - 4096));
    assert_eq!(rig.host.occupancy(&function, 256, 0).unwrap(), 8);
    assert_eq!(rig.host.occupancy(&function, 32, 100 << 10).unwrap(), 2);
    assert_eq!(rig.host.occupancy(&function, 2048, 0).unwrap(), 0);
    // SAFETY: it is refused.
    let error = unsafe { rig.host.module_load(&rig.device, &Image::Ptx(b"")) }.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSuchForm { .. }));
}

#[test]
fn what_is_hidden_or_missing_is_unsupported() {
    let rig = Rig::new(&HostConfig::new(2).without(Feature::PinnedMemory).without(Feature::HostFunctions).with_peers(|_, _| false));
    let second = rig.host.device_open(1).unwrap();
    let stream = rig.stream();
    let dropped = Arc::new(AtomicU32::new(0));
    let owned = Owned(Arc::clone(&dropped));
    let answers = [
        (rig.host.allocate(&rig.device, &AllocationDescriptor::new(1, MemoryKind::Pinned)).map(|_| ()), Feature::PinnedMemory),
        // SAFETY: it is refused.
        (unsafe { rig.host.stream_host_function(&stream, HostFunction::new(move || drop(owned))) }, Feature::HostFunctions),
        (rig.host.peer_enable(&rig.device, &second), Feature::PeerAccess),
        (rig.host.graph_create(&rig.device).map(|_| ()), Feature::Graphs),
        (rig.host.stream_create(&rig.device, &StreamDescriptor::legacy()).map(|_| ()), Feature::LegacyStream),
        // SAFETY: it is refused.
        (unsafe { rig.host.capture_begin(&stream) }, Feature::Capture),
    ];
    let features = rig.host.device_info(&rig.device).unwrap().features;
    for (answer, feature) in answers {
        assert_eq!(answer.unwrap_err().kind(), &ErrorKind::Unsupported { feature });
        assert!(!features.contains(feature));
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    rig.host.peer_enable(&rig.device, &rig.device).unwrap();
}

#[test]
fn a_pair_without_peer_access_is_named() {
    let rig = Rig::new(&HostConfig::new(2).with_peers(|from, to| (from, to) == (1, 0)));
    let second = rig.host.device_open(1).unwrap();
    rig.host.peer_enable(&second, &rig.device).unwrap();
    assert!(!rig.host.peer_possible(&rig.device, &second).unwrap());
    assert!(rig.host.device_open(2).is_err_and(|error| error.kind() == &ErrorKind::NoSuchDevice { ordinal: 2, count: 2 }));
    let rig = Rig::new(&HostConfig::new(3).with_peers(|from, to| from + to == 1));
    let error = rig.host.peer_enable(&rig.device, &rig.host.device_open(2).unwrap()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NoPeerAccess { from: 0, to: 2 });
}

#[test]
fn shared_memory_beyond_the_limit_is_refused() {
    let rig = Rig::new(&HostConfig::default());
    let (stream, function) = (rig.stream(), rig.load(entry("any", |_, _| ())));
    let mut geometry = Geometry::new([1; 3], [1; 3]);
    geometry.shared_bytes = 227 << 10;
    // SAFETY: it is refused.
    let error = unsafe { rig.host.launch(&stream, &function, &LaunchDescriptor::new(geometry, &[], &[], origin())) }.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { asked, limit, .. } if *asked == (231 << 10) && *limit == 227 << 10));
    rig.finish(&stream).unwrap();
}

#[test]
fn everything_can_be_dropped_with_work_in_flight() {
    let rig = Rig::threads(2);
    let stream = rig.stream();
    let (send, receive) = mpsc::channel();
    let function = rig.load(entry("nothing", |_, _| ()));
    let gate = rig.hold(&stream);
    rig.launch(&stream, &function, 100, 100, 0).unwrap();
    rig.call(&stream, move || send.send(()).unwrap());
    drop((stream, function, rig));
    assert!(receive.try_recv().is_err());
    gate.open();
    receive.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_stream_works_again_after_its_worker_left() {
    let rig = Rig::new(&HostConfig::default());
    let stream = rig.stream();
    let (send, receive) = mpsc::channel();
    for _ in 0..2 {
        let send = send.clone();
        rig.call(&stream, move || send.send(std::thread::current().id()).unwrap());
        rig.finish(&stream).unwrap();
        std::thread::sleep(Duration::from_millis(1200));
    }
    let [first, second] = receive.try_iter().collect::<Vec<_>>().try_into().unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_full_queue_makes_whoever_submits_wait() {
    use super::queue::FULL;
    let rig = Rig::threads(1);
    let stream = Arc::new(rig.stream());
    let gate = rig.hold(&stream);
    let (done, submitted) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let submitter = {
        let (host, stream, done, submitted) = (rig.host.clone(), Arc::clone(&stream), Arc::clone(&done), Arc::clone(&submitted));
        std::thread::spawn(move || {
            for _ in 0..FULL + 100 {
                let done = Arc::clone(&done);
                let function = HostFunction::new(move || {
                    done.fetch_add(1, Ordering::Relaxed);
                });
                // SAFETY: counting does not unwind.
                unsafe { host.stream_host_function(&stream, function) }.unwrap();
                submitted.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    // queue: [gate runs] [FULL counts]; the submitter holds the next one
    while stream.queued() < FULL {
        std::thread::yield_now();
    }
    assert!(submitted.load(Ordering::Relaxed) as usize <= FULL + 1);
    gate.open();
    submitter.join().unwrap();
    let event = rig.event();
    // SAFETY: the event is this test's own.
    unsafe { rig.host.event_record(&stream, &event) }.unwrap();
    rig.host.event_wait(&event).unwrap();
    assert_eq!(done.load(Ordering::Relaxed) as usize, FULL + 100);
}
