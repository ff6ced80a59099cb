//! Typed buffers and views of them.

mod host;
mod region;
mod slice;
mod transfer;

pub use host::{HostGuard, HostGuardMut};
pub(crate) use region::Region;
pub use slice::{BufferSlice, BufferSliceMut};
pub use transfer::{HostData, PendingRead};

use crate::backend::{Backend, DeviceAddress, Feature};
use crate::convert::Element;
use crate::device::Device;
use crate::memory::{Allocation, DeviceMemory, MemoryKind, PinnedMemory, UnifiedMemory};
use crate::order::Lane;
#[cfg(any(test, feature = "counters"))]
use crate::order::Tracked;
use crate::stream::Stream;
use crate::{ErrorKind, Result};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// `len` elements of type `T` in memory of kind `M`, which orders itself: using it on any stream, or from the host, happens after every use
/// that it conflicts with, and it is reused or returned only behind all of them.
///
/// Not `Clone`: [`try_clone`](Self::try_clone) copies the contents. Fresh contents are unspecified.
///
/// ```
/// use polywarp_core::{Buffer, Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let stream = device.stream()?;
/// let mut x: Buffer<Host, u32> = stream.upload(&[1, 2, 3, 4])?;
/// let (mut left, right) = x.split_at_mut(2)?;
/// left.copy_from(&stream, &right)?;
/// assert_eq!(x.download(&stream)?, [3, 4, 3, 4]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Buffer<B: Backend, T, M: MemoryKind = DeviceMemory> {
    /// None for buffers of no bytes.
    allocation: Option<Arc<Allocation<B>>>,
    device: Device<B>,
    len: usize,
    holds: PhantomData<fn() -> (T, M)>,
}

impl<B: Backend, T, M: MemoryKind> fmt::Debug for Buffer<B, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("element", &std::any::type_name::<T>())
            .field("len", &self.len)
            .field("kind", &M::KIND)
            .field("device", &self.device)
            .finish()
    }
}

impl<B: Backend> Device<B> {
    /// A buffer of `len` elements in device memory. Contents are unspecified.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory), [`Overflow`](ErrorKind::Overflow) of count × size.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<B, T>> {
        Buffer::new(self, len, None)
    }

    /// A buffer of `len` elements in pinned memory.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc); [`Unsupported`](ErrorKind::Unsupported).
    pub fn alloc_pinned<T: Element>(&self, len: usize) -> Result<Buffer<B, T, PinnedMemory>> {
        self.supports(Feature::PinnedMemory)?;
        Buffer::new(self, len, None)
    }

    /// A buffer of `len` elements in unified memory.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc); [`Unsupported`](ErrorKind::Unsupported).
    pub fn alloc_unified<T: Element>(&self, len: usize) -> Result<Buffer<B, T, UnifiedMemory>> {
        self.supports(Feature::UnifiedMemory)?;
        Buffer::new(self, len, None)
    }

    fn supports(&self, feature: Feature) -> Result<()> {
        if self.info().features.contains(feature) {
            return Ok(());
        }
        Err(self.state.error(ErrorKind::Unsupported { feature }, "allocate"))
    }
}

impl<B: Backend> Stream<B> {
    /// A buffer of `len` elements in device memory, to be used on this stream first: memory just dropped that only this stream used is
    /// taken at once. Contents are unspecified.
    ///
    /// # Errors
    /// As for [`Device::alloc`].
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<B, T>> {
        Buffer::new(&self.device, len, Some(&self.lane))
    }

    /// A buffer with every byte zero.
    ///
    /// # Errors
    /// As for [`Device::alloc`].
    #[track_caller]
    pub fn zeros<T: Element + bytemuck::Zeroable>(&self, len: usize) -> Result<Buffer<B, T>> {
        let mut buffer = self.alloc(len)?;
        buffer.as_slice_mut().region_mut().fill_bytes(self, 0)?;
        Ok(buffer)
    }

    /// A buffer with these elements.
    ///
    /// # Errors
    /// As for [`Device::alloc`].
    #[track_caller]
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<B, T>> {
        let mut buffer = self.alloc(data.len())?;
        buffer.upload(self, data)?;
        Ok(buffer)
    }
}

impl<B: Backend, T: Element, M: MemoryKind> Buffer<B, T, M> {
    fn new(device: &Device<B>, len: usize, home: Option<&Lane<B>>) -> Result<Self> {
        let overflow = || device.state.error(ErrorKind::Overflow { what: "element count × size".into() }, "allocate");
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64).ok_or_else(overflow)?;
        let allocation = if bytes == 0 {
            device.state.usable()?;
            None
        } else {
            Some(device.allocate(bytes, M::KIND, home)?)
        };
        Ok(Self { allocation, device: device.clone(), len, holds: PhantomData })
    }

    /// How many elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    /// The device it was allocated for.
    #[must_use]
    pub fn device(&self) -> &Device<B> {
        &self.device
    }

    /// All of it, to read.
    #[must_use]
    pub fn as_slice(&self) -> BufferSlice<'_, B, T, M> {
        BufferSlice::new(self.allocation.as_ref(), &self.device, 0, self.len)
    }

    /// All of it, to write.
    #[must_use]
    pub fn as_slice_mut(&mut self) -> BufferSliceMut<'_, B, T, M> {
        BufferSliceMut::new(self.allocation.as_ref(), &self.device, 0, self.len)
    }

    /// The elements of a range, to read.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    pub fn slice(&self, range: impl std::ops::RangeBounds<usize>) -> Result<BufferSlice<'_, B, T, M>> {
        self.as_slice().slice(range)
    }

    /// The elements of a range, to write.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    pub fn slice_mut(&mut self, range: impl std::ops::RangeBounds<usize>) -> Result<BufferSliceMut<'_, B, T, M>> {
        self.as_slice_mut().slice(range)
    }

    /// Two views, before and from `middle` on.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    pub fn split_at(&self, middle: usize) -> Result<(BufferSlice<'_, B, T, M>, BufferSlice<'_, B, T, M>)> {
        self.as_slice().split_at(middle)
    }

    /// Two views, before and from `middle` on, to write at the same time.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    pub fn split_at_mut(&mut self, middle: usize) -> Result<(BufferSliceMut<'_, B, T, M>, BufferSliceMut<'_, B, T, M>)> {
        self.as_slice_mut().split_at(middle)
    }

    /// Writes these elements, in stream order; returns when the last of them has been read.
    ///
    /// # Errors
    /// [`LengthMismatch`](ErrorKind::LengthMismatch); [`HostBorrowed`](ErrorKind::HostBorrowed), [`Lent`](ErrorKind::Lent); those of the driver.
    #[track_caller]
    pub fn upload(&mut self, stream: &Stream<B>, data: &[T]) -> Result<()> {
        self.as_slice_mut().upload(stream, data)
    }

    /// Copies from another buffer or view, in stream order; also between kinds of memory and between devices.
    ///
    /// # Errors
    /// [`LengthMismatch`](ErrorKind::LengthMismatch); [`Overlap`](ErrorKind::Overlap); [`HostBorrowed`](ErrorKind::HostBorrowed),
    /// [`Lent`](ErrorKind::Lent); those of the driver.
    #[track_caller]
    pub fn copy_from<'a, N: MemoryKind>(&mut self, stream: &Stream<B>, source: impl Into<BufferSlice<'a, B, T, N>>) -> Result<()>
    where
        T: 'a,
    {
        self.as_slice_mut().copy_from(stream, source)
    }

    /// Sets every element, in stream order.
    ///
    /// # Errors
    /// [`HostBorrowed`](ErrorKind::HostBorrowed), [`Lent`](ErrorKind::Lent); those of the driver.
    #[track_caller]
    pub fn fill(&mut self, stream: &Stream<B>, value: T) -> Result<()> {
        self.as_slice_mut().fill(stream, value)
    }

    /// The elements, after all work that writes them; waits on the host.
    ///
    /// # Errors
    /// [`HostBorrowed`](ErrorKind::HostBorrowed), [`Lent`](ErrorKind::Lent); [`DevicePoisoned`](ErrorKind::DevicePoisoned); those of the driver.
    #[track_caller]
    pub fn download(&self, stream: &Stream<B>) -> Result<Vec<T>>
    where
        T: bytemuck::AnyBitPattern,
    {
        self.as_slice().download(stream)
    }

    /// A new buffer on the stream's device with the same contents.
    ///
    /// # Errors
    /// As for [`Device::alloc`] and [`copy_from`](Self::copy_from).
    #[track_caller]
    pub fn try_clone(&self, stream: &Stream<B>) -> Result<Self> {
        let mut copy = Self::new(&stream.device, self.len, Some(&stream.lane))?;
        copy.copy_from(stream, self)?;
        Ok(copy)
    }

    /// How many uses are recorded, for tests of what conversion, guards and failures leave behind.
    #[cfg(any(test, feature = "counters"))]
    #[doc(hidden)]
    #[must_use]
    pub fn recorded_uses(&self) -> usize {
        self.allocation.as_ref().map_or(0, |allocation| self.device.order().ledger().lists[allocation.list()].len())
    }

    /// Where the device finds it; null if it has no bytes. Work past polywarp that uses the address is not ordered: see
    /// [`lend`](BufferSlice::lend) for work that is.
    #[must_use]
    pub fn device_address(&self) -> DeviceAddress {
        self.allocation.as_ref().map_or(DeviceAddress::NULL, |allocation| allocation.address())
    }
}

impl<'a, B: Backend, T: Element, M: MemoryKind> From<&'a Buffer<B, T, M>> for BufferSlice<'a, B, T, M> {
    fn from(buffer: &'a Buffer<B, T, M>) -> Self {
        buffer.as_slice()
    }
}
