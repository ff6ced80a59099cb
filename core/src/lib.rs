//! core
#![recursion_limit = "256"]
pub mod backend;
pub mod counters;
mod error;
pub mod gate;
#[cfg(feature = "host")]
pub mod host;
mod sync;
pub use error::{Error, ErrorKind, NativeCode, Result, Text};
