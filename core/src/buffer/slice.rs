//! Views: a range of a buffer's elements, to read or to write.

use super::{PendingRead, Region, transfer};
use crate::backend::{AccessMode, Backend, DeviceAddress};
use crate::convert::Element;
use crate::device::Device;
use crate::memory::{Allocation, DeviceMemory, MemoryKind};
use crate::stream::Stream;
use crate::{ErrorKind, Result};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

/// Elements of a buffer, to read. Copies of it are the same view.
///
/// ```
/// use polywarp_core::{Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let stream = device.stream()?;
/// let x = stream.upload(&[1u32, 2, 3, 4, 5])?;
/// assert_eq!(x.slice(1..4)?.download(&stream)?, [2, 3, 4]);
/// assert!(x.slice(4..9).is_err());
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct BufferSlice<'a, B: Backend, T, M: MemoryKind = DeviceMemory> {
    pub(crate) allocation: Option<&'a Arc<Allocation<B>>>,
    device: &'a Device<B>,
    offset: u64,
    len: usize,
    views: PhantomData<(&'a T, fn() -> M)>,
}

/// Elements of a buffer, to write. Nobody else reaches them while it lives.
///
/// ```
/// use polywarp_core::{Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let stream = device.stream()?;
/// let mut x = stream.upload(&[0u32; 5])?;
/// x.slice_mut(1..3)?.upload(&stream, &[7, 8])?;
/// assert_eq!(x.download(&stream)?, [0, 7, 8, 0, 0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct BufferSliceMut<'a, B: Backend, T, M: MemoryKind = DeviceMemory> {
    pub(crate) allocation: Option<&'a Arc<Allocation<B>>>,
    device: &'a Device<B>,
    offset: u64,
    len: usize,
    views: PhantomData<(&'a mut T, fn() -> M)>,
}

impl<B: Backend, T, M: MemoryKind> Clone for BufferSlice<'_, B, T, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend, T, M: MemoryKind> Copy for BufferSlice<'_, B, T, M> {}

/// What both kinds of view have.
macro_rules! view {
    ($View:ident, $name:literal, $($from:tt)*) => {
        impl<B: Backend, T, M: MemoryKind> fmt::Debug for $View<'_, B, T, M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("element", &std::any::type_name::<T>())
                    .field("offset", &self.offset)
                    .field("len", &self.len)
                    .finish_non_exhaustive()
            }
        }

        impl<'a, B: Backend, T: Element, M: MemoryKind> $View<'a, B, T, M> {
            pub(crate) fn new(allocation: Option<&'a Arc<Allocation<B>>>, device: &'a Device<B>, offset: u64, len: usize) -> Self {
                Self { allocation, device, offset, len, views: PhantomData }
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
            ///
            /// ```
            /// # let stream = polywarp_core::doctest::stream()?;
            /// let mut x = stream.zeros::<u32>(8)?;
            /// let tail = x.slice_mut(5..)?;
            /// assert_eq!((tail.len(), tail.bytes(), tail.is_empty()), (3, 12, false));
            /// # Ok::<(), polywarp_core::Error>(())
            /// ```
            #[must_use]
            pub fn bytes(&self) -> u64 {
                (self.len * size_of::<T>()) as u64
            }

            /// Byte offset in the allocation.
            pub(crate) fn offset(&self) -> u64 {
                self.offset
            }

            /// The elements of a range.
            ///
            /// # Errors
            /// [`OutOfBounds`](ErrorKind::OutOfBounds).
            ///
            /// ```
            /// # let stream = polywarp_core::doctest::stream()?;
            /// let mut x = stream.upload(&[1u32, 2, 3, 4])?;
            /// let middle = x.slice_mut(1..3)?;
            /// assert!(middle.slice(2..3).is_err());                       // ranges count from the view's own start
            /// assert_eq!(x.slice(1..3)?.slice(1..)?.download(&stream)?, [3]);
            /// # Ok::<(), polywarp_core::Error>(())
            /// ```
            pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let Range { start, end } = bounds(self.device, range, self.len)?;
                Ok(Self::new(self.allocation, self.device, self.offset + (start * size_of::<T>()) as u64, end - start))
            }

            /// Two views, before and from `middle` on.
            ///
            /// # Errors
            /// [`OutOfBounds`](ErrorKind::OutOfBounds).
            ///
            /// ```
            /// # let stream = polywarp_core::doctest::stream()?;
            /// let mut x = stream.zeros::<u32>(5)?;
            /// let (mut left, mut right) = x.slice_mut(1..)?.split_at(3)?;
            /// left.fill(&stream, 1)?;
            /// right.fill(&stream, 2)?;
            /// assert_eq!(x.download(&stream)?, [0, 1, 1, 1, 2]);
            /// # Ok::<(), polywarp_core::Error>(())
            /// ```
            pub fn split_at(self, middle: usize) -> Result<(Self, Self)> {
                let Range { start, end } = bounds(self.device, middle.., self.len)?;
                let right = self.offset + (start * size_of::<T>()) as u64;
                let left = Self::new(self.allocation, self.device, self.offset, start);
                Ok((left, Self::new(self.allocation, self.device, right, end - start)))
            }

            /// The same bytes as elements of another type, none of whose bit patterns is wrong; for a view to write, neither is any of
            /// the type before.
            ///
            /// # Errors
            /// [`Misaligned`](ErrorKind::Misaligned) if address or length do not fit.
            ///
            /// ```
            /// # use polywarp_core::ErrorKind;
            /// # let stream = polywarp_core::doctest::stream()?;
            /// let x = stream.upload(&[0x0201_u16, 0x0403, 0x0605])?;
            /// assert_eq!(x.slice(..2)?.cast::<[u8; 4]>()?.download(&stream)?.len(), 1);
            /// let refused = x.as_slice().cast::<u32>().unwrap_err();      // 6 bytes are no whole number of them
            /// assert!(matches!(refused.kind(), ErrorKind::Misaligned { bytes: 6, size: 4, .. }));
            /// # Ok::<(), polywarp_core::Error>(())
            /// ```
            pub fn cast<U: Element + bytemuck::AnyBitPattern>(self) -> Result<$View<'a, B, U, M>>
            where
                T: bytemuck::NoUninit $($from)*,
            {
                let (size, align, bytes) = (size_of::<U>() as u64, align_of::<U>() as u64, self.bytes());
                if self.offset % align != 0 || size == 0 || bytes % size != 0 {
                    let kind = ErrorKind::Misaligned { offset: self.offset, bytes, size, align };
                    return Err(self.device.state.error(kind, "cast"));
                }
                Ok($View::new(self.allocation, self.device, self.offset, (bytes / size) as usize))
            }
        }
    };
}

view!(BufferSlice, "BufferSlice",);
view!(BufferSliceMut, "BufferSliceMut", + bytemuck::AnyBitPattern);

/// The range within `len` elements.
fn bounds<B: Backend>(device: &Device<B>, range: impl RangeBounds<usize>, len: usize) -> Result<Range<usize>> {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&start) => start.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.checked_add(1),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok(start..end),
        _ => {
            let (start, end) = (start.unwrap_or(usize::MAX) as u64, end.unwrap_or(usize::MAX) as u64);
            let kind = ErrorKind::OutOfBounds { what: "elements of a buffer".into(), start, end, len: len as u64 };
            Err(device.state.error(kind, "slice"))
        }
    }
}

impl<'a, B: Backend, T: Element, M: MemoryKind> BufferSlice<'a, B, T, M> {
    pub(crate) fn region(&self) -> Region<'a, B> {
        Region { allocation: self.allocation, device: self.device, offset: self.offset, bytes: self.bytes() }
    }

    /// The elements, after all work that writes them; waits on the host.
    ///
    /// # Errors
    /// [`HostBorrowed`](ErrorKind::HostBorrowed), [`Lent`](ErrorKind::Lent); [`DevicePoisoned`](ErrorKind::DevicePoisoned); those of the driver.
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let x = stream.upload(&[1u32, 2, 3, 4])?;
    /// assert_eq!(x.slice(2..)?.download(&stream)?, [3, 4]);       // no other elements travel
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn download(&self, stream: &Stream<B>) -> Result<Vec<T>>
    where
        T: bytemuck::AnyBitPattern,
    {
        self.region().download(stream, self.len)
    }

    /// The same into memory that is there already.
    ///
    /// # Errors
    /// As for [`download`](Self::download); [`LengthMismatch`](ErrorKind::LengthMismatch).
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let x = stream.upload(&[1u32, 2, 3])?;
    /// let mut data = [0; 3];
    /// x.as_slice().download_into(&stream, &mut data)?;
    /// assert_eq!(data, [1, 2, 3]);
    /// assert!(x.as_slice().download_into(&stream, &mut data[1..]).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn download_into(&self, stream: &Stream<B>, data: &mut [T]) -> Result<()>
    where
        T: bytemuck::AnyBitPattern,
    {
        self.check_len(stream, data.len())?;
        self.region().download_into(stream, data)
    }

    /// The elements of types with wrong bit patterns (`bool`, enums): each is checked.
    ///
    /// # Errors
    /// As for [`download`](Self::download); [`InvalidArgument`](ErrorKind::InvalidArgument) names the first element that is no value of its type.
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let x = stream.upload(&[true, false])?;
    /// assert_eq!(x.as_slice().download_checked(&stream)?, [true, false]);
    /// let never_written = device.alloc::<bool>(2)?;
    /// let refused = never_written.as_slice().download_checked(&stream).unwrap_err();
    /// assert!(refused.to_string().contains("element 0 is no value of bool"));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn download_checked(&self, stream: &Stream<B>) -> Result<Vec<T>>
    where
        T: bytemuck::CheckedBitPattern,
    {
        let bits: Vec<T::Bits> = self.region().download(stream, self.len)?;
        transfer::check(bits).map_err(|index| {
            let what = format!("element {index} is no value of {}", std::any::type_name::<T>()).into();
            stream.device.state.error(ErrorKind::InvalidArgument { what }, "download")
        })
    }

    /// Starts to read; the host does not wait until the result is asked for.
    ///
    /// # Errors
    /// As for [`download`](Self::download).
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// # let stream = device.stream()?;
    /// let x = stream.upload(&[1u64, 2])?;
    /// let pending = x.as_slice().start_download(&stream)?;
    /// // … other work …
    /// assert_eq!(pending.wait()?, [1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn start_download(&self, stream: &Stream<B>) -> Result<PendingRead<B, T>>
    where
        T: bytemuck::AnyBitPattern,
    {
        PendingRead::start(self.region(), stream, self.len)
    }

    /// Hands the address to foreign code that reads the memory on `stream`. What it submits there is ordered like any use; while it runs,
    /// conflicting uses elsewhere are refused with [`Lent`](ErrorKind::Lent).
    ///
    /// # Errors
    /// [`Lent`](ErrorKind::Lent), [`HostBorrowed`](ErrorKind::HostBorrowed); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// # let stream = device.stream()?;
    /// let x = stream.upload(&[1u64, 2])?;
    /// let address = x.as_slice().lend(&stream, |address| address)?;   // a vendor library would be called here
    /// assert_eq!(address, x.device_address());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn lend<R>(&self, stream: &Stream<B>, foreign: impl FnOnce(DeviceAddress) -> R) -> Result<R> {
        self.region().lend(stream, AccessMode::Read, foreign)
    }

    fn check_len(&self, stream: &Stream<B>, got: usize) -> Result<()> {
        check_len(stream, self.len, got)
    }
}

fn check_len<B: Backend>(stream: &Stream<B>, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    let kind = ErrorKind::LengthMismatch { what: "elements of the transfer".into(), expected: expected as u64, got: got as u64 };
    Err(stream.device.state.error(kind, "transfer"))
}

impl<'a, B: Backend, T: Element, M: MemoryKind> BufferSliceMut<'a, B, T, M> {
    pub(crate) fn region_mut(&mut self) -> Region<'_, B> {
        Region { allocation: self.allocation, device: self.device, offset: self.offset, bytes: self.bytes() }
    }

    pub(crate) fn into_region(self) -> Region<'a, B> {
        Region { allocation: self.allocation, device: self.device, offset: self.offset, bytes: self.bytes() }
    }

    /// The same view, to read.
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.zeros::<u32>(4)?;
    /// let mut view = x.slice_mut(1..3)?;
    /// view.fill(&stream, 5)?;
    /// assert_eq!(view.as_slice().download(&stream)?, [5, 5]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn as_slice(&self) -> BufferSlice<'_, B, T, M> {
        BufferSlice::new(self.allocation, self.device, self.offset, self.len)
    }

    /// The same view for a shorter time.
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.zeros::<u32>(4)?;
    /// let mut view = x.as_slice_mut();
    /// view.reborrow().slice(..1)?.fill(&stream, 1)?;              // `slice` takes the view by value …
    /// view.fill(&stream, 2)?;                                     // … and it is still there
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn reborrow(&mut self) -> BufferSliceMut<'_, B, T, M> {
        BufferSliceMut::new(self.allocation, self.device, self.offset, self.len)
    }

    /// Writes these elements, in stream order; returns when the last of them has been read.
    ///
    /// # Errors
    /// As for [`Buffer::upload`](super::Buffer::upload).
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.zeros::<u32>(4)?;
    /// x.slice_mut(1..3)?.upload(&stream, &[7, 8])?;
    /// assert!(x.slice_mut(1..3)?.upload(&stream, &[7]).is_err());
    /// assert_eq!(x.download(&stream)?, [0, 7, 8, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn upload(&mut self, stream: &Stream<B>, data: &[T]) -> Result<()> {
        check_len(stream, self.len, data.len())?;
        self.region_mut().upload(stream, data)
    }

    /// Copies from another buffer or view, in stream order.
    ///
    /// # Errors
    /// As for [`Buffer::copy_from`](super::Buffer::copy_from).
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let mut x = stream.upload(&[1u32, 2, 3, 4])?;
    /// let (left, mut right) = x.split_at_mut(2)?;
    /// right.copy_from(&stream, &left)?;                           // within one buffer
    /// assert_eq!(x.download(&stream)?, [1, 2, 1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_from<'s, N: MemoryKind>(&mut self, stream: &Stream<B>, source: impl Into<BufferSlice<'s, B, T, N>>) -> Result<()>
    where
        T: 's,
    {
        let source = source.into();
        check_len(stream, self.len, source.len)?;
        self.region_mut().copy_from(stream, source.region())
    }

    /// Sets every element, in stream order.
    ///
    /// # Errors
    /// As for [`Buffer::fill`](super::Buffer::fill).
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut x = stream.zeros::<u16>(4)?;
    /// x.slice_mut(3..)?.fill(&stream, 9)?;
    /// assert_eq!(x.download(&stream)?, [0, 0, 0, 9]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub fn fill(&mut self, stream: &Stream<B>, value: T) -> Result<()> {
        self.region_mut().fill_with(stream, &value)
    }

    /// Hands the address to foreign code that writes the memory on `stream`; see [`BufferSlice::lend`].
    ///
    /// # Errors
    /// As for [`BufferSlice::lend`].
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, doctest::*};
    /// # let (device, axpy) = axpy()?;
    /// let (stream, other) = (device.stream()?, device.stream()?);
    /// let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.zeros(4)?);
    /// let (kernel, arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
    /// let meanwhile = y.as_slice_mut().lend(&stream, |_address| kernel.launch(&other, 4, &arguments))?;
    /// assert!(matches!(meanwhile.unwrap_err().kind(), ErrorKind::Lent { .. }));
    /// kernel.launch(&other, 4, &arguments)?;                      // after what was submitted meanwhile
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn lend<R>(&mut self, stream: &Stream<B>, foreign: impl FnOnce(DeviceAddress) -> R) -> Result<R> {
        self.region_mut().lend(stream, AccessMode::Write, foreign)
    }
}

impl<'a, B: Backend, T: Element, M: MemoryKind> From<&'a BufferSliceMut<'_, B, T, M>> for BufferSlice<'a, B, T, M> {
    fn from(slice: &'a BufferSliceMut<'_, B, T, M>) -> Self {
        slice.as_slice()
    }
}

impl<B: Backend, T: Element, M: MemoryKind> From<&Self> for BufferSlice<'_, B, T, M> {
    fn from(slice: &Self) -> Self {
        *slice
    }
}
