//! The table of the driver's functions, and the first calls.
//!
//! # Safety
//! The functions have the types of the driver's header, but for the status: it is read as an integer, since a newer driver may answer
//! one that no enum here knows.
#![allow(unsafe_code, reason = "calls the driver")]

use crate::error::{SUCCESS, is_no_device, name};
use polywarp_core::{Error, ErrorKind, Text};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;

/// The driver's functions.
pub(crate) struct Driver {
    pub(crate) init: unsafe extern "C" fn(c_uint) -> c_int,
    pub(crate) driver_version: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub(crate) device_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub(crate) error_name: Option<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>,
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
pub(crate) enum Stage {
    NotLoaded,
    NotTheDriver,
    NotStarted,
    NoDevice,
}

/// Why a candidate is not used.
#[derive(Debug)]
pub(crate) struct Refusal {
    stage: Stage,
    answer: String,
    status: Option<(c_int, Text)>,
}

impl Refusal {
    pub(crate) fn without_status(stage: Stage, answer: String) -> Self {
        Self { stage, answer, status: None }
    }

    fn of_call(call: &str, status: c_int, name: Text) -> Self {
        let stage = if is_no_device(status) { Stage::NoDevice } else { Stage::NotStarted };
        Self { stage, answer: format!("{call} answered {status} ({name})"), status: Some((status, name)) }
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
    /// Makes the first calls; `library` is what messages call the library.
    pub(crate) fn start(&self, library: String) -> Result<Started, Refusal> {
        // SAFETY: the driver's first call; 0 is the only flag there is.
        self.succeeded("cuInit", unsafe { (self.init)(0) })?;
        let (mut version, mut devices) = (0, 0);
        // SAFETY: the pointer is valid for a write of an int.
        self.succeeded("cuDriverGetVersion", unsafe { (self.driver_version)(&raw mut version) })?;
        // SAFETY: the pointer is valid for a write of an int.
        self.succeeded("cuDeviceGetCount", unsafe { (self.device_count)(&raw mut devices) })?;
        match u32::try_from(devices) {
            Ok(devices @ 1..) => Ok(Started { library, version: Version(version), devices }),
            _ => Err(Refusal::without_status(Stage::NoDevice, format!("cuDeviceGetCount counted {devices}"))),
        }
    }

    fn succeeded(&self, call: &str, status: c_int) -> Result<(), Refusal> {
        if status == SUCCESS { Ok(()) } else { Err(Refusal::of_call(call, status, self.name(status))) }
    }

    /// The name of a status; the driver itself is asked for those that are newer than our table.
    fn name(&self, status: c_int) -> Text {
        name(status).map(Text::Borrowed).or_else(|| self.own_name(status).map(Text::Owned)).unwrap_or(Text::Borrowed("unknown status"))
    }

    fn own_name(&self, status: c_int) -> Option<String> {
        let mut text = std::ptr::null();
        // SAFETY: the pointer is valid for a write of a pointer.
        let answer = unsafe { self.error_name?(status, &raw mut text) };
        // SAFETY: a name that is not null is a constant of the driver, which stays loaded, and ends with a zero.
        (answer == SUCCESS && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

/// The reason is that of the candidate that came furthest, the first of them.
pub(crate) fn unavailable(refusals: &[(String, Refusal)]) -> Error {
    let furthest = refusals.iter().rev().map(|(_, refusal)| refusal).max_by_key(|refusal| refusal.stage);
    let reason = furthest.map_or("there is no library to try", Refusal::reason).into();
    let tried = refusals.iter().map(|(library, refusal)| format!("{library}: {}", refusal.answer)).collect();
    let kind = ErrorKind::BackendUnavailable { reason, tried };
    let error = Error::new(kind, "open").on("cuda", None);
    match furthest.and_then(|refusal| refusal.status.clone()) {
        Some((status, name)) => error.with_code(status.into(), name),
        None => error,
    }
}

impl Started {
    /// What to answer to whoever wants to use it.
    pub(crate) fn not_driven(&self) -> Error {
        let Self { library, version, devices } = self;
        let reason =
            format!("a CUDA driver was found (version {version}, devices: {devices}), but this version of polywarp does not drive it yet");
        Error::new(ErrorKind::BackendUnavailable { reason: reason.into(), tried: Vec::new() }, "open")
            .on("cuda", None)
            .with("library", library)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(init: unsafe extern "C" fn(c_uint) -> c_int, device_count: unsafe extern "C" fn(*mut c_int) -> c_int) -> Driver {
        Driver { init, driver_version: thirteen, device_count, error_name: Some(newest) }
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

    unsafe extern "C" fn too_new(_: c_uint) -> c_int {
        54_321
    }

    unsafe extern "C" fn newest(_: c_int, name: *mut *const c_char) -> c_int {
        // SAFETY: `own_name` passes a pointer that is valid for a write.
        unsafe { name.write(c"CUDA_ERROR_OF_TOMORROW".as_ptr()) };
        SUCCESS
    }

    #[test]
    fn a_status_newer_than_our_table_gets_the_drivers_name() {
        let refusal = driver(too_new, two).start(String::new()).unwrap_err();
        assert_eq!(refusal.answer, "cuInit answered 54321 (CUDA_ERROR_OF_TOMORROW)");
    }

    #[test]
    fn a_driver_with_devices_tells_version_and_count() {
        let started = driver(ready, two).start("libcuda.so.1".into()).unwrap();
        let text = started.not_driven().to_string();
        assert!(text.contains("version 13.0, devices: 2") && text.contains("libcuda.so.1"), "{text}");
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
