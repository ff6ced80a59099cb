//! Nobody vouches for the arguments of an untyped kernel.

use polywarp_core::backend::Backend;
use polywarp_core::{Converted, DevicePtr, Kernel, Result, Stream};

fn launch<B: Backend>(kernel: &Kernel<B, false>, stream: &Stream<B>) -> Result<()> {
    kernel.launch(stream, 4, (1.0f32,))
}

fn converted<B: Backend>(kernel: &Kernel<B, true>, stream: &Stream<B>, arguments: &Converted<B, (DevicePtr<f32>,)>) -> Result<()> {
    kernel.launch(stream, 4, arguments)
}

fn main() {}
