//! What users write, generic over the backend: it compiles, and runs on the host.

#![cfg(feature = "host")]
#![allow(unsafe_code, reason = "binds kernels")]

use polywarp_core::backend::Backend;
use polywarp_core::gate::Gate;
use polywarp_core::host::Host;
use polywarp_core::{
    Allocation, Arguments, Buffer, BufferSlice, BufferSliceMut, Convert, Converted, Device, DevicePtr, DevicePtrMut, DeviceRepr, Error,
    Event, Global, GlobalMut, HostData, HostGuard, HostGuardMut, HostSpan, HostSpanMut, Kernel, KernelSet, LaunchConfig, Module, Nullable,
    Pair, Parameters, PendingRead, PinnedMemory, Prepared, Program, Result, Runtime, Shared, Span, SpanMut, SpanOf, SpanOfMut, Stream,
    StreamOptions, Thread, UnifiedMemory, Untyped, Value, kernels,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};

fn device() -> Device<Host> {
    Runtime::new(Host::default()).and_then(|runtime| runtime.device(0)).unwrap()
}

/// A kernel of one host form.
fn load<P: Parameters>(device: &Device<Host>, host: impl polywarp_core::HostFn<P>) -> Kernel<Host, false, P> {
    let module = Module::load(device, &Program::new("test").host::<P, _>("kernel", host)).unwrap();
    // SAFETY: the host forms of this file check bounds, and one thread of theirs writes.
    unsafe { module.bind("kernel") }.unwrap()
}

// ---------------------------------------------------------------- threads

type P = (Span<f32>, SpanMut<f32>, f32);

assert_impl_all!(Runtime<Host>: Send, Sync, Clone);
assert_impl_all!(Device<Host>: Send, Sync, Clone);
assert_impl_all!(Stream<Host>: Send, Sync);
assert_impl_all!(Event<Host>: Send, Sync);
assert_impl_all!(Buffer<Host, f32>: Send, Sync);
assert_impl_all!(Buffer<Host, f32, PinnedMemory>: Send, Sync);
assert_impl_all!(BufferSlice<'static, Host, f32, UnifiedMemory>: Send, Sync, Copy);
assert_impl_all!(BufferSliceMut<'static, Host, f32>: Send, Sync);
assert_impl_all!(SpanOf<'static, Host, f32>: Send, Sync, Clone);
assert_impl_all!(SpanOfMut<'static, Host, f32>: Send, Sync);
assert_impl_all!(HostGuard<'static, Host, f32>: Send, Sync);
assert_impl_all!(HostGuardMut<'static, Host, f32>: Send, Sync);
assert_impl_all!(PendingRead<Host, f32>: Send, Sync);
assert_impl_all!(HostData<Host, f32>: Send, Sync);
assert_impl_all!(Allocation<Host>: Send, Sync);
assert_impl_all!(Program: Send, Sync, Clone);
assert_impl_all!(Module<Host>: Send, Sync, Clone);
assert_impl_all!(Kernel<Host, false, P>: Send, Sync, Clone);
assert_impl_all!(Kernel<Host, true, Untyped>: Send, Sync, Clone);
assert_impl_all!(Converted<Host, P>: Send, Sync);
assert_impl_all!(Prepared<Host, P>: Send, Sync);
assert_impl_all!(LaunchConfig: Send, Sync, Copy);
assert_impl_all!(StreamOptions: Send, Sync, Copy);
assert_impl_all!(Gate: Send, Sync);
assert_impl_all!(Host: Send, Sync);
assert_impl_all!(Error: Send, Sync, Clone, std::error::Error);

assert_not_impl_any!(Thread<'static>: Send, Sync);
assert_not_impl_any!(HostSpan<'static, f32>: Send, Sync);
assert_not_impl_any!(HostSpanMut<'static, f32>: Send, Sync);
assert_not_impl_any!(Shared<'static, f32>: Send, Sync);
assert_not_impl_any!(Global<'static, f32>: Send, Sync);
assert_not_impl_any!(GlobalMut<'static, f32>: Send, Sync);

assert_not_impl_any!(Buffer<Host, f32>: Clone);
assert_not_impl_any!(BufferSliceMut<'static, Host, f32>: Clone);
assert_not_impl_any!(SpanOfMut<'static, Host, f32>: Clone);
assert_not_impl_any!(Converted<Host, P>: Clone);
assert_not_impl_any!(Stream<Host>: Clone);
assert_not_impl_any!(DevicePtr<f32>: Value);
assert_not_impl_any!(DevicePtrMut<f32>: Value);
assert_not_impl_any!(Span<f32>: Value);
assert_not_impl_any!(Nullable<Span<f32>>: Value);
assert_not_impl_any!(Pair<f32, Span<f32>>: Value);

fn _all_backends<B: Backend>() {
    fn shared<T: Send + Sync>() {}
    shared::<(Runtime<B>, Device<B>, Stream<B>, Event<B>, Buffer<B, u8>, Module<B>, Kernel<B, false>, Converted<B, P>, Prepared<B, P>)>();
    shared::<(PendingRead<B, u8>, HostData<B, u8>, BufferSlice<'_, B, u8>, BufferSliceMut<'_, B, u8>, HostGuard<'_, B, u8>)>();
}

// ---------------------------------------------------------------- generic code

kernels! {
    /// Kernels of a solver.
    struct Kernels {
        /// y ← y + a·x.
        fn step(x: Span<f32>, y: SpanMut<f32>, a: f32) = step, requires |launch| launch.bytes::<0>() == launch.bytes::<1>();
    }
}

fn step(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, a: f32) {
    if let Some(i) = thread.within(y.len()) {
        y.store(i, y.load(i) + a * x.load(i));
    }
}

/// Keeps its memory and its calls; knows no backend.
struct Solver<B: Backend> {
    x: Buffer<B, f32>,
    y: Buffer<B, f32>,
    forth: Prepared<B, P>,
    back: Prepared<B, P>,
}

impl<B: Backend> Solver<B> {
    fn new(stream: &Stream<B>, kernels: &Kernels<B>, x: &[f32]) -> Result<Self> {
        let (mut x, mut y) = (stream.upload(x)?, stream.zeros(x.len())?);
        let forth = kernels.step.prepared((x.span(), y.span_mut(), 0.0))?;
        let back = kernels.step.prepared((y.span(), x.span_mut(), 1.0))?;
        Ok(Self { x, y, forth, back })
    }

    fn step(&mut self, stream: &Stream<B>, dt: f32) -> Result<()> {
        self.forth.rebind::<2>(dt)?;
        self.forth.launch(stream, self.x.len())?;
        self.back.launch(stream, self.y.len())
    }
}

/// Any kernel, any arguments.
fn repeat<B: Backend, P: Parameters, A: Arguments<B, P, Parameters = P> + Copy>(
    stream: &Stream<B>,
    kernel: &Kernel<B, false, P>,
    arguments: A,
    times: usize,
) -> Result<()> {
    (0..times).try_for_each(|_| kernel.launch(stream, 1, arguments))
}

#[test]
fn a_solver_moves_between_threads() -> Result<()> {
    let device = device();
    let module = Module::load(&device, &<Kernels<Host>>::host(Program::new("solver")))?;
    // SAFETY: `step` checks bounds, and each thread uses elements of its own.
    let kernels = unsafe { Kernels::bind(&module) }?;
    let stream = device.stream()?;
    let mut solver = Solver::new(&stream, &kernels, &[1.0; 8])?;
    let (stream, solver) = std::thread::spawn(move || {
        solver.step(&stream, 2.0)?;
        solver.step(&stream, 1.0)?;
        Ok::<_, Error>((stream, solver))
    })
    .join()
    .unwrap()?;
    assert_eq!((solver.x.download(&stream)?, solver.y.download(&stream)?), (vec![8.0; 8], vec![5.0; 8]));
    let sums = load::<(f32, u32)>(&device, |_: &Thread<'_>, _: f32, _: u32| {});
    repeat(&stream, &sums, (1.0, 2), 3)
}

// ---------------------------------------------------------------- conversions

#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
struct Weight {
    bias: u8,
    scale: f32,
}

#[derive(Convert)]
struct Layer<B: Backend> {
    weights: [Buffer<B, f32>; 2],
    shape: (u32, u32),
    weight: Weight,
}

#[derive(Convert)]
struct Network<'a, B: Backend> {
    layers: [&'a Layer<B>; 2],
    mask: Option<BufferSlice<'a, B, u8>>,
    out: Option<&'a mut Buffer<B, f32>>,
    nested: [(BufferSlice<'a, B, f32>, u8); 2],
}

type LayerOf = LayerRepr<[DevicePtr<f32>; 2], Pair<u32, u32>, Weight>;
type NetworkOf = NetworkRepr<[LayerOf; 2], Nullable<DevicePtr<u8>>, Nullable<DevicePtrMut<f32>>, [Pair<DevicePtr<f32>, u8>; 2]>;
type LayerView<'k> = LayerRepr<[Global<'k, f32>; 2], (u32, u32), Weight>;
type NetworkView<'k> = NetworkRepr<[LayerView<'k>; 2], Global<'k, u8>, GlobalMut<'k, f32>, [(Global<'k, f32>, u8); 2]>;

fn infer(thread: &Thread<'_>, network: NetworkView<'_>) {
    if thread.index(0) > 0 || network.out.is_null() {
        return;
    }
    let layer = |layer: &LayerView<'_>| {
        // SAFETY: the buffers have one element each.
        let sum = unsafe { layer.weights[0].load(0) } + unsafe { layer.weights[1].load(0) };
        sum * layer.weight.scale + f32::from(layer.weight.bias) + (layer.shape.0 * layer.shape.1) as f32
    };
    let nested: f32 = network.nested.iter().map(|(x, n)| unsafe { x.load(usize::from(*n)) }).sum();
    let masked = if network.mask.is_null() { 1.0 } else { 0.0 };
    // SAFETY: the buffer has one element, and one thread writes it.
    unsafe { network.out.store(0, nested + masked * network.layers.iter().map(layer).sum::<f32>()) };
}

fn layer(stream: &Stream<Host>, weight: f32) -> Result<Layer<Host>> {
    let weights = [stream.upload(&[weight])?, stream.upload(&[weight])?];
    Ok(Layer { weights, shape: (2, 3), weight: Weight { bias: 1, scale: 10.0 } })
}

#[test]
fn structs_arrays_pairs_and_options_nest() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let kernel = load::<(NetworkOf,)>(&device, infer);
    let (one, two, mut out) = (layer(&stream, 1.0)?, layer(&stream, 2.0)?, stream.zeros::<f32>(1)?);
    let (mask, more) = (stream.upload(&[1u8])?, stream.upload(&[100.0f32, 200.0])?);
    let nested = [(more.slice(1..)?, 0), (more.as_slice(), 0)];
    let network = Network { layers: [&one, &two], mask: None, out: Some(&mut out), nested };
    kernel.launch(&stream, 1, (network,))?;
    assert_eq!(out.download(&stream)?, [300.0 + 27.0 + 47.0]);
    let mut network = Network { layers: [&one, &two], mask: Some(mask.as_slice()), out: Some(&mut out), nested };
    kernel.launch(&stream, 1, (&mut network,))?;
    assert_eq!(out.download(&stream)?, [300.0]);
    kernel.launch(&stream, 1, (Network { layers: [&one, &two], mask: None, out: None, nested },))?;
    assert_eq!(out.download(&stream)?, [300.0]);
    Ok(())
}

#[test]
fn references_of_every_kind_convert() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    type Reads = (DevicePtr<f32>, f32);
    let reads = load::<Reads>(&device, |_: &Thread<'_>, _: Global<'_, f32>, _: f32| {});
    let writes = load::<(DevicePtrMut<f32>, f32)>(&device, |_: &Thread<'_>, x: GlobalMut<'_, f32>, a: f32| {
        // SAFETY: the buffer has elements, and the launch has one thread.
        unsafe { x.store(0, a) }
    });
    let one = LaunchConfig::new(1, 1);
    let mut x = stream.zeros::<f32>(2)?;
    let (mut a, b) = (1.0f32, 2.0f32);
    reads.launch(&stream, one, (&x, &b))?;
    reads.launch(&stream, one, (&&x, &&b))?;
    reads.launch(&stream, one, (x.as_slice(), &mut a))?;
    reads.launch(&stream, one, (&x.as_slice(), &&mut a))?;
    reads.launch(&stream, one, (&&mut x, &mut &a))?;
    reads.launch(&stream, one, (&mut &x, &mut &mut a))?;
    reads.launch(&stream, one, (&x.as_slice_mut(), 1.0))?;
    reads.launch(&stream, one, (&mut x.as_slice(), 1.0))?;
    writes.launch(&stream, one, (&mut x, 1.0))?;
    writes.launch(&stream, one, (&mut &mut x, 2.0))?;
    writes.launch(&stream, one, (x.as_slice_mut(), 3.0))?;
    writes.launch(&stream, one, (&mut x.as_slice_mut(), 4.0))?;
    writes.launch(&stream, one, (x.slice_mut(1..)?, 5.0))?;
    assert_eq!(x.download(&stream)?, [4.0, 5.0]);
    let mut pinned = device.alloc_pinned::<f32>(1)?;
    let mut unified = device.alloc_unified::<f32>(1)?;
    writes.launch(&stream, one, (&mut pinned, 6.0))?;
    writes.launch(&stream, one, (&mut unified, 7.0))?;
    assert_eq!((pinned.read()?[0], unified.read()?[0]), (6.0, 7.0));
    Ok(())
}

#[test]
fn spans_of_every_kind_convert() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let kernel = load::<P>(&device, step);
    let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.zeros::<f32>(4)?);
    kernel.launch(&stream, 4, (x.span(), y.span_mut(), 1.0))?;
    kernel.launch(&stream, 4, (&x.span(), &mut y.span_mut(), 1.0))?;
    kernel.launch(&stream, 4, (&mut x.span(), y.as_slice_mut().span_mut(), 1.0))?;
    let mut other = stream.zeros::<f32>(4)?;
    kernel.launch(&stream, 4, (&y.span_mut(), other.span_mut(), 1.0))?;
    assert_eq!(other.download(&stream)?, [3.0; 4]);
    Ok(())
}

#[test]
fn forty_parameters_of_every_scalar_arrive() -> Result<()> {
    #[rustfmt::skip]
    type Signature = (
        u8, u16, u32, u64, i8, i16, i32, i64, f32, f64,
        bool, u128, i128, usize, isize, [f32; 3], Pair<u8, f64>, Weight, SpanMut<f64>, u8,
        u8, u16, u32, u64, i8, i16, i32, i64, f32, f64,
        bool, u128, i128, usize, isize, [f32; 3], Pair<u8, f64>, Weight, u16, u8,
    );
    let device = device();
    let stream = device.stream()?;
    #[rustfmt::skip]
    #[allow(clippy::too_many_arguments, reason = "it is what is tested")]
    fn sum(
        _: &Thread<'_>,
        p0: u8, p1: u16, p2: u32, p3: u64, p4: i8, p5: i16, p6: i32, p7: i64, p8: f32, p9: f64,
        p10: bool, p11: u128, p12: i128, p13: usize, p14: isize, p15: [f32; 3], p16: (u8, f64), p17: Weight, out: HostSpanMut<'_, f64>, p19: u8,
        p20: u8, p21: u16, p22: u32, p23: u64, p24: i8, p25: i16, p26: i32, p27: i64, p28: f32, p29: f64,
        p30: bool, p31: u128, p32: i128, p33: usize, p34: isize, p35: [f32; 3], p36: (u8, f64), p37: Weight, p38: u16, p39: u8,
    ) {
        let first = [f64::from(p0), p1.into(), p2.into(), p3 as f64, p4.into(), p5.into(), p6.into(), p7 as f64, p8.into(), p9];
        let second = [f64::from(u8::from(p10)), (p11 >> 64) as f64, (p12 >> 64) as f64, p13 as f64, p14 as f64, p15[2].into(), p16.1, p17.scale.into(), p19.into()];
        let third = [f64::from(p20), p21.into(), p22.into(), p23 as f64, p24.into(), p25.into(), p26.into(), p27 as f64, p28.into(), p29];
        let fourth = [f64::from(u8::from(p30)), p31 as f64, p32 as f64, p33 as f64, p34 as f64, p35[0].into(), p36.0.into(), p37.bias.into(), p38.into(), p39.into()];
        for (i, sum) in [first.iter().sum::<f64>(), second.iter().sum(), third.iter().sum(), fourth.iter().sum()].into_iter().enumerate() {
            out.store(i, sum);
        }
    }
    let kernel = load::<Signature>(&device, sum);
    let (weight, mut out) = (Weight { bias: 7, scale: 8.0 }, stream.zeros::<f64>(4)?);
    #[rustfmt::skip]
    let arguments = (
        1, 2, 3, 4, -5, -6, -7, -8, 9.0, 10.0,
        true, 1 << 70, -(1 << 70), 4, -5, [0.0f32, 0.0, 6.0], (0u8, 7.0f64), weight, out.span_mut(), 9,
        21, 22, 23, 24, -25, -26, -27, -28, 29.0, 30.0,
        true, 32, -33, 34, -35, [36.0f32, 0.0, 0.0], (37u8, 0.0f64), weight, 39, 40,
    );
    kernel.launch(&stream, LaunchConfig::new(1, 1), arguments)?;
    assert_eq!(out.download(&stream)?, [3.0, 30.0, 43.0, 158.0]);
    Ok(())
}

#[test]
fn an_untyped_kernel_takes_what_fits() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let module = Module::load(&device, &Program::new("test").host::<P, _>("step", step))?;
    let kernel: Kernel<Host, false> = module.function("step")?;
    let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.zeros::<f32>(4)?);
    // SAFETY: the parameters are those of `step`.
    unsafe { kernel.launch(&stream, 4, (x.span(), y.span_mut(), 2.0f32)) }?;
    let (prepared, converted) = kernel.prepare((x.span(), y.span_mut(), 2.0f32))?;
    // SAFETY: as above.
    unsafe { prepared.launch(&stream, 4, &converted) }?;
    // SAFETY: it is refused.
    let refused = unsafe { kernel.launch(&stream, 4, (x.span(), 2.0f32)) };
    assert!(matches!(refused.unwrap_err().kind(), polywarp_core::ErrorKind::SignatureMismatch { .. }));
    assert_eq!(y.download(&stream)?, [4.0; 4]);
    Ok(())
}

#[test]
fn kernels_without_parameters_launch() -> Result<()> {
    let device = device();
    let kernel = load::<()>(&device, |_: &Thread<'_>| {});
    kernel.launch(&device.stream()?, 1, ())
}
