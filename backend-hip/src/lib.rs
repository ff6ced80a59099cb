//! polywarp on AMD GPUs: the HIP runtime, found at run time. Nothing of AMD's is needed to build or to start.
//!
//! This version finds the runtime, starts it and counts its devices, and says what it met; it does not drive them yet.
//!
//! With the feature `link` the functions come from `hip-sys` instead: then AMD's headers and library are needed at build time.
//!
//! | file | what is in it |
//! |---|---|
//! | `ffi` | the C types and constants that are used |
//! | `library` | where the runtime's library may lie, loading it, its symbols into the table |
//! | `linked` | the table from `hip-sys` (feature `link`) |
//! | `driver` | the table of the runtime's functions, and the first calls |
//! | `error` | status → name and kind |
//! | `backend` | [`Hip`] |

mod backend;
mod driver;
mod error;
mod ffi;

cfg_if::cfg_if! {
    if #[cfg(feature = "link")] {
        mod linked;
        use linked as library;
    } else {
        mod library;
    }
}

pub use backend::{Device, Event, ExecutableGraph, Function, Graph, Hip, Module, Stream};
pub use error::check;
