//! What a call cost besides driver calls: conversions and locks, counted per thread in tests and under the feature `counters`.

#[cfg(any(test, feature = "counters"))]
mod imp {
    use std::cell::Cell;

    thread_local! {
        static CONVERSIONS: Cell<u64> = const { Cell::new(0) };
        static LOCKS: Cell<u64> = const { Cell::new(0) };
    }

    #[inline]
    pub(crate) fn conversion() {
        CONVERSIONS.set(CONVERSIONS.get() + 1);
    }

    #[inline]
    pub(crate) fn lock() {
        LOCKS.set(LOCKS.get() + 1);
    }

    /// Arguments converted by this thread so far.
    #[must_use]
    pub fn conversions() -> u64 {
        CONVERSIONS.get()
    }

    /// Locks of the ordering protocol taken by this thread so far.
    #[must_use]
    pub fn locks() -> u64 {
        LOCKS.get()
    }
}

#[cfg(not(any(test, feature = "counters")))]
mod imp {
    #[inline(always)]
    pub(crate) fn conversion() {}

    #[inline(always)]
    pub(crate) fn lock() {}
}

pub(crate) use imp::{conversion, lock};
#[cfg(any(test, feature = "counters"))]
pub use imp::{conversions, locks};
