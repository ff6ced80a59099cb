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
    ///
    /// ```
    /// use polywarp_core::counters::conversions;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (kernel, arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
    /// let before = conversions();
    /// kernel.launch(&stream, 4, &arguments)?;
    /// assert_eq!(conversions() - before, 0);
    /// axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0))?;
    /// assert_eq!(conversions() - before, 3);                      // one per argument
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn conversions() -> u64 {
        CONVERSIONS.get()
    }

    /// Locks of the ordering protocol taken by this thread so far.
    ///
    /// ```
    /// use polywarp_core::counters::locks;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0))?;
    /// let before = locks();
    /// axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0))?;
    /// println!("{} locks for a launch on the stream that it was on before", locks() - before);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
