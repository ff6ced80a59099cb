//! The driver's library: where it may lie, loading it, its symbols into the table.
//!
//! # Safety
//! Loading a library runs its initialisers, and a symbol has the type that we say. The names tried are the driver's own, or one that the
//! user chose; the types are those of the driver's headers.
#![allow(unsafe_code, reason = "loads a foreign library")]

use crate::driver::{Driver, Refusal, Stage, Started, unavailable};
use polywarp_core::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The environment variable that names the library to load instead of those known.
const VARIABLE: &str = "POLYWARP_CUDA_LIBRARY";

/// The versioned name comes first: a toolkit's stub, which cannot start, has only the plain one.
#[cfg(not(windows))]
const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"];
#[cfg(windows)]
const NAMES: &[&str] = &["nvcuda.dll"];

/// Finds and starts the driver of this machine.
pub(crate) fn open() -> Result<Started, Error> {
    find(&candidates(|variable| std::env::var_os(variable)))
}

/// Starts the first candidate that has a device.
fn find(candidates: &[PathBuf]) -> Result<Started, Error> {
    let mut refusals = Vec::new();
    for candidate in candidates {
        match load(candidate).and_then(|driver| driver.start(title(candidate))) {
            Ok(started) => return Ok(started),
            Err(refusal) => refusals.push((title(candidate), refusal)),
        }
    }
    Err(unavailable(&refusals))
}

fn load(library: &Path) -> Result<Driver, Refusal> {
    let library = Library::open(library).map_err(|answer| Refusal::without_status(Stage::NotLoaded, answer))?;
    let driver = resolve(&library).map_err(|answer| Refusal::without_status(Stage::NotTheDriver, answer))?;
    library.keep();
    Ok(driver)
}

fn resolve(library: &Library) -> Result<Driver, String> {
    Ok(Driver {
        // SAFETY: the field has the type that cuda.h gives to this function.
        init: unsafe { library.required("cuInit") }?,
        // SAFETY: as above.
        driver_version: unsafe { library.required("cuDriverGetVersion") }?,
        // SAFETY: as above.
        device_count: unsafe { library.required("cuDeviceGetCount") }?,
        // SAFETY: as above.
        error_name: unsafe { library.optional("cuGetErrorName") },
    })
}

/// What to try, in this order. A variable that is empty counts as not set: the loader takes an empty name for the program itself.
fn candidates(environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    match environment(VARIABLE).filter(|chosen| !chosen.is_empty()) {
        Some(chosen) => vec![chosen.into()],
        None => NAMES.iter().map(PathBuf::from).collect(),
    }
}

/// A loaded library.
#[derive(Debug)]
struct Library(libloading::Library);

impl Library {
    fn open(name: &Path) -> Result<Self, String> {
        // SAFETY: the name is the driver's own, or the user vouches for it in `VARIABLE`.
        let opened = unsafe { libloading::Library::new(name) };
        opened.map(Self).map_err(|error| explain(name, &error))
    }

    /// A function that every version has.
    ///
    /// # Safety
    /// * `F` is a function pointer of the symbol's type.
    unsafe fn required<F: Copy>(&self, symbol: &'static str) -> Result<F, String> {
        // SAFETY: the caller vouches for `F`.
        unsafe { self.optional(symbol) }.ok_or_else(|| format!("it has no `{symbol}`"))
    }

    /// A function that some versions lack.
    ///
    /// # Safety
    /// * `F` is a function pointer of the symbol's type.
    unsafe fn optional<F: Copy>(&self, symbol: &'static str) -> Option<F> {
        // SAFETY: the caller vouches for `F`.
        unsafe { self.0.get::<F>(symbol) }.ok().map(|found| *found)
    }

    /// Keeps the library loaded until the process ends: drivers have threads and exit handlers of their own.
    fn keep(self) {
        std::mem::forget(self);
    }
}

/// The loader's own words, which libloading keeps as the source of its error, without the name that they start with.
fn explain(name: &Path, error: &libloading::Error) -> String {
    let words = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    words.strip_prefix(&format!("{}: ", title(name))).map(str::to_owned).unwrap_or(words)
}

/// How messages call a library.
fn title(name: &Path) -> String {
    AsRef::<OsStr>::as_ref(name).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use polywarp_core::ErrorKind;

    fn refusal(candidates: &[&str]) -> (String, Vec<String>) {
        let candidates: Vec<_> = candidates.iter().map(PathBuf::from).collect();
        match find(&candidates).unwrap_err().kind() {
            ErrorKind::BackendUnavailable { reason, tried } => (reason.to_string(), tried.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_name_tried_is_listed_with_the_loaders_words() {
        let (reason, tried) = refusal(&["/nowhere/a.so", "/nowhere/b.so"]);
        assert_eq!(reason, "no library of a CUDA driver was found");
        assert!(tried[0].starts_with("/nowhere/a.so: ") && tried[1].starts_with("/nowhere/b.so: "), "{tried:?}");
        assert!(!cfg!(target_os = "linux") || tried[0].contains("cannot open shared object file"), "{tried:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_symbols_is_not_the_driver() {
        let (reason, tried) = refusal(&["/nowhere/a.so", "libm.so.6", "/nowhere/b.so"]);
        assert_eq!(reason, "a library was found, but it is not that of a CUDA driver");
        assert_eq!(tried[1], "libm.so.6: it has no `cuInit`");
    }

    #[test]
    fn nothing_to_try_is_an_error_too() {
        assert_eq!(refusal(&[]), ("there is no library to try".into(), vec![]));
    }

    #[test]
    fn the_versioned_name_comes_before_the_plain_one() {
        let all = candidates(|_| None);
        let position = |name: &str| all.iter().position(|one| one == Path::new(name));
        assert!(cfg!(windows) || position("libcuda.so.1") < position("libcuda.so"));
    }

    #[test]
    fn the_variable_replaces_all_names() {
        assert_eq!(candidates(|variable| (variable == VARIABLE).then(|| "/x/libcuda.so".into())), [PathBuf::from("/x/libcuda.so")]);
    }

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        assert_eq!(candidates(|_| Some(OsString::new())), candidates(|_| None));
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
