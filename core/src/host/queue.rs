//! Streams and events: one queue and one worker thread per stream, and points that workers reach.
//!
//! A worker starts with the first submission and leaves when its stream is gone or has had nothing to do for a while; the next
//! submission starts another. What was submitted runs even if the stream's handle is dropped: nobody waits for it.

#![allow(unsafe_code, reason = "runs copies and fills on behalf of their submitters")]

use super::adversary::{Place, Seat};
use super::block::{discard, message};
use super::device::Device;
use super::kernel::Launch;
use super::memory::{Copy, Fill};
use crate::backend::{EventDescriptor, Feature, HostFunction};
use crate::{ErrorKind, Result, Text};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a worker without work stays.
const IDLE: Duration = Duration::from_secs(1);
/// How often a wait looks whether another stream's fault has poisoned the device.
const GLANCE: Duration = Duration::from_millis(100);
/// How often a wait looks before it sleeps: some microseconds.
const SPINS: u32 = 200;

/// Work that a stream holds before whoever submits more must wait: enough that nobody meets it who does not outrun the device for long.
pub(super) const FULL: usize = 1 << 16;

/// One piece of work.
#[derive(Debug)]
pub(super) enum Task {
    Copy(Copy),
    Fill(Fill),
    Launch(Arc<Launch>),
    HostFunction(HostFunction),
    Wait(Arc<Point>),
    Reach(Arc<Point>),
}

impl Task {
    /// The point that later tasks of the stream wait for.
    pub(super) fn waits_for(&self) -> Option<&Point> {
        match self {
            Self::Wait(point) => Some(point),
            _ => None,
        }
    }

    fn run(self, device: &Device) {
        match self {
            Self::Reach(point) => point.reach(),
            // Dropped, host functions with all that they own too.
            _ if device.poison_cause().is_some() => {}
            // SAFETY: `Backend::copy`'s caller promised what this needs.
            Self::Copy(copy) => unsafe { copy.run() },
            // SAFETY: `Backend::fill`'s caller promised what this needs.
            Self::Fill(fill) => unsafe { fill.run() },
            Self::Launch(launch) => launch.run(),
            Self::HostFunction(function) => function.call(),
            Self::Wait(point) => point.wait().unwrap_or_else(|cause| device.poison(point.inherited(&cause))),
        }
    }
}

/// A stream of a [`Host`](super::Host).
///
/// ```
/// use polywarp_core::{backend::Backend, host::{self, Host}};
/// let host = Host::default();
/// let stream: host::Stream = host.stream_create(&host.device_open(0)?, &Default::default())?;
/// // SAFETY: nothing was submitted to it, and it is given back once.
/// unsafe { host.stream_destroy(stream) }?;                    // its worker thread ends
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    queue: Arc<Queue>,
    /// In the adversarial mode, where work is held before it gets into the queue.
    seat: Option<Seat>,
}

#[derive(Debug)]
pub(super) struct Queue {
    device: Device,
    state: Mutex<State>,
    submitted: Condvar,
    taken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tasks: VecDeque<Task>,
    /// There is a worker thread.
    worker: bool,
    /// It runs a task.
    busy: bool,
    /// The stream is gone.
    closed: bool,
}

impl Stream {
    pub(super) fn new(device: &Device) -> Self {
        let (state, submitted, taken) = (Mutex::default(), Condvar::new(), Condvar::new());
        let queue = Arc::new(Queue { device: device.clone(), state, submitted, taken });
        let seat = device.adversary().map(|adversary| Seat::new(adversary, &queue));
        Self { queue, seat }
    }

    pub(super) fn device(&self) -> &Device {
        &self.queue.device
    }

    /// Work that is queued, not counting what runs.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.state.lock().tasks.len()
    }

    /// Appends work; waits only while the queue is full.
    pub(super) fn submit(&self, task: Task, operation: &'static str) -> Result<()> {
        self.device().check(operation)?;
        match &self.seat {
            None => self.queue.submit(task, operation),
            Some(seat) => {
                seat.hold(task);
                Ok(())
            }
        }
    }

    /// The point behind everything submitted so far.
    pub(super) fn point(&self) -> Result<Arc<Point>> {
        self.device().check("event_record")?;
        match &self.seat {
            None => self.queue.point(),
            Some(seat) => Ok(seat.point(self.device())),
        }
    }

    /// Makes later work run after the point.
    pub(super) fn wait_for(&self, point: Arc<Point>) -> Result<()> {
        if matches!(*point.progress.lock(), Progress::Reached(_)) {
            return self.device().check("stream_wait_event");
        }
        self.submit(Task::Wait(point), "stream_wait_event")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.seat = None;
        self.queue.state.lock().closed = true;
        self.queue.submitted.notify_one();
    }
}

impl Queue {
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Appends work; waits while there is too much.
    fn submit(self: &Arc<Self>, task: Task, operation: &'static str) -> Result<()> {
        let mut state = self.state.lock();
        self.taken.wait_while(&mut state, |state| state.tasks.len() >= FULL);
        self.ensure_worker(&mut state, operation)?;
        self.append(&mut state, task);
        Ok(())
    }

    /// Appends work that was accepted already.
    pub(super) fn push(self: &Arc<Self>, task: Task) {
        let mut state = self.state.lock();
        if let Err(error) = self.ensure_worker(&mut state, "submit") {
            self.device.poison(error.to_string().into());
        }
        self.append(&mut state, task);
    }

    pub(super) fn wait_for_room(&self) {
        self.taken.wait_while(&mut self.state.lock(), |state| state.tasks.len() >= FULL);
    }

    fn point(self: &Arc<Self>) -> Result<Arc<Point>> {
        let point = Arc::new(Point::new(&self.device, None));
        let mut state = self.state.lock();
        if state.tasks.is_empty() && !state.busy {
            point.reach();
        } else {
            self.ensure_worker(&mut state, "event_record")?;
            self.append(&mut state, Task::Reach(Arc::clone(&point)));
        }
        Ok(point)
    }

    fn append(&self, state: &mut State, task: Task) {
        state.tasks.push_back(task);
        self.submitted.notify_one();
    }

    fn ensure_worker(self: &Arc<Self>, state: &mut State, operation: &'static str) -> Result<()> {
        if state.worker {
            return Ok(());
        }
        let queue = Arc::clone(self);
        let refusal = || self.device.error(ErrorKind::Driver { what: "no thread for the stream's worker".into() }, operation);
        let worker = thread::Builder::new().name("polywarp-stream".into()).spawn(move || queue.work());
        worker.map_err(|source| refusal().because(source))?;
        state.worker = true;
        Ok(())
    }

    fn work(&self) {
        while let Some(task) = self.next() {
            // Host functions must not unwind; one that does is a fault, not the end of this worker.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| task.run(&self.device))) {
                self.device.poison(format!("a host function panicked: {}", message(&payload)).into());
                discard(payload);
            }
        }
    }

    /// The next task; `None` when the worker shall leave.
    fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        state.busy = false;
        loop {
            if let Some(task) = state.tasks.pop_front() {
                state.busy = true;
                if state.tasks.len() + 1 == FULL {
                    self.taken.notify_all();
                }
                return Some(task);
            }
            let leave = state.closed || self.submitted.wait_for(&mut state, IDLE).timed_out() && state.tasks.is_empty();
            if leave {
                state.worker = false;
                return None;
            }
        }
    }
}

/// A point of a stream. Whoever waits for it holds it, so later records of its event do not matter.
#[derive(Debug)]
pub(super) struct Point {
    device: Device,
    /// Where an adversary held it.
    place: Option<Place>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    Pending,
    Reached(Instant),
    /// The device was poisoned before the point was reached.
    Failed,
}

impl Point {
    pub(super) fn new(device: &Device, place: Option<Place>) -> Self {
        Self { device: device.clone(), place, progress: Mutex::new(Progress::Pending), changed: Condvar::new() }
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.place
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(*self.progress.lock(), Progress::Pending)
    }

    pub(super) fn reach(&self) {
        let healthy = self.device.poison_cause().is_none();
        *self.progress.lock() = if healthy { Progress::Reached(Instant::now()) } else { Progress::Failed };
        self.changed.notify_all();
    }

    /// Waits until the point is reached; answers the cause if it never will be.
    fn wait(&self) -> Result<(), Text> {
        for _ in 0..SPINS {
            if !matches!(*self.progress.lock(), Progress::Pending) {
                break;
            }
            hint::spin_loop();
        }
        let mut progress = self.progress.lock();
        loop {
            match (*progress, self.device.poison_cause()) {
                (Progress::Reached(_), _) => return Ok(()),
                // Also while a kernel still runs, which may wait for the one that failed.
                (Progress::Pending | Progress::Failed, Some(cause)) => return Err(cause.clone()),
                (Progress::Pending | Progress::Failed, None) => self.changed.wait_for(&mut progress, GLANCE),
            };
        }
    }

    /// Waits at most so long.
    pub(super) fn wait_at_most(&self, patience: Duration) {
        self.changed.wait_while_for(&mut self.progress.lock(), |progress| matches!(progress, Progress::Pending), patience);
    }

    /// The cause as a device sees it that waited for this point.
    fn inherited(&self, cause: &Text) -> Text {
        format!("work of device {} failed that this device waits for: {cause}", self.device.ordinal()).into()
    }
}

/// An event of a [`Host`](super::Host).
///
/// ```
/// use polywarp_core::{backend::{Backend, EventDescriptor}, host::{self, Host}};
/// let host = Host::default();
/// let event: host::Event = host.event_create(&host.device_open(0)?, &EventDescriptor::ordering())?;
/// assert!(host.event_query(&event)?);                         // never recorded: complete
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Event {
    device: Device,
    timing: bool,
    /// `None` until it is recorded.
    point: Mutex<Option<Arc<Point>>>,
}

impl Event {
    pub(super) fn new(device: &Device, descriptor: &EventDescriptor) -> Result<Self> {
        device.check("event_create")?;
        if descriptor.timing {
            device.require(Feature::TimingEvents, "event_create")?;
        }
        Ok(Self { device: device.clone(), timing: descriptor.timing, point: Mutex::new(None) })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn set(&self, point: Arc<Point>) {
        *self.point.lock() = Some(point);
    }

    pub(super) fn point(&self) -> Option<Arc<Point>> {
        self.point.lock().clone()
    }

    pub(super) fn query(&self) -> Result<bool> {
        self.device.check("event_query")?;
        let point = self.point();
        if let (Some(adversary), Some(point)) = (self.device.adversary(), &point) {
            adversary.ask(point);
            self.device.check("event_query")?;
        }
        Ok(point.is_none_or(|point| matches!(*point.progress.lock(), Progress::Reached(_))))
    }

    pub(super) fn wait(&self) -> Result<()> {
        self.device.check("event_wait")?;
        let point = self.point();
        if let (Some(adversary), Some(point)) = (self.device.adversary(), &point) {
            adversary.force(point);
        }
        match point.map(|point| point.wait()) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(_)) => self.device.check("event_wait"),
        }
    }

    pub(super) fn elapsed(&self, end: &Self) -> Result<Duration> {
        self.device.check("event_elapsed")?;
        if !(self.timing && end.timing) {
            let what = "elapsed time needs two events that were created with timing".into();
            return Err(self.device.error(ErrorKind::InvalidArgument { what }, "event_elapsed"));
        }
        let not_ready = || self.device.error(ErrorKind::NotReady, "event_elapsed");
        let start = self.reached_at().ok_or_else(not_ready)?;
        Ok(end.reached_at().ok_or_else(not_ready)?.saturating_duration_since(start))
    }

    fn reached_at(&self) -> Option<Instant> {
        match *self.point()?.progress.lock() {
            Progress::Reached(at) => Some(at),
            Progress::Pending | Progress::Failed => None,
        }
    }
}
