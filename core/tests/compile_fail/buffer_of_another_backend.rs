//! A buffer of one backend on a stream of another.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Result, Stream};

fn mix<B: Backend, C: Backend>(x: &Buffer<B, f32>, stream: &Stream<C>) -> Result<Vec<f32>> {
    x.download(stream)
}

fn main() {}
