//! Status → name and kind.

use crate::ffi;
use polywarp_core::{Error, ErrorKind, Result};

/// What a status means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Argument,
    Configuration,
    Unavailable,
    NotReady,
    Capturing,
    Poisoned,
    Refused,
}

macro_rules! statuses {
    ($($meaning:ident: $($status:ident)*;)*) => {
        const TABLE: &[(i32, &str, Meaning)] = &[$($((ffi::$status, stringify!($status), Meaning::$meaning),)*)*];
    };
}

statuses! {
    Argument: hipErrorInvalidValue hipErrorInvalidSymbol hipErrorInvalidDevicePointer hipErrorInvalidMemcpyDirection
        hipErrorInvalidDeviceFunction hipErrorInvalidDevice hipErrorInvalidImage hipErrorInvalidContext hipErrorNoBinaryForGpu
        hipErrorInvalidKernelFile hipErrorInvalidSource hipErrorInvalidHandle;
    Configuration: hipErrorInvalidConfiguration hipErrorLaunchOutOfResources hipErrorCooperativeLaunchTooLarge;
    Unavailable: hipErrorNoDevice hipErrorNotInitialized hipErrorDeinitialized hipErrorInsufficientDriver;
    NotReady: hipErrorNotReady;
    Capturing: hipErrorStreamCaptureUnsupported hipErrorStreamCaptureInvalidated hipErrorStreamCaptureMerge hipErrorStreamCaptureUnmatched
        hipErrorStreamCaptureUnjoined hipErrorStreamCaptureIsolation hipErrorStreamCaptureImplicit hipErrorCapturedEvent
        hipErrorStreamCaptureWrongThread;
    Poisoned: hipErrorECCNotCorrectable hipErrorIllegalAddress hipErrorLaunchTimeOut hipErrorContextIsDestroyed hipErrorAssert
        hipErrorLaunchFailure;
    Refused: hipErrorOutOfMemory hipErrorUnsupportedLimit hipErrorPeerAccessUnsupported hipErrorPeerAccessAlreadyEnabled
        hipErrorPeerAccessNotEnabled hipErrorFileNotFound hipErrorSharedObjectSymbolNotFound hipErrorSharedObjectInitFailed
        hipErrorOperatingSystem hipErrorIllegalState hipErrorNotFound hipErrorHostMemoryAlreadyRegistered
        hipErrorHostMemoryNotRegistered hipErrorNotSupported hipErrorGraphExecUpdateFailure hipErrorUnknown hipErrorRuntimeMemory
        hipErrorRuntimeOther;
}

/// The status that says: all went well.
pub(crate) const SUCCESS: i32 = ffi::hipSuccess;

/// Whether one of the first calls says that the runtime works, but has no device: without the kernel's driver `hipInit` answers
/// "invalid device".
pub(crate) fn is_no_device(status: i32) -> bool {
    matches!(status, ffi::hipErrorNoDevice | ffi::hipErrorInvalidDevice)
}

/// The status's name in the runtime's documentation.
pub(crate) fn name(status: i32) -> Option<&'static str> {
    find(status).map(|(name, _)| name)
}

fn find(status: i32) -> Option<(&'static str, Meaning)> {
    TABLE.iter().find(|row| row.0 == status).map(|&(_, name, meaning)| (name, meaning))
}

/// The result of a call into the HIP runtime that was made by other code, as polywarp would report it.
///
/// ```
/// use polywarp_core::ErrorKind;
/// assert!(polywarp_hip::check(0, "solve").is_ok());
/// let error = polywarp_hip::check(700, "solve").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::DevicePoisoned { .. }));
/// assert_eq!(error.code().map(|code| &*code.name), Some("hipErrorIllegalAddress"));
/// ```
///
/// # Errors
/// The kind that the status stands for, with status and name; [`ErrorKind::Driver`] for one that has no kind of its own.
pub fn check(status: i32, operation: &'static str) -> Result<()> {
    if status == SUCCESS {
        return Ok(());
    }
    let (name, meaning) = find(status).unwrap_or(("unknown status", Meaning::Refused));
    Err(Error::new(kind(name, meaning), operation).on("hip", None).with_code(status.into(), name))
}

fn kind(name: &'static str, meaning: Meaning) -> ErrorKind {
    match meaning {
        Meaning::Argument => ErrorKind::InvalidArgument { what: "the runtime finds an argument invalid".into() },
        Meaning::Configuration => ErrorKind::InvalidConfig { what: "the device cannot run this launch configuration".into() },
        Meaning::Unavailable => ErrorKind::BackendUnavailable { reason: "the HIP runtime cannot work".into(), tried: Vec::new() },
        Meaning::NotReady => ErrorKind::NotReady,
        Meaning::Capturing => ErrorKind::Capturing,
        Meaning::Poisoned => ErrorKind::DevicePoisoned { cause: name.into(), suspects: Vec::new() },
        Meaning::Refused => ErrorKind::Driver { what: "it gave no further reason".into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_status_stands_twice_in_the_table() {
        let mut all: Vec<_> = TABLE.iter().map(|row| row.0).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), TABLE.len());
    }

    #[test]
    fn a_status_newer_than_polywarp_is_an_error_with_its_number() {
        for status in [-1, 54_321, i32::MIN] {
            let error = check(status, "launch").unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Driver { .. }));
            assert_eq!(error.code().map(|code| code.value), Some(status.into()));
        }
    }

    #[test]
    fn a_kernel_fault_means_a_lost_device() {
        for status in [214, 700, 702, 709, 710, 719] {
            assert!(matches!(check(status, "wait").unwrap_err().kind(), ErrorKind::DevicePoisoned { .. }), "{status}");
        }
    }
}
