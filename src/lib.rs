#![cfg_attr(feature = "host", doc = include_str!("../README.md"))]
//!
//! # In this crate
//!
//! Everything of `polywarp-core` is here under the same names. The crate itself adds the choice of a backend:
//!
//! * the features `host` (default), `cuda` and `hip` choose which backends are compiled in, in any combination;
//! * [`available`] says which of them this machine can use, and why not; [`open`], [`open_best`] and [`select()`] choose one;
//! * [`AnyBackend`] is what they choose: a backend like any other, for programs that are not generic;
//! * [`dispatch!`](macro@dispatch) goes from there to generic code, which pays nothing for the choice.
//!
//! ```
//! use polywarp::{AnyBackend, Result, backend::Backend, dispatch};
//!
//! fn first_device<B: Backend>(backend: &B) -> Result<String> {
//!     Ok(backend.device_info(&backend.device_open(0)?)?.name)
//! }
//!
//! # #[cfg(feature = "host")]
//! # {
//! let backend: AnyBackend = polywarp::open_best()?;
//! let name = dispatch!(&backend, |backend: B| first_device::<B>(backend))?;
//! println!("{name} through {}", backend.name());
//! # }
//! # Ok::<(), polywarp::Error>(())
//! ```

mod any;
mod dispatch;
mod select;

pub use any::{AnyBackend, AnyDevice, AnyEvent, AnyExecutableGraph, AnyFunction, AnyGraph, AnyModule, AnyStream};
pub use polywarp_core::*;
pub use select::{Availability, available, compiled_in, not_compiled_in, open, open_best, select};

cfg_if::cfg_if! {
    if #[cfg(feature = "cuda")] {
        pub use polywarp_cuda as cuda;
    }
}
cfg_if::cfg_if! {
    if #[cfg(feature = "hip")] {
        pub use polywarp_hip as hip;
    }
}
