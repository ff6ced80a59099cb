//! Giving memory back: behind every use, from wherever it is dropped.

use crate::case::{Case, case};
use crate::check::same;
use crate::context::Context;
use crate::kernels::SUM_THREADS;
use polywarp_core::backend::{Backend, Feature};
use polywarp_core::decorate::Method;
use polywarp_core::{Buffer, LaunchConfig, Result, Stream};

const LEN: usize = 1000;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case(
            "free.behind_slow_reader",
            "FR1",
            "Memory dropped while a slow reader holds it is reused only after the reader.",
            behind_slow_reader,
        )
        .gated(),
        case("free.behind_hand_over", "FR2", "Memory dropped after a hand-over is reused only after both streams.", behind_hand_over)
            .gated(),
        case(
            "free.behind_foreign_user",
            "FR3",
            "Memory of one stream used by another alone is reused only after that one.",
            behind_foreign_user,
        )
        .gated(),
        case(
            "free.without_waits:count=100",
            "FR4",
            "Allocating, launching and dropping a hundred times without a wait is right, and reuses the memory.",
            without_waits,
        ),
        case(
            "free.kept_by_arguments",
            "FR6",
            "Converted arguments keep memory whose buffer is dropped; the last of them gives it back.",
            kept_by_arguments,
        ),
        case(
            "free.other_device_current",
            "FR8",
            "A drop while another device is current gives the memory back to the right one.",
            other_device_current,
        )
        .devices(2),
        case("free.after_stream", "FR9", "Memory dropped after the stream that used it is given back.", after_stream).gated(),
        case("free.mapped_memory", "FR10", "Pinned memory dropped while a kernel reads it is reused only after the kernel.", mapped_memory)
            .gated()
            .needs(Feature::PinnedMemory),
        case(
            "free.nothing_leaks:operations=1000",
            "FR11",
            "After random operations everything that was allocated is given back.",
            nothing_leaks,
        ),
        case(
            "free.prepared_in_flight",
            "FR12",
            "A prepared call dropped with a launch in flight keeps its memory until the launch is complete.",
            prepared_in_flight,
        )
        .gated(),
        case(
            "free.reused_while_in_use",
            "FR13",
            "When much dropped memory is still in use and some of it is taken again, the new use comes after the old ones.",
            reused_while_in_use,
        )
        .gated()
        .needs(Feature::PinnedMemory),
    ]
}

/// Takes memory of the same size on each stream and overwrites it.
fn refill<B: Backend>(cx: &Context<B>, streams: &[&Stream<B>]) -> Result<()> {
    streams.iter().try_for_each(|stream| {
        let mut junk = stream.alloc::<u32>(LEN)?;
        cx.kernels.fill.launch(stream, LEN, (junk.span_mut(), 0xDEAD))
    })
}

/// What is allocated now, in bytes.
fn live_bytes<B: Backend>(cx: &Context<B>) -> i64 {
    cx.counts().live().bytes
}

/// Waits for all and gives everything unused back; answers how many bytes are left.
fn settle<B: Backend>(cx: &Context<B>) -> Result<i64> {
    cx.device.wait()?;
    cx.device.trim()?;
    Ok(live_bytes(cx))
}

/// Red if dropping frees at once, or forgets readers.
fn behind_slow_reader<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let x = a.upload(&data)?;
    let mut y = a.alloc(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, x → y, fill]   b: [fill]
    cx.kernels.copy.launch(&a, LEN, (x.span(), y.span_mut()))?;
    drop(x);
    refill(cx, &[&b, &a, &b])?;
    held.open()?;
    same(y.download(&a)?, data);
    Ok(())
}

/// Red if memory goes back to its home stream without what other streams do with it.
fn behind_hand_over<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.alloc(LEN)?;
    let held = cx.hold(&b)?;
    // a: [x + 1, fill]   b: [gate, wait a, x → y, fill]
    cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
    cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))?;
    drop(x);
    refill(cx, &[&a, &b, &a])?;
    held.open()?;
    same(y.download(&b)?, [1; LEN]);
    Ok(())
}

/// Red if the home stream takes its memory back at once.
fn behind_foreign_user<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut y = b.zeros(LEN)?;
    let mut x = a.alloc::<u32>(LEN)?;
    let held = cx.hold(&b)?;
    // a: [fill]   b: [gate, fill x, x → y]
    cx.kernels.fill.launch(&b, LEN, (x.span_mut(), 3))?;
    cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))?;
    drop(x);
    refill(cx, &[&a])?;
    held.open()?;
    a.wait()?;
    same(y.download(&b)?, [3; LEN]);
    Ok(())
}

/// Red if the pool grows with every buffer, or reuses one before its stream is there.
fn without_waits<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut total = stream.zeros::<u32>(LEN)?;
    let mut calls = 0;
    for i in 0..100 {
        calls += cx.calls(|| {
            let mut x = stream.alloc(LEN)?;
            let mut sum = stream.alloc(LEN)?;
            cx.kernels.fill.launch(&stream, LEN, (x.span_mut(), i))?;
            cx.kernels.add.launch(&stream, LEN, (x.span(), total.span(), sum.span_mut()))?;
            cx.kernels.copy.launch(&stream, LEN, (sum.span(), total.span_mut()))
        })?[Method::Allocate];
    }
    assert!(calls <= 2, "{calls} allocations");
    same(total.download(&stream)?, [4950; LEN]);
    Ok(())
}

/// Red if arguments do not own what they reach, or never let go.
fn kept_by_arguments<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(LEN);
    let mut y = stream.alloc(LEN)?;
    let before = settle(cx)?;
    let x = stream.upload(&data)?;
    let (first, second) =
        (cx.kernels.copy.prepared((x.span(), y.span_mut()))?, cx.kernels.copy.prepared((x.slice(1..)?.span(), y.span_mut()))?);
    drop(x);
    drop(second);
    let bytes = (LEN * 4) as i64;
    assert!(settle(cx)? >= before + bytes, "the first arguments keep it");
    refill(cx, &[&stream])?;
    first.launch(&stream, LEN)?;
    same(y.download(&stream)?, data);
    drop(first);
    assert_eq!(settle(cx)?, before);
    Ok(())
}

/// Red if memory is freed on whichever device is current.
fn other_device_current<B: Backend>(cx: &Context<B>) -> Result<()> {
    let (other, kernels) = cx.other_device()?;
    let (here, there) = (cx.stream()?, other.stream()?);
    let before = settle(cx)?;
    let mut x = here.zeros::<u32>(LEN)?;
    cx.kernels.add_one.launch(&here, LEN, (x.span_mut(),))?;
    let mut y = there.zeros::<u32>(LEN)?;
    kernels.add_one.launch(&there, LEN, (y.span_mut(),))?;
    drop(x); // the other device is current
    there.wait()?;
    let calls = cx.calls(|| cx.device.wait().and_then(|()| cx.device.trim()))?;
    assert_eq!((calls[Method::Free], calls.failures(Method::Free)), (1, 0), "{calls}");
    same(y.download(&there)?, [1; LEN]);
    drop(y);
    other.wait()?;
    other.trim()?;
    assert_eq!(settle(cx)?, before);
    assert!(cx.device.take_deferred_error().is_none() && other.take_deferred_error().is_none());
    Ok(())
}

/// Red if the uses of a stream that is gone keep memory for ever, or let it go too early.
fn after_stream<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let before = settle(cx)?;
    let x = a.upload(&data)?;
    let mut y = b.alloc(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, x → y], dropped   b: [fill]
    cx.kernels.copy.launch(&a, LEN, (x.span(), y.span_mut()))?;
    drop(a);
    drop(x);
    refill(cx, &[&b])?;
    held.open()?;
    same(y.download(&b)?, data);
    drop(y);
    assert_eq!(settle(cx)?, before);
    Ok(())
}

/// Red if pinned memory is freed or reused while a device reads it.
fn mapped_memory<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(LEN);
    let mut x = cx.device.alloc_pinned::<u32>(LEN)?;
    x.write()?.copy_from_slice(&data);
    let mut y = stream.alloc(LEN)?;
    let held = cx.hold(&stream)?;
    // [gate, x → y]
    cx.kernels.copy.launch(&stream, LEN, (x.span(), y.span_mut()))?;
    drop(x);
    cx.device.trim()?;
    let mut other = cx.device.alloc_pinned::<u32>(LEN)?;
    other.write()?.fill(0);
    assert!(!stream.is_complete()?, "nothing of this waited for the kernel");
    held.open()?;
    same(y.download(&stream)?, data);
    Ok(())
}

/// Red if something is given back twice or never.
fn nothing_leaks<B: Backend>(cx: &Context<B>) -> Result<()> {
    let streams = cx.streams::<3>()?;
    let before = settle(cx)?;
    let mut random = cx.random();
    let mut buffers: Vec<Buffer<B, u32>> = Vec::new();
    for _ in 0..1000 {
        let stream = &streams[random.usize(..3)];
        match random.u8(..4) {
            0 => buffers.push(stream.zeros(random.usize(0..5000))?),
            1 if !buffers.is_empty() => drop(buffers.swap_remove(random.usize(..buffers.len()))),
            2 if !buffers.is_empty() => {
                let index = random.usize(..buffers.len());
                buffers.push(buffers[index].try_clone(stream)?);
            }
            _ => {
                let Some(x) = buffers.last_mut() else { continue };
                let len = x.len();
                cx.kernels.add_one.launch(stream, len, (x.span_mut(),))?;
            }
        }
    }
    drop(buffers);
    assert_eq!(settle(cx)?, before);
    Ok(())
}

/// Red if a launch does not keep what its arguments reach.
fn prepared_in_flight<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let x = a.upload(&data)?;
    let mut y = a.alloc(LEN)?;
    let copy = cx.kernels.copy.prepared((x.span(), y.span_mut()))?;
    drop(x);
    let held = cx.hold(&a)?;
    // a: [gate, x → y, fill]   b: [fill]
    copy.launch(&a, LEN)?;
    drop(copy);
    refill(cx, &[&b, &a])?;
    held.open()?;
    same(y.download(&a)?, data);
    Ok(())
}

/// Red if readers are forgotten when memory changes hands with uses pending.
fn reused_while_in_use<B: Backend>(cx: &Context<B>) -> Result<()> {
    /// 4 MiB each, 40 MiB in all: more than a pool should hoard.
    const LARGE: usize = 1 << 20;
    let [a, b] = cx.streams()?;
    let mut sums = a.zeros::<u32>(10)?;
    let mut dropped = Vec::new();
    for i in 0..10 {
        let mut x = cx.device.alloc_pinned::<u32>(LARGE)?;
        x.slice_mut(..100)?.write()?.fill(i + 1);
        dropped.push(x);
    }
    let held = cx.hold(&a)?;
    // a: [gate, sum of each]   b: [wait a, fill of each anew]
    for (i, x) in dropped.drain(..).enumerate() {
        let config = LaunchConfig::new(1, SUM_THREADS).shared_bytes(4 * SUM_THREADS);
        cx.kernels.sum.launch(&a, config, (x.slice(..100)?.span(), sums.slice_mut(i..)?.span_mut()))?;
    }
    for _ in 0..10 {
        let mut new = cx.device.alloc_pinned::<u32>(LARGE)?;
        cx.kernels.fill.launch(&b, 100, (new.slice_mut(..100)?.span_mut(), 0))?;
    }
    held.open()?;
    same(sums.download(&a)?, (1..=10).map(|i| 100 * i).collect::<Vec<_>>());
    Ok(())
}
