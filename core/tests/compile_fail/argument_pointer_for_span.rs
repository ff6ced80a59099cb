//! A buffer where the kernel takes a span.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Kernel, Result, Span, SpanMut, Stream};

type Axpy = (Span<f32>, SpanMut<f32>, f32);

fn launch<B: Backend>(kernel: &Kernel<B, false, Axpy>, stream: &Stream<B>, x: &Buffer<B, f32>, y: &mut Buffer<B, f32>) -> Result<()> {
    kernel.launch(stream, 4, (x, y, 2.0))
}

fn main() {}
