//! The table of the driver's functions, and how a driver is chosen.
//!
//! # Safety
//! The functions have the types of the driver's header, but for the status: it is read as an integer, since a newer driver may answer
//! one that no enum here knows.
#![allow(unsafe_code, reason = "calls the driver")]

use crate::error::{SUCCESS, check, is_no_device, name};
use crate::library::{Library, title};
use polywarp_core::{Error, ErrorKind};
use std::ffi::{c_int, c_uint};
use std::fmt;
use std::path::{Path, PathBuf};

/// The driver's functions.
pub(crate) struct Driver {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    driver_version: unsafe extern "C" fn(*mut c_int) -> c_int,
    device_count: unsafe extern "C" fn(*mut c_int) -> c_int,
}

/// A driver that has started and has devices.
#[derive(Debug)]
pub(crate) struct Started {
    library: String,
    version: Version,
    devices: u32,
}

#[derive(Debug)]
struct Version(c_int);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// How far a candidate came, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    NotLoaded,
    NotTheDriver,
    NotStarted,
    NoDevice,
}

/// Why a candidate is not used.
#[derive(Debug)]
struct Refusal {
    stage: Stage,
    answer: String,
    status: i32,
}

impl Refusal {
    fn before_any_call(stage: Stage, answer: String) -> Self {
        Self { stage, answer, status: SUCCESS }
    }

    fn of_call(call: &str, status: i32) -> Self {
        let stage = if is_no_device(status) { Stage::NoDevice } else { Stage::NotStarted };
        Self { stage, answer: format!("{call} answered {status} ({})", name(status)), status }
    }

    fn reason(&self) -> &'static str {
        match self.stage {
            Stage::NotLoaded => "no library of a CUDA driver was found",
            Stage::NotTheDriver => "a library was found, but it is not that of a CUDA driver",
            Stage::NotStarted => "the CUDA driver does not start",
            Stage::NoDevice => "the CUDA driver is there, but it has no device",
        }
    }
}

impl Driver {
    fn load(library: &Path) -> Result<Self, Refusal> {
        let library = Library::open(library).map_err(|answer| Refusal::before_any_call(Stage::NotLoaded, answer))?;
        let driver = Self::resolve(&library).map_err(|answer| Refusal::before_any_call(Stage::NotTheDriver, answer))?;
        library.keep();
        Ok(driver)
    }

    fn resolve(library: &Library) -> Result<Self, String> {
        Ok(Self {
            // SAFETY: the field has the type that cuda.h gives to this function.
            init: unsafe { library.required("cuInit") }?,
            // SAFETY: as above.
            driver_version: unsafe { library.required("cuDriverGetVersion") }?,
            // SAFETY: as above.
            device_count: unsafe { library.required("cuDeviceGetCount") }?,
        })
    }

    fn start(&self, library: String) -> Result<Started, Refusal> {
        // SAFETY: the driver's first call; 0 is the only flag there is.
        succeeded("cuInit", unsafe { (self.init)(0) })?;
        let (mut version, mut devices) = (0, 0);
        // SAFETY: the pointer is valid for a write of an int.
        succeeded("cuDriverGetVersion", unsafe { (self.driver_version)(&raw mut version) })?;
        // SAFETY: the pointer is valid for a write of an int.
        succeeded("cuDeviceGetCount", unsafe { (self.device_count)(&raw mut devices) })?;
        match u32::try_from(devices) {
            Ok(devices @ 1..) => Ok(Started { library, version: Version(version), devices }),
            _ => Err(Refusal::before_any_call(Stage::NoDevice, format!("cuDeviceGetCount counted {devices}"))),
        }
    }
}

fn succeeded(call: &str, status: c_int) -> Result<(), Refusal> {
    if status == SUCCESS { Ok(()) } else { Err(Refusal::of_call(call, status)) }
}

/// Starts the first candidate that has a device.
pub(crate) fn find(candidates: &[PathBuf]) -> Result<Started, Error> {
    let mut refusals = Vec::new();
    for candidate in candidates {
        match Driver::load(candidate).and_then(|driver| driver.start(title(candidate))) {
            Ok(started) => return Ok(started),
            Err(refusal) => refusals.push((title(candidate), refusal)),
        }
    }
    Err(unavailable(&refusals))
}

/// The reason is that of the candidate that came furthest, the first of them.
fn unavailable(refusals: &[(String, Refusal)]) -> Error {
    let furthest = refusals.iter().rev().map(|(_, refusal)| refusal).max_by_key(|refusal| refusal.stage);
    let reason = furthest.map_or("there is no library to try", Refusal::reason).into();
    let tried = refusals.iter().map(|(library, refusal)| format!("{library}: {}", refusal.answer)).collect();
    let kind = ErrorKind::BackendUnavailable { reason, tried };
    match furthest.and_then(|refusal| check(refusal.status, "open").err()) {
        Some(error) => error.into_kind(kind),
        None => Error::new(kind, "open").on("cuda", None),
    }
}

impl Started {
    /// What to answer to whoever wants to use it.
    pub(crate) fn not_driven(&self) -> Error {
        let Self { library, version, devices } = self;
        let reason =
            format!("a CUDA driver was found (version {version}, {devices} devices), but this version of polywarp does not drive it yet");
        Error::new(ErrorKind::BackendUnavailable { reason: reason.into(), tried: Vec::new() }, "open")
            .on("cuda", None)
            .with("library", library)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn driver(init: unsafe extern "C" fn(c_uint) -> c_int, device_count: unsafe extern "C" fn(*mut c_int) -> c_int) -> Driver {
        Driver { init, driver_version: thirteen, device_count }
    }

    unsafe extern "C" fn ready(_: c_uint) -> c_int {
        SUCCESS
    }

    unsafe extern "C" fn stub(_: c_uint) -> c_int {
        34
    }

    unsafe extern "C" fn no_device(_: c_uint) -> c_int {
        100
    }

    unsafe extern "C" fn thirteen(version: *mut c_int) -> c_int {
        // SAFETY: `start` passes a pointer that is valid for a write.
        unsafe { version.write(13_000) };
        SUCCESS
    }

    unsafe extern "C" fn none(devices: *mut c_int) -> c_int {
        // SAFETY: as above.
        unsafe { devices.write(0) };
        SUCCESS
    }

    unsafe extern "C" fn two(devices: *mut c_int) -> c_int {
        // SAFETY: as above.
        unsafe { devices.write(2) };
        SUCCESS
    }

    #[test]
    fn a_driver_with_devices_tells_version_and_count() {
        let started = driver(ready, two).start("libcuda.so.1".into()).unwrap();
        let text = started.not_driven().to_string();
        assert!(text.contains("version 13.0, 2 devices") && text.contains("libcuda.so.1"), "{text}");
    }

    #[test]
    fn a_driver_without_device_says_so_by_status_or_by_count() {
        let by_status = driver(no_device, two).start(String::new()).unwrap_err();
        let by_count = driver(ready, none).start(String::new()).unwrap_err();
        assert_eq!((by_status.stage, by_count.stage), (Stage::NoDevice, Stage::NoDevice));
    }

    #[test]
    fn a_stub_gives_its_status() {
        let refusal = driver(stub, two).start(String::new()).unwrap_err();
        assert_eq!(refusal.answer, "cuInit answered 34 (CUDA_ERROR_STUB_LIBRARY)");
        let error = unavailable(&[("libcuda.so".into(), refusal)]);
        assert_eq!(error.code().map(|code| code.value), Some(34));
        assert!(matches!(error.kind(), ErrorKind::BackendUnavailable { .. }));
    }
}
