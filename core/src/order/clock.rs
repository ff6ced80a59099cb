//! Sequences and vectors: which submissions of which stream something comes after.

use smallvec::SmallVec;

/// The number of a stream among all streams of an opened backend. It outlives the stream and is given to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u16);

/// A stream's count of submissions: the first is 1.
pub(crate) type Sequence = u64;

/// For each stream the highest submission that is known to come before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(SmallVec<[Sequence; 16]>);

impl Clock {
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Sequence {
        self.0.get(usize::from(slot.0)).copied().unwrap_or(0)
    }

    /// Takes in one entry.
    pub(crate) fn raise_to(&mut self, slot: Slot, sequence: Sequence) {
        let index = usize::from(slot.0);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].max(sequence);
    }

    /// Takes in another vector.
    pub(crate) fn raise(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Clone for Clock {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }

    /// Keeps the storage: copying the vector of a busy runtime's stream again and again allocates nothing.
    fn clone_from(&mut self, source: &Self) {
        self.0.clear();
        self.0.extend_from_slice(&source.0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn raising_takes_the_higher_entry_of_each_stream() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.raise_to(Slot(0), 5);
        b.raise_to(Slot(0), 3);
        b.raise_to(Slot(20), 7);
        a.raise(&b);
        assert_eq!((a.get(Slot(0)), a.get(Slot(20)), a.get(Slot(21))), (5, 7, 0));
    }
}
