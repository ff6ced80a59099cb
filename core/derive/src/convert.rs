//! `#[derive(Convert)]`.

use crate::attributes::{self, Names};
use crate::fields::{self, Fields};
use crate::references::{self, Impl};
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{
    Data, DeriveInput, Error, GenericParam, Generics, Ident, Member, Path, PredicateType, Result, Type, TypeParam, TypeParamBound,
    WherePredicate, parse_quote,
};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let data = match &input.data {
        Data::Struct(data) => data,
        Data::Enum(data) => {
            let message = "which variant an enum holds is not known to a kernel's signature; convert a struct, or derive `DeviceRepr`";
            return Err(Error::new_spanned(data.enum_token, message));
        }
        Data::Union(data) => {
            return Err(Error::new_spanned(data.union_token, "which field of a union is valid is not known; use a struct"));
        }
    };
    let root = attributes::root(&input.attrs)?;
    let names = attributes::names(&input.attrs)?;
    let repr = names.repr.clone().unwrap_or_else(|| format_ident!("{name}Repr"));
    let fields = Fields::new(name, data)?;
    let source = Source { root: &root, input, repr: &repr, fields: &fields };

    let (structure, host_form, impls, aliases) = (source.structure(), source.host_form(), source.impls(), source.aliases(&names));
    Ok(quote!(#structure const _: () = { #host_form #impls }; #aliases))
}

/// The struct to convert.
struct Source<'a> {
    root: &'a Path,
    input: &'a DeriveInput,
    /// The name of the generated struct.
    repr: &'a Ident,
    fields: &'a Fields<'a>,
}

/// How the struct is passed.
#[derive(Clone, Copy)]
enum Form {
    Shared,
    Exclusive,
    Value,
}

impl Form {
    /// What stands before the type, in the impls.
    fn prefix(self) -> TokenStream {
        match self {
            Self::Shared => quote!(&'__s),
            Self::Exclusive => quote!(&'__s mut),
            Self::Value => quote!(),
        }
    }

    /// What stands before a field's place, to pass it in the same way.
    fn borrow(self) -> TokenStream {
        match self {
            Self::Shared => quote!(&),
            Self::Exclusive => quote!(&mut),
            Self::Value => quote!(),
        }
    }
}

impl Source<'_> {
    /// The generated struct with its layout.
    fn structure(&self) -> TokenStream {
        let Self { root, repr, input, .. } = self;
        let (parameters, members) = (self.parameters(), self.members());
        let types: Vec<Type> = parameters.iter().map(|parameter| parse_quote!(#parameter)).collect();
        let stores = fields::store(root, &members.iter().cloned().zip(&types).collect::<Vec<_>>());
        let proof = fields::prove_layout(&input.ident, &quote!(Self));
        let (visibility, body) = (&input.vis, self.body());
        let doc = format!("What [`{}`] becomes for a kernel: each field as the field's own conversion makes it.", input.ident);
        quote! {
            #[doc = #doc]
            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            #[repr(C)]
            #visibility struct #repr<#(#parameters),*> #body

            #[automatically_derived]
            unsafe impl<#(#parameters: #root::DeviceRepr),*> #root::DeviceRepr for #repr<#(#parameters),*> {
                #[inline]
                unsafe fn store(&self, dst: *mut u8) {
                    const { #proof };
                    #stores
                }
            }
        }
    }

    /// What a host kernel receives: the generated struct again, of what its fields become there.
    fn host_form(&self) -> TokenStream {
        let Self { root, repr, .. } = self;
        let (parameters, members) = (self.parameters(), self.members());
        quote! {
            #[automatically_derived]
            impl<#(#parameters: #root::HostForm),*> #root::HostForm for #repr<#(#parameters),*> {
                type View<'__k> = #repr<#(<#parameters as #root::HostForm>::View<'__k>),*>;

                unsafe fn view<'__k>(self) -> Self::View<'__k> {
                    // SAFETY: the caller promised that the launch reaches what is behind every field.
                    #repr { #(#members: unsafe { <#parameters as #root::HostForm>::view(self.#members) }),* }
                }
            }
        }
    }

    /// The fields of the generated struct, with the struct's own names.
    fn body(&self) -> TokenStream {
        let parameters = self.parameters();
        let docs = self.fields.values.iter().map(|(member, _)| format!("From `{}`.", member.to_token_stream()));
        match self.fields.values[0].0 {
            Member::Named(_) => {
                let members = self.members();
                quote!({ #(#[doc = #docs] pub #members: #parameters),* })
            }
            Member::Unnamed(_) => quote!((#(#[doc = #docs] pub #parameters),*);),
        }
    }

    /// The generated struct's type parameters, one per value.
    fn parameters(&self) -> Vec<Ident> {
        (0..self.fields.values.len()).map(|i| format_ident!("F{i}")).collect()
    }

    /// The generated struct's fields. Those of a tuple move up where a marker was left out.
    fn members(&self) -> Vec<Member> {
        let values = self.fields.values.iter().enumerate();
        values.map(|(i, (member, _))| if let Member::Named(_) = member { member.clone() } else { Member::from(i) }).collect()
    }

    /// Every `impl Convert`.
    fn impls(&self) -> TokenStream {
        let generics = &self.input.generics;
        let (name, (_, type_generics, _)) = (&self.input.ident, generics.split_for_impl());
        let (shared, exclusive) = (self.convert(Form::Shared), self.convert(Form::Exclusive));
        let value = generics.lifetimes().next().map(|_| self.convert(Form::Value));
        let nested = references::nested(self.root, &quote!(#name #type_generics), generics);
        quote!(#shared #exclusive #value #nested)
    }

    fn convert(&self, form: Form) -> TokenStream {
        let Self { root, input, repr, fields } = self;
        let (prefix, borrow) = (form.prefix(), form.borrow());
        let types: Vec<_> = fields.values.iter().map(|(_, ty)| quote!(#prefix #ty)).collect();
        let (sources, members) = (fields.values.iter().map(|(member, _)| member), self.members());
        let (name, (_, type_generics, _)) = (&input.ident, input.generics.split_for_impl());
        let markers = fields.prove_markers();
        let convert = Impl {
            root,
            generics: self.generics(form, &types),
            from: quote!(#prefix #name #type_generics),
            repr: quote!(#repr<#(<#types as #root::Convert<__B>>::Repr),*>),
            body: quote! {
                #markers
                ::core::result::Result::Ok(#repr { #(#members: <#types as #root::Convert<__B>>::convert(#borrow self.#sources, cx)?),* })
            },
        };
        convert.tokens()
    }

    /// The struct's generics for one impl, which applies where all fields are converted.
    fn generics(&self, form: Form, types: &[TokenStream]) -> Generics {
        let (root, generics) = (self.root, &self.input.generics);
        let mut generics = match form {
            Form::Shared | Form::Exclusive => references::with_lifetime(generics, "'__s"),
            Form::Value => generics.clone(),
        };
        let converted = types.iter().map(|ty| -> WherePredicate { parse_quote!(#ty: #root::Convert<__B>) });
        generics.make_where_clause().predicates.extend(converted);
        generics
    }

    /// The aliases asked for.
    fn aliases(&self, names: &Names) -> TokenStream {
        let shared = names.shared.as_ref().map(|name| self.alias(name, "&", &quote!(&'static)));
        let exclusive = names.exclusive.as_ref().map(|name| self.alias(name, "&mut ", &quote!(&'static mut)));
        quote!(#shared #exclusive)
    }

    fn alias(&self, alias: &Ident, written: &str, prefix: &TokenStream) -> TokenStream {
        let Self { root, input, .. } = self;
        let (name, visibility) = (&input.ident, &input.vis);
        let mut parameters: Vec<_> = input.generics.params.iter().filter_map(bare).collect();
        let arguments = input.generics.params.iter().map(argument);
        let backend = backend(&input.generics).cloned().unwrap_or_else(|| {
            parameters.push(parse_quote!(__B));
            format_ident!("__B")
        });
        let doc = format!("What `{written}{name}` becomes for a kernel.");
        quote! {
            #[doc = #doc]
            #visibility type #alias<#(#parameters),*> = <#prefix #name<#(#arguments),*> as #root::Convert<#backend>>::Repr;
        }
    }
}

/// The parameter as an alias declares it: no lifetime, no bound (aliases do not check them), no default.
fn bare(parameter: &GenericParam) -> Option<GenericParam> {
    match parameter {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(TypeParam { ident, .. }) => Some(parse_quote!(#ident)),
        GenericParam::Const(constant) => {
            let (ident, ty) = (&constant.ident, &constant.ty);
            Some(parse_quote!(const #ident: #ty))
        }
    }
}

/// The parameter as an argument; what a conversion makes does not depend on lifetimes.
fn argument(parameter: &GenericParam) -> TokenStream {
    match parameter {
        GenericParam::Lifetime(_) => quote!('static),
        GenericParam::Type(parameter) => parameter.ident.to_token_stream(),
        GenericParam::Const(parameter) => parameter.ident.to_token_stream(),
    }
}

/// The struct's own backend: the first type parameter with the bound `Backend`, inline or in the where clause.
fn backend(generics: &Generics) -> Option<&Ident> {
    let is_backend = |bound: &TypeParamBound| matches!(bound, TypeParamBound::Trait(bound) if last_is(&bound.path, "Backend"));
    let bounded = |parameter: &&TypeParam| {
        let clauses = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
        let later = clauses.filter_map(|predicate| match predicate {
            WherePredicate::Type(PredicateType { bounded_ty: Type::Path(ty), bounds, .. }) if ty.path.is_ident(&parameter.ident) => {
                Some(bounds)
            }
            _ => None,
        });
        std::iter::once(&parameter.bounds).chain(later).flatten().any(is_backend)
    };
    generics.type_params().find(bounded).map(|parameter| &parameter.ident)
}

fn last_is(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|last| last.ident == name)
}
