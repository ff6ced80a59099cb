//! The C types and constants of the HIP runtime that are used. All are the same from HIP 5.2 on.
#![allow(non_camel_case_types, non_upper_case_globals, reason = "the header's own names")]

use std::ffi::{c_char, c_int, c_uint};

/// A status, read as an integer: a newer runtime may answer one that no enum here knows.
pub(crate) type hipError_t = c_int;

pub(crate) type hipInit = unsafe extern "C" fn(flags: c_uint) -> hipError_t;
pub(crate) type hipRuntimeGetVersion = unsafe extern "C" fn(version: *mut c_int) -> hipError_t;
pub(crate) type hipGetDeviceCount = unsafe extern "C" fn(count: *mut c_int) -> hipError_t;
pub(crate) type hipGetErrorName = unsafe extern "C" fn(error: hipError_t) -> *const c_char;

macro_rules! constants {
    ($($name:ident = $value:literal;)*) => {
        $(pub(crate) const $name: hipError_t = $value;)*

        #[cfg(all(test, feature = "link"))]
        mod tests {
            #[test]
            fn the_constants_are_those_of_the_header() {
                $(assert_eq!(super::$name, hip_sys::hiprt::hipError_t::$name as i32, stringify!($name));)*
            }
        }
    };
}

constants! {
    hipSuccess = 0;
    hipErrorInvalidValue = 1;
    hipErrorOutOfMemory = 2;
    hipErrorNotInitialized = 3;
    hipErrorDeinitialized = 4;
    hipErrorInvalidConfiguration = 9;
    hipErrorInvalidSymbol = 13;
    hipErrorInvalidDevicePointer = 17;
    hipErrorInvalidMemcpyDirection = 21;
    hipErrorInsufficientDriver = 35;
    hipErrorInvalidDeviceFunction = 98;
    hipErrorNoDevice = 100;
    hipErrorInvalidDevice = 101;
    hipErrorInvalidImage = 200;
    hipErrorInvalidContext = 201;
    hipErrorNoBinaryForGpu = 209;
    hipErrorECCNotCorrectable = 214;
    hipErrorUnsupportedLimit = 215;
    hipErrorPeerAccessUnsupported = 217;
    hipErrorInvalidKernelFile = 218;
    hipErrorInvalidSource = 300;
    hipErrorFileNotFound = 301;
    hipErrorSharedObjectSymbolNotFound = 302;
    hipErrorSharedObjectInitFailed = 303;
    hipErrorOperatingSystem = 304;
    hipErrorInvalidHandle = 400;
    hipErrorIllegalState = 401;
    hipErrorNotFound = 500;
    hipErrorNotReady = 600;
    hipErrorIllegalAddress = 700;
    hipErrorLaunchOutOfResources = 701;
    hipErrorLaunchTimeOut = 702;
    hipErrorPeerAccessAlreadyEnabled = 704;
    hipErrorPeerAccessNotEnabled = 705;
    hipErrorContextIsDestroyed = 709;
    hipErrorAssert = 710;
    hipErrorHostMemoryAlreadyRegistered = 712;
    hipErrorHostMemoryNotRegistered = 713;
    hipErrorLaunchFailure = 719;
    hipErrorCooperativeLaunchTooLarge = 720;
    hipErrorNotSupported = 801;
    hipErrorStreamCaptureUnsupported = 900;
    hipErrorStreamCaptureInvalidated = 901;
    hipErrorStreamCaptureMerge = 902;
    hipErrorStreamCaptureUnmatched = 903;
    hipErrorStreamCaptureUnjoined = 904;
    hipErrorStreamCaptureIsolation = 905;
    hipErrorStreamCaptureImplicit = 906;
    hipErrorCapturedEvent = 907;
    hipErrorStreamCaptureWrongThread = 908;
    hipErrorGraphExecUpdateFailure = 910;
    hipErrorUnknown = 999;
    hipErrorRuntimeMemory = 1052;
    hipErrorRuntimeOther = 1053;
}
