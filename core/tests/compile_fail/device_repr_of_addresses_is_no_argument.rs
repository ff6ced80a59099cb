//! A struct of device addresses that derives `DeviceRepr` is not passed by value.

use polywarp_core::backend::Backend;
use polywarp_core::{DevicePtr, DeviceRepr, Kernel, Result, Stream};

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Row {
    start: DevicePtr<f32>,
}

fn launch<B: Backend>(kernel: &Kernel<B, false, (Row,)>, stream: &Stream<B>, row: Row) -> Result<()> {
    kernel.launch(stream, 4, (row,))
}

fn main() {}
