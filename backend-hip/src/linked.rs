//! The runtime's functions from `hip-sys`, linked at build time (feature `link`).
//!
//! # Safety
//! `hip-sys` declares the same functions; only the status differs, an enum of `int`'s size there and an integer here.
#![allow(unsafe_code, reason = "reads the status of a C function as an integer")]

use crate::driver::{Driver, Started, unavailable};
use crate::ffi::{hipGetDeviceCount, hipGetErrorName, hipInit, hipRuntimeGetVersion};
use hip_sys::hiprt::{self, hipError_t};
use polywarp_core::Error;
use std::ffi::{c_char, c_int, c_uint};
use std::mem::transmute;

/// Starts the runtime that this program was linked with.
pub(crate) fn open() -> Result<Started, Error> {
    const TITLE: &str = "libamdhip64, linked at build time";
    functions().start(TITLE.into()).map_err(|refusal| unavailable(&[(TITLE.into(), refusal)]))
}

fn functions() -> Driver {
    Driver {
        // SAFETY: the same C function; an enum of `int`'s size and an `int` are returned alike.
        init: unsafe { transmute::<unsafe extern "C" fn(c_uint) -> hipError_t, hipInit>(hiprt::hipInit) },
        // SAFETY: as above.
        runtime_version: unsafe {
            transmute::<unsafe extern "C" fn(*mut c_int) -> hipError_t, hipRuntimeGetVersion>(hiprt::hipRuntimeGetVersion)
        },
        // SAFETY: as above.
        device_count: unsafe { transmute::<unsafe extern "C" fn(*mut c_int) -> hipError_t, hipGetDeviceCount>(hiprt::hipGetDeviceCount) },
        // SAFETY: as above; enum and `int` are passed alike.
        error_name: Some(unsafe {
            transmute::<unsafe extern "C" fn(hipError_t) -> *const c_char, hipGetErrorName>(hiprt::hipGetErrorName)
        }),
    }
}
