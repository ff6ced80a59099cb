//! The adversarial mode: what forces what, and in which orders.

use super::*;
use parking_lot::Mutex;
use std::collections::BTreeSet;

const SEEDS: u64 = 64;

fn adversarial(seed: u64) -> Rig {
    Rig::new(&HostConfig::default().adversarial(seed))
}

/// What ran, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    fn note(&self, rig: &Rig, stream: &Stream, number: u32) {
        let log = self.clone();
        rig.call(stream, move || log.0.lock().push(number));
    }

    fn taken(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Makes `stream` wait for all that the others were given.
fn join(rig: &Rig, stream: &Stream, others: &[Stream]) {
    for other in others {
        let event = rig.event();
        rig.record(other, &event);
        rig.wait_event(stream, &event);
    }
}

/// The order in which three streams of five tasks each run; a task's number is its stream's times ten and its own.
fn order(seed: u64) -> Vec<u32> {
    let (rig, log) = (adversarial(seed), Log::default());
    let streams = [rig.stream(), rig.stream(), rig.stream()];
    for task in 0..5 {
        for (stream, number) in streams.iter().zip(0..) {
            log.note(&rig, stream, 10 * number + task);
        }
    }
    let last = rig.stream();
    join(&rig, &last, &streams);
    rig.finish(&last).unwrap();
    log.taken()
}

/// Writes 1 on one stream and copies it on another, which waits for the first or forgets to; answers what was copied.
fn handed_over(seed: u64, waits: bool) -> u8 {
    let rig = adversarial(seed);
    let (writer, reader) = (rig.stream(), rig.stream());
    let (from, to) = (rig.allocate(16), rig.allocate(16));
    rig.fill(&writer, from, Pattern::U8(1));
    if waits {
        join(&rig, &reader, std::slice::from_ref(&writer));
    }
    rig.copy(&reader, &CopyDescriptor::linear(rig.endpoint(from), rig.endpoint(to), 16, origin()));
    rig.finish(&reader).unwrap();
    let copied = bytes(&to)[0];
    rig.finish(&writer).unwrap();
    rig.free(from);
    rig.free(to);
    copied
}

/// The order of the threads of a launch, as block times 100 and thread.
fn threads(seed: u64, grid: u32, block: u32, rounds: u32) -> Vec<u32> {
    let (rig, log) = (adversarial(seed), Log::default());
    let (stream, noted) = (rig.stream(), log.clone());
    let function = rig.load(entry("note", move |thread, _| {
        for _ in 0..rounds {
            thread.barrier.wait();
            noted.0.lock().push(100 * thread.block[0] + thread.thread[0]);
        }
    }));
    rig.launch(&stream, &function, grid, block, 0).unwrap();
    rig.finish(&stream).unwrap();
    log.taken()
}

#[test]
fn the_same_seed_gives_the_same_order() {
    for seed in 0..8 {
        assert_eq!(order(seed), order(seed));
    }
}

#[test]
fn other_seeds_give_other_orders_and_each_keeps_its_streams_in_order() {
    let orders: BTreeSet<_> = (0..SEEDS).map(order).collect();
    assert!(orders.len() as u64 > SEEDS / 2, "{} orders", orders.len());
    for order in &orders {
        for stream in 0..3 {
            let tasks: Vec<_> = order.iter().filter(|&&number| number / 10 == stream).map(|number| number % 10).collect();
            assert_eq!(tasks, [0, 1, 2, 3, 4]);
        }
    }
    // Extremes come too: one stream is done before another starts.
    let first_is_last = |order: &Vec<u32>| order.iter().rposition(|number| number / 10 != 0) < order.iter().position(|&number| number == 0);
    assert!(orders.iter().any(first_is_last));
}

#[test]
fn dependent_work_is_always_ordered() {
    for seed in 0..SEEDS {
        let (rig, log) = (adversarial(seed), Log::default());
        let streams = [rig.stream(), rig.stream(), rig.stream()];
        // Each stream in turn waits for the one before.
        for number in 0..30 {
            let [before, now] = [number + 2, number].map(|number| &streams[number as usize % 3]);
            join(&rig, now, std::slice::from_ref(before));
            log.note(&rig, now, number);
        }
        rig.finish(&streams[2]).unwrap();
        assert_eq!(log.taken(), (0..30).collect::<Vec<_>>(), "with seed {seed}");
    }
}

#[test]
fn a_missing_wait_shows_and_one_that_is_there_holds() {
    let wrong = (0..SEEDS).filter(|&seed| handed_over(seed, false) != 1).count() as u64;
    assert!(wrong > SEEDS * 3 / 4, "{wrong} of {SEEDS}");
    assert!((0..SEEDS).all(|seed| handed_over(seed, true) == 1));
}

#[test]
fn work_that_a_wait_does_not_need_seldom_comes_early() {
    let comes_early = |seed: &u64| {
        let rig = adversarial(*seed);
        let (needed, other, memory) = (rig.stream(), rig.stream(), rig.allocate(16));
        rig.fill(&other, memory, Pattern::U8(1));
        rig.call(&needed, || ());
        rig.finish(&needed).unwrap();
        let came = bytes(&memory)[0] == 1;
        rig.finish(&other).unwrap();
        rig.free(memory);
        came
    };
    let early = (0..SEEDS).filter(comes_early).count() as u64;
    assert!(0 < early && early < SEEDS / 3, "{early} of {SEEDS}");
}

#[test]
fn a_wait_forces_what_came_before_the_point_and_no_more() {
    for seed in 0..SEEDS {
        let (rig, log) = (adversarial(seed), Log::default());
        let (stream, event) = (rig.stream(), rig.event());
        log.note(&rig, &stream, 0);
        rig.record(&stream, &event);
        log.note(&rig, &stream, 1);
        assert!(log.taken().is_empty());
        rig.host.event_wait(&event).unwrap();
        assert_eq!(log.taken(), [0], "a host function never comes early");
        // The wait of another stream keeps the old point.
        let other = rig.stream();
        rig.wait_event(&other, &event);
        rig.record(&stream, &event);
        rig.finish(&other).unwrap();
        assert!(log.taken().is_empty());
        rig.host.event_wait(&event).unwrap();
        assert_eq!(log.taken(), [1]);
    }
}

#[test]
fn asking_an_event_again_and_again_forces_it() {
    let mut asked = BTreeSet::new();
    for seed in 0..SEEDS {
        let (rig, log) = (adversarial(seed), Log::default());
        let (stream, event) = (rig.stream(), rig.event());
        log.note(&rig, &stream, 0);
        rig.record(&stream, &event);
        let times = (0..).find(|_| rig.host.event_query(&event).unwrap()).unwrap();
        assert_eq!(log.taken(), [0]);
        asked.insert(times);
    }
    assert!(asked.len() > 4 && asked.last() <= Some(&8), "{asked:?}");
}

#[test]
fn a_closed_gate_holds_only_what_waits_for_it() {
    for seed in 0..SEEDS {
        let (rig, log) = (adversarial(seed), Log::default());
        let (held, free) = (rig.stream(), rig.stream());
        let gate = rig.hold(&held);
        log.note(&rig, &held, 0);
        log.note(&rig, &free, 1);
        rig.finish(&free).unwrap();
        assert_eq!(log.taken(), [1]);
        gate.open();
        rig.finish(&held).unwrap();
        assert_eq!(log.taken(), [0]);
    }
}

#[test]
fn a_wait_may_depend_on_a_gate_that_another_thread_opens() {
    let (rig, log) = (adversarial(1), Log::default());
    let (held, free, last) = (rig.stream(), rig.stream(), rig.stream());
    let gate = rig.hold(&held);
    log.note(&rig, &held, 0);
    log.note(&rig, &free, 1);
    let passed = rig.event();
    rig.record(&free, &passed);
    join(&rig, &last, &[held, free]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What does not wait for the gate passes it.
            rig.host.event_wait(&passed).unwrap();
            assert!(!gate.is_open());
            gate.open();
        });
        rig.finish(&last).unwrap();
    });
    assert_eq!(log.taken(), [1, 0]);
}

#[test]
fn work_that_no_call_forces_runs_when_the_host_is_quiet() {
    let rig = adversarial(0);
    let (a, b) = (rig.stream(), rig.stream());
    let (send, receive) = mpsc::channel();
    rig.call(&a, move || send.send(()).unwrap());
    receive.recv_timeout(Duration::from_secs(10)).unwrap();
    // The wait needs `b`, and that needs `a`, but nothing says so.
    let gate = Arc::new(Gate::new());
    let (open, hold) = (Arc::clone(&gate), Arc::clone(&gate));
    rig.call(&a, move || open.open());
    rig.call(&b, move || assert!(hold.wait()));
    rig.finish(&b).unwrap();
}

#[test]
fn what_a_dropped_stream_holds_still_runs() {
    let rig = adversarial(3);
    let (a, b) = (rig.stream(), rig.stream());
    let (send, receive) = mpsc::channel();
    for (stream, number) in [(&a, 0), (&b, 1)] {
        let send = send.clone();
        rig.call(stream, move || send.send(number).unwrap());
        join(&rig, &b, std::slice::from_ref(&a));
    }
    drop((b, rig));
    let next = || receive.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!([next(), next()], [0, 1]);
    drop(a);
}

#[test]
fn a_full_stream_lets_its_work_pass() {
    use crate::host::queue::FULL;
    let rig = adversarial(5);
    let (stream, done) = (rig.stream(), Arc::new(AtomicU32::new(0)));
    for number in 0..=FULL {
        let done = Arc::clone(&done);
        assert!(number == FULL || done.load(Ordering::Relaxed) == 0);
        rig.call(&stream, move || {
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(done.load(Ordering::Relaxed) as usize, FULL);
    rig.finish(&stream).unwrap();
    assert_eq!(done.load(Ordering::Relaxed) as usize, FULL + 1);
}

#[test]
fn faults_and_panics_poison_as_in_the_ordinary_mode() {
    for seed in 0..8 {
        let rig = Rig::new(&HostConfig::new(2).adversarial(seed));
        let second = Rig { host: rig.host.clone(), device: rig.host.device_open(1).unwrap() };
        let (stream, waiting, bystander) = (rig.stream(), second.stream(), second.stream());
        let function = rig.load(entry("faulty", |thread, _| assert!(thread.thread[0] != 5, "index {} is bad", 5)));
        rig.launch(&stream, &function, 1, 64, 0).unwrap();
        let (drops, event) = (Arc::new(AtomicU32::new(0)), rig.event());
        let owned = Owned(Arc::clone(&drops));
        rig.call(&stream, move || drop(owned));
        rig.record(&stream, &event);
        second.call(&bystander, || ());
        second.finish(&bystander).unwrap();
        second.wait_event(&waiting, &event);
        assert!(is_poisoned(second.finish(&waiting)).contains("device 0 failed"));
        assert!(is_poisoned(rig.host.event_wait(&event)).contains("index 5 is bad"));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        let rig = adversarial(seed);
        let stream = rig.stream();
        rig.call(&stream, || panic!("no"));
        assert_eq!(is_poisoned(rig.finish(&stream)), "a host function panicked: no");
    }
}

#[test]
fn two_devices_are_ordered_by_events_and_only_by_them() {
    for seed in 0..SEEDS {
        let first = Rig::new(&HostConfig::new(2).adversarial(seed));
        let second = Rig { host: first.host.clone(), device: first.host.device_open(1).unwrap() };
        let (a, b, log) = (first.stream(), second.stream(), Log::default());
        log.note(&first, &a, 0);
        let event = first.event();
        first.record(&a, &event);
        log.note(&second, &b, 1);
        second.wait_event(&b, &event);
        log.note(&second, &b, 2);
        log.note(&first, &a, 3);
        second.finish(&b).unwrap();
        let ran = log.taken();
        assert!(ran == [0, 1, 2] || ran == [1, 0, 2], "{ran:?}");
    }
}

#[test]
fn every_thread_runs_once_in_a_random_order() {
    let all: Vec<u32> = (0..8).flat_map(|block| (0..32).map(move |thread| 100 * block + thread)).collect();
    let orders: BTreeSet<_> = (0..8).map(|seed| threads(seed, 8, 32, 1)).collect();
    assert_eq!(orders.len(), 8);
    for mut order in orders {
        assert_ne!(order, all);
        order.sort_unstable();
        assert_eq!(order, all);
    }
    assert_eq!(threads(9, 8, 32, 2), threads(9, 8, 32, 2));
}

#[test]
fn threads_leave_each_barrier_in_another_order() {
    let order = threads(4, 1, 64, 2);
    let (first, second) = order.split_at(64);
    assert_ne!(first, second);
    assert_eq!(first.iter().collect::<BTreeSet<_>>(), second.iter().collect::<BTreeSet<_>>());
    assert_eq!(count_neighbours(&adversarial(7), 8, 1024, neighbours(10, |thread| thread.is_multiple_of(3))).unwrap(), 8 * 682);
}

#[test]
fn freed_memory_shows_its_pattern() {
    let rig = adversarial(0);
    for kind in [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Unified] {
        let memory = rig.host.allocate(&rig.device, &AllocationDescriptor::new(1000, kind)).unwrap();
        let free = rig.host.memory_info(&rig.device).unwrap().free;
        // A use that nobody waited for.
        let (stream, seen) = (rig.stream(), rig.allocate(1000));
        let from = Endpoint::Device { address: memory.address, ordinal: 0 };
        rig.copy(&stream, &CopyDescriptor::linear(from, rig.endpoint(seen), 1000, origin()));
        rig.free(memory);
        rig.finish(&stream).unwrap();
        assert!(bytes(&seen).iter().all(|&byte| byte == FREED));
        rig.free(seen);
        let of_device = u64::from(kind != MemoryKind::Pinned) * 1000;
        assert_eq!(rig.host.memory_info(&rig.device).unwrap().free, free + of_device);
    }
}

#[test]
fn a_shuffle_meets_every_number_once() {
    use crate::host::adversary::Shuffle;
    let mut random = fastrand::Rng::with_seed(0);
    for count in (1..50).chain([1000, 1024]) {
        let shuffle = Shuffle::new(&mut random, count);
        assert_eq!((0..count).map(|number| shuffle.at(number)).collect::<BTreeSet<_>>(), (0..count).collect());
    }
    let shuffle = Shuffle::new(&mut random, u64::MAX);
    assert_ne!(shuffle.at(u64::MAX - 1), shuffle.at(u64::MAX - 2));
}
