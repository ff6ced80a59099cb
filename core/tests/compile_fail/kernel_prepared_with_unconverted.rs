//! Unconverted arguments for a kernel that takes converted ones.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, DevicePtr, Kernel, Result, Stream};

fn launch<B: Backend>(kernel: &Kernel<B, true, (DevicePtr<f32>,)>, stream: &Stream<B>, x: &Buffer<B, f32>) -> Result<()> {
    kernel.launch(stream, 4, (x,))
}

fn main() {}
