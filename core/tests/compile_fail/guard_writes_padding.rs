//! A guard to write would copy padding, whose bytes are not initialised; `upload` writes zeros there.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, DeviceRepr, PinnedMemory, Result};

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Padded {
    large: u32,
    small: u8,
}

// SAFETY: zero is a value of each field.
unsafe impl bytemuck::Zeroable for Padded {}
// SAFETY: any bits are a value of each field.
unsafe impl bytemuck::AnyBitPattern for Padded {}

fn write<B: Backend>(x: &mut Buffer<B, Padded, PinnedMemory>) -> Result<()> {
    x.write()?[0] = Padded { large: 1, small: 2 };
    Ok(())
}

fn main() {}
