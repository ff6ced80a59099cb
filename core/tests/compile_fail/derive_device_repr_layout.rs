//! Layouts that only the compiler knows.

use polywarp_core::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Nothing {
    none: [f32; 0],
}

fn main() {}
