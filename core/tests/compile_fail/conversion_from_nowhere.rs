//! Only a launch converts, so addresses come from nowhere else.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, Conversion, Convert, DevicePtr};

fn address<B: Backend>(x: &Buffer<B, f32>) -> DevicePtr<f32> {
    x.convert(&mut Conversion::new()).unwrap()
}

fn pointer() -> DevicePtr<f32> {
    DevicePtr::new(polywarp_core::backend::DeviceAddress(4096))
}

fn main() {}
