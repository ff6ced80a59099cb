//! Two views to write of one buffer at the same time.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Result, Stream};

fn both<B: Backend>(x: &mut Buffer<B, f32>, stream: &Stream<B>) -> Result<()> {
    let mut left = x.slice_mut(..4)?;
    let right = x.slice_mut(2..)?;
    left.copy_from(stream, &right)
}

fn itself<B: Backend>(x: &mut Buffer<B, f32>, stream: &Stream<B>) -> Result<()> {
    x.copy_from(stream, &*x)
}

fn main() {}
