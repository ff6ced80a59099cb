//! What a case works with.

use crate::kernels::{self, Kernels};
use polywarp_core::backend::Backend;
use polywarp_core::decorate::{Counts, Tally};
use polywarp_core::gate::Gate;
use polywarp_core::{Device, Element, Prepared, Program, Result, Runtime, SpanMut, Stream};
use std::any::Any;

/// Round trips to the device before a gate is opened.
const PROBES: u32 = 8;

/// A freshly opened backend, and what cases do again and again.
pub struct Context<B: Backend> {
    /// The opened backend.
    pub runtime: Runtime<B>,
    /// The device to be tested.
    pub device: Device<B>,
    /// The suite's kernels on that device.
    pub kernels: Kernels<B>,
    /// The case's seed.
    pub seed: u64,
    program: Program,
    tally: Tally,
}

impl<B: Backend> std::fmt::Debug for Context<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("device", &self.device).field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl<B: Backend> Context<B> {
    pub(crate) fn new(runtime: Runtime<B>, device: Device<B>, program: Program, tally: Tally, seed: u64) -> Result<Self> {
        let kernels = kernels::load(&device, &program)?;
        Ok(Self { runtime, device, kernels, seed, program, tally })
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
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Another device, and the suite's kernels there.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn other_device(&self) -> Result<(Device<B>, Kernels<B>)> {
        let device = self.runtime.device((self.device.ordinal() + 1) % self.runtime.device_count())?;
        let kernels = kernels::load(&device, &self.program)?;
        Ok((device, kernels))
    }

    /// Holds a stream at a closed gate: what is submitted to it from now on does not start until the gate is opened.
    ///
    /// # Errors
    /// [`Unsupported`](polywarp_core::ErrorKind::Unsupported) without host functions.
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
    pub fn calls(&self, work: impl FnOnce() -> Result<()>) -> Result<Counts> {
        let before = self.counts();
        work()?;
        Ok(self.counts().since(&before))
    }

    /// The backend calls so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    /// So many random elements; the same in every run with the same seed.
    #[must_use]
    pub fn data(&self, len: usize) -> Vec<u32> {
        let mut random = self.random();
        std::iter::repeat_with(|| random.u32(..)).take(len).collect()
    }

    /// Random numbers; the same in every run with the same seed.
    #[must_use]
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// Lets everything of the case go and looks at what is left.
    pub(crate) fn close(self) -> (Tally, Result<()>) {
        let Self { runtime, device, kernels, tally, .. } = self;
        drop((device, kernels));
        (tally, runtime.close())
    }
}

/// A closed gate that a stream waits at; opened by [`open`](Self::open) or by dropping it.
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
