//! The runtime's library: where it may lie, loading it, its symbols into the table.
//!
//! # Safety
//! Loading a library runs its initialisers, and a symbol has the type that we say. The names tried are the runtime's own, or one that the
//! user chose; the types are those of the runtime's headers.
#![allow(unsafe_code, reason = "loads a foreign library")]

use crate::driver::{Driver, Refusal, Stage, Started, unavailable};
use polywarp_core::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The environment variable that names the library to load instead of those known.
const VARIABLE: &str = "POLYWARP_HIP_LIBRARY";

/// Installations for running programs have only the versioned names.
#[cfg(not(windows))]
const NAMES: &[&str] = &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
#[cfg(windows)]
const NAMES: &[&str] = &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"];

/// The folder of libraries in an installation.
const FOLDER: &str = if cfg!(windows) { "bin" } else { "lib" };

/// Finds and starts the runtime of this machine.
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
        // SAFETY: the field has the type that hip_runtime_api.h gives to this function.
        init: unsafe { library.required("hipInit") }?,
        // SAFETY: as above.
        runtime_version: unsafe { library.required("hipRuntimeGetVersion") }?,
        // SAFETY: as above.
        device_count: unsafe { library.required("hipGetDeviceCount") }?,
        // SAFETY: as above.
        error_name: unsafe { library.optional("hipGetErrorName") },
    })
}

/// What to try, in this order. A variable that is empty counts as not set: the loader takes an empty name for the program itself.
fn candidates(environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |variable| environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = set(VARIABLE) {
        return vec![chosen];
    }
    let mut installations: Vec<_> = [set("HIP_PATH"), set("ROCM_PATH"), Some("/opt/rocm".into())].into_iter().flatten().collect();
    installations.dedup();
    let folders = installations.iter().map(|installation| installation.join(FOLDER));
    // The empty folder is the loader's own path.
    folders.chain([PathBuf::new()]).flat_map(|folder| NAMES.iter().map(move |name| folder.join(name))).collect()
}

/// A loaded library.
#[derive(Debug)]
struct Library(libloading::Library);

impl Library {
    fn open(name: &Path) -> Result<Self, String> {
        // SAFETY: the name is the runtime's own, or the user vouches for it in `VARIABLE`.
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

    /// Keeps the library loaded until the process ends: runtimes have threads and exit handlers of their own.
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
        assert_eq!(reason, "no library of a HIP runtime was found");
        assert!(tried[0].starts_with("/nowhere/a.so: ") && tried[1].starts_with("/nowhere/b.so: "), "{tried:?}");
        assert!(!cfg!(target_os = "linux") || tried[0].contains("cannot open shared object file"), "{tried:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_symbols_is_not_the_runtime() {
        let (reason, tried) = refusal(&["/nowhere/a.so", "libm.so.6", "/nowhere/b.so"]);
        assert_eq!(reason, "a library was found, but it is not that of a HIP runtime");
        assert_eq!(tried[1], "libm.so.6: it has no `hipInit`");
    }

    #[test]
    fn nothing_to_try_is_an_error_too() {
        assert_eq!(refusal(&[]), ("there is no library to try".into(), vec![]));
    }

    #[cfg(not(windows))]
    #[test]
    fn installations_come_before_the_loaders_path() {
        let all = candidates(|variable| match variable {
            "HIP_PATH" => Some("/hip".into()),
            "ROCM_PATH" => Some("/rocm".into()),
            _ => None,
        });
        let firsts: Vec<_> = all.iter().step_by(NAMES.len()).map(|one| one.display().to_string()).collect();
        assert_eq!(firsts, ["/hip/lib/libamdhip64.so", "/rocm/lib/libamdhip64.so", "/opt/rocm/lib/libamdhip64.so", "libamdhip64.so"]);
    }

    #[test]
    fn the_variable_replaces_all_names() {
        assert_eq!(candidates(|variable| (variable == VARIABLE).then(|| "/x/libamdhip64.so".into())), [PathBuf::from("/x/libamdhip64.so")]);
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
        assert!(Library::open(Path::new("libamdhip64\0.so")).is_err());
    }
}
