//! An array of pointers from elsewhere.

use polywarp_core::backend::Backend;
use polywarp_core::{DevicePtr, Kernel, Result, Stream};

type Axpy = ([DevicePtr<f32>; 2],);

fn launch<B: Backend>(kernel: &Kernel<B, false, Axpy>, stream: &Stream<B>, pointer: DevicePtr<f32>) -> Result<()> {
    kernel.launch(stream, 4, ([pointer; 2],))
}

fn main() {}
