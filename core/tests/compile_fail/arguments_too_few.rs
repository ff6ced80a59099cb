//! Two arguments for three parameters.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, DevicePtr, DevicePtrMut, Kernel, Result, Stream};

type Axpy = (DevicePtr<f32>, DevicePtrMut<f32>, f32);

fn launch<B: Backend>(kernel: &Kernel<B, false, Axpy>, stream: &Stream<B>, x: &Buffer<B, f32>, y: &mut Buffer<B, f32>) -> Result<()> {
    kernel.launch(stream, 4, (x, y))
}

fn main() {}
