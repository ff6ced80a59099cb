//! The uses of an allocation that still matter: which conflict with a new one, which a new one represents.

use super::bugs::{Bug, bug};
use super::clock::{Clock, Sequence, Slot};
use crate::backend::AccessMode;
use smallvec::SmallVec;

/// Bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Range {
    #[inline]
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    #[inline]
    fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A use by a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) range: Range,
    pub(crate) mode: AccessMode,
    pub(crate) slot: Slot,
    pub(crate) sequence: Sequence,
}

impl Use {
    /// Whether whoever is ordered after `self` may forget `other`, given that `self` is ordered after `other`.
    fn represents(&self, other: &Self) -> bool {
        let inside = self.range.contains(other.range) || (bug(Bug::PruneByOverlap) && self.range.overlaps(other.range));
        let mode = self.mode == AccessMode::Write || other.mode == AccessMode::Read || bug(Bug::ReadPrunesWrite);
        inside && mode
    }
}

/// Who holds memory open: the host, by a guard, or foreign code on a stream, by a lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Host,
    Stream(Slot),
}

/// An open use: it has begun and will end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) id: u32,
    pub(crate) range: Range,
    pub(crate) mode: AccessMode,
    pub(crate) holder: Holder,
}

/// What is known to come before: the vectors of the stream that asks (none for the host) and of the host.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) stream: Option<(Slot, &'a Clock)>,
    pub(crate) host: &'a Clock,
}

impl Known<'_> {
    #[inline]
    fn covers(self, slot: Slot, sequence: Sequence) -> bool {
        self.stream.is_some_and(|(own, clock)| own == slot || clock.get(slot) >= sequence) || self.host.get(slot) >= sequence
    }
}

/// Per producer stream, the highest sequence that must be waited for.
pub(crate) type Needs = SmallVec<[(Slot, Sequence); 4]>;

pub(super) fn need(needs: &mut Needs, slot: Slot, sequence: Sequence) {
    match needs.iter_mut().find(|(known, _)| *known == slot) {
        Some((_, highest)) => *highest = (*highest).max(sequence),
        None => needs.push((slot, sequence)),
    }
}

/// Uses kept before they are merged to hulls; few in tests, so that random programs merge.
const FULL: usize = if cfg!(test) { 5 } else { 48 };

/// Early checkpoints recorded for a stream that handed an allocation over, before somebody must wait for one again.
const CREDIT: u8 = 8;

/// The uses of one allocation. Guarded by the lock O of its opened backend.
#[derive(Debug, Default)]
pub(crate) struct UseList {
    uses: SmallVec<[Use; 4]>,
    open: SmallVec<[Open; 1]>,
    /// Streams that others have waited for because of this allocation, and how many early checkpoints they still record.
    handed_over: SmallVec<[(Slot, u8); 2]>,
    next_open: u32,
    /// Uses kept before room is made; at least [`FULL`].
    full: usize,
}

impl UseList {
    /// The open use that refuses this access, if any.
    #[inline]
    pub(crate) fn refusal(&self, range: Range, mode: AccessMode, by: Holder) -> Option<Open> {
        if self.open.is_empty() {
            return None;
        }
        self.open
            .iter()
            .copied()
            .find(|open| open.range.overlaps(range) && open.mode.conflicts(mode) && (open.holder == Holder::Host || open.holder != by))
    }

    /// The open use that refuses a lend or a guard on top of it: any that conflicts.
    pub(crate) fn refusal_of_opening(&self, range: Range, mode: AccessMode) -> Option<Open> {
        self.open.iter().copied().find(|open| open.range.overlaps(range) && open.mode.conflicts(mode))
    }

    /// Enters a use of stream `new.slot`, collects what it must wait for and removes what it represents already.
    /// Answers whether an early checkpoint is worth while.
    #[inline]
    pub(crate) fn enter(&mut self, new: Use, known: Known<'_>, needs: &mut Needs) -> bool {
        if let [only] = self.uses.as_mut_slice()
            && only.slot == new.slot
            && only.sequence != new.sequence
            && new.represents(only)
        {
            // The usual case, field by field: copying the whole struct doubled the cost of a launch with twelve buffers.
            only.range = new.range;
            only.mode = new.mode;
            only.sequence = new.sequence;
        } else {
            self.enter_any(new, known, needs);
        }
        !self.handed_over.is_empty() && self.spend_credit(new.slot)
    }

    #[inline(never)]
    fn enter_any(&mut self, new: Use, known: Known<'_>, needs: &mut Needs) {
        self.collect(new.range, new.mode, known, needs);
        self.prune(&new, known);
        if self.uses.iter().any(|old| (old.slot, old.sequence) == (new.slot, new.sequence) && old.represents(&new)) {
            return; // The same submission uses it already: a buffer passed twice.
        }
        if self.uses.len() >= self.full.max(FULL) {
            if bug(Bug::CappedList) {
                return;
            }
            self.make_room(known.host);
        }
        self.uses.push(new);
    }

    /// Collects the conflicting uses that are not covered.
    pub(crate) fn collect(&mut self, range: Range, mode: AccessMode, known: Known<'_>, needs: &mut Needs) {
        for index in 0..self.uses.len() {
            let Use { range: used, mode: how, slot, sequence } = self.uses[index];
            if used.overlaps(range) && how.conflicts(mode) && !known.covers(slot, sequence) {
                need(needs, slot, sequence);
                self.hand_over(slot);
            }
        }
    }

    /// Removes the covered uses that `new` represents; uses of the same submission stay.
    pub(crate) fn prune(&mut self, new: &Use, known: Known<'_>) {
        self.uses.retain(|old| {
            let same = old.slot == new.slot && old.sequence >= new.sequence;
            same || !known.covers(old.slot, old.sequence) || !new.represents(old)
        });
    }

    /// Forgets what is complete, which nobody waits for any more, then merges what is left; the list may grow if that does not halve it.
    fn make_room(&mut self, host: &Clock) {
        self.uses.retain(|one| host.get(one.slot) < one.sequence);
        if self.uses.len() >= FULL {
            self.merge();
        }
        self.full = FULL.max(2 * self.uses.len());
    }

    /// Merges the uses per stream and mode to the hull of their ranges and their highest sequence: cautious, never truncated.
    fn merge(&mut self) {
        let mut merged: SmallVec<[Use; 4]> = SmallVec::new();
        for &one in &self.uses {
            match merged.iter_mut().find(|hull| hull.slot == one.slot && hull.mode == one.mode) {
                Some(_) if bug(Bug::MergeLosesPart) => {}
                Some(hull) => {
                    hull.range = hull.range.hull(one.range);
                    hull.sequence = hull.sequence.max(one.sequence);
                }
                None => merged.push(one),
            }
        }
        self.uses = merged;
    }

    fn hand_over(&mut self, slot: Slot) {
        match self.handed_over.iter_mut().find(|(known, _)| *known == slot) {
            Some((_, credit)) => *credit = CREDIT,
            None => self.handed_over.push((slot, CREDIT)),
        }
    }

    #[cold]
    fn spend_credit(&mut self, slot: Slot) -> bool {
        let Some(index) = self.handed_over.iter().position(|(known, _)| *known == slot) else { return false };
        self.handed_over[index].1 -= 1;
        if self.handed_over[index].1 == 0 {
            self.handed_over.swap_remove(index);
        }
        true
    }

    /// Opens a use; `close` ends it.
    pub(crate) fn open(&mut self, range: Range, mode: AccessMode, holder: Holder) -> u32 {
        self.next_open = self.next_open.wrapping_add(1);
        self.open.push(Open { id: self.next_open, range, mode, holder });
        self.next_open
    }

    pub(crate) fn close(&mut self, id: u32) {
        self.open.retain(|open| open.id != id);
    }

    /// Whether a lend was never ended: such memory is never used again.
    pub(crate) fn is_lent(&self) -> bool {
        self.open.iter().any(|open| matches!(open.holder, Holder::Stream(_)))
    }

    /// Whether all uses are complete or precede whatever this stream does next.
    pub(crate) fn is_ready_for(&self, known: Known<'_>) -> bool {
        self.uses.iter().all(|one| known.covers(one.slot, one.sequence))
    }

    /// The memory goes to a new owner: nobody holds it open, and every use counts as a write, whoever uses it next.
    pub(crate) fn inherit(&mut self, host: &Clock) {
        self.open.clear();
        self.handed_over.clear();
        self.uses.retain(|one| host.get(one.slot) < one.sequence && !(bug(Bug::ReadersForgotten) && one.mode == AccessMode::Read));
        for one in &mut self.uses {
            one.mode = AccessMode::Write;
        }
    }

    /// Every use, for waiting on all of them.
    pub(crate) fn needs_of_all(&self, host: &Clock) -> Needs {
        let mut needs = Needs::new();
        for one in self.uses.iter().filter(|one| host.get(one.slot) < one.sequence) {
            need(&mut needs, one.slot, one.sequence);
        }
        needs
    }

    /// Entries kept, for tests of boundedness.
    #[cfg(any(test, feature = "counters"))]
    pub(crate) fn len(&self) -> usize {
        self.uses.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use AccessMode::{Read, Write};

    fn at(start: u64, end: u64, mode: AccessMode, slot: u16, sequence: u64) -> Use {
        Use { range: Range { start, end }, mode, slot: Slot(slot), sequence }
    }

    fn enter(list: &mut UseList, new: Use) -> Vec<(u16, u64)> {
        let (clock, host) = (Clock::default(), Clock::default());
        let mut needs = Needs::new();
        list.enter(new, Known { stream: Some((new.slot, &clock)), host: &host }, &mut needs);
        needs.iter().map(|(slot, sequence)| (slot.0, *sequence)).collect()
    }

    #[test]
    fn readers_do_not_order_each_other_and_a_writer_waits_for_all() {
        let mut list = UseList::default();
        assert!(enter(&mut list, at(0, 8, Read, 0, 1)).is_empty());
        assert!(enter(&mut list, at(0, 8, Read, 1, 1)).is_empty());
        assert_eq!(enter(&mut list, at(4, 6, Write, 2, 1)), [(0, 1), (1, 1)]);
    }

    #[test]
    fn disjoint_ranges_do_not_order_each_other() {
        let mut list = UseList::default();
        enter(&mut list, at(0, 4, Write, 0, 1));
        assert!(enter(&mut list, at(4, 8, Write, 1, 1)).is_empty());
    }

    #[test]
    fn a_buffer_passed_twice_is_entered_once() {
        let mut list = UseList::default();
        enter(&mut list, at(0, 8, Read, 1, 7));
        enter(&mut list, at(0, 8, Write, 0, 1));
        enter(&mut list, at(0, 8, Write, 0, 1));
        enter(&mut list, at(2, 4, Read, 0, 1));
        assert_eq!(list.len(), 2);
    }

    #[test]
    fn a_full_list_is_merged_and_forgets_nothing() {
        let mut list = UseList::default();
        for i in 0..1000 {
            enter(&mut list, at(i * 16, i * 16 + 8, Write, 0, i + 1));
        }
        assert!(list.len() <= FULL + 1);
        assert_eq!(enter(&mut list, at(0, 1, Read, 1, 1)), [(0, enter_highest(&list))]);
        assert_eq!(enter(&mut list, at(999 * 16, 999 * 16 + 1, Read, 2, 1)), [(0, 1000)]);
    }

    fn enter_highest(list: &UseList) -> u64 {
        list.uses.iter().filter(|one| one.slot == Slot(0) && one.range.start == 0).map(|one| one.sequence).max().unwrap()
    }

    #[test]
    fn early_checkpoints_stop_after_eight_that_nobody_waited_for() {
        let mut list = UseList::default();
        enter(&mut list, at(0, 8, Write, 0, 1));
        enter(&mut list, at(0, 8, Read, 1, 1));
        let clock = Clock::default();
        let known = Known { stream: Some((Slot(0), &clock)), host: &clock };
        let early = (2..20).filter(|&sequence| list.enter(at(0, 8, Read, 0, sequence), known, &mut Needs::new())).count();
        assert_eq!(early, 8);
    }
}
