//! What a case works with.

use crate::kernels::{self, Kernels};
use polywarp_core::backend::Backend;
use polywarp_core::decorate::{Counts, Faults, Tally};
use polywarp_core::gate::Gate;
use polywarp_core::{Device, Element, Prepared, Program, Result, Runtime, SpanMut, Stream};
use std::any::Any;

/// Round trips to the device before a gate is opened.
const PROBES: u32 = 8;

/// A freshly opened backend, and what cases do again and again.
///
/// ```
/// use polywarp_conformance::Context;
/// use polywarp_core::{Result, backend::Backend};
/// /// A case: a launch on one stream is seen by a download on another.
/// fn launch_is_seen<B: Backend>(cx: &Context<B>) -> Result<()> {
///     let [a, b] = cx.streams()?;
///     let data = cx.data(100);
///     let mut x = a.upload(&data)?;
///     cx.kernels.add_one.launch(&a, 100, (x.span_mut(),))?;
///     assert_eq!(x.download(&b)?, polywarp_conformance::kernels::reference::add_each(&data, 1));
///     Ok(())
/// }
/// ```
pub struct Context<B: Backend> {
    /// The opened backend.
    pub runtime: Runtime<B>,
    /// The device to be tested.
    pub device: Device<B>,
    /// The suite's kernels on that device.
    pub kernels: Kernels<B>,
    /// The case's seed.
    pub seed: u64,
    /// What makes calls fail; nothing yet.
    pub faults: Faults,
    program: Program,
    tally: Tally,
}

impl<B: Backend> std::fmt::Debug for Context<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("device", &self.device).field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl<B: Backend> Context<B> {
    pub(crate) fn new(
        runtime: Runtime<B>,
        device: Device<B>,
        program: Program,
        (tally, faults): (Tally, Faults),
        seed: u64,
    ) -> Result<Self> {
        let kernels = kernels::load(&device, &program)?;
        Ok(Self { runtime, device, kernels, seed, faults, program, tally })
    }

    /// A new stream of the device.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn stream(&self) -> Result<Stream<B>> {
        self.device.stream()
    }

    /// So many new streams of the device.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Panics
    /// Never: there are as many as asked for.
    pub fn streams<const N: usize>(&self) -> Result<[Stream<B>; N]> {
        let streams = (0..N).map(|_| self.stream()).collect::<Result<Vec<_>>>()?;
        Ok(streams.try_into().unwrap_or_else(|_| unreachable!("as many as asked for")))
    }

    /// The suite's kernels in every form, to be loaded anew.
    ///
    /// ```
    /// use polywarp_conformance::Context;
    /// use polywarp_core::{Module, Result, backend::Backend};
    /// fn modules_load_twice<B: Backend>(cx: &Context<B>) -> Result<()> {
    ///     Module::load(&cx.device, cx.program())?.function("axpy").map(drop)
    /// }
    /// ```
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Another device, and the suite's kernels there.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// ```
    /// use polywarp_conformance::Context;
    /// use polywarp_core::{Result, backend::Backend};
    /// fn devices_are_two<B: Backend>(cx: &Context<B>) -> Result<()> {  // a case with `.devices(2)`
    ///     let (other, kernels) = cx.other_device()?;
    ///     assert!(other != cx.device && *kernels.fill.device() == other);
    ///     Ok(())
    /// }
    /// ```
    pub fn other_device(&self) -> Result<(Device<B>, Kernels<B>)> {
        let device = self.runtime.device((self.device.ordinal() + 1) % self.runtime.device_count())?;
        let kernels = kernels::load(&device, &self.program)?;
        Ok((device, kernels))
    }

    /// Holds a stream at a closed gate: what is submitted to it from now on does not start until the gate is opened.
    ///
    /// # Errors
    /// [`Unsupported`](polywarp_core::ErrorKind::Unsupported) without host functions.
    ///
    /// ```
    /// use polywarp_conformance::Context;
    /// use polywarp_core::{Result, backend::Backend};
    /// fn reads_wait_for_writes<B: Backend>(cx: &Context<B>) -> Result<()> {
    ///     let [a, b] = cx.streams()?;
    ///     let mut x = a.zeros(64)?;
    ///     let held = cx.hold(&a)?;                                // a: [gate]
    ///     cx.kernels.fill.launch(&a, 64, (x.span_mut(), 7))?;     // a: [gate, fill]
    ///     let read = x.as_slice().start_download(&b)?;            // b: [read]
    ///     held.open()?;                                           // a wrong read would have been done by now
    ///     assert_eq!(read.wait()?, [7; 64]);
    ///     Ok(())
    /// }
    /// ```
    pub fn hold(&self, stream: &Stream<B>) -> Result<Held<B>> {
        let free = self.stream()?;
        let probe = self.kernels.fill.prepared((self.device.alloc(1)?.span_mut(), 0))?;
        probe.launch(&free, 1)?;
        free.wait()?;
        let gate = Gate::new();
        let function = gate.function();
        stream.host_function(move || function.call())?;
        Ok(Held { gate, free, probe })
    }

    /// The backend calls that `work` makes.
    ///
    /// # Errors
    /// Those of the work.
    ///
    /// ```
    /// use polywarp_conformance::Context;
    /// use polywarp_core::{Result, backend::Backend, decorate::Method};
    /// fn a_launch_is_one_call<B: Backend>(cx: &Context<B>) -> Result<()> {
    ///     let stream = cx.stream()?;
    ///     let mut x = stream.zeros(64)?;
    ///     let calls = cx.calls(|| cx.kernels.fill.launch(&stream, 64, (x.span_mut(), 7)))?;
    ///     assert_eq!((calls[Method::Launch], calls.total()), (1, 1));
    ///     Ok(())
    /// }
    /// ```
    pub fn calls(&self, work: impl FnOnce() -> Result<()>) -> Result<Counts> {
        let before = self.counts();
        work()?;
        Ok(self.counts().since(&before))
    }

    /// The backend calls so far.
    ///
    /// ```
    /// use polywarp_conformance::Context;
    /// use polywarp_core::{Result, backend::Backend};
    /// fn closing_leaks_nothing<B: Backend>(cx: &Context<B>) -> Result<()> {
    ///     let before = cx.counts();
    ///     drop(cx.stream()?.zeros::<u8>(64)?);
    ///     println!("{}", cx.counts().since(&before));
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    /// So many random elements; the same in every run with the same seed.
    ///
    /// ```
    /// use polywarp_conformance::Context;
    /// use polywarp_core::{Result, backend::Backend};
    /// fn upload_and_download<B: Backend>(cx: &Context<B>) -> Result<()> {
    ///     let (stream, data) = (cx.stream()?, cx.data(1000));
    ///     assert_eq!(stream.upload(&data)?.download(&stream)?, data);
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn data(&self, len: usize) -> Vec<u32> {
        let mut random = self.random();
        std::iter::repeat_with(|| random.u32(..)).take(len).collect()
    }

    /// Random numbers; the same in every run with the same seed.
    ///
    /// ```
    /// use polywarp_conformance::Context;
    /// use polywarp_core::{Result, backend::Backend};
    /// fn any_length<B: Backend>(cx: &Context<B>) -> Result<()> {
    ///     let (stream, len) = (cx.stream()?, cx.random().usize(..1 << 16));
    ///     assert_eq!(stream.zeros::<u8>(len)?.len(), len);
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// Lets everything of the case go and looks at what is left.
    pub(crate) fn close(self) -> (Tally, Result<()>) {
        let Self { runtime, device, kernels, faults, tally, .. } = self;
        faults.clear();
        drop((device, kernels));
        (tally, runtime.close())
    }
}

/// A closed gate that a stream waits at; opened by [`open`](Self::open) or by dropping it.
///
/// ```
/// use polywarp_conformance::Context;
/// use polywarp_core::{Result, backend::Backend};
/// fn a_held_stream_does_not_complete<B: Backend>(cx: &Context<B>) -> Result<()> {
///     let stream = cx.stream()?;
///     let held = cx.hold(&stream)?;
///     let x = stream.zeros::<u32>(64)?;
///     assert!(!stream.is_complete()?);
///     held.open()?;
///     stream.wait()
/// }
/// ```
#[derive(Debug)]
pub struct Held<B: Backend> {
    gate: Gate,
    /// A stream of its own, not held.
    free: Stream<B>,
    probe: Prepared<B, (SpanMut<u32>, u32)>,
}

impl<B: Backend> Held<B> {
    /// Lets the stream go on, after a while in which whatever should wait for it, and does not, has run.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn open(self) -> Result<()> {
        let rounds = |_| self.probe.launch(&self.free, 1).and_then(|()| self.free.wait());
        (0..PROBES).try_for_each(rounds)?;
        self.gate.open();
        Ok(())
    }
}

/// Why a thread ended early.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).into(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".into(),
    }
}

/// The bytes of a value as a kernel receives them: padding is zero.
pub(crate) fn bytes_of<T: Element>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<T>()];
    #[allow(unsafe_code, reason = "storing writes through a pointer")]
    // SAFETY: there are as many zeroed bytes as the value has.
    unsafe {
        value.store(bytes.as_mut_ptr());
    }
    bytes
}
