//! One stream, one device: what the tracker records, and that it costs nothing.

use super::ordering;
use crate::case::{Case, case};
use crate::check::same;
use crate::context::Context;
use crate::kernels::reference;
use polywarp_core::backend::{Backend, Feature};
use polywarp_core::decorate::{Fault, Method};
use polywarp_core::{ErrorKind, LaunchConfig, Result};

const LEN: usize = 1000;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case(
            "track.same_stream_is_one_call",
            "TR1",
            "A launch whose buffers only its own stream used is exactly one backend call: no event, no wait.",
            same_stream_is_one_call,
        ),
        case(
            "track.second_host_read_is_free",
            "TR2",
            "A host read after a launch waits once; a second one makes no call.",
            second_host_read_is_free,
        )
        .needs(Feature::PinnedMemory),
        case(
            "track.read_guard_keeps_uses",
            "TR3",
            "A host guard for reading leaves the recorded uses: a later writer still waits for earlier readers.",
            read_guard_keeps_uses,
        )
        .gated()
        .needs(Feature::PinnedMemory),
        case(
            "track.stream_wait_cleans_all",
            "TR4",
            "After an explicit wait for a stream, no buffer that it wrote costs another stream or the host a wait.",
            stream_wait_cleans_all,
        )
        .needs(Feature::PinnedMemory),
        case("track.views_share_state", "TR5", "A use through a view is a use of its buffer, and the reverse.", views_share_state).gated(),
        case("track.conversion_is_pure", "TR6", "Converting arguments makes no backend call and records no use.", conversion_is_pure),
        case(
            "track.failed_launch_stays_cautious",
            "TR7",
            "After a launch that was refused, the next one is still ordered after what came before.",
            failed_launch_stays_cautious,
        )
        .gated(),
        case(
            "track.refused_wait_is_not_taken_in",
            "TR7b",
            "After a wait that the driver refused nothing was launched, and the next launch is still ordered after what came before.",
            refused_wait_is_not_taken_in,
        )
        .gated(),
        case(
            "track.empty_arguments_are_untracked",
            "TR8",
            "A null or empty argument is not tracked: it orders nothing.",
            empty_arguments_are_untracked,
        )
        .gated(),
        case(
            "track.part_keeps_the_rest",
            "TR9",
            "A later use of a part does not stand for an earlier use of the whole.",
            part_keeps_the_rest,
        )
        .gated(),
        case(
            "track.many_slices_are_remembered:slices=100",
            "TR10",
            "However many slices were written, a reader of each is ordered after its writer.",
            many_slices_are_remembered,
        )
        .gated(),
    ]
}

/// Red if a tracker records or waits for its own stream, or counts allocation as a foreign use.
fn same_stream_is_one_call<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(LEN);
    let mut x = stream.upload(&data)?;
    let mut y = stream.alloc::<u32>(LEN)?;
    for _ in 0..2 {
        let calls = cx.calls(|| cx.kernels.add_one.launch(&stream, LEN, (x.span_mut(),)))?;
        assert_eq!(calls.to_string(), "launch 1");
    }
    let calls = cx.calls(|| cx.kernels.copy.launch(&stream, LEN, (x.span(), y.span_mut())))?;
    assert_eq!(calls.to_string(), "launch 1");
    same(y.download(&stream)?, reference::add_each(&data, 2));
    Ok(())
}

/// Red if the host learns nothing from a wait, or reads without waiting.
fn second_host_read_is_free<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut x = cx.device.alloc_pinned::<u32>(LEN)?;
    cx.kernels.fill.launch(&stream, LEN, (x.span_mut(), 7))?;
    let first = cx.calls(|| x.read().map(|data| same(&data[..], [7; LEN])))?;
    assert_eq!(first[Method::EventWait], 1, "{first}");
    let second = cx.calls(|| x.read().map(|data| same(&data[..], [7; LEN])))?;
    assert_eq!(second.to_string(), "nothing");
    Ok(())
}

/// Red if a guard clears the uses it waited for and those it did not.
fn read_guard_keeps_uses<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let mut x = cx.device.alloc_pinned::<u32>(LEN)?;
    x.write()?.copy_from_slice(&data);
    let mut seen = a.alloc(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, x → seen]
    cx.kernels.copy.launch(&a, LEN, (x.span(), seen.span_mut()))?;
    let uses = x.recorded_uses();
    same(&x.read()?[..], &data); // reading does not wait for a reader
    assert_eq!(x.recorded_uses(), uses);
    // b: [wait a, fill x]
    let calls = cx.calls(|| cx.kernels.fill.launch(&b, LEN, (x.span_mut(), 0)))?;
    assert_eq!(calls[Method::StreamWaitEvent], 1, "{calls}");
    held.open()?;
    same(seen.download(&a)?, data);
    Ok(())
}

/// Red if a wait raises the host's knowledge of one buffer only.
fn stream_wait_cleans_all<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let (mut x, mut y) = (a.alloc(LEN)?, a.alloc(LEN)?);
    let mut z = cx.device.alloc_pinned(LEN)?;
    cx.kernels.fill.launch(&a, LEN, (x.span_mut(), 1))?;
    cx.kernels.fill.launch(&a, LEN, (y.span_mut(), 2))?;
    cx.kernels.fill.launch(&a, LEN, (z.span_mut(), 3))?;
    a.wait()?;
    let calls = cx.calls(|| {
        same(&z.read()?[..], [3; LEN]);
        cx.kernels.add.launch(&b, LEN, (x.span(), y.span(), z.span_mut()))
    })?;
    assert_eq!(calls.to_string(), "launch 1");
    same(&z.read()?[..], [3; LEN]);
    Ok(())
}

/// Red if views keep a state of their own.
fn views_share_state<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.alloc(LEN)?;
    a.wait()?;
    let held = cx.hold(&a)?;
    // a: [gate, fill a view of x]
    cx.kernels.fill.launch(&a, 10, (x.slice_mut(5..15)?.span_mut(), 9))?;
    // b: [wait a, x → y, fill another view of x]
    let calls = cx.calls(|| cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut())))?;
    assert_eq!(calls[Method::StreamWaitEvent], 1, "the buffer after its view: {calls}");
    cx.kernels.fill.launch(&b, LEN, (x.span_mut(), 4))?;
    held.open()?;
    let seen = y.download(&b)?;
    assert_eq!((seen[4], seen[5], seen[14], seen[15]), (0, 9, 9, 0));
    // a: [wait b, read a view of x]
    let calls = cx.calls(|| cx.kernels.fill.launch(&a, 1, (x.slice_mut(LEN - 1..)?.span_mut(), 5)))?;
    assert!(calls[Method::StreamWaitEvent] <= 1, "the view after its buffer: {calls}");
    same(x.slice(LEN - 2..)?.download(&a)?, [4, 5]);
    Ok(())
}

/// Red if conversion moves ownership, records uses or asks the driver.
fn conversion_is_pure<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let x = stream.upload(&cx.data(LEN))?;
    let mut y = stream.zeros::<u32>(LEN)?;
    let uses = (x.recorded_uses(), y.recorded_uses());
    let calls = cx.calls(|| cx.kernels.copy.prepare((x.span(), y.span_mut())).map(drop))?;
    assert_eq!(calls.to_string(), "nothing");
    assert_eq!((x.recorded_uses(), y.recorded_uses()), uses);
    Ok(())
}

/// Red if a refused launch takes the place of the uses before it.
fn failed_launch_stays_cautious<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.zeros::<u32>(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, fill x]   b: [a refused launch]
    cx.kernels.fill.launch(&a, LEN, (x.span_mut(), 6))?;
    let refused = cx.kernels.copy.launch(&b, LaunchConfig::new(1, [1, 1, 1 << 20]), (x.span(), y.span_mut()));
    assert!(matches!(refused.map_err(|error| error.kind().clone()), Err(ErrorKind::LimitExceeded { .. })));
    assert!(!a.is_complete()?);
    // b: [wait a, x → y]
    let calls = cx.calls(|| cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut())))?;
    assert_eq!(calls[Method::StreamWaitEvent], 1, "{calls}");
    held.open()?;
    same(y.download(&b)?, [6; LEN]);
    Ok(())
}

/// Red if a stream believes itself ordered by a wait that was refused.
fn refused_wait_is_not_taken_in<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let (mut x, mut y) = (a.zeros::<u32>(LEN)?, b.zeros::<u32>(LEN)?);
    let held = cx.hold(&a)?;
    // a: [gate, fill x]   b: [a refused wait]
    cx.kernels.fill.launch(&a, LEN, (x.span_mut(), 6))?;
    cx.faults.inject(Fault::refuse(Method::StreamWaitEvent).nth(1));
    let calls = cx.calls(|| {
        let refused = cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut())).map_err(|error| error.operation());
        assert_eq!(refused, Err("stream_wait_event"));
        Ok(())
    })?;
    assert_eq!(calls[Method::Launch], 0, "{calls}");
    // b: [wait a, x → y]
    let calls = cx.calls(|| cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut())))?;
    assert_eq!((calls[Method::StreamWaitEvent], calls[Method::Launch]), (1, 1), "{calls}");
    held.open()?;
    same(y.download(&b)?, [6; LEN]);
    Ok(())
}

/// Red if a null pointer or an empty range counts as a use of its buffer.
fn empty_arguments_are_untracked<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.zeros::<u32>(LEN)?;
    let held = cx.hold(&a)?;
    // a: [gate, fill x]
    cx.kernels.fill.launch(&a, LEN, (x.span_mut(), 1))?;
    let uses = x.recorded_uses();
    // b: [launches that reach nothing of x]
    let calls = cx.calls(|| {
        cx.kernels.copy.launch(&b, 1, (x.slice(3..3)?.span(), y.slice_mut(0..0)?.span_mut()))?;
        cx.kernels.add_or_one.launch(&b, LEN, (None::<&polywarp_core::Buffer<B, u32>>, y.span_mut()))
    })?;
    assert_eq!(calls.to_string(), "launch 2");
    assert_eq!(x.recorded_uses(), uses);
    same(y.download(&b)?, [1; LEN]);
    assert!(!a.is_complete()?);
    held.open()?;
    Ok(())
}

/// Red if a use prunes what it overlaps in place of what it contains.
fn part_keeps_the_rest<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut y = b.zeros::<u32>(10)?;
    let held = cx.hold(&a)?;
    // a: [gate, fill x, fill a part of x]   b: [wait a, another part of x → y]
    cx.kernels.fill.launch(&a, LEN, (x.span_mut(), 1))?;
    cx.kernels.fill.launch(&a, 10, (x.slice_mut(..10)?.span_mut(), 2))?;
    let calls = cx.calls(|| cx.kernels.copy.launch(&b, 10, (x.slice(LEN - 10..)?.span(), y.span_mut())))?;
    assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    held.open()?;
    same(y.download(&b)?, [1; 10]);
    Ok(())
}

/// Red if a full list of uses forgets some.
fn many_slices_are_remembered<B: Backend>(cx: &Context<B>) -> Result<()> {
    let a = cx.stream()?;
    let mut x = a.zeros::<u32>(200)?;
    a.wait()?;
    let held = cx.hold(&a)?;
    // a: [gate, fill slice 0, …, fill slice 99]
    (0..100).try_for_each(|i| cx.kernels.fill.launch(&a, 1, (x.slice_mut(2 * i..=2 * i)?.span_mut(), i as u32)))?;
    let mut readers = Vec::new();
    for i in [0, 20, 40, 60, 80, 99] {
        // a stream of its own: [wait a, slice i → y]
        let stream = cx.stream()?;
        let mut y = stream.alloc::<u32>(1)?;
        let calls = cx.calls(|| cx.kernels.copy.launch(&stream, 1, (x.slice(2 * i..=2 * i)?.span(), y.span_mut())))?;
        assert_eq!(calls[Method::StreamWaitEvent], 1, "slice {i}: {calls}");
        readers.push((i as u32, stream, y));
    }
    held.open()?;
    readers.iter().try_for_each(|(i, stream, y)| y.download(stream).map(|y| same(y, [*i])))
}
