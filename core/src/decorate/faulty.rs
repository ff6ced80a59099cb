//! A backend that fails on request: which call, how, and how often.

use super::{Around, Call, Method, delegate, memory_feature, methods};
use crate::backend::{
    AllocationDescriptor, Backend, CaptureState, CompiledImage, CopyDescriptor, DeviceAddress, DeviceInfo, EventDescriptor, Feature,
    Features, FillDescriptor, Form, FunctionInfo, HostFunction, Image, LaunchDescriptor, MemoryInfo, MemoryKind, Origin,
    PrefetchDescriptor, RawAllocation, SourceDescriptor, StreamDescriptor,
};
use crate::error::Text;
use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The backend `B`, with [faults](Fault) injected. Without any, calls pass unchanged.
///
/// Keep its [`Faults`] when the backend itself is moved away:
///
/// ```
/// use polywarp_core::decorate::{Fault, Faulty, Method};
/// use polywarp_core::{Runtime, host::Host};
///
/// let backend = Faulty::new(Host::default());
/// let faults = backend.faults();
/// let stream = Runtime::new(backend)?.device(0)?.stream()?;
///
/// faults.inject(Fault::refuse(Method::Fill).nth(2));
/// let mut x = stream.upload(&[1u32, 2, 3])?;
/// x.fill(&stream, 4)?;
/// let refused = x.fill(&stream, 5).unwrap_err();
/// assert_eq!((refused.operation(), faults.injected()), ("fill", 1));
/// assert_eq!(x.download(&stream)?, [4; 3]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Faulty<B> {
    inner: B,
    faults: Faults,
}

impl<B> Faulty<B> {
    /// This backend, without faults as yet.
    #[must_use]
    pub fn new(inner: B) -> Self {
        Self { inner, faults: Faults::default() }
    }

    /// The backend inside: calls on it do not fail on request.
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }

    /// What is injected, to keep.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

impl<B: Backend> Around for Faulty<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    #[inline]
    fn around<R: 'static>(&self, call: Call, run: impl FnOnce(&B) -> Result<R>) -> Result<R> {
        if self.faults.0.armed.load(Relaxed) { self.attempt(call, run) } else { run(&self.inner) }
    }
}

impl<B: Backend> Faulty<B> {
    #[cold]
    fn attempt<R: 'static>(&self, call: Call, run: impl FnOnce(&B) -> Result<R>) -> Result<R> {
        let error = |kind| Error::new(kind, call.method.name()).on(self.inner.name(), None);
        match self.faults.meet(call) {
            None => run(&self.inner).map(|answer| self.faults.hide_from(answer)),
            Some((Way::Refuse, kind)) => Err(error(kind)),
            Some((Way::Fail, kind)) => run(&self.inner).and_then(|_lost| Err(error(kind))),
            Some((Way::Null, kind)) => memory_at_null(call.bytes).ok_or_else(|| error(kind)),
        }
    }
}

delegate!(Faulty);

/// Memory at address null, if that is what the call answers.
fn memory_at_null<R: 'static>(bytes: u64) -> Option<R> {
    let mut answer: Option<R> = None;
    if let Some(answer) = (&mut answer as &mut dyn Any).downcast_mut() {
        *answer = Some(RawAllocation { address: DeviceAddress(0), host: ptr::null_mut(), bytes, kind: MemoryKind::Device });
    }
    answer
}

/// One fault: which calls of which method it meets, and what becomes of them.
///
/// It meets every call from its [injection](Faults::inject) on, unless told otherwise.
///
/// ```
/// use polywarp_core::ErrorKind;
/// use polywarp_core::decorate::{Fault, Method};
/// let rare = Fault::refuse(Method::Launch).chance(0.01, 42);          // each call by chance, the same with the same seed
/// let twice = Fault::fail(Method::Copy).every(3).times(2);            // the third call and the sixth
/// let kind = ErrorKind::DevicePoisoned { cause: "an illegal address".into(), suspects: Vec::new() };
/// let fatal = Fault::refuse(Method::EventWait).answering(kind);       // from the first wait on, everything
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing before it is injected"]
pub struct Fault {
    method: Method,
    way: Way,
    kind: ErrorKind,
    when: When,
    /// How often it still happens.
    times: u64,
    /// Calls of the method since it was injected.
    calls: u64,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Refuse,
    Fail,
    Null,
}

#[derive(Clone, Debug)]
enum When {
    Nth(u64),
    Every(u64),
    Chance(f64, u64),
}

impl Fault {
    fn new(method: Method, way: Way) -> Self {
        let kind = ErrorKind::Driver { what: "a fault was injected".into() };
        Self { method, way, kind, when: When::Every(1), times: u64::MAX, calls: 0 }
    }

    /// The call answers an error, and nothing happened.
    ///
    /// ```
    /// # use polywarp_core::decorate::{Fault, Faulty, Method};
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let backend = Faulty::new(Host::default());
    /// # let faults = backend.faults();
    /// # let device = Runtime::new(backend)?.device(0)?;
    /// faults.inject(Fault::refuse(Method::StreamCreate));
    /// assert_eq!(device.stream().unwrap_err().operation(), "stream_create");
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn refuse(method: Method) -> Self {
        Self::new(method, Way::Refuse)
    }

    /// The call answers an error, although it happened: what was made is lost, what was submitted runs.
    ///
    /// ```
    /// # use polywarp_core::decorate::{Counting, Fault, Faulty, Method};
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let backend = Faulty::new(Counting::new(Host::default()));
    /// # let (faults, tally) = (backend.faults(), backend.inner().tally());
    /// # let device = Runtime::new(backend)?.device(0)?;
    /// faults.inject(Fault::fail(Method::Allocate));
    /// assert!(device.alloc::<u8>(4096).is_err());
    /// assert_eq!(tally.counts().live().bytes, 4096);                      // the driver keeps the memory
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn fail(method: Method) -> Self {
        Self::new(method, Way::Fail)
    }

    /// `allocate` answers success and the address null.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::decorate::{Fault, Faulty};
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let backend = Faulty::new(Host::default());
    /// # let faults = backend.faults();
    /// # let device = Runtime::new(backend)?.device(0)?;
    /// faults.inject(Fault::null_address());
    /// let refused = device.alloc::<u8>(4096).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::OutOfMemory { requested: 4096, .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn null_address() -> Self {
        Self::new(Method::Allocate, Way::Null)
    }

    /// Answers this kind of error. After [`DevicePoisoned`](ErrorKind::DevicePoisoned) every later call answers the same; see
    /// [`Faults::poison`].
    pub fn answering(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Answers [`OutOfMemory`](ErrorKind::OutOfMemory) without figures, as drivers do.
    ///
    /// ```
    /// # use polywarp_core::decorate::{Fault, Faulty, Method};
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let backend = Faulty::new(Host::default());
    /// # let faults = backend.faults();
    /// # let device = Runtime::new(backend)?.device(0)?;
    /// drop(device.alloc::<u8>(4096)?);                                    // held for reuse
    /// faults.inject(Fault::refuse(Method::Allocate).out_of_memory().nth(1));
    /// device.alloc::<u8>(8192)?;                                          // returns what was held, and asks again
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn out_of_memory(self) -> Self {
        self.answering(ErrorKind::OutOfMemory { requested: 0, free: 0, total: 0, held: 0 })
    }

    /// Meets the n-th call alone, counted from 1.
    pub fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Meets every n-th call: 3 meets the third, the sixth, and so on.
    pub fn every(mut self, n: u64) -> Self {
        self.when = When::Every(n);
        self
    }

    /// Meets each call with this probability; the same calls with the same seed.
    pub fn chance(mut self, probability: f64, seed: u64) -> Self {
        self.when = When::Chance(probability, seed);
        self
    }

    /// Happens so often at most.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Counts a call; whether it is met.
    fn meets(&mut self, method: Method) -> bool {
        if method != self.method || self.times == 0 {
            return false;
        }
        self.calls += 1;
        let met = match &mut self.when {
            When::Nth(n) => self.calls == *n,
            When::Every(n) => *n != 0 && self.calls.is_multiple_of(*n),
            When::Chance(probability, state) => unit(state) < *probability,
        };
        self.times -= u64::from(met);
        met
    }
}

/// The next number of `SplitMix64`, as a fraction of 1.
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) as f64 / u64::MAX as f64
}

/// What is injected into a [`Faulty`] backend: cheap to clone, all clones are the same.
///
/// ```
/// use polywarp_core::decorate::{Fault, Faulty, Method, Nop};
/// use polywarp_core::backend::Backend;
/// let backend = Faulty::new(Nop::default());
/// let faults = backend.faults();
/// faults.inject(Fault::refuse(Method::MemoryInfo));
/// assert!(backend.memory_info(&()).is_err());
/// faults.clear();
/// assert!(backend.memory_info(&()).is_ok());
/// assert_eq!(faults.injected(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether there is a plan at all.
    armed: AtomicBool,
    injected: AtomicU64,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    faults: Vec<Fault>,
    poison: Option<Text>,
    hidden: Features,
}

impl Faults {
    /// From now on this fault happens. Of several that meet a call, the one injected first happens.
    pub fn inject(&self, fault: Fault) {
        self.change(|plan| plan.faults.push(fault));
    }

    /// From now on every call answers [`DevicePoisoned`](ErrorKind::DevicePoisoned), and nothing happens: a sticky error. Counting and
    /// opening devices goes on.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::decorate::Faulty;
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let backend = Faulty::new(Host::default());
    /// # let faults = backend.faults();
    /// # let device = Runtime::new(backend)?.device(0)?;
    /// faults.poison("an illegal address");
    /// assert!(matches!(device.stream().unwrap_err().kind(), ErrorKind::DevicePoisoned { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn poison(&self, cause: impl Into<Text>) {
        self.change(|plan| plan.poison = Some(cause.into()));
    }

    /// From now on the devices lack this capability: it is not among their features, and what needs it answers
    /// [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::backend::Feature;
    /// # use polywarp_core::decorate::Faulty;
    /// # use polywarp_core::{Runtime, host::Host};
    /// let backend = Faulty::new(Host::default());
    /// backend.faults().hide(Feature::TimingEvents);
    /// let device = Runtime::new(backend)?.device(0)?;
    /// assert!(!device.info().features.contains(Feature::TimingEvents));
    /// assert!(matches!(device.timing_event().unwrap_err().kind(), ErrorKind::Unsupported { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn hide(&self, feature: Feature) {
        self.change(|plan| plan.hidden = plan.hidden.with(feature));
    }

    /// From now on nothing fails any more.
    pub fn clear(&self) {
        let mut plan = self.0.plan.lock();
        *plan = Plan::default();
        self.0.armed.store(false, Relaxed);
    }

    /// How many calls were met so far.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.0.injected.load(Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.0.plan.lock();
        change(&mut plan);
        self.0.armed.store(true, Relaxed);
    }

    /// What becomes of this call, if a fault meets it.
    fn meet(&self, call: Call) -> Option<(Way, ErrorKind)> {
        let met = self.0.plan.lock().meet(call);
        self.0.injected.fetch_add(u64::from(met.is_some()), Relaxed);
        met
    }

    /// The answer without hidden capabilities.
    fn hide_from<R: 'static>(&self, mut answer: R) -> R {
        if let Some(info) = (&mut answer as &mut dyn Any).downcast_mut::<DeviceInfo>() {
            let hidden = self.0.plan.lock().hidden;
            info.features = info.features.iter().filter(|&feature| !hidden.contains(feature)).collect();
        }
        answer
    }
}

impl Plan {
    fn meet(&mut self, Call { method, needs, .. }: Call) -> Option<(Way, ErrorKind)> {
        let of_a_device = !matches!(method, Method::DeviceCount | Method::DeviceOpen);
        if let (true, Some(cause)) = (of_a_device, &self.poison) {
            return Some((Way::Refuse, ErrorKind::DevicePoisoned { cause: cause.clone(), suspects: Vec::new() }));
        }
        if let Some(feature) = needs.filter(|&feature| self.hidden.contains(feature)) {
            return Some((Way::Refuse, ErrorKind::Unsupported { feature }));
        }
        // Each counts the call, whichever happens.
        let met = self.faults.iter_mut().filter_map(|fault| fault.meets(method).then(|| (fault.way, fault.kind.clone())));
        let met = met.collect::<Vec<_>>().into_iter().next()?;
        if let ErrorKind::DevicePoisoned { cause, .. } = &met.1 {
            self.poison = Some(cause.clone());
        }
        Some(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::{Counting, Counts, Nop};

    type Subject = Faulty<Counting<Nop>>;

    fn subject() -> (Subject, Faults) {
        let backend = Faulty::new(Counting::new(Nop::default()));
        let faults = backend.faults();
        (backend, faults)
    }

    /// Which of so many queries fail, counted from 1.
    fn failing(backend: &Subject, calls: u64) -> Vec<u64> {
        (1..=calls).filter(|_| backend.event_query(&()).is_err()).collect()
    }

    fn inside(backend: &Subject) -> Counts {
        backend.inner().counts()
    }

    #[test]
    fn without_faults_every_call_passes() {
        let (backend, faults) = subject();
        assert_eq!(failing(&backend, 5), []);
        assert_eq!((faults.injected(), inside(&backend)[Method::EventQuery]), (0, 5));
    }

    #[test]
    fn the_nth_call_is_counted_from_the_injection() {
        let (backend, faults) = subject();
        assert_eq!(failing(&backend, 2), []);
        faults.inject(Fault::refuse(Method::EventQuery).nth(3));
        assert!(backend.event_wait(&()).is_ok());
        assert_eq!(failing(&backend, 9), [3]);
        assert_eq!(inside(&backend)[Method::EventQuery], 10, "the refused one did not arrive");
    }

    #[test]
    fn every_nth_call_fails_so_often_at_most() {
        let (backend, faults) = subject();
        faults.inject(Fault::refuse(Method::EventQuery).every(2).times(2));
        assert_eq!(failing(&backend, 9), [2, 4]);
        faults.clear();
        faults.inject(Fault::refuse(Method::EventQuery).every(0));
        assert_eq!(failing(&backend, 9), []);
    }

    #[test]
    fn chance_repeats_with_its_seed() {
        let draw = |seed, probability| {
            let (backend, faults) = subject();
            faults.inject(Fault::refuse(Method::EventQuery).chance(probability, seed));
            failing(&backend, 1000)
        };
        assert_eq!(draw(1, 0.3), draw(1, 0.3));
        assert_ne!(draw(1, 0.3), draw(2, 0.3));
        assert!((200..400).contains(&draw(1, 0.3).len()));
        assert_eq!((draw(1, 0.0).len(), draw(1, 1.0).len()), (0, 1000));
    }

    #[test]
    fn several_faults_count_side_by_side() {
        let (backend, faults) = subject();
        faults.inject(Fault::refuse(Method::EventQuery).nth(2));
        faults.inject(Fault::refuse(Method::EventQuery).every(3));
        assert_eq!(failing(&backend, 7), [2, 3, 6]);
    }

    #[test]
    fn what_fails_afterwards_happened() {
        let (backend, faults) = subject();
        faults.inject(Fault::fail(Method::EventCreate).nth(1));
        let error = backend.event_create(&(), &EventDescriptor::ordering()).expect_err("injected");
        assert_eq!(error.operation(), "event_create");
        assert_eq!(inside(&backend).live().events, 1);
        faults.inject(Fault::fail(Method::DeviceOpen));
        let error = backend.device_open(7).expect_err("there is one device");
        assert!(matches!(error.kind(), ErrorKind::NoSuchDevice { .. }), "the backend's own error goes first: {error}");
    }

    #[test]
    fn memory_at_null_is_a_success_that_made_nothing() -> Result<()> {
        let backend = Counting::new(Faulty::new(Nop::default()));
        backend.inner().faults().inject(Fault::null_address().nth(1));
        let descriptor = AllocationDescriptor::new(512, MemoryKind::Device);
        let memory = backend.allocate(&(), &descriptor)?;
        assert_eq!((memory.address.0, memory.bytes), (0, 512));
        assert_eq!((backend.counts().failures(Method::Allocate), backend.counts().live().bytes), (1, 0));
        assert_ne!(backend.allocate(&(), &descriptor)?.address.0, 0);
        assert_eq!(backend.counts().live().bytes, 512);
        Ok(())
    }

    #[test]
    fn a_sticky_error_stays() {
        let (backend, faults) = subject();
        let kind = ErrorKind::DevicePoisoned { cause: "as planned".into(), suspects: Vec::new() };
        faults.inject(Fault::refuse(Method::EventWait).answering(kind.clone()).nth(2));
        assert!(backend.event_wait(&()).is_ok() && backend.event_query(&()).is_ok());
        assert!(backend.event_wait(&()).is_err());
        assert_eq!(backend.event_query(&()).expect_err("sticky").kind(), &kind);
        assert!(backend.device_count().is_ok() && backend.device_open(0).is_ok());
    }

    #[test]
    fn a_hidden_capability_is_gone_and_refused() -> Result<()> {
        let (backend, faults) = subject();
        assert!(backend.device_info(&())?.features.contains(Feature::Graphs));
        faults.hide(Feature::Graphs);
        assert!(!backend.device_info(&())?.features.contains(Feature::Graphs));
        let error = backend.graph_create(&()).expect_err("hidden");
        assert_eq!(error.kind(), &ErrorKind::Unsupported { feature: Feature::Graphs });
        faults.hide(Feature::TimingEvents);
        assert!(backend.event_create(&(), &EventDescriptor::ordering()).is_ok());
        assert!(backend.event_create(&(), &EventDescriptor::timing()).is_err());
        Ok(())
    }
}
