//! The adversarial mode: nothing runs before it must, and then in the order that hurts.
//!
//! Submitted work is held in front of the streams' queues. What forces it lets it pass, task by task, in an order that the seed
//! chooses among all that streams and events allow. The queues and their workers behind are those of the ordinary mode and still
//! keep streams in order and events waited for: holding work back can delay it, not misorder it. A wait that is missing in the code
//! above so shows as a wrong result, with high probability and without any timing.
//!
//! # What forces what
//!
//! | call | lets pass |
//! |---|---|
//! | waiting for an event on the host | what its point needs: earlier work of its stream, and through the events waited for there what *their* points need. One time in four other work may come early, host functions excepted |
//! | asking an event | nothing up to eight times in all, then the same; so loops that poll end |
//! | submitting to a stream that holds [`FULL`] tasks | all that the stream holds, and what that needs |
//! | dropping a stream | the same, without waiting for it |
//! | none for a second (`QUIET`) | everything: the host waits for work in a way that no call tells, or work waits for work that it has no event of |
//!
//! Making a stream wait for an event, recording, allocating and freeing force nothing.
//!
//! # The order
//!
//! Among the streams whose next task may run, the one that ran last goes on or another is chosen; how often is drawn anew for each
//! call, since some mistakes show where one stream is far ahead and others in fine interleavings. Before another stream takes its turn,
//! the forcing thread waits until the last one has done what it was given, so the order is that of the choices. It does not wait for
//! longer than `PATIENCE`, or `GLANCE` when an event is asked: a task may be waiting for the host (a closed gate). The others go on
//! meanwhile, and from then on only the order of streams and events holds.
//!
//! Blocks of a launch, threads of a block and threads that leave a barrier run in random order too, on the stream's worker alone.
//!
//! The same calls on one thread with the same seed give the same orders, if no task takes longer than that.
//!
//! # Memory
//!
//! Freed memory is filled with [`FREED`](super::FREED) and returned to the system only after `KEPT_BYTES` more were freed, so that
//! a use after free meets that pattern instead of somebody else's memory.

use super::device::Device;
use super::memory::Block;
use super::queue::{FULL, Point, Queue, Task};
use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a stream may take over what it was given before others go on.
const PATIENCE: Duration = Duration::from_millis(250);
/// The same where the caller does not mean to wait.
const GLANCE: Duration = Duration::from_millis(20);
/// How long held work waits for a call that forces it.
const QUIET: Duration = Duration::from_secs(1);
/// The most times in a row that asking an event forces nothing.
const REFUSALS: u32 = 8;
/// Freed memory that is kept.
const KEPT_BYTES: usize = 64 << 20;

/// Holds back the work of all streams of a [`Host`](super::Host).
#[derive(Debug)]
pub(super) struct Adversary {
    state: Mutex<State>,
    freed: Mutex<Freed>,
}

#[derive(Debug)]
struct State {
    random: Rng,
    /// By number, in the order in which they were made.
    streams: BTreeMap<u64, Held>,
    /// Streams made so far.
    made: u64,
    /// The stream that ran last.
    favourite: Option<u64>,
    /// How often asking still forces nothing.
    refusals: u32,
    /// Counts what was submitted and forced.
    calls: u64,
    /// A thread looks whether calls still come.
    watched: bool,
}

/// The work of one stream that is held.
#[derive(Debug)]
struct Held {
    queue: Arc<Queue>,
    tasks: VecDeque<Task>,
    /// Tasks that were let pass: the number of the first that is held.
    passed: u64,
    /// Behind what was let pass; pending while the stream is at it.
    mark: Option<Arc<Point>>,
}

/// Where a point stands: the number of its stream, and of its task there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    stream: u64,
    task: u64,
}

/// How one call chooses.
#[derive(Clone, Copy, Debug)]
struct Mood {
    /// Work that is not needed may come early.
    early: bool,
    /// Of so many times, another stream is chosen once.
    steady: u8,
}

/// How far each stream must come: the number of the first task that need not pass.
type Goal = BTreeMap<u64, u64>;

impl Adversary {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let refusals = random.u32(0..=REFUSALS);
        let state = State { random, streams: BTreeMap::new(), made: 0, favourite: None, refusals, calls: 0, watched: false };
        Self { state: Mutex::new(state), freed: Mutex::default() }
    }

    /// An order for the blocks of a launch.
    pub(super) fn order(&self, blocks: u64) -> Order {
        let seed = self.state.lock().random.u64(..);
        Order { seed, blocks: Shuffle::new(&mut Rng::with_seed(seed), blocks) }
    }

    /// Lets pass what a wait for the point needs.
    pub(super) fn force(&self, point: &Point) {
        let mut state = self.state.lock();
        if let Some(goal) = state.goal_of(point) {
            Self::pass(&mut state, &goal, PATIENCE);
        }
    }

    /// The same, perhaps at a later call.
    pub(super) fn ask(&self, point: &Point) {
        let mut state = self.state.lock();
        let Some(goal) = state.goal_of(point) else { return };
        match state.refusals.checked_sub(1) {
            Some(left) => state.refusals = left,
            None => {
                state.refusals = state.random.u32(0..=REFUSALS);
                Self::pass(&mut state, &goal, GLANCE);
            }
        }
    }

    /// Lets work pass until the goal is reached, one stream at a time.
    fn pass(state: &mut MutexGuard<'_, State>, goal: &Goal, patience: Duration) {
        state.calls += 1;
        let mood = state.mood();
        let mut turn = None;
        while let Some(stream) = state.choose(goal, mood) {
            if turn.is_some_and(|last| last != stream) {
                Self::settle(state, turn.take(), patience);
            }
            // While this thread waited, another may have let it pass.
            if state.is_ready(stream) {
                state.release(stream);
                turn = Some(stream);
            }
        }
        Self::settle(state, turn, patience);
    }

    /// Waits a while until the stream has done what it was given.
    fn settle(state: &mut MutexGuard<'_, State>, stream: Option<u64>, patience: Duration) {
        let Some(held) = stream.and_then(|stream| state.streams.get_mut(&stream)) else { return };
        let stuck = held.is_busy();
        let mark = held.mark_here();
        if !stuck {
            MutexGuard::unlocked(state, || mark.wait_at_most(patience));
        }
    }

    /// Keeps freed memory for a while.
    pub(super) fn keep(&self, block: Block) {
        let mut freed = self.freed.lock();
        freed.bytes += block.bytes();
        freed.blocks.push_back(block);
        while freed.bytes > KEPT_BYTES {
            let Some(oldest) = freed.blocks.pop_front() else { break };
            freed.bytes -= oldest.bytes();
        }
    }

    /// Lets everything pass when no call has come for a while; leaves when nothing is held.
    fn watch(&self) {
        let mut state = self.state.lock();
        while state.streams.values().any(|held| !held.tasks.is_empty()) {
            let seen = state.calls;
            MutexGuard::unlocked(&mut state, || thread::sleep(QUIET));
            if state.calls == seen {
                let goal = state.everything();
                Self::pass(&mut state, &goal, PATIENCE);
            }
        }
        state.watched = false;
    }
}

impl State {
    /// What a point needs; `None` if it was let pass.
    fn goal_of(&self, point: &Point) -> Option<Goal> {
        point.place().filter(|&place| self.holds(place)).map(|place| self.goal(place))
    }

    /// All tasks of a stream up to this, and through the points that they wait for those of other streams.
    fn goal(&self, last: Place) -> Goal {
        let mut goal = Goal::new();
        let mut places = vec![last];
        while let Some(Place { stream, task }) = places.pop() {
            let Some(held) = self.streams.get(&stream) else { continue };
            let end = goal.entry(stream).or_insert(held.passed);
            let new = *end..task + 1;
            *end = new.end.max(*end);
            places.extend(new.filter_map(|task| held.task(task)?.waits_for()?.place()));
        }
        goal
    }

    fn everything(&self) -> Goal {
        self.streams.iter().map(|(&number, held)| (number, held.end())).collect()
    }

    fn holds(&self, place: Place) -> bool {
        self.streams.get(&place.stream).is_some_and(|held| place.task >= held.passed)
    }

    /// Whether the stream's next task may pass.
    fn is_ready(&self, stream: u64) -> bool {
        let next = self.streams.get(&stream).and_then(|held| held.tasks.front());
        next.is_some_and(|task| task.waits_for().and_then(|point| point.place()).is_none_or(|place| !self.holds(place)))
    }

    fn mood(&mut self) -> Mood {
        self.favourite = None;
        Mood { early: self.random.u8(..4) == 0, steady: 1 << self.random.u8(..6) }
    }

    /// The stream whose turn it is; `None` when the goal is reached.
    fn choose(&mut self, goal: &Goal, mood: Mood) -> Option<u64> {
        let needed = |number: u64, held: &Held| goal.get(&number).is_some_and(|&end| held.passed < end);
        if !self.streams.iter().any(|(&number, held)| needed(number, held)) {
            return None;
        }
        let may_be_early = |held: &Held| mood.early && !held.is_busy() && !matches!(held.tasks.front(), Some(Task::HostFunction(_)));
        let wanted = self.streams.iter().filter(|&(&number, held)| needed(number, held) || may_be_early(held));
        let ready: Vec<u64> = wanted.map(|(&number, _)| number).filter(|&number| self.is_ready(number)).collect();
        let goes_on = self.favourite.is_some_and(|favourite| ready.contains(&favourite)) && self.random.u8(..mood.steady) > 0;
        if !goes_on {
            self.favourite = self.random.choice(ready);
        }
        self.favourite
    }

    /// Lets the stream's next task pass.
    fn release(&mut self, stream: u64) {
        let Some(held) = self.streams.get_mut(&stream) else { return };
        if let Some(task) = held.tasks.pop_front() {
            held.passed += 1;
            held.queue.push(task);
        }
    }
}

impl Held {
    fn end(&self) -> u64 {
        self.passed + self.tasks.len() as u64
    }

    /// A task by its number, if it is held.
    fn task(&self, number: u64) -> Option<&Task> {
        self.tasks.get(usize::try_from(number.checked_sub(self.passed)?).ok()?)
    }

    /// Whether the stream is still at what it was given.
    fn is_busy(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.is_pending())
    }

    /// Marks the end of what it was given.
    fn mark_here(&mut self) -> Arc<Point> {
        let mark = Arc::new(Point::new(self.queue.device(), None));
        self.queue.push(Task::Reach(Arc::clone(&mark)));
        self.mark = Some(Arc::clone(&mark));
        mark
    }
}

/// A stream's place with the [`Adversary`]; what it holds passes when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    adversary: Arc<Adversary>,
    number: u64,
}

impl Seat {
    pub(super) fn new(adversary: &Arc<Adversary>, queue: &Arc<Queue>) -> Self {
        let mut state = adversary.state.lock();
        let number = state.made;
        state.made += 1;
        state.streams.insert(number, Held { queue: Arc::clone(queue), tasks: VecDeque::new(), passed: 0, mark: None });
        Self { adversary: Arc::clone(adversary), number }
    }

    /// Holds a task; if there are too many, lets those pass first.
    pub(super) fn hold(&self, task: Task) {
        let mut state = self.adversary.state.lock();
        if let Some(held) = state.streams.get(&self.number).filter(|held| held.tasks.len() >= FULL) {
            let (queue, goal) = (Arc::clone(&held.queue), state.goal(self.last(held)));
            Adversary::pass(&mut state, &goal, PATIENCE);
            MutexGuard::unlocked(&mut state, || queue.wait_for_room());
        }
        self.append(&mut state, task);
    }

    /// The point behind everything submitted so far; reached already if that is done.
    pub(super) fn point(&self, device: &Device) -> Arc<Point> {
        let mut state = self.adversary.state.lock();
        let held = state.streams.get(&self.number).filter(|held| !held.tasks.is_empty() || held.is_busy());
        let place = held.map(|held| Place { stream: self.number, task: held.end() });
        let point = Arc::new(Point::new(device, place));
        match place {
            None => point.reach(),
            Some(_) => self.append(&mut state, Task::Reach(Arc::clone(&point))),
        }
        point
    }

    /// Where the last task that is held stands.
    fn last(&self, held: &Held) -> Place {
        Place { stream: self.number, task: held.end().saturating_sub(1) }
    }

    fn append(&self, state: &mut State, task: Task) {
        state.calls += 1;
        if let Some(held) = state.streams.get_mut(&self.number) {
            held.tasks.push_back(task);
        }
        if !state.watched {
            let adversary = Arc::clone(&self.adversary);
            // If there is no thread to be had, only calls force work.
            state.watched = thread::Builder::new().name("polywarp-watch".into()).spawn(move || adversary.watch()).is_ok();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.adversary.state.lock();
        if let Some(held) = state.streams.get(&self.number).filter(|held| !held.tasks.is_empty()) {
            let goal = state.goal(self.last(held));
            let mood = Mood { early: false, ..state.mood() };
            while let Some(stream) = state.choose(&goal, mood) {
                state.release(stream);
            }
            for stream in goal.keys() {
                state.streams.get_mut(stream).map(Held::mark_here);
            }
        }
        state.streams.remove(&self.number);
    }
}

/// Memory that was freed, oldest first.
#[derive(Debug, Default)]
struct Freed {
    blocks: VecDeque<Block>,
    bytes: usize,
}

/// A random order of the blocks of a launch, and what happens within them.
pub(super) struct Order {
    seed: u64,
    blocks: Shuffle,
}

impl Order {
    /// The block that runs in the place of this one.
    pub(super) fn block(&self, number: u64) -> u64 {
        self.blocks.at(number)
    }

    /// Random numbers for a block.
    pub(super) fn random(&self, number: u64) -> Rng {
        Rng::with_seed(self.seed ^ number)
    }
}

/// The numbers below `count` in another order: multiplied by a number that shares no factor with it, and shifted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    factor: u64,
    shift: u64,
    count: u64,
}

impl Shuffle {
    pub(super) fn new(random: &mut Rng, count: u64) -> Self {
        let count = count.max(1);
        let factor = iter::repeat_with(|| random.u64(1..=count)).find(|&factor| coprime(factor, count)).unwrap_or(1);
        Self { factor, shift: random.u64(..count), count }
    }

    /// What comes in the place of a number below `count`.
    pub(super) fn at(&self, number: u64) -> u64 {
        let product = u128::from(number) * u128::from(self.factor) + u128::from(self.shift);
        // Below `count`.
        (product % u128::from(self.count)) as u64
    }
}

fn coprime(mut a: u64, mut b: u64) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}
