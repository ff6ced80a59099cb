//! Queues of work.

use crate::backend::{Backend, Feature, HostFunction, StreamDescriptor};
use crate::device::Device;
use crate::order::{Lane, Node, Order, Retired, Submission, callback};
use crate::{ErrorKind, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How a stream is made; see [`Device::stream_with`].
///
/// ```
/// use polywarp_core::{ErrorKind, Runtime, StreamOptions, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let urgent = StreamOptions::new().priority(i32::MIN);       // clamped to what the device offers
/// let stream = device.stream_with(urgent.precise())?;
/// let refused = device.stream_with(StreamOptions::new().legacy()).unwrap_err();
/// assert!(matches!(refused.kind(), ErrorKind::Unsupported { .. }));   // the host backend has no legacy stream
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct StreamOptions {
    priority: i32,
    precise: bool,
    legacy: bool,
}

impl StreamOptions {
    /// An ordinary stream.
    pub const fn new() -> Self {
        Self { priority: 0, precise: false, legacy: false }
    }

    /// A priority; clamped to what the device offers ([`Limits::stream_priorities`](crate::backend::Limits::stream_priorities)).
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Waits for work of this stream never cover later work: every submission is followed by a record.
    ///
    /// Without it a wait may cover work submitted to the producer *later*, up to the moment of the wait. That matters only if such
    /// work waits for the host: a kernel writes `x`, a second kernel of the same stream waits for the host, another
    /// stream reads `x`, and the host waits for that stream. On a precise stream this ends; on others it can hang.
    /// (Where more than 48 separate ranges of one buffer are in use at once, a wait for one may cover the others.)
    ///
    /// ```
    /// # use polywarp_core::{Runtime, StreamOptions, gate::Gate, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let (producer, consumer) = (device.stream_with(StreamOptions::new().precise())?, device.stream()?);
    /// let x = producer.upload(&[1u32, 2])?;
    /// let gate = Gate::new();
    /// let waiting = gate.function();
    /// producer.host_function(move || waiting.call())?;            // later work that waits for the host
    /// assert_eq!(x.download(&consumer)?, [1, 2]);                 // does not wait for it
    /// gate.open();
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub const fn precise(mut self) -> Self {
        self.precise = true;
        self
    }

    /// The legacy default stream, which libraries that know no other use.
    pub const fn legacy(mut self) -> Self {
        self.legacy = true;
        self
    }
}

/// A queue of work of one device: what is submitted to it runs in order. Usable from several threads at once.
///
/// Streams are not ordered with each other; memory orders them by itself where they use the same bytes. Dropping a stream lets its
/// work go on.
///
/// ```
/// use polywarp_core::{Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let (a, b) = (device.stream()?, device.stream()?);
/// let mut x = a.upload(&[1u32, 2, 3])?;
/// x.fill(&b, 7)?;                              // ordered after the upload, without a wait of the host
/// assert_eq!(x.download(&a)?, [7, 7, 7]);     // ordered after the fill
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Stream<B: Backend> {
    pub(crate) lane: Arc<Lane<B>>,
    pub(crate) device: Device<B>,
}

impl<B: Backend> fmt::Debug for Stream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("number", &self.lane.slot.0).field("device", &self.device).finish()
    }
}

impl<B: Backend> Drop for Stream<B> {
    fn drop(&mut self) {
        self.device.state.deferred.push(Node::new(Retired::Stream(self.lane.slot)));
    }
}

impl<B: Backend> Device<B> {
    /// A new stream.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn stream(&self) -> Result<Stream<B>> {
        self.stream_with(StreamOptions::new())
    }

    /// A new stream made so.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for the legacy stream where there is none; those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, StreamOptions, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let [low, high] = device.info().limits.stream_priorities;
    /// let (background, urgent) = (StreamOptions::new().priority(low), StreamOptions::new().priority(high));
    /// let (background, urgent) = (device.stream_with(background)?, device.stream_with(urgent)?);
    /// let x = background.upload(&[1u8, 2])?;
    /// assert_eq!(x.download(&urgent)?, [1, 2]);                   // priority never overtakes the order of memory
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn stream_with(&self, options: StreamOptions) -> Result<Stream<B>> {
        self.state.usable()?;
        self.state.drain(self.order());
        self.state.collect(self.order(), true);
        let [low, high] = self.info().limits.stream_priorities;
        let mut descriptor = StreamDescriptor::new(options.priority.clamp(low.min(high), low.max(high)));
        descriptor.legacy = options.legacy;
        let queue = self.order().backend.stream_create(&self.state.raw, &descriptor).map_err(|error| self.settle(error))?;
        match self.order().lane_for(&self.state, queue, options.precise) {
            Ok(lane) => Ok(Stream { lane, device: self.clone() }),
            Err(queue) => {
                self.state.destroy_queue(self.order(), queue);
                let kind = ErrorKind::LimitExceeded { axis: "streams alive at once".into(), asked: 1 << 16, limit: u64::from(u16::MAX) };
                Err(self.state.error(kind, "stream"))
            }
        }
    }
}

impl<B: Backend> Stream<B> {
    /// The device it belongs to.
    #[must_use]
    pub fn device(&self) -> &Device<B> {
        &self.device
    }

    /// Waits on the host until everything submitted so far is complete.
    ///
    /// # Errors
    /// [`DevicePoisoned`](ErrorKind::DevicePoisoned) after a kernel fault; [`StreamPoisoned`](ErrorKind::StreamPoisoned) if a host function
    /// of the stream panicked; [`InCallback`](ErrorKind::InCallback) inside a host function; an error met while dealing with what was dropped, once.
    ///
    /// ```
    /// # use std::sync::{Arc, mpsc};
    /// # use polywarp_core::{Error, ErrorKind};
    /// # let stream = Arc::new(polywarp_core::doctest::stream()?);
    /// let (same, (tell, told)) = (Arc::clone(&stream), mpsc::channel());
    /// stream.host_function(move || tell.send(same.wait()).unwrap_or(()))?;
    /// stream.wait()?;                                             // the function has run
    /// let refused = told.try_recv().map(|inside| matches!(inside.map_err(|error| error.kind().clone()), Err(ErrorKind::InCallback)));
    /// assert_eq!(refused, Ok(true));                              // inside of it, the wait was refused
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuStreamSynchronize", alias = "hipStreamSynchronize", alias = "synchronize")]
    pub fn wait(&self) -> Result<()> {
        self.device.state.usable()?;
        self.order().wait_lane(&self.lane).map_err(|error| self.device.settle(error))?;
        self.lane.healthy()?;
        self.device.state.drain(self.order());
        self.device.state.collect(self.order(), false);
        self.device.take_deferred_error().map_or(Ok(()), Err)
    }

    /// Whether everything submitted so far is complete.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    ///
    /// ```
    /// # use polywarp_core::gate::Gate;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let gate = Gate::new();
    /// let closed = gate.function();
    /// stream.host_function(move || closed.call())?;
    /// assert!(!stream.is_complete()?);
    /// gate.open();
    /// stream.wait()?;
    /// assert!(stream.is_complete()?);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuStreamQuery", alias = "hipStreamQuery")]
    pub fn is_complete(&self) -> Result<bool> {
        self.device.state.usable()?;
        self.lane.healthy()?;
        self.order().is_lane_complete(&self.lane).map_err(|error| self.device.settle(error))
    }

    /// Marks this point, so that later waits for earlier work need not cover what is submitted from now on.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let stream = device.stream()?;
    /// let x = stream.upload(&[1u8])?;
    /// stream.checkpoint()?;   // whoever reads `x` elsewhere waits for this point at most
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn checkpoint(&self) -> Result<()> {
        self.device.state.usable()?;
        self.order().checkpoint(&self.lane).map_err(|error| self.device.settle(error))
    }

    /// Runs a function on the host, in stream order: after everything submitted so far, before everything later.
    ///
    /// Inside it, submissions and waits answer [`InCallback`](ErrorKind::InCallback); dropping is fine. If it panics, the stream takes no
    /// further work ([`StreamPoisoned`](ErrorKind::StreamPoisoned)).
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let stream = device.stream()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// stream.host_function(move || tell.send("reached").unwrap_or(()))?;
    /// assert_eq!(told.recv(), Ok("reached"));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuLaunchHostFunc", alias = "hipLaunchHostFunc")]
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.submit_host_function(HostFunction::new(function))
    }

    /// Hands the backend's own stream to foreign code, such as a vendor's library that is to work on it inside of a
    /// [`lend`](crate::BufferSlice::lend). No other submission to the stream comes in between.
    ///
    /// The code must not call polywarp with this stream: that waits for itself. What it submits outside of a lend is ordered within the
    /// stream only, and waits for the stream need not cover it.
    ///
    /// # Errors
    /// [`DevicePoisoned`](ErrorKind::DevicePoisoned), [`InCallback`](ErrorKind::InCallback).
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let stream = stream()?;
    /// # let x = stream.upload(&[1u64, 2])?;
    /// let shown = x.as_slice().lend(&stream, |address| stream.with_raw(|raw| format!("{raw:?} works on {address:?}")))??;
    /// assert!(shown.contains("works on"));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn with_raw<R>(&self, foreign: impl FnOnce(&B::Stream) -> R) -> Result<R> {
        self.device.state.usable()?;
        Ok(foreign(self.lane.lock().queue()?))
    }

    fn submit_host_function(&self, function: HostFunction) -> Result<()> {
        if !self.device.info().features.contains(Feature::HostFunctions) {
            return Err(self.device.state.error(ErrorKind::Unsupported { feature: Feature::HostFunctions }, "host function"));
        }
        let lane = Arc::clone(&self.lane);
        // A second share: what a refused function owns is dropped when this call returns, not under the stream's lock.
        let shared = Arc::new(Mutex::new(Some(function)));
        let share = Arc::clone(&shared);
        let guarded = HostFunction::new(move || {
            let Some(function) = share.lock().take() else { return };
            let outcome = callback::run(|| catch_unwind(AssertUnwindSafe(|| function.call())));
            if let Err(panic) = outcome {
                let kind = ErrorKind::StreamPoisoned { message: message(&*panic).into() };
                lane.poison(lane.device.error(kind, "host function"));
                // What a panic carries may panic when dropped; then the rest is leaked.
                let dropped = callback::run(|| catch_unwind(AssertUnwindSafe(|| drop(panic))));
                dropped.unwrap_or_else(std::mem::forget);
            }
        });
        let kind = Submission { may_wait_for_host: true, ..Submission::of("host function") };
        self.order().submit_host_function(&self.lane, kind, guarded)
    }

    pub(crate) fn order(&self) -> &Order<B> {
        self.device.order()
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).into(),
        (_, Some(text)) => text.clone(),
        _ => "a value that is not text".into(),
    }
}
