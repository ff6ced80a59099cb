//! A guard of a buffer that is gone, a slice of a guard that is gone, and a write through a guard while another reads.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Device, HostGuard, PinnedMemory, Result};

fn guard<B: Backend>(device: &Device<B>) -> Result<HostGuard<'_, B, f32>> {
    device.alloc_pinned(1)?.read()
}

fn slice<B: Backend>(x: &Buffer<B, f32, PinnedMemory>) -> Result<&[f32]> {
    Ok(&*x.read()?)
}

fn both<B: Backend>(x: &mut Buffer<B, f32, PinnedMemory>) -> Result<f32> {
    let reads = x.read()?;
    x.write()?[0] = 1.0;
    Ok(reads[0])
}

fn main() {}
