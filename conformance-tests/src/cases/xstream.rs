//! Several streams: memory orders itself, readers and disjoint ranges are free, the host never waits.

use super::ordering;
use crate::case::{Case, case};
use crate::check::same;
use crate::context::Context;
use crate::kernels::reference;
use polywarp_core::backend::{AllocationDescriptor, Backend, Feature, MemoryKind};
use polywarp_core::decorate::Method;
use polywarp_core::{Device, Result, Stream, StreamOptions};

const LEN: usize = 1000;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case(
            "xstream.writer_then_reader",
            "XS1",
            "A reader on one stream sees what a slow writer on another wrote before it.",
            writer_then_reader,
        )
        .gated(),
        case("xstream.host_does_not_wait", "XS2", "Ordering streams never waits on the host.", host_does_not_wait).gated(),
        case("xstream.readers_are_free", "XS3", "Readers on two streams are not ordered with each other.", readers_are_free).gated(),
        case("xstream.writer_after_all_readers", "XS4", "A writer comes after the readers of every stream.", writer_after_all_readers)
            .gated(),
        case(
            "xstream.ping_pong_is_bounded:times=1000",
            "XS5",
            "A buffer that goes back and forth keeps events and recorded uses bounded.",
            ping_pong_is_bounded,
        ),
        case("xstream.same_buffer_twice", "XS6", "A buffer passed twice to one launch costs one wait.", same_buffer_twice).gated(),
        case(
            "xstream.disjoint_views_overlap",
            "XS7",
            "Disjoint views are not ordered with each other; the whole buffer is ordered after both.",
            disjoint_views_overlap,
        )
        .gated(),
        case(
            "xstream.raw_address_is_untracked",
            "XS8",
            "Asking for the raw address orders and records nothing; memory is still reused only behind all recorded users.",
            raw_address_is_untracked,
        )
        .gated(),
        case(
            "xstream.foreign_current_device",
            "XS9",
            "Calls of other code on another device between ours change nothing.",
            foreign_current_device,
        )
        .devices(2),
        case("xstream.owner_stream_dropped", "XS10", "A stream dropped before the hand-over does not lose its work.", owner_stream_dropped)
            .gated(),
        case(
            "xstream.streams_of_devices_differ",
            "XS11",
            "The first streams of two devices are different owners.",
            streams_of_devices_differ,
        )
        .gated()
        .devices(2)
        .needs(Feature::PinnedMemory),
        case("xstream.chain:streams=100", "XS12", "A chain over 100 streams runs in order, with one record and one wait per link.", chain),
        case(
            "xstream.successor_of_dropped_stream",
            "XS13",
            "A stream made after another was dropped is ordered like any other, whatever it takes over.",
            successor_of_dropped_stream,
        )
        .gated(),
    ]
}

/// Red if the wait is left out, or submitted after the reader.
fn writer_then_reader<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let mut x = a.upload(&data)?;
    let mut y = b.zeros(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, x + 1]   b: [wait a, x → y]
    cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
    cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))?;
    held.open()?;
    same(y.download(&b)?, reference::add_each(&data, 1));
    Ok(())
}

/// Red if a hand-over waits for an event or a stream on the host.
fn host_does_not_wait<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.zeros(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, x + 1, wait b, x + 1]   b: [wait a, x → y]
    let calls = cx.calls(|| {
        cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
        cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))?;
        cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))
    })?;
    assert!(!a.is_complete()? && !b.is_complete()?, "the gate is closed");
    assert_eq!((calls[Method::EventWait], calls[Method::EventQuery]), (0, 0), "{calls}");
    held.open()?;
    same(x.download(&a)?, [2; LEN]);
    same(y.download(&b)?, [1; LEN]);
    Ok(())
}

/// Red if readers count as writers.
fn readers_are_free<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let x = a.upload(&data)?;
    let (mut y, mut z) = (a.alloc(LEN)?, b.alloc(LEN)?);
    a.wait()?;
    let held = cx.hold(&a)?;
    // a: [gate, x → y]   b: [x → z]
    let calls = cx.calls(|| {
        cx.kernels.copy.launch(&a, LEN, (x.span(), y.span_mut()))?;
        cx.kernels.copy.launch(&b, LEN, (x.span(), z.span_mut()))
    })?;
    assert_eq!(calls.to_string(), "launch 2");
    same(z.download(&b)?, &data);
    assert!(!a.is_complete()?, "the second reader ran while the first was held");
    held.open()?;
    same(y.download(&a)?, data);
    Ok(())
}

/// Red if only the last reader is remembered.
fn writer_after_all_readers<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b, c] = cx.streams()?;
    let data = cx.data(LEN);
    let mut x = c.upload(&data)?;
    let (mut y, mut z) = (a.alloc(LEN)?, b.alloc(LEN)?);
    c.wait()?;
    let held = cx.hold(&a)?;
    // a: [gate, x → y]   b: [x → z]   c: [wait a, wait b, fill x]
    cx.kernels.copy.launch(&a, LEN, (x.span(), y.span_mut()))?;
    cx.kernels.copy.launch(&b, LEN, (x.span(), z.span_mut()))?;
    let calls = cx.calls(|| cx.kernels.fill.launch(&c, LEN, (x.span_mut(), 0)))?;
    assert_eq!(ordering(&calls), [2, 2, 0, 1], "{calls}");
    held.open()?;
    same(y.download(&a)?, &data);
    same(z.download(&b)?, data);
    Ok(())
}

/// Red if events or uses pile up with each hand-over.
fn ping_pong_is_bounded<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut ping_pong = |times: u32| {
        (0..times).try_for_each(|_| {
            cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
            cx.kernels.add_one.launch(&b, LEN, (x.span_mut(),))
        })
    };
    ping_pong(50)?;
    let calls = cx.calls(|| ping_pong(1000))?;
    assert_eq!((calls[Method::EventCreate], calls[Method::EventWait]), (0, 0), "{calls}");
    assert!(calls[Method::EventRecord] <= 2000 && calls[Method::StreamWaitEvent] <= 2000, "{calls}");
    assert!(x.recorded_uses() <= 4, "{} uses", x.recorded_uses());
    same(x.download(&a)?, [2100; LEN]);
    Ok(())
}

/// Red if waits are counted per argument.
fn same_buffer_twice<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.zeros(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, x + 1]   b: [wait a, x + x → y]
    cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
    let calls = cx.calls(|| cx.kernels.add.launch(&b, LEN, (x.span(), x.span(), y.span_mut())))?;
    assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    held.open()?;
    same(y.download(&b)?, [2; LEN]);
    Ok(())
}

/// Red if ranges are not compared, or only the last range is remembered.
fn disjoint_views_overlap<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b, c] = cx.streams()?;
    let mut x = c.zeros::<u32>(LEN)?;
    let mut y = c.alloc(LEN)?;
    c.wait()?;
    let (mut left, mut right) = x.split_at_mut(LEN / 2)?;
    let held = cx.hold(&a)?;
    // a: [gate, fill left]   b: [fill right]
    cx.kernels.fill.launch(&a, LEN, (left.reborrow().span_mut(), 1))?;
    let calls = cx.calls(|| cx.kernels.fill.launch(&b, LEN, (right.reborrow().span_mut(), 2)))?;
    assert_eq!(calls.to_string(), "launch 1");
    b.wait()?;
    assert!(!a.is_complete()?, "the right half was written while the left one was held");
    held.open()?;
    // the same with the roles exchanged
    let held = cx.hold(&b)?;
    // b: [gate, fill right]   a: [fill left]   c: [wait a, wait b, x → y]
    cx.kernels.fill.launch(&b, LEN, (right.span_mut(), 4))?;
    cx.kernels.fill.launch(&a, LEN, (left.span_mut(), 3))?;
    a.wait()?;
    assert!(!b.is_complete()?, "the left half was written while the right one was held");
    let calls = cx.calls(|| cx.kernels.copy.launch(&c, LEN, (x.span(), y.span_mut())))?;
    assert_eq!(calls[Method::StreamWaitEvent], 1, "one half was waited for already: {calls}");
    held.open()?;
    same(y.download(&c)?, [[3; LEN / 2], [4; LEN / 2]].concat());
    Ok(())
}

/// Red if the raw address counts as a use, or a drop forgets the uses.
fn raw_address_is_untracked<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let x = a.upload(&data)?;
    let mut y = a.alloc(LEN)?;
    a.wait()?;
    let held = cx.hold(&a)?;
    // a: [gate, x → y]
    cx.kernels.copy.launch(&a, LEN, (x.span(), y.span_mut()))?;
    let uses = x.recorded_uses();
    let calls = cx.calls(|| {
        assert_ne!(x.device_address().0, 0);
        Ok(())
    })?;
    assert_eq!((calls.to_string().as_str(), x.recorded_uses()), ("nothing", uses));
    drop(x);
    // b: [fill of memory of the same size]
    let mut z = b.alloc::<u32>(LEN)?;
    cx.kernels.fill.launch(&b, LEN, (z.span_mut(), 0))?;
    held.open()?;
    same(y.download(&a)?, data);
    Ok(())
}

/// Red if a backend trusts that its device is still the current one.
fn foreign_current_device<B: Backend>(cx: &Context<B>) -> Result<()> {
    let (other, kernels) = cx.other_device()?;
    let backend = cx.runtime.backend();
    let foreign = |device: &Device<B>| {
        let memory = backend.allocate(device.raw(), &AllocationDescriptor::new(4096, MemoryKind::Device))?;
        #[allow(unsafe_code, reason = "foreign code calls the backend past polywarp")]
        // SAFETY: the memory was allocated just now on that device and nobody used it.
        unsafe {
            backend.free(device.raw(), memory)
        }
    };
    let data = cx.data(LEN);
    foreign(&other)?;
    let stream = cx.stream()?;
    foreign(&other)?;
    let mut x = stream.upload(&data)?;
    foreign(&other)?;
    cx.kernels.add_one.launch(&stream, LEN, (x.span_mut(),))?;
    let there = other.stream()?;
    let mut y = there.upload(&data)?;
    foreign(&cx.device)?;
    kernels.add_one.launch(&there, LEN, (y.span_mut(),))?;
    foreign(&other)?;
    same(x.download(&stream)?, reference::add_each(&data, 1));
    foreign(&cx.device)?;
    same(y.download(&there)?, reference::add_each(&data, 1));
    Ok(())
}

/// Red if uses of a stream that is gone count as complete, or name what no longer exists.
fn owner_stream_dropped<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.zeros(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, x + 1], dropped   b: [wait a, x → y]
    cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
    drop(a);
    let c = cx.stream()?; // may take over what is left of `a`
    cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))?;
    cx.kernels.add_one.launch(&c, LEN, (x.span_mut(),))?;
    held.open()?;
    same(x.download(&c)?, [2; LEN]);
    same(y.download(&b)?, [1; LEN]);
    Ok(())
}

/// The legacy stream where there is one.
fn default_stream<B: Backend>(device: &Device<B>) -> Result<Stream<B>> {
    let legacy = device.info().features.contains(Feature::LegacyStream);
    device.stream_with(if legacy { StreamOptions::new().legacy() } else { StreamOptions::new() })
}

/// Red if streams are told apart by a handle that every device has.
fn streams_of_devices_differ<B: Backend>(cx: &Context<B>) -> Result<()> {
    let (other, kernels) = cx.other_device()?;
    let (here, there) = (default_stream(&cx.device)?, default_stream(&other)?);
    let mut x = cx.device.alloc_pinned::<u32>(LEN)?;
    x.write()?.fill(1);
    let held = cx.hold(&here)?;
    // here: [gate, x + 1]   there: [wait here, x + 1]
    cx.kernels.add_one.launch(&here, LEN, (x.span_mut(),))?;
    let calls = cx.calls(|| kernels.add_one.launch(&there, LEN, (x.span_mut(),)))?;
    assert_eq!((calls[Method::StreamWaitEvent], calls[Method::EventWait]), (1, 0), "{calls}");
    held.open()?;
    same(&x.read()?[..], [3; LEN]);
    Ok(())
}

/// Red if an edge is lost, or if vectors are not passed on and each link waits for all before it.
fn chain<B: Backend>(cx: &Context<B>) -> Result<()> {
    let streams = (0..100).map(|_| cx.stream()).collect::<Result<Vec<_>>>()?;
    let mut x = streams[0].zeros::<u32>(LEN)?;
    let mut launch = |stream: &Stream<B>| cx.kernels.add_one.launch(stream, LEN, (x.span_mut(),));
    launch(&streams[0])?;
    for stream in &streams[1..] {
        let calls = cx.calls(|| launch(stream))?;
        assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    }
    same(x.download(&streams[99])?, [100; LEN]);
    Ok(())
}

/// Red if a stream that takes a slot over restarts its count, so that its work seems known to be complete.
fn successor_of_dropped_stream<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.zeros(LEN)?;
    (0..20).try_for_each(|_| cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),)))?;
    cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))?;
    cx.device.wait()?;
    drop(a);
    let c = cx.stream()?; // may take over what is left of `a`
    let held = cx.hold(&c)?;
    // c: [gate, x + 1]   b: [wait c, x → y]
    cx.kernels.add_one.launch(&c, LEN, (x.span_mut(),))?;
    let calls = cx.calls(|| cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut())))?;
    assert_eq!((calls[Method::StreamWaitEvent], calls[Method::EventWait]), (1, 0), "{calls}");
    held.open()?;
    same(y.download(&b)?, [21; LEN]);
    Ok(())
}
