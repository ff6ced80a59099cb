//! core
#![recursion_limit = "256"]
pub mod backend;
pub mod counters;
mod error;
mod sync;
pub use error::{Error, ErrorKind, NativeCode, Result, Text};
