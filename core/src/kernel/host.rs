//! The host form of kernels, typed: Rust functions over a [`Thread`], with checked spans.
//!
//! # Safety
//! The functions run only inside launches. Binding a kernel is the `unsafe` act that promises, for every launch its predicate accepts, memory
//! safety and freedom from data races; what these types read and write, they read and write on that promise. Views borrow the launch, so they
//! cannot outlive it.
#![allow(unsafe_code, reason = "reads parameters and device memory behind pointers")]

use crate::backend::{HostBody, HostEntry, HostThread, ParameterLayout};
use crate::convert::{DevicePtr, DevicePtrMut, DeviceRepr, Element, HasNull, Nullable, Pair, Parameters, Span, SpanMut, Value};
use crate::order::callback;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The thread that a host kernel runs as: its indices, its block's shared memory, the block's barrier.
///
/// ```
/// use polywarp_core::{HostSpanMut, Thread};
/// fn iota(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
///     if let Some(i) = thread.within(out.len()) {
///         out.store(i, i as u32);
///     }
/// }
/// ```
pub struct Thread<'k>(&'k HostThread<'k>);

impl fmt::Debug for Thread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Thread<'_> {
    /// Index of the thread in its block. `threadIdx`.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     out.store(thread.index(0), thread.thread()[0]);
    /// }
    /// assert_eq!(run(LaunchConfig::new(2, 3), 6, kernel)?, [0, 1, 2, 0, 1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn thread(&self) -> [u32; 3] {
        self.0.thread
    }

    /// Index of the block in the grid. `blockIdx`.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     out.store(thread.index(0), thread.block()[0]);
    /// }
    /// assert_eq!(run(LaunchConfig::new(2, 3), 6, kernel)?, [0, 0, 0, 1, 1, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn block(&self) -> [u32; 3] {
        self.0.block
    }

    /// Threads of a block per axis. `blockDim`.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     out.store(thread.index(0), thread.block_size()[0]);
    /// }
    /// assert_eq!(run(LaunchConfig::new(2, 3), 6, kernel)?, [3; 6]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn block_size(&self) -> [u32; 3] {
        self.0.block_size
    }

    /// Blocks of the grid per axis. `gridDim`.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     let all = thread.grid_size()[0] as usize * thread.block_size()[0] as usize;
    ///     for i in (thread.index(0)..out.len()).step_by(all) {    // few threads for many elements
    ///         out.store(i, 1);
    ///     }
    /// }
    /// assert_eq!(run(LaunchConfig::new(2, 3), 100, kernel)?, [1; 100]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn grid_size(&self) -> [u32; 3] {
        self.0.grid_size
    }

    /// Index of the thread in the grid, along one axis: `blockIdx.x * blockDim.x + threadIdx.x`.
    ///
    /// # Panics
    /// If there is no such axis: 0, 1, 2.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     let (x, y) = (thread.index(0), thread.index(1));
    ///     out.store(3 * y + x, (10 * y + x) as u32);
    /// }
    /// assert_eq!(run(LaunchConfig::new([1, 2], 3), 6, kernel)?, [0, 1, 2, 10, 11, 12]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn index(&self, axis: usize) -> usize {
        self.0.block[axis] as usize * self.0.block_size[axis] as usize + self.0.thread[axis] as usize
    }

    /// The index along x, if it is less than `len`: the guard that every ragged launch needs.
    ///
    /// No two threads get the same index, whatever the geometry: threads off the axis (y or z not 0) get none.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     if let Some(i) = thread.within(out.len()) {
    ///         out.store(i, i as u32);
    ///     }
    /// }
    /// assert_eq!(run(LaunchConfig::new([2, 2], [3, 2]), 4, kernel)?, [0, 1, 2, 3]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn within(&self, len: usize) -> Option<usize> {
        Some(self.index(0)).filter(|&index| index < len && self.index(1) == 0 && self.index(2) == 0)
    }

    /// The indices along x and y, if they lie inside of the area.
    ///
    /// No two threads get the same indices, whatever the geometry: threads off the plane (z not 0) get none.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     if let Some((x, y)) = thread.within_area(2, 3) {
    ///         out.store(2 * y + x, (10 * y + x) as u32);
    ///     }
    /// }
    /// assert_eq!(run(LaunchConfig::for_area(2, 3), 6, kernel)?, [0, 1, 10, 11, 20, 21]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn within_area(&self, width: usize, height: usize) -> Option<(usize, usize)> {
        Some((self.index(0), self.index(1))).filter(|&(x, y)| x < width && y < height && self.index(2) == 0)
    }

    /// Returns when every thread of the block that has not finished is here. `__syncthreads`.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     let (i, tile) = (thread.index(0), thread.shared::<u32>(0, 4));
    ///     tile.store(i, i as u32);
    ///     thread.barrier();                                       // now every element is there
    ///     out.store(i, tile.load(3 - i));
    /// }
    /// assert_eq!(run(LaunchConfig::new(1, 4).shared_bytes(16), 4, kernel)?, [3, 2, 1, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn barrier(&self) {
        callback::step_out(|| self.0.barrier.wait());
    }

    /// The block's shared memory from byte `offset` on, as elements.
    ///
    /// # Panics
    /// If it does not fit, or the offset is not aligned: a kernel fault.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
    ///     let counts = thread.shared::<u8>(0, 4);                 // bytes 0..4 …
    ///     let sums = thread.shared::<u32>(4, 2);                  // … and 4..12
    ///     counts.store(thread.index(0), 1);
    ///     out.store(thread.index(0), (counts.len() + sums.len()) as u32);
    /// }
    /// assert_eq!(run(LaunchConfig::new(1, 4).shared_bytes(12), 4, kernel)?, [6; 4]);
    /// assert!(run(LaunchConfig::new(1, 4).shared_bytes(8), 4, kernel).is_err());   // does not fit: a kernel fault
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn shared<T: Element>(&self, offset: usize, len: usize) -> Shared<'_, T> {
        let end = size_of::<T>().checked_mul(len).and_then(|bytes| bytes.checked_add(offset));
        let fits = end.is_some_and(|end| end <= self.0.shared_bytes as usize) && offset.is_multiple_of(align_of::<T>());
        assert!(fits, "{len} elements of {} bytes at byte {offset} do not fit into {} shared bytes", size_of::<T>(), self.0.shared_bytes);
        Shared { first: self.0.shared.wrapping_add(offset).cast(), len, borrows: PhantomData }
    }
}

/// Elements of a block's shared memory.
///
/// ```
/// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
/// fn kernel(thread: &Thread<'_>, out: HostSpanMut<'_, u32>) {
///     let (i, partial) = (thread.index(0), thread.shared::<u32>(0, thread.block_size()[0] as usize));
///     partial.store(i, i as u32);
///     thread.barrier();
///     if i == 0 {
///         out.store(0, (0..partial.len()).map(|j| partial.load(j)).sum());
///     }
/// }
/// assert_eq!(run(LaunchConfig::new(1, 8).shared_bytes(32), 1, kernel)?, [28]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Shared<'k, T> {
    first: *mut T,
    len: usize,
    borrows: PhantomData<&'k T>,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

macro_rules! checked_access {
    ($($(#[$doc:meta])* $View:ident: $($mode:ident)*;)*) => {$(
        impl<T: Element> $View<'_, T> {
            /// How many elements.
            #[must_use]
            #[inline]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            $(checked_access!(@$mode $View);)*

            #[inline]
            fn place(&self, index: usize) -> *mut T {
                if index >= self.len {
                    out_of_bounds(index, self.len);
                }
                self.first.wrapping_add(index)
            }
        }
    )*};
    (@load $View:ident) => {
        /// The element there.
        ///
        /// # Panics
        /// If the index is out of bounds: a kernel fault.
        ///
        /// ```
        /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
        /// fn shift(thread: &Thread<'_>, x: HostSpanMut<'_, u32>) {
        ///     let past = thread.index(0) + 1;                         // for the last thread, past the end
        ///     x.store(thread.index(0), x.load(past));
        /// }
        /// let fault = run(LaunchConfig::new(1, 4), 4, shift).unwrap_err();
        /// assert!(fault.to_string().contains("index 4 is out of bounds: the span has 4 elements"));
        /// # Ok::<(), polywarp_core::Error>(())
        /// ```
        #[must_use]
        #[inline]
        pub fn load(&self, index: usize) -> T {
            // SAFETY: in bounds of memory that the launch reaches (module docs); the promise of the binding excludes races.
            unsafe { self.place(index).read() }
        }
    };
    (@store $View:ident) => {
        /// Sets the element there.
        ///
        /// # Panics
        /// If the index is out of bounds: a kernel fault.
        ///
        /// ```
        /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
        /// fn fill(thread: &Thread<'_>, x: HostSpanMut<'_, u32>) {
        ///     x.store(thread.index(0), 9);
        /// }
        /// assert_eq!(run(LaunchConfig::new(1, 3), 3, fill)?, [9; 3]);
        /// assert!(run(LaunchConfig::new(1, 4), 3, fill).is_err());    // the fourth thread is out of bounds
        /// # Ok::<(), polywarp_core::Error>(())
        /// ```
        #[inline]
        pub fn store(&self, index: usize, value: T) {
            // SAFETY: in bounds of memory that the launch may write (module docs); the promise of the binding excludes races.
            // The padding of what lies there stays as it is: it was initialised.
            unsafe { value.store(self.place(index).cast()) }
        }
    };
}

#[cold]
fn out_of_bounds(index: usize, len: usize) -> ! {
    panic!("index {index} is out of bounds: the span has {len} elements")
}

checked_access! {
    HostSpan: load;
    HostSpanMut: load store;
    Shared: load store;
}

macro_rules! views {
    ($($(#[$doc:meta])* $View:ident;)*) => {$(
        $(#[$doc])*
        pub struct $View<'k, T> {
            first: *mut T,
            len: usize,
            borrows: PhantomData<&'k T>,
        }

        impl<T> Clone for $View<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $View<'_, T> {}

        impl<T> fmt::Debug for $View<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($View)).field("len", &self.len).finish_non_exhaustive()
            }
        }
    )*};
}
views! {
    /// A [`Span`] inside of a host kernel: reads are checked against its length.
    ///
    /// ```
    /// use polywarp_core::{HostSpan, HostSpanMut, Thread};
    /// /// out[0] ← x[0] + x[1] + …, by one thread.
    /// fn sum(thread: &Thread<'_>, x: HostSpan<'_, u32>, out: HostSpanMut<'_, u32>) {
    ///     if thread.within(1).is_some() {
    ///         out.store(0, (0..x.len()).map(|i| x.load(i)).sum());
    ///     }
    /// }
    /// # let _program = polywarp_core::Program::new("sum").host::<(polywarp_core::Span<u32>, polywarp_core::SpanMut<u32>), _>("sum", sum);
    /// ```
    HostSpan;
    /// A [`SpanMut`] inside of a host kernel: reads and writes are checked against its length.
    ///
    /// ```
    /// # use polywarp_core::{HostSpanMut, LaunchConfig, Thread, doctest::run};
    /// fn kernel(thread: &Thread<'_>, x: HostSpanMut<'_, u32>) {
    ///     let i = thread.index(0);
    ///     x.store(i, x.load(i) + 1);
    /// }
    /// assert_eq!(run(4, 256, kernel)?, [1; 256]);                 // one block of 256 threads for 4 elements
    /// let fault = run(4, 255, kernel).unwrap_err();               // without `within`, the last thread is out of bounds
    /// assert!(fault.to_string().contains("index 255 is out of bounds"));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    HostSpanMut;
}

macro_rules! globals {
    ($($(#[$doc:meta])* $Global:ident;)*) => {$(
        $(#[$doc])*
        pub struct $Global<'k, T> {
            first: *mut T,
            borrows: PhantomData<&'k T>,
        }

        impl<T> Clone for $Global<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $Global<'_, T> {}

        impl<T> fmt::Debug for $Global<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:p})", stringify!($Global), self.first)
            }
        }

        impl<T: Element> $Global<'_, T> {
            /// Whether it is null.
            #[must_use]
            pub fn is_null(self) -> bool {
                self.first.is_null()
            }

            /// The element there; not checked.
            ///
            /// # Safety
            /// The index is within the buffer, and nobody writes the element meanwhile.
            ///
            /// ```
            /// use polywarp_core::{Global, GlobalMut, Thread};
            /// fn copy(thread: &Thread<'_>, x: Global<'_, u32>, y: GlobalMut<'_, u32>, len: u32) {
            ///     if let Some(i) = thread.within(len as usize) {          // nothing else knows how many there are
            ///         // SAFETY: binding promised `len` elements of each, and each thread has an element of its own.
            ///         unsafe { y.store(i, x.load(i)) }
            ///     }
            /// }
            /// # let _program = polywarp_core::Program::new("copy")
            /// #     .host::<(polywarp_core::DevicePtr<u32>, polywarp_core::DevicePtrMut<u32>, u32), _>("copy", copy);
            /// ```
            #[must_use]
            #[inline]
            pub unsafe fn load(self, index: usize) -> T {
                // SAFETY: the caller's promise.
                unsafe { self.first.add(index).read() }
            }
        }
    )*};
}
globals! {
    /// A [`DevicePtr`] inside of a host kernel: a bare address, not checked.
    ///
    /// ```
    /// # use polywarp_core::{DevicePtr, DevicePtrMut, Global, GlobalMut, Module, Program, Thread};
    /// # let stream = polywarp_core::doctest::stream()?;
    /// fn copy(thread: &Thread<'_>, x: Global<'_, u32>, y: GlobalMut<'_, u32>, len: u32) {
    ///     if let Some(i) = thread.within(len as usize) {
    ///         // SAFETY: binding promised `len` elements of each, and each thread has an element of its own.
    ///         unsafe { y.store(i, x.load(i)) }
    ///     }
    /// }
    /// # let program = Program::new("copy").host::<(DevicePtr<u32>, DevicePtrMut<u32>, u32), _>("copy", copy);
    /// # let module = Module::load(stream.device(), &program)?;
    /// // SAFETY: lengths are checked by the predicate.
    /// let copy = unsafe { module.bind::<(DevicePtr<u32>, DevicePtrMut<u32>, u32)>("copy") }?
    ///     .requires(|launch| launch.bytes::<0>().min(launch.bytes::<1>()) >= 4 * u64::from(launch.value::<2>()));
    /// let (x, mut y) = (stream.upload(&[1u32, 2, 3])?, stream.zeros(3)?);
    /// copy.launch(&stream, 3, (&x, &mut y, 3))?;
    /// assert!(copy.launch(&stream, 3, (&x, &mut y, 4)).is_err());
    /// assert_eq!(y.download(&stream)?, [1, 2, 3]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    Global;
    /// A [`DevicePtrMut`] inside of a host kernel: a bare address, not checked.
    ///
    /// ```
    /// use polywarp_core::{Global, GlobalMut, Thread};
    /// fn add(thread: &Thread<'_>, x: Global<'_, u32>, y: GlobalMut<'_, u32>, len: u32) {
    ///     let Some(i) = thread.within(len as usize) else { return };
    ///     if !x.is_null() {                                       // `Nullable<DevicePtr<u32>>` becomes a `Global` too
    ///         // SAFETY: binding promised `len` elements of each, and each thread has an element of its own.
    ///         unsafe { y.store(i, y.load(i) + x.load(i)) }
    ///     }
    /// }
    /// # use polywarp_core::{DevicePtr, DevicePtrMut, Nullable, Program};
    /// # let _program = Program::new("add").host::<(Nullable<DevicePtr<u32>>, DevicePtrMut<u32>, u32), _>("add", add);
    /// ```
    GlobalMut;
}

impl<T: Element> GlobalMut<'_, T> {
    /// Sets the element there; not checked.
    ///
    /// # Safety
    /// The index is within the buffer, and nobody else uses the element meanwhile.
    ///
    /// ```
    /// use polywarp_core::{GlobalMut, Thread};
    /// fn iota(thread: &Thread<'_>, out: GlobalMut<'_, u32>, len: u32) {
    ///     if let Some(i) = thread.within(len as usize) {
    ///         // SAFETY: binding promised `len` elements, and each thread has an element of its own.
    ///         unsafe { out.store(i, i as u32) }
    ///     }
    /// }
    /// # let _program = polywarp_core::Program::new("iota").host::<(polywarp_core::DevicePtrMut<u32>, u32), _>("iota", iota);
    /// ```
    #[inline]
    pub unsafe fn store(self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        let place = unsafe { self.first.add(index) };
        // SAFETY: as above; the padding of what lies there stays as it is.
        unsafe { value.store(place.cast()) }
    }
}

/// What a parameter looks like inside of a host kernel.
///
/// ```
/// use polywarp_core::{DevicePtr, Global, HostForm, HostSpan, Nullable, Pair, Span};
/// fn same<R: HostForm<View<'static> = V>, V>() {}
/// same::<Span<f32>, HostSpan<'_, f32>>();
/// same::<Nullable<DevicePtr<u8>>, Global<'_, u8>>();          // perhaps null
/// same::<Pair<u32, [Span<u8>; 2]>, (u32, [HostSpan<'_, u8>; 2])>();
/// ```
pub trait HostForm: DeviceRepr {
    /// What the function receives; it cannot outlive the launch.
    type View<'k>;

    /// Makes it.
    ///
    /// # Safety
    /// The launch reaches the memory behind the representation for `'k`.
    unsafe fn view<'k>(self) -> Self::View<'k>;
}

impl<T: Value> HostForm for T {
    type View<'k> = T;

    #[inline]
    unsafe fn view<'k>(self) -> Self::View<'k> {
        self
    }
}

macro_rules! forms {
    ($($Repr:ident => $View:ident, |$repr:ident| { $($field:ident: $value:expr),* };)*) => {$(
        impl<T: Element> HostForm for $Repr<T> {
            type View<'k> = $View<'k, T>;

            #[inline]
            unsafe fn view<'k>(self) -> Self::View<'k> {
                let $repr = self;
                $View { $($field: $value,)* borrows: PhantomData }
            }
        }
    )*};
}
forms! {
    DevicePtr => Global, |pointer| { first: pointer.address().0 as *mut T };
    DevicePtrMut => GlobalMut, |pointer| { first: pointer.address().0 as *mut T };
    Span => HostSpan, |span| { first: span.pointer().address().0 as *mut T, len: span.len() as usize };
    SpanMut => HostSpanMut, |span| { first: span.pointer().address().0 as *mut T, len: span.len() as usize };
}

impl<R: HostForm + HasNull> HostForm for Nullable<R> {
    type View<'k> = R::View<'k>;

    unsafe fn view<'k>(self) -> Self::View<'k> {
        // SAFETY: the caller's promise.
        unsafe { self.get().view() }
    }
}

impl<F: HostForm, S: HostForm> HostForm for Pair<F, S> {
    type View<'k> = (F::View<'k>, S::View<'k>);

    unsafe fn view<'k>(self) -> Self::View<'k> {
        // SAFETY: the caller's promise, for both.
        let first = unsafe { self.first.view() };
        // SAFETY: as above.
        (first, unsafe { self.second.view() })
    }
}

impl<R: HostForm, const N: usize> HostForm for [R; N] {
    type View<'k> = [R::View<'k>; N];

    unsafe fn view<'k>(self) -> Self::View<'k> {
        // SAFETY: the caller's promise, for each.
        self.map(|one| unsafe { one.view() })
    }
}

/// A Rust function whose parameters, after the thread, are those of the signature `S`.
///
/// ```
/// use polywarp_core::{HostFn, HostSpanMut, Program, SpanMut, Thread};
/// fn one_kernel(name: &'static str, function: impl HostFn<(SpanMut<u32>, u32)>) -> Program {
///     Program::new(name).host::<(SpanMut<u32>, u32), _>(name, function)
/// }
/// one_kernel("fill", |thread: &Thread<'_>, x: HostSpanMut<'_, u32>, value: u32| {
///     thread.within(x.len()).map_or((), |i| x.store(i, value))
/// });
/// ```
#[diagnostic::on_unimplemented(
    message = "this function does not have the parameters of the signature `{S}`",
    label = "expected `fn(&Thread, …)` with one parameter per element of `{S}`, in its host form"
)]
pub trait HostFn<S>: Send + Sync + 'static {
    /// Runs one thread.
    ///
    /// # Safety
    /// One pointer per parameter, each valid for reads of its type; the launch reaches what they hold for `'k`.
    unsafe fn call<'k>(&self, thread: &Thread<'k>, parameters: *const *mut c_void);
}

macro_rules! host_fn {
    ($($P:ident $i:tt)*) => {
        impl<F, $($P: HostForm),*> HostFn<($($P,)*)> for F
        where
            F: for<'k> Fn(&Thread<'k>, $($P::View<'k>),*) + Send + Sync + 'static,
        {
            #[inline]
            #[allow(clippy::multiple_unsafe_ops_per_block, unused_variables, unused_unsafe, reason = "one read and one view per parameter")]
            unsafe fn call<'k>(&self, thread: &Thread<'k>, parameters: *const *mut c_void) {
                // SAFETY: the caller promised a pointer to a value of each type, and that the launch reaches what it holds.
                unsafe { self(thread, $((*parameters.add($i)).cast::<$P>().read().view::<'k>()),*) }
            }
        }
    };
}

macro_rules! host_fns {
    ([$($done:tt)*]) => { host_fn!($($done)*); };
    ([$($done:tt)*] $P:ident $i:tt $($rest:tt)*) => {
        host_fn!($($done)*);
        host_fns!([$($done)* $P $i] $($rest)*);
    };
}
host_fns!([]
    P0 0 P1 1 P2 2 P3 3 P4 4 P5 5 P6 6 P7 7 P8 8 P9 9 P10 10 P11 11 P12 12 P13 13 P14 14 P15 15 P16 16 P17 17 P18 18 P19 19
    P20 20 P21 21 P22 22 P23 23 P24 24 P25 25 P26 26 P27 27 P28 28 P29 29 P30 30 P31 31 P32 32 P33 33 P34 34 P35 35 P36 36 P37 37 P38 38 P39 39
);

/// A typed function as the contract's untyped body.
struct Body<S, F> {
    function: F,
    signature: PhantomData<fn(S)>,
}

impl<S: 'static, F: HostFn<S>> HostBody for Body<S, F> {
    #[inline]
    unsafe fn run(&self, thread: &HostThread<'_>, parameters: *const *mut c_void) {
        // A kernel that waited for a stream would wait for itself.
        // SAFETY: the backend passes one pointer per parameter of the entry's layout, which is that of `S`.
        callback::run(|| unsafe { self.function.call(&Thread(thread), parameters) })
    }
}

/// The host form of one kernel.
pub(crate) fn entry<S: Parameters, F: HostFn<S>>(name: &str, function: F) -> HostEntry {
    let parameters: Arc<[ParameterLayout]> = S::LAYOUT.into();
    let body = Arc::new(Body { function, signature: PhantomData });
    HostEntry { name: name.into(), parameters, static_shared_bytes: 0, max_block_threads: 0, body }
}
