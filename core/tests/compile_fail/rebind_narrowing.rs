//! A buffer to read for an argument that is written.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Converted, DevicePtrMut, Result};

fn rebind<B: Backend>(arguments: &mut Converted<B, (DevicePtrMut<f32>,)>, x: &Buffer<B, f32>) -> Result<()> {
    arguments.rebind::<0>(x)
}

fn main() {}
