//! Small programs under loom: every interleaving within the preemption bound.
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p polywarp-core --lib order::loom`.

use super::bugs::{Bug, with_bug};
use super::log::{Call, Log};
use super::program::{Touch, allocate, guard, launch, lend, refuse};
use crate::memory::Allocation;
use crate::stream::Stream;
use crate::{Event, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Op {
    Launch(usize, &'static [Touch]),
    Refused(Call, usize, &'static [Touch]),
    Guard(Touch),
    Lend(usize, Touch),
    HostWait(usize),
    Record(usize),
    WaitFor(usize),
}
use Op::{Guard, HostWait, Launch, Lend, Record, Refused, WaitFor};

const fn r(allocation: usize, start: u64, end: u64) -> Touch {
    Touch::read(allocation, start, end)
}

const fn w(allocation: usize, start: u64, end: u64) -> Touch {
    Touch::write(allocation, start, end)
}

/// What the threads share.
struct World {
    log: Log,
    streams: Vec<Stream<Log>>,
    allocations: Vec<Arc<Allocation<Log>>>,
    event: Event<Log>,
}

impl World {
    fn new() -> Self {
        let log = Log::new(1, 1);
        let device = Runtime::new(log.clone()).unwrap().device(0).unwrap();
        let streams: Vec<_> = (0..2).map(|_| device.stream().unwrap()).collect();
        let allocations = (0..2).map(|_| allocate(&streams[0], false).unwrap()).collect();
        Self { log, streams, allocations, event: device.event().unwrap() }
    }

    fn touches(&self, touches: &[Touch]) -> Vec<(Touch, Arc<Allocation<Log>>)> {
        touches.iter().map(|touch| (*touch, Arc::clone(&self.allocations[touch.allocation]))).collect()
    }

    /// Refusals by guards and lends are right answers too.
    fn perform(&self, op: Op) {
        let _answer = match op {
            Launch(stream, touches) => launch(&self.streams[stream], &self.touches(touches)),
            Refused(call, stream, touches) => {
                refuse(&self.log, Some(call));
                launch(&self.streams[stream], &self.touches(touches))
            }
            Guard(touch) => guard(&self.log, &touch, &self.allocations[touch.allocation], loom::thread::yield_now),
            Lend(stream, touch) => {
                lend(&self.log, &self.streams[stream], &touch, &self.allocations[touch.allocation], loom::thread::yield_now)
            }
            HostWait(stream) => self.streams[stream].wait(),
            Record(stream) => self.event.record(&self.streams[stream]),
            WaitFor(stream) => self.streams[stream].wait_for(&self.event),
        };
    }
}

type Program = (&'static [Op], &'static [&'static [Op]]);

/// Runs the program in every interleaving (for at most seven seconds); panics at the first violation.
fn explore(bug: Option<Bug>, bound: usize, (first, threads): Program) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.max_branches = 100_000;
    builder.max_duration = Some(Duration::from_secs(7));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    with_bug(bug, || {
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let world = Arc::new(World::new());
            first.iter().for_each(|&op| world.perform(op));
            let threads: Vec<_> = threads
                .iter()
                .map(|&ops| {
                    let world = Arc::clone(&world);
                    loom::thread::spawn(move || ops.iter().for_each(|&op| world.perform(op)))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let violation = world.log.state().violation.take();
            if let Some(violation) = violation {
                panic!("{violation}");
            }
        });
    });
    println!("{} executions", runs.load(Ordering::Relaxed));
}

const HALVES: Program = (
    &[Launch(0, &[w(0, 0, 4)]), Launch(1, &[w(0, 4, 8)])],
    &[&[Launch(0, &[w(0, 0, 4)]), Launch(0, &[w(0, 0, 8)])], &[Launch(1, &[w(0, 4, 8)])]],
);
const OVERLAP: Program = (&[Launch(0, &[w(0, 0, 4)])], &[&[Launch(0, &[w(0, 0, 4)])], &[Launch(1, &[w(0, 2, 6)])]]);
const WHOLE: Program = (&[Launch(0, &[w(0, 0, 8)])], &[&[Launch(0, &[w(0, 0, 8)]), Launch(0, &[r(0, 4, 8)])], &[Launch(1, &[w(0, 0, 4)])]]);
const CROSSED: Program =
    (&[Launch(0, &[w(0, 0, 8), w(1, 0, 4)])], &[&[Launch(0, &[r(0, 0, 8), w(1, 0, 4)])], &[Launch(1, &[w(0, 4, 8), r(1, 0, 8)])]]);
const ONE_STREAM: Program =
    (&[Launch(0, &[w(0, 0, 8)])], &[&[Launch(0, &[w(0, 0, 8)])], &[Launch(0, &[w(0, 0, 4)])], &[Launch(1, &[r(0, 0, 8)])]]);
const GUARD: Program = (&[Launch(0, &[w(0, 0, 8)])], &[&[Launch(0, &[w(0, 0, 8)])], &[Guard(r(0, 0, 4))]]);
const LEND: Program = (&[Launch(0, &[w(0, 0, 8)])], &[&[Launch(0, &[w(0, 0, 8)])], &[Lend(1, w(0, 4, 8))]]);
const REFUSED: Program =
    (&[Launch(0, &[w(0, 0, 8)])], &[&[Launch(0, &[w(0, 0, 8)])], &[Refused(Call::StreamWait, 1, &[w(0, 0, 4)]), Launch(1, &[w(0, 0, 8)])]]);
const REFUSED_LAUNCH: Program =
    (&[Launch(0, &[w(0, 0, 8)])], &[&[Refused(Call::Launch, 1, &[w(0, 0, 4)]), Launch(1, &[w(0, 0, 8)])], &[Launch(0, &[r(0, 0, 8)])]]);
const HOST_WAIT: Program = (&[Launch(0, &[w(0, 0, 8)])], &[&[HostWait(0), Launch(1, &[w(0, 0, 8)])], &[Launch(0, &[w(0, 0, 8)])]]);
const EVENTS: Program =
    (&[Launch(0, &[w(0, 0, 8)]), Record(0)], &[&[WaitFor(1), Launch(1, &[w(0, 0, 8)])], &[Launch(0, &[w(0, 0, 8)]), Record(0)]]);

macro_rules! clean {
    ($($name:ident $program:ident $bound:expr;)*) => {
        /// The protocol as it is: no violation, no deadlock.
        mod clean {
            use super::*;
            $(#[test] fn $name() { explore(None, $bound, $program) })*
        }
    };
}
clean! {
    halves HALVES 8;
    overlap OVERLAP 8;
    whole WHOLE 8;
    crossed CROSSED 8;
    one_stream ONE_STREAM 8;
    host_guard GUARD 8;
    lend_to_foreign_code LEND 8;
    refused_wait REFUSED 8;
    refused_launch REFUSED_LAUNCH 8;
    host_wait HOST_WAIT 8;
    user_events EVENTS 8;
}

macro_rules! caught {
    ($($name:ident $bug:ident $program:ident;)*) => {
        /// Deliberate mistakes: each must be found.
        mod caught {
            use super::*;
            $(#[test] #[should_panic] fn $name() { explore(Some(Bug::$bug), 3, $program) })*
        }
    };
}
caught! {
    record_without_waiting RecordWithoutWaiting CROSSED;
    submit_unlocked SubmitUnlocked ONE_STREAM;
    guard_enters_after_wait GuardEntersAfterWait GUARD;
    host_raised_to_count HostRaisedToCountAtReturn HOST_WAIT;
    event_recorded_between EventRecordedBetween EVENTS;
    no_drop_guard NoDropGuard REFUSED;
}
