//! One suite of cases for every polywarp backend: ours and anybody's.
//!
//! A [`Subject`] says how to open a backend. [`run`] runs the [cases](cases::all) on it, each on a freshly opened backend that
//! [counts](polywarp_core::decorate::Counting) its calls and [fails](polywarp_core::decorate::Faulty) when a case says so, and yields a [`Report`]. Order is proved with gates that the host opens and economy
//! with counts, never with time.
//!
//! A backend's own test takes a few lines, with `harness = false`:
//!
//! ```
//! use polywarp_conformance::{Subject, test_main};
//! use polywarp_core::{Result, host::{Host, HostConfig}};
//!
//! struct TwoDevices;
//!
//! impl Subject for TwoDevices {
//!     type Backend = Host;
//!
//!     fn name(&self) -> &str {
//!         "host"
//!     }
//!
//!     fn open(&self) -> Result<Host> {
//!         Ok(Host::new(&HostConfig::new(2)))
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//! #   std::process::ExitCode::SUCCESS
//! # }
//! # fn real_main() -> std::process::ExitCode {
//!     test_main(TwoDevices)
//! }
//! ```

mod case;
pub mod cases;
mod check;
mod context;
mod harness;
pub mod kernels;
mod outcome;
mod plan;
mod report;
mod runner;
mod subject;

pub use case::{Case, Requirement, case};
pub use context::{Context, Held};
pub use harness::test_main;
pub use outcome::Outcome;
pub use plan::plan;
pub use report::{Finding, Report};
pub use runner::{Options, Place, run};
pub use subject::Subject;
