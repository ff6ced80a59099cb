//! `#[derive(DeviceRepr)]`.

use crate::fields::{self, Fields};
use crate::{attributes, references};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Data, DataEnum, DataStruct, DeriveInput, Error, Generics, Ident, Path, Result, Type, WherePredicate, parse_quote};

const INTEGERS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(lifetime, "a device value borrows nothing on the host; for structs that do, derive `Convert`"));
    }
    let hints = attributes::repr(&input.attrs)?;
    let root = attributes::root(&input.attrs)?;
    match &input.data {
        Data::Struct(data) => of_struct(input, &root, &hints, data),
        Data::Enum(data) => of_enum(input, &root, &hints, data),
        Data::Union(data) => Err(Error::new_spanned(data.union_token, "a union's meaningful bytes are not known; use a struct")),
    }
}

fn of_struct(input: &DeriveInput, root: &Path, hints: &[Ident], data: &DataStruct) -> Result<TokenStream> {
    if !hints.iter().any(|hint| hint == "C" || hint == "transparent") {
        let message = "the layout must be the device's: add `#[repr(C)]` (or `#[repr(transparent)]`)";
        return Err(Error::new_spanned(&input.ident, message));
    }
    let fields = Fields::new(&input.ident, data)?;
    let target = Target::new(input, root);
    let (markers, stores) = (fields.prove_markers(), fields::store(root, &fields.values));
    let types: Vec<_> = fields.values.iter().map(|(_, ty)| *ty).collect();
    Ok(target.implement(&quote!(#markers #stores), &types))
}

fn of_enum(input: &DeriveInput, root: &Path, hints: &[Ident], data: &DataEnum) -> Result<TokenStream> {
    if let Some(variant) = data.variants.iter().find(|variant| !variant.fields.is_empty()) {
        return Err(Error::new_spanned(variant, "an enum with data has no layout that kernels know; use a struct"));
    }
    if !hints.iter().any(|hint| INTEGERS.iter().any(|integer| hint == integer)) {
        let message = "the size must be the device's: add `#[repr(u8)]` or another integer of 8 to 64 bits";
        return Err(Error::new_spanned(&input.ident, message));
    }
    let store = quote! {
        // SAFETY: `dst` has room for the value; it is an integer, without padding.
        unsafe { dst.cast::<Self>().write_unaligned(*self) };
    };
    Ok(Target::new(input, root).implement(&store, &[]))
}

/// The type to implement the traits for.
struct Target<'a> {
    root: &'a Path,
    name: &'a Ident,
    /// With each type parameter bounded by `DeviceRepr`.
    generics: Generics,
}

impl<'a> Target<'a> {
    fn new(input: &'a DeriveInput, root: &'a Path) -> Self {
        let mut generics = input.generics.clone();
        generics.type_params_mut().for_each(|parameter| parameter.bounds.push(parse_quote!(#root::DeviceRepr)));
        Self { root, name: &input.ident, generics }
    }

    /// All impls, with this body of `store`, for a type that consists of these.
    fn implement(&self, store: &TokenStream, parts: &[&Type]) -> TokenStream {
        let Self { root, name, generics } = self;
        let (early, late) = self.prove_layout();
        let (impl_generics, type_generics, predicates) = generics.split_for_impl();
        let conditional = self.conditional(parts);
        quote! {
            const _: () = {
                #early

                #[automatically_derived]
                unsafe impl #impl_generics #root::DeviceRepr for #name #type_generics #predicates {
                    #[inline]
                    unsafe fn store(&self, dst: *mut u8) {
                        #late
                        #store
                    }
                }
                #conditional
            };
        }
    }

    /// The proof of the layout: at once, or where a generic type is used.
    fn prove_layout(&self) -> (TokenStream, TokenStream) {
        let name = self.name;
        if fields::is_generic(&self.generics) {
            let proof = fields::prove_layout(name, &quote!(Self));
            (quote!(), quote!(const { #proof }))
        } else {
            let proof = fields::prove_layout(name, &name.to_token_stream());
            (quote!(const _: () = { #proof };), quote!())
        }
    }

    /// `Element`, `Value` and the conversions of references, for when all parts are elements.
    ///
    /// A bound such as `DevicePtr<f32>: Element`, without any parameter, is an error where it is false, not an impl that does not apply.
    /// A bound over a lifetime is never judged early, so the parts are asked for a trait with one.
    fn conditional(&self, parts: &[&Type]) -> TokenStream {
        let Self { root, name, generics } = self;
        let mut generics = generics.clone();
        generics
            .make_where_clause()
            .predicates
            .extend(parts.iter().map(|part| -> WherePredicate { parse_quote!(for<'__lifetime> #part: __IsElement<'__lifetime>) }));
        let (impl_generics, type_generics, predicates) = generics.split_for_impl();
        let own = quote!(#name #type_generics);
        let references = references::copied(root, &own, &generics);
        quote! {
            trait __IsElement<'__lifetime> {}
            impl<__T: #root::Element> __IsElement<'_> for __T {}

            #[automatically_derived]
            unsafe impl #impl_generics #root::Element for #own #predicates {}
            #[automatically_derived]
            unsafe impl #impl_generics #root::Value for #own #predicates {}
            #references
        }
    }
}
