//! The host cannot reach device memory.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Result};

fn read<B: Backend>(x: &Buffer<B, f32>) -> Result<f32> {
    Ok(x.read()?[0])
}

fn write<B: Backend>(x: &mut Buffer<B, f32>) -> Result<()> {
    x.write()?[0] = 1.0;
    Ok(())
}

fn read_part<B: Backend>(x: &Buffer<B, f32>) -> Result<f32> {
    Ok(x.slice(1..)?.read()?[0])
}

fn main() {}
