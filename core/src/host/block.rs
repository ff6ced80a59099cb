//! Blocks: threads that really meet at barriers, without one thread of the system each.
//!
//! A fiber runs one thread of the block after the other. Where a thread comes to a barrier, its fiber is put aside with it, and
//! another fiber goes on with the threads that have not started; when none is left, every thread has either finished or come
//! to the barrier, and the fibers that were put aside are resumed in turn. A block without barriers so needs one fiber and one
//! switch, a block that meets needs one fiber per thread and one switch per thread and barrier.
//!
//! ```text
//!   fiber 0   t0 ───────┤barrier            ├────── t0 ends
//!   fiber 1              t1 ends, t2 ──┤    ├────────────── t2 ends
//!                                           ╰ none is left to start
//! ```
//!
//! # Safety
//!
//! Fibers borrow the block they run; [`Runner::run`] returns only when all of them have ended or were unwound.

#![allow(unsafe_code, reason = "runs kernels, on stacks that borrow the block")]

use super::adversary::Shuffle;
use super::kernel::{Chunk, Launch, chunks};
use super::memory::POISON;
use crate::Text;
use crate::backend::{HostBarrier, HostThread};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use fastrand::Rng;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{mem, thread};

/// Bytes of a fiber's stack, besides its guard page.
const STACK_BYTES: usize = 256 << 10;
/// Stacks kept for later launches.
const KEPT_STACKS: usize = 4 << 10;
/// Stacks taken from those kept at once.
const STACKS_AT_ONCE: usize = 64;

type Fiber = Coroutine<(), (), (), DefaultStack>;

/// What a panic carries.
type Payload = Box<dyn Any + Send>;

/// The message of a panic.
pub(super) fn message(payload: &Payload) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no message",
    }
}

/// Drops what a panic carries. If that panics too, the second payload is leaked.
pub(super) fn discard(payload: Payload) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(second);
    }
}

/// One participant of a launch: runs one block after the other.
pub(super) struct Runner<'l> {
    launch: &'l Launch,
    shared: Vec<Chunk>,
    stacks: Stacks,
    /// Fibers that hold a thread at the barrier.
    waiting: Vec<Fiber>,
}

impl<'l> Runner<'l> {
    pub(super) fn new(launch: &'l Launch) -> Self {
        Self { launch, shared: chunks(launch.shared_bytes as usize, POISON), stacks: Stacks::default(), waiting: Vec::new() }
    }

    /// Runs the block of this number; a panic of one of its threads is the answer.
    pub(super) fn run(&mut self, number: u64) -> Result<(), Text> {
        let number = self.launch.order().map_or(number, |order| order.block(number));
        let mut random = self.launch.order().map(|order| order.random(number));
        let block = Block::new(self.launch, number, self.shared.as_mut_ptr().cast(), random.as_mut());
        let outcome = if self.launch.block == [1; 3] { block.run_alone() } else { self.run_fibers(&block, random) };
        if outcome.is_err() {
            self.unwind_waiting();
        }
        outcome
    }

    fn run_fibers(&mut self, block: &Block<'_>, mut random: Option<Rng>) -> Result<(), Text> {
        let mut fibers = 0;
        while block.has_more() {
            let stack = self.stacks.take().map_err(|error| block.without_stack(fibers, &error))?;
            // SAFETY: `run` returns only when the fiber has ended or was unwound, so `block` outlives it.
            let mut fiber = unsafe { Fiber::with_stack_unchecked(stack, |yielder, ()| block.run_threads(&Meeting { block, yielder })) };
            fibers += 1;
            match resume(&mut fiber).map_err(|payload| block.fault(payload))? {
                CoroutineResult::Yield(()) => self.waiting.push(fiber),
                CoroutineResult::Return(()) => self.stacks.put(fiber),
            }
        }
        self.launch.kernel().needed(fibers);
        while !self.waiting.is_empty() {
            if let Some(random) = &mut random {
                random.shuffle(&mut self.waiting);
            }
            self.pass_barrier(block)?;
        }
        Ok(())
    }

    /// Resumes every waiting thread, up to its next barrier or its end.
    fn pass_barrier(&mut self, block: &Block<'_>) -> Result<(), Text> {
        let mut kept = 0;
        for index in 0..self.waiting.len() {
            if let CoroutineResult::Yield(()) = resume(&mut self.waiting[index]).map_err(|payload| block.fault(payload))? {
                self.waiting.swap(kept, index);
                kept += 1;
            }
        }
        self.waiting.drain(kept..).for_each(|fiber| self.stacks.put(fiber));
        Ok(())
    }

    /// Drops what the waiting threads own.
    fn unwind_waiting(&mut self) {
        for mut fiber in self.waiting.drain(..) {
            // A second panic tells nothing more than the first.
            let _unwound = catch_unwind(AssertUnwindSafe(|| fiber.force_unwind())).map_err(discard);
        }
    }
}

fn resume(fiber: &mut Fiber) -> Result<CoroutineResult<(), ()>, Payload> {
    catch_unwind(AssertUnwindSafe(|| fiber.resume(())))
}

/// A block that runs.
struct Block<'l> {
    launch: &'l Launch,
    index: [u32; 3],
    shared: *mut u8,
    /// The next thread to start; past the end along the last axis when none is left.
    next: Cell<[u32; 3]>,
    /// The thread that runs.
    current: Cell<[u32; 3]>,
    /// In the adversarial mode: the order in which threads start.
    order: Option<Shuffle>,
}

impl<'l> Block<'l> {
    fn new(launch: &'l Launch, number: u64, shared: *mut u8, random: Option<&mut Rng>) -> Self {
        let [x, y, _] = launch.grid.map(u64::from);
        // Each quotient is below its axis of the grid.
        let index = [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32];
        let order = random.map(|random| Shuffle::new(random, launch.block.iter().map(|&threads| u64::from(threads)).product()));
        Self { launch, index, shared, next: Cell::default(), current: Cell::default(), order }
    }

    fn has_more(&self) -> bool {
        self.next.get()[2] < self.launch.block[2]
    }

    /// The next thread to start.
    fn start(&self) -> Option<[u32; 3]> {
        let thread = self.next.get();
        let [x, y, z] = self.launch.block;
        if thread[2] == z {
            return None;
        }
        self.next.set(match thread {
            [i, j, k] if i + 1 < x => [i + 1, j, k],
            [_, j, k] if j + 1 < y => [0, j + 1, k],
            [_, _, k] => [0, 0, k + 1],
        });
        let thread = self.order.as_ref().map_or(thread, |order| self.shuffled(order, thread));
        self.current.set(thread);
        Some(thread)
    }

    #[cold]
    fn shuffled(&self, order: &Shuffle, [i, j, k]: [u32; 3]) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        // A block has few threads, so their numbers fit.
        let number = order.at(u64::from(i + x * (j + y * k))) as u32;
        [number % x, number / x % y, number / x / y]
    }

    /// Runs threads until all have started.
    fn run_threads(&self, barrier: &dyn HostBarrier) {
        let Launch { grid, block, shared_bytes, .. } = *self.launch;
        let (body, parameters) = (&*self.launch.kernel().entry.body, self.launch.parameters());
        let mut context = HostThread {
            thread: [0; 3],
            block: self.index,
            block_size: block,
            grid_size: grid,
            shared: self.shared,
            shared_bytes,
            barrier,
        };
        while let Some(thread) = self.start() {
            context.thread = thread;
            // SAFETY: the launch holds a pointer per parameter and its caller's promises; `shared` is the runner's own memory.
            unsafe { body.run(&context, parameters) };
        }
    }

    /// The whole block on the participant's own stack: a single thread meets nobody.
    fn run_alone(&self) -> Result<(), Text> {
        catch_unwind(AssertUnwindSafe(|| self.run_threads(&Alone))).map_err(|payload| self.fault(payload))
    }

    #[cold]
    fn fault(&self, payload: Payload) -> Text {
        let (name, message) = (&self.launch.kernel().entry.name, message(&payload));
        let fault = format!("kernel `{name}` panicked in thread {:?} of block {:?}: {message}", self.current.get(), self.index);
        discard(payload);
        fault.into()
    }

    #[cold]
    fn without_stack(&self, fibers: u32, error: &std::io::Error) -> Text {
        let name = &self.launch.kernel().entry.name;
        let way_out = "use smaller blocks, fewer streams or raise the system's limit of mappings (`vm.max_map_count`)";
        format!(
            "kernel `{name}` holds {fibers} threads of block {:?} at a barrier and gets no stack for another: {error}; {way_out}",
            self.index
        )
        .into()
    }
}

/// The barrier as a thread sees it that runs on a fiber.
struct Meeting<'f> {
    block: &'f Block<'f>,
    yielder: &'f Yielder<(), ()>,
}

impl HostBarrier for Meeting<'_> {
    fn wait(&self) {
        // A thread that unwinds waits for nobody.
        if thread::panicking() {
            return;
        }
        let current = self.block.current.get();
        self.yielder.suspend(());
        self.block.current.set(current);
    }
}

/// The barrier of a block of one thread.
struct Alone;

impl HostBarrier for Alone {
    fn wait(&self) {}
}

/// Stacks that a participant holds, taken from those kept by the process and given back there.
#[derive(Default)]
struct Stacks(Vec<DefaultStack>);

static KEPT: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

impl Stacks {
    fn take(&mut self) -> std::io::Result<DefaultStack> {
        if self.0.is_empty() {
            let mut kept = KEPT.lock();
            let rest = kept.len().saturating_sub(STACKS_AT_ONCE);
            self.0.extend(kept.drain(rest..));
        }
        self.0.pop().map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
    }

    fn put(&mut self, ended: Fiber) {
        self.0.push(ended.into_stack());
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        let mut kept = KEPT.lock();
        let room = KEPT_STACKS.saturating_sub(kept.len()).min(self.0.len());
        kept.extend(self.0.drain(..room));
        drop(kept);
        // The rest is unmapped without holding the lock.
        mem::take(&mut self.0);
    }
}
