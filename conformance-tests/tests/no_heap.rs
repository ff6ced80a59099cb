//! The steady state allocates nothing: counted by a global allocator of this test, on the backend that does nothing.

#![allow(unsafe_code, reason = "an allocator, and binding kernels that never run")]

use polywarp_conformance::kernels::{self, Kernels};
use polywarp_core::decorate::{Counting, Counts, Method, Nop};
use polywarp_core::{Buffer, Device, Kernel, Module, Result, Runtime, Span, SpanMut, Stream};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

type Backend = Counting<Nop>;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
struct CountingAllocator;

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get() + layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Heap allocations of this thread while `work` runs, after it has run for a while.
fn heap(mut work: impl FnMut() -> Result<()>) -> Result<u64> {
    (0..100).try_for_each(|_| work())?;
    let before = ALLOCATIONS.get();
    (0..100).try_for_each(|_| work())?;
    Ok(ALLOCATIONS.get() - before)
}

fn open() -> Result<(Device<Backend>, Kernels<Backend>)> {
    let device = Runtime::new(Counting::new(Nop::default()))?.device(0)?;
    let kernels = kernels::load(&device, &kernels::program())?;
    Ok((device, kernels))
}

fn counts(device: &Device<Backend>) -> Counts {
    device.runtime().backend().counts()
}

#[test]
fn the_allocator_counts() {
    let before = (ALLOCATIONS.get(), LIVE_BYTES.get());
    let boxed = std::hint::black_box(Box::new(0u64));
    assert_eq!((ALLOCATIONS.get(), LIVE_BYTES.get()), (before.0 + 1, before.1 + 8));
    drop(boxed);
    assert_eq!(LIVE_BYTES.get(), before.1);
}

#[test]
fn a_launch_allocates_nothing() -> Result<()> {
    let (device, kernels) = open()?;
    let stream = device.stream()?;
    let (x, y, mut z) = (device.alloc::<u32>(64)?, device.alloc::<u32>(64)?, device.alloc::<u32>(64)?);
    assert_eq!(heap(|| kernels.add.launch(&stream, 64, (x.span(), y.span(), z.span_mut())))?, 0);
    let add = kernels.add.prepared((x.span(), y.span(), z.span_mut()))?;
    assert_eq!(heap(|| add.launch(&stream, 64))?, 0);
    Ok(())
}

/// A kernel with sixteen tracked leaves. Nothing runs it.
type Sixteen = Kernel<Backend, false, ([Span<u32>; 15], SpanMut<u32>)>;

fn sixteen(device: &Device<Backend>) -> Result<Sixteen> {
    let module = Module::load(device, &kernels::program())?;
    // SAFETY: the backend runs nothing.
    unsafe { module.bind("sixteen") }
}

#[test]
fn a_launch_with_sixteen_leaves_allocates_nothing() -> Result<()> {
    let (device, _) = open()?;
    let (kernel, stream) = (sixteen(&device)?, device.stream()?);
    let inputs = (0..15).map(|_| device.alloc::<u32>(64)).collect::<Result<Vec<_>>>()?;
    let mut out = device.alloc::<u32>(64)?;
    let spans = || std::array::from_fn::<_, 15, _>(|i| inputs[i].span());
    assert_eq!(heap(|| kernel.launch(&stream, 64, (spans(), out.span_mut())))?, 0);
    let prepared = kernel.prepared((spans(), out.span_mut()))?;
    assert_eq!(heap(|| prepared.launch(&stream, 64))?, 0);
    Ok(())
}

#[test]
fn a_hand_over_allocates_nothing() -> Result<()> {
    let (device, kernels) = open()?;
    let (a, b) = (device.stream()?, device.stream()?);
    let mut x = device.alloc::<u32>(64)?;
    let add_one = kernels.add_one.prepared((x.span_mut(),))?;
    let prepared = || {
        add_one.launch(&a, 64)?;
        add_one.launch(&b, 64)
    };
    assert_eq!(heap(prepared)?, 0);
    let converting = || {
        kernels.add_one.launch(&a, 64, (x.span_mut(),))?;
        kernels.add_one.launch(&b, 64, (x.span_mut(),))
    };
    assert_eq!(heap(converting)?, 0);
    Ok(())
}

#[test]
fn hand_overs_of_sixteen_leaves_allocate_nothing() -> Result<()> {
    let (device, _) = open()?;
    let (kernel, a, b) = (sixteen(&device)?, device.stream()?, device.stream()?);
    let inputs = (0..15).map(|_| device.alloc::<u32>(64)).collect::<Result<Vec<_>>>()?;
    let mut out = device.alloc::<u32>(64)?;
    let prepared = kernel.prepared((std::array::from_fn::<_, 15, _>(|i| inputs[i].span()), out.span_mut()))?;
    let both = || {
        prepared.launch(&a, 64)?;
        prepared.launch(&b, 64)
    };
    assert_eq!(heap(both)?, 0);
    Ok(())
}

/// What a million rounds leave behind: heap bytes of this thread, events, recorded uses.
fn left(
    device: &Device<Backend>,
    x: &mut Buffer<Backend, u32>,
    mut round: impl FnMut(u64, &mut Buffer<Backend, u32>) -> Result<()>,
) -> Result<()> {
    (0..10_000).try_for_each(|i| round(i, x))?;
    let (events, bytes) = (counts(device)[Method::EventCreate], LIVE_BYTES.get());
    (10_000..1_000_000).try_for_each(|i| round(i, x))?;
    assert_eq!(counts(device)[Method::EventCreate], events, "events");
    assert!(LIVE_BYTES.get() - bytes < 16 << 10, "{} heap bytes", LIVE_BYTES.get() - bytes);
    assert!(x.recorded_uses() <= 64, "{} uses", x.recorded_uses());
    Ok(())
}

#[test]
fn a_million_ping_pongs_leave_nothing() -> Result<()> {
    let (device, kernels) = open()?;
    let streams = [device.stream()?, device.stream()?];
    let turn = |i: u64| &streams[(i % 2) as usize];
    let mut x = device.alloc::<u32>(64)?;
    left(&device, &mut x, |i, x| kernels.add_one.launch(turn(i), 64, (x.span_mut(),)))
}

#[test]
fn a_million_distinct_slices_leave_nothing() -> Result<()> {
    let (device, kernels) = open()?;
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let mut x = device.alloc::<u32>(1_000_001)?;
    let launch = |stream: &Stream<Backend>, i: u64, x: &mut Buffer<Backend, u32>| {
        kernels.add_one.launch(stream, 1, (x.slice_mut(i as usize..=i as usize)?.span_mut(),))
    };
    left(&device, &mut x, |i, x| launch(&streams[(i % 3) as usize], i, x))
}
