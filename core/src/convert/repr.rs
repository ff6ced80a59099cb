//! What has one layout on host and device.

use super::super::backend::DeviceAddress;
use std::fmt;
use std::marker::PhantomData;

/// A type with one fixed layout on host and device. It may hold device addresses.
///
/// Layout only: whether a value converts to itself is said by [`Value`], whether it may lie in buffers by [`Element`].
///
/// # Safety
/// * Host and device compilers agree on size, alignment and the offset of every field; alignment is at most 16.
/// * [`store`](Self::store) writes the value's meaningful bytes and nothing outside of `size_of::<Self>()`.
///
/// ```
/// use polywarp_core::DeviceRepr;
/// #[derive(Clone, Copy, DeviceRepr)]
/// #[repr(C)]
/// struct Particle { position: [f32; 3], kind: u8 }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no fixed layout on the device",
    note = "`#[repr(C)]` structs get one by `#[derive(DeviceRepr)]`"
)]
pub unsafe trait DeviceRepr: Copy + 'static {
    /// Writes the meaningful bytes; padding is left as it is.
    ///
    /// # Safety
    /// `to` is valid for writes of `size_of::<Self>()` bytes. The bytes there are initialised; where the type has padding they stay as they are.
    ///
    /// ```
    /// use polywarp_core::DeviceRepr;
    /// #[derive(Clone, Copy, DeviceRepr)]
    /// #[repr(C)]
    /// struct Padded { small: u8, large: u32 }
    /// let mut bytes = [0xff; 8];
    /// // SAFETY: there are eight bytes.
    /// unsafe { Padded { small: 1, large: 2 }.store(bytes.as_mut_ptr()) };
    /// assert_eq!(bytes[1..4], [0xff; 3]);                         // what lay in the padding does not leave the host
    /// ```
    #[inline]
    unsafe fn store(&self, to: *mut u8) {
        // SAFETY: the caller promised room; `to` need not be aligned, so bytes are copied.
        unsafe { std::ptr::copy_nonoverlapping((&raw const *self).cast::<u8>(), to, size_of::<Self>()) }
    }
}

/// A [`DeviceRepr`] that holds no device address: what buffers contain.
///
/// # Safety
/// No field is or contains a device address, so no address escapes tracking through memory.
///
/// ```
/// use polywarp_core::{Buffer, DeviceRepr, Element, Result, Stream, backend::Backend};
/// #[derive(Clone, Copy, DeviceRepr)]
/// #[repr(C)]
/// struct Particle { position: [f32; 3], charge: i8 }
///
/// fn all<B: Backend, T: Element>(stream: &Stream<B>, value: T, len: usize) -> Result<Buffer<B, T>> {
///     let mut buffer = stream.alloc(len)?;
///     buffer.fill(stream, value)?;
///     Ok(buffer)
/// }
/// # let stream = polywarp_core::doctest::stream()?;
/// assert_eq!(all(&stream, Particle { position: [0.0; 3], charge: -1 }, 3)?.bytes(), 48);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a buffer",
    note = "elements have a fixed layout (`#[derive(DeviceRepr)]`) and hold no device address"
)]
pub unsafe trait Element: DeviceRepr {}

/// An [`Element`] that is passed to kernels by value, as itself.
///
/// # Safety
/// As for [`Element`].
///
/// ```
/// use polywarp_core::{DeviceRepr, HostSpanMut, Program, SpanMut, Thread};
/// #[derive(Clone, Copy, DeviceRepr)]
/// #[repr(C)]
/// struct Affine { scale: f32, shift: f32 }
///
/// fn apply(thread: &Thread<'_>, x: HostSpanMut<'_, f32>, by: Affine) {    // as itself, on the device too
///     thread.within(x.len()).map_or((), |i| x.store(i, by.scale * x.load(i) + by.shift));
/// }
/// let program = Program::new("affine").host::<(SpanMut<f32>, Affine), _>("apply", apply);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a kernel argument by value",
    label = "not a plain device value",
    note = "buffers are passed as `&buffer` or `&mut buffer`; structs need `#[derive(DeviceRepr)]` or `#[derive(Convert)]`"
)]
pub unsafe trait Value: Element {}

macro_rules! scalars {
    ($($scalar:ty)*) => {$(
        // SAFETY: a scalar of the same size and alignment in C++ for every device compiler of the field, without padding.
        unsafe impl DeviceRepr for $scalar {}
        // SAFETY: a scalar is no device address.
        unsafe impl Element for $scalar {}
        // SAFETY: as above.
        unsafe impl Value for $scalar {}
    )*};
}
scalars!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool);

// SAFETY: elements follow each other without gaps in both languages; each stores itself.
unsafe impl<T: DeviceRepr, const N: usize> DeviceRepr for [T; N] {
    #[inline]
    unsafe fn store(&self, to: *mut u8) {
        for (index, one) in self.iter().enumerate() {
            // SAFETY: the caller promised room for `N` elements; this is the place of one.
            unsafe { one.store(to.wrapping_add(index * size_of::<T>())) };
        }
    }
}
// SAFETY: no element holds an address.
unsafe impl<T: Element, const N: usize> Element for [T; N] {}

macro_rules! pointers {
    ($($(#[$doc:meta])* $Pointer:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $Pointer<T>(DeviceAddress, PhantomData<fn() -> T>);

        impl<T> $Pointer<T> {
            pub(crate) const fn new(address: DeviceAddress) -> Self {
                Self(address, PhantomData)
            }

            /// The address.
            #[must_use]
            pub const fn address(self) -> DeviceAddress {
                self.0
            }
        }

        impl<T> Clone for $Pointer<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $Pointer<T> {}

        impl<T> fmt::Debug for $Pointer<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($Pointer), self.0.0)
            }
        }

        // SAFETY: eight bytes that hold an address, as pointers in 64-bit C++.
        unsafe impl<T: 'static> DeviceRepr for $Pointer<T> {}

        // SAFETY: the null address reaches nothing.
        unsafe impl<T: 'static> HasNull for $Pointer<T> {
            const NULL: Self = Self::new(DeviceAddress::NULL);
        }
    )*};
}
pointers! {
    /// What `&buffer` becomes: the address of elements that the kernel reads. `const T*` in C++.
    ///
    /// It is no [`Value`], so it cannot be passed on past the tracking; only conversion makes it.
    ///
    /// ```
    /// use polywarp_core::{DevicePtr, Global, HostSpanMut, Module, Program, SpanMut, Thread};
    /// fn first(thread: &Thread<'_>, x: Global<'_, u32>, out: HostSpanMut<'_, u32>) {
    ///     // SAFETY: the predicate asks for an element.
    ///     thread.within(out.len()).map_or((), |i| out.store(i, unsafe { x.load(0) }));
    /// }
    /// type Parameters = (DevicePtr<u32>, SpanMut<u32>);
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let module = Module::load(stream.device(), &Program::new("first").host::<Parameters, _>("first", first))?;
    /// // SAFETY: it reads one element, which the predicate asks for; each thread writes an element of its own.
    /// let first = unsafe { module.bind::<Parameters>("first") }?.requires(|launch| launch.bytes::<0>() >= 4);
    /// let (x, mut out) = (stream.upload(&[7u32, 8])?, stream.zeros(2)?);
    /// first.launch(&stream, 2, (&x, out.span_mut()))?;
    /// assert_eq!(out.download(&stream)?, [7, 7]);
    /// assert!(first.launch(&stream, 2, (x.slice(..0)?, out.span_mut())).is_err());    // an empty view becomes null
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    DevicePtr;
    /// What `&mut buffer` becomes: the address of elements that the kernel writes. `T*` in C++.
    ///
    /// ```
    /// use polywarp_core::{DevicePtrMut, GlobalMut, Module, Program, Thread};
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let first = |thread: &Thread<'_>, x: GlobalMut<'_, u32>| {
    ///     // SAFETY: the predicate asks for an element, which one thread writes.
    ///     if thread.within(1).is_some() { unsafe { x.store(0, 7) } }
    /// };
    /// let module = Module::load(stream.device(), &Program::new("first").host::<(DevicePtrMut<u32>,), _>("first", first))?;
    /// // SAFETY: as above.
    /// let first = unsafe { module.bind::<(DevicePtrMut<u32>,)>("first") }?
    ///     .requires(|launch| launch.value::<0>().address().0 != 0 && launch.bytes::<0>() >= 4);
    /// let mut x = stream.zeros::<u32>(2)?;
    /// first.launch(&stream, 1, (&mut x,))?;
    /// assert_eq!(x.download(&stream)?, [7, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    DevicePtrMut;
}

macro_rules! spans {
    ($($(#[$doc:meta])* $Span:ident $Pointer:ident;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $Span<T> {
            pointer: $Pointer<T>,
            len: u64,
        }

        impl<T> $Span<T> {
            pub(crate) const fn new(address: DeviceAddress, len: u64) -> Self {
                Self { pointer: $Pointer::new(address), len }
            }

            /// The address of the first element.
            #[must_use]
            pub const fn pointer(self) -> $Pointer<T> {
                self.pointer
            }

            /// How many elements.
            #[must_use]
            pub const fn len(self) -> u64 {
                self.len
            }

            /// Whether there are none.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.len == 0
            }
        }

        impl<T> Clone for $Span<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $Span<T> {}

        impl<T> fmt::Debug for $Span<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?}, {})", stringify!($Span), self.pointer, self.len)
            }
        }

        // SAFETY: `#[repr(C)]`, two fields of eight bytes, no padding.
        unsafe impl<T: 'static> DeviceRepr for $Span<T> {}

        // SAFETY: an empty span reaches nothing.
        unsafe impl<T: 'static> HasNull for $Span<T> {
            const NULL: Self = Self::new(DeviceAddress::NULL, 0);
        }
    )*};
}
spans! {
    /// What `buffer.span()` becomes: address and count of elements that the kernel reads.
    /// `struct { const T* data; uint64_t len; }` in C++.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let axpy = axpy.requires(|launch| {
    ///     let x = launch.value::<0>();
    ///     !x.is_empty() && x.len() >= launch.value::<1>().len() && x.pointer().address().0 % 16 == 0
    /// });
    /// axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0))?;
    /// let odd = x.slice(1..)?;
    /// let refused = axpy.launch(&stream, 2, (odd.span(), y.slice_mut(..2)?.span_mut(), 1.0)).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::RequirementFailed { .. }));     // its address is not a multiple of 16
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    Span DevicePtr;
    /// What `buffer.span_mut()` becomes: address and count of elements that the kernel writes.
    /// `struct { T* data; uint64_t len; }` in C++.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let axpy = axpy.requires(|launch| launch.value::<1>().len() <= launch.value::<0>().len());
    /// let mut longer = stream.zeros(5)?;
    /// let refused = axpy.launch(&stream, 5, (x.span(), longer.span_mut(), 1.0)).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::RequirementFailed { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    SpanMut DevicePtrMut;
}

/// A representation with a null.
///
/// # Safety
/// `NULL` reaches no memory.
///
/// ```
/// use polywarp_core::{HasNull, Span, backend::DeviceAddress};
/// assert!(Span::<f32>::NULL.is_empty());
/// assert_eq!(Span::<f32>::NULL.pointer().address(), DeviceAddress::NULL);
/// ```
pub unsafe trait HasNull: DeviceRepr {
    /// The null.
    const NULL: Self;
}

/// What an `Option` becomes: the same bytes, null for `None`.
///
/// ```
/// use polywarp_core::{HostSpan, HostSpanMut, Module, Nullable, Program, Span, SpanMut, Thread};
/// /// y ← x, or 1 where there is no x.
/// fn or_one(thread: &Thread<'_>, x: HostSpan<'_, u32>, y: HostSpanMut<'_, u32>) {
///     thread.within(y.len()).map_or((), |i| y.store(i, if x.is_empty() { 1 } else { x.load(i) }));
/// }
/// type Parameters = (Nullable<Span<u32>>, SpanMut<u32>);
/// # let stream = polywarp_core::doctest::stream()?;
/// # let module = Module::load(stream.device(), &Program::new("or_one").host::<Parameters, _>("or_one", or_one))?;
/// // SAFETY: it checks bounds, and each thread uses an element of its own.
/// let or_one = unsafe { module.bind::<Parameters>("or_one") }?
///     .requires(|launch| launch.value::<0>().get().is_empty() || launch.bytes::<0>() >= launch.bytes::<1>());
/// let (x, mut y) = (stream.upload(&[5u32, 6])?, stream.zeros(2)?);
/// or_one.launch(&stream, 2, (Some(x.span()), y.span_mut()))?;
/// assert_eq!(y.download(&stream)?, [5, 6]);
/// or_one.launch(&stream, 2, (None::<polywarp_core::SpanOf<'_, _, _>>, y.span_mut()))?;
/// assert_eq!(y.download(&stream)?, [1, 1]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Nullable<R>(R);

impl<R: HasNull> Nullable<R> {
    pub(crate) fn new(some: Option<R>) -> Self {
        Self(some.unwrap_or(R::NULL))
    }

    /// The representation, null or not.
    #[must_use]
    pub fn get(self) -> R {
        self.0
    }
}

// SAFETY: transparent.
unsafe impl<R: HasNull> DeviceRepr for Nullable<R> {
    #[inline]
    unsafe fn store(&self, to: *mut u8) {
        // SAFETY: the caller's promise, for the same bytes.
        unsafe { self.0.store(to) }
    }
}

/// What a pair becomes: `struct { A first; B second; }` in C++.
///
/// ```
/// use polywarp_core::{HostSpan, HostSpanMut, Module, Pair, Program, Span, SpanMut, Thread};
/// fn scale(thread: &Thread<'_>, (x, by): (HostSpan<'_, f32>, f32), y: HostSpanMut<'_, f32>) {
///     thread.within(y.len()).map_or((), |i| y.store(i, by * x.load(i)));
/// }
/// type Parameters = (Pair<Span<f32>, f32>, SpanMut<f32>);
/// # let stream = polywarp_core::doctest::stream()?;
/// # let module = Module::load(stream.device(), &Program::new("scale").host::<Parameters, _>("scale", scale))?;
/// // SAFETY: it checks bounds, and each thread uses an element of its own.
/// let scale = unsafe { module.bind::<Parameters>("scale") }?;
/// let (x, mut y) = (stream.upload(&[1.0f32, 2.0])?, stream.zeros(2)?);
/// scale.launch(&stream, 2, ((x.span(), 10.0), y.span_mut()))?;    // a tuple is one argument
/// assert_eq!(y.download(&stream)?, [10.0, 20.0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pair<F, S> {
    /// The first.
    pub first: F,
    /// The second.
    pub second: S,
}

// SAFETY: `#[repr(C)]` of two such types; each stores itself at its offset.
unsafe impl<F: DeviceRepr, S: DeviceRepr> DeviceRepr for Pair<F, S> {
    #[inline]
    unsafe fn store(&self, to: *mut u8) {
        // SAFETY: the caller promised room for the whole pair; this is the place of the first.
        unsafe { self.first.store(to.wrapping_add(std::mem::offset_of!(Self, first))) };
        // SAFETY: as above; this is the place of the second.
        unsafe { self.second.store(to.wrapping_add(std::mem::offset_of!(Self, second))) };
    }
}

// SAFETY: neither holds an address.
unsafe impl<F: Element, S: Element> Element for Pair<F, S> {}
