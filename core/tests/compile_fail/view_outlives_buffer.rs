//! A view of a buffer that is gone.

use polywarp_core::backend::Backend;
use polywarp_core::{BufferSlice, Device, DeviceMemory, Result, SpanOf};

fn view<B: Backend>(device: &Device<B>) -> Result<BufferSlice<'_, B, f32>> {
    Ok(device.alloc(1)?.as_slice())
}

fn span<'a, B: Backend>(device: &'a Device<B>) -> Result<SpanOf<'a, B, f32, DeviceMemory>> {
    Ok(device.alloc(1)?.span())
}

fn main() {}
