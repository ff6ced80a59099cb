//! Which backends are compiled in, what this machine can use of them, and the choice among them.

use crate::any::{AnyBackend, COMPILED_IN};
use polywarp_core::backend::Backend;
use polywarp_core::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fmt;

/// Every backend that a feature of this crate can compile in, best first.
const KNOWN: &[&str] = &["cuda", "hip", "host"];

/// The environment variable that names the backend to use.
const VARIABLE: &str = "POLYWARP_BACKEND";

/// What this machine can use of one compiled-in backend.
///
/// ```
/// for backend in polywarp::available() {
///     println!("{backend}");
///     if let Ok(devices) = &backend.devices {
///         assert!(!devices.is_empty());
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Availability {
    /// The backend's name, as [`open`] takes it.
    pub backend: &'static str,
    /// The names of its devices, of which there is at least one; or why it cannot be used.
    pub devices: Result<Vec<String>>,
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.devices {
            Ok(names) => write!(f, "{}: {}", self.backend, names.join(", ")),
            Err(error) => write!(f, "{}: not usable: {error}", self.backend),
        }
    }
}

/// Names of the backends that are compiled in, best first.
///
/// ```
/// assert_eq!(polywarp::compiled_in().any(|name| name == "host"), cfg!(feature = "host"));
/// ```
pub fn compiled_in() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().copied().filter(|name| COMPILED_IN.contains(name))
}

/// Names of the backends that are known, but not compiled in: features of `polywarp` that could be enabled.
///
/// ```
/// assert!(polywarp::not_compiled_in().all(|name| polywarp::open(name).is_err()));
/// ```
pub fn not_compiled_in() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().copied().filter(|name| !COMPILED_IN.contains(name))
}

/// For each compiled-in backend, best first: its devices, or why it cannot be used.
///
/// Asking opens every device once.
///
/// ```
/// for backend in polywarp::available() {
///     match &backend.devices {
///         Ok(names) => println!("{}: {} devices, the first is {}", backend.backend, names.len(), names[0]),
///         Err(why) => println!("{} is compiled in, but: {why}", backend.backend),
///     }
/// }
/// assert!(polywarp::available().iter().map(|one| one.backend).eq(polywarp::compiled_in()));
/// ```
#[must_use]
pub fn available() -> Vec<Availability> {
    compiled_in().map(|backend| Availability { backend, devices: open(backend).and_then(|opened| device_names(&opened)) }).collect()
}

fn device_names(backend: &AnyBackend) -> Result<Vec<String>> {
    (0..backend.device_count()?).map(|ordinal| Ok(backend.device_info(&backend.device_open(ordinal)?)?.name)).collect()
}

/// Opens the backend of this name.
///
/// ```
/// use polywarp::ErrorKind;
///
/// # #[cfg(feature = "host")]
/// let host = polywarp::open("host")?;
/// let error = polywarp::open("abacus").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }));
/// # Ok::<(), polywarp::Error>(())
/// ```
///
/// # Errors
/// * [`InvalidArgument`](ErrorKind::InvalidArgument) if there is no such backend, with the names there are.
/// * [`BackendUnavailable`](ErrorKind::BackendUnavailable) if it is not compiled in, with the feature to enable; or if this machine
///   has no device for it, with everything that was tried.
pub fn open(name: &str) -> Result<AnyBackend> {
    let backend = AnyBackend::named(name).ok_or_else(|| not_there(name))?;
    match backend.device_count()? {
        0 => Err(unavailable("it has no device".into(), Vec::new()).on(backend.name(), None)),
        _ => Ok(backend),
    }
}

fn not_there(name: &str) -> Error {
    if KNOWN.contains(&name) {
        return unavailable(format!("backend `{name}` is not compiled in; enable the feature `{name}` of polywarp"), Vec::new());
    }
    let mut what = format!("there is no backend `{name}`; compiled in: {}", listed(compiled_in()));
    if not_compiled_in().next().is_some() {
        what += &format!("; features of polywarp that add others: {}", listed(not_compiled_in()));
    }
    Error::new(ErrorKind::InvalidArgument { what: what.into() }, "open")
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn unavailable(reason: String, tried: Vec<String>) -> Error {
    Error::new(ErrorKind::BackendUnavailable { reason: reason.into(), tried }, "open")
}

/// Opens the best backend that this machine can use: a GPU's if there is one, else the host.
///
/// # Errors
/// [`BackendUnavailable`](ErrorKind::BackendUnavailable) if no compiled-in backend can be used, with the answer of each.
///
/// ```
/// use polywarp::{Runtime, backend::Backend};
///
/// # #[cfg(feature = "host")]
/// # {
/// let runtime = Runtime::new(polywarp::open_best()?)?;        // the host where there is no GPU
/// let first = polywarp::available().into_iter().find(|one| one.devices.is_ok());
/// assert_eq!(first.map(|one| one.backend), Some(runtime.backend().name()));
/// # }
/// # Ok::<(), polywarp::Error>(())
/// ```
pub fn open_best() -> Result<AnyBackend> {
    let mut tried = Vec::new();
    for name in compiled_in() {
        match open(name) {
            Ok(backend) => return Ok(backend),
            Err(error) => tried.push(format!("{name}: {error}")),
        }
    }
    tried.extend(not_compiled_in().map(|name| format!("{name}: not compiled in (feature `{name}` of polywarp)")));
    Err(unavailable("no backend can be used".into(), tried))
}

/// Opens a backend as the user wishes: the `choice` (an option of the command line, say), else what the environment variable
/// `POLYWARP_BACKEND` names, else [the best](open_best). An empty variable counts as not set.
///
/// ```
/// use polywarp::backend::Backend;
///
/// # #[cfg(feature = "host")]
/// assert_eq!(polywarp::select(Some("host"))?.name(), "host");
/// # Ok::<(), polywarp::Error>(())
/// ```
///
/// # Errors
/// As for [`open`] and [`open_best`]; [`InvalidArgument`](ErrorKind::InvalidArgument) if the variable is not text.
pub fn select(choice: Option<&str>) -> Result<AnyBackend> {
    select_from(choice, std::env::var_os(VARIABLE))
}

fn select_from(choice: Option<&str>, variable: Option<OsString>) -> Result<AnyBackend> {
    match (choice, variable.filter(|value| !value.is_empty())) {
        (Some(name), _) => open(name),
        // Text that is not Unicode names no backend, whatever stands for the rest of it.
        (None, Some(name)) => open(&name.to_string_lossy()).map_err(|error| error.with("chosen by", VARIABLE)),
        (None, None) => open_best(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that names what it should.
    fn refused(result: Result<AnyBackend>, words: &[&str]) -> Error {
        let error = result.unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        error
    }

    #[test]
    fn every_known_backend_is_compiled_in_or_not() {
        assert_eq!(compiled_in().count() + not_compiled_in().count(), KNOWN.len());
        assert_eq!(compiled_in().count(), COMPILED_IN.len());
    }

    #[test]
    fn a_name_that_no_backend_has_gets_the_names_there_are() {
        for name in ["abacus", "", "CUDA", "host\0", "☃"] {
            let error = refused(open(name), KNOWN);
            assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }));
        }
    }

    #[test]
    fn a_backend_not_compiled_in_names_its_feature() {
        for name in not_compiled_in() {
            let error = refused(open(name), &[&format!("enable the feature `{name}`")]);
            assert!(matches!(error.kind(), ErrorKind::BackendUnavailable { .. }));
        }
    }

    #[test]
    fn the_argument_wins_over_the_variable() {
        let error = refused(select_from(Some("abacus"), Some("slide rule".into())), &["abacus"]);
        assert!(!error.to_string().contains(VARIABLE));
    }

    #[test]
    fn an_error_of_the_variable_names_it() {
        refused(select_from(None, Some("slide rule".into())), &["slide rule", VARIABLE]);
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_text_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        refused(select_from(None, Some(OsString::from_vec(vec![0xff, b'h']))), &[VARIABLE]);
    }

    #[test]
    fn an_empty_variable_and_none_give_the_best() {
        let best = || open_best().map(|backend| backend.name()).map_err(|error| error.to_string());
        let chosen = |variable| select_from(None, variable).map(|backend| backend.name()).map_err(|error| error.to_string());
        assert_eq!((chosen(None), chosen(Some(OsString::new()))), (best(), best()));
    }

    #[test]
    fn there_is_one_answer_for_each_compiled_in_backend() {
        let all = available();
        assert!(all.iter().map(|one| one.backend).eq(compiled_in()));
        for one in all {
            assert!(one.to_string().starts_with(one.backend));
            assert_eq!(one.devices.is_ok(), open(one.backend).is_ok(), "{one}");
        }
    }

    #[test]
    fn the_best_is_the_first_available() {
        let first = available().into_iter().find(|one| one.devices.is_ok()).map(|one| one.backend);
        match open_best() {
            Ok(backend) => assert_eq!(Some(backend.name()), first),
            Err(error) => {
                assert_eq!(first, None);
                refused(Err(error), KNOWN);
            }
        }
    }

    #[cfg(feature = "host")]
    #[test]
    fn the_host_is_always_there() {
        assert_eq!(select_from(Some("host"), None).unwrap().name(), "host");
        assert_eq!(select_from(None, Some("host".into())).unwrap().name(), "host");
        assert!(open_best().is_ok());
    }
}
