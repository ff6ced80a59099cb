//! A backend for tests that runs nothing and knows, exactly, what each submission comes after. It judges every conflicting pair.

#![allow(unsafe_code, reason = "implements the contract")]

use crate::backend::*;
use crate::{Error, ErrorKind, Result};
use std::ops::{BitOrAssign, Range};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Submissions per program, at most.
const MOST: usize = 512;

/// A set of submissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Works([u64; MOST / 64]);

impl Works {
    fn add(&mut self, work: usize) {
        self.0[work / 64] |= 1 << (work % 64);
    }

    fn has(&self, work: usize) -> bool {
        self.0[work / 64] >> (work % 64) & 1 == 1
    }

    fn within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine & !theirs == 0)
    }
}

impl BitOrAssign for Works {
    fn bitor_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Launch,
    StreamWait,
    Record,
    HostWait,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Per queue, all that its next submission comes after.
    tails: Vec<Works>,
    /// What was submitted: what it touches and what it comes after.
    works: Vec<(Vec<Access>, Works)>,
    /// Per event, what was submitted before its record.
    events: Vec<Works>,
    /// What the host knows to be complete.
    done: Works,
    /// Host accesses in progress.
    host: Vec<(usize, Access)>,
    next: u64,
    /// The next such call fails.
    pub(crate) fail: Option<Call>,
    /// Queries answer from this.
    coin: u64,
    pub(crate) violation: Option<String>,
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) records: usize,
    pub(crate) waits: usize,
    pub(crate) host_waits: usize,
    pub(crate) launches: usize,
    pub(crate) events_created: usize,
    pub(crate) live_allocations: usize,
    pub(crate) live_streams: usize,
}

fn conflict(one: &Access, other: &Access) -> bool {
    let overlap = one.address.0 < other.address.0 + other.bytes && other.address.0 < one.address.0 + one.bytes;
    overlap && one.mode.conflicts(other.mode)
}

impl State {
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(text());
        }
    }

    fn violate(&mut self, text: String) {
        self.note(|| format!("    VIOLATION: {text}"));
        self.violation.get_or_insert(text);
    }

    fn fails(&mut self, call: Call) -> Result<()> {
        if self.fail == Some(call) {
            self.fail = None;
            self.note(|| format!("    refused: {call:?}"));
            return Err(Error::new(ErrorKind::Driver { what: "injected".into() }, "log"));
        }
        Ok(())
    }

    /// Something was submitted to a queue: every conflicting submission must come before it.
    pub(crate) fn work(&mut self, queue: usize, accesses: &[Access]) {
        let mut after = self.tails[queue];
        after |= self.done;
        let work = self.works.len();
        assert!(work < MOST, "the program is too long for the log");
        for other in 0..work {
            if !after.has(other) && self.works[other].0.iter().any(|one| accesses.iter().any(|two| conflict(one, two))) {
                let text =
                    format!("work {work} on queue {queue} is not ordered after work {other}: {accesses:?} and {:?}", self.works[other].0);
                self.violate(text);
            }
        }
        if let Some((_, open)) = self.host.iter().find(|(_, open)| accesses.iter().any(|one| conflict(one, open))) {
            let text = format!("work {work} on queue {queue} during a host access: {accesses:?} and {open:?}");
            self.violate(text);
        }
        self.note(|| format!("    work {work} on queue {queue}: {accesses:?}"));
        self.works.push((accesses.to_vec(), after));
        after.add(work);
        self.tails[queue] = after;
    }

    /// The host begins to use memory: every conflicting submission must be complete.
    pub(crate) fn host_begin(&mut self, access: Access) -> usize {
        for work in 0..self.works.len() {
            if !self.done.has(work) && self.works[work].0.iter().any(|one| conflict(one, &access)) {
                let text = format!("host access {access:?} while work {work} may still run: {:?}", self.works[work].0);
                self.violate(text);
            }
        }
        self.note(|| format!("    host access {access:?}"));
        self.next += 1;
        self.host.push((self.next as usize, access));
        self.next as usize
    }

    pub(crate) fn host_end(&mut self, id: usize) {
        self.host.retain(|(known, _)| *known != id);
    }

    fn must_be_done(&mut self, touches: impl Fn(&Access) -> bool, what: &str) {
        for work in 0..self.works.len() {
            if !self.done.has(work) && self.works[work].0.iter().any(&touches) {
                self.violate(format!("{what} while work {work} may still run"));
            }
        }
    }
}

/// The backend. Cloning gives another handle.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    devices: u32,
    state: Arc<Mutex<State>>,
}

impl Log {
    pub(crate) fn new(devices: u32, coin: u64) -> Self {
        Self { devices, state: Arc::new(Mutex::new(State { next: 0x1000, coin: coin | 1, ..State::default() })) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Other threads of a model may run here.
fn others_run() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    crate::sync::schedule::step();
}

fn unsupported<T>(feature: Feature) -> Result<T> {
    Err(Error::unsupported(feature, "log"))
}

// SAFETY: device memory has no host address, and nothing runs; what is promised of order is what the tests check.
unsafe impl Backend for Log {
    type Device = u32;
    type Stream = usize;
    type Event = usize;
    type Module = ();
    type Function = ();
    type Graph = ();
    type ExecutableGraph = ();

    fn name(&self) -> &'static str {
        "log"
    }
    fn device_count(&self) -> Result<u32> {
        Ok(self.devices)
    }
    fn device_open(&self, ordinal: u32) -> Result<u32> {
        Ok(ordinal)
    }
    fn device_info(&self, _: &u32) -> Result<DeviceInfo> {
        let mut info = DeviceInfo::new("log", "log");
        info.features = [Feature::PeerAccess, Feature::PinnedMemory, Feature::HostFunctions].into_iter().collect();
        info.memory_bytes = 1 << 40;
        Ok(info)
    }
    fn memory_info(&self, _: &u32) -> Result<MemoryInfo> {
        Ok(MemoryInfo { free: 1 << 39, total: 1 << 40 })
    }
    fn peer_possible(&self, _: &u32, _: &u32) -> Result<bool> {
        Ok(true)
    }
    fn peer_enable(&self, _: &u32, _: &u32) -> Result<()> {
        Ok(())
    }
    fn allocate(&self, _: &u32, descriptor: &AllocationDescriptor) -> Result<RawAllocation> {
        let mut state = self.state();
        let address = state.next.next_multiple_of(256);
        state.next = address + descriptor.bytes;
        state.live_allocations += 1;
        Ok(RawAllocation { address: DeviceAddress(address), host: std::ptr::null_mut(), bytes: descriptor.bytes, kind: descriptor.kind })
    }
    unsafe fn free(&self, _: &u32, memory: RawAllocation) -> Result<()> {
        let range: Range<u64> = memory.address.0..memory.address.0 + memory.bytes;
        let mut state = self.state();
        state.must_be_done(|access| range.contains(&access.address.0), "memory is freed");
        state.live_allocations -= 1;
        Ok(())
    }
    unsafe fn host_register(&self, _: &u32, _: *mut u8, _: u64) -> Result<RawAllocation> {
        unsupported(Feature::HostRegistration)
    }
    unsafe fn host_unregister(&self, _: &u32, _: RawAllocation) -> Result<()> {
        unsupported(Feature::HostRegistration)
    }
    fn stream_create(&self, _: &u32, _: &StreamDescriptor) -> Result<usize> {
        let mut state = self.state();
        state.tails.push(Works::default());
        state.live_streams += 1;
        Ok(state.tails.len() - 1)
    }
    unsafe fn stream_destroy(&self, queue: usize) -> Result<()> {
        let mut state = self.state();
        if !state.tails[queue].within(&state.done) {
            state.violate(format!("queue {queue} is destroyed while its work may still run"));
        }
        state.live_streams -= 1;
        Ok(())
    }
    fn stream_capture_state(&self, _: &usize) -> Result<CaptureState> {
        Ok(CaptureState::None)
    }
    unsafe fn stream_host_function(&self, queue: &usize, function: HostFunction) -> Result<()> {
        self.state().work(*queue, &[]);
        function.call();
        Ok(())
    }
    fn event_create(&self, _: &u32, _: &EventDescriptor) -> Result<usize> {
        let mut state = self.state();
        state.events.push(Works::default());
        state.events_created += 1;
        Ok(state.events.len() - 1)
    }
    unsafe fn event_destroy(&self, _: usize) -> Result<()> {
        Ok(())
    }
    unsafe fn event_record(&self, queue: &usize, event: &usize) -> Result<()> {
        let mut state = self.state();
        state.fails(Call::Record)?;
        let mut before = state.tails[*queue];
        before |= state.done;
        state.events[*event] = before;
        state.records += 1;
        state.note(|| format!("    record event {event} on queue {queue}"));
        Ok(())
    }
    unsafe fn stream_wait_event(&self, queue: &usize, event: &usize) -> Result<()> {
        let mut state = self.state();
        state.fails(Call::StreamWait)?;
        let before = state.events[*event];
        state.tails[*queue] |= before;
        state.waits += 1;
        state.note(|| format!("    queue {queue} waits for event {event}"));
        Ok(())
    }
    fn event_query(&self, event: &usize) -> Result<bool> {
        let mut state = self.state();
        state.coin ^= state.coin << 13;
        state.coin ^= state.coin >> 7;
        state.coin ^= state.coin << 17;
        if state.coin & 4 == 0 {
            return Ok(false);
        }
        let before = state.events[*event];
        state.done |= before;
        Ok(true)
    }
    fn event_wait(&self, event: &usize) -> Result<()> {
        let before = self.state().events[*event];
        others_run();
        {
            let mut state = self.state();
            state.fails(Call::HostWait)?;
            state.done |= before;
            state.host_waits += 1;
            state.note(|| format!("    the host waited for event {event}"));
        }
        others_run();
        Ok(())
    }
    fn event_elapsed(&self, _: &usize, _: &usize) -> Result<Duration> {
        unsupported(Feature::TimingEvents)
    }
    unsafe fn copy(&self, queue: &usize, descriptor: &CopyDescriptor<'_>) -> Result<()> {
        self.state().work(*queue, descriptor.origin.accesses);
        Ok(())
    }
    unsafe fn fill(&self, queue: &usize, descriptor: &FillDescriptor<'_>) -> Result<()> {
        self.state().work(*queue, descriptor.origin.accesses);
        Ok(())
    }
    unsafe fn prefetch(&self, _: &usize, _: &PrefetchDescriptor<'_>) -> Result<()> {
        unsupported(Feature::Prefetch)
    }
    unsafe fn launch(&self, queue: &usize, (): &(), descriptor: &LaunchDescriptor<'_>) -> Result<()> {
        let mut state = self.state();
        state.fails(Call::Launch)?;
        state.launches += 1;
        state.work(*queue, descriptor.origin.accesses);
        Ok(())
    }
    fn forms(&self, _: &u32) -> &'static [Form] {
        &[Form::Host]
    }
    fn compile(&self, _: &u32, _: &SourceDescriptor<'_>) -> Result<CompiledImage> {
        unsupported(Feature::RuntimeCompilation)
    }
    unsafe fn module_load(&self, _: &u32, _: &Image<'_>) -> Result<()> {
        Ok(())
    }
    unsafe fn module_unload(&self, (): ()) -> Result<()> {
        Ok(())
    }
    fn function(&self, (): &(), _: &str) -> Result<()> {
        Ok(())
    }
    fn function_info(&self, (): &()) -> Result<FunctionInfo> {
        Ok(FunctionInfo { max_block_threads: 1024, ..FunctionInfo::default() })
    }
    fn global(&self, (): &(), _: &str) -> Result<(DeviceAddress, u64)> {
        unsupported(Feature::Globals)
    }
    fn occupancy(&self, (): &(), _: u32, _: u32) -> Result<u32> {
        unsupported(Feature::Occupancy)
    }
    fn graph_create(&self, _: &u32) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    unsafe fn graph_add_kernel(&self, (): &(), (): &(), _: &LaunchDescriptor<'_>, _: &[u32]) -> Result<u32> {
        unsupported(Feature::Graphs)
    }
    unsafe fn graph_add_copy(&self, (): &(), _: &CopyDescriptor<'_>, _: &[u32]) -> Result<u32> {
        unsupported(Feature::Graphs)
    }
    unsafe fn graph_add_fill(&self, (): &(), _: &FillDescriptor<'_>, _: &[u32]) -> Result<u32> {
        unsupported(Feature::Graphs)
    }
    fn graph_instantiate(&self, (): &()) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    unsafe fn graph_update_kernel(&self, (): &(), _: u32, (): &(), _: &LaunchDescriptor<'_>) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    unsafe fn graph_update_copy(&self, (): &(), _: u32, _: &CopyDescriptor<'_>) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    unsafe fn graph_update_fill(&self, (): &(), _: u32, _: &FillDescriptor<'_>) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    unsafe fn graph_launch(&self, _: &usize, (): &(), _: Origin<'_>) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    fn graph_destroy(&self, (): ()) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    unsafe fn executable_destroy(&self, (): ()) -> Result<()> {
        unsupported(Feature::Graphs)
    }
    unsafe fn capture_begin(&self, _: &usize) -> Result<()> {
        unsupported(Feature::Capture)
    }
    unsafe fn capture_end(&self, _: &usize) -> Result<()> {
        unsupported(Feature::Capture)
    }
}
