//! What the lock O guards: the uses of every allocation, what the host comes after, the guards that stop a device.

use super::announce::Order;
use super::bugs::{Bug, bug};
use super::clock::Clock;
use super::deferred::ListId;
use super::lane::Lane;
use super::uses::{Known, Needs, Range, UseList};
use crate::backend::Backend;
use crate::{Error, ErrorKind, Result};
use slab::Slab;
use smallvec::SmallVec;

/// What O guards: the uses of every allocation, and what the host comes after.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) lists: Slab<UseList>,
    pub(crate) host: Clock,
    /// Guards of unified memory on devices that must not run meanwhile.
    pub(super) exclusive: SmallVec<[Exclusive; 1]>,
}

/// A host guard that stops its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exclusive {
    pub(super) device: u32,
    pub(super) list: ListId,
    pub(super) id: u32,
    pub(super) range: Range,
}

impl Ledger {
    /// Refuses work on a device that a host guard stops.
    #[inline]
    pub(super) fn admit(&self, device: u32, operation: &'static str) -> Result<()> {
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

impl<B: Backend> Order<B> {
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
}
