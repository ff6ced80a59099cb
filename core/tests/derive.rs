//! What the derives promise: the layout that C gives, nothing in the padding, and the right traits.

#![cfg(feature = "host")]
#![allow(unsafe_code, reason = "storing a value writes through a pointer; kernels are bound")]

use polywarp_core::backend::Backend;
use polywarp_core::host::Host;
use polywarp_core::{
    Buffer, BufferSliceMut, Convert, DeviceMemory, DevicePtr, DevicePtrMut, DeviceRepr, Element, HostSpan, HostSpanMut, Kernel, Module,
    Program, Result, Runtime, Span, SpanMut, SpanOf, SpanOfMut, Thread, Value,
};
use std::marker::PhantomData;
use std::mem::offset_of;

/// The bytes of a stored value, padding marked by `0xAA`.
fn stored<T: DeviceRepr>(value: T) -> Vec<u8> {
    let mut bytes = vec![0xAA; size_of::<T>()];
    // SAFETY: there are `size_of::<T>()` bytes. They are not zero, so that padding shows.
    unsafe { value.store(bytes.as_mut_ptr()) };
    bytes
}

fn is_device_repr<T: DeviceRepr>() {}
fn is_element<T: Element>() {}
fn is_value<T: Value>() {}
fn converts<B: Backend, A: Convert<B, Repr = R>, R>() {}

/// Answers whether a type implements `Element`: the inherent constant is preferred where it applies.
macro_rules! has_element {
    ($ty:ty) => {{
        #[allow(dead_code, reason = "not chosen where the type is an element")]
        trait Fallback {
            const HAS: bool = false;
        }
        impl<T> Fallback for T {}
        struct Probe<T>(PhantomData<T>);
        #[allow(dead_code, reason = "chosen only where the bound holds")]
        impl<T: Element> Probe<T> {
            const HAS: bool = true;
        }
        <Probe<$ty>>::HAS
    }};
}

// ---------------------------------------------------------------- DeviceRepr

/// Holes after both small fields.
#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Holes {
    small: u8,
    large: u32,
    last: u16,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Middle {
    head: u8,
    holes: [Holes; 2],
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C, align(16))]
struct Outer(u16, Middle);

#[derive(Clone, Copy, DeviceRepr)]
#[repr(transparent)]
struct Meters(f32);

#[derive(Clone, Copy, DeviceRepr)]
#[repr(u8)]
enum Kind {
    Solid = 3,
    #[allow(dead_code, reason = "an enum of one variant would prove less")]
    Fluid,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Tagged<T, const N: usize, U: Copy + 'static = f32> {
    kind: Kind,
    values: [T; N],
    r#type: u8,
    _unit: PhantomData<U>,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Row {
    start: DevicePtr<f32>,
    len: u32,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Wrapper<T> {
    row: T,
}

const HOLES: Holes = Holes { small: 1, large: 0x0302_0100, last: 0x0504 };

#[test]
fn a_store_writes_fields_and_leaves_padding_alone() {
    assert_eq!(stored(HOLES), [1, 0xAA, 0xAA, 0xAA, 0, 1, 2, 3, 4, 5, 0xAA, 0xAA]);
}

#[test]
fn padding_is_left_alone_three_deep() {
    let outer = Outer(0x0706, Middle { head: 9, holes: [HOLES; 2] });
    let bytes = stored(outer);
    assert_eq!((bytes.len(), align_of::<Outer>()), (32, 16));
    assert_eq!(bytes[..4], [6, 7, 0xAA, 0xAA]);
    assert_eq!(bytes[4..8], [9, 0xAA, 0xAA, 0xAA]);
    assert_eq!(bytes[8..20], stored(HOLES)[..]);
    assert_eq!(bytes[20..32], stored(HOLES)[..]);
}

#[test]
fn enums_are_their_integer() {
    assert_eq!(stored(Kind::Solid), [3]);
    is_value::<Kind>();
}

#[test]
fn markers_take_no_part() {
    type Pair = Tagged<u16, 2, f64>;
    let bytes = stored(Pair { kind: Kind::Solid, values: [0x0100, 0x0302], r#type: 7, _unit: PhantomData });
    assert_eq!(bytes, [3, 0xAA, 0, 1, 2, 3, 7, 0xAA]);
    assert_eq!(offset_of!(Pair, values), 2);
    is_value::<Pair>();
}

#[test]
fn a_transparent_wrapper_is_its_field() {
    assert_eq!(stored(Meters(1.5)), 1.5f32.to_ne_bytes());
    is_element::<Meters>();
}

#[test]
fn a_struct_with_a_device_address_is_no_element() {
    is_device_repr::<Row>();
    is_device_repr::<Wrapper<Row>>();
    assert!(has_element!(Outer) && has_element!(Wrapper<Outer>));
    assert!(!has_element!(Row) && !has_element!(Wrapper<Row>));
}

#[test]
fn values_convert_by_value_and_by_reference() {
    fn check<B: Backend>() {
        converts::<B, Outer, Outer>();
        converts::<B, &Outer, Outer>();
        converts::<B, &mut Outer, Outer>();
        converts::<B, &&Outer, Outer>();
        converts::<B, &mut &mut Wrapper<f32>, Wrapper<f32>>();
        converts::<B, &Kind, Kind>();
    }
    check::<Host>();
}

// ---------------------------------------------------------------- Convert

/// Owns its buffers; the borrow decides.
#[derive(Convert)]
#[convert(shared = MeshIn, exclusive = MeshOut)]
struct Mesh<B: Backend> {
    positions: Buffer<B, f32>,
    count: u32,
    material: Outer,
    _unit: PhantomData<f64>,
}

/// Borrows: one buffer to read, one to write.
#[derive(Convert)]
#[convert(repr = StateArgument, shared = StateIn)]
struct State<'a, B: Backend, T: Element> {
    x: &'a Buffer<B, T>,
    y: &'a mut Buffer<B, T>,
    n: &'a u32,
}

#[derive(Convert)]
struct Scene<'a, B: Backend>(PhantomData<&'a ()>, &'a Mesh<B>, State<'a, B, f64>, BufferSliceMut<'a, B, u8>);

/// Says later what its backend is.
#[derive(Convert)]
#[convert(shared = LaterIn)]
struct Later<T, B>
where
    B: Backend,
{
    buffer: Buffer<B, u8>,
    value: T,
}

/// Knows nothing of backends.
#[derive(Convert)]
#[convert(shared = PairIn, exclusive = PairOut)]
struct Pair<T, const N: usize> {
    first: T,
    second: Tagged<f32, N>,
}

#[test]
fn the_borrow_says_how_buffers_are_used() {
    fn check<B: Backend>() {
        converts::<B, &Mesh<B>, MeshRepr<DevicePtr<f32>, u32, Outer>>();
        converts::<B, &mut Mesh<B>, MeshRepr<DevicePtrMut<f32>, u32, Outer>>();
        converts::<B, &&mut Mesh<B>, MeshRepr<DevicePtr<f32>, u32, Outer>>();
        converts::<B, &mut &mut Mesh<B>, MeshRepr<DevicePtrMut<f32>, u32, Outer>>();
        converts::<B, &mut &Mesh<B>, MeshRepr<DevicePtr<f32>, u32, Outer>>();
    }
    check::<Host>();
}

type SceneOf<M, X, Y, P> = SceneRepr<MeshRepr<M, u32, Outer>, StateArgument<X, Y, u32>, P>;

#[test]
fn structs_that_borrow_convert_by_value_too() {
    fn check<B: Backend>() {
        converts::<B, State<'_, B, f64>, StateArgument<DevicePtr<f64>, DevicePtrMut<f64>, u32>>();
        converts::<B, &mut State<'_, B, f64>, StateArgument<DevicePtr<f64>, DevicePtrMut<f64>, u32>>();
        converts::<B, &State<'_, B, f64>, StateArgument<DevicePtr<f64>, DevicePtr<f64>, u32>>();
        converts::<B, Scene<'_, B>, SceneOf<DevicePtr<f32>, DevicePtr<f64>, DevicePtrMut<f64>, DevicePtrMut<u8>>>();
        converts::<B, &Scene<'_, B>, SceneOf<DevicePtr<f32>, DevicePtr<f64>, DevicePtr<f64>, DevicePtr<u8>>>();
    }
    check::<Host>();
}

#[test]
fn aliases_name_what_a_borrow_becomes() {
    fn check<B: Backend>() {
        fn same<T>(_: PhantomData<T>, _: PhantomData<T>) {}
        same(PhantomData::<MeshIn<B>>, PhantomData::<MeshRepr<DevicePtr<f32>, u32, Outer>>);
        same(PhantomData::<MeshOut<B>>, PhantomData::<MeshRepr<DevicePtrMut<f32>, u32, Outer>>);
        same(PhantomData::<StateIn<B, i8>>, PhantomData::<StateArgument<DevicePtr<i8>, DevicePtr<i8>, u32>>);
        same(PhantomData::<LaterIn<u8, B>>, PhantomData::<LaterRepr<DevicePtr<u8>, u8>>);
        same(PhantomData::<PairIn<u8, 2, B>>, PhantomData::<PairRepr<u8, Tagged<f32, 2>>>);
        same(PhantomData::<PairOut<Buffer<B, u8>, 2, B>>, PhantomData::<PairRepr<DevicePtrMut<u8>, Tagged<f32, 2>>>);
    }
    check::<Host>();
}

#[test]
fn generated_structs_have_the_layout_of_c() {
    let repr = PairRepr { first: 0x11u8, second: HOLES };
    assert_eq!(stored(repr), [&[0x11, 0xAA, 0xAA, 0xAA], &stored(HOLES)[..]].concat());
    assert_eq!(offset_of!(SceneRepr<u8, u16, u64>, 2), 8);
    is_device_repr::<SceneRepr<u8, Row, u64>>();
}

/// Every kind of field, by reference and behind references.
#[derive(Convert)]
struct Fields<'a, B: Backend> {
    array: [f32; 3],
    array_ref: &'a [f32; 3],
    buffers: [Buffer<B, u8>; 2],
    pair: (u8, &'a mut Buffer<B, i8>),
    option: Option<Buffer<B, u16>>,
    view: &'a mut BufferSliceMut<'a, B, f32>,
    span: SpanOfMut<'a, B, u32, DeviceMemory>,
    flag: &'a mut bool,
}

#[test]
fn fields_of_every_kind_convert() {
    fn check<B: Backend>() {
        fn convertible<B: Backend, A: Convert<B>>() {}
        convertible::<B, &Fields<'_, B>>();
        convertible::<B, &mut Fields<'_, B>>();
    }
    check::<Host>();
}

// ---------------------------------------------------------------- launches

/// `y ← a·x + y`, all in one argument.
#[derive(Convert)]
#[convert(repr = Axpy)]
struct AxpyOf<'a, B: Backend> {
    x: SpanOf<'a, B, f32, DeviceMemory>,
    y: SpanOfMut<'a, B, f32, DeviceMemory>,
    scale: Scale,
    unit: PhantomData<f32>,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Scale {
    negative: bool,
    amount: f32,
}

type AxpyParameter = Axpy<Span<f32>, SpanMut<f32>, Scale>;

fn axpy(thread: &Thread<'_>, all: Axpy<HostSpan<'_, f32>, HostSpanMut<'_, f32>, Scale>) {
    let Axpy { x, y, scale: Scale { negative, amount } } = all;
    if let Some(i) = thread.within(y.len()) {
        let a = if negative { -amount } else { amount };
        y.store(i, a * x.load(i) + y.load(i));
    }
}

#[test]
fn a_kernel_receives_the_converted_struct() -> Result<()> {
    let device = Runtime::new(Host::default())?.device(0)?;
    let stream = device.stream()?;
    let module = Module::load(&device, &Program::new("axpy").host::<(AxpyParameter,), _>("axpy", axpy))?;
    // SAFETY: `axpy` has this parameter, checks bounds, and each thread uses an element of its own.
    let kernel: Kernel<Host, false, (AxpyParameter,)> = unsafe { module.bind("axpy") }?;

    let (x, mut y) = (stream.upload(&[1.0f32, 2.0])?, stream.upload(&[10.0f32, 20.0])?);
    let scale = Scale { negative: true, amount: 3.0 };
    kernel.launch(&stream, 2, (AxpyOf { x: x.span(), y: y.span_mut(), scale, unit: PhantomData },))?;
    assert_eq!(y.download(&stream)?, [7.0, 14.0]);

    let (_, converted) = kernel.prepare((AxpyOf { x: x.span(), y: y.span_mut(), scale, unit: PhantomData },))?;
    let reported = format!("{converted:?}");
    assert_eq!([reported.matches("mode: Read").count(), reported.matches("mode: Write").count()], [1, 1]);

    Ok(())
}

/// What is generated keeps to the strictest lints of its surroundings.
#[deny(missing_docs, missing_debug_implementations, unreachable_pub, unused, clippy::all)]
#[forbid(unsafe_code)]
pub mod strict {
    use polywarp_core::{Buffer, Convert, DeviceRepr, backend::Backend};

    /// A value.
    #[derive(Clone, Copy, Debug, DeviceRepr)]
    #[repr(C)]
    pub struct Value {
        /// Its only field.
        pub x: f32,
    }

    /// A buffer and a value.
    #[derive(Convert)]
    #[convert(shared = ShapeIn, exclusive = ShapeOut)]
    #[allow(missing_debug_implementations, reason = "it is never shown")]
    pub struct Shape<B: Backend> {
        /// The buffer.
        pub buffer: Buffer<B, Value>,
        /// The value.
        pub value: Value,
    }
}

/// Where the traits live can be said.
mod renamed {
    use polywarp_core as inner;

    #[derive(Clone, Copy, Debug, inner::DeviceRepr)]
    #[repr(C)]
    #[polywarp(crate = inner)]
    pub(super) struct Inner(pub(super) f32);

    #[derive(inner::Convert)]
    #[polywarp(crate = inner)]
    #[allow(dead_code, reason = "it need only compile")]
    pub(super) struct Outer(pub(super) Inner);
}

#[test]
fn a_path_can_be_said() {
    assert_eq!(stored(renamed::OuterRepr(renamed::Inner(2.0))), 2.0f32.to_ne_bytes());
}
