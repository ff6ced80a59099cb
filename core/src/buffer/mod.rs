//! Typed buffers and views of them.

mod future;
mod host;
mod region;
mod slice;
mod transfer;

pub use future::ReadFuture;
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
/// assert_eq!((x.len(), x.bytes(), x.is_empty()), (4, 16, false));
/// assert!(*x.device() == device);
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
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let x = device.alloc::<f32>(1000)?;
    /// assert_eq!(x.bytes(), 4000);
    /// let refused = device.alloc::<u64>(usize::MAX).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::Overflow { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<B, T>> {
        Buffer::new(self, len, None)
    }

    /// A buffer of `len` elements in pinned memory.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc); [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let mut x = device.alloc_pinned::<u32>(4)?;
    /// x.write()?.copy_from_slice(&[1, 2, 3, 4]);                  // from the host, in place
    /// let mut y = stream.zeros(4)?;
    /// y.copy_from(&stream, &x)?;                                  // and to the device without another copy on the way
    /// assert_eq!(y.download(&stream)?, [1, 2, 3, 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn alloc_pinned<T: Element>(&self, len: usize) -> Result<Buffer<B, T, PinnedMemory>> {
        self.supports(Feature::PinnedMemory)?;
        Buffer::new(self, len, None)
    }

    /// A buffer of `len` elements in unified memory.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc); [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// ```
    /// # use polywarp_core::{Runtime, backend::Feature, host::{Host, HostConfig}};
    /// let device = Runtime::new(Host::default())?.device(0)?;
    /// let mut x = device.alloc_unified::<u32>(2)?;
    /// x.write()?[0] = 7;
    /// assert_eq!(x.read()?[0], 7);
    /// let without = Runtime::new(Host::new(&HostConfig::new(1).without(Feature::UnifiedMemory)))?.device(0)?;
    /// assert!(without.alloc_unified::<u32>(2).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.alloc::<u32>(1024)?;
    /// x.fill(&stream, 1)?;
    /// let address = x.device_address();
    /// drop(x);                                                    // the fill may still run
    /// let y = stream.alloc::<u32>(1024)?;                         // what comes next on the stream runs after it
    /// assert_eq!(y.device_address(), address);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<B, T>> {
        Buffer::new(&self.device, len, Some(&self.lane))
    }

    /// A buffer with every byte zero.
    ///
    /// # Errors
    /// As for [`Device::alloc`].
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let x = stream.zeros::<u32>(3)?;
    /// assert_eq!(x.download(&stream)?, [0, 0, 0]);
    /// assert!(stream.zeros::<u32>(0)?.download(&stream)?.is_empty());   // no bytes never reach the driver
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut data = [1u32, 2, 3];
    /// let x = stream.upload(&data)?;
    /// data.fill(0);                                               // was read already: nothing to wait for
    /// assert_eq!(x.download(&stream)?, [1, 2, 3]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use polywarp_core::{BufferSlice, Result, Stream, backend::Backend};
    /// fn first<B: Backend>(stream: &Stream<B>, x: BufferSlice<'_, B, u32>) -> Result<Vec<u32>> {
    ///     x.slice(..1)?.download(stream)
    /// }
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let x = stream.upload(&[1u32, 2, 3])?;
    /// assert_eq!(first(&stream, x.as_slice())?, [1]);
    /// assert_eq!(first(&stream, x.slice(2..)?)?, [3]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn as_slice(&self) -> BufferSlice<'_, B, T, M> {
        BufferSlice::new(self.allocation.as_ref(), &self.device, 0, self.len)
    }

    /// All of it, to write.
    ///
    /// ```
    /// # use polywarp_core::{BufferSliceMut, Result, Stream, backend::Backend};
    /// fn clear<B: Backend>(stream: &Stream<B>, mut x: BufferSliceMut<'_, B, u32>) -> Result<()> {
    ///     x.fill(stream, 0)
    /// }
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.upload(&[1u32, 2, 3])?;
    /// clear(&stream, x.slice_mut(1..2)?)?;
    /// assert_eq!(x.download(&stream)?, [1, 0, 3]);
    /// clear(&stream, x.as_slice_mut())?;
    /// assert_eq!(x.download(&stream)?, [0, 0, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn as_slice_mut(&mut self) -> BufferSliceMut<'_, B, T, M> {
        BufferSliceMut::new(self.allocation.as_ref(), &self.device, 0, self.len)
    }

    /// The elements of a range, to read.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let x = stream.upload(&[1u32, 2, 3, 4])?;
    /// assert_eq!(x.slice(1..=2)?.download(&stream)?, [2, 3]);
    /// let refused = x.slice(2..5).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::OutOfBounds { start: 2, end: 5, len: 4, .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn slice(&self, range: impl std::ops::RangeBounds<usize>) -> Result<BufferSlice<'_, B, T, M>> {
        self.as_slice().slice(range)
    }

    /// The elements of a range, to write.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.zeros::<u32>(4)?;
    /// x.slice_mut(2..)?.fill(&stream, 9)?;
    /// assert_eq!(x.download(&stream)?, [0, 0, 9, 9]);
    /// assert!(x.slice_mut(3..2).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn slice_mut(&mut self, range: impl std::ops::RangeBounds<usize>) -> Result<BufferSliceMut<'_, B, T, M>> {
        self.as_slice_mut().slice(range)
    }

    /// Two views, before and from `middle` on.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let x = stream.upload(&[1u32, 2, 3])?;
    /// let (head, tail) = x.split_at(1)?;
    /// assert_eq!((head.download(&stream)?, tail.download(&stream)?), (vec![1], vec![2, 3]));
    /// assert!(x.split_at(4).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn split_at(&self, middle: usize) -> Result<(BufferSlice<'_, B, T, M>, BufferSlice<'_, B, T, M>)> {
        self.as_slice().split_at(middle)
    }

    /// Two views, before and from `middle` on, to write at the same time.
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds).
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// let (device, axpy) = axpy()?;
    /// let stream = device.stream()?;
    /// let mut x = stream.upload(&[1.0f32, 2.0, 10.0, 20.0])?;
    /// let (y, x_tail) = x.split_at_mut(2)?;
    /// axpy.launch(&stream, 2, (x_tail.as_slice().span(), y.span_mut(), 1.0))?;    // reads one half, writes the other
    /// assert_eq!(x.download(&stream)?, [11.0, 22.0, 10.0, 20.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn split_at_mut(&mut self, middle: usize) -> Result<(BufferSliceMut<'_, B, T, M>, BufferSliceMut<'_, B, T, M>)> {
        self.as_slice_mut().split_at(middle)
    }

    /// Writes these elements, in stream order; returns when the last of them has been read.
    ///
    /// # Errors
    /// [`LengthMismatch`](ErrorKind::LengthMismatch); [`HostBorrowed`](ErrorKind::HostBorrowed), [`Lent`](ErrorKind::Lent); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.alloc::<u32>(3)?;
    /// x.upload(&stream, &[1, 2, 3])?;
    /// let refused = x.upload(&stream, &[1, 2]).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::LengthMismatch { expected: 3, got: 2, .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn upload(&mut self, stream: &Stream<B>, data: &[T]) -> Result<()> {
        self.as_slice_mut().upload(stream, data)
    }

    /// Copies from another buffer or view, in stream order; also between kinds of memory and between devices.
    ///
    /// # Errors
    /// [`LengthMismatch`](ErrorKind::LengthMismatch); [`Overlap`](ErrorKind::Overlap); [`HostBorrowed`](ErrorKind::HostBorrowed),
    /// [`Lent`](ErrorKind::Lent); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::{Host, HostConfig}};
    /// let runtime = Runtime::new(Host::new(&HostConfig::new(2)))?;
    /// let (a, b) = (runtime.device(0)?.stream()?, runtime.device(1)?.stream()?);
    /// let x = a.upload(&[1u32, 2, 3])?;
    /// let mut y = b.zeros(2)?;
    /// y.copy_from(&b, x.slice(1..)?)?;                            // from the other device, after the upload there
    /// assert_eq!(y.download(&b)?, [2, 3]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.alloc::<[f32; 3]>(2)?;
    /// x.fill(&stream, [0.0, 0.5, 1.0])?;                          // elements of any size
    /// assert_eq!(x.download(&stream)?, [[0.0, 0.5, 1.0]; 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn fill(&mut self, stream: &Stream<B>, value: T) -> Result<()> {
        self.as_slice_mut().fill(stream, value)
    }

    /// The elements, after all work that writes them; waits on the host.
    ///
    /// # Errors
    /// [`HostBorrowed`](ErrorKind::HostBorrowed), [`Lent`](ErrorKind::Lent); [`DevicePoisoned`](ErrorKind::DevicePoisoned); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let (a, b) = (device.stream()?, device.stream()?);
    /// let mut x = a.zeros::<u32>(3)?;
    /// x.fill(&a, 5)?;
    /// assert_eq!(x.download(&b)?, [5, 5, 5]);                     // after the fill, although on another stream
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let x = stream.upload(&[1u32, 2])?;
    /// let mut y = x.try_clone(&stream)?;
    /// y.fill(&stream, 0)?;
    /// assert_eq!(x.download(&stream)?, [1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use polywarp_core::backend::DeviceAddress;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let x = device.alloc::<u32>(100)?;
    /// assert!(x.device_address().0.is_multiple_of(device.info().limits.allocation_alignment));
    /// assert_eq!(device.alloc::<u32>(0)?.device_address(), DeviceAddress::NULL);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
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
