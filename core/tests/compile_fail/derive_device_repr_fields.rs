//! Fields that no device has, and what follows for the whole.

use polywarp_core::{DevicePtr, DeviceRepr, Element};

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct HasChar {
    x: f32,
    letter: char,
}

struct PhantomData(f32);

impl Clone for PhantomData {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for PhantomData {}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct FalseMarker {
    x: f32,
    marker: PhantomData,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Row {
    start: DevicePtr<f32>,
    len: u32,
}

fn in_buffers<T: Element>() {}

fn main() {
    in_buffers::<Row>();
}
