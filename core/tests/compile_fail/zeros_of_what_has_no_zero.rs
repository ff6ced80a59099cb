//! Zero bytes are no value of every type.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, DeviceRepr, Result, Stream};

#[derive(Clone, Copy, DeviceRepr)]
#[repr(u8)]
enum Kind {
    One = 1,
}

fn zeros<B: Backend>(stream: &Stream<B>) -> Result<Buffer<B, Kind>> {
    stream.zeros(4)
}

fn main() {}
