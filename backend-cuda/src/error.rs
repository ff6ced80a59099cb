//! Status → name and kind.

use cudarc::driver::sys::CUresult;
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
        const TABLE: &[(i32, &str, Meaning)] = &[$($((CUresult::$status as i32, stringify!($status), Meaning::$meaning),)*)*];
    };
}

// Only what every binding level of cudarc has.
statuses! {
    Argument: CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_DEVICE CUDA_ERROR_INVALID_CONTEXT CUDA_ERROR_INVALID_HANDLE
        CUDA_ERROR_INVALID_IMAGE CUDA_ERROR_INVALID_PTX CUDA_ERROR_INVALID_SOURCE CUDA_ERROR_NO_BINARY_FOR_GPU;
    Configuration: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    Unavailable: CUDA_ERROR_NO_DEVICE CUDA_ERROR_STUB_LIBRARY CUDA_ERROR_NOT_INITIALIZED CUDA_ERROR_DEINITIALIZED
        CUDA_ERROR_SYSTEM_NOT_READY CUDA_ERROR_SYSTEM_DRIVER_MISMATCH CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
        CUDA_ERROR_DEVICE_NOT_LICENSED CUDA_ERROR_MPS_CONNECTION_FAILED CUDA_ERROR_MPS_RPC_FAILURE CUDA_ERROR_MPS_SERVER_NOT_READY
        CUDA_ERROR_MPS_MAX_CLIENTS_REACHED CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED;
    NotReady: CUDA_ERROR_NOT_READY;
    Capturing: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_INVALIDATED CUDA_ERROR_STREAM_CAPTURE_MERGE
        CUDA_ERROR_STREAM_CAPTURE_UNMATCHED CUDA_ERROR_STREAM_CAPTURE_UNJOINED CUDA_ERROR_STREAM_CAPTURE_ISOLATION
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT CUDA_ERROR_CAPTURED_EVENT CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    Poisoned: CUDA_ERROR_ECC_UNCORRECTABLE CUDA_ERROR_NVLINK_UNCORRECTABLE CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_LAUNCH_TIMEOUT
        CUDA_ERROR_CONTEXT_IS_DESTROYED CUDA_ERROR_ASSERT CUDA_ERROR_HARDWARE_STACK_ERROR CUDA_ERROR_ILLEGAL_INSTRUCTION
        CUDA_ERROR_MISALIGNED_ADDRESS CUDA_ERROR_INVALID_ADDRESS_SPACE CUDA_ERROR_INVALID_PC CUDA_ERROR_LAUNCH_FAILED;
    Refused: CUDA_ERROR_OUT_OF_MEMORY CUDA_ERROR_ALREADY_MAPPED CUDA_ERROR_NOT_MAPPED CUDA_ERROR_UNSUPPORTED_LIMIT
        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
        CUDA_ERROR_TOO_MANY_PEERS CUDA_ERROR_JIT_COMPILER_NOT_FOUND CUDA_ERROR_JIT_COMPILATION_DISABLED
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION CUDA_ERROR_FILE_NOT_FOUND CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
        CUDA_ERROR_SHARED_OBJECT_INIT_FAILED CUDA_ERROR_OPERATING_SYSTEM CUDA_ERROR_ILLEGAL_STATE CUDA_ERROR_NOT_FOUND
        CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
        CUDA_ERROR_NOT_PERMITTED CUDA_ERROR_NOT_SUPPORTED CUDA_ERROR_TIMEOUT CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE CUDA_ERROR_UNKNOWN;
}

/// The status that says: all went well.
pub(crate) const SUCCESS: i32 = CUresult::CUDA_SUCCESS as i32;

/// Whether the status says that the driver works, but has no device.
pub(crate) fn is_no_device(status: i32) -> bool {
    status == CUresult::CUDA_ERROR_NO_DEVICE as i32
}

/// The status's name in the driver's documentation.
pub(crate) fn name(status: i32) -> Option<&'static str> {
    find(status).map(|(name, _)| name)
}

fn find(status: i32) -> Option<(&'static str, Meaning)> {
    TABLE.iter().find(|row| row.0 == status).map(|&(_, name, meaning)| (name, meaning))
}

/// The result of a call into the CUDA driver that was made by other code, as polywarp would report it.
///
/// ```
/// use polywarp_core::ErrorKind;
/// assert!(polywarp_cuda::check(0, "solve").is_ok());
/// let error = polywarp_cuda::check(700, "solve").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::DevicePoisoned { .. }));
/// assert_eq!(error.code().map(|code| &*code.name), Some("CUDA_ERROR_ILLEGAL_ADDRESS"));
/// ```
///
/// # Errors
/// The kind that the status stands for, with status and name; [`ErrorKind::Driver`] for one that has no kind of its own.
pub fn check(status: i32, operation: &'static str) -> Result<()> {
    if status == SUCCESS {
        return Ok(());
    }
    let (name, meaning) = find(status).unwrap_or(("unknown status", Meaning::Refused));
    Err(Error::new(kind(name, meaning), operation).on("cuda", None).with_code(status.into(), name))
}

fn kind(name: &'static str, meaning: Meaning) -> ErrorKind {
    match meaning {
        Meaning::Argument => ErrorKind::InvalidArgument { what: "the driver finds an argument invalid".into() },
        Meaning::Configuration => ErrorKind::InvalidConfig { what: "the device cannot run this launch configuration".into() },
        Meaning::Unavailable => ErrorKind::BackendUnavailable { reason: "the CUDA driver cannot work".into(), tried: Vec::new() },
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
        for status in [214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719] {
            assert!(matches!(check(status, "wait").unwrap_err().kind(), ErrorKind::DevicePoisoned { .. }), "{status}");
        }
    }
}
