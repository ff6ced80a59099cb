//! Structs that kernels receive by value, and structs that convert.

use polywarp_core::backend::Backend;
use polywarp_core::{Convert, DeviceMemory, DeviceRepr, SpanOf};
use std::marker::PhantomData;

/// Spans of device memory.
type Of<'a, B> = SpanOf<'a, B, u32, DeviceMemory>;

/// A struct by value.
///
/// ```
/// use polywarp_conformance::kernels::{self, arguments::Affine};
/// # use polywarp_core::{Runtime, host::Host};
/// # let device = Runtime::new(Host::default())?.device(0)?;
/// # let (stream, kernels) = (device.stream()?, kernels::load(&device, &kernels::program())?);
/// let mut x = stream.upload(&[1.0f32, 2.0])?;
/// kernels.transform.launch(&stream, 2, (x.span_mut(), Affine { scale: 10.0, shift: 0.5 }))?;
/// assert_eq!(x.download(&stream)?, [10.5, 20.5]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
pub struct Affine {
    /// The factor.
    pub scale: f32,
    /// The summand.
    pub shift: f32,
}

/// A struct with padding in the middle and at the end, and one inside.
///
/// ```
/// use polywarp_conformance::kernels::arguments::{Holes, Record};
/// let record = Record { kind: 1, position: [0.0; 3], inner: Holes { small: 2, large: 3, flag: true }, last: 4 };
/// assert_eq!(size_of_val(&record), 48);                       // of which 24 bytes mean something
/// ```
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
///
/// ```
/// use polywarp_conformance::kernels::arguments::Holes;
/// assert_eq!((size_of::<Holes>(), std::mem::offset_of!(Holes, large)), (24, 8));
/// ```
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
///
/// ```
/// use polywarp_conformance::kernels::{self, arguments::{Inner, Middle, Outer}, reference};
/// # use std::marker::PhantomData;
/// # use polywarp_core::{Runtime, host::Host};
/// # let device = Runtime::new(Host::default())?.device(0)?;
/// # let (stream, kernels) = (device.stream()?, kernels::load(&device, &kernels::program())?);
/// let (a, b, c, mut out) = (stream.upload(&[1u32])?, stream.upload(&[2u32])?, stream.upload(&[3u32])?, stream.zeros(1)?);
/// let inner = Inner { third: c.span(), flag: 1 };
/// let outer = Outer { first: a.span(), middle: Middle { second: b.span(), inner }, bias: 100, unit: PhantomData };
/// kernels.deep.launch(&stream, 1, (outer, out.span_mut()))?;
/// assert_eq!(out.download(&stream)?, reference::deep(&[1], &[2], &[3], 100));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
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

/// The middle one; see [`Outer`].
#[derive(Convert, Debug)]
pub struct Middle<'a, B: Backend> {
    /// A buffer.
    pub second: Of<'a, B>,
    /// The struct inside.
    pub inner: Inner<'a, B>,
}

/// The innermost; see [`Outer`].
#[derive(Convert, Debug)]
pub struct Inner<'a, B: Backend> {
    /// A buffer.
    pub third: Of<'a, B>,
    /// A flag.
    pub flag: u8,
}

/// A view with metadata and with an array of indices of its own.
///
/// ```
/// use polywarp_conformance::kernels::{self, arguments::Strided};
/// # use polywarp_core::{Runtime, host::Host};
/// # let device = Runtime::new(Host::default())?.device(0)?;
/// # let (stream, kernels) = (device.stream()?, kernels::load(&device, &kernels::program())?);
/// let (data, index, mut out) = (stream.upload(&[10u32, 11, 12, 13])?, stream.upload(&[1u32, 0])?, stream.zeros(2)?);
/// let view = Strided { data: data.span(), index: index.span(), stride: 2, flipped: false };
/// kernels.gather.launch(&stream, 2, (view, out.span_mut()))?;
/// assert_eq!(out.download(&stream)?, [12, 10]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
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
///
/// ```
/// use polywarp_conformance::kernels::arguments::{Cell, CellRepr, Label, LabelRepr};
/// use polywarp_core::{Convert, host::Host};
/// fn becomes<C: Convert<Host, Repr = R>, R>(_: C) {}
/// becomes::<_, LabelRepr<CellRepr<u32>, u16>>(&Label { value: Cell { content: 1u32 }, label: 2, unit: std::marker::PhantomData });
/// ```
#[derive(Clone, Copy, Convert, Debug)]
pub struct Label<T> {
    /// What is labelled.
    pub value: T,
    /// The label.
    pub label: u16,
    /// Takes no part.
    pub unit: PhantomData<f32>,
}

/// Another, to lie inside; see [`Label`].
#[derive(Clone, Copy, Convert, Debug)]
pub struct Cell<T> {
    /// The content.
    pub content: T,
}
