//! core
#![recursion_limit = "256"]
extern crate self as polywarp_core;

pub mod backend;
pub mod counters;
#[cfg(feature = "decorate")]
pub mod decorate;
mod error;
mod sync;
pub use error::{Error, ErrorKind, NativeCode, Result, Text};
