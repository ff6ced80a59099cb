//! Structs that kernels receive by value, and structs that convert.

use polywarp_core::backend::Backend;
use polywarp_core::{Convert, DeviceMemory, DeviceRepr, SpanOf};
use std::marker::PhantomData;

/// Spans of device memory.
type Of<'a, B> = SpanOf<'a, B, u32, DeviceMemory>;

/// A struct by value.
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
pub struct Affine {
    /// The factor.
    pub scale: f32,
    /// The summand.
    pub shift: f32,
}

/// A struct with padding in the middle and at the end, and one inside.
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
pub struct Record {
    /// One byte, then three of padding.
    pub kind: u8,
    /// An array.
    pub position: [f32; 3],
    /// A struct of its own.
    pub inner: Holes,
    /// Two bytes, then padding.
    pub last: u16,
}

/// A struct with holes.
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
pub struct Holes {
    /// One byte, then seven of padding.
    pub small: u8,
    /// Eight bytes.
    pub large: u64,
    /// One byte, then padding.
    pub flag: bool,
}

/// The outermost of three structs, each with a buffer.
#[derive(Convert, Debug)]
pub struct Outer<'a, B: Backend> {
    /// A buffer.
    pub first: Of<'a, B>,
    /// The struct inside.
    pub middle: Middle<'a, B>,
    /// A scalar.
    pub bias: u32,
    /// Takes no part.
    pub unit: PhantomData<f64>,
}

/// The middle one.
#[derive(Convert, Debug)]
pub struct Middle<'a, B: Backend> {
    /// A buffer.
    pub second: Of<'a, B>,
    /// The struct inside.
    pub inner: Inner<'a, B>,
}

/// The innermost.
#[derive(Convert, Debug)]
pub struct Inner<'a, B: Backend> {
    /// A buffer.
    pub third: Of<'a, B>,
    /// A flag.
    pub flag: u8,
}

/// A view with metadata and with an array of indices of its own.
#[derive(Convert, Debug)]
pub struct Strided<'a, B: Backend> {
    /// The elements.
    pub data: Of<'a, B>,
    /// Which of them.
    pub index: Of<'a, B>,
    /// How far apart.
    pub stride: u32,
    /// Whether the bits are complemented.
    pub flipped: bool,
}

/// A generic struct that knows nothing of backends.
#[derive(Clone, Copy, Convert, Debug)]
pub struct Label<T> {
    /// What is labelled.
    pub value: T,
    /// The label.
    pub label: u16,
    /// Takes no part.
    pub unit: PhantomData<f32>,
}

/// Another, to lie inside.
#[derive(Clone, Copy, Convert, Debug)]
pub struct Cell<T> {
    /// The content.
    pub content: T,
}
