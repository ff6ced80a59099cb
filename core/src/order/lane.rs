//! A stream as the order sees it: its counts, its vector, its checkpoints, its driver queue.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use super::announce::Order;
use super::bugs::{Bug, bug};
use super::clock::{Clock, Sequence, Slot};
use super::device::DeviceState;
use crate::backend::Backend;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Checkpoints kept per stream.
const RING: usize = 4;

/// Launches remembered per stream, to name suspects after a fault.
const RECENT: usize = 8;

/// A point of a stream: its event, the submissions it is behind, and all they come after.
pub(crate) struct Checkpoint<B: Backend> {
    pub(crate) sequence: Sequence,
    pub(crate) event: Arc<B::Event>,
    pub(crate) clock: Clock,
    /// Promised to the user: not let go before it is complete.
    kept: bool,
}

/// One point of each producer that is waited for.
pub(super) type Points<B> = SmallVec<[Checkpoint<B>; 4]>;

impl<B: Backend> Clone for Checkpoint<B> {
    fn clone(&self) -> Self {
        Self { sequence: self.sequence, event: Arc::clone(&self.event), clock: self.clock.clone(), kept: self.kept }
    }
}

/// A stream as the order sees it. It outlives the user's handle.
pub(crate) struct Lane<B: Backend> {
    pub(crate) slot: Slot,
    pub(crate) device: Arc<DeviceState<B>>,
    pub(super) state: Mutex<LaneState<B>>,
    pub(super) changed: Condvar,
    poisoned: AtomicBool,
    poison: parking_lot::Mutex<Option<Error>>,
}

/// What a stream's lock guards.
pub(crate) struct LaneState<B: Backend> {
    /// The driver's queue; none while the slot is free.
    pub(crate) queue: Option<B::Stream>,
    /// Submissions announced.
    pub(super) count: Sequence,
    /// Submissions made (or given up).
    pub(super) submitted: Sequence,
    /// An announced submission waits for its producers.
    pub(super) busy: bool,
    /// What this stream's next submission comes after, other than its own.
    pub(super) clock: Clock,
    ring: SmallVec<[Checkpoint<B>; RING]>,
    /// Checkpoints kept before one is let go; at least [`RING`].
    room: usize,
    /// Events that left the ring; reused once nobody else holds them.
    spare: Vec<Arc<B::Event>>,
    /// Records early after every submission.
    pub(super) precise: bool,
    recent: [(Sequence, u32); RECENT],
}

impl<B: Backend> fmt::Debug for Lane<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("slot", &self.slot).field("device", &self.device.ordinal).finish_non_exhaustive()
    }
}

impl<B: Backend> LaneState<B> {
    pub(crate) fn queue(&self) -> Result<&B::Stream> {
        self.queue.as_ref().ok_or_else(|| Error::new(ErrorKind::InvalidArgument { what: "the stream is gone".into() }, "stream"))
    }

    /// A copy of what is submitted and what that comes after.
    pub(super) fn snapshot(&self, slot: Slot) -> (Sequence, Clock) {
        let sequence = if bug(Bug::CountForSubmitted) { self.count } else { self.submitted };
        let mut clock = self.clock.clone();
        clock.raise_to(slot, sequence);
        (sequence, clock)
    }

    /// Records an event behind everything submitted and keeps it in the ring.
    pub(super) fn record(&mut self, order: &Order<B>, lane: &Lane<B>) -> Result<Checkpoint<B>> {
        let mut event = match self.spare.iter_mut().position(|event| Arc::get_mut(event).is_some()) {
            Some(unused) => self.spare.swap_remove(unused),
            None => Arc::new(lane.device.event_create(&order.backend)?),
        };
        let Some(unshared) = Arc::get_mut(&mut event) else { unreachable!("just found unshared, under the stream's lock") };
        // SAFETY: the event was made for this stream's device; nobody else holds it, so no other call on it is in progress.
        if let Err(error) = self.queue().and_then(|queue| unsafe { order.backend.event_record(queue, unshared) }) {
            self.spare.push(event);
            return Err(error);
        }
        self.make_room(order, lane);
        let (sequence, clock) = self.snapshot(lane.slot);
        self.ring.push(Checkpoint { sequence, event, clock, kept: self.precise });
        Ok(self.ring[self.ring.len() - 1].clone())
    }

    /// Lets a checkpoint go if the ring is full: the oldest, but those that were promised only once they are complete.
    fn make_room(&mut self, order: &Order<B>, lane: &Lane<B>) {
        if self.ring.len() < self.room.max(RING) {
            return;
        }
        let done = match self.ring.iter().position(|checkpoint| !checkpoint.kept) {
            Some(index) => index..index + 1,
            None => {
                // Points are reached in order, so the driver is asked by halves.
                let complete = order.ledger().host.get(lane.slot);
                let reached =
                    |point: &Checkpoint<B>| point.sequence <= complete || order.backend.event_query(&point.event).unwrap_or(false);
                let reached = self.ring.partition_point(reached);
                if let Some(newest) = reached.checked_sub(1) {
                    order.host_learns(&self.ring[newest].clock); // Or its consumers would look for a later point.
                }
                0..reached
            }
        };
        self.spare.extend(self.ring.drain(done).map(|checkpoint| checkpoint.event));
        self.room = if self.precise { 2 * self.ring.len() } else { self.ring.len() + 1 };
    }

    /// The newest checkpoint was asked for by the user: later ones do not take its place.
    pub(super) fn keep_newest(&mut self) {
        if let Some(newest) = self.ring.last_mut() {
            newest.kept = true;
        }
    }

    /// The earliest checkpoint at or after a submission.
    pub(super) fn at_or_after(&self, sequence: Sequence) -> Option<&Checkpoint<B>> {
        self.ring.iter().find(|checkpoint| checkpoint.sequence >= sequence)
    }

    /// A checkpoint before work that may wait for the host.
    pub(super) fn early_point(&mut self, order: &Order<B>, lane: &Lane<B>) -> Result<()> {
        if self.submitted == 0 || self.at_or_after(self.submitted).is_some() {
            return Ok(());
        }
        self.record(order, lane).map(drop)
    }

    /// Remembers a kernel as a suspect, until it is known to be complete.
    #[inline]
    pub(super) fn remember(&mut self, sequence: Sequence, label: u32) {
        if label != 0 {
            self.recent[sequence as usize % RECENT] = (sequence, label);
        }
    }

    /// Takes a recycled slot into use. Its count goes on, so that nothing recorded about it becomes false.
    pub(super) fn reopen(&mut self, queue: B::Stream, precise: bool) {
        self.queue = Some(queue);
        self.precise = precise;
    }

    /// Ends the slot's stream, all of whose work the host knows to be complete.
    pub(super) fn close(&mut self) -> Option<B::Stream> {
        let ring = std::mem::take(&mut self.ring);
        self.spare.extend(ring.into_iter().map(|checkpoint| checkpoint.event));
        self.clock.clear();
        self.recent = [(0, 0); RECENT];
        if bug(Bug::RecycledCountRestarts) {
            (self.count, self.submitted) = (0, 0);
        }
        self.queue.take()
    }

    /// The pooled events; each is unshared unless somebody waits for it right now.
    pub(super) fn take_spare(&mut self) -> Vec<Arc<B::Event>> {
        std::mem::take(&mut self.spare)
    }

    /// Kernels launched and not known to be complete.
    pub(crate) fn suspects(&self, complete: Sequence) -> impl Iterator<Item = u32> + '_ {
        self.recent.iter().filter(move |(sequence, label)| *sequence > complete && *label != 0).map(|(_, label)| *label)
    }
}

impl<B: Backend> Lane<B> {
    pub(super) fn new(slot: Slot, device: &Arc<DeviceState<B>>, queue: B::Stream, precise: bool) -> Self {
        let state = LaneState {
            queue: Some(queue),
            count: 0,
            submitted: 0,
            busy: false,
            clock: Clock::default(),
            ring: SmallVec::new(),
            room: RING,
            spare: Vec::new(),
            precise,
            recent: [(0, 0); RECENT],
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Self { slot, device: Arc::clone(device), state, changed, poisoned: AtomicBool::new(false), poison: parking_lot::Mutex::new(None) }
    }

    /// What a host function that panicked left behind, if one did.
    #[inline]
    pub(crate) fn healthy(&self) -> Result<()> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        self.poison.lock().clone().map_or(Ok(()), Err)
    }

    /// A host function panicked. Takes no lock that a submission holds: the driver's queue may be full.
    pub(crate) fn poison(&self, error: Error) {
        self.poison.lock().get_or_insert(error);
        self.poisoned.store(true, Ordering::Release);
    }

    /// The slot goes to another stream.
    pub(super) fn heal(&self) {
        self.poisoned.store(false, Ordering::Release);
        *self.poison.lock() = None;
    }

    /// The stream's lock, whatever the stream is doing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, LaneState<B>> {
        self.state.lock()
    }

    /// The stream's lock, once no earlier submission of the stream waits for its producers.
    #[inline]
    pub(super) fn idle(&self) -> MutexGuard<'_, LaneState<B>> {
        let mut state = self.state.lock();
        while state.busy {
            state = self.changed.wait(&self.state, state);
        }
        state
    }
}
