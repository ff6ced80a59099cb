//! Points of streams that the user marks.

use crate::backend::{Backend, EventDescriptor, Feature};
use crate::device::Device;
#[cfg(test)]
use crate::order::bugs::{Bug, bug};
use crate::order::{Clock, Node, Retired};
use crate::stream::Stream;
use crate::sync::Mutex;
use crate::{ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A point of a stream, to wait for or to measure time with.
///
/// Memory needs no events: it orders itself. They are for the rest: progress, timing, and foreign work. Waiting for an event feeds the same
/// order, so nothing is waited for twice. An event that was never recorded counts as complete.
///
/// ```
/// use polywarp_core::{Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let (a, b) = (device.stream()?, device.stream()?);
/// let start = device.timing_event()?;
/// let end = device.timing_event()?;
/// start.record(&a)?;
/// let x = a.upload(&[0u8; 4096])?;
/// end.record(&a)?;
/// b.wait_for(&end)?;              // later work of `b` runs after it
/// end.wait()?;                    // and so does the host
/// assert!(end.is_complete()?);
/// println!("the upload took {:?}", end.elapsed_since(&start)?);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Event<B: Backend> {
    device: Device<B>,
    timing: bool,
    /// The event's lock: record and copy of the vector are one step under it, driver wait and read of that copy too.
    point: Mutex<Point<B>>,
}

struct Point<B: Backend> {
    event: Arc<OwnedEvent<B>>,
    /// All that the point stands for; empty until recorded.
    clock: Clock,
    #[cfg(test)]
    lane: Option<Arc<crate::order::Lane<B>>>,
}

/// A driver's event; whoever holds it last gives it to the deferred list.
struct OwnedEvent<B: Backend> {
    raw: Option<B::Event>,
    device: Device<B>,
}

impl<B: Backend> OwnedEvent<B> {
    fn new(device: &Device<B>, timing: bool) -> Result<Arc<Self>> {
        let descriptor = if timing { EventDescriptor::timing() } else { EventDescriptor::ordering() };
        let raw = device.order().backend.event_create(&device.state.raw, &descriptor).map_err(|error| device.settle(error))?;
        Ok(Arc::new(Self { raw: Some(raw), device: device.clone() }))
    }

    fn raw(&self) -> Result<&B::Event> {
        self.raw.as_ref().ok_or_else(|| self.device.state.error(ErrorKind::InvalidArgument { what: "the event is gone".into() }, "event"))
    }
}

impl<B: Backend> Drop for OwnedEvent<B> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.device.state.deferred.push(Node::new(Retired::Event(raw)));
        }
    }
}

impl<B: Backend> fmt::Debug for Event<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("device", &self.device).field("timing", &self.timing).finish_non_exhaustive()
    }
}

impl<B: Backend> Device<B> {
    /// An event for ordering and progress.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let event = device.event()?;
    /// assert!(event.is_complete()?);                              // never recorded counts as complete
    /// event.record(&stream)?;
    /// event.wait()?;
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn event(&self) -> Result<Event<B>> {
        Event::new(self, false)
    }

    /// An event that also measures time.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) without [`Feature::TimingEvents`]; those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, Runtime, backend::Feature, host::{Host, HostConfig}};
    /// let device = Runtime::new(Host::new(&HostConfig::new(1).without(Feature::TimingEvents)))?.device(0)?;
    /// let refused = device.timing_event().unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::Unsupported { feature: Feature::TimingEvents }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn timing_event(&self) -> Result<Event<B>> {
        if !self.info().features.contains(Feature::TimingEvents) {
            return Err(self.state.error(ErrorKind::Unsupported { feature: Feature::TimingEvents }, "timing event"));
        }
        Event::new(self, true)
    }
}

impl<B: Backend> Event<B> {
    fn new(device: &Device<B>, timing: bool) -> Result<Self> {
        device.state.usable()?;
        device.state.drain(device.order());
        let event = OwnedEvent::new(device, timing)?;
        let point = Point {
            event,
            clock: Clock::default(),
            #[cfg(test)]
            lane: None,
        };
        Ok(Self { device: device.clone(), timing, point: Mutex::new(point) })
    }

    /// The device it belongs to.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::{Host, HostConfig}};
    /// let runtime = Runtime::new(Host::new(&HostConfig::new(2)))?;
    /// let (event, elsewhere) = (runtime.device(0)?.event()?, runtime.device(1)?.stream()?);
    /// assert!(event.device() != elsewhere.device());
    /// assert!(event.record(&elsewhere).is_err());                 // recorded on its own device only …
    /// elsewhere.wait_for(&event)?;                                // … but waited for anywhere
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn device(&self) -> &Device<B> {
        &self.device
    }

    /// Marks the point behind everything submitted to the stream so far; the point marked before is forgotten, except by those that wait
    /// for it already.
    ///
    /// # Errors
    /// [`WrongDevice`](ErrorKind::WrongDevice), [`WrongRuntime`](ErrorKind::WrongRuntime) for a stream of another device; those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, Runtime, host::{Host, HostConfig}};
    /// let runtime = Runtime::new(Host::new(&HostConfig::new(2)))?;
    /// let (stream, other) = (runtime.device(0)?.stream()?, runtime.device(1)?.stream()?);
    /// let event = runtime.device(0)?.event()?;
    /// event.record(&stream)?;
    /// event.record(&stream)?;                                     // marks a later point instead
    /// let refused = event.record(&other).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::WrongDevice { expected: 1, got: 0, .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuEventRecord", alias = "hipEventRecord")]
    pub fn record(&self, stream: &Stream<B>) -> Result<()> {
        self.device.state.usable()?;
        self.check_device("the event", &stream.device, "event record")?;
        let mut point = self.point.lock();
        if Arc::get_mut(&mut point.event).is_none() {
            point.event = OwnedEvent::new(&self.device, self.timing)?; // Somebody waits for the old point right now.
        }
        let clock = self.device.order().event_record(&stream.lane, point.event.raw()?).map_err(|error| self.device.settle(error))?;
        point.clock = clock;
        #[cfg(test)]
        {
            point.lane = Some(Arc::clone(&stream.lane));
        }
        Ok(())
    }

    /// Waits on the host for the point.
    ///
    /// # Errors
    /// [`DevicePoisoned`](ErrorKind::DevicePoisoned) after a kernel fault; [`InCallback`](ErrorKind::InCallback) inside a host function.
    ///
    /// ```
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let event = device.event()?;
    /// let x = stream.upload(&[1u8; 64])?;
    /// event.record(&stream)?;
    /// let later = stream.upload(&[2u8; 64])?;
    /// event.wait()?;                                              // for the first upload; the second may still run
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuEventSynchronize", alias = "hipEventSynchronize")]
    pub fn wait(&self) -> Result<()> {
        self.device.state.usable()?;
        let (event, clock) = self.snapshot();
        self.device.order().backend.event_wait(event.raw()?).map_err(|error| self.device.settle(error))?;
        self.device.order().host_learns(&clock);
        Ok(())
    }

    /// Whether the point was reached.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    ///
    /// ```
    /// # use polywarp_core::gate::Gate;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let (gate, event) = (Gate::new(), device.event()?);
    /// let closed = gate.function();
    /// stream.host_function(move || closed.call())?;
    /// event.record(&stream)?;
    /// assert!(!event.is_complete()?);
    /// gate.open();
    /// event.wait()?;
    /// assert!(event.is_complete()?);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuEventQuery", alias = "hipEventQuery")]
    pub fn is_complete(&self) -> Result<bool> {
        self.device.state.usable()?;
        let (event, clock) = self.snapshot();
        let complete = self.device.order().backend.event_query(event.raw()?).map_err(|error| self.device.settle(error))?;
        if complete {
            self.device.order().host_learns(&clock);
        }
        Ok(complete)
    }

    /// The time from `start`'s point to this one's, on the device's clock.
    ///
    /// # Errors
    /// [`NotReady`](ErrorKind::NotReady) unless both are complete; [`InvalidArgument`](ErrorKind::InvalidArgument) for events that do
    /// not measure time; [`WrongDevice`](ErrorKind::WrongDevice), [`WrongRuntime`](ErrorKind::WrongRuntime).
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # let stream = polywarp_core::doctest::stream()?;
    /// # let device = stream.device();
    /// let (start, end) = (device.timing_event()?, device.timing_event()?);
    /// start.record(&stream)?;
    /// end.record(&stream)?;
    /// end.wait()?;
    /// println!("{:?}", end.elapsed_since(&start)?);
    /// let refused = device.event()?.elapsed_since(&start).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::InvalidArgument { .. }));   // only timing events measure time
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuEventElapsedTime", alias = "hipEventElapsedTime")]
    pub fn elapsed_since(&self, start: &Self) -> Result<Duration> {
        self.device.state.usable()?;
        start.check_device("the start", &self.device, "event elapsed")?;
        if !self.timing || !start.timing {
            let what = "this event does not measure time; make it with `timing_event`".into();
            return Err(self.device.state.error(ErrorKind::InvalidArgument { what }, "event elapsed"));
        }
        let ((end, _), (start, _)) = (self.snapshot(), start.snapshot());
        self.device.order().backend.event_elapsed(start.raw()?, end.raw()?).map_err(|error| self.device.settle(error))
    }

    /// Refuses what belongs to another device than `expected`.
    fn check_device(&self, what: &'static str, expected: &Device<B>, operation: &'static str) -> Result<()> {
        if self.device == *expected {
            return Ok(());
        }
        let kind = match std::ptr::eq(self.device.order(), expected.order()) {
            true => ErrorKind::WrongDevice { what: what.into(), expected: expected.ordinal(), got: self.device.ordinal() },
            false => ErrorKind::WrongRuntime { what: what.into() },
        };
        Err(expected.state.error(kind, operation))
    }

    fn snapshot(&self) -> (Arc<OwnedEvent<B>>, Clock) {
        let point = self.point.lock();
        (Arc::clone(&point.event), point.clock.clone())
    }
}

impl<B: Backend> Stream<B> {
    /// Makes everything submitted from now on run after the event's point. The host does not wait; the event may belong to another device.
    ///
    /// # Errors
    /// [`WrongRuntime`](ErrorKind::WrongRuntime); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let (a, b, event) = (device.stream()?, device.stream()?, device.event()?);
    /// let (first, told) = std::sync::mpsc::channel();
    /// let second = first.clone();
    /// a.host_function(move || first.send(1).unwrap_or(()))?;
    /// event.record(&a)?;
    /// b.wait_for(&event)?;                                        // the host goes on at once
    /// b.host_function(move || second.send(2).unwrap_or(()))?;
    /// b.wait()?;
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[doc(alias = "cuStreamWaitEvent", alias = "hipStreamWaitEvent")]
    pub fn wait_for(&self, event: &Event<B>) -> Result<()> {
        self.device.state.usable()?;
        if !std::ptr::eq(self.order(), event.device.order()) {
            return Err(self.device.state.error(ErrorKind::WrongRuntime { what: "the event".into() }, "wait for"));
        }
        let point = event.point.lock();
        #[cfg(test)]
        if bug(Bug::EventRecordedBetween) {
            let nothing = Clock::default();
            self.order().event_wait(&self.lane, point.event.raw()?, &nothing)?;
            drop(point);
            let point = event.point.lock();
            return self.order().learn(&self.lane, &point.clock);
        }
        #[cfg(test)]
        if let (true, Some(lane)) = (bug(Bug::EventTakesCurrentCount), &point.lane) {
            let clock = self.order().clock_now(lane);
            return self.order().event_wait(&self.lane, point.event.raw()?, &clock);
        }
        self.order().event_wait(&self.lane, point.event.raw()?, &point.clock).map_err(|error| self.device.settle(error))
    }
}
