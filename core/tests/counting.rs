//! Whole programs on a counting backend: what they cost in calls, and that they give everything back.

#![cfg(all(feature = "decorate", feature = "host"))]
#![allow(unsafe_code, reason = "kernels are bound")]

use polywarp_core::decorate::{Counting, Live, Method, Nop, Tally};
use polywarp_core::host::Host;
use polywarp_core::{Device, HostSpanMut, Kernel, Module, Program, Result, Runtime, SpanMut, Thread, backend::Backend};
use std::time::{Duration, Instant};

type Increment<B> = Kernel<B, false, (SpanMut<u32>,)>;

fn increment(thread: &Thread<'_>, all: HostSpanMut<'_, u32>) {
    if let Some(i) = thread.within(all.len()) {
        all.store(i, all.load(i) + 1);
    }
}

fn load<B: Backend>(device: &Device<B>) -> Result<Increment<B>> {
    let module = Module::load(device, &Program::new("increment").host::<(SpanMut<u32>,), _>("increment", increment))?;
    // SAFETY: `increment` has this parameter, checks bounds, and each thread uses an element of its own.
    unsafe { module.bind("increment") }
}

fn open<B: Backend>(backend: Counting<B>) -> Result<(Runtime<Counting<B>>, Tally)> {
    let tally = backend.tally();
    Ok((Runtime::new(backend)?, tally))
}

#[test]
fn a_launch_on_one_stream_is_one_call() -> Result<()> {
    let (runtime, tally) = open(Counting::new(Nop::default()))?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let kernel = load(&device)?;
    let mut all = stream.alloc::<u32>(100)?;
    kernel.launch(&stream, 100, (all.span_mut(),))?;

    let before = tally.counts();
    kernel.launch(&stream, 100, (all.span_mut(),))?;
    assert_eq!(tally.counts().since(&before).to_string(), "launch 1");
    Ok(())
}

#[test]
fn a_counted_program_computes_the_same_and_gives_everything_back() -> Result<()> {
    let (runtime, tally) = open(Counting::new(Host::default()))?;
    {
        let device = runtime.device(0)?;
        let (first, second) = (device.stream()?, device.stream()?);
        let kernel = load(&device)?;
        let mut all = first.upload(&[1, 2, 3])?;
        kernel.launch(&first, 3, (all.span_mut(),))?;
        kernel.launch(&second, 3, (all.span_mut(),))?;
        assert_eq!(all.download(&second)?, [3, 4, 5]);
        assert_eq!(tally.counts()[Method::Launch], 2);
        assert!(tally.counts().live().allocations > 0);
    }
    runtime.close()?;
    let Live { allocations, streams, modules, .. } = tally.counts().live();
    assert_eq!([allocations, streams, modules], [0; 3], "{:?}", tally.counts());
    assert!(comes_true(|| tally.counts().live() == Live::default()), "{:?}", tally.counts());
    Ok(())
}

/// Events are pooled; a thread destroys them when the runtime is gone.
fn comes_true(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline && !condition() {
        std::thread::yield_now();
    }
    condition()
}
