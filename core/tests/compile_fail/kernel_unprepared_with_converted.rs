//! Converted arguments for a kernel that converts.

use polywarp_core::backend::Backend;
use polywarp_core::{Converted, DevicePtr, Kernel, Result, Stream};

type P = (DevicePtr<f32>,);

fn launch<B: Backend>(kernel: &Kernel<B, false, P>, stream: &Stream<B>, arguments: &Converted<B, P>) -> Result<()> {
    kernel.launch(stream, 4, arguments)
}

fn main() {}
