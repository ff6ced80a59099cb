//! What a backend's author writes.

use polywarp_core::backend::Backend;
use polywarp_core::{Program, Result};

/// A backend to be tested.
///
/// ```
/// use polywarp_conformance::{Options, Subject, run};
/// use polywarp_core::{Result, host::Host};
///
/// struct OneDevice;
///
/// impl Subject for OneDevice {
///     type Backend = Host;
///
///     fn name(&self) -> &str {
///         "host"
///     }
///
///     fn open(&self) -> Result<Host> {
///         Ok(Host::default())
///     }
/// }
///
/// let options = Options { filter: Some("track.same_stream*".into()), ..Options::default() };
/// let report = run(OneDevice, &options).map_err(|error| error.to_string())?;
/// assert!(report.is_success(), "{report}");
/// # Ok::<(), String>(())
/// ```
pub trait Subject: Send + Sync + 'static {
    /// The backend.
    type Backend: Backend;

    /// How reports and replay commands call it.
    fn name(&self) -> &str;

    /// How it runs work, where there are several ways; reports and replay commands (`--mode`) say so. Empty for the usual one.
    fn mode(&self) -> &str {
        ""
    }

    /// Opens it anew: each case has its own.
    ///
    /// # Errors
    /// [`BackendUnavailable`](polywarp_core::ErrorKind::BackendUnavailable) if this machine cannot run it.
    fn open(&self) -> Result<Self::Backend>;

    /// Adds what this backend runs to the suite's [kernels](crate::kernels), unless it takes a form that they have already.
    fn kernels(&self, program: Program) -> Program {
        program
    }
}
