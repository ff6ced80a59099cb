//! A view to write is not seen as bytes of a type that has wrong ones.

use polywarp_core::backend::Backend;
use polywarp_core::{BufferSliceMut, Result};

fn cast<B: Backend>(x: BufferSliceMut<'_, B, bool>) -> Result<BufferSliceMut<'_, B, u8>> {
    x.cast::<u8>()
}

fn main() {}
