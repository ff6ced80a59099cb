//! One argument without the comma that makes it a tuple.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, DevicePtr, Kernel, Result, Stream};

type Axpy = (DevicePtr<f32>,);

fn launch<B: Backend>(kernel: &Kernel<B, false, Axpy>, stream: &Stream<B>, x: &Buffer<B, f32>) -> Result<()> {
    kernel.launch(stream, 4, (x))
}

fn main() {}
