//! Converted arguments of a kernel with other parameters.

use polywarp_core::backend::Backend;
use polywarp_core::{Converted, DevicePtr, Kernel, Result, Stream};

fn launch<B: Backend>(kernel: &Kernel<B, true, (DevicePtr<f32>,)>, stream: &Stream<B>, arguments: &Converted<B, (DevicePtr<f64>,)>) -> Result<()> {
    kernel.launch(stream, 4, arguments)
}

fn main() {}
