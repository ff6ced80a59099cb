//! A gate that the host opens: with it, tests hold a stream at a known point and prove order without sleeping.
//!
//! Works over any backend with [`Feature::HostFunctions`](crate::backend::Feature::HostFunctions).

use crate::backend::HostFunction;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// Closed when made; whatever waits for it goes on once it is [opened](Self::open), dropped, or out of patience.
///
/// ```
/// use polywarp_core::backend::{Backend, StreamDescriptor};
/// use polywarp_core::{gate::Gate, host::Host};
///
/// let host = Host::default();
/// let stream = host.stream_create(&host.device_open(0)?, &StreamDescriptor::default())?;
/// let gate = Gate::new();
/// // SAFETY: a gate's function does not unwind, and nobody captures the stream.
/// unsafe { host.stream_host_function(&stream, gate.function())? };
/// // Work submitted to the stream now is held …
/// gate.open(); // … until here.
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Gate {
    inner: Arc<Inner>,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// A closed gate that waits for ten seconds at most.
    #[must_use]
    pub fn new() -> Self {
        Self::with_patience(Duration::from_secs(10))
    }

    /// A closed gate that waits for `patience` at most, so that a wrong test fails instead of hanging.
    ///
    /// ```
    /// use polywarp_core::gate::Gate;
    /// let gate = Gate::with_patience(std::time::Duration::from_millis(1));
    /// assert!(!gate.wait() && !gate.is_open());                   // nobody opened it, so it gave up
    /// ```
    #[must_use]
    pub fn with_patience(patience: Duration) -> Self {
        Self { inner: Arc::default(), patience }
    }

    /// Lets pass what waits and what will wait.
    pub fn open(&self) {
        self.inner.open();
    }

    /// Whether it was opened.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self.inner.open.lock()
    }

    /// Blocks the calling thread at the gate; false if it lost patience before the gate was opened.
    ///
    /// ```
    /// use polywarp_core::gate::Gate;
    /// let gate = Gate::new();
    /// let passed = std::thread::scope(|scope| {
    ///     let waiting = scope.spawn(|| gate.wait());
    ///     gate.open();
    ///     waiting.join()
    /// });
    /// assert!(passed.is_ok_and(|in_time| in_time));
    /// ```
    #[must_use]
    pub fn wait(&self) -> bool {
        self.inner.wait(self.patience)
    }

    /// A host function that holds its stream at the gate.
    ///
    /// ```
    /// # use polywarp_core::gate::Gate;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let gate = Gate::new();
    /// let closed = gate.function();
    /// stream.host_function(move || closed.call())?;               // from here on the stream is held
    /// let x = stream.zeros::<u8>(16)?;
    /// assert!(!stream.is_complete()?);
    /// drop(gate);                                                 // opens it as well
    /// stream.wait()?;
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn function(&self) -> HostFunction {
        let (inner, patience) = (Arc::clone(&self.inner), self.patience);
        HostFunction::new(move || {
            inner.wait(patience);
        })
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.inner.open();
    }
}

impl Inner {
    fn open(&self) {
        *self.open.lock() = true;
        self.opened.notify_all();
    }

    fn wait(&self, patience: Duration) -> bool {
        let mut open = self.open.lock();
        self.opened.wait_while_for(&mut open, |open| !*open, patience);
        *open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_loses_patience() {
        let gate = Gate::with_patience(Duration::from_millis(1));
        assert!(!gate.wait() && !gate.is_open());
    }

    #[test]
    fn an_open_gate_lets_pass_at_once() {
        let gate = Gate::default();
        gate.open();
        assert!(gate.wait());
        gate.function().call();
    }

    #[test]
    fn a_dropped_gate_is_open() {
        let gate = Gate::new();
        let inner = Arc::clone(&gate.inner);
        let waiting = std::thread::spawn(move || inner.wait(Duration::from_secs(10)));
        drop(gate);
        assert!(waiting.join().unwrap());
    }
}
