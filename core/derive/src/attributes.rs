//! The attributes that the derives read.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::Span;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Ident, LitInt, Path, Result, parenthesized};

const MAX_ALIGN: u64 = 16;

/// Where the traits live: as `#[polywarp(crate = path)]` says, else as the crate's dependencies say.
pub(crate) fn root(attributes: &[Attribute]) -> Result<Path> {
    let mut given = None;
    for_each(attributes, "polywarp", |meta| {
        if !meta.path.is_ident("crate") {
            return Err(meta.error("expected `crate = path`"));
        }
        given = Some(meta.value()?.call(Path::parse_mod_style)?);
        Ok(())
    })?;
    given.map_or_else(find_root, Ok)
}

fn find_root() -> Result<Path> {
    let name = ["polywarp", "polywarp-core"].into_iter().find_map(|package| match crate_name(package).ok()? {
        FoundCrate::Itself => Some(package.replace('-', "_")),
        FoundCrate::Name(name) => Some(name),
    });
    let missing = "`polywarp` is not among the dependencies; add it, or say where it is: `#[polywarp(crate = path)]`";
    let name = name.ok_or_else(|| Error::new(Span::call_site(), missing))?;
    let name = Ident::new(&name, Span::call_site());
    syn::parse2(quote!(::#name))
}

/// What `#[repr(…)]` names: `C`, `transparent` and integers. Layouts that no device type can have are refused.
pub(crate) fn repr(attributes: &[Attribute]) -> Result<Vec<Ident>> {
    let mut hints = Vec::new();
    for_each(attributes, "repr", |meta| {
        if meta.path.is_ident("packed") {
            return Err(meta.error("a packed struct has misaligned fields on the device; remove `packed`"));
        }
        if meta.path.is_ident("align") {
            return check_align(&meta);
        }
        hints.push(meta.path.require_ident()?.clone());
        Ok(())
    })?;
    Ok(hints)
}

fn check_align(meta: &ParseNestedMeta<'_>) -> Result<()> {
    let content;
    parenthesized!(content in meta.input);
    let align: LitInt = content.parse()?;
    if align.base10_parse::<u64>()? > MAX_ALIGN {
        return Err(Error::new(align.span(), format!("kernel parameters are aligned to at most {MAX_ALIGN} bytes")));
    }
    Ok(())
}

/// The names that `#[convert(…)]` gives to what is generated.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) repr: Option<Ident>,
    pub(crate) shared: Option<Ident>,
    pub(crate) exclusive: Option<Ident>,
}

/// Reads `#[convert(…)]`.
pub(crate) fn names(attributes: &[Attribute]) -> Result<Names> {
    let mut names = Names::default();
    for_each(attributes, "convert", |meta| {
        let name = match meta.path.get_ident().map(ToString::to_string).as_deref() {
            Some("repr") => &mut names.repr,
            Some("shared") => &mut names.shared,
            Some("exclusive") => &mut names.exclusive,
            _ => return Err(meta.error("expected `repr = Name`, `shared = Name` or `exclusive = Name`")),
        };
        *name = Some(meta.value()?.parse()?);
        Ok(())
    })?;
    Ok(names)
}

/// Calls `read` for each item of each attribute of this name.
fn for_each(attributes: &[Attribute], name: &str, mut read: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    attributes.iter().filter(|attribute| attribute.path().is_ident(name)).try_for_each(|attribute| attribute.parse_nested_meta(&mut read))
}
