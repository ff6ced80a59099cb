//! The fields of a struct: those that carry a value, and markers.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DataStruct, Error, Generics, Ident, Member, Path, Result, Type};

pub(crate) struct Fields<'a> {
    /// Those that carry a value; at least one.
    pub(crate) values: Vec<(Member, &'a Type)>,
    /// Those of type `PhantomData`.
    markers: Vec<Member>,
}

impl<'a> Fields<'a> {
    /// Refuses a struct without a value, which would be zero-sized.
    pub(crate) fn new(name: &Ident, data: &'a DataStruct) -> Result<Self> {
        let all = data.fields.members().zip(data.fields.iter().map(|field| &field.ty));
        let (markers, values): (Vec<_>, Vec<_>) = all.partition(|(_, ty)| is_marker(ty));
        if values.is_empty() {
            return Err(Error::new_spanned(name, "a struct without a value has size zero, which no kernel can receive; give it a field"));
        }
        Ok(Self { values, markers: markers.into_iter().map(|(member, _)| member).collect() })
    }

    /// Statements in a method with `&self`: markers were told by their name, so prove that none is another type of that name.
    pub(crate) fn prove_markers(&self) -> TokenStream {
        let markers = &self.markers;
        quote!(#(let _: &::core::marker::PhantomData<_> = &self.#markers;)*)
    }
}

fn is_marker(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "PhantomData"))
}

/// The body of `DeviceRepr::store` for a struct: each value at its offset, so that padding stays as it was.
pub(crate) fn store(root: &Path, values: &[(Member, &Type)]) -> TokenStream {
    let stores = values.iter().map(|(member, ty)| {
        // The field's type answers for a missing implementation.
        let store = quote_spanned!(ty.span()=> <#ty as #root::DeviceRepr>::store);
        quote! {
            // SAFETY: `dst` has room for the whole struct, so also for a field at its offset.
            unsafe { #store(&self.#member, dst.add(::core::mem::offset_of!(Self, #member))) };
        }
    });
    quote!(#(#stores)*)
}

/// Statements that do not compile unless the type has a size that kernels can receive; the error underlines `name`.
pub(crate) fn prove_layout(name: &Ident, ty: &TokenStream) -> TokenStream {
    quote_spanned! {name.span()=>
        ::core::assert!(::core::mem::size_of::<#ty>() > 0, "a zero-sized type has no device representation");
        ::core::assert!(::core::mem::align_of::<#ty>() <= 16, "kernel parameters are aligned to at most 16 bytes");
    }
}

/// Whether the layout is known only once types or constants are filled in.
pub(crate) fn is_generic(generics: &Generics) -> bool {
    generics.type_params().next().is_some() || generics.const_params().next().is_some()
}
