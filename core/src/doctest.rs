//! What examples in the documentation share: streams of the host backend, a kernel, a way to run others.

#![allow(unsafe_code, reason = "binds the kernels")]

use crate::host::Host;
use crate::{Device, HostFn, HostSpan, HostSpanMut, Kernel, LaunchConfig, Module, Program, Result, Runtime, Span, SpanMut, Stream, Thread};

/// A stream of the host backend.
///
/// # Errors
/// None are expected.
pub fn stream() -> Result<Stream<Host>> {
    Runtime::new(Host::default())?.device(0)?.stream()
}

/// A module with `y ← a·x + y` on the host backend.
///
/// # Errors
/// None are expected.
pub fn axpy_module() -> Result<(Device<Host>, Module<Host>)> {
    fn axpy(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, a: f32) {
        if let Some(i) = thread.within(y.len()) {
            y.store(i, a * x.load(i) + y.load(i));
        }
    }
    let device = Runtime::new(Host::default())?.device(0)?;
    let program = Program::new("axpy").host::<(Span<f32>, SpanMut<f32>, f32), _>("axpy", axpy);
    let module = Module::load(&device, &program)?;
    Ok((device, module))
}

/// The kernel of [`axpy_module`].
///
/// # Errors
/// None are expected.
pub fn axpy() -> Result<(Device<Host>, Kernel<Host, false, (Span<f32>, SpanMut<f32>, f32)>)> {
    let (device, module) = axpy_module()?;
    // SAFETY: `axpy` has these parameters, checks bounds, and each thread uses an element of its own.
    let kernel = unsafe { module.bind("axpy") }?;
    Ok((device, kernel))
}

/// What a kernel makes of `len` zeros.
///
/// # Errors
/// [`DevicePoisoned`](crate::ErrorKind::DevicePoisoned) if the kernel panics.
pub fn run(config: impl Into<LaunchConfig>, len: usize, kernel: impl HostFn<(SpanMut<u32>,)>) -> Result<Vec<u32>> {
    let stream = stream()?;
    let module = Module::load(stream.device(), &Program::new("example").host::<(SpanMut<u32>,), _>("example", kernel))?;
    // SAFETY: examples write elements that are each thread's own, through a checked span.
    let kernel = unsafe { module.bind::<(SpanMut<u32>,)>("example") }?;
    let mut out = stream.zeros(len)?;
    kernel.launch(&stream, config, (out.span_mut(),))?;
    out.download(&stream)
}
