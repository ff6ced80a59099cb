//! Bytes are not seen as a type that has wrong ones.

use polywarp_core::backend::Backend;
use polywarp_core::{BufferSlice, Result};

fn cast<B: Backend>(x: BufferSlice<'_, B, u8>) -> Result<BufferSlice<'_, B, bool>> {
    x.cast::<bool>()
}

fn main() {}
