//! Conversions of values, references, arrays, pairs, options, buffers, views and spans.

use super::{Conversion, Convert, DevicePtr, DevicePtrMut, Element, HasNull, Nullable, Pair, Span, SpanMut, Value};
use crate::Result;
use crate::backend::{AccessMode, Backend};
use crate::buffer::{Buffer, BufferSlice, BufferSliceMut};
use crate::memory::{DeviceMemory, MemoryKind};
use std::mem::MaybeUninit;

// SAFETY: a value holds no address.
unsafe impl<B: Backend, T: Value> Convert<B> for T {
    type Repr = T;

    #[inline]
    fn convert<'c>(self, _: &mut Conversion<'c, B>) -> Result<T>
    where
        Self: 'c,
    {
        Ok(self)
    }
}

macro_rules! references {
    ($($scalar:ty)*) => {$(
        references!(@one &$scalar, $scalar);
        references!(@one &mut $scalar, $scalar);
    )*};
    (@one $reference:ty, $scalar:ty) => {
        // SAFETY: a scalar holds no address.
        unsafe impl<B: Backend> Convert<B> for $reference {
            type Repr = $scalar;

            #[inline]
            fn convert<'c>(self, _: &mut Conversion<'c, B>) -> Result<$scalar>
            where
                Self: 'c,
            {
                Ok(*self)
            }
        }
    };
}
references!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool);

/// A conversion of something that reports its range.
macro_rules! reaching {
    ($(($($generics:tt)*) $From:ty => $Repr:ty, |$this:ident, $cx:ident| $body:expr;)*) => {$(
        // SAFETY: the whole range is reported with the mode that the borrow allows; no other address is yielded.
        unsafe impl<$($generics)*> Convert<B> for $From {
            type Repr = $Repr;

            #[inline]
            fn convert<'c>(self, $cx: &mut Conversion<'c, B>) -> Result<Self::Repr>
            where
                Self: 'c,
            {
                let $this = self;
                Ok($body)
            }
        }
    )*};
}
reaching! {
    ('a, B: Backend, T: Element, M: MemoryKind) BufferSlice<'a, B, T, M> => DevicePtr<T>, |this, cx| DevicePtr::new(cx.reach(this.allocation, this.offset(), this.bytes(), AccessMode::Read));
    ('a, B: Backend, T: Element, M: MemoryKind) BufferSliceMut<'a, B, T, M> => DevicePtrMut<T>, |this, cx| DevicePtrMut::new(cx.reach(this.allocation, this.offset(), this.bytes(), AccessMode::Write));
    ('a, B: Backend, T: Element, M: MemoryKind) &'a BufferSliceMut<'_, B, T, M> => DevicePtr<T>, |this, cx| this.as_slice().convert(cx)?;
    ('a, B: Backend, T: Element, M: MemoryKind) &'a BufferSlice<'_, B, T, M> => DevicePtr<T>, |this, cx| DevicePtr::new(cx.reach(this.allocation, this.offset(), this.bytes(), AccessMode::Read));
    ('a, B: Backend, T: Element, M: MemoryKind) &'a mut BufferSliceMut<'_, B, T, M> => DevicePtrMut<T>, |this, cx| this.reborrow().convert(cx)?;
    ('a, B: Backend, T: Element, M: MemoryKind) &'a mut BufferSlice<'_, B, T, M> => DevicePtr<T>, |this, cx| DevicePtr::new(cx.reach(this.allocation, this.offset(), this.bytes(), AccessMode::Read));
    ('a, B: Backend, T: Element, M: MemoryKind) &'a Buffer<B, T, M> => DevicePtr<T>, |this, cx| this.as_slice().convert(cx)?;
    ('a, B: Backend, T: Element, M: MemoryKind) &'a mut Buffer<B, T, M> => DevicePtrMut<T>, |this, cx| this.as_slice_mut().convert(cx)?;
    ('a, 'b, B: Backend, T: Element, M: MemoryKind) &'a &'b Buffer<B, T, M> => DevicePtr<T>, |this, cx| (*this).convert(cx)?;
    ('a, 'b, B: Backend, T: Element, M: MemoryKind) &'a &'b mut Buffer<B, T, M> => DevicePtr<T>, |this, cx| (&**this).convert(cx)?;
    ('a, 'b, B: Backend, T: Element, M: MemoryKind) &'a mut &'b Buffer<B, T, M> => DevicePtr<T>, |this, cx| (&**this).convert(cx)?;
    ('a, 'b, B: Backend, T: Element, M: MemoryKind) &'a mut &'b mut Buffer<B, T, M> => DevicePtrMut<T>, |this, cx| (&mut **this).convert(cx)?;
    ('a, B: Backend, T: Element, M: MemoryKind) SpanOf<'a, B, T, M> => Span<T>, |this, cx| Span::new(this.0.convert(cx)?.address(), this.0.len() as u64);
    ('a, B: Backend, T: Element, M: MemoryKind) &SpanOf<'a, B, T, M> => Span<T>, |this, cx| this.clone().convert(cx)?;
    ('a, B: Backend, T: Element, M: MemoryKind) SpanOfMut<'a, B, T, M> => SpanMut<T>, |this, cx| { let len = this.0.len() as u64; SpanMut::new(this.0.convert(cx)?.address(), len) };
    ('a, B: Backend, T: Element, M: MemoryKind) &mut SpanOf<'a, B, T, M> => Span<T>, |this, cx| this.clone().convert(cx)?;
    ('a, B: Backend, T: Element, M: MemoryKind) &'a SpanOfMut<'_, B, T, M> => Span<T>, |this, cx| SpanOf(this.0.as_slice()).convert(cx)?;
    ('a, B: Backend, T: Element, M: MemoryKind) &'a mut SpanOfMut<'_, B, T, M> => SpanMut<T>, |this, cx| SpanOfMut(this.0.reborrow()).convert(cx)?;
}

/// A view that becomes a [`Span`]: address and length. Made by [`Buffer::span`].
///
/// ```
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let part = x.slice(..2)?.span();
/// axpy.launch(&stream, 4, (part.clone(), y.slice_mut(..2)?.span_mut(), 1.0))?;    // cloned: the same view twice
/// axpy.launch(&stream, 4, (part, y.slice_mut(2..)?.span_mut(), 2.0))?;
/// assert_eq!(y.download(&stream)?, [3.0, 3.0, 4.0, 4.0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct SpanOf<'a, B: Backend, T, M: MemoryKind = DeviceMemory>(BufferSlice<'a, B, T, M>);

impl<B: Backend, T, M: MemoryKind> Clone for SpanOf<'_, B, T, M> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

/// A view that becomes a [`SpanMut`]: address and length. Made by [`Buffer::span_mut`].
///
/// ```
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let mut out = y.span_mut();
/// axpy.launch(&stream, 4, (x.span(), &mut out, 1.0))?;        // by reference it can be passed again
/// axpy.launch(&stream, 4, (x.span(), out, 1.0))?;
/// assert_eq!(y.download(&stream)?, [4.0; 4]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct SpanOfMut<'a, B: Backend, T, M: MemoryKind = DeviceMemory>(BufferSliceMut<'a, B, T, M>);

impl<B: Backend, T: Element, M: MemoryKind> Buffer<B, T, M> {
    /// All of it, for a kernel that takes a [`Span`].
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// axpy.launch(&stream, y.len(), (x.span(), y.span_mut(), 1.0))?;   // the kernel learns address and length
    /// assert_eq!(y.download(&stream)?, [3.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn span(&self) -> SpanOf<'_, B, T, M> {
        SpanOf(self.as_slice())
    }

    /// All of it, for a kernel that takes a [`SpanMut`].
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (left, mut right) = y.split_at_mut(2)?;
    /// axpy.launch(&stream, 2, (left.as_slice().span(), right.reborrow().span_mut(), 1.0))?;
    /// assert_eq!(right.as_slice().download(&stream)?, [4.0; 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn span_mut(&mut self) -> SpanOfMut<'_, B, T, M> {
        SpanOfMut(self.as_slice_mut())
    }
}

impl<'a, B: Backend, T: Element, M: MemoryKind> BufferSlice<'a, B, T, M> {
    /// The view, for a kernel that takes a [`Span`].
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let head = x.slice(..1)?;
    /// let refused = axpy.requires(|launch| launch.value::<0>().len() == 4).launch(&stream, 4, (head.span(), y.span_mut(), 1.0));
    /// assert!(refused.is_err());                                  // the kernel sees one element, not four
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn span(self) -> SpanOf<'a, B, T, M> {
        SpanOf(self)
    }
}

impl<'a, B: Backend, T: Element, M: MemoryKind> BufferSliceMut<'a, B, T, M> {
    /// The view, for a kernel that takes a [`SpanMut`].
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// axpy.launch(&stream, 4, (x.span(), y.slice_mut(3..)?.span_mut(), 1.0))?;
    /// assert_eq!(y.download(&stream)?, [2.0, 2.0, 2.0, 3.0]);     // the other threads find nothing to do
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn span_mut(self) -> SpanOfMut<'a, B, T, M> {
        SpanOfMut(self)
    }
}

/// An address that is passed to kernels without being tracked. Made by [`Buffer::untracked`].
///
/// ```
/// use polywarp_core::{DevicePtr, Untracked};
/// # let stream = polywarp_core::doctest::stream()?;
/// let weights = stream.upload(&[1.0f32; 4])?;
/// stream.wait()?;                                             // written once, only read from here on
/// // SAFETY: nobody writes `weights` any more, and it outlives every launch with it.
/// let untracked: Untracked<DevicePtr<f32>> = unsafe { weights.untracked() };
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Untracked<R>(R);

// SAFETY: whoever made it promised to order and keep what it reaches (`Buffer::untracked`).
unsafe impl<B: Backend, R: HasNull> Convert<B> for Untracked<R> {
    type Repr = R;

    #[inline]
    fn convert<'c>(self, _: &mut Conversion<'c, B>) -> Result<R>
    where
        Self: 'c,
    {
        Ok(self.0)
    }
}

impl<B: Backend, T: Element, M: MemoryKind> Buffer<B, T, M> {
    /// The buffer as an argument that is not tracked: launches with it are not ordered by it, and record no use of it.
    ///
    /// # Safety
    /// * Every launch with it is ordered by other means after what writes these elements, and before what writes them next.
    /// * The buffer is not dropped before every such launch is complete.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// let (device, axpy) = axpy()?;
    /// let stream = device.stream()?;
    /// let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// # let program = polywarp_core::Program::new("copy").host::<(polywarp_core::DevicePtr<f32>, polywarp_core::SpanMut<f32>), _>("copy",
    /// #     |thread: &polywarp_core::Thread<'_>, x: polywarp_core::Global<'_, f32>, y: polywarp_core::HostSpanMut<'_, f32>| {
    /// #         if let Some(i) = thread.within(y.len()) { y.store(i, unsafe { x.load(i) }) }
    /// #     });
    /// # let module = polywarp_core::Module::load(&device, &program)?;
    /// # let copy = unsafe { module.bind::<(polywarp_core::DevicePtr<f32>, polywarp_core::SpanMut<f32>)>("copy") }?;
    /// // SAFETY: the same stream wrote `x`, and `x` lives until the download below.
    /// let x_untracked = unsafe { x.untracked() };
    /// copy.launch(&stream, 4, (x_untracked, y.span_mut()))?;
    /// assert_eq!(y.download(&stream)?, [1.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub unsafe fn untracked(&self) -> Untracked<DevicePtr<T>> {
        Untracked(DevicePtr::new(self.device_address()))
    }

    /// The same for a kernel that writes the elements.
    ///
    /// # Safety
    /// As for [`untracked`](Self::untracked), and the launch is ordered after what reads them too.
    ///
    /// ```
    /// use polywarp_core::{DevicePtrMut, Untracked};
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let mut scratch = stream.alloc::<f32>(4)?;
    /// // SAFETY: only launches on one stream use it, and it outlives them.
    /// let untracked: Untracked<DevicePtrMut<f32>> = unsafe { scratch.untracked_mut() };
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub unsafe fn untracked_mut(&mut self) -> Untracked<DevicePtrMut<T>> {
        Untracked(DevicePtrMut::new(self.device_address()))
    }
}

// SAFETY: each element reports what it reaches.
unsafe impl<B: Backend, A: Convert<B>, const N: usize> Convert<B> for [A; N] {
    type Repr = [A::Repr; N];

    #[inline]
    fn convert<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Self::Repr>
    where
        Self: 'c,
    {
        let mut out = [const { MaybeUninit::uninit() }; N];
        for (place, one) in out.iter_mut().zip(self) {
            place.write(one.convert(cx)?);
        }
        // SAFETY: every element was written; representations are `Copy`, so nothing is dropped twice.
        Ok(out.map(|one| unsafe { one.assume_init() }))
    }
}

// SAFETY: both report what they reach.
unsafe impl<B: Backend, F: Convert<B>, S: Convert<B>> Convert<B> for (F, S) {
    type Repr = Pair<F::Repr, S::Repr>;

    #[inline]
    fn convert<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Self::Repr>
    where
        Self: 'c,
    {
        Ok(Pair { first: self.0.convert(cx)?, second: self.1.convert(cx)? })
    }
}

// SAFETY: what is there reports what it reaches; null reaches nothing.
unsafe impl<B: Backend, A: Convert<B>> Convert<B> for Option<A>
where
    A::Repr: HasNull,
{
    type Repr = Nullable<A::Repr>;

    #[inline]
    fn convert<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Self::Repr>
    where
        Self: 'c,
    {
        Ok(Nullable::new(self.map(|some| some.convert(cx)).transpose()?))
    }
}
