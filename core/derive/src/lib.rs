//! Derives for polywarp: what a kernel receives for a type of one's own.
//!
//! | derive | for | a kernel receives |
//! |---|---|---|
//! | [`DeviceRepr`](derive@DeviceRepr) | plain values: parameters, elements of buffers | the value itself |
//! | [`Convert`](derive@Convert) | structs that hold buffers, views or other converted things | a generated struct of what each field becomes |
//!
//! A type derives one of them, never both. Use them through `polywarp` or `polywarp-core`; the generated code names whichever of the
//! two the crate depends on, or what `#[polywarp(crate = path)]` says.

mod attributes;
mod convert;
mod device_repr;
mod fields;
mod references;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// One fixed layout on host and device, for structs and fieldless enums of plain values.
///
/// The type is `Copy`, and `#[repr(C)]` or `#[repr(transparent)]` (structs) or `#[repr(u8)]` … `#[repr(i64)]` (enums). Its size is not
/// zero, its alignment at most 16, and each field is a `DeviceRepr` itself or `PhantomData`; all of this is checked at compile time.
/// Type parameters are bounded by `DeviceRepr`.
///
/// Implements `DeviceRepr`; if no field holds a device address also `Element` (buffers may contain it) and `Value` (kernels
/// take it by value and by reference).
///
/// ```
/// use polywarp_core::DeviceRepr;
///
/// #[derive(Clone, Copy, DeviceRepr)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     kind: Kind,
/// }
///
/// #[derive(Clone, Copy, DeviceRepr)]
/// #[repr(u8)]
/// enum Kind {
///     Solid,
///     Fluid,
/// }
///
/// let particle = Particle { position: [0.0; 3], kind: Kind::Fluid };
/// let mut bytes = [0; 16];
/// // SAFETY: there are 16 zeroed bytes, the size of a particle.
/// unsafe { particle.store(bytes.as_mut_ptr()) };
/// assert_eq!(bytes[12..], [1, 0, 0, 0]); // the rest is padding
/// ```
#[proc_macro_derive(DeviceRepr, attributes(polywarp))]
pub fn derive_device_repr(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    device_repr::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Converts a struct field by field into a struct of its own, for structs that hold buffers, views or other converted things.
///
/// For a struct `Mesh` it makes a `#[repr(C)]` struct `MeshRepr`, generic over what each field becomes (`PhantomData` fields are left
/// out), and implements `Convert` for `&Mesh`, which converts each field by `&`, and for `&mut Mesh`, which converts each by
/// `&mut`: the borrow says how the kernel uses the buffers. A struct with a lifetime, which borrows already, is converted by value too.
/// The types of a `pub` struct's fields are `pub` themselves, since they show in what is generated.
///
/// Attributes of the struct:
///
/// * `#[convert(repr = Name)]` names the generated struct.
/// * `#[convert(shared = Name)]` and `#[convert(exclusive = Name)]` make aliases for what `&Mesh` and `&mut Mesh` become, to write
///   signatures of kernels with. They have the struct's type parameters, without the lifetimes; the backend comes last
///   unless one of them has the bound `Backend`.
///
/// ```
/// use polywarp_core::{Buffer, Convert, DevicePtr, DevicePtrMut, backend::Backend};
///
/// #[derive(Convert)]
/// #[convert(shared = MeshIn, exclusive = MeshOut)]
/// struct Mesh<B: Backend> {
///     positions: Buffer<B, f32>,
///     count: u32,
/// }
///
/// // What the kernel receives, said by type:
/// fn read<B: Backend>(argument: MeshIn<B>) -> MeshRepr<DevicePtr<f32>, u32> {
///     argument
/// }
/// fn write<B: Backend>(argument: MeshOut<B>) -> MeshRepr<DevicePtrMut<f32>, u32> {
///     argument
/// }
/// ```
#[proc_macro_derive(Convert, attributes(polywarp, convert))]
pub fn derive_convert(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    convert::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
