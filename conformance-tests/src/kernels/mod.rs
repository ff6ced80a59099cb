//! The few kernels that every subject runs, in their host form, and what each computes on the CPU.
//!
//! # Safety
//!
//! All of them check bounds, spans by their lengths and bare pointers by their predicates. Each thread writes the element of its index along x
//! alone, or the first thread all of them, and the predicates refuse launches with other axes. So every launch that they accept is safe.

#![allow(unsafe_code, reason = "binds the kernels; reads behind bare addresses")]

pub mod arguments;
mod host;
pub mod reference;

use arguments::{Affine, CellRepr, InnerRepr, LabelRepr, MiddleRepr, OuterRepr, Record, StridedRepr};
use polywarp_core::backend::Backend;
use polywarp_core::decorate::Nop;
use polywarp_core::{Device, DevicePtr, KernelSet, Module, Nullable, Pair, Parameters, Program, Proposal, Result, Span, SpanMut, kernels};

/// Threads of the one block that [`Kernels::sum`] is launched with.
pub const SUM_THREADS: u32 = 256;

/// What [`Kernels::deep`] receives for a struct three deep: [`Outer`](arguments::Outer), converted.
pub type Deep = OuterRepr<Span<u32>, MiddleRepr<Span<u32>, InnerRepr<Span<u32>, u8>>, u32>;

kernels! {
    /// The suite's kernels.
    ///
    /// ```
    /// use polywarp_conformance::kernels::{self, Kernels, reference};
    /// use polywarp_core::{Runtime, host::Host};
    /// let device = Runtime::new(Host::default())?.device(0)?;
    /// let kernels: Kernels<Host> = kernels::load(&device, &kernels::program())?;
    /// let stream = device.stream()?;
    /// let mut x = stream.upload(&[1u32, 2, 3])?;
    /// kernels.add_one.launch(&stream, 3, (x.span_mut(),))?;
    /// assert_eq!(x.download(&stream)?, reference::add_each(&[1, 2, 3], 1));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub struct Kernels {
        /// y ← a·x + y.
        pub fn axpy(x: Span<f32>, y: SpanMut<f32>, a: f32) = host::axpy, requires |launch| flat(launch);
        /// y ← x.
        pub fn copy(x: Span<u32>, y: SpanMut<u32>) = host::copy, requires |launch| flat(launch);
        /// y ← value.
        pub fn fill(y: SpanMut<u32>, value: u32) = host::fill, requires |launch| flat(launch);
        /// z ← x + y, wrapping.
        pub fn add(x: Span<u32>, y: Span<u32>, z: SpanMut<u32>) = host::add, requires |launch| flat(launch);
        /// x ← x + 1, wrapping.
        pub fn add_one(x: SpanMut<u32>) = host::add_one, requires |launch| flat(launch);
        /// out[0] ← sum of x, wrapping; by one block whose threads meet at barriers.
        pub fn sum(x: Span<u32>, out: SpanMut<u32>) = host::sum, requires |launch| {
            let geometry = launch.geometry();
            geometry.grid == [1; 3] && geometry.block == [SUM_THREADS, 1, 1] && geometry.shared_bytes >= 4 * SUM_THREADS
        };
        /// x ← by.scale · x + by.shift: a struct by value.
        pub fn transform(x: SpanMut<f32>, by: Affine) = host::transform, requires |launch| flat(launch);
        /// y ← y + x, or y + 1 where x is null; wrapping.
        pub fn add_or_one(x: Nullable<DevicePtr<u32>>, y: SpanMut<u32>) = host::add_or_one,
            requires |launch| flat(launch) && (launch.value::<0>().get().address().0 == 0 || launch.bytes::<0>() >= launch.bytes::<1>());
        /// out[0] ← 1 if x is null, else 0.
        pub fn is_null(x: DevicePtr<[u32; 0]>, out: SpanMut<u32>) = host::is_null, requires |launch| flat(launch);
        /// out ← the bytes of every parameter after it, one after the other.
        pub fn echo_scalars(
            out: SpanMut<u8>, a: u8, b: u16, c: u32, d: u64, e: u128, f: i8, g: i16, h: i32, i: i64, j: i128, k: f32, l: f64, m: bool
        ) = host::Echo, requires |launch| flat(launch);
        /// out ← the bytes of every parameter after it, padding as zeros.
        pub fn echo_structs(out: SpanMut<u8>, a: Record, b: [Record; 2], c: Pair<u8, Record>, d: [[u16; 3]; 2]) = host::Echo, requires |launch| flat(launch);
        /// out ← leaf + the pair + both of the array + the option where it is there + value · label; wrapping.
        pub fn shapes(
            leaf: DevicePtr<u32>, pair: Pair<Span<u32>, u32>, array: [Span<u32>; 2], option: Nullable<Span<u32>>,
            label: LabelRepr<CellRepr<u32>, u16>, out: SpanMut<u32>
        ) = host::shapes, requires |launch| flat(launch) && launch.bytes::<0>() >= launch.bytes::<5>();
        /// out ← first + 2 · second + 3 · third + bias · flag; wrapping.
        pub fn deep(x: Deep, out: SpanMut<u32>) = host::deep, requires |launch| flat(launch);
        /// out[i] ← data[index[i] · stride], complemented if flipped.
        pub fn gather(view: StridedRepr<Span<u32>, Span<u32>, u32, bool>, out: SpanMut<u32>) = host::gather, requires |launch| flat(launch);
        /// out[0] ← sum of (i + 1) · parameter i, of 21 parameters.
        pub fn many_22(
            out: SpanMut<u32>, a0: u32, a1: u32, a2: u32, a3: u32, a4: u32, a5: u32, a6: u32, a7: u32, a8: u32, a9: u32,
            b0: u32, b1: u32, b2: u32, b3: u32, b4: u32, b5: u32, b6: u32, b7: u32, b8: u32, b9: u32, c0: u32
        ) = host::many_22, requires |launch| flat(launch);
        /// out[0] ← sum of (i + 1) · parameter i, of 39 parameters.
        pub fn many_40(
            out: SpanMut<u32>, a0: u32, a1: u32, a2: u32, a3: u32, a4: u32, a5: u32, a6: u32, a7: u32, a8: u32, a9: u32,
            b0: u32, b1: u32, b2: u32, b3: u32, b4: u32, b5: u32, b6: u32, b7: u32, b8: u32, b9: u32,
            c0: u32, c1: u32, c2: u32, c3: u32, c4: u32, c5: u32, c6: u32, c7: u32, c8: u32, c9: u32,
            d0: u32, d1: u32, d2: u32, d3: u32, d4: u32, d5: u32, d6: u32, d7: u32, d8: u32
        ) = host::many_40, requires |launch| flat(launch);
        /// Reads past the end: a kernel fault.
        pub fn fault(out: SpanMut<u32>) = host::fault, requires |launch| flat(launch);
    }
}

/// Whether no two threads have the same index along x.
fn flat<S: Parameters>(launch: &Proposal<'_, S>) -> bool {
    let geometry = launch.geometry();
    geometry.grid[1..] == [1; 2] && geometry.block[1..] == [1; 2]
}

/// The kernels in the forms that the suite has.
///
/// ```
/// use polywarp_core::backend::Form;
/// // A backend that runs another form adds it in `Subject::kernels`.
/// let program = polywarp_conformance::kernels::program().source("/* the same kernels in C++ */");
/// assert_eq!(program.forms(), [Form::Host, Form::Source]);
/// ```
pub fn program() -> Program {
    <Kernels<Nop> as KernelSet<Nop>>::host(Program::new("conformance"))
}

/// The kernels on a device.
///
/// # Errors
/// As for [`Module::load`] and [`Module::bind`].
///
/// ```
/// use polywarp_conformance::kernels;
/// use polywarp_core::{ErrorKind, Program, Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// assert_eq!(kernels::load(&device, &kernels::program())?.axpy.name(), "axpy");
/// let refused = kernels::load(&device, &Program::new("empty")).unwrap_err();
/// assert!(matches!(refused.kind(), ErrorKind::NoSuchForm { .. }));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub fn load<B: Backend>(device: &Device<B>, program: &Program) -> Result<Kernels<B>> {
    let module = Module::load(device, program)?;
    // SAFETY: see the module's documentation.
    unsafe { Kernels::bind(&module) }
}
