//! Economy, proved with counts.

use super::ordering;
use crate::case::{Case, case};
use crate::check::same;
use crate::context::Context;
use polywarp_core::backend::Backend;
use polywarp_core::counters::{conversions, locks};
use polywarp_core::decorate::Method;
use polywarp_core::{Buffer, Error, LaunchConfig, Result, Stream};

const LEN: usize = 64;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case("count.launch", "PC3", "A launch of N buffers on one stream takes two locks, whatever N.", locks_per_launch),
        case("count.prepared_launch", "PC2", "A prepared launch converts nothing.", prepared_launch),
        case(
            "count.hand_over",
            "PC4",
            "A hand-over costs one record and one wait per producer stream; later readers of the same data cost no record, and no second wait per stream.",
            hand_over,
        ),
        case("count.no_work", "LM1", "A launch over no elements makes no backend call.", no_work),
    ]
}

/// Red if each buffer takes a lock of its own.
fn locks_per_launch<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let (x, y, mut z) = (stream.zeros::<u32>(LEN)?, stream.zeros::<u32>(LEN)?, stream.zeros::<u32>(LEN)?);
    cx.kernels.add.launch(&stream, LEN, (x.span(), y.span(), z.span_mut()))?;
    let before = locks();
    cx.kernels.add.launch(&stream, LEN, (x.span(), y.span(), z.span_mut()))?;
    assert_eq!(locks() - before, 2);
    Ok(())
}

/// Red if a prepared launch converts again, or a converting one converts twice.
fn prepared_launch<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let (x, mut y) = (stream.zeros::<u32>(LEN)?, stream.zeros::<u32>(LEN)?);
    let before = conversions();
    let copy = cx.kernels.copy.prepared((x.span(), y.span_mut()))?;
    assert_eq!(conversions() - before, 2);
    let calls = cx.calls(|| (0..100).try_for_each(|_| copy.launch(&stream, LEN)))?;
    assert_eq!((conversions() - before, calls.to_string().as_str()), (2, "launch 100"));
    Ok(())
}

/// Red if a hand-over is paid for twice.
fn hand_over<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b, c, d] = cx.streams()?;
    let (mut x, mut w) = (a.zeros::<u32>(LEN)?, d.zeros::<u32>(LEN)?);
    let (mut y, mut z) = (b.alloc(LEN)?, c.alloc(LEN)?);
    let read = |stream: &Stream<B>, out: &mut Buffer<B, u32>| {
        let calls = cx.calls(|| cx.kernels.add.launch(stream, LEN, (x.span(), w.span(), out.span_mut())))?;
        Ok::<_, Error>(ordering(&calls))
    };
    assert_eq!(read(&b, &mut y)?, [2, 2, 0, 1], "two producers");
    assert_eq!(read(&b, &mut y)?, [0, 0, 0, 1], "once more");
    assert_eq!(read(&c, &mut z)?, [0, 2, 0, 1], "the points are there already");
    assert_eq!(read(&c, &mut z)?, [0, 0, 0, 1], "once more");
    let calls = cx.calls(|| cx.kernels.add.launch(&a, LEN, (x.span(), x.span(), w.span_mut())))?;
    assert_eq!(calls[Method::StreamWaitEvent], 3, "the producer and both readers of what is written: {calls}");
    let calls = cx.calls(|| x.fill(&a, 1))?;
    assert_eq!(calls[Method::StreamWaitEvent], 0, "all readers were waited for: {calls}");
    Ok(())
}

/// Red if the driver is asked to do nothing.
fn no_work<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut x = stream.zeros::<u32>(LEN)?;
    let calls = cx.calls(|| {
        cx.kernels.add_one.launch(&stream, 0, (x.span_mut(),))?;
        cx.kernels.add_one.launch(&stream, LaunchConfig::new([1, 0, 1], 32), (x.span_mut(),))
    })?;
    assert_eq!(calls.to_string(), "nothing");
    same(x.download(&stream)?, [0; LEN]);
    Ok(())
}
