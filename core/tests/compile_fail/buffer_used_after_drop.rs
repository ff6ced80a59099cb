//! A buffer that was dropped, or moved away.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Result, Stream};

fn after_drop<B: Backend>(x: Buffer<B, f32>, stream: &Stream<B>) -> Result<Vec<f32>> {
    drop(x);
    x.download(stream)
}

fn while_viewed<B: Backend>(x: Buffer<B, f32>, stream: &Stream<B>) -> Result<Vec<f32>> {
    let view = x.as_slice();
    drop(x);
    view.download(stream)
}

fn main() {}
