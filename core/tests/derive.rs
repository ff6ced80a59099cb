//! What the derives promise: the layout that C gives, nothing in the padding, and the right traits. What holds for types alone is said in
//! functions that need only compile; their names begin with `_`.

#![allow(unsafe_code, reason = "storing a value writes through a pointer")]

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, BufferSliceMut, Convert, DevicePtr, DevicePtrMut, DeviceRepr, Element, Value};
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

fn _values_convert_by_value_and_by_reference<B: Backend>() {
    converts::<B, Outer, Outer>();
    converts::<B, &Outer, Outer>();
    converts::<B, &mut Outer, Outer>();
    converts::<B, &&Outer, Outer>();
    converts::<B, &mut &mut Wrapper<f32>, Wrapper<f32>>();
    converts::<B, &Kind, Kind>();
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

/// Knows nothing of backends.
#[derive(Convert)]
#[convert(shared = PairIn, exclusive = PairOut)]
struct Pair<T, const N: usize> {
    first: T,
    second: Tagged<f32, N>,
}

fn _the_borrow_says_how_buffers_are_used<B: Backend>() {
    converts::<B, &Mesh<B>, MeshRepr<DevicePtr<f32>, u32, Outer>>();
    converts::<B, &mut Mesh<B>, MeshRepr<DevicePtrMut<f32>, u32, Outer>>();
    converts::<B, &&mut Mesh<B>, MeshRepr<DevicePtr<f32>, u32, Outer>>();
    converts::<B, &mut &mut Mesh<B>, MeshRepr<DevicePtrMut<f32>, u32, Outer>>();
    converts::<B, &mut &Mesh<B>, MeshRepr<DevicePtr<f32>, u32, Outer>>();
}

type SceneOf<M, X, Y, P> = SceneRepr<MeshRepr<M, u32, Outer>, StateArgument<X, Y, u32>, P>;

fn _structs_that_borrow_convert_by_value_too<B: Backend>() {
    converts::<B, State<'_, B, f64>, StateArgument<DevicePtr<f64>, DevicePtrMut<f64>, u32>>();
    converts::<B, &mut State<'_, B, f64>, StateArgument<DevicePtr<f64>, DevicePtrMut<f64>, u32>>();
    converts::<B, &State<'_, B, f64>, StateArgument<DevicePtr<f64>, DevicePtr<f64>, u32>>();
    converts::<B, Scene<'_, B>, SceneOf<DevicePtr<f32>, DevicePtr<f64>, DevicePtrMut<f64>, DevicePtrMut<u8>>>();
    converts::<B, &Scene<'_, B>, SceneOf<DevicePtr<f32>, DevicePtr<f64>, DevicePtr<f64>, DevicePtr<u8>>>();
}

fn _aliases_name_what_a_borrow_becomes<B: Backend>() {
    fn same<T>(_: PhantomData<T>, _: PhantomData<T>) {}
    same(PhantomData::<MeshIn<B>>, PhantomData::<MeshRepr<DevicePtr<f32>, u32, Outer>>);
    same(PhantomData::<MeshOut<B>>, PhantomData::<MeshRepr<DevicePtrMut<f32>, u32, Outer>>);
    same(PhantomData::<StateIn<B, i8>>, PhantomData::<StateArgument<DevicePtr<i8>, DevicePtr<i8>, u32>>);
    same(PhantomData::<PairIn<u8, 2, B>>, PhantomData::<PairRepr<u8, Tagged<f32, 2>>>);
    same(PhantomData::<PairOut<Buffer<B, u8>, 2, B>>, PhantomData::<PairRepr<DevicePtrMut<u8>, Tagged<f32, 2>>>);
}

#[test]
fn generated_structs_have_the_layout_of_c() {
    let repr = PairRepr { first: 0x11u8, second: HOLES };
    assert_eq!(stored(repr), [&[0x11, 0xAA, 0xAA, 0xAA], &stored(HOLES)[..]].concat());
    assert_eq!(offset_of!(SceneRepr<u8, u16, u64>, 2), 8);
    is_device_repr::<SceneRepr<u8, Row, u64>>();
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
    mod inner {
        pub use polywarp_core::*;
    }

    #[derive(Clone, Copy, inner::DeviceRepr)]
    #[repr(C)]
    #[polywarp(crate = inner)]
    pub struct Inner(pub f32);

    #[derive(inner::Convert)]
    #[polywarp(crate = inner)]
    #[allow(dead_code, reason = "it need only compile")]
    pub struct Outer(pub Inner);
}

#[test]
fn a_path_can_be_said() {
    assert_eq!(stored(renamed::OuterRepr(renamed::Inner(2.0))), 2.0f32.to_ne_bytes());
}
