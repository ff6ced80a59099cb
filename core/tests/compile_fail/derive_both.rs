//! A type is a value or is converted field by field, never both.

use polywarp_core::{Convert, DeviceRepr};

#[derive(Clone, Copy, Convert, DeviceRepr)]
#[repr(C)]
struct Both {
    x: f32,
}

fn main() {}
