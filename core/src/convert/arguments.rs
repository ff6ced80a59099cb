//! Lists of arguments and of parameters, and arguments that were converted once.

use super::{Conversion, Convert, DeviceRepr, LEAVES};
use crate::backend::{Access, Backend, ParameterLayout};
use crate::memory::Allocation;
use crate::{Error, ErrorKind, Result, counters};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kernel's parameters, as a tuple of up to forty representations.
///
/// # Safety
/// `place` fills every field and `pointers` points to each; the layout is that of the fields.
///
/// ```
/// use polywarp_core::{Parameters, Span};
/// let layout = <(u8, Span<f32>, u16) as Parameters>::LAYOUT;  // each at its alignment
/// assert_eq!(layout.iter().map(|one| (one.offset, one.bytes)).collect::<Vec<_>>(), [(0, 1), (8, 16), (24, 2)]);
/// ```
pub unsafe trait Parameters: Copy + 'static {
    /// Where each parameter lies, placed one after the other at its alignment.
    const LAYOUT: &'static [ParameterLayout];

    /// One pointer per parameter.
    type Pointers: AsRef<[*mut c_void]> + Copy + fmt::Debug;

    /// Zeroes the block and writes each parameter's meaningful bytes into it.
    ///
    /// # Safety
    /// `block` is valid for writes.
    unsafe fn place(&self, block: *mut Self);

    /// A pointer to each parameter of the block.
    fn pointers(block: *mut Self) -> Self::Pointers;
}

/// The parameter at index `I` of a list.
///
/// # Safety
/// `slot` points to that field.
///
/// ```
/// use polywarp_core::{At, Parameters, Prepared, Result, backend::Backend};
/// /// Sets the scale factor of whatever kernel has one there.
/// fn rescale<B: Backend, P: At<2, Type = f32>>(step: &mut Prepared<B, P>, factor: f32) -> Result<()> {
///     step.rebind::<2>(factor)
/// }
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let mut step = axpy.prepared((x.span(), y.span_mut(), 1.0))?;
/// rescale(&mut step, 4.0)?;
/// step.launch(&stream, 4)?;
/// assert_eq!(y.download(&stream)?, [6.0; 4]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(message = "index {I} is not a parameter of this kernel")]
pub unsafe trait At<const I: usize>: Parameters {
    /// Its type.
    type Type: DeviceRepr;

    /// Its value.
    fn get(&self) -> Self::Type;

    /// Its place in a block.
    fn slot(block: *mut Self) -> *mut Self::Type;
}

/// What a kernel takes: a list of [`Parameters`], or [`Untyped`].
///
/// ```
/// use polywarp_core::{Kernel, Signature, backend::Backend};
/// /// Of any kernel, typed or not, prepared or not.
/// fn describe<B: Backend, const PRECONVERTED: bool, S: Signature>(kernel: &Kernel<B, PRECONVERTED, S>) -> String {
///     format!("{}: {} registers", kernel.name(), kernel.info().registers)
/// }
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// assert!(describe(&axpy).starts_with("axpy"));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub trait Signature: 'static {}

/// The signature of a kernel whose parameters are not known to the compiler. Launching it is `unsafe`.
///
/// ```
/// use polywarp_core::{Kernel, Untyped};
/// # use polywarp_core::{doctest::*, host::Host};
/// # let (device, module) = axpy_module()?;
/// # let stream = device.stream()?;
/// let mut y = stream.upload(&[1.0f32; 4])?;
/// let axpy: Kernel<Host, false, Untyped> = module.function("axpy")?;
/// // SAFETY: `axpy` takes two spans and a factor, checks bounds, and each thread uses an element of its own.
/// unsafe { axpy.launch(&stream, 4, (stream.zeros::<f32>(4)?.span(), y.span_mut(), 2.0f32)) }?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Untyped {}

impl Signature for Untyped {}
impl<P: Parameters> Signature for P {}

/// An argument that fits a parameter of type `P`: whatever [converts](Convert) to it.
///
/// # Safety
/// As for [`Convert`]: everything that the kernel may reach through the result is reported.
///
/// ```
/// use polywarp_core::{Argument, Converted, Result, Span, SpanMut, backend::Backend};
/// fn set_factor<B: Backend>(
///     arguments: &mut Converted<B, (Span<f32>, SpanMut<f32>, f32)>,
///     factor: impl Argument<B, f32>,
/// ) -> Result<()> {
///     arguments.rebind::<2>(factor)
/// }
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let (kernel, mut arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
/// set_factor(&mut arguments, 2.0)?;
/// set_factor(&mut arguments, &3.0f32)?;                          // a reference to a scalar fits too
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "argument `{Self}` does not fit a kernel parameter of type `{P}`",
    label = "does not become `{P}`",
    note = "`&buffer` becomes `DevicePtr<T>`, `&mut buffer` becomes `DevicePtrMut<T>`, `buffer.span()` becomes `Span<T>`, a scalar stays itself (write `2.0f32`)"
)]
pub unsafe trait Argument<B: Backend, P> {
    /// Converts it.
    ///
    /// # Errors
    /// Those of the conversion.
    fn put<'c>(self, cx: &mut Conversion<'c, B>) -> Result<P>
    where
        Self: 'c;
}

// SAFETY: `Convert` promises the same.
unsafe impl<B: Backend, A: Convert<B, Repr = P>, P: DeviceRepr> Argument<B, P> for A {
    #[inline]
    fn put<'c>(self, cx: &mut Conversion<'c, B>) -> Result<P>
    where
        Self: 'c,
    {
        const { assert!(size_of::<P>() > 0, "a zero-sized value cannot be a kernel argument") };
        counters::conversion();
        self.convert(cx)
    }
}

/// Arguments for a kernel with signature `S`: a tuple of up to forty.
///
/// # Safety
/// As for [`Convert`], for each argument.
///
/// ```
/// use polywarp_core::{Arguments, Kernel, Parameters, Result, Stream, backend::Backend};
/// /// Launches any kernel and waits for it.
/// fn launch_and_wait<B: Backend, P: Parameters>(
///     kernel: &Kernel<B, false, P>,
///     stream: &Stream<B>,
///     len: usize,
///     arguments: impl Arguments<B, P, Parameters = P>,
/// ) -> Result<()> {
///     kernel.launch(stream, len, arguments)?;
///     stream.wait()
/// }
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// launch_and_wait(&axpy, &stream, 4, (x.span(), y.span_mut(), 1.0))?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of arguments for a kernel that takes `{S}`",
    note = "arguments are a tuple of as many values as the kernel has parameters: `(&x, &mut y, 2.0f32)`; one argument is `(&x,)`"
)]
pub unsafe trait Arguments<B: Backend, S> {
    /// What they become.
    type Parameters: Parameters;

    /// Converts all, in order.
    ///
    /// # Errors
    /// Those of the conversions; nothing has changed then.
    fn convert_all<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Self::Parameters>
    where
        Self: 'c;
}

/// Offsets of fields placed one after the other.
const fn placed<const N: usize>(fields: [(usize, usize); N]) -> [ParameterLayout; N] {
    let mut layout = [ParameterLayout { offset: 0, bytes: 0 }; N];
    let (mut end, mut index) = (0, 0);
    while index < N {
        let (size, align) = fields[index];
        let offset = end + (align - end % align) % align;
        layout[index] = ParameterLayout { offset: offset as u32, bytes: size as u32 };
        end = offset + size;
        index += 1;
    }
    layout
}

// SAFETY: there is no field.
unsafe impl Parameters for () {
    const LAYOUT: &'static [ParameterLayout] = &[];
    type Pointers = [*mut c_void; 0];

    unsafe fn place(&self, _: *mut Self) {}

    fn pointers(_: *mut Self) -> Self::Pointers {
        []
    }
}

// SAFETY: nothing is reached.
unsafe impl<B: Backend> Arguments<B, ()> for () {
    type Parameters = ();

    fn convert_all<'c>(self, _: &mut Conversion<'c, B>) -> Result<()>
    where
        Self: 'c,
    {
        Ok(())
    }
}

// SAFETY: nothing is reached.
unsafe impl<B: Backend> Arguments<B, Untyped> for () {
    type Parameters = ();

    fn convert_all<'c>(self, _: &mut Conversion<'c, B>) -> Result<()>
    where
        Self: 'c,
    {
        Ok(())
    }
}

macro_rules! count {
    () => { 0 };
    ($first:ident $($rest:ident)*) => { 1 + count!($($rest)*) };
}

macro_rules! tuple {
    ($(($A:ident $P:ident $i:tt))*) => {
        // SAFETY: every field is stored and pointed to.
        unsafe impl<$($P: DeviceRepr),*> Parameters for ($($P,)*) {
            const LAYOUT: &'static [ParameterLayout] = &const { placed([$((size_of::<$P>(), align_of::<$P>())),*]) };
            type Pointers = [*mut c_void; count!($($P)*)];

            #[inline]
            unsafe fn place(&self, block: *mut Self) {
                // SAFETY: the caller promised room for the block.
                unsafe { block.write_bytes(0, 1) };
                $(
                    let slot = <Self as At<$i>>::slot(block);
                    // SAFETY: the slot is a zeroed field of the block.
                    unsafe { self.$i.store(slot.cast()) };
                )*
            }

            #[inline]
            fn pointers(block: *mut Self) -> Self::Pointers {
                [$(<Self as At<$i>>::slot(block).cast()),*]
            }
        }

        // SAFETY: each argument reports what it reaches.
        unsafe impl<BK: Backend, $($P: DeviceRepr, $A: Argument<BK, $P>),*> Arguments<BK, ($($P,)*)> for ($($A,)*) {
            type Parameters = ($($P,)*);

            #[inline]
            fn convert_all<'c>(self, cx: &mut Conversion<'c, BK>) -> Result<Self::Parameters>
            where
                Self: 'c,
            {
                Ok(($({
                    cx.argument = $i;
                    self.$i.put(cx)?
                },)*))
            }
        }

        // SAFETY: each argument reports what it reaches.
        unsafe impl<BK: Backend, $($A: Convert<BK>),*> Arguments<BK, Untyped> for ($($A,)*) {
            type Parameters = ($($A::Repr,)*);

            #[inline]
            fn convert_all<'c>(self, cx: &mut Conversion<'c, BK>) -> Result<Self::Parameters>
            where
                Self: 'c,
            {
                Ok(($({
                    cx.argument = $i;
                    Argument::<BK, $A::Repr>::put(self.$i, cx)?
                },)*))
            }
        }

        tuple!(@at [$(($P $i))*] ($($P),*));
    };
    (@at [$(($P:ident $i:tt))*] $all:tt) => { $(tuple!(@one $P $i $all);)* };
    (@one $X:ident $i:tt ($($P:ident),*)) => {
        // SAFETY: the field of that index.
        unsafe impl<$($P: DeviceRepr),*> At<$i> for ($($P,)*) {
            type Type = $X;

            #[inline]
            fn get(&self) -> $X {
                self.$i
            }

            #[inline]
            fn slot(block: *mut Self) -> *mut $X {
                block.wrapping_byte_add(std::mem::offset_of!(Self, $i)).cast()
            }
        }
    };
}

macro_rules! prefixes {
    ([$($done:tt)*]) => {};
    ([$($done:tt)*] $next:tt $($rest:tt)*) => {
        tuple!($($done)* $next);
        prefixes!([$($done)* $next] $($rest)*);
    };
}
prefixes!([]
    (A0 P0 0)(A1 P1 1)(A2 P2 2)(A3 P3 3)(A4 P4 4)(A5 P5 5)(A6 P6 6)(A7 P7 7)(A8 P8 8)(A9 P9 9)
    (A10 P10 10)(A11 P11 11)(A12 P12 12)(A13 P13 13)(A14 P14 14)(A15 P15 15)(A16 P16 16)(A17 P17 17)(A18 P18 18)(A19 P19 19)
    (A20 P20 20)(A21 P21 21)(A22 P22 22)(A23 P23 23)(A24 P24 24)(A25 P25 25)(A26 P26 26)(A27 P27 27)(A28 P28 28)(A29 P29 29)
    (A30 P30 30)(A31 P31 31)(A32 P32 32)(A33 P33 33)(A34 P34 34)(A35 P35 35)(A36 P36 36)(A37 P37 37)(A38 P38 38)(A39 P39 39)
);

/// A parameter block and pointers into it, at one address.
struct Block<P: Parameters> {
    parameters: MaybeUninit<P>,
    pointers: MaybeUninit<P::Pointers>,
}

/// Arguments that were converted once: device values at a stable address, and shares in all they reach.
///
/// It has no lifetime: it keeps what it reaches alive, can be stored, moved between threads, launched on any stream. The memory itself stays
/// usable meanwhile: every launch is ordered like any other use. Made by [`Kernel::prepare`](crate::Kernel::prepare).
///
/// ```
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let (kernel, arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
/// drop(x);                                                    // the arguments keep it
/// std::thread::scope(|scope| scope.spawn(|| kernel.launch(&stream, 4, &arguments)).join().expect("no panic"))?;
/// assert_eq!(y.download(&stream)?, [3.0; 4]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Converted<B: Backend, P: Parameters> {
    /// Behind a raw pointer, so that moving the handle does not invalidate the pointers.
    block: NonNull<Block<P>>,
    accesses: SmallVec<[Access; 8]>,
    owners: SmallVec<[Arc<Allocation<B>>; 8]>,
    /// Whether aliasing was checked since the last change.
    alias_checked: AtomicBool,
}

// SAFETY: the block is owned, plain data; the owners are `Send`.
unsafe impl<B: Backend, P: Parameters> Send for Converted<B, P> {}
// SAFETY: nothing is changed through `&self` but the atomic flag.
unsafe impl<B: Backend, P: Parameters> Sync for Converted<B, P> {}

impl<B: Backend, P: Parameters> fmt::Debug for Converted<B, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converted").field("parameters", &P::LAYOUT).field("accesses", &self.accesses).finish_non_exhaustive()
    }
}

impl<B: Backend, P: Parameters> Drop for Converted<B, P> {
    fn drop(&mut self) {
        // SAFETY: the block came from a box in `new` and is dropped once.
        drop(unsafe { Box::from_raw(self.block.as_ptr()) });
    }
}

impl<B: Backend, P: Parameters> Converted<B, P> {
    pub(crate) fn new(parameters: P, cx: Conversion<'_, B>, may_alias: bool) -> Result<Self> {
        if !may_alias {
            check_aliases(&cx.accesses)?;
        }
        let block = Box::new(Block::<P> { parameters: MaybeUninit::uninit(), pointers: MaybeUninit::uninit() });
        let block = NonNull::from(Box::leak(block));
        let converted = Self {
            block,
            accesses: cx.accesses.iter().copied().collect(),
            owners: cx.allocations.iter().map(|allocation| Arc::clone(allocation)).collect(),
            alias_checked: AtomicBool::new(!may_alias),
        };
        let place = converted.parameters();
        // SAFETY: the block is ours and has room for the parameters.
        unsafe { parameters.place(place) };
        // SAFETY: the block is ours; its `pointers` field is written before anybody reads it.
        unsafe { (*block.as_ptr()).pointers.write(P::pointers(place)) };
        Ok(converted)
    }

    fn parameters(&self) -> *mut P {
        // SAFETY: the block is alive as long as `self`; only the field's address is taken.
        unsafe { (&raw mut (*self.block.as_ptr()).parameters).cast() }
    }

    pub(crate) fn pointers(&self) -> &[*mut c_void] {
        // SAFETY: the block is alive as long as `self`.
        let pointers = unsafe { &(*self.block.as_ptr()).pointers };
        // SAFETY: `new` wrote them, and they are never changed.
        unsafe { pointers.assume_init_ref() }.as_ref()
    }

    /// The parameters as they are now.
    pub(crate) fn values(&self) -> &P {
        // SAFETY: `new` placed every parameter, and changes go through `&mut self`.
        unsafe { &*self.parameters() }
    }

    pub(crate) fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    pub(crate) fn owners(&self) -> &[Arc<Allocation<B>>] {
        &self.owners
    }

    pub(crate) fn recheck_aliases(&self) -> Result<()> {
        if !self.alias_checked.load(Ordering::Relaxed) {
            check_aliases(&self.accesses)?;
            self.alias_checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Replaces argument `I`. What it reached before is let go; two rebinds may swap two buffers: whether arguments overlap is
    /// checked at the next launch.
    ///
    /// # Errors
    /// Those of the conversion; nothing has changed then.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// let (device, kernel) = axpy()?;
    /// let stream = device.stream()?;
    /// let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (kernel, mut arguments) = kernel.prepare((x.span(), y.span_mut(), 10.0))?;
    /// kernel.launch(&stream, 4, &arguments)?;
    /// arguments.rebind::<2>(100.0)?;
    /// kernel.launch(&stream, 4, &arguments)?;
    /// assert_eq!(y.download(&stream)?, [112.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn rebind<const I: usize>(&mut self, value: impl Argument<B, <P as At<I>>::Type>) -> Result<()>
    where
        P: At<I>,
    {
        let mut cx = Conversion::new();
        cx.argument = I as u8;
        let repr = value.put(&mut cx)?;
        let kept = |access: &Access| access.argument as usize != I;
        let mut owners = self
            .accesses
            .iter()
            .zip(&self.owners)
            .filter(|(access, _)| kept(access))
            .map(|(_, owner)| Arc::clone(owner))
            .collect::<SmallVec<_>>();
        owners.extend(cx.allocations.iter().map(|allocation| Arc::clone(allocation)));
        self.accesses.retain(|access| kept(access));
        self.accesses.extend_from_slice(&cx.accesses);
        self.owners = owners;
        let slot = P::slot(self.parameters()).cast::<u8>();
        // SAFETY: the slot is a field of the block, which is ours.
        unsafe { slot.write_bytes(0, size_of::<<P as At<I>>::Type>()) };
        // SAFETY: as above; the place is zeroed.
        unsafe { repr.store(slot) };
        self.alias_checked.store(false, Ordering::Relaxed);
        Ok(())
    }
}

/// Refuses a range that is written and otherwise used by the same launch.
#[inline]
pub(crate) fn check_aliases(accesses: &[Access]) -> Result<()> {
    for (index, one) in accesses.iter().enumerate() {
        for other in &accesses[index + 1..] {
            let overlap = one.address.0 < other.address.0 + other.bytes && other.address.0 < one.address.0 + one.bytes;
            if overlap && one.mode.conflicts(other.mode) {
                return Err(aliased(one, other));
            }
        }
    }
    Ok(())
}

#[cold]
fn aliased(one: &Access, other: &Access) -> Error {
    let (first, second) = (one.argument.min(other.argument), one.argument.max(other.argument));
    Error::new(ErrorKind::Aliased { first, second }, "launch")
}

const _: () = assert!(LEAVES >= 16);
