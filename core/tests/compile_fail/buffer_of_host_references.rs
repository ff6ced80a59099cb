//! Buffers hold nothing that has no layout on the device.

use polywarp_core::backend::Backend;
use polywarp_core::{Device, Result};

fn references<B: Backend>(device: &Device<B>) -> Result<()> {
    device.alloc::<&f32>(1).map(drop)
}

fn characters<B: Backend>(device: &Device<B>) -> Result<()> {
    device.alloc::<char>(1).map(drop)
}

fn main() {}
