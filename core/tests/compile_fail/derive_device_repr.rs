//! What `DeviceRepr` refuses, each with a message of its own.

use polywarp_core::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
struct NoRepr {
    x: f32,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C, packed)]
struct Packed(u8, f32);

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C, packed(2))]
struct PackedTo2(u8, f32);

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C, align(32))]
struct Wide(f32);

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Unit;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct OnlyMarker<T>(std::marker::PhantomData<T>);

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Borrows<'a> {
    x: &'a f32,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
union Either {
    x: f32,
    y: u32,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(u8)]
enum WithData {
    A(f32),
    B,
}

#[derive(Clone, Copy, DeviceRepr)]
enum NoInteger {
    A,
    B,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
#[polywarp(krate = polywarp_core)]
struct Misspelt(f32);

fn main() {}
