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
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a buffer",
    note = "elements have a fixed layout (`#[derive(DeviceRepr)]`) and hold no device address"
)]
pub unsafe trait Element: DeviceRepr {}

/// An [`Element`] that is passed to kernels by value, as itself.
///
/// # Safety
/// As for [`Element`].
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
    DevicePtr;
    /// What `&mut buffer` becomes: the address of elements that the kernel writes. `T*` in C++.
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
    Span DevicePtr;
    /// What `buffer.span_mut()` becomes: address and count of elements that the kernel writes.
    /// `struct { T* data; uint64_t len; }` in C++.
    SpanMut DevicePtrMut;
}

/// A representation with a null.
///
/// # Safety
/// `NULL` reaches no memory.
pub unsafe trait HasNull: DeviceRepr {
    /// The null.
    const NULL: Self;
}

/// What an `Option` becomes: the same bytes, null for `None`.
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
