//! Copying a buffer is work: `try_clone`.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer};

fn copy<B: Backend>(x: &Buffer<B, f32>) -> Buffer<B, f32> {
    x.clone()
}

fn main() {}
