//! Small programs on a backend whose calls fail one by one: no panic, no hang, no leak, and right results when a step is tried again.

#![cfg(all(feature = "decorate", feature = "host"))]
#![allow(unsafe_code, reason = "kernels are bound")]

use polywarp_core::backend::Feature;
use polywarp_core::decorate::{Counting, Fault, Faults, Faulty, Live, Method, Tally};
use polywarp_core::gate::Gate;
use polywarp_core::host::{Host, HostConfig};
use polywarp_core::{
    Device, Error, ErrorKind, HostSpan, HostSpanMut, Kernel, Module, Program, Result, Runtime, Span, SpanMut, Stream, StreamOptions, Thread,
};
use std::cell::{Cell, RefCell};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What the outer counters count is what polywarp sees: a failed destruction counts as done, a failed creation does not.
type Subject = Counting<Faulty<Host>>;

type Successor = Kernel<Subject, false, (Span<u32>, SpanMut<u32>)>;

const LEN: usize = 64;

/// How often a step is tried at most.
const TRIES: u32 = 200;

fn successor(thread: &Thread<'_>, x: HostSpan<'_, u32>, y: HostSpanMut<'_, u32>) {
    if let Some(i) = thread.within(y.len()) {
        y.store(i, x.load(i) + 1);
    }
}

/// An opened backend whose calls fail on request, and the errors met so far.
struct Bench {
    runtime: Runtime<Subject>,
    device: Device<Subject>,
    faults: Faults,
    tally: Tally,
    errors: RefCell<Vec<Error>>,
    steps: Cell<u32>,
}

impl Bench {
    fn open() -> Result<Self> {
        let backend = Counting::new(Faulty::new(Host::default()));
        let (faults, tally) = (backend.inner().faults(), backend.tally());
        let runtime = Runtime::new(backend)?;
        let device = runtime.device(0)?;
        Ok(Self { runtime, device, faults, tally, errors: RefCell::default(), steps: Cell::new(0) })
    }

    /// Runs a step that may be repeated until it succeeds.
    fn step<R>(&self, mut step: impl FnMut() -> Result<R>) -> Result<R> {
        self.steps.set(self.steps.get() + 1);
        for _ in 0..TRIES {
            match step() {
                Err(error) if !matches!(error.kind(), ErrorKind::DevicePoisoned { .. }) => self.errors.borrow_mut().push(error),
                outcome => return outcome,
            }
        }
        step()
    }

    fn stream(&self) -> Result<Stream<Subject>> {
        self.step(|| self.device.stream())
    }

    fn kernel(&self) -> Result<Successor> {
        let program = Program::new("successor").host::<(Span<u32>, SpanMut<u32>), _>("successor", successor);
        let module = self.step(|| Module::load(&self.device, &program))?;
        // SAFETY: `successor` has these parameters and checks bounds; each thread writes an element of its own.
        self.step(|| unsafe { module.bind("successor") })
    }

    /// Holds the stream until the answer is dropped.
    fn hold(&self, stream: &Stream<Subject>) -> Result<Held> {
        let held = Held(Gate::new());
        self.step(|| {
            let gate = held.0.function();
            stream.host_function(move || gate.call())
        })?;
        Ok(held)
    }

    /// Everything is given back, in time.
    fn close(self) -> Result<()> {
        let Self { runtime, device, faults, tally, .. } = self;
        drop(device);
        let closed = runtime.close();
        faults.clear();
        assert!(comes_true(|| tally.counts().live() == Live::default()), "{:?}", tally.counts().live());
        closed
    }
}

struct Held(Gate);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn comes_true(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline && !condition() {
        std::thread::yield_now();
    }
    condition()
}

/// Fails instead of hanging.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (done, told) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _gave_up = done.send(());
    });
    if told.recv_timeout(Duration::from_secs(300)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("it hangs");
    }
    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

// ---------------------------------------------------------------- programs; every step may be repeated

type Steps = fn(&Bench) -> Result<()>;

const PROGRAMS: &[(&str, Steps)] = &[
    ("up and down", up_and_down),
    ("hand-over", hand_over),
    ("ping-pong", ping_pong),
    ("many producers", many_producers),
    ("reuse", reuse),
    ("lend", lend),
    ("guard", guard),
    ("events", events),
    ("host functions", host_functions),
    ("precise", precise),
    ("pending read", pending_read),
];

fn up_and_down(bench: &Bench) -> Result<()> {
    let stream = bench.stream()?;
    let data: Vec<u32> = (0..LEN as u32).collect();
    let mut x = bench.step(|| stream.upload(&data))?;
    assert_eq!(bench.step(|| x.download(&stream))?, data);
    bench.step(|| x.slice_mut(..8)?.fill(&stream, 7))?;
    let y = bench.step(|| x.try_clone(&stream))?;
    let mut seen = [0; 16];
    bench.step(|| y.slice(..16)?.download_into(&stream, &mut seen))?;
    assert_eq!((seen[..8].to_vec(), seen[8..].to_vec()), (vec![7; 8], data[8..16].to_vec()));
    Ok(())
}

fn hand_over(bench: &Bench) -> Result<()> {
    let (a, b) = (bench.stream()?, bench.stream()?);
    let kernel = bench.kernel()?;
    let mut x = bench.step(|| a.zeros(LEN))?;
    let mut y = bench.step(|| b.zeros(LEN))?;
    let held = bench.hold(&a)?;
    // a: [gate, fill x]   b: [wait a, x + 1 → y]
    bench.step(|| x.fill(&a, 5))?;
    bench.step(|| kernel.launch(&b, LEN, (x.span(), y.span_mut())))?;
    drop(held);
    assert_eq!(bench.step(|| y.download(&b))?, [6; LEN]);
    Ok(())
}

fn ping_pong(bench: &Bench) -> Result<()> {
    let (a, b) = (bench.stream()?, bench.stream()?);
    let kernel = bench.kernel()?;
    let mut x = bench.step(|| a.zeros(LEN))?;
    let mut y = bench.step(|| a.zeros(LEN))?;
    let held = bench.hold(&a)?;
    for _ in 0..3 {
        bench.step(|| kernel.launch(&a, LEN, (x.span(), y.span_mut())))?;
        bench.step(|| kernel.launch(&b, LEN, (y.span(), x.span_mut())))?;
    }
    drop(held);
    assert_eq!(bench.step(|| x.download(&b))?, [6; LEN]);
    Ok(())
}

fn many_producers(bench: &Bench) -> Result<()> {
    let streams = (0..3).map(|_| bench.stream()).collect::<Result<Vec<_>>>()?;
    let last = bench.stream()?;
    let mut x = bench.step(|| last.zeros::<u32>(3 * LEN))?;
    bench.step(|| last.wait())?;
    let mut held = Vec::new();
    for (i, stream) in streams.iter().enumerate() {
        held.push(bench.hold(stream)?);
        bench.step(|| x.slice_mut(i * LEN..(i + 1) * LEN)?.fill(stream, i as u32 + 1))?;
    }
    // last: [wait for each, x → y]
    let y = bench.step(|| x.try_clone(&last))?;
    drop(held);
    let sum: u32 = bench.step(|| y.download(&last))?.iter().sum();
    assert_eq!(sum, 6 * LEN as u32);
    Ok(())
}

fn reuse(bench: &Bench) -> Result<()> {
    let (a, b) = (bench.stream()?, bench.stream()?);
    let mut seen = bench.step(|| a.zeros::<u32>(LEN))?;
    for round in 1..=3 {
        let mut x = bench.step(|| a.alloc::<u32>(LEN))?;
        bench.step(|| x.fill(&a, round))?;
        let held = bench.hold(&a)?;
        // a: [fill x, gate, x → seen]   b: [fill of the memory of x or other memory]
        bench.step(|| seen.copy_from(&a, &x))?;
        drop(x);
        let mut new = bench.step(|| b.alloc::<u32>(LEN))?;
        bench.step(|| new.fill(&b, 99))?;
        drop(held);
        assert_eq!(bench.step(|| seen.download(&a))?, [round; LEN]);
    }
    drop(seen);
    bench.step(|| bench.device.trim())
}

fn lend(bench: &Bench) -> Result<()> {
    let (a, b) = (bench.stream()?, bench.stream()?);
    let mut x = bench.step(|| a.zeros::<u32>(LEN))?;
    let held = bench.hold(&a)?;
    bench.step(|| x.fill(&a, 3))?;
    // a: [gate, fill x]   b: [wait a, foreign work on x]   a: [wait b, fill a part]
    let address = bench.step(|| x.as_slice_mut().lend(&b, |address| address))?;
    assert_eq!(address, x.device_address());
    bench.step(|| x.slice_mut(..1)?.fill(&a, 4))?;
    drop(held);
    assert_eq!(bench.step(|| x.slice(..2)?.download(&b))?, [4, 3]);
    Ok(())
}

fn guard(bench: &Bench) -> Result<()> {
    let (a, b) = (bench.stream()?, bench.stream()?);
    let mut x = bench.step(|| bench.device.alloc_pinned::<u32>(LEN))?;
    bench.step(|| x.fill(&a, 1))?;
    bench.step(|| x.slice_mut(..1)?.fill(&b, 2))?;
    bench.step(|| x.write().map(|mut all| all[1] = 3))?;
    let guard = bench.step(|| x.read())?;
    assert_eq!(guard[..3], [2, 3, 1]);
    drop(guard);
    assert_eq!(bench.step(|| x.slice(..3)?.download(&b))?, [2, 3, 1]);
    Ok(())
}

fn events(bench: &Bench) -> Result<()> {
    let (a, b) = (bench.stream()?, bench.stream()?);
    let start = bench.step(|| bench.device.timing_event())?;
    let end = bench.step(|| bench.device.timing_event())?;
    let mut x = bench.step(|| a.zeros::<u32>(LEN))?;
    let held = bench.hold(&a)?;
    bench.step(|| start.record(&a))?;
    bench.step(|| x.fill(&a, 8))?;
    bench.step(|| end.record(&a))?;
    // a: [gate, start, fill x, end]   b: [wait end]
    bench.step(|| b.wait_for(&end))?;
    assert!(!bench.step(|| end.is_complete())?);
    drop(held);
    bench.step(|| b.wait())?;
    assert!(bench.step(|| a.is_complete())?, "the wait covers the fill");
    bench.step(|| end.wait())?;
    bench.step(|| end.elapsed_since(&start))?;
    drop((start, end));
    bench.step(|| bench.device.event()).map(drop)
}

fn host_functions(bench: &Bench) -> Result<()> {
    let (a, b) = (bench.stream()?, bench.stream()?);
    let mut x = bench.step(|| a.zeros::<u32>(LEN))?;
    bench.step(|| x.fill(&a, 2))?;
    let held = bench.hold(&a)?;
    // a: [fill x, gate]   b: [wait for the fill alone]
    assert_eq!(bench.step(|| x.download(&b))?, [2; LEN]);
    let (tell, told) = mpsc::channel();
    bench.step(|| {
        let tell = tell.clone();
        a.host_function(move || tell.send(()).unwrap_or(()))
    })?;
    drop((held, tell));
    bench.step(|| bench.device.wait())?;
    assert!(told.iter().count() >= 1);
    Ok(())
}

fn precise(bench: &Bench) -> Result<()> {
    let a = bench.step(|| bench.device.stream_with(StreamOptions::new().precise()))?;
    let b = bench.stream()?;
    let mut x = bench.step(|| a.zeros::<u32>(LEN))?;
    for i in 0..4 {
        bench.step(|| x.slice_mut(i..)?.fill(&a, i as u32))?;
        bench.step(|| a.checkpoint())?;
    }
    assert_eq!(bench.step(|| x.slice(..5)?.download(&b))?, [0, 1, 2, 3, 3]);
    Ok(())
}

fn pending_read(bench: &Bench) -> Result<()> {
    let stream = bench.stream()?;
    let mut x = bench.step(|| stream.upload(&[4u32; LEN]))?;
    let held = bench.hold(&stream)?;
    let pending = bench.step(|| x.as_slice().start_download(&stream))?;
    assert!(!bench.step(|| pending.is_ready())?);
    bench.step(|| x.fill(&stream, 0))?;
    drop(held);
    // A failed wait gives the read back, to be asked again.
    let mut place = Some(pending);
    let data = bench.step(|| match place.take() {
        None => unreachable!("it is put back"),
        Some(pending) => pending.into_pinned().map_err(|(pending, error)| {
            place = Some(pending);
            error
        }),
    })?;
    assert_eq!(data[..], [4; LEN]);
    Ok(())
}

// ---------------------------------------------------------------- sweeps

/// The methods that a program calls.
fn called(program: Steps) -> Result<Vec<Method>> {
    let bench = Bench::open()?;
    let before = bench.tally.counts();
    program(&bench)?;
    let counts = bench.tally.counts().since(&before);
    bench.close()?;
    Ok(Method::ALL.iter().copied().filter(|&method| counts[method] > 0).collect())
}

/// Runs the program once for each call of each of its methods, and has that call fail.
fn sweep(fault: fn(Method) -> Fault, check: fn(&str, Bench, Method, Result<()>)) {
    for &(name, program) in PROGRAMS {
        for method in called(program).unwrap() {
            for n in 1.. {
                let bench = Bench::open().unwrap();
                bench.faults.inject(fault(method).nth(n));
                let outcome = program(&bench);
                if bench.faults.injected() == 0 {
                    assert!(outcome.is_ok(), "{name}: {outcome:?}");
                    break;
                }
                check(&format!("{name}, {method} {n}"), bench, method, outcome);
            }
        }
    }
}

/// One call failed: one error at most, that of the call; the rest went on, and goes on.
fn recovers(at: &str, bench: Bench, method: Method, outcome: Result<()>) {
    assert!(outcome.is_ok(), "{at}: {outcome:?}");
    let mut errors = bench.errors.take();
    errors.extend(bench.device.take_deferred_error());
    assert!(bench.device.take_deferred_error().is_none(), "{at}: told twice");
    assert!(errors.len() <= 1, "{at}: {errors:?}");
    for error in &errors {
        assert_eq!((error.operation(), error.backend()), (method.name(), "host"), "{at}");
    }
    let closed = bench.close();
    assert!(closed.is_ok(), "{at}: {closed:?}");
}

#[test]
fn a_call_that_is_refused_can_be_made_again() {
    in_time(|| sweep(Fault::refuse, recovers));
}

#[test]
fn a_call_that_fails_after_it_happened_can_be_made_again() {
    in_time(|| sweep(Fault::fail, recovers));
}

#[test]
fn out_of_memory_at_any_call_passes() {
    in_time(|| {
        sweep(
            |method| Fault::refuse(method).out_of_memory(),
            |at, bench, method, outcome| match method {
                Method::Allocate => {
                    assert!(outcome.is_ok() && bench.errors.take().is_empty(), "{at}: the second attempt succeeds");
                    bench.close().unwrap();
                }
                _ => recovers(at, bench, method, outcome),
            },
        )
    });
}

#[test]
fn a_sticky_error_at_any_call_is_the_answer_from_then_on() {
    let sticky = |method| {
        let kind = ErrorKind::DevicePoisoned { cause: "as planned".into(), suspects: Vec::new() };
        Fault::refuse(method).answering(kind)
    };
    in_time(move || {
        sweep(sticky, |at, bench, _, outcome| {
            assert!(bench.errors.take().is_empty(), "{at}");
            let Err(met) = outcome.and_then(|()| bench.device.wait()).and_then(|()| bench.device.stream().map(drop)) else {
                panic!("{at}: the device is not lost")
            };
            assert!(matches!(met.kind(), ErrorKind::DevicePoisoned { .. }), "{at}: {met}");
            let calls = bench.tally.counts();
            for again in [bench.device.wait(), bench.device.stream().map(drop), bench.device.alloc::<u32>(LEN).map(drop)] {
                assert_eq!(again.map_err(|error| error.to_string()), Err(met.to_string()), "{at}");
            }
            assert_eq!(bench.tally.counts().since(&calls).to_string(), "nothing", "{at}");
            let Bench { runtime, device, .. } = bench;
            drop(device);
            let closed = runtime.close();
            assert_eq!(closed.map_err(|error| error.to_string()), Err(met.to_string()), "{at}");
        });
    });
}

#[test]
fn closing_gives_everything_back_whatever_fails() {
    in_time(|| {
        for &(name, program) in PROGRAMS {
            for &method in Method::ALL {
                for n in 1.. {
                    let bench = Bench::open().unwrap();
                    program(&bench).unwrap();
                    bench.faults.inject(Fault::refuse(method).nth(n));
                    let Bench { runtime, device, faults, tally, .. } = bench;
                    drop(device);
                    let closed = runtime.close();
                    let injected = faults.injected();
                    assert!(comes_true(|| tally.counts().live() == Live::default()), "{name}, {method} {n}: {:?}", tally.counts().live());
                    if injected == 0 {
                        assert!(closed.is_ok(), "{name}: {closed:?}");
                        break;
                    }
                    if let Err(error) = closed {
                        assert_eq!(error.operation(), method.name(), "{name}, {method} {n}");
                    }
                }
            }
        }
    });
}

#[test]
fn programs_get_through_any_weather() {
    in_time(|| {
        for seed in 0..20 {
            for &(name, program) in PROGRAMS {
                let bench = Bench::open().unwrap();
                for (i, &method) in Method::ALL.iter().enumerate() {
                    let seed = seed * 1000 + i as u64;
                    bench.faults.inject(Fault::refuse(method).chance(0.1, seed));
                    bench.faults.inject(Fault::fail(method).chance(0.1, seed + 500));
                }
                let outcome = program(&bench);
                assert!(outcome.is_ok(), "{name}, seed {seed}: {outcome:?}");
                bench.faults.clear();
                while bench.device.take_deferred_error().is_some() {}
                let closed = bench.close();
                assert!(closed.is_ok(), "{name}, seed {seed}: {closed:?}");
            }
        }
    });
}

// ---------------------------------------------------------------- single calls

fn lost() -> ErrorKind {
    ErrorKind::DevicePoisoned { cause: "as planned".into(), suspects: Vec::new() }
}

/// The device is known to be lost from this answer on.
fn assert_lost(device: &Device<Subject>, met: &Error) {
    assert!(matches!(met.kind(), ErrorKind::DevicePoisoned { .. }), "{met}");
    assert_eq!(device.wait().unwrap_err().to_string(), met.to_string());
}

#[test]
fn a_device_lost_under_memory_pressure_is_not_out_of_memory() -> Result<()> {
    let bench = Bench::open()?;
    let stream = bench.device.stream()?;
    let mut x = bench.device.alloc::<u8>(4096)?;
    x.fill(&stream, 0)?;
    drop(x);
    bench.faults.inject(Fault::refuse(Method::EventQuery).times(2)); // what is parked counts as busy
    bench.faults.inject(Fault::refuse(Method::Allocate).out_of_memory().times(2));
    bench.faults.inject(Fault::refuse(Method::Allocate).answering(lost()).nth(3));
    let met = bench.device.alloc::<u8>(8192).unwrap_err();
    assert_eq!(bench.tally.counts().failures(Method::Allocate), 3);
    assert_lost(&bench.device, &met);
    Ok(())
}

#[test]
fn asking_for_peers_meets_a_lost_device_like_any_call() -> Result<()> {
    let backend = Counting::new(Faulty::new(Host::new(&HostConfig::new(2))));
    let faults = backend.inner().faults();
    let runtime = Runtime::new(backend)?;
    let (here, there) = (runtime.device(0)?, runtime.device(1)?);
    faults.inject(Fault::refuse(Method::PeerPossible).answering(lost()));
    let met = here.can_reach(&there).unwrap_err();
    assert_lost(&here, &met);
    assert_eq!(here.can_reach(&there).unwrap_err().to_string(), met.to_string());
    Ok(())
}

#[test]
fn a_kernel_that_needs_a_peer_meets_a_lost_device_like_any_call() -> Result<()> {
    for method in [Method::PeerPossible, Method::PeerEnable] {
        let backend = Counting::new(Faulty::new(Host::new(&HostConfig::new(2))));
        let faults = backend.inner().faults();
        let runtime = Runtime::new(backend)?;
        let (here, there) = (runtime.device(0)?, runtime.device(1)?);
        let (stream, mut x) = (here.stream()?, there.alloc::<u8>(8)?);
        faults.inject(Fault::refuse(method).answering(lost()));
        let met = x.fill(&stream, 0).unwrap_err();
        assert_lost(&here, &met);
    }
    Ok(())
}

#[test]
fn what_was_kept_by_a_failing_driver_is_asked_for_again() -> Result<()> {
    let backend = Faulty::new(Counting::new(Host::default()));
    let (faults, tally) = (backend.faults(), backend.inner().tally());
    let runtime = Runtime::new(backend)?;
    faults.inject(Fault::fail(Method::Allocate).out_of_memory().nth(1));
    let x = runtime.device(0)?.alloc::<u8>(4096)?;
    assert_eq!(tally.counts()[Method::Allocate], 2);
    drop(x);
    runtime.close()?;
    let kept = tally.counts().live();
    assert_eq!((kept.allocations, kept.bytes), (1, 4096), "what the driver kept, and nothing else");
    Ok(())
}

#[test]
fn a_refused_early_record_is_told_once_by_the_next_wait() -> Result<()> {
    let bench = Bench::open()?;
    let stream = bench.device.stream_with(StreamOptions::new().precise())?;
    let mut x = bench.device.alloc::<u8>(64)?;
    bench.faults.inject(Fault::refuse(Method::EventRecord).nth(1));
    x.fill(&stream, 1)?;
    assert_eq!(stream.wait().unwrap_err().operation(), "event_record");
    stream.wait()?;
    assert!(bench.device.take_deferred_error().is_none());
    assert_eq!(x.download(&stream)?, [1; 64]);
    Ok(())
}

#[test]
fn a_hidden_capability_is_refused_by_core() -> Result<()> {
    let backend = Faulty::new(Host::default());
    for feature in [Feature::HostFunctions, Feature::PinnedMemory, Feature::UnifiedMemory, Feature::TimingEvents] {
        backend.faults().hide(feature);
    }
    let device = Runtime::new(backend)?.device(0)?;
    let stream = device.stream()?;
    let answers = [
        stream.host_function(|| ()),
        device.alloc_pinned::<u8>(1).map(drop),
        device.alloc_unified::<u8>(1).map(drop),
        device.timing_event().map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    }
    Ok(())
}
