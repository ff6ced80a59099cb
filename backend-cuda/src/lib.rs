//! polywarp on NVIDIA GPUs: the CUDA driver, found at run time. Nothing of CUDA is needed to build or to start.
//!
//! This version finds the driver, starts it and counts its devices, and says what it met; it does not drive them yet.
//!
//! | file | what is in it |
//! |---|---|
//! | `library` | where the driver's library may lie, loading it, its symbols into the table |
//! | `driver` | the table of the driver's functions, and the first calls |
//! | `error` | status → name and kind |
//! | `backend` | [`Cuda`] |

mod backend;
mod driver;
mod error;
mod library;

pub use backend::{Cuda, Device, Event, ExecutableGraph, Function, Graph, Module, Stream};
pub use error::check;
