//! Structs that derive `Convert`, in host kernels.

#![cfg(feature = "host")]
#![allow(unsafe_code, reason = "binds kernels")]

use polywarp_core::host::Host;
use polywarp_core::{
    Buffer, Convert, DeviceRepr, HostSpan, HostSpanMut, Module, Program, Result, Runtime, Span, SpanMut, SpanOf, SpanOfMut,
};
use polywarp_core::{Thread, backend::Backend};

#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
struct Line {
    slope: f32,
    offset: f32,
}

#[derive(Convert)]
struct Points<'a, B: Backend> {
    x: SpanOf<'a, B, f32>,
    y: SpanOfMut<'a, B, f32>,
}

#[derive(Convert)]
struct Fit<'a, B: Backend> {
    points: Points<'a, B>,
    line: Line,
}

type FitOf = FitRepr<PointsRepr<Span<f32>, SpanMut<f32>>, Line>;

fn evaluate(thread: &Thread<'_>, fit: FitRepr<PointsRepr<HostSpan<'_, f32>, HostSpanMut<'_, f32>>, Line>) {
    let FitRepr { points: PointsRepr { x, y }, line } = fit;
    if let Some(i) = thread.within(y.len()) {
        y.store(i, line.slope * x.load(i) + line.offset);
    }
}

#[test]
fn a_host_kernel_takes_a_nested_struct() -> Result<()> {
    let device = Runtime::new(Host::default())?.device(0)?;
    let module = Module::load(&device, &Program::new("fit").host::<(FitOf,), _>("evaluate", evaluate))?;
    // SAFETY: `evaluate` checks bounds, and each thread uses elements of its own.
    let kernel = unsafe { module.bind::<(FitOf,)>("evaluate") }?;
    let stream = device.stream()?;
    let x: Buffer<Host, f32> = stream.upload(&[0.0, 1.0, 2.0])?;
    let mut y = stream.zeros::<f32>(3)?;
    let mut fit = Fit { points: Points { x: x.span(), y: y.span_mut() }, line: Line { slope: 2.0, offset: 1.0 } };
    kernel.launch(&stream, 3, (&mut fit,))?;
    fit.line.offset = 10.0;
    kernel.launch(&stream, 3, (fit,))?;
    assert_eq!(y.download(&stream)?, [10.0, 12.0, 14.0]);
    Ok(())
}
