//! A backend that counts: which methods were called how often, what failed, and what is still alive.

use super::{Around, Call, Method, delegate, memory_feature, methods};
use crate::Result;
use crate::backend::{
    AllocationDescriptor, Backend, CaptureState, CompiledImage, CopyDescriptor, DeviceAddress, DeviceInfo, EventDescriptor, Feature,
    FillDescriptor, Form, FunctionInfo, HostFunction, Image, LaunchDescriptor, MemoryInfo, Origin, PrefetchDescriptor, RawAllocation,
    SourceDescriptor, StreamDescriptor,
};
use std::any::Any;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The backend `B`, with every fallible call counted. Results and errors pass unchanged.
///
/// Keep a [`Tally`] when the backend itself is moved away:
///
/// ```
/// use polywarp_core::backend::{AllocationDescriptor, Backend, MemoryKind};
/// use polywarp_core::decorate::{Counting, Method, Nop};
///
/// let backend = Counting::new(Nop::default());
/// let tally = backend.tally();
/// let device = backend.device_open(0)?;
///
/// let before = tally.counts();
/// backend.allocate(&device, &AllocationDescriptor::new(1024, MemoryKind::Device))?;
/// let counts = tally.counts().since(&before);
/// assert_eq!(counts[Method::Allocate], 1);
/// assert_eq!(counts.to_string(), "allocate 1");
/// assert_eq!(counts.live().bytes, 1024);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Counting<B> {
    inner: B,
    tally: Tally,
}

impl<B> Counting<B> {
    /// Counts the calls of this backend.
    #[must_use]
    pub fn new(inner: B) -> Self {
        Self { inner, tally: Tally::default() }
    }

    /// The backend inside: calls on it are not counted.
    ///
    /// ```
    /// use polywarp_core::{backend::Backend, decorate::{Counting, Method, Nop}};
    /// let backend = Counting::new(Nop::default());
    /// backend.inner().device_open(0)?;                            // past the counters
    /// assert_eq!(backend.counts().total(), 0);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }

    /// The counters, to keep.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally.clone()
    }

    /// What has been counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }
}

impl<B: Backend> Around for Counting<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    #[inline]
    fn around<R: 'static>(&self, call: Call, run: impl FnOnce(&B) -> Result<R>) -> Result<R> {
        let counter = &self.tally.0[call.method as usize];
        counter.add(call.bytes);
        let result = run(&self.inner);
        if result.as_ref().map_or(true, |made| call.bytes != 0 && is_null(made)) {
            counter.add_failure(call.bytes);
        }
        result
    }
}

delegate!(Counting);

/// Memory at no address was not made, whatever the backend says.
#[inline]
fn is_null<R: 'static>(made: &R) -> bool {
    (made as &dyn Any).downcast_ref::<RawAllocation>().is_some_and(|memory| memory.address.0 == 0)
}

const METHODS: usize = Method::ALL.len();

/// The counters of a [`Counting`] backend: cheap to clone, all clones show the same.
///
/// ```
/// use polywarp_core::{Runtime, decorate::{Counting, Method}, host::Host};
/// let backend = Counting::new(Host::default());
/// let tally = backend.tally();
/// let device = Runtime::new(backend)?.device(0)?;             // the backend is gone from here, the tally is not
/// let (a, b) = (device.stream()?, device.stream()?);
/// let mut x = a.zeros::<u32>(16)?;
/// let before = tally.counts();
/// x.fill(&b, 1)?;
/// assert_eq!(tally.counts().since(&before)[Method::StreamWaitEvent], 1);      // what handing over costs
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tally(Arc<[Counter; METHODS]>);

#[derive(Debug, Default)]
struct Counter {
    calls: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    failed_bytes: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self(Arc::new(std::array::from_fn(|_| Counter::default())))
    }
}

impl Tally {
    /// What has been counted so far.
    ///
    /// Calls that other threads make meanwhile may be counted in part.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts(std::array::from_fn(|i| self.0[i].load()))
    }
}

impl Counter {
    /// Most methods move no bytes and pay for one counter only.
    #[inline]
    fn add(&self, bytes: u64) {
        self.calls.fetch_add(1, Relaxed);
        if bytes != 0 {
            self.bytes.fetch_add(bytes, Relaxed);
        }
    }

    #[cold]
    fn add_failure(&self, bytes: u64) {
        self.failures.fetch_add(1, Relaxed);
        self.failed_bytes.fetch_add(bytes, Relaxed);
    }

    fn load(&self) -> Count {
        let Self { calls, failures, bytes, failed_bytes } = self;
        Count {
            calls: calls.load(Relaxed),
            failures: failures.load(Relaxed),
            bytes: bytes.load(Relaxed),
            failed_bytes: failed_bytes.load(Relaxed),
        }
    }
}

/// What was counted up to a moment, or [between two](Self::since). Indexed by [`Method`] it answers the calls, failed ones included.
///
/// `Display` and `Debug` list what is not zero, failures in brackets, such as `launch 3 (1 failed), event_record 1`; `nothing` if all
/// is zero.
///
/// ```
/// use polywarp_core::decorate::{Counts, Method};
/// let counts = Counts::default();
/// assert_eq!(counts[Method::Launch], 0);
/// assert_eq!(counts.to_string(), "nothing");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Counts([Count; METHODS]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    calls: u64,
    failures: u64,
    bytes: u64,
    failed_bytes: u64,
}

impl Default for Counts {
    /// Nothing.
    fn default() -> Self {
        Self([Count::default(); METHODS])
    }
}

impl Counts {
    /// What has happened since `earlier`, a count of the same backend.
    ///
    /// ```
    /// use polywarp_core::{backend::Backend, decorate::{Counting, Method, Nop}};
    /// let backend = Counting::new(Nop::default());
    /// backend.device_open(0)?;
    /// let before = backend.counts();
    /// backend.device_count()?;
    /// assert_eq!(backend.counts().since(&before).to_string(), "device_count 1");
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].since(earlier.0[i])))
    }

    /// Calls of all methods.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| count.calls).sum()
    }

    /// Calls of this method that answered an error; memory at address null is one.
    ///
    /// ```
    /// use polywarp_core::{backend::Backend, decorate::{Counting, Method, Nop}};
    /// let backend = Counting::new(Nop::default());
    /// assert!(backend.device_open(7).is_err());
    /// let counts = backend.counts();
    /// assert_eq!((counts[Method::DeviceOpen], counts.failures(Method::DeviceOpen), counts.total_failures()), (1, 1, 1));
    /// assert_eq!(counts.to_string(), "device_open 1 (1 failed)");
    /// ```
    #[must_use]
    pub const fn failures(&self, method: Method) -> u64 {
        self.0[method as usize].failures
    }

    /// Calls of all methods that answered an error.
    #[must_use]
    pub fn total_failures(&self) -> u64 {
        self.0.iter().map(|count| count.failures).sum()
    }

    /// What was made and not given back. What failed to be made does not count; giving back counts even if it failed.
    ///
    /// Between two counts it is the change, which may be negative.
    ///
    /// ```
    /// use polywarp_core::{backend::Backend, decorate::{Counting, Method, Nop}};
    /// let backend = Counting::new(Nop::default());
    /// let device = backend.device_open(0)?;
    /// let stream = backend.stream_create(&device, &Default::default())?;
    /// assert_eq!(backend.counts().live().streams, 1);
    /// // SAFETY: nothing was submitted to it, and it is given back once.
    /// unsafe { backend.stream_destroy(stream) }?;
    /// assert_eq!(backend.counts().live().streams, 0);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn live(&self) -> Live {
        use Method::*;
        Live {
            allocations: self.made(&[Allocate]) - self.gone(Free),
            bytes: self.bytes(Allocate).wrapping_sub(self.0[Free as usize].bytes).cast_signed(),
            registrations: self.made(&[HostRegister]) - self.gone(HostUnregister),
            streams: self.made(&[StreamCreate]) - self.gone(StreamDestroy),
            events: self.made(&[EventCreate]) - self.gone(EventDestroy),
            modules: self.made(&[ModuleLoad]) - self.gone(ModuleUnload),
            graphs: self.made(&[GraphCreate, CaptureEnd]) - self.gone(GraphDestroy),
            executables: self.made(&[GraphInstantiate]) - self.gone(ExecutableDestroy),
        }
    }

    fn made(&self, by: &[Method]) -> i64 {
        by.iter().map(|&method| (self[method] - self.failures(method)).cast_signed()).sum()
    }

    fn gone(&self, by: Method) -> i64 {
        self[by].cast_signed()
    }

    fn bytes(&self, by: Method) -> u64 {
        self.0[by as usize].bytes.wrapping_sub(self.0[by as usize].failed_bytes)
    }
}

impl Count {
    /// Wraps, so that two counts in the wrong order, or one taken while a call was half counted, do not panic.
    const fn since(self, earlier: Self) -> Self {
        Self {
            calls: self.calls.wrapping_sub(earlier.calls),
            failures: self.failures.wrapping_sub(earlier.failures),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            failed_bytes: self.failed_bytes.wrapping_sub(earlier.failed_bytes),
        }
    }
}

impl Index<Method> for Counts {
    type Output = u64;

    fn index(&self, method: Method) -> &u64 {
        &self.0[method as usize].calls
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for &method in Method::ALL {
            let Count { calls, failures, .. } = self.0[method as usize];
            if calls != 0 {
                write!(f, "{separator}{method} {calls}")?;
                separator = ", ";
            }
            if failures != 0 {
                write!(f, " ({failures} failed)")?;
            }
        }
        if separator.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counts({self})")
    }
}

/// How many things of each kind are alive; see [`Counts::live`].
///
/// ```
/// use polywarp_core::decorate::{Counts, Live};
/// assert_eq!(Counts::default().live(), Live::default()); // nothing leaked
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Allocations.
    pub allocations: i64,
    /// Bytes of all allocations.
    pub bytes: i64,
    /// Registrations of host memory.
    pub registrations: i64,
    /// Streams.
    pub streams: i64,
    /// Events.
    pub events: i64,
    /// Modules.
    pub modules: i64,
    /// Graphs under construction, captured ones included.
    pub graphs: i64,
    /// Graphs that can be launched.
    pub executables: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Geometry, MemoryKind};
    use crate::decorate::Nop;
    use std::panic::Location;

    fn backend() -> Counting<Nop> {
        Counting::new(Nop::default())
    }

    fn origin() -> Origin<'static> {
        Origin { accesses: &[], caller: Location::caller() }
    }

    #[test]
    fn every_method_has_a_counter_of_its_own() {
        for (i, &method) in Method::ALL.iter().enumerate() {
            assert_eq!(method as usize, i);
        }
    }

    #[test]
    fn calls_are_counted_per_method_and_in_all() -> Result<()> {
        let backend = backend();
        backend.device_open(0)?;
        let before = backend.counts();
        backend.function(&(), "f")?;
        for _ in 0..3 {
            // SAFETY: nothing runs.
            unsafe { backend.launch(&(), &(), &LaunchDescriptor::new(Geometry::new([1; 3], [1; 3]), &[], &[], origin()))? };
        }
        let counts = backend.counts().since(&before);
        assert_eq!((counts[Method::Function], counts[Method::Launch], counts.total()), (1, 3, 4));
        assert_eq!(format!("{counts:?}"), "Counts(function 1, launch 3)");
        Ok(())
    }

    #[test]
    fn failures_pass_unchanged_and_are_counted() {
        let backend = backend();
        let error = backend.device_open(7).expect_err("there is one device");
        let plain = Nop::default().device_open(7).expect_err("there is one device");
        assert_eq!(error.to_string(), plain.to_string());
        assert!(backend.device_open(0).is_ok());
        let counts = backend.counts();
        assert_eq!((counts[Method::DeviceOpen], counts.failures(Method::DeviceOpen), counts.total_failures()), (2, 1, 1));
        assert_eq!(counts.to_string(), "device_open 2 (1 failed)");
    }

    #[test]
    fn what_is_given_back_is_no_longer_alive() -> Result<()> {
        let backend = backend();
        let memory = backend.allocate(&(), &AllocationDescriptor::new(1000, MemoryKind::Device))?;
        backend.stream_create(&(), &StreamDescriptor::new(0))?;
        backend.event_create(&(), &EventDescriptor::ordering())?;
        let graph = backend.graph_create(&())?;
        backend.graph_instantiate(&graph)?;
        let live = Live { allocations: 1, bytes: 1000, streams: 1, events: 1, graphs: 1, executables: 1, ..Live::default() };
        assert_eq!(backend.counts().live(), live);

        // SAFETY: it is given back once, and nothing runs.
        unsafe { backend.free(&(), memory)? };
        // SAFETY: as above.
        unsafe { backend.stream_destroy(())? };
        // SAFETY: as above.
        unsafe { backend.event_destroy(())? };
        // SAFETY: as above.
        unsafe { backend.executable_destroy(())? };
        backend.graph_destroy(graph)?;
        assert_eq!(backend.counts().live(), Live::default());
        Ok(())
    }

    #[test]
    fn what_was_not_made_is_not_alive() {
        let backend = backend();
        assert!(backend.allocate(&(), &AllocationDescriptor::new(1000, MemoryKind::Pinned)).is_err());
        assert!(backend.stream_create(&(), &StreamDescriptor::legacy()).is_err());
        assert_eq!(backend.counts().live(), Live::default());
    }

    #[test]
    fn a_tally_outlives_the_backend_and_counts_all_threads() {
        let backend = backend();
        let tally = backend.tally();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..100).for_each(|_| drop(backend.event_query(&()))));
            }
        });
        drop(backend);
        assert_eq!(tally.counts().to_string(), "event_query 200");
    }
}
