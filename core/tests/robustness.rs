//! Bad input, odd orders and refusals: a typed error or the right result, never a panic, a hang or a leak.

#![cfg(feature = "host")]
#![allow(unsafe_code, reason = "binds kernels")]

use polywarp_core::backend::{Feature, MemoryInfo};
use polywarp_core::gate::Gate;
use polywarp_core::host::{Host, HostConfig};
use polywarp_core::{
    Buffer, Device, Error, ErrorKind, HostSpan, HostSpanMut, Kernel, LaunchConfig, Module, Program, Result, Runtime, Span, SpanMut,
    StreamOptions, Thread,
};
use std::future::{Future, IntoFuture};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

type Axpy = (Span<f32>, SpanMut<f32>, f32);

/// What is refused answers this kind.
macro_rules! assert_kind {
    ($result:expr, $kind:pat $(if $condition:expr)?) => {{
        let error: Error = $result.map(drop).unwrap_err();
        assert!(matches!(error.kind(), $kind $(if $condition)?), "{error:?}");
    }};
}

fn device() -> Device<Host> {
    device_of(&HostConfig::new(1))
}

fn device_of(config: &HostConfig) -> Device<Host> {
    Runtime::new(Host::new(config)).and_then(|runtime| runtime.device(0)).unwrap()
}

fn axpy(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, a: f32) {
    if let Some(i) = thread.within(y.len()) {
        y.store(i, a * x.load(i) + y.load(i));
    }
}

fn program() -> Program {
    let panics = |_: &Thread<'_>| panic!("as planned");
    Program::new("robustness").host::<Axpy, _>("axpy", axpy).host::<(), _>("panics", panics)
}

fn kernel(device: &Device<Host>) -> Kernel<Host, false, Axpy> {
    // SAFETY: `axpy` has these parameters and checks bounds; each thread uses elements of its own.
    unsafe { Module::load(device, &program()).unwrap().bind("axpy") }.unwrap()
}

fn panics(device: &Device<Host>) -> Kernel<Host, false, ()> {
    // SAFETY: it touches nothing.
    unsafe { Module::load(device, &program()).unwrap().bind("panics") }.unwrap()
}

/// Fails instead of hanging.
fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = mpsc::channel();
    let worker = thread::spawn(move || {
        let _ended = tell.send(());
        work()
    });
    told.recv().unwrap();
    for _ in 0..600 {
        if worker.is_finished() {
            return worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("still not done");
}

// ---------------------------------------------------------------- lengths

#[test]
fn lengths_that_do_not_fit_are_typed_errors() -> Result<()> {
    let (device, stream) = (device(), device().stream()?);
    for len in [usize::MAX, usize::MAX / 2, usize::MAX / 8 + 1, isize::MAX as usize - 3] {
        assert_kind!(device.alloc::<u64>(len), ErrorKind::Overflow { .. } | ErrorKind::OutOfMemory { .. });
        assert_kind!(device.alloc_unified::<u64>(len), ErrorKind::Overflow { .. } | ErrorKind::OutOfMemory { .. });
        assert_kind!(device.alloc_pinned::<u8>(len), ErrorKind::Overflow { .. } | ErrorKind::OutOfMemory { .. });
        assert_kind!(stream.zeros::<u64>(len), ErrorKind::Overflow { .. } | ErrorKind::OutOfMemory { .. });
    }
    Ok(())
}

#[test]
fn every_form_of_range_is_checked() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let mut x = stream.upload(&[0u32, 1, 2, 3, 4])?;
    let read = |x: &Buffer<Host, u32>, range: (Bound<usize>, Bound<usize>)| x.slice(range)?.download(&stream);
    let (inside, outside) = ([0, 4, 5], [6, usize::MAX - 1, usize::MAX]);
    for start in inside {
        for end in inside.into_iter().filter(|&end| end >= start) {
            let expected: Vec<u32> = (start as u32..end as u32).collect();
            assert_eq!(x.slice(start..end)?.download(&stream)?, expected);
            assert_eq!(read(&x, (Bound::Included(start), Bound::Excluded(end)))?, expected);
            if let Some(before) = start.checked_sub(1) {
                assert_eq!(read(&x, (Bound::Excluded(before), Bound::Excluded(end)))?, expected);
            }
            if let Some(last) = end.checked_sub(1) {
                assert_eq!(read(&x, (Bound::Included(start), Bound::Included(last)))?, expected);
            }
        }
        assert_eq!(x.slice(start..)?.len() + x.slice(..start)?.len(), 5);
        assert_eq!(x.split_at(start)?.0.len(), start);
        assert_eq!(x.split_at_mut(start)?.1.len(), 5 - start);
    }
    for at in outside {
        assert_kind!(x.slice(at..), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice(..at), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice(..=at), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice(2..at), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice(at..2), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice(at..at), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice(at..=at), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice((Bound::Excluded(at), Bound::Unbounded)), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.slice_mut(at..), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.split_at(at), ErrorKind::OutOfBounds { .. });
        assert_kind!(x.split_at_mut(at), ErrorKind::OutOfBounds { .. });
    }
    #[allow(clippy::reversed_empty_ranges, reason = "it is what is tested")]
    let reversed = x.slice(4..2);
    assert_kind!(reversed, ErrorKind::OutOfBounds { start: 4, end: 2, len: 5, .. });
    assert_kind!(x.slice(2..=5), ErrorKind::OutOfBounds { .. });
    assert_eq!(x.slice(1..)?.slice(1..)?.slice(..=1)?.download(&stream)?, [2, 3]);
    Ok(())
}

#[test]
fn nothing_can_be_done_with_no_elements() -> Result<()> {
    let device = device();
    let (stream, kernel) = (device.stream()?, kernel(&device));
    let mut empty = device.alloc::<f32>(0)?;
    let mut some = stream.upload(&[1.0f32, 2.0])?;
    empty.upload(&stream, &[])?;
    empty.fill(&stream, 1.0)?;
    empty.copy_from(&stream, some.slice(1..1)?)?;
    some.slice_mut(2..)?.copy_from(&stream, &empty)?;
    some.slice_mut(..0)?.upload(&stream, &[])?;
    some.slice_mut(..0)?.fill(&stream, 9.0)?;
    assert!(empty.download(&stream)?.is_empty() && empty.try_clone(&stream)?.is_empty());
    assert!(empty.as_slice().start_download(&stream)?.wait()?.is_empty());
    assert!(empty.as_slice().cast::<u8>()?.is_empty() && some.slice(..0)?.cast::<u64>().is_ok());
    assert!(empty.as_slice().lend(&stream, |address| address.0 == 0)?);
    kernel.launch(&stream, 0, (empty.span(), some.span_mut(), 1.0))?;
    kernel.launch(&stream, 8, (some.span(), empty.span_mut(), 1.0))?;
    kernel.prepare((some.slice(..0)?.span(), empty.span_mut(), 1.0))?.1.rebind::<0>(some.slice(2..)?.span())?;
    let mut pinned = device.alloc_pinned::<f32>(0)?;
    assert!(pinned.read()?.is_empty() && pinned.write()?.is_empty());
    assert_eq!(some.download(&stream)?, [1.0, 2.0]);
    Ok(())
}

#[test]
fn elements_of_no_size_take_no_memory() -> Result<()> {
    let device = device_of(&HostConfig::new(1).with_memory(0));
    let stream = device.stream()?;
    let mut many = device.alloc_unified::<[u64; 0]>(usize::MAX)?;
    many.fill(&stream, [])?;
    assert_eq!((many.len(), many.bytes()), (usize::MAX, 0));
    assert_eq!(many.download(&stream)?.len(), usize::MAX);
    assert_eq!(many.read()?.len(), usize::MAX);
    assert_eq!(many.slice(1..)?.len(), usize::MAX - 1);
    assert_kind!(many.as_slice().cast::<[u8; 0]>(), ErrorKind::Misaligned { .. });
    assert_eq!(many.as_slice().cast::<u8>()?.len(), 0);
    many.slice_mut(..3)?.upload(&stream, &[[]; 3])?;
    assert_kind!(many.upload(&stream, &[[]; 3]), ErrorKind::LengthMismatch { .. });
    Ok(())
}

#[test]
fn lengths_that_differ_are_refused() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let (mut x, y) = (stream.zeros::<u32>(4)?, stream.zeros::<u32>(5)?);
    assert_kind!(x.upload(&stream, &[1; 3]), ErrorKind::LengthMismatch { expected: 4, got: 3, .. });
    assert_kind!(x.copy_from(&stream, &y), ErrorKind::LengthMismatch { expected: 4, got: 5, .. });
    assert_kind!(y.as_slice().download_into(&stream, &mut [0; 4]), ErrorKind::LengthMismatch { expected: 5, got: 4, .. });
    Ok(())
}

#[test]
fn views_that_do_not_fit_are_not_cast() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let mut x = stream.upload(&[0u8, 1, 2, 3, 4, 5, 6, 7])?;
    assert_kind!(x.slice(1..5)?.cast::<u32>(), ErrorKind::Misaligned { offset: 1, bytes: 4, size: 4, align: 4 });
    assert_kind!(x.slice(..6)?.cast::<u32>(), ErrorKind::Misaligned { .. });
    assert_kind!(x.slice_mut(2..6)?.cast::<u32>(), ErrorKind::Misaligned { .. });
    assert_eq!(x.slice(4..)?.cast::<[u8; 2]>()?.download(&stream)?, [[4, 5], [6, 7]]);
    x.slice_mut(4..)?.cast::<u32>()?.upload(&stream, &[0])?;
    assert_eq!(x.download(&stream)?, [0, 1, 2, 3, 0, 0, 0, 0]);
    Ok(())
}

#[test]
fn values_that_are_none_are_found_by_a_checked_download() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let bools = stream.upload(&[true, false])?;
    assert_eq!(bools.as_slice().download_checked(&stream)?, [true, false]);
    let fresh = device.alloc::<bool>(2)?;
    assert_kind!(fresh.as_slice().download_checked(&stream), ErrorKind::InvalidArgument { what } if what.contains("element 0"));
    Ok(())
}

#[test]
fn kernels_write_no_padding() -> Result<()> {
    #[derive(Clone, Copy, polywarp_core::DeviceRepr)]
    #[repr(C)]
    struct Padded {
        small: u8,
        large: u32,
    }
    let device = device();
    let stream = device.stream()?;
    let copies = |thread: &Thread<'_>, x: HostSpanMut<'_, Padded>| {
        let shared = thread.shared::<Padded>(0, 1);
        shared.store(0, Padded { small: 1, large: 2 });
        x.store(0, shared.load(0));
    };
    let module = Module::load(&device, &Program::new("padded").host::<(SpanMut<Padded>,), _>("copies", copies))?;
    // SAFETY: the spans check bounds, and the launch has one thread.
    let kernel = unsafe { module.bind::<(SpanMut<Padded>,)>("copies") }?;
    let mut x = stream.upload(&[Padded { small: 3, large: 4 }])?;
    kernel.launch(&stream, LaunchConfig::new(1, 1).shared_bytes(8), (x.span_mut(),))?;
    stream.wait()?;
    // SAFETY: the kernel has ended, and nothing else uses the eight bytes, all of which the upload wrote.
    let bytes = x.as_slice().lend(&stream, |address| unsafe { *(address.0 as *const [u8; 8]) })?;
    assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0]);
    Ok(())
}

#[test]
fn geometry_beyond_limits_is_refused_before_the_driver() -> Result<()> {
    let device = device();
    let (stream, kernel) = (device.stream()?, kernel(&device));
    let (x, mut y) = (stream.zeros::<f32>(1)?, stream.zeros::<f32>(1)?);
    for config in [LaunchConfig::new(u32::MAX, 1), LaunchConfig::new(1, u32::MAX), LaunchConfig::new([u32::MAX; 3], [u32::MAX; 3])] {
        assert_kind!(kernel.launch(&stream, config, (x.span(), y.span_mut(), 1.0)), ErrorKind::LimitExceeded { .. });
    }
    let cluster = LaunchConfig::new(4, 1).cluster([u32::MAX; 3]);
    assert_kind!(kernel.launch(&stream, cluster, (x.span(), y.span_mut(), 1.0)), ErrorKind::LimitExceeded { .. });
    assert_kind!(kernel.launch(&stream, usize::MAX, (x.span(), y.span_mut(), 1.0)), ErrorKind::LimitExceeded { .. });
    assert_kind!(kernel.launch(&stream, LaunchConfig::new(1, 0), (x.span(), y.span_mut(), 1.0)), ErrorKind::InvalidConfig { .. });
    let too_much = LaunchConfig::new(1, 1).shared_bytes(u32::MAX);
    assert_kind!(kernel.launch(&stream, too_much, (x.span(), y.span_mut(), 1.0)), ErrorKind::LimitExceeded { .. });
    let huge = Program::new("huge").host::<(), _>("huge", |_: &Thread<'_>| {}).host_shared_bytes(u32::MAX);
    // SAFETY: it touches nothing.
    let huge = unsafe { Module::load(&device, &huge)?.bind::<()>("huge") }?;
    assert_kind!(huge.launch(&stream, 1, ()), ErrorKind::LimitExceeded { .. });
    assert_kind!(huge.launch(&stream, LaunchConfig::new(1, 1).shared_bytes(1), ()), ErrorKind::LimitExceeded { .. });
    Ok(())
}

// ---------------------------------------------------------------- drops

/// Every order of these numbers.
fn permutations(of: usize) -> Vec<Vec<usize>> {
    match of {
        0 => vec![Vec::new()],
        _ => permutations(of - 1)
            .into_iter()
            .flat_map(|order| (0..of).map(move |at| [&order[..at], &[of - 1], &order[at..]].concat()))
            .collect(),
    }
}

#[test]
fn handles_are_dropped_in_any_order_with_work_in_flight() -> Result<()> {
    let host = Host::new(&HostConfig::new(1).with_memory(1 << 20));
    for order in permutations(6) {
        let runtime = Runtime::new(host.clone())?;
        let device = runtime.device(0)?;
        let (stream, event) = (device.stream()?, device.event()?);
        let (x, mut y) = (stream.upload(&[1.0f32; 16])?, stream.zeros::<f32>(16)?);
        let module = Module::load(&device, &program())?;
        // SAFETY: as in `kernel`.
        let kernel = unsafe { module.bind::<Axpy>("axpy") }?;
        let (prepared, converted) = kernel.prepare((x.span(), y.span_mut(), 2.0))?;
        prepared.launch(&stream, 16, &converted)?;
        event.record(&stream)?;
        type Handle = Box<dyn std::any::Any + Send>;
        let mut handles: [Option<Handle>; 6] = [
            Some(Box::new((runtime, device))),
            Some(Box::new(stream)),
            Some(Box::new(event)),
            Some(Box::new((x, y))),
            Some(Box::new((module, kernel, prepared))),
            Some(Box::new(converted)),
        ];
        order.iter().for_each(|&index| drop(handles[index].take()));
    }
    Ok(())
}

fn all_returned(runtime: Runtime<Host>, device: &Device<Host>, before: MemoryInfo) -> Result<()> {
    runtime.close()?;
    assert_eq!(device.memory_info()?.free, before.free);
    Ok(())
}

#[test]
fn closing_returns_everything() -> Result<()> {
    let runtime = Runtime::new(Host::new(&HostConfig::new(1).with_memory(1 << 24)))?;
    let device = runtime.device(0)?;
    let before = device.memory_info()?;
    let (kernel, streams) = (kernel(&device), [device.stream()?, device.stream()?]);
    for round in 1..40 {
        let (x, mut y) = (streams[0].upload(&vec![1.0f32; round * 100])?, device.alloc_unified::<f32>(round * 100)?);
        y.fill(&streams[1], 0.0)?;
        let (kernel, arguments) = kernel.prepare((x.span(), y.span_mut(), 2.0))?;
        kernel.launch(&streams[1], round * 100, &arguments)?;
        if round % 3 == 0 {
            std::mem::forget(y.read()?);
        }
        drop(x.as_slice().start_download(&streams[round % 2])?);
    }
    drop(streams);
    all_returned(runtime, &device, before)
}

#[test]
fn ten_thousand_random_allocations_balance() -> Result<()> {
    let runtime = Runtime::new(Host::new(&HostConfig::new(1).with_memory(1 << 26)))?;
    let device = runtime.device(0)?;
    let before = device.memory_info()?;
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let mut held: Vec<Buffer<Host, u8>> = Vec::new();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        ((state >> 33) % below) as usize
    };
    for _ in 0..10_000 {
        if held.len() < 64 && random(2) == 0 {
            let stream = &streams[random(3)];
            let mut buffer = stream.alloc(random(2000))?;
            buffer.fill(stream, 7)?;
            held.push(buffer);
        } else if !held.is_empty() {
            drop(held.swap_remove(random(held.len() as u64)));
        }
    }
    drop(held);
    device.wait()?;
    device.trim()?;
    assert_eq!(device.memory_info()?.free, before.free);
    drop(streams);
    all_returned(runtime, &device, before)
}

#[test]
fn drops_while_unwinding_are_quiet() -> Result<()> {
    let device = device();
    let before = device.memory_info()?;
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let stream = device.stream().unwrap();
        let mut x = stream.upload(&[1u8; 1000]).unwrap();
        let event = device.event().unwrap();
        event.record(&stream).unwrap();
        let mut pinned = device.alloc_pinned::<u8>(10).unwrap();
        let _guard = pinned.write().unwrap();
        x.as_slice_mut().lend(&stream, |_| panic!("as planned")).unwrap()
    }));
    assert!(unwound.is_err());
    device.wait()?;
    device.trim()?;
    assert_eq!(device.memory_info()?.free, before.free);
    Ok(())
}

#[test]
fn handles_are_dropped_inside_of_host_functions() {
    in_time(|| {
        let (tell, told) = mpsc::channel();
        let runtime = Runtime::new(Host::default()).unwrap();
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let (x, event, kernel) = (stream.upload(&[1.0f32; 8]).unwrap(), device.event().unwrap(), kernel(&device));
        let other = device.stream().unwrap();
        other
            .host_function(move || {
                drop((x, event, kernel, stream, device, runtime));
                tell.send(()).unwrap();
            })
            .unwrap();
        drop(other);
        told.recv().unwrap();
    });
}

#[test]
fn the_process_exits_with_work_in_flight() {
    const CHILD: &str = "POLYWARP_TEST_EXITS";
    if std::env::var_os(CHILD).is_some() {
        let device = device();
        let (stream, gate, kernel) = (device.stream().unwrap(), Arc::new(Gate::new()), kernel(&device));
        let waits = Arc::clone(&gate);
        stream
            .host_function(move || {
                let _opened = waits.wait();
            })
            .unwrap();
        let (x, mut y) = (device.alloc::<f32>(1 << 16).unwrap(), device.alloc::<f32>(1 << 16).unwrap());
        kernel.launch(&stream, 1 << 16, (x.span(), y.span_mut(), 1.0)).unwrap();
        drop((x, y));
        std::mem::forget((device, gate));
        std::process::exit(7);
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let status = child.args(["--exact", "the_process_exits_with_work_in_flight", "--nocapture"]).env(CHILD, "1").status().unwrap();
    assert_eq!(status.code(), Some(7));
}

// ---------------------------------------------------------------- host functions

#[test]
fn nothing_is_submitted_or_waited_for_inside_of_host_functions() {
    in_time(|| {
        let device = device();
        let stream = Arc::new(device.stream().unwrap());
        let (kernel, mut pinned) = (kernel(&device), device.alloc_pinned::<f32>(4).unwrap());
        let (x, mut y) = (stream.upload(&[1.0f32; 4]).unwrap(), stream.zeros::<f32>(4).unwrap());
        let event = device.event().unwrap();
        event.record(&stream).unwrap();
        let (tell, told) = mpsc::channel();
        let inside = Arc::clone(&stream);
        stream
            .host_function(move || {
                let refusals = [
                    inside.wait(),
                    inside.is_complete().map(drop),
                    inside.checkpoint(),
                    inside.host_function(|| {}),
                    inside.wait_for(&event),
                    event.record(&inside),
                    event.wait(),
                    event.is_complete().map(drop),
                    inside.device().wait(),
                    inside.device().trim(),
                    inside.device().stream().map(drop),
                    inside.device().event().map(drop),
                    inside.device().alloc::<u8>(9).map(drop),
                    inside.upload(&[1u8]).map(drop),
                    x.download(&inside).map(drop),
                    x.as_slice().start_download(&inside).map(drop),
                    x.as_slice().lend(&inside, |_| ()),
                    y.fill(&inside, 1.0),
                    y.copy_from(&inside, &x),
                    pinned.read().map(drop),
                    pinned.write().map(drop),
                    kernel.launch(&inside, 4, (x.span(), y.span_mut(), 1.0)),
                    kernel.prepare((x.span(), y.span_mut(), 1.0)).map(drop),
                    Module::load(inside.device(), &program()).map(drop),
                ];
                drop((x, y, pinned, kernel, event, inside));
                tell.send(refusals).unwrap();
            })
            .unwrap();
        for (index, refused) in told.recv().unwrap().into_iter().enumerate() {
            assert!(matches!(refused.as_ref().map_err(Error::kind), Err(ErrorKind::InCallback)), "{index}: {refused:?}");
        }
        stream.wait().unwrap();
    });
}

/// A payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(String::from("bomb"));
    }
}

#[test]
fn a_host_function_that_panics_poisons_its_stream_only() {
    in_time(|| {
        let device = device();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let (tell, told) = mpsc::channel();
        let mut x = stream.upload(&[1u32; 4]).unwrap();
        stream.host_function(|| panic!("as planned")).unwrap();
        other.host_function(|| panic_any(Bomb)).unwrap();
        device.wait().unwrap();
        let third = device.stream().unwrap();
        third.host_function(move || tell.send(()).unwrap()).unwrap();
        told.recv().unwrap();
        for _ in 0..2 {
            assert_kind!(x.fill(&stream, 2), ErrorKind::StreamPoisoned { message } if message.contains("as planned"));
            assert_kind!(stream.host_function(|| {}), ErrorKind::StreamPoisoned { .. });
            assert_kind!(x.fill(&other, 2), ErrorKind::StreamPoisoned { .. });
        }
        x.fill(&third, 3).unwrap();
        assert_eq!(x.download(&third).unwrap(), [3; 4]);
        drop((stream, other));
        device.stream().unwrap().wait().unwrap();
    });
}

#[test]
fn a_kernel_that_waits_for_its_stream_is_refused_not_stuck() {
    in_time(|| {
        let device = device();
        let stream = Arc::new(device.stream().unwrap());
        let answers = Arc::new(Mutex::new(Vec::new()));
        let (inside, told) = (Arc::clone(&stream), Arc::clone(&answers));
        let waits = move |_: &Thread<'_>| told.lock().unwrap().push(inside.wait().map_err(|error| error.kind().clone()));
        let module = Module::load(&device, &Program::new("waits").host::<(), _>("waits", waits)).unwrap();
        // SAFETY: it touches no memory.
        let kernel = unsafe { module.bind::<()>("waits") }.unwrap();
        kernel.launch(&stream, LaunchConfig::new(2, 3), ()).unwrap();
        stream.wait().unwrap();
        assert_eq!(*answers.lock().unwrap(), vec![Err(ErrorKind::InCallback); 6]);
    });
}

// ---------------------------------------------------------------- faults

#[test]
fn a_kernel_that_panics_poisons_its_device_and_every_call_says_so() {
    in_time(|| {
        let runtime = Runtime::new(Host::new(&HostConfig::new(2))).unwrap();
        let (device, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
        let (stream, second) = (device.stream().unwrap(), device.stream().unwrap());
        let (mut x, mut pinned) = (stream.upload(&[1u32; 4]).unwrap(), device.alloc_pinned::<u32>(4).unwrap());
        let (event, panics, kernel) = (device.event().unwrap(), panics(&device), kernel(&device));
        let held = device.alloc_pinned::<u32>(4).unwrap();
        let guard = held.read().unwrap();
        panics.launch(&stream, LaunchConfig::new(64, 32), ()).unwrap();
        let pending = x.as_slice().start_download(&stream);
        let first = stream.wait().unwrap_err();
        assert!(
            matches!(first.kind(), ErrorKind::DevicePoisoned { suspects, cause }
            if suspects.contains(&"panics".into()) && cause.contains("as planned")),
            "{first:?}"
        );
        let f = device.alloc::<f32>(0);
        let later = [
            stream.wait(),
            second.wait(),
            device.wait(),
            device.trim(),
            event.record(&second),
            event.wait(),
            second.wait_for(&event),
            x.fill(&second, 1),
            x.download(&second).map(drop),
            x.as_slice().lend(&second, |_| ()),
            pinned.read().map(drop),
            pinned.write().map(drop),
            panics.launch(&second, 1, ()),
            device.alloc::<u8>(1).map(drop),
            f.map(drop),
            device.stream().map(drop),
            second.host_function(|| {}),
            Module::load(&device, &program()).map(drop),
            pending.and_then(|pending| pending.wait().map(drop)),
            device.memory_info().map(drop),
        ];
        for (index, later) in later.into_iter().enumerate() {
            let later = later.unwrap_err();
            assert_eq!(later.kind(), first.kind(), "{index}");
        }
        let mut elsewhere = other.alloc::<u32>(4).unwrap();
        let there = other.stream().unwrap();
        elsewhere.fill(&there, 5).unwrap();
        assert_eq!(elsewhere.download(&there).unwrap(), [5; 4]);
        assert_eq!(guard.len(), 4);
        drop(guard);
        drop((x, pinned, held, event, panics, kernel, stream, second, device));
        other.wait().unwrap();
    });
}

#[test]
fn a_panic_that_carries_a_bomb_is_a_fault_like_others() {
    in_time(|| {
        let device = device();
        let stream = device.stream().unwrap();
        let bombs = |thread: &Thread<'_>| {
            let _local = (thread.thread()[0] == 1).then_some(Bomb);
            thread.barrier();
            if thread.thread()[0] == 0 {
                panic_any(Bomb);
            }
        };
        let module = Module::load(&device, &Program::new("bombs").host::<(), _>("bombs", bombs)).unwrap();
        // SAFETY: it touches nothing.
        let kernel = unsafe { module.bind::<()>("bombs") }.unwrap();
        kernel.launch(&stream, LaunchConfig::new(16, 8), ()).unwrap();
        assert_kind!(stream.wait(), ErrorKind::DevicePoisoned { .. });
    });
}

#[test]
fn a_kernel_may_catch_its_unwinding_at_a_barrier() {
    in_time(|| {
        let device = device();
        let stream = device.stream().unwrap();
        let stubborn = |thread: &Thread<'_>| {
            for _ in 0..3 {
                let _caught = catch_unwind(AssertUnwindSafe(|| thread.barrier()));
            }
            assert!(thread.thread()[0] != 7, "as planned");
            thread.barrier();
        };
        let module = Module::load(&device, &Program::new("stubborn").host::<(), _>("stubborn", stubborn)).unwrap();
        // SAFETY: it touches nothing.
        let kernel = unsafe { module.bind::<()>("stubborn") }.unwrap();
        kernel.launch(&stream, LaunchConfig::new(8, 16), ()).unwrap();
        assert_kind!(stream.wait(), ErrorKind::DevicePoisoned { .. });
    });
}

#[test]
fn a_span_out_of_bounds_is_a_fault() {
    in_time(|| {
        let device = device();
        let stream = device.stream().unwrap();
        let beyond = |_: &Thread<'_>, x: HostSpanMut<'_, f32>| x.store(x.len(), 1.0);
        let module = Module::load(&device, &Program::new("beyond").host::<(SpanMut<f32>,), _>("beyond", beyond)).unwrap();
        // SAFETY: the span checks bounds.
        let kernel = unsafe { module.bind::<(SpanMut<f32>,)>("beyond") }.unwrap();
        let mut x = stream.zeros::<f32>(4).unwrap();
        kernel.launch(&stream, LaunchConfig::new(1, 1), (x.span_mut(),)).unwrap();
        assert_kind!(x.download(&stream), ErrorKind::DevicePoisoned { cause, .. } if cause.contains("out of bounds"));
    });
}

// ---------------------------------------------------------------- other owners

#[test]
fn what_belongs_elsewhere_is_refused_by_name() -> Result<()> {
    let config = HostConfig::new(2).with_peers(|_, _| false);
    let (ours, theirs) = (Runtime::new(Host::new(&config))?, Runtime::new(Host::new(&config))?);
    let (device, second, foreign) = (ours.device(0)?, ours.device(1)?, theirs.device(0)?);
    assert_kind!(ours.device(2), ErrorKind::NoSuchDevice { ordinal: 2, count: 2 });
    let (stream, kernel, event) = (device.stream()?, kernel(&device), device.event()?);
    let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.zeros::<f32>(4)?);

    let there = second.stream()?;
    assert_kind!(kernel.launch(&there, 4, (x.span(), y.span_mut(), 1.0)), ErrorKind::WrongDevice { expected: 1, got: 0, .. });
    assert_kind!(event.record(&there), ErrorKind::WrongDevice { expected: 1, got: 0, .. });
    assert_kind!(y.fill(&there, 1.0), ErrorKind::NoPeerAccess { from: 1, to: 0 });
    let far = there.upload(&[2.0f32; 4])?;
    assert_kind!(kernel.launch(&stream, 4, (far.span(), y.span_mut(), 1.0)), ErrorKind::NoPeerAccess { from: 0, to: 1 });
    y.copy_from(&stream, &far)?;
    there.wait_for(&event)?;
    assert_eq!(y.download(&there)?, [2.0; 4]);

    let outside = foreign.stream()?;
    let (mut z, mark) = (outside.upload(&[3.0f32; 4])?, foreign.event()?);
    mark.record(&outside)?;
    assert_kind!(kernel.launch(&outside, 4, (x.span(), y.span_mut(), 1.0)), ErrorKind::WrongRuntime { .. });
    assert_kind!(kernel.launch(&stream, 4, (z.span(), y.span_mut(), 1.0)), ErrorKind::WrongRuntime { .. });
    assert_kind!(x.download(&outside), ErrorKind::WrongRuntime { .. });
    assert_kind!(y.copy_from(&stream, &z), ErrorKind::WrongRuntime { .. });
    assert_kind!(z.copy_from(&stream, &x), ErrorKind::WrongRuntime { .. });
    assert_kind!(z.fill(&stream, 1.0), ErrorKind::WrongRuntime { .. });
    assert_kind!(z.upload(&stream, &[1.0; 4]), ErrorKind::WrongRuntime { .. });
    assert_kind!(x.try_clone(&outside), ErrorKind::WrongRuntime { .. });
    assert_kind!(z.as_slice().lend(&stream, |_| ()), ErrorKind::WrongRuntime { .. });
    assert_kind!(stream.wait_for(&mark), ErrorKind::WrongRuntime { .. });
    assert_kind!(mark.record(&stream), ErrorKind::WrongRuntime { .. });
    let (prepared, mut converted) = kernel.prepare((x.span(), y.span_mut(), 1.0))?;
    converted.rebind::<0>(z.span())?;
    assert_kind!(prepared.launch(&stream, 4, &converted), ErrorKind::WrongRuntime { .. });
    converted.rebind::<0>(x.span())?;
    prepared.launch(&stream, 4, &converted)?;
    assert_eq!(y.download(&stream)?, [3.0; 4]);
    Ok(())
}

#[test]
fn foreign_threads_are_as_good_as_ours() -> Result<()> {
    let device = device();
    let (stream, kernel) = (device.stream()?, kernel(&device));
    let x = stream.upload(&[1.0f32; 64])?;
    let sums: Vec<Result<Vec<f32>>> = thread::scope(|scope| {
        let one = |_| {
            scope.spawn(|| {
                let mut y = stream.zeros::<f32>(64)?;
                for _ in 0..50 {
                    kernel.launch(&stream, 64, (x.span(), y.span_mut(), 1.0))?;
                }
                y.download(&stream)
            })
        };
        let threads: Vec<_> = (0..4).map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for sum in sums {
        assert_eq!(sum?, [50.0; 64]);
    }
    Ok(())
}

// ---------------------------------------------------------------- refusals

#[test]
fn a_forgotten_guard_keeps_refusing() -> Result<()> {
    let device = device();
    let (stream, kernel) = (device.stream()?, kernel(&device));
    let (mut x, mut y) = (device.alloc_pinned::<f32>(4)?, device.alloc_pinned::<f32>(4)?);
    std::mem::forget(x.slice(..2)?.read()?);
    std::mem::forget(y.write()?);
    assert_kind!(x.fill(&stream, 1.0), ErrorKind::HostBorrowed { start: 0, end: 8 });
    assert_kind!(x.write(), ErrorKind::HostBorrowed { .. });
    assert!(x.read().is_ok() && x.download(&stream).is_ok());
    x.slice_mut(2..)?.fill(&stream, 1.0)?;
    assert_kind!(y.read(), ErrorKind::HostBorrowed { .. });
    assert_kind!(y.download(&stream), ErrorKind::HostBorrowed { .. });
    assert_kind!(y.as_slice().lend(&stream, |_| ()), ErrorKind::HostBorrowed { .. });
    assert_kind!(kernel.launch(&stream, 4, (y.span(), x.span_mut(), 1.0)), ErrorKind::HostBorrowed { .. });
    assert_kind!(kernel.launch(&stream, 4, (x.span(), y.span_mut(), 1.0)), ErrorKind::HostBorrowed { .. });
    drop((x, y));
    device.alloc_pinned::<f32>(4)?.write()?[0] = 1.0;
    Ok(())
}

#[test]
fn a_guard_refuses_launches_with_arguments_converted_before() -> Result<()> {
    let device = device();
    let (stream, kernel) = (device.stream()?, kernel(&device));
    let (mut x, mut y) = (device.alloc_unified::<f32>(4)?, device.alloc_unified::<f32>(4)?);
    x.fill(&stream, 1.0)?;
    y.fill(&stream, 0.0)?;
    let (prepared, converted) = kernel.prepare((x.span(), y.span_mut(), 1.0))?;
    let reads = x.read()?;
    prepared.launch(&stream, 4, &converted)?;
    drop(reads);
    let writes = x.write()?;
    assert_kind!(prepared.launch(&stream, 4, &converted), ErrorKind::HostBorrowed { .. });
    drop(writes);
    let reads = y.read()?;
    assert_kind!(prepared.launch(&stream, 4, &converted), ErrorKind::HostBorrowed { .. });
    assert_eq!(reads[..], [1.0; 4]);
    Ok(())
}

#[test]
fn a_lend_refuses_what_conflicts_elsewhere() -> Result<()> {
    let device = device();
    let (stream, other, kernel) = (device.stream()?, device.stream()?, kernel(&device));
    let (mut x, mut y) = (stream.zeros::<f32>(4)?, stream.zeros::<f32>(4)?);
    let (prepared, converted) = kernel.prepare((x.span(), y.span_mut(), 1.0))?;
    x.as_slice_mut().lend(&stream, |_| {
        assert_kind!(prepared.launch(&other, 4, &converted), ErrorKind::Lent { .. });
        prepared.launch(&stream, 4, &converted)
    })??;
    x.as_slice().lend(&stream, |_| prepared.launch(&other, 4, &converted))??;
    y.slice_mut(..1)?.lend(&other, |_| assert_kind!(prepared.launch(&stream, 4, &converted), ErrorKind::Lent { start: 0, end: 4 }))?;
    let nested = y.as_slice().lend(&stream, |_| y.as_slice().lend(&other, |_| y.download(&stream)))???;
    assert_eq!(nested.len(), 4);
    prepared.launch(&other, 4, &converted)
}

#[test]
fn overlapping_arguments_are_refused_and_two_rebinds_swap() -> Result<()> {
    let device = device();
    let (stream, kernel) = (device.stream()?, kernel(&device));
    let (mut x, mut y) = (stream.upload(&[1.0f32; 8])?, stream.upload(&[2.0f32; 8])?);
    let (prepared, mut converted) = kernel.prepare((x.span(), y.span_mut(), 1.0))?;
    converted.rebind::<0>(y.span())?;
    assert_kind!(prepared.launch(&stream, 8, &converted), ErrorKind::Aliased { .. });
    assert_kind!(prepared.launch(&stream, 8, &converted), ErrorKind::Aliased { .. });
    converted.rebind::<1>(x.span_mut())?;
    prepared.launch(&stream, 8, &converted)?;
    assert_eq!((x.download(&stream)?, y.download(&stream)?), (vec![3.0; 8], vec![2.0; 8]));
    converted.rebind::<0>(x.slice(..4)?.span())?;
    assert_kind!(prepared.launch(&stream, 4, &converted), ErrorKind::Aliased { .. });
    converted.rebind::<1>(x.slice_mut(4..)?.span_mut())?;
    prepared.launch(&stream, 4, &converted)?;
    // SAFETY: each thread uses elements of its own, of both.
    let lenient = unsafe { kernel.clone().may_alias() };
    let (lenient, mut aliased) = lenient.prepare((x.span(), y.span_mut(), 1.0))?;
    aliased.rebind::<1>(x.span_mut())?;
    lenient.launch(&stream, 8, &aliased)?;
    assert_kind!(prepared.launch(&stream, 8, &aliased), ErrorKind::Aliased { .. });
    Ok(())
}

#[test]
fn a_rebind_that_is_refused_changes_nothing() -> Result<()> {
    let device = device();
    let (stream, kernel) = (device.stream()?, kernel(&device));
    let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.zeros::<f32>(4)?);
    let (prepared, mut converted) = kernel.prepare((x.span(), y.span_mut(), 1.0))?;
    for i in 0..1000 {
        converted.rebind::<0>(x.span())?;
        converted.rebind::<2>(i as f32)?;
    }
    converted.rebind::<2>(2.0)?;
    drop(x);
    prepared.launch(&stream, 4, &converted)?;
    assert_eq!(y.download(&stream)?, [2.0; 4]);
    Ok(())
}

#[test]
fn a_copy_onto_itself_is_refused() -> Result<()> {
    // Views of one buffer that overlap do not compile; through a kernel's arguments they are refused as `Aliased`.
    let device = device();
    let stream = device.stream()?;
    let mut x = stream.upload(&[1u8, 2, 3, 4])?;
    let (mut left, right) = x.split_at_mut(2)?;
    left.copy_from(&stream, &right)?;
    assert_eq!(x.download(&stream)?, [3, 4, 3, 4]);
    Ok(())
}

// ---------------------------------------------------------------- memory

#[test]
fn out_of_memory_says_the_figures_and_drops_help() -> Result<()> {
    let device = device_of(&HostConfig::new(1).with_memory(1 << 20));
    let stream = device.stream()?;
    let held = device.alloc::<u8>(700 << 10)?;
    assert_kind!(device.alloc::<u8>(400 << 10), ErrorKind::OutOfMemory { requested: 409_600, free: 331_776, total: 1_048_576, .. });
    assert_kind!(stream.zeros::<u8>(2 << 20), ErrorKind::OutOfMemory { requested: 2_097_152, .. });
    drop(held);
    let mut other = device.alloc::<u8>(900 << 10)?;
    other.fill(&stream, 1)?;
    drop(other);
    let mut again = device.alloc::<u8>(1000 << 10)?;
    again.fill(&stream, 2)?;
    assert_eq!(again.slice(..2)?.download(&stream)?, [2, 2]);
    Ok(())
}

#[test]
fn memory_of_a_stream_that_is_held_is_waited_for_not_refused() {
    in_time(|| {
        let device = device_of(&HostConfig::new(1).with_memory(1 << 20));
        let (stream, other, gate) = (device.stream().unwrap(), device.stream().unwrap(), Arc::new(Gate::new()));
        let mut x = device.alloc::<u8>(800 << 10).unwrap();
        let waits = Arc::clone(&gate);
        stream
            .host_function(move || {
                let _opened = waits.wait();
            })
            .unwrap();
        x.fill(&stream, 1).unwrap();
        drop(x);
        let opener = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            gate.open();
        });
        let mut y = device.alloc::<u8>(900 << 10).unwrap();
        y.fill(&other, 2).unwrap();
        assert_eq!(y.slice(..1).unwrap().download(&other).unwrap(), [2]);
        opener.join().unwrap();
    });
}

#[test]
fn what_a_device_lacks_is_refused_by_name() -> Result<()> {
    let lacks = |feature| device_of(&HostConfig::new(1).without(feature));
    assert_kind!(lacks(Feature::PinnedMemory).alloc_pinned::<u8>(1), ErrorKind::Unsupported { feature: Feature::PinnedMemory });
    assert_kind!(lacks(Feature::UnifiedMemory).alloc_unified::<u8>(1), ErrorKind::Unsupported { feature: Feature::UnifiedMemory });
    assert_kind!(lacks(Feature::TimingEvents).timing_event(), ErrorKind::Unsupported { feature: Feature::TimingEvents });
    let stream = lacks(Feature::HostFunctions).stream()?;
    assert_kind!(stream.host_function(|| {}), ErrorKind::Unsupported { feature: Feature::HostFunctions });
    let legacy = device().stream_with(StreamOptions::new().legacy());
    assert_kind!(legacy, ErrorKind::Unsupported { feature: Feature::LegacyStream });
    Ok(())
}

// ---------------------------------------------------------------- waits

/// Section 3, rule 3 of the design: write x on T, then let T wait for the host, then read x on S and wait for S on the host.
#[test]
fn a_reader_of_a_precise_stream_does_not_wait_for_what_waits_for_the_host() {
    in_time(|| {
        let device = device();
        let writes = device.stream_with(StreamOptions::new().precise()).unwrap();
        let (reads, gate) = (device.stream().unwrap(), Arc::new(Gate::with_patience(Duration::from_secs(20))));
        let mut x = device.alloc::<u32>(4).unwrap();
        x.fill(&writes, 7).unwrap();
        let waits = Arc::clone(&gate);
        let module = Program::new("waits").host::<(SpanMut<u32>,), _>("waits", move |_: &Thread<'_>, _: HostSpanMut<'_, u32>| {
            assert!(waits.wait(), "the host never opened the gate");
        });
        let module = Module::load(&device, &module).unwrap();
        // SAFETY: it touches nothing.
        let kernel = unsafe { module.bind::<(SpanMut<u32>,)>("waits") }.unwrap();
        let mut other = device.alloc::<u32>(4).unwrap();
        kernel.launch(&writes, LaunchConfig::new(1, 1), (other.span_mut(),)).unwrap();
        assert_eq!(x.download(&reads).unwrap(), [7; 4]);
        reads.wait().unwrap();
        assert!(!gate.is_open());
        gate.open();
        writes.wait().unwrap();
    });
}

#[test]
fn a_host_function_gets_a_point_before_it_on_any_stream() {
    in_time(|| {
        let device = device();
        let (writes, reads) = (device.stream().unwrap(), device.stream().unwrap());
        let gate = Arc::new(Gate::with_patience(Duration::from_secs(20)));
        let mut x = device.alloc::<u32>(4).unwrap();
        x.fill(&writes, 7).unwrap();
        let waits = Arc::clone(&gate);
        writes.host_function(move || assert!(waits.wait())).unwrap();
        assert_eq!(x.download(&reads).unwrap(), [7; 4]);
        assert!(!gate.is_open());
        gate.open();
        writes.wait().unwrap();
    });
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics, as planned");
    }
}

#[test]
fn a_waker_that_panics_hurts_no_other_read() {
    in_time(|| {
        let device = device();
        let stream = device.stream().unwrap();
        let x = stream.upload(&[1u32, 2]).unwrap();
        for _ in 0..2 {
            let gate = Gate::new();
            stream
                .host_function({
                    let function = gate.function();
                    move || function.call()
                })
                .unwrap();
            let mut first = x.as_slice().start_download(&stream).unwrap().into_future();
            let bomb = Waker::from(Arc::new(PanickingWaker));
            assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&bomb)).is_pending());
            let second = x.as_slice().start_download(&stream).unwrap();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                gate.open();
            });
            assert_eq!(pollster::block_on(async { second.await }).unwrap(), [1, 2]);
        }
    });
}

#[test]
fn a_lost_device_answers_the_same_where_peers_were_not_enabled_yet() {
    let runtime = Runtime::new(Host::new(&HostConfig::new(2))).unwrap();
    let (lost, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (stream, elsewhere) = (lost.stream().unwrap(), other.stream().unwrap());
    let (x, mut y) = (elsewhere.upload(&[1.0f32]).unwrap(), elsewhere.upload(&[1.0f32]).unwrap());
    other.wait().unwrap();
    let axpy = kernel(&lost);
    panics(&lost).launch(&stream, 1, ()).unwrap();
    let first = stream.wait().unwrap_err().to_string();
    let later = axpy.launch(&stream, 1, (x.span(), y.span_mut(), 1.0)).unwrap_err().to_string();
    assert_eq!(first, later);
}

#[test]
fn parameters_that_are_too_many_bytes_are_refused_typed_and_untyped() {
    let device = device();
    let stream = device.stream().unwrap();
    let program = Program::new("large").host::<([u64; 513],), _>("large", |_: &Thread<'_>, _: [u64; 513]| {});
    let module = Module::load(&device, &program).unwrap();
    // SAFETY: it has this parameter and touches nothing.
    assert_kind!(unsafe { module.bind::<([u64; 513],)>("large") }, ErrorKind::LimitExceeded { asked: 4104, limit: 4096, .. });
    let untyped = module.function("large").unwrap();
    // SAFETY: as above.
    assert_kind!(unsafe { untyped.launch(&stream, 1, ([0u64; 513],)) }, ErrorKind::LimitExceeded { asked: 4104, .. });
    assert_kind!(untyped.prepare(([0u64; 513],)), ErrorKind::LimitExceeded { asked: 4104, .. });
}
