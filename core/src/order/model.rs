//! Random programs over several streams, threads and two devices, on the real types, under random schedules: every lock is a point where
//! another thread may run. Any two conflicting operations must be ordered one way or the other, exactly (`log`); then every deliberate mistake
//! (`bugs`) must be caught.

#![allow(unsafe_code, reason = "abandons the stacks of deadlocked threads")]

use super::bugs::{Bug, with_bug};
use super::log::{Call, Log};
use super::program::{Touch, allocate, guard, launch, lend, refuse};
use crate::memory::Allocation;
use crate::stream::{Stream, StreamOptions};
use crate::sync::schedule;
use crate::{Device, Event, Runtime};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// Streams of a program: their first half on device 0, the others on device 1.
const STREAMS: usize = 4;
const ALLOCATIONS: usize = 3;
const EVENTS: usize = 2;

/// A small generator (xorshift64*, Marsaglia 2003, Vigna 2016): the same programs everywhere.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..5).for_each(|_| {
            random.next();
        });
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

#[derive(Clone, Debug)]
enum Op {
    Launch {
        stream: usize,
        touches: Vec<Touch>,
        fail: Option<Call>,
    },
    Guard {
        touch: Touch,
        fail: bool,
    },
    Lend {
        stream: usize,
        touch: Touch,
        fail: bool,
    },
    HostWait(usize),
    DeviceWait(usize),
    Checkpoint(usize),
    Trim(usize),
    /// Drops the allocation and takes a new one, for a stream or for anybody.
    Replace {
        allocation: usize,
        stream: usize,
        home: bool,
    },
    /// Drops the stream and makes a new one.
    Recycle(usize),
    Record {
        event: usize,
        stream: usize,
    },
    WaitFor {
        event: usize,
        stream: usize,
    },
    HostWaitEvent(usize),
}

fn touch(random: &mut Random) -> Touch {
    const RANGES: [(u64, u64); 10] = [(0, 8), (0, 8), (0, 4), (4, 8), (0, 2), (2, 6), (6, 8), (1, 5), (4, 6), (0, 6)];
    let (start, end) = RANGES[random.below(10)];
    Touch {
        allocation: random.below(ALLOCATIONS),
        start,
        end,
        mode: if random.one_in(2) { Touch::write(0, 0, 1).mode } else { Touch::read(0, 0, 1).mode },
    }
}

fn touches(random: &mut Random) -> Vec<Touch> {
    let mut touches: Vec<Touch> = Vec::new();
    for _ in 0..1 + random.below(3) {
        let one = touch(random);
        if !touches.iter().any(|other| other.conflicts(&one)) {
            touches.push(one);
        }
    }
    touches
}

/// `many` makes long use lists: narrow ranges, so that they are merged.
fn operation(random: &mut Random, streams: usize, simple: bool) -> Op {
    let stream = random.below(streams);
    match random.below(if simple { 60 } else { 110 }) {
        0..60 => {
            let fail = match random.below(14) {
                0 => Some(Call::StreamWait),
                1 => Some(Call::Launch),
                2 => Some(Call::Record),
                _ => None,
            };
            Op::Launch { stream, touches: touches(random), fail }
        }
        60..68 => Op::Guard { touch: touch(random), fail: random.one_in(4) },
        68..75 => Op::Lend { stream, touch: touch(random), fail: random.one_in(4) },
        75..80 => Op::HostWait(stream),
        80..82 => Op::DeviceWait(random.below(2)),
        82..84 => Op::Trim(random.below(2)),
        84..92 => Op::Replace { allocation: random.below(ALLOCATIONS), stream, home: random.one_in(2) },
        92..96 => Op::Recycle(stream),
        96..98 => Op::Checkpoint(stream),
        98..102 => Op::Record { event: random.below(EVENTS), stream },
        102..108 => Op::WaitFor { event: random.below(EVENTS), stream },
        _ => Op::HostWaitEvent(random.below(EVENTS)),
    }
}

/// What the threads share. Whoever uses a thing shares it, so that it is dropped when nobody does, as everywhere in Rust.
struct World {
    log: Log,
    devices: Vec<Device<Log>>,
    streams: Vec<RefCell<Rc<Stream<Log>>>>,
    allocations: Vec<RefCell<Arc<Allocation<Log>>>>,
    events: Vec<Event<Log>>,
    precise: bool,
}

impl World {
    fn new(seed: u64, precise: bool) -> Self {
        let log = Log::new(2, seed);
        let devices = Runtime::new(log.clone()).unwrap().devices().unwrap();
        let options = if precise { StreamOptions::new().precise() } else { StreamOptions::new() };
        let streams: Vec<_> = (0..STREAMS).map(|i| RefCell::new(Rc::new(devices[i / 2 % 2].stream_with(options).unwrap()))).collect();
        let allocations = (0..ALLOCATIONS).map(|i| RefCell::new(allocate(&streams[i].borrow(), false).unwrap())).collect();
        let events = (0..EVENTS).map(|i| devices[i % 2].event().unwrap()).collect();
        Self { log, devices, streams, allocations, events, precise }
    }

    fn stream(&self, index: usize) -> Rc<Stream<Log>> {
        Rc::clone(&self.streams[index].borrow())
    }

    fn allocation(&self, index: usize) -> Arc<Allocation<Log>> {
        Arc::clone(&self.allocations[index].borrow())
    }

    /// Refusals are right answers too; what matters is what the log sees.
    fn perform(&self, op: &Op) {
        let others_run = || {
            schedule::step();
        };
        let _answer = match op {
            Op::Launch { stream, touches, fail } => {
                let touches: Vec<_> = touches.iter().map(|touch| (*touch, self.allocation(touch.allocation))).collect();
                refuse(&self.log, *fail);
                launch(&self.stream(*stream), &touches)
            }
            Op::Guard { touch, fail } => {
                refuse(&self.log, fail.then_some(Call::HostWait));
                guard(&self.log, touch, &self.allocation(touch.allocation), || (0..6).for_each(|_| others_run()))
            }
            Op::Lend { stream, touch, fail } => {
                refuse(&self.log, fail.then_some(Call::StreamWait));
                lend(&self.log, &self.stream(*stream), touch, &self.allocation(touch.allocation), others_run)
            }
            Op::HostWait(stream) => self.stream(*stream).wait(),
            Op::DeviceWait(device) => self.devices[*device].wait(),
            Op::Checkpoint(stream) => self.stream(*stream).checkpoint(),
            Op::Trim(device) => self.devices[*device].trim(),
            Op::Replace { allocation, stream, home } => self.replace(*allocation, &self.stream(*stream), *home),
            Op::Recycle(stream) => self.recycle(*stream),
            Op::Record { event, stream } => self.events[*event].record(&self.stream(*stream)),
            Op::WaitFor { event, stream } => self.stream(*stream).wait_for(&self.events[*event]),
            Op::HostWaitEvent(event) => self.events[*event].wait(),
        };
    }

    /// Puts a stand-in where the old one was, so that it is dropped before the new one is asked for and can be it.
    fn replace(&self, index: usize, stream: &Stream<Log>, home: bool) -> crate::Result<()> {
        let stand_in = self.allocation((index + 1) % ALLOCATIONS);
        drop(self.allocations[index].replace(stand_in));
        let new = allocate(stream, home)?;
        drop(self.allocations[index].replace(new));
        Ok(())
    }

    fn recycle(&self, index: usize) -> crate::Result<()> {
        let stand_in = self.stream(index ^ 1);
        let device = stand_in.device().clone();
        drop(self.streams[index].replace(stand_in));
        let options = if self.precise { StreamOptions::new().precise() } else { StreamOptions::new() };
        let new = device.stream_with(options)?;
        drop(self.streams[index].replace(Rc::new(new)));
        Ok(())
    }
}

thread_local! {
    /// The thread that runs now.
    static CURRENT: Cell<*const Yielder<(), bool>> = const { Cell::new(ptr::null()) };
}

/// Lets the scheduler run another thread.
fn yield_now(blocked: bool) {
    let yielder = CURRENT.get();
    if !yielder.is_null() {
        // SAFETY: set by the thread that runs now, whose yielder lives as long as the thread.
        unsafe { &*yielder }.suspend(blocked);
        CURRENT.set(yielder);
    }
}

type Thread = Coroutine<(), bool, (), DefaultStack>;

fn thread(world: &Rc<World>, program: Vec<Op>, number: usize, stack: DefaultStack) -> Thread {
    let world = Rc::clone(world);
    Coroutine::with_stack(stack, move |yielder, ()| {
        CURRENT.set(yielder);
        for op in &program {
            world.log.state().note(|| format!("thread {number}: {op:?}"));
            world.perform(op);
        }
        CURRENT.set(ptr::null());
    })
}

/// Runs threads under a random schedule; answers what went wrong besides what the log saw.
fn schedule_threads(random: &mut Random, mut threads: Vec<Option<Thread>>, stacks: &mut Vec<DefaultStack>) -> Option<String> {
    let sticky = [1, 4, 16][random.below(3)]; // how rarely the schedule changes threads
    let (mut current, mut blocked, mut steps) = (0, false, 0);
    let failure = loop {
        let live: Vec<usize> = (0..threads.len()).filter(|&thread| threads[thread].is_some()).collect();
        if live.is_empty() {
            break None;
        }
        if threads[current].is_none() || blocked || random.one_in(sticky) {
            current = live[random.below(live.len())];
        }
        let Some(thread) = &mut threads[current] else { continue };
        match catch_unwind(AssertUnwindSafe(|| thread.resume(()))) {
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into());
                break Some(format!("a thread panicked: {text}"));
            }
            Ok(CoroutineResult::Yield(was_blocked)) => blocked = was_blocked,
            Ok(CoroutineResult::Return(())) => {
                stacks.extend(threads[current].take().map(Coroutine::into_stack));
                blocked = false;
            }
        }
        steps += 1;
        if steps > 50_000 {
            break Some("the threads are deadlocked".into());
        }
    };
    CURRENT.set(ptr::null());
    for mut thread in threads.into_iter().flatten() {
        if !thread.done() {
            // SAFETY: what the thread holds is leaked and never used again: the world that it shares is leaked too (`run`).
            unsafe { thread.force_reset() };
        }
        stacks.push(thread.into_stack());
    }
    failure
}

#[derive(Default, Debug)]
struct Tally {
    launches: usize,
    waits: usize,
    records: usize,
    host_waits: usize,
}

/// Runs the program of a seed; answers the violation, if any.
fn run(seed: u64, size: usize, stacks: &mut Vec<DefaultStack>, tally: &mut Tally, trace: bool) -> Option<(String, Vec<String>)> {
    let mut random = Random::new(seed);
    let threads = 1 + random.below(3).max(random.below(3));
    let streams = 2 + random.below(STREAMS - 1);
    let (simple, precise) = (random.one_in(3), random.one_in(8));
    let world = Rc::new(World::new(random.next(), precise));
    if trace {
        world.log.state().trace = Some(Vec::new());
    }
    let program = |random: &mut Random| (0..size).map(|_| operation(random, streams, simple)).collect();
    let programs: Vec<Vec<Op>> = (0..threads).map(|_| program(&mut random)).collect();
    schedule::set(Some(yield_now));
    let stack = |stacks: &mut Vec<DefaultStack>| stacks.pop().unwrap_or_else(|| DefaultStack::new(128 << 10).unwrap());
    let threads = programs.into_iter().zip(0..).map(|(program, number)| Some(thread(&world, program, number, stack(stacks)))).collect();
    let failure = schedule_threads(&mut random, threads, stacks);
    let (violation, lines) = {
        let mut state = world.log.state();
        tally.launches += state.launches;
        tally.waits += state.waits;
        tally.records += state.records;
        tally.host_waits += state.host_waits;
        (state.violation.take().or(failure), state.trace.take().unwrap_or_default())
    };
    let log = world.log.clone();
    if violation.is_some() {
        std::mem::forget(world); // Threads may have been abandoned in the middle of it.
    } else {
        refuse(&log, None);
        drop(world); // Closed here, not on a thread: see `RuntimeState::drop`.
    }
    schedule::set(None);
    let mut state = log.state();
    let (late, leaks) = (state.violation.take(), (state.live_allocations, state.live_streams));
    drop(state);
    match violation.or(late) {
        None if leaks != (0, 0) => Some((format!("{leaks:?} allocations and streams are left at the end"), lines)),
        None => None,
        Some(violation) => Some((violation, lines)),
    }
}

/// Runs many programs; answers the smallest that fails.
fn check(bug: Option<Bug>, programs: u64, first: u64) -> Result<Tally, String> {
    let (mut stacks, mut tally) = (Vec::new(), Tally::default());
    with_bug(bug, || {
        for seed in first..first + programs {
            let size = 2 + seed as usize % 10;
            if run(seed, size, &mut stacks, &mut tally, false).is_some() {
                return Err(report(seed, size, &mut stacks));
            }
        }
        Ok(())
    })?;
    Ok(tally)
}

fn report(seed: u64, size: usize, stacks: &mut Vec<DefaultStack>) -> String {
    match run(seed, size, stacks, &mut Tally::default(), true) {
        Some((violation, lines)) => format!("seed {seed}, {size} operations a thread: {violation}\n{}", lines.join("\n")),
        None => format!("seed {seed}: not repeatable"),
    }
}

#[test]
fn conflicting_operations_are_ordered_in_random_programs() {
    let programs = std::env::var("POLYWARP_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(120_000);
    let tally = check(None, programs, 1).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{programs} programs: {tally:?}");
    assert!(tally.waits > 0 && tally.host_waits > 0, "the programs exercise waits: {tally:?}");
}

macro_rules! caught {
    ($($name:ident $bug:ident;)*) => {$(
        #[test]
        fn $name() {
            let failure = check(Some(Bug::$bug), 400_000, 1).expect_err("the mistake was not caught");
            println!("{}", failure.lines().next().unwrap_or_default());
        }
    )*};
}

/// Every wrong tracker is caught by a random program.
mod caught {
    use super::*;
    caught! {
        record_without_waiting_for_submitted RecordWithoutWaiting;
        count_in_place_of_submitted CountForSubmitted;
        no_busy NotBusy;
        submit_after_unlocking SubmitUnlocked;
        prune_before_the_wait_is_accepted PruneBeforeWait;
        refused_wait_taken_in RefusedWaitTakenIn;
        prune_by_overlap PruneByOverlap;
        read_prunes_write ReadPrunesWrite;
        capped_use_list CappedList;
        merged_list_loses_a_part MergeLosesPart;
        lists_one_at_a_time OneListAtATime;
        guard_entered_after_its_wait GuardEntersAfterWait;
        host_raised_to_the_count_at_return HostRaisedToCountAtReturn;
        host_takes_the_clock_at_return HostTakesClockAtReturn;
        both_vectors_merged BothMerged;
        vector_read_at_merge ClockReadAtMerge;
        event_takes_the_current_count EventTakesCurrentCount;
        event_recorded_between EventRecordedBetween;
        recycled_count_restarts RecycledCountRestarts;
        recycled_early RecycledEarly;
        reused_on_its_home_stream ReusedOnHomeStream;
        readers_forgotten_at_free ReadersForgotten;
        no_drop_guard NoDropGuard;
    }
}
