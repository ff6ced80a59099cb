//! A struct with a field that nothing converts is not converted, and the message names the field's type.

use polywarp_core::{Convert, backend::Backend};

#[derive(Convert)]
struct Named {
    name: String,
    x: f32,
}

fn convertible<B: Backend, A: Convert<B>>(_: A) {}

fn check<B: Backend>(named: &Named) {
    convertible::<B, _>(named);
}

fn main() {}
