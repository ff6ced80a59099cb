//! Binding is the promise.

use polywarp_core::backend::Backend;
use polywarp_core::{Kernel, Module, Result};

fn bind<B: Backend>(module: &Module<B>) -> Result<Kernel<B, false, (f32,)>> {
    module.bind("scale")
}

fn may_alias<B: Backend>(kernel: Kernel<B, false, (f32,)>) -> Kernel<B, false, (f32,)> {
    kernel.may_alias()
}

fn main() {}
