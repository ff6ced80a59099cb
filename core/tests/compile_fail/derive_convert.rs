//! What `Convert` refuses, each with a message of its own.

use polywarp_core::Convert;

#[derive(Convert)]
enum Shape {
    Round,
}

#[derive(Convert)]
union Either {
    x: f32,
    y: u32,
}

#[derive(Convert)]
struct Empty {}

#[derive(Convert)]
#[convert(name = OtherRepr)]
struct Misspelt {
    x: f32,
}

fn main() {}
