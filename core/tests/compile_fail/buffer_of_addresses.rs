//! Buffers hold no device addresses: they would escape tracking.

use polywarp_core::backend::Backend;
use polywarp_core::{Device, DevicePtr, Nullable, Result, Span};

fn pointers<B: Backend>(device: &Device<B>) -> Result<()> {
    device.alloc::<DevicePtr<f32>>(1).map(drop)
}

fn spans<B: Backend>(device: &Device<B>) -> Result<()> {
    device.alloc::<Span<f32>>(1).map(drop)
}

fn arrays<B: Backend>(device: &Device<B>) -> Result<()> {
    device.alloc::<[DevicePtr<f32>; 2]>(1).map(drop)
}

fn options<B: Backend>(device: &Device<B>) -> Result<()> {
    device.alloc::<Nullable<DevicePtr<f32>>>(1).map(drop)
}

fn main() {}
