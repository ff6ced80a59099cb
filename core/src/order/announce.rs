//! The protocol: announce all uses, wait for what was announced before, submit.
//!
//! Three kinds of lock, taken in this order: a user event's, a stream's, the ledger's (O). Never two streams' at once; O is held for loads
//! and stores only, never across a driver call or a wait. An announcement waits only for earlier ones, so there is no circle.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use super::bugs::{Bug, bug};
use super::clock::{Clock, Sequence, Slot};
use super::deferred::ListId;
use super::device::DeviceState;
use super::uses::{Holder, Known, Needs, Open, Range, Use, UseList};
use crate::backend::{Access, Backend, HostFunction};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use slab::Slab;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Checkpoints kept per stream.
const RING: usize = 4;

/// Launches remembered per stream, to name suspects after a fault.
pub(crate) const RECENT: usize = 8;

/// A point of a stream: its event, the submissions it is behind, and all they come after.
pub(crate) struct Checkpoint<B: Backend> {
    pub(crate) sequence: Sequence,
    pub(crate) event: Arc<B::Event>,
    pub(crate) clock: Clock,
}

impl<B: Backend> Clone for Checkpoint<B> {
    fn clone(&self) -> Self {
        Self { sequence: self.sequence, event: Arc::clone(&self.event), clock: self.clock.clone() }
    }
}

/// What O guards: the uses of every allocation, and what the host comes after.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) lists: Slab<UseList>,
    pub(crate) host: Clock,
    /// Guards of unified memory on devices that must not run meanwhile.
    exclusive: SmallVec<[Exclusive; 1]>,
}

/// A host guard that stops its device.
#[derive(Clone, Copy, Debug)]
struct Exclusive {
    device: u32,
    list: ListId,
    id: u32,
    range: Range,
}

impl Ledger {
    /// Refuses work on a device that a host guard stops.
    #[inline]
    fn admit(&self, device: u32, operation: &'static str) -> Result<()> {
        if self.exclusive.is_empty() {
            return Ok(());
        }
        match self.exclusive.iter().find(|guard| guard.device == device) {
            Some(Exclusive { range: Range { start, end }, .. }) => {
                Err(Error::new(ErrorKind::HostBorrowed { start: *start, end: *end }, operation))
            }
            None => Ok(()),
        }
    }

    /// The memory goes to a new owner, or back to the driver: guards of it that were forgotten stop nothing any more.
    pub(crate) fn forget_guards(&mut self, list: ListId) {
        self.exclusive.retain(|guard| guard.list != list);
    }
}

/// A stream as the order sees it. It outlives the user's handle.
pub(crate) struct Lane<B: Backend> {
    pub(crate) slot: Slot,
    pub(crate) device: Arc<DeviceState<B>>,
    state: Mutex<LaneState<B>>,
    changed: Condvar,
}

/// What a stream's lock guards.
pub(crate) struct LaneState<B: Backend> {
    /// The driver's queue; none while the slot is free.
    pub(crate) queue: Option<B::Stream>,
    /// Submissions announced.
    count: Sequence,
    /// Submissions made (or given up).
    submitted: Sequence,
    /// An announced submission waits for its producers.
    busy: bool,
    /// What this stream's next submission comes after, other than its own.
    clock: Clock,
    ring: SmallVec<[Checkpoint<B>; RING]>,
    /// Events that left the ring; reused once nobody else holds them.
    spare: Vec<Arc<B::Event>>,
    /// Records early after every submission.
    precise: bool,
    pub(crate) poisoned: Option<Error>,
    recent: [(Sequence, u32); RECENT],
}

impl<B: Backend> fmt::Debug for Lane<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("slot", &self.slot).field("device", &self.device.ordinal).finish_non_exhaustive()
    }
}

/// Memory as a submission names it: whose uses, and where the allocation begins.
pub(crate) trait Tracked {
    fn list(&self) -> ListId;
    fn base(&self) -> u64;
}

impl<T: Tracked + ?Sized> Tracked for &T {
    #[inline]
    fn list(&self) -> ListId {
        (**self).list()
    }

    #[inline]
    fn base(&self) -> u64 {
        (**self).base()
    }
}

impl<T: Tracked + ?Sized> Tracked for Arc<T> {
    #[inline]
    fn list(&self) -> ListId {
        (**self).list()
    }

    #[inline]
    fn base(&self) -> u64 {
        (**self).base()
    }
}

#[inline]
fn range(access: &Access, tracked: &impl Tracked) -> Range {
    let start = access.address.0 - tracked.base();
    Range { start, end: start + access.bytes }
}

fn refused(open: Open, operation: &'static str) -> Error {
    let Range { start, end } = open.range;
    let kind = match open.holder {
        Holder::Host => ErrorKind::HostBorrowed { start, end },
        Holder::Stream(_) => ErrorKind::Lent { start, end },
    };
    Error::new(kind, operation)
}

/// What a submission is, apart from what it touches.
#[derive(Clone, Copy)]
pub(crate) struct Submission {
    /// The operation, for errors.
    pub(crate) operation: &'static str,
    /// Names a kernel among the suspects of a fault; 0 for other work.
    pub(crate) label: u32,
    /// Whether it may wait for the host, so that a point before it is worth a record.
    pub(crate) may_wait_for_host: bool,
}

impl Submission {
    pub(crate) const fn of(operation: &'static str) -> Self {
        Self { operation, label: 0, may_wait_for_host: false }
    }
}

/// An announced submission. However it ends, the stream goes on: dropping it counts the submission as made, cautiously.
struct Announced<'a, B: Backend> {
    lane: &'a Lane<B>,
    state: Option<MutexGuard<'a, LaneState<B>>>,
    sequence: Sequence,
}

impl<'a, B: Backend> Announced<'a, B> {
    /// Marks the stream busy and unlocks it.
    fn unlock(&mut self) {
        if let Some(mut state) = self.state.take() {
            state.busy = !bug(Bug::NotBusy);
        }
    }

    fn lock(&mut self) -> &mut LaneState<B> {
        self.state.get_or_insert_with(|| self.lane.state.lock())
    }
}

impl<B: Backend> Drop for Announced<'_, B> {
    #[inline]
    fn drop(&mut self) {
        if bug(Bug::NoDropGuard) && (std::thread::panicking() || self.state.as_ref().is_none_or(|state| state.submitted < self.sequence)) {
            return;
        }
        let sequence = self.sequence;
        let state = self.lock();
        state.submitted = state.submitted.max(sequence);
        if state.busy {
            state.busy = false;
            self.state = None;
            self.lane.changed.notify_all();
        }
    }
}

impl<B: Backend> LaneState<B> {
    pub(crate) fn queue(&self) -> Result<&B::Stream> {
        self.queue.as_ref().ok_or_else(|| Error::new(ErrorKind::InvalidArgument { what: "the stream is gone".into() }, "stream"))
    }

    /// A copy of what is submitted and what that comes after.
    fn snapshot(&self, slot: Slot) -> (Sequence, Clock) {
        let sequence = if bug(Bug::CountForSubmitted) { self.count } else { self.submitted };
        let mut clock = self.clock.clone();
        clock.raise_to(slot, sequence);
        (sequence, clock)
    }

    /// Records an event behind everything submitted and keeps it in the ring.
    fn record(&mut self, backend: &B, lane: &Lane<B>) -> Result<Checkpoint<B>> {
        let mut event = match self.spare.iter_mut().position(|event| Arc::get_mut(event).is_some()) {
            Some(unused) => self.spare.swap_remove(unused),
            None => Arc::new(lane.device.event_create(backend)?),
        };
        let Some(unshared) = Arc::get_mut(&mut event) else { unreachable!("just found unshared, under the stream's lock") };
        // SAFETY: the event was made for this stream's device; nobody else holds it, so no other call on it is in progress.
        if let Err(error) = self.queue().and_then(|queue| unsafe { backend.event_record(queue, unshared) }) {
            self.spare.push(event);
            return Err(error);
        }
        if self.ring.len() == RING {
            let oldest = self.ring.remove(0);
            self.spare.push(oldest.event);
        }
        let (sequence, clock) = self.snapshot(lane.slot);
        self.ring.push(Checkpoint { sequence, event, clock });
        Ok(self.ring[self.ring.len() - 1].clone())
    }

    /// The earliest checkpoint at or after a submission.
    fn at_or_after(&self, sequence: Sequence) -> Option<&Checkpoint<B>> {
        self.ring.iter().find(|checkpoint| checkpoint.sequence >= sequence)
    }

    /// Kernels launched and not known to be complete.
    pub(crate) fn suspects(&self, complete: Sequence) -> impl Iterator<Item = u32> + '_ {
        self.recent.iter().filter(move |(sequence, label)| *sequence > complete && *label != 0).map(|(_, label)| *label)
    }
}

impl<B: Backend> Lane<B> {
    /// The stream's lock, whatever the stream is doing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, LaneState<B>> {
        self.state.lock()
    }

    /// The stream's lock, once no earlier submission of the stream waits for its producers.
    #[inline]
    fn idle(&self) -> MutexGuard<'_, LaneState<B>> {
        let mut state = self.state.lock();
        while state.busy {
            state = self.changed.wait(&self.state, state);
        }
        state
    }
}

/// Everything the streams and the memory of an opened backend are ordered by.
pub(crate) struct Order<B: Backend> {
    pub(crate) backend: B,
    ledger: Mutex<Ledger>,
    lanes: RwLock<Vec<Arc<Lane<B>>>>,
    /// Slots whose streams are gone and whose final events are complete.
    free: parking_lot::Mutex<Vec<Arc<Lane<B>>>>,
}

impl<B: Backend> fmt::Debug for Order<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl<B: Backend> Order<B> {
    pub(crate) fn new(backend: B) -> Self {
        Self { backend, ledger: Mutex::new(Ledger::default()), lanes: RwLock::new(Vec::new()), free: parking_lot::Mutex::new(Vec::new()) }
    }

    /// O. Held for loads and stores only.
    #[inline]
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// Every stream there is or was.
    pub(crate) fn lanes(&self) -> Vec<Arc<Lane<B>>> {
        self.lanes.read().clone()
    }

    fn lane(&self, slot: Slot) -> Arc<Lane<B>> {
        Arc::clone(&self.lanes.read()[usize::from(slot.0)])
    }

    /// Gives a new stream of the driver a slot. A recycled slot's count goes on, so that nothing recorded about it becomes false.
    pub(crate) fn lane_for(&self, device: &Arc<DeviceState<B>>, queue: B::Stream, precise: bool) -> Result<Arc<Lane<B>>, B::Stream> {
        let recycled = {
            let mut free = self.free.lock();
            free.iter().position(|lane| Arc::ptr_eq(&lane.device, device)).map(|index| free.swap_remove(index))
        };
        if let Some(lane) = recycled {
            let mut state = lane.lock();
            state.queue = Some(queue);
            state.precise = precise;
            drop(state);
            return Ok(lane);
        }
        let mut lanes = self.lanes.write();
        let Ok(slot) = u16::try_from(lanes.len()) else { return Err(queue) };
        let state = LaneState {
            queue: Some(queue),
            count: 0,
            submitted: 0,
            busy: false,
            clock: Clock::default(),
            ring: SmallVec::new(),
            spare: Vec::new(),
            precise,
            poisoned: None,
            recent: [(0, 0); RECENT],
        };
        let lane = Arc::new(Lane { slot: Slot(slot), device: Arc::clone(device), state: Mutex::new(state), changed: Condvar::new() });
        lanes.push(Arc::clone(&lane));
        Ok(lane)
    }

    /// Rule 2, *Launch on S*. `work` makes the driver call. Answers the submission's sequence.
    #[inline]
    pub(crate) fn submit<T: Tracked>(
        &self,
        lane: &Lane<B>,
        accesses: &[Access],
        tracked: &[T],
        kind: Submission,
        work: impl FnOnce(&B, &B::Stream) -> Result<()>,
    ) -> Result<Sequence> {
        lane.device.usable()?;
        self.submit_to(lane, accesses, tracked, kind, work).map_err(|error| self.settle(&lane.device, error))
    }

    #[inline]
    fn submit_to<T: Tracked>(
        &self,
        lane: &Lane<B>,
        accesses: &[Access],
        tracked: &[T],
        Submission { operation, label, may_wait_for_host }: Submission,
        work: impl FnOnce(&B, &B::Stream) -> Result<()>,
    ) -> Result<Sequence> {
        let mut state = lane.idle();
        if let Some(error) = &state.poisoned {
            return Err(error.clone());
        }
        let mut needs = Needs::new();
        let mut ledger = self.ledger();
        ledger.admit(lane.device.ordinal, operation)?;
        for (access, tracked) in accesses.iter().zip(tracked) {
            if let Some(open) = ledger.lists[tracked.list()].refusal(range(access, tracked), access.mode, Holder::Stream(lane.slot)) {
                return Err(refused(open, operation));
            }
        }
        let sequence = state.count + 1;
        state.count = sequence;
        let mut early = state.precise;
        for (access, tracked) in accesses.iter().zip(tracked) {
            if bug(Bug::OneListAtATime) {
                drop(ledger);
                ledger = self.ledger();
            }
            let Ledger { lists, host, .. } = &mut *ledger;
            let known = Known { stream: Some((lane.slot, &state.clock)), host };
            let new = Use { range: range(access, tracked), mode: access.mode, slot: lane.slot, sequence };
            let list = &mut lists[tracked.list()];
            if bug(Bug::PruneBeforeWait) {
                let everything = self.everything_announced();
                list.prune(&new, Known { stream: Some((lane.slot, &everything)), host });
            }
            early |= list.enter(new, known, &mut needs);
        }
        drop(ledger);
        let mut announced = Announced { lane, state: Some(state), sequence };
        if !needs.is_empty() {
            self.wait_for_producers(&mut announced, &needs, accesses, tracked)?;
        }
        if bug(Bug::SubmitUnlocked) {
            announced.state = None;
        }
        let state = announced.lock();
        if may_wait_for_host {
            state.early_point(&self.backend, lane)?;
        }
        work(&self.backend, state.queue()?)?;
        state.submitted = sequence;
        if label != 0 {
            state.recent[sequence as usize % RECENT] = (sequence, label);
        }
        if early && let Err(error) = state.record(&self.backend, lane) {
            lane.device.defer_error(error); // The submission succeeded; whoever needs a point of it records later.
        }
        Ok(sequence)
    }

    /// Steps (4) and (5): waits on the host for the producers' submissions to be made, on the device for the submissions themselves.
    #[cold]
    #[inline(never)]
    fn wait_for_producers<T: Tracked>(
        &self,
        announced: &mut Announced<'_, B>,
        needs: &Needs,
        accesses: &[Access],
        tracked: &[T],
    ) -> Result<()> {
        let slot = announced.lane.slot;
        announced.unlock();
        let found = self.producers(needs)?;
        #[cfg(test)]
        let found = self.mistaken(announced.lane, found);
        let sequence = announced.sequence;
        let state = announced.lock();
        self.take_in(state, &found)?;
        let mut ledger = self.ledger();
        let Ledger { lists, host, .. } = &mut *ledger;
        let known = Known { stream: Some((slot, &state.clock)), host };
        for (access, tracked) in accesses.iter().zip(tracked) {
            lists[tracked.list()].prune(&Use { range: range(access, tracked), mode: access.mode, slot, sequence }, known);
        }
        Ok(())
    }

    /// Submits the waits; takes in each producer's vector only once its wait was accepted.
    fn take_in(&self, state: &mut LaneState<B>, found: &[Checkpoint<B>]) -> Result<()> {
        for checkpoint in found {
            if bug(Bug::RefusedWaitTakenIn) {
                state.clock.raise(&checkpoint.clock);
            }
            // SAFETY: we hold the event, so nobody records it again (`LaneState::record` reuses unshared ones only).
            unsafe { self.backend.stream_wait_event(state.queue()?, &checkpoint.event) }?;
            state.clock.raise(&checkpoint.clock);
        }
        Ok(())
    }

    /// A point of each producer at or after its submission; waits until that submission is made.
    fn producers(&self, needs: &Needs) -> Result<SmallVec<[Checkpoint<B>; 4]>> {
        let mut found = SmallVec::new();
        for &(slot, sequence) in needs {
            found.extend(self.point(&self.lane(slot), sequence)?);
        }
        Ok(found)
    }

    /// A point of the stream at or after a submission that was announced before; none if the stream is gone, and so all its work complete.
    fn point(&self, lane: &Lane<B>, sequence: Sequence) -> Result<Option<Checkpoint<B>>> {
        let mut state = lane.state.lock();
        loop {
            if let Some(checkpoint) = state.at_or_after(sequence) {
                return Ok(Some(checkpoint.clone()));
            }
            if state.queue.is_none() {
                return Ok(None);
            }
            if state.submitted >= sequence || bug(Bug::RecordWithoutWaiting) {
                return state.record(&self.backend, lane).map(Some);
            }
            state = lane.changed.wait(&lane.state, state);
        }
    }

    /// A point behind everything submitted to the stream so far.
    fn point_now(&self, lane: &Lane<B>) -> Result<Option<Checkpoint<B>>> {
        let mut state = lane.state.lock();
        let submitted = state.submitted;
        match state.at_or_after(submitted) {
            _ if submitted == 0 || state.queue.is_none() => Ok(None),
            Some(checkpoint) => Ok(Some(checkpoint.clone())),
            None => state.record(&self.backend, lane).map(Some),
        }
    }

    /// Rule 3, `stream.checkpoint()`: a point that later hand-overs can use instead of a later one.
    pub(crate) fn checkpoint(&self, lane: &Lane<B>) -> Result<()> {
        self.point_now(lane).map(drop)
    }

    /// Waits on the host for a point and raises the host's vector by the copy made when the point was recorded.
    fn wait_on_host(&self, lane: &Lane<B>, checkpoint: &Checkpoint<B>) -> Result<()> {
        self.backend.event_wait(&checkpoint.event)?;
        let mut clock = checkpoint.clock.clone();
        if bug(Bug::HostRaisedToCountAtReturn) {
            clock.raise_to(lane.slot, lane.state.lock().count);
        }
        if bug(Bug::HostTakesClockAtReturn) {
            clock.raise(&lane.state.lock().clock);
        }
        self.ledger().host.raise(&clock);
        Ok(())
    }

    /// Waits on the host until these submissions are complete.
    pub(crate) fn wait_for(&self, needs: &Needs) -> Result<()> {
        for &(slot, sequence) in needs {
            let lane = self.lane(slot);
            if self.ledger().host.get(slot) >= sequence {
                continue;
            }
            if let Some(checkpoint) = self.point(&lane, sequence)? {
                self.wait_on_host(&lane, &checkpoint)?;
            }
        }
        Ok(())
    }

    /// Waits on the host until everything submitted to the stream so far is complete. Nothing to wait for costs no driver call.
    pub(crate) fn wait_lane(&self, lane: &Lane<B>) -> Result<()> {
        let submitted = lane.lock().submitted;
        if self.ledger().host.get(lane.slot) >= submitted {
            return Ok(());
        }
        match self.point_now(lane)? {
            Some(checkpoint) => self.wait_on_host(lane, &checkpoint),
            None => Ok(()),
        }
    }

    /// Whether everything submitted to the stream so far is complete; learns from the answer.
    pub(crate) fn is_lane_complete(&self, lane: &Lane<B>) -> Result<bool> {
        let submitted = lane.lock().submitted;
        if self.ledger().host.get(lane.slot) >= submitted {
            return Ok(true);
        }
        let Some(checkpoint) = self.point_now(lane)? else { return Ok(true) };
        if !self.backend.event_query(&checkpoint.event)? {
            return Ok(false);
        }
        self.ledger().host.raise(&checkpoint.clock);
        Ok(true)
    }

    /// Polls the producers of these submissions and learns what is complete.
    pub(crate) fn poll(&self, needs: &Needs) -> Result<()> {
        for &(slot, sequence) in needs {
            let lane = self.lane(slot);
            let known = lane.lock().at_or_after(sequence).cloned();
            let checkpoint = match known {
                Some(checkpoint) => Some(checkpoint),
                None if lane.lock().submitted >= sequence => self.point_now(&lane)?,
                None => None,
            };
            if let Some(checkpoint) = checkpoint
                && self.backend.event_query(&checkpoint.event)?
            {
                self.ledger().host.raise(&checkpoint.clock);
            }
        }
        Ok(())
    }

    /// Rule 2, *Host guard*: refuses, or enters the guard and waits for the conflicting uses; if it stops a device, for all work of that
    /// device. `guard_close` ends it.
    pub(crate) fn guard_open(&self, access: &Access, tracked: &impl Tracked, stops: Option<u32>) -> Result<u32> {
        let (list, range) = (tracked.list(), range(access, tracked));
        let mut needs = Needs::new();
        let mut id = {
            let mut ledger = self.ledger();
            let Ledger { lists, host, .. } = &mut *ledger;
            if let Some(open) = lists[list].refusal_of_opening(range, access.mode) {
                return Err(refused(open, "host guard"));
            }
            lists[list].collect(range, access.mode, Known { stream: None, host }, &mut needs);
            let id = if bug(Bug::GuardEntersAfterWait) { 0 } else { lists[list].open(range, access.mode, Holder::Host) };
            ledger.exclusive.extend(stops.map(|device| Exclusive { device, list, id, range }));
            id
        };
        if let Some(device) = stops {
            let all = self.lanes().into_iter().filter(|lane| lane.device.ordinal == device);
            needs = all.map(|lane| (lane.slot, lane.lock().count)).filter(|(_, announced)| *announced > 0).collect();
        }
        if let Err(error) = self.wait_for(&needs) {
            self.guard_close(list, id);
            return Err(error);
        }
        if bug(Bug::GuardEntersAfterWait) {
            id = self.ledger().lists[list].open(range, access.mode, Holder::Host);
        }
        Ok(id)
    }

    pub(crate) fn guard_close(&self, list: ListId, id: u32) {
        let mut ledger = self.ledger();
        ledger.exclusive.retain(|guard| (guard.list, guard.id) != (list, id));
        if let Some(list) = ledger.lists.get_mut(list) {
            list.close(id);
        }
    }

    /// Rule 9: orders the stream after conflicting uses and marks the memory lent to foreign code on it. `lend_close` ends it.
    pub(crate) fn lend_open(&self, lane: &Lane<B>, access: &Access, tracked: &impl Tracked) -> Result<u32> {
        let (list, range) = (tracked.list(), range(access, tracked));
        let mut state = lane.idle();
        if let Some(error) = &state.poisoned {
            return Err(error.clone());
        }
        let mut needs = Needs::new();
        let id = {
            let mut ledger = self.ledger();
            ledger.admit(lane.device.ordinal, "lend")?;
            let Ledger { lists, host, .. } = &mut *ledger;
            if let Some(open) = lists[list].refusal_of_opening(range, access.mode) {
                return Err(refused(open, "lend"));
            }
            let known = Known { stream: Some((lane.slot, &state.clock)), host };
            lists[list].collect(range, access.mode, known, &mut needs);
            lists[list].open(range, access.mode, Holder::Stream(lane.slot))
        };
        // Foreign work may wait for the host: later hand-overs must not have to wait for it too.
        if let Err(error) = state.early_point(&self.backend, lane) {
            drop(state);
            self.guard_close(list, id);
            return Err(error);
        }
        if needs.is_empty() {
            return Ok(id);
        }
        let sequence = state.submitted;
        let mut announced = Announced { lane, state: Some(state), sequence };
        announced.unlock();
        let waited = self.producers(&needs).and_then(|found| self.take_in(announced.lock(), &found));
        drop(announced);
        if let Err(error) = waited {
            self.guard_close(list, id);
            return Err(error);
        }
        Ok(id)
    }

    /// Ends a lend: what foreign code submitted counts as one submission of the stream.
    pub(crate) fn lend_close(&self, lane: &Lane<B>, access: &Access, tracked: &impl Tracked, id: u32) {
        let mut state = lane.idle();
        state.count += 1;
        state.submitted = state.count;
        let sequence = state.count;
        let mut ledger = self.ledger();
        let Ledger { lists, host, .. } = &mut *ledger;
        let known = Known { stream: Some((lane.slot, &state.clock)), host };
        let new = Use { range: range(access, tracked), mode: access.mode, slot: lane.slot, sequence };
        let list = &mut lists[tracked.list()];
        list.enter(new, known, &mut Needs::new());
        list.close(id);
    }

    /// Rule 10: a host function in stream order. It touches nothing that is tracked.
    pub(crate) fn submit_host_function(&self, lane: &Lane<B>, kind: Submission, function: HostFunction) -> Result<()> {
        let nothing: &[&dyn Tracked] = &[];
        // SAFETY: the function catches its own panics (`Stream::host_function`), and streams of ours are never captured.
        self.submit(lane, &[], nothing, kind, |backend, queue| unsafe { backend.stream_host_function(queue, function) }).map(drop)
    }

    /// Rule 6: records a user event and copies what it stands for, in one step under the event's lock (the caller holds it).
    pub(crate) fn event_record(&self, lane: &Lane<B>, event: &B::Event) -> Result<Clock> {
        let state = lane.idle();
        if let Some(error) = &state.poisoned {
            return Err(error.clone());
        }
        // SAFETY: the caller holds the event's lock, so no other call on it is in progress, and checked that it is this device's.
        unsafe { self.backend.event_record(state.queue()?, event) }?;
        Ok(state.snapshot(lane.slot).1)
    }

    /// Rule 6: makes the stream wait for a user event and takes in what it stands for; the caller holds the event's lock.
    pub(crate) fn event_wait(&self, lane: &Lane<B>, event: &B::Event, clock: &Clock) -> Result<()> {
        let mut state = lane.idle();
        if let Some(error) = &state.poisoned {
            return Err(error.clone());
        }
        // SAFETY: the caller holds the event's lock, so no record of it is in progress.
        unsafe { self.backend.stream_wait_event(state.queue()?, event) }?;
        state.clock.raise(clock);
        // It counts as a submission: whoever waits for the stream waits for the event too.
        state.count += 1;
        state.submitted = state.count;
        Ok(())
    }

    /// A host wait for a user event succeeded, or its query answered true.
    pub(crate) fn host_learns(&self, clock: &Clock) {
        self.ledger().host.raise(clock);
    }

    /// Takes in a vector without a wait: part of a deliberate mistake.
    #[cfg(test)]
    pub(crate) fn learn(&self, lane: &Lane<B>, clock: &Clock) -> Result<()> {
        lane.idle().clock.raise(clock);
        Ok(())
    }

    /// What a user event taking the current count would stand for: a deliberate mistake.
    #[cfg(test)]
    pub(crate) fn clock_now(&self, lane: &Lane<B>) -> Clock {
        lane.lock().snapshot(lane.slot).1
    }

    /// Whether all work of a stream whose handle is gone is complete, as far as the host knows; asks the driver if `poll`.
    pub(crate) fn is_over(&self, slot: Slot, poll: bool) -> bool {
        let lane = self.lane(slot);
        if poll {
            return self.is_lane_complete(&lane).unwrap_or(false);
        }
        let submitted = lane.lock().submitted;
        self.ledger().host.get(slot) >= submitted
    }

    /// Recycles the slot of a stream whose final event is complete: the host's vector covers it; the count goes on.
    pub(crate) fn recycle(&self, slot: Slot) -> Option<B::Stream> {
        let lane = self.lane(slot);
        let mut state = lane.idle();
        let queue = state.queue.take();
        let ring = std::mem::take(&mut state.ring);
        state.spare.extend(ring.into_iter().map(|checkpoint| checkpoint.event));
        state.clock.clear();
        state.poisoned = None;
        state.recent = [(0, 0); RECENT];
        if bug(Bug::RecycledCountRestarts) {
            (state.count, state.submitted) = (0, 0);
        }
        drop(state);
        self.free.lock().push(lane);
        queue
    }

    /// The events of streams of this device whose slots are free; they are not needed any more.
    pub(crate) fn take_spare_events(&self, device: &DeviceState<B>) -> Vec<B::Event> {
        let lanes = self.lanes();
        let ours = lanes.iter().filter(|lane| lane.device.ordinal == device.ordinal);
        ours.flat_map(|lane| std::mem::take(&mut lane.lock().spare)).filter_map(|event| Arc::try_unwrap(event).ok()).collect()
    }

    /// What every stream has submitted so far, for unloading code behind it.
    pub(crate) fn everything_submitted(&self) -> Needs {
        self.lanes().iter().map(|lane| (lane.slot, lane.lock().submitted)).filter(|(_, sequence)| *sequence > 0).collect()
    }

    /// Whether memory can be used without waiting: by anybody, or by this stream.
    pub(crate) fn is_ready(&self, list: ListId, home: Option<&Lane<B>>) -> bool {
        let state = home.map(|lane| (lane.slot, lane.lock()));
        let ledger = self.ledger();
        let stream = state.as_ref().map(|(slot, state)| (*slot, &state.clock));
        ledger.lists[list].is_ready_for(Known { stream, host: &ledger.host })
    }

    /// What must be complete before memory is unused.
    pub(crate) fn needs_of(&self, list: ListId) -> Needs {
        let ledger = self.ledger();
        ledger.lists[list].needs_of_all(&ledger.host)
    }

    /// Memory gets a new owner, who inherits every pending use as a write.
    pub(crate) fn inherit(&self, list: ListId) {
        let mut ledger = self.ledger();
        ledger.forget_guards(list);
        let Ledger { lists, host, .. } = &mut *ledger;
        lists[list].inherit(host);
        if bug(Bug::ReusedOnHomeStream) {
            lists[list] = UseList::default();
        }
    }

    /// A new list of uses.
    pub(crate) fn list_new(&self) -> ListId {
        self.ledger().lists.insert(UseList::default())
    }

    /// More than any submission: what pruning before the waits would take for covered.
    fn everything_announced(&self) -> Clock {
        let mut clock = Clock::default();
        for lane in self.lanes.read().iter() {
            clock.raise_to(lane.slot, Sequence::MAX);
        }
        clock
    }

    /// Two deliberate mistakes about the vectors of producers.
    #[cfg(test)]
    fn mistaken(&self, lane: &Lane<B>, mut found: SmallVec<[Checkpoint<B>; 4]>) -> SmallVec<[Checkpoint<B>; 4]> {
        for checkpoint in &mut found {
            let own = checkpoint.clock.clone();
            for producer in self.lanes() {
                if producer.slot == lane.slot || own.get(producer.slot) != checkpoint.sequence {
                    continue;
                }
                if bug(Bug::ClockReadAtMerge) {
                    checkpoint.clock = self.clock_now(&producer);
                }
                if bug(Bug::BothMerged) {
                    let clock = self.clock_now(lane);
                    producer.lock().clock.raise(&clock);
                }
            }
        }
        found
    }
}

impl<B: Backend> LaneState<B> {
    /// A checkpoint before work that may wait for the host.
    fn early_point(&mut self, backend: &B, lane: &Lane<B>) -> Result<()> {
        if self.submitted == 0 || self.at_or_after(self.submitted).is_some() {
            return Ok(());
        }
        self.record(backend, lane).map(drop)
    }
}
