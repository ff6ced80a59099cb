//! A value of another type for an argument.

use polywarp_core::backend::Backend;
use polywarp_core::{Converted, Result};

fn rebind<B: Backend>(arguments: &mut Converted<B, (f32, u32)>) -> Result<()> {
    arguments.rebind::<1>(1.0f32)
}

fn main() {}
