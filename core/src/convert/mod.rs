//! From what the host holds to what the kernel receives.
//!
//! Conversion is pure: it yields device values and the accesses that they imply, makes no driver call and changes no state. What is
//! ordered after what is decided at submission, from those accesses.

#![allow(unsafe_code, reason = "the traits are unsafe: the launch trusts what they yield")]

mod arguments;
mod impls;
mod references;
mod repr;

pub(crate) use arguments::check_aliases;
pub use arguments::{Argument, Arguments, At, Converted, Parameters, Signature, Untyped};
pub use impls::{SpanOf, SpanOfMut, Untracked};
pub use repr::{DevicePtr, DevicePtrMut, DeviceRepr, Element, HasNull, Nullable, Pair, Span, SpanMut, Value};

use crate::Result;
use crate::backend::{Access, AccessMode, Backend, DeviceAddress};
use crate::memory::{Allocation, access};
use smallvec::SmallVec;
use std::sync::Arc;

/// Tracked leaves that a conversion keeps without the heap.
pub(crate) const LEAVES: usize = 16;

/// Turns a host value into what a kernel receives, and reports every buffer that the kernel reaches through it.
///
/// Implemented for [values](Value) (they stay what they are), `&Buffer` and read views (→ [`DevicePtr`]), `&mut Buffer` and write views
/// (→ [`DevicePtrMut`]), [spans](crate::Buffer::span), arrays, pairs and options of those, references to scalars, and structs by
/// `#[derive(Convert)]`.
///
/// # Safety
/// * Every byte that the kernel may reach through the value that `convert` yields is reported to the [`Conversion`], as converting buffers
///   and views does; it yields no other address.
/// * It has no effect besides: no driver call, no change of state.
///
/// ```
/// use polywarp_core::{Buffer, Convert, Conversion, DevicePtr, Result, backend::Backend};
///
/// struct Wrapper<'a, B: Backend>(&'a Buffer<B, f32>);
///
/// // SAFETY: the buffer's own conversion reports it, and nothing else is reached.
/// unsafe impl<'a, B: Backend> Convert<B> for Wrapper<'a, B> {
///     type Repr = DevicePtr<f32>;
///     fn convert<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Self::Repr> where Self: 'c {
///         self.0.convert(cx)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a kernel argument on backend `{B}`",
    label = "not convertible",
    note = "buffers are passed as `&buffer` or `&mut buffer`; structs need `#[derive(DeviceRepr)]` or `#[derive(Convert)]`"
)]
pub unsafe trait Convert<B: Backend> {
    /// What the kernel receives.
    type Repr: DeviceRepr;

    /// Converts.
    ///
    /// # Errors
    /// Whatever an implementation refuses; nothing has changed then.
    fn convert<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Self::Repr>
    where
        Self: 'c;
}

/// Where a conversion reports the memory it reaches.
///
/// ```
/// use polywarp_core::{Buffer, Conversion, Convert, Result, Span, backend::Backend, doctest::*};
///
/// /// A buffer of which the kernel gets the first half.
/// struct FirstHalf<'a, B: Backend>(&'a Buffer<B, f32>);
///
/// // SAFETY: the span's own conversion reports what is reached, and nothing else is.
/// unsafe impl<B: Backend> Convert<B> for FirstHalf<'_, B> {
///     type Repr = Span<f32>;
///     fn convert<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Span<f32>> where Self: 'c {
///         self.0.slice(..self.0.len() / 2)?.span().convert(cx)
///     }
/// }
///
/// let (device, axpy) = axpy()?;
/// let stream = device.stream()?;
/// let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.zeros::<f32>(2)?);
/// axpy.launch(&stream, 2, (FirstHalf(&x), y.span_mut(), 1.0))?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Conversion<'c, B: Backend> {
    pub(crate) accesses: SmallVec<[Access; LEAVES]>,
    pub(crate) allocations: SmallVec<[&'c Arc<Allocation<B>>; LEAVES]>,
    pub(crate) argument: u8,
}

impl<'c, B: Backend> Conversion<'c, B> {
    pub(crate) const fn new() -> Self {
        Self { accesses: SmallVec::new_const(), allocations: SmallVec::new_const(), argument: 0 }
    }

    #[inline]
    pub(crate) fn reach(&mut self, allocation: Option<&'c Arc<Allocation<B>>>, offset: u64, bytes: u64, mode: AccessMode) -> DeviceAddress {
        match allocation {
            Some(allocation) if bytes > 0 => {
                let access = access(allocation, offset, bytes, mode, self.argument);
                self.accesses.push(access);
                self.allocations.push(allocation);
                access.address
            }
            _ => DeviceAddress::NULL,
        }
    }
}
