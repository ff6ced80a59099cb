//! An argument that there is not.

use polywarp_core::backend::Backend;
use polywarp_core::{Converted, Result};

fn rebind<B: Backend>(arguments: &mut Converted<B, (f32, u32)>) -> Result<()> {
    arguments.rebind::<2>(1u32)
}

fn main() {}
