//! What examples in the documentation share: a stream of the host backend, and one kernel.

#![allow(unsafe_code, reason = "binds the kernel")]

use crate::host::Host;
use crate::{Device, HostSpan, HostSpanMut, Kernel, Module, Program, Result, Runtime, Span, SpanMut, Stream, Thread};

/// A stream of the host backend.
///
/// # Errors
/// None are expected.
pub fn stream() -> Result<Stream<Host>> {
    Runtime::new(Host::default())?.device(0)?.stream()
}

/// `y ← a·x + y` on the host backend.
///
/// # Errors
/// None are expected.
pub fn axpy() -> Result<(Device<Host>, Kernel<Host, false, (Span<f32>, SpanMut<f32>, f32)>)> {
    fn axpy(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, a: f32) {
        if let Some(i) = thread.within(y.len()) {
            y.store(i, a * x.load(i) + y.load(i));
        }
    }
    let device = Runtime::new(Host::default())?.device(0)?;
    let program = Program::new("axpy").host::<(Span<f32>, SpanMut<f32>, f32), _>("axpy", axpy);
    let module = Module::load(&device, &program)?;
    // SAFETY: `axpy` has these parameters, checks bounds, and each thread uses an element of its own.
    let kernel = unsafe { module.bind("axpy") }?;
    Ok((device, kernel))
}
