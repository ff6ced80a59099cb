//! A span from elsewhere: it would escape tracking.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, DevicePtrMut, Kernel, Result, Span, Stream};

type Axpy = (Span<f32>, DevicePtrMut<f32>, f32);

fn launch<B: Backend>(kernel: &Kernel<B, false, Axpy>, stream: &Stream<B>, span: Span<f32>, y: &mut Buffer<B, f32>) -> Result<()> {
    kernel.launch(stream, 4, (span, y, 2.0))
}

fn main() {}
