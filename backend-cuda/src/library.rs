//! The driver's library: where it may lie, loading it, its symbols.
//!
//! # Safety
//! Loading a library runs its initialisers, and a symbol has the type that we say. The names tried are the driver's own, or one that the
//! user chose; the types are those of the driver's headers.
#![allow(unsafe_code, reason = "loads a foreign library")]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The environment variable that names the library to load instead of those known.
pub(crate) const VARIABLE: &str = "POLYWARP_CUDA_LIBRARY";

/// The versioned name comes first: a toolkit's stub, which cannot start, has only the plain one.
#[cfg(not(windows))]
const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"];
#[cfg(windows)]
const NAMES: &[&str] = &["nvcuda.dll"];

/// What to try, in this order, on this machine.
pub(crate) fn candidates() -> Vec<PathBuf> {
    candidates_from(|variable| std::env::var_os(variable))
}

/// The same, with any environment. A variable that is empty counts as not set: the loader takes an empty name for the program itself.
fn candidates_from(environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    match environment(VARIABLE).filter(|chosen| !chosen.is_empty()) {
        Some(chosen) => vec![chosen.into()],
        None => NAMES.iter().map(PathBuf::from).collect(),
    }
}

/// A loaded library.
#[derive(Debug)]
pub(crate) struct Library(libloading::Library);

impl Library {
    pub(crate) fn open(name: &Path) -> Result<Self, String> {
        // SAFETY: the name is the driver's own, or the user vouches for it in `VARIABLE`.
        let opened = unsafe { libloading::Library::new(name) };
        opened.map(Self).map_err(|error| explain(&error))
    }

    /// A function that every version has.
    ///
    /// # Safety
    /// * `F` is a function pointer of the symbol's type.
    pub(crate) unsafe fn required<F: Copy>(&self, symbol: &'static str) -> Result<F, String> {
        // SAFETY: the caller vouches for `F`.
        unsafe { self.optional(symbol) }.ok_or_else(|| format!("it has no `{symbol}`"))
    }

    /// A function that some versions lack.
    ///
    /// # Safety
    /// * `F` is a function pointer of the symbol's type.
    pub(crate) unsafe fn optional<F: Copy>(&self, symbol: &'static str) -> Option<F> {
        // SAFETY: the caller vouches for `F`.
        unsafe { self.0.get::<F>(symbol) }.ok().map(|found| *found)
    }

    /// Keeps the library loaded until the process ends: drivers have threads and exit handlers of their own.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

/// The loader's own words, which libloading keeps as the source of its error.
fn explain(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// How messages call a library.
pub(crate) fn title(name: &Path) -> String {
    AsRef::<OsStr>::as_ref(name).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versioned_name_comes_before_the_plain_one() {
        let all = candidates_from(|_| None);
        let position = |name: &str| all.iter().position(|one| one == Path::new(name));
        assert!(cfg!(windows) || position("libcuda.so.1") < position("libcuda.so"));
    }

    #[test]
    fn the_variable_replaces_all_names() {
        assert_eq!(candidates_from(|variable| (variable == VARIABLE).then(|| "/x/libcuda.so".into())), [PathBuf::from("/x/libcuda.so")]);
    }

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        assert_eq!(candidates_from(|_| Some(OsString::new())), candidates_from(|_| None));
    }

    #[test]
    fn a_directory_is_an_error() {
        assert!(Library::open(&std::env::temp_dir()).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_no_text_is_an_error_with_a_title() {
        use std::os::unix::ffi::OsStrExt;
        let name = Path::new(OsStr::from_bytes(b"/nowhere/\xff\xfe.so"));
        assert!(Library::open(name).is_err());
        assert!(title(name).starts_with("/nowhere/"));
    }

    #[test]
    fn a_name_with_a_zero_is_an_error() {
        assert!(Library::open(Path::new("libcuda\0.so")).is_err());
    }
}
