//! A value of size zero.

use polywarp_core::backend::Backend;
use polywarp_core::{Kernel, Result, Stream};

fn launch<B: Backend>(kernel: &Kernel<B, false, ([f32; 0],)>, stream: &Stream<B>) -> Result<()> {
    kernel.launch(stream, 4, ([1.0f32; 0],))
}

fn main() {
    let (device, _) = polywarp_core::doctest::axpy().unwrap();
    let module = polywarp_core::Module::load(&device, &polywarp_core::Program::new("none")).unwrap();
    // SAFETY: there is no such kernel.
    let kernel = unsafe { module.bind("none") }.unwrap();
    launch(&kernel, &device.stream().unwrap()).unwrap();
}
