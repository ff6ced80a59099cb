//! A struct without a derive.

use polywarp_core::backend::Backend;
use polywarp_core::{Kernel, Result, Stream};

#[derive(Clone, Copy)]
#[repr(C)]
struct Foreign {
    x: f32,
}

type Axpy = (Foreign,);

fn launch<B: Backend>(kernel: &Kernel<B, false, Axpy>, stream: &Stream<B>, _unused: ()) -> Result<()> {
    kernel.launch(stream, 4, (Foreign { x: 1.0 },))
}

fn main() {}
