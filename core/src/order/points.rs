//! Points of streams: taken or recorded for consumers, waited for and polled on the host, marked by users.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use super::announce::Order;
use super::bugs::{Bug, bug};
use super::clock::{Clock, Sequence};
use super::lane::{Checkpoint, Lane, Points};
use super::uses::Needs;
use crate::Result;
use crate::backend::Backend;

impl<B: Backend> Order<B> {
    /// A point of each producer at or after its submission; waits until that submission is made.
    pub(super) fn producers(&self, needs: &Needs) -> Result<Points<B>> {
        let mut found = Points::new();
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
                return state.record(self, lane).map(Some);
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
            None => state.record(self, lane).map(Some),
        }
    }

    /// Rule 3, `stream.checkpoint()`: a point that later hand-overs can use instead of a later one.
    pub(crate) fn checkpoint(&self, lane: &Lane<B>) -> Result<()> {
        self.point_now(lane)?;
        lane.state.lock().keep_newest();
        Ok(())
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

    /// Rule 6: records a user event and copies what it stands for, in one step under the event's lock (the caller holds it).
    pub(crate) fn event_record(&self, lane: &Lane<B>, event: &B::Event) -> Result<Clock> {
        let state = lane.idle();
        lane.healthy()?;
        // SAFETY: the caller holds the event's lock, so no other call on it is in progress, and checked that it is this device's.
        unsafe { self.backend.event_record(state.queue()?, event) }?;
        Ok(state.snapshot(lane.slot).1)
    }

    /// Rule 6: makes the stream wait for a user event and takes in what it stands for; the caller holds the event's lock.
    pub(crate) fn event_wait(&self, lane: &Lane<B>, event: &B::Event, clock: &Clock) -> Result<()> {
        let mut state = lane.idle();
        lane.healthy()?;
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
}
