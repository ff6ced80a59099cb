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
#[derive(Debug)]
pub struct SpanOf<'a, B: Backend, T, M: MemoryKind = DeviceMemory>(BufferSlice<'a, B, T, M>);

impl<B: Backend, T, M: MemoryKind> Clone for SpanOf<'_, B, T, M> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

/// A view that becomes a [`SpanMut`]: address and length. Made by [`Buffer::span_mut`].
#[derive(Debug)]
pub struct SpanOfMut<'a, B: Backend, T, M: MemoryKind = DeviceMemory>(BufferSliceMut<'a, B, T, M>);

impl<B: Backend, T: Element, M: MemoryKind> Buffer<B, T, M> {
    /// All of it, for a kernel that takes a [`Span`].
    #[must_use]
    pub fn span(&self) -> SpanOf<'_, B, T, M> {
        SpanOf(self.as_slice())
    }

    /// All of it, for a kernel that takes a [`SpanMut`].
    #[must_use]
    pub fn span_mut(&mut self) -> SpanOfMut<'_, B, T, M> {
        SpanOfMut(self.as_slice_mut())
    }
}

impl<'a, B: Backend, T: Element, M: MemoryKind> BufferSlice<'a, B, T, M> {
    /// The view, for a kernel that takes a [`Span`].
    #[must_use]
    pub fn span(self) -> SpanOf<'a, B, T, M> {
        SpanOf(self)
    }
}

impl<'a, B: Backend, T: Element, M: MemoryKind> BufferSliceMut<'a, B, T, M> {
    /// The view, for a kernel that takes a [`SpanMut`].
    #[must_use]
    pub fn span_mut(self) -> SpanOfMut<'a, B, T, M> {
        SpanOfMut(self)
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
