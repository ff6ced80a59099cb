//! A struct without a derive, and a type that no device knows, for kernels whose parameters are known and not.

use polywarp_core::backend::Backend;
use polywarp_core::{Kernel, Result, Stream};

#[derive(Clone, Copy)]
#[repr(C)]
struct Foreign {
    x: f32,
}

fn launch<B: Backend>(kernel: &Kernel<B, false, (f32, f32)>, stream: &Stream<B>) -> Result<()> {
    kernel.launch(stream, 4, (1.0, Foreign { x: 1.0 }))
}

unsafe fn untyped<B: Backend>(kernel: &Kernel<B, false>, stream: &Stream<B>) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { kernel.launch(stream, 4, (1.0f32, "text")) }
}

fn main() {}
