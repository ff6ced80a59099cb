//! `Convert` for references: one blanket impl for all `&T` would overlap with that for values, so each type brings its own.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Generics, Path, parse_quote};

/// One `impl Convert<__B> for #from`, which converts `#into` instead.
pub(crate) struct Impl<'a> {
    pub(crate) root: &'a Path,
    /// Without `__B`.
    pub(crate) generics: Generics,
    /// `Self`.
    pub(crate) from: TokenStream,
    /// The type `Repr`.
    pub(crate) repr: TokenStream,
    /// The body of `convert`, from `self` and `cx`.
    pub(crate) body: TokenStream,
}

impl Impl<'_> {
    pub(crate) fn tokens(self) -> TokenStream {
        let Self { root, mut generics, from, repr, body } = self;
        generics.params.push(parse_quote!(__B: #root::backend::Backend));
        let (impl_generics, _, predicates) = generics.split_for_impl();
        quote! {
            #[automatically_derived]
            unsafe impl #impl_generics #root::Convert<__B> for #from #predicates {
                type Repr = #repr;

                #[inline]
                fn convert<'__c>(self, cx: &mut #root::Conversion<'__c, __B>) -> #root::Result<Self::Repr>
                where
                    Self: '__c,
                {
                    #body
                }
            }
        }
    }
}

/// `&T` and `&mut T`, and references to those, for a value `T`.
pub(crate) fn copied(root: &Path, own: &TokenStream, generics: &Generics) -> TokenStream {
    let one = |from: TokenStream| {
        let body = quote!({
            let _ = cx;
            ::core::result::Result::Ok(*self)
        });
        Impl { root, generics: with_lifetime(generics, "'__s"), from, repr: own.clone(), body }.tokens()
    };
    let (shared, exclusive) = (one(quote!(&'__s #own)), one(quote!(&'__s mut #own)));
    let nested = nested(root, own, generics);
    quote!(#shared #exclusive #nested)
}

/// `&&T`, `&&mut T`, `&mut &T` and `&mut &mut T`, for a `T` whose `&T` and `&mut T` are converted. A reference behind a shared one is
/// shared. They occur where a struct that borrows is converted by reference.
pub(crate) fn nested(root: &Path, own: &TokenStream, generics: &Generics) -> TokenStream {
    let one = |from: TokenStream, into: TokenStream, place: TokenStream| {
        let mut generics = with_lifetime(&with_lifetime(generics, "'__s"), "'__t");
        generics.make_where_clause().predicates.push(parse_quote!(#into: #root::Convert<__B>));
        let repr = quote!(<#into as #root::Convert<__B>>::Repr);
        let body = quote!(<#into as #root::Convert<__B>>::convert(#place, cx));
        Impl { root, generics, from, repr, body }.tokens()
    };
    let shared_shared = one(quote!(&'__s &'__t #own), quote!(&'__t #own), quote!(*self));
    let shared_exclusive = one(quote!(&'__s &'__t mut #own), quote!(&'__s #own), quote!(&**self));
    let exclusive_shared = one(quote!(&'__s mut &'__t #own), quote!(&'__t #own), quote!(*self));
    let exclusive_exclusive = one(quote!(&'__s mut &'__t mut #own), quote!(&'__s mut #own), quote!(&mut **self));
    quote!(#shared_shared #shared_exclusive #exclusive_shared #exclusive_exclusive)
}

/// The same generics with one more lifetime.
pub(crate) fn with_lifetime(generics: &Generics, lifetime: &str) -> Generics {
    let mut generics = generics.clone();
    let lifetime = syn::Lifetime::new(lifetime, proc_macro2::Span::call_site());
    generics.params.insert(0, parse_quote!(#lifetime));
    generics
}
