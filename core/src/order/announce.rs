//! The protocol: announce all uses, wait for what was announced before, submit.
//!
//! Three kinds of lock, taken in this order: a user event's, a stream's, the ledger's (O). Never two streams' at once; O is held for loads
//! and stores only, never across a driver call or a wait. An announcement waits only for earlier ones, so there is no circle.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use super::bugs::{Bug, bug};
use super::clock::{Clock, Sequence, Slot};
use super::deferred::ListId;
use super::device::DeviceState;
#[cfg(test)]
use super::lane::Points;
use super::lane::{Checkpoint, Lane, LaneState};
use super::ledger::{Exclusive, Ledger};
use super::uses::{Holder, Known, Needs, Open, Range, Use, need};
use crate::backend::{Access, Backend, HostFunction};
use crate::sync::{Mutex, MutexGuard};
use crate::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;

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

    pub(super) fn lane(&self, slot: Slot) -> Arc<Lane<B>> {
        Arc::clone(&self.lanes.read()[usize::from(slot.0)])
    }

    /// Gives a new stream of the driver a slot. A recycled slot's count goes on, so that nothing recorded about it becomes false.
    pub(crate) fn lane_for(&self, device: &Arc<DeviceState<B>>, queue: B::Stream, precise: bool) -> Result<Arc<Lane<B>>, B::Stream> {
        let recycled = {
            let mut free = self.free.lock();
            free.iter().position(|lane| Arc::ptr_eq(&lane.device, device)).map(|index| free.swap_remove(index))
        };
        if let Some(lane) = recycled {
            lane.lock().reopen(queue, precise);
            return Ok(lane);
        }
        let mut lanes = self.lanes.write();
        let Ok(slot) = u16::try_from(lanes.len()) else { return Err(queue) };
        let lane = Arc::new(Lane::new(Slot(slot), device, queue, precise));
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
        lane.healthy()?;
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
            state.early_point(self, lane)?;
        }
        work(&self.backend, state.queue()?)?;
        state.submitted = sequence;
        state.remember(sequence, label);
        if early && let Err(error) = state.record(self, lane) {
            drop(announced);
            lane.device.deferred_call(self, Err(error)); // The submission succeeded; whoever needs a point of it records later.
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
            for lane in all {
                let announced = lane.lock().count;
                need(&mut needs, lane.slot, announced);
            }
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
        lane.healthy()?;
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
        if let Err(error) = state.early_point(self, lane) {
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
        let queue = state.close();
        lane.heal();
        drop(state);
        self.free.lock().push(lane);
        queue
    }

    /// The events of streams of this device whose slots are free; they are not needed any more.
    pub(crate) fn take_spare_events(&self, device: &DeviceState<B>) -> Vec<B::Event> {
        let lanes = self.lanes();
        let ours = lanes.iter().filter(|lane| lane.device.ordinal == device.ordinal);
        ours.flat_map(|lane| lane.lock().take_spare()).filter_map(|event| Arc::try_unwrap(event).ok()).collect()
    }

    /// What every stream has submitted so far, for unloading code behind it.
    pub(crate) fn everything_submitted(&self) -> Needs {
        self.lanes().iter().map(|lane| (lane.slot, lane.lock().submitted)).filter(|(_, sequence)| *sequence > 0).collect()
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
    fn mistaken(&self, lane: &Lane<B>, mut found: Points<B>) -> Points<B> {
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
