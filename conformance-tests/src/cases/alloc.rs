//! Allocation under pressure: what is tried, in which order, and how often.

use super::kind;
use crate::case::{Case, case};
use crate::check::same;
use crate::context::Context;
use polywarp_core::backend::{Backend, Feature};
use polywarp_core::decorate::{Fault, Method};
use polywarp_core::{Buffer, ErrorKind, Result};
use std::thread;

const LEN: usize = 1000;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case(
            "alloc.null_is_out_of_memory",
            "AL10",
            "Success with a null address is out of memory, in every kind of memory.",
            null_is_out_of_memory,
        )
        .needs(Feature::PinnedMemory)
        .needs(Feature::UnifiedMemory),
        case(
            "alloc.ladder",
            "OM1",
            "Refused memory is asked for again once what is held for reuse was returned; with nothing to return, twice in all.",
            ladder,
        ),
        case(
            "alloc.waits_for_what_was_dropped",
            "OM2",
            "Refused memory is asked for a third time when work that uses dropped memory is complete and that is returned.",
            waits_for_what_was_dropped,
        )
        .gated(),
        case("alloc.other_refusals_are_final", "OM5", "An error other than out of memory is told at once.", other_refusals_are_final),
    ]
}

/// Memory whose use is complete.
fn used<B: Backend>(cx: &Context<B>, len: usize) -> Result<Buffer<B, u32>> {
    let stream = cx.stream()?;
    let x = stream.zeros(len)?;
    stream.wait()?;
    Ok(x)
}

/// Red if null passes for an address.
fn null_is_out_of_memory<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    cx.faults.inject(Fault::null_address());
    let answers = [
        kind(cx.device.alloc::<u32>(LEN).map(drop)),
        kind(cx.device.alloc_pinned::<u32>(LEN).map(drop)),
        kind(cx.device.alloc_unified::<u32>(LEN).map(drop)),
        kind(stream.upload(&[1u32; LEN]).map(drop)),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(ErrorKind::OutOfMemory { requested, .. }) if requested >= 4 * LEN as u64), "{answer:?}");
    }
    cx.faults.clear();
    same(stream.upload(&[2u32; LEN])?.download(&stream)?, [2; LEN]);
    Ok(())
}

/// Red if memory is returned before it is needed, or the driver is asked again and again.
fn ladder<B: Backend>(cx: &Context<B>) -> Result<()> {
    let refusal = || Fault::refuse(Method::Allocate).out_of_memory();
    cx.device.trim()?;
    drop(used(cx, LEN)?);
    cx.faults.inject(refusal().nth(1));
    let mut x = None;
    let calls = cx.calls(|| cx.device.alloc::<u32>(2 * LEN).map(|new| x = Some(new)))?;
    assert_eq!([calls[Method::Allocate], calls[Method::Free], calls[Method::EventWait]], [2, 1, 0], "{calls}");
    cx.faults.clear();

    drop(x);
    let calls = cx.calls(|| cx.device.alloc::<u32>(2 * LEN).map(drop))?;
    assert_eq!(calls[Method::Allocate], 0, "what is held comes first: {calls}");
    cx.device.trim()?;
    cx.faults.inject(refusal());
    let calls = cx.calls(|| {
        let refused = kind(cx.device.alloc::<u32>(LEN).map(drop));
        let total = cx.device.memory_info()?.total;
        assert!(matches!(refused, Err(ErrorKind::OutOfMemory { requested: 4096, total: told, .. }) if told == total), "{refused:?}");
        Ok(())
    })?;
    assert_eq!([calls[Method::Allocate], calls[Method::Free]], [2, 0], "{calls}");
    Ok(())
}

/// Red if dropped memory counts only once its work is known to be complete.
fn waits_for_what_was_dropped<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    cx.device.trim()?;
    let mut x = used(cx, LEN)?;
    let held = cx.hold(&stream)?;
    // [gate, fill x], x dropped
    cx.kernels.fill.launch(&stream, LEN, (x.span_mut(), 1))?;
    drop(x);
    cx.faults.inject(Fault::refuse(Method::Allocate).out_of_memory().times(2));
    let before = cx.counts();
    let freed_before_open = thread::scope(|scope| {
        let waiting = scope.spawn(|| cx.device.alloc::<u32>(2 * LEN).map(drop));
        // The gate opens when the allocation waits for the device.
        while cx.counts().since(&before)[Method::EventWait] == 0 && !waiting.is_finished() {
            thread::yield_now();
        }
        let freed = cx.counts().since(&before)[Method::Free];
        drop(held);
        waiting.join().map(|outcome| outcome.map(|()| freed))
    });
    let Ok(freed) = freed_before_open else { unreachable!("an allocation does not panic") };
    let calls = cx.counts().since(&before);
    assert_eq!([freed?, calls[Method::Free], calls[Method::Allocate]], [0, 1, 3], "{calls}");
    Ok(())
}

/// Red if every refusal passes for a lack of memory.
fn other_refusals_are_final<B: Backend>(cx: &Context<B>) -> Result<()> {
    drop(used(cx, LEN)?);
    cx.faults.inject(Fault::refuse(Method::Allocate));
    let calls = cx.calls(|| {
        let refused = kind(cx.device.alloc::<u32>(2 * LEN).map(drop));
        assert!(matches!(refused, Err(ErrorKind::Driver { .. })), "{refused:?}");
        Ok(())
    })?;
    assert_eq!([calls[Method::Allocate], calls[Method::Free]], [1, 0], "{calls}");
    Ok(())
}
