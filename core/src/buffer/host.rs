//! Host access to memory that the host can reach, through guards.

#![allow(unsafe_code, reason = "makes slices of memory that is open to the host")]

use super::region::HostUse;
use super::{Buffer, BufferSlice, BufferSliceMut};
use crate::Result;
use crate::backend::{AccessMode, Backend};
use crate::convert::Element;
use crate::memory::HostVisible;
use bytemuck::{AnyBitPattern, NoUninit};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Elements open to the host for reading. While it lives, work that would write them is refused with
/// [`HostBorrowed`](crate::ErrorKind::HostBorrowed). If it is forgotten, they stay refused.
///
/// ```
/// use polywarp_core::{Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let stream = device.stream()?;
/// let mut x = device.alloc_pinned::<f32>(3)?;
/// x.fill(&stream, 2.0)?;
/// assert_eq!(x.read()?[..], [2.0, 2.0, 2.0]);     // waited for the fill
/// x.write()?[1] = 5.0;
/// assert_eq!(x.download(&stream)?, [2.0, 5.0, 2.0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct HostGuard<'a, B: Backend, T> {
    open: Option<HostUse<'a, B>>,
    len: usize,
    holds: PhantomData<&'a [T]>,
}

/// Elements open to the host for writing. While it lives, work that uses them is refused with
/// [`HostBorrowed`](crate::ErrorKind::HostBorrowed); see [`HostGuard`].
///
/// ```
/// # let stream = polywarp_core::doctest::stream()?;
/// # let device = stream.device();
/// let mut x = device.alloc_pinned::<f32>(4)?;
/// let (left, mut right) = x.split_at_mut(2)?;
/// let mut guard = right.write()?;
/// guard.fill(1.0);
/// left.as_slice().download(&stream)?;                         // the other half stays usable
/// drop(guard);
/// assert_eq!(right.as_slice().download(&stream)?, [1.0, 1.0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct HostGuardMut<'a, B: Backend, T> {
    open: Option<HostUse<'a, B>>,
    len: usize,
    holds: PhantomData<&'a mut [T]>,
}

// SAFETY: the guard is a borrow of a slice plus tracked handles that are `Send` and `Sync` themselves.
unsafe impl<B: Backend, T: Sync> Send for HostGuard<'_, B, T> {}
// SAFETY: as above.
unsafe impl<B: Backend, T: Sync> Sync for HostGuard<'_, B, T> {}
// SAFETY: the guard is a unique borrow of a slice plus tracked handles that are `Send` and `Sync` themselves.
unsafe impl<B: Backend, T: Send> Send for HostGuardMut<'_, B, T> {}
// SAFETY: as above.
unsafe impl<B: Backend, T: Sync> Sync for HostGuardMut<'_, B, T> {}

fn first<B: Backend, T>(open: Option<&HostUse<'_, B>>) -> *mut T {
    open.map_or(NonNull::dangling().as_ptr(), |open| open.host.cast())
}

impl<B: Backend, T: AnyBitPattern> Deref for HostGuard<'_, B, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the guard is entered, so every write is complete and none follows while it lives; offset and alignment are those of a view
        // of `T`s in an allocation aligned to 256; every bit pattern is a value of `T`; the backend's memory is initialised.
        unsafe { std::slice::from_raw_parts(first(self.open.as_ref()), self.len) }
    }
}

impl<B: Backend, T: AnyBitPattern> Deref for HostGuardMut<'_, B, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as for `HostGuard`; a write guard excludes every other use.
        unsafe { std::slice::from_raw_parts(first(self.open.as_ref()), self.len) }
    }
}

impl<B: Backend, T: AnyBitPattern> DerefMut for HostGuardMut<'_, B, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `HostGuard`; a write guard excludes every other use, and the view was borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(first(self.open.as_ref()), self.len) }
    }
}

impl<B: Backend, T: AnyBitPattern + fmt::Debug> fmt::Debug for HostGuard<'_, B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<B: Backend, T: AnyBitPattern + fmt::Debug> fmt::Debug for HostGuardMut<'_, B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<'a, B: Backend, T: Element + AnyBitPattern, M: HostVisible> BufferSlice<'a, B, T, M> {
    /// Opens the elements to the host, after all work that writes them.
    ///
    /// # Errors
    /// [`HostBorrowed`](crate::ErrorKind::HostBorrowed) if a write guard is open, [`Lent`](crate::ErrorKind::Lent);
    /// [`DevicePoisoned`](crate::ErrorKind::DevicePoisoned); [`InCallback`](crate::ErrorKind::InCallback).
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let x = stream.upload(&[1.0f32; 4])?;
    /// let mut y = device.alloc_pinned::<f32>(4)?;
    /// y.fill(&stream, 0.0)?;
    /// let (kernel, arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
    /// let guard = y.slice(2..)?.read()?;                          // half of it
    /// let refused = kernel.launch(&stream, 4, &arguments).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::HostBorrowed { .. }));
    /// drop(guard);
    /// kernel.launch(&stream, 4, &arguments)?;
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn read(&self) -> Result<HostGuard<'a, B, T>> {
        Ok(HostGuard { open: self.region().open(AccessMode::Read)?, len: self.len(), holds: PhantomData })
    }
}

impl<B: Backend, T: Element + AnyBitPattern + NoUninit, M: HostVisible> BufferSliceMut<'_, B, T, M> {
    /// Opens the elements to the host for writing, after all work that uses them.
    ///
    /// # Errors
    /// As for [`BufferSlice::read`].
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let mut x = device.alloc_unified::<u32>(4)?;
    /// x.fill(&stream, 1)?;
    /// let mut tail = x.slice_mut(2..)?;
    /// tail.write()?.iter_mut().for_each(|one| *one += 1);         // waited for the fill
    /// assert_eq!(x.read()?[..], [1, 1, 2, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn write(&mut self) -> Result<HostGuardMut<'_, B, T>> {
        let len = self.len();
        Ok(HostGuardMut { open: self.region_mut().open(AccessMode::Write)?, len, holds: PhantomData })
    }
}

impl<B: Backend, T: Element + AnyBitPattern, M: HostVisible> Buffer<B, T, M> {
    /// Opens the elements to the host, after all work that writes them.
    ///
    /// # Errors
    /// As for [`BufferSlice::read`].
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let mut x = device.alloc_pinned::<u32>(3)?;
    /// x.fill(&stream, 7)?;
    /// let (one, other) = (x.read()?, x.read()?);                  // readers do not exclude each other
    /// assert_eq!(one[..], other[..]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn read(&self) -> Result<HostGuard<'_, B, T>> {
        self.as_slice().read()
    }

    /// Opens the elements to the host for writing, after all work that uses them. Types with padding are [uploaded](Self::upload) instead.
    ///
    /// # Errors
    /// As for [`BufferSlice::read`].
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let mut x = device.alloc_pinned::<u32>(3)?;
    /// std::mem::forget(x.write()?);                               // forgotten: the elements stay refused
    /// let refused = x.download(&stream).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::HostBorrowed { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn write(&mut self) -> Result<HostGuardMut<'_, B, T>>
    where
        T: NoUninit,
    {
        let len = self.len();
        Ok(HostGuardMut { open: self.as_slice_mut().into_region().open(AccessMode::Write)?, len, holds: PhantomData })
    }
}
