//! Faults that users met elsewhere; each would be one here too, if it came back.

use super::{kind, ordering};
use crate::case::{Case, case};
use crate::check::same;
use crate::context::Context;
use polywarp_core::backend::{Backend, Feature};
use polywarp_core::decorate::{Fault, Method};
use polywarp_core::{Buffer, ErrorKind, Module, Result, StreamOptions};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread;

const LEN: usize = 1000;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case("corpus.fill_after_two_readers", "K1", "A fill on a third stream leaves the old data to a slow and to a quick reader.", fill_after_two_readers).gated(),
        case("corpus.written_elsewhere", "K2", "What another stream wrote is seen by the stream that allocated and by a third.", written_elsewhere).gated(),
        case("corpus.home_stream_reallocates", "K3", "Memory dropped while another stream reads it is not overwritten by its home stream's next allocation.", home_stream_reallocates).gated(),
        case("corpus.busy_stream_dropped", "K4", "Memory used by a stream that was dropped while busy is not reused before that stream is done.", busy_stream_dropped).gated(),
        case("corpus.dropped_on_fresh_thread", "K5", "The last handle dropped on a thread that never used the device gives the memory back and leaves no error.", dropped_on_fresh_thread),
        case("corpus.source_overwritten", "K6", "An upload's source may be overwritten at once.", source_overwritten).gated(),
        case("corpus.allocation_fails_oddly", "K25", "Success with null, a failure although memory is there and a failure that keeps the memory are each survived by asking again, and leave nothing behind.", allocation_fails_oddly),
        case("corpus.memory_query_fails", "K26", "Where free memory cannot be asked for, allocation works, and out of memory is still told as such.", memory_query_fails),
        case("corpus.missing_symbol", "K28", "Looking up a kernel that is missing leaves nothing for the next launch to trip over.", missing_symbol),
        case("corpus.drops_after_fault", "K29", "After a kernel fault every drop is quiet, during unwinding too, and frees nothing that may be in use.", drops_after_fault).hazard(),
        case("corpus.lost_while_reading", "K30", "A device lost while a download is in flight: the call waits or answers an error, and nothing is written after it returned.", lost_while_reading).gated().abandons(),
        case("corpus.refused_wait_while_reading", "K30b", "A download whose wait finds the device lost leaves the host's memory alone, and the pinned memory that still fills is not freed.", refused_wait_while_reading).gated().abandons(),
        case("corpus.zero_sized_elements", "K32", "Buffers of elements without size never reach the driver; a launch receives null.", zero_sized_elements),
        case("corpus.misaligned_cast", "K33", "A view cast to a type that its address does not fit is refused; one that fits has the right data.", misaligned_cast),
        case("corpus.same_memory_twice", "K34", "One buffer twice is tracked once, disjoint views of one allocation are no conflict, and a launch is refused while the host holds a guard.", same_memory_twice).gated().needs(Feature::PinnedMemory),
    ]
}

/// Red if readers are not recorded, or only the latest is.
fn fill_after_two_readers<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b, c] = cx.streams()?;
    let data = cx.data(LEN);
    let mut x = c.upload(&data)?;
    let (mut y, mut z) = (a.alloc(LEN)?, b.alloc(LEN)?);
    let held = cx.hold(&a)?;
    // a: [gate, x → y]   b: [x → z]   c: [wait a, wait b, fill x]
    cx.kernels.copy.launch(&a, LEN, (x.span(), y.span_mut()))?;
    cx.kernels.copy.launch(&b, LEN, (x.span(), z.span_mut()))?;
    x.fill(&c, 0)?;
    assert!(!c.is_complete()?, "the fill waits for the slow reader");
    held.open()?;
    same(y.download(&a)?, &data);
    same(z.download(&b)?, data);
    Ok(())
}

/// Red if order is kept per pair of streams in place of per buffer.
fn written_elsewhere<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b, c] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let (mut y, mut z) = (a.alloc(LEN)?, c.alloc(LEN)?);
    let held = cx.hold(&b)?;
    // b: [gate, wait a, fill x]   a: [wait b, x → y]   c: [wait b, x → z]
    cx.kernels.fill.launch(&b, LEN, (x.span_mut(), 5))?;
    cx.kernels.copy.launch(&a, LEN, (x.span(), y.span_mut()))?;
    cx.kernels.copy.launch(&c, LEN, (x.span(), z.span_mut()))?;
    held.open()?;
    same(y.download(&a)?, [5; LEN]);
    same(z.download(&c)?, [5; LEN]);
    Ok(())
}

/// Red if a pool hands memory back to its home stream without a wait.
fn home_stream_reallocates<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let x = a.upload(&data)?;
    let mut y = b.alloc(LEN)?;
    let held = cx.hold(&b)?;
    // b: [gate, x → y]   a: [fill of memory of the same size]
    cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))?;
    drop(x);
    let mut new = a.alloc::<u32>(LEN)?;
    new.fill(&a, 0)?;
    a.wait().and_then(|()| b.is_complete()).map(|done| assert!(!done, "the home stream does not wait for the reader"))?;
    held.open()?;
    same(y.download(&b)?, data);
    Ok(())
}

/// Red if uses by a dropped stream count as complete.
fn busy_stream_dropped<B: Backend>(cx: &Context<B>) -> Result<()> {
    let legacy = cx.device.info().features.contains(Feature::LegacyStream);
    let default = cx.device.stream_with(if legacy { StreamOptions::new().legacy() } else { StreamOptions::new() })?;
    let (busy, reader) = (cx.stream()?, cx.stream()?);
    let data = cx.data(LEN);
    let x = default.upload(&data)?;
    let mut y = reader.alloc(LEN)?;
    let held = cx.hold(&busy)?;
    // busy: [gate, x → y], dropped
    cx.kernels.copy.launch(&busy, LEN, (x.span(), y.span_mut()))?;
    drop(busy);
    drop(x);
    for stream in [&default, &reader] {
        let mut new = stream.alloc::<u32>(LEN)?;
        new.fill(stream, 0)?;
    }
    held.open()?;
    same(y.download(&reader)?, data);
    Ok(())
}

/// Red if dropping needs the thread to have a context.
fn dropped_on_fresh_thread<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let before = cx.counts().live().bytes;
    let mut x = cx.device.alloc::<u32>(LEN)?;
    cx.kernels.fill.launch(&stream, LEN, (x.span_mut(), 1))?;
    let calls = cx.calls(|| {
        let dropped = thread::scope(|scope| scope.spawn(move || drop(x)).join());
        assert!(dropped.is_ok());
        Ok(())
    })?;
    assert_eq!(calls.to_string(), "nothing");
    cx.device.wait()?;
    cx.device.trim()?;
    assert_eq!(cx.counts().live().bytes, before);
    assert!(cx.device.take_deferred_error().is_none());
    Ok(())
}

/// Red if the driver reads borrowed memory after the call returned.
fn source_overwritten<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(10_000);
    let mut source = data.clone();
    let mut x = stream.alloc(10_000)?;
    let held = cx.hold(&stream)?;
    // [gate, source → x]
    x.upload(&stream, &source)?;
    source.fill(0);
    assert!(!stream.is_complete()?, "the upload is queued behind the gate");
    held.open()?;
    same(x.download(&stream)?, data);
    Ok(())
}

/// Red if one odd answer of the driver is final, or confuses the accounts.
fn allocation_fails_oddly<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    cx.device.trim()?;
    let before = cx.counts().live();
    let faults = [Fault::null_address(), Fault::refuse(Method::Allocate).out_of_memory(), Fault::fail(Method::Allocate).out_of_memory()];
    for (fault, len) in faults.into_iter().zip([LEN, 2 * LEN, 3 * LEN]) {
        cx.faults.inject(fault.clone().nth(1));
        let mut x = None;
        let calls = cx.calls(|| cx.device.alloc::<u32>(len).map(|new| x = Some(new)))?;
        assert_eq!((calls[Method::Allocate], calls.failures(Method::Allocate)), (2, 1), "{fault:?}: {calls}");
        cx.faults.clear();
        cx.faults.inject(fault.clone());
        let refused = kind(cx.device.alloc::<u32>(len).map(drop));
        assert!(matches!(refused, Err(ErrorKind::OutOfMemory { requested, .. }) if requested >= 4 * len as u64), "{fault:?}: {refused:?}");
        cx.faults.clear();
        let Some(mut x) = x else { unreachable!("just made") };
        cx.kernels.fill.launch(&stream, len, (x.span_mut(), 7))?;
        same(x.slice(len - 1..)?.download(&stream)?, [7]);
    }
    stream.wait()?;
    cx.device.trim()?;
    assert_eq!(cx.counts().live().allocations, before.allocations);
    Ok(())
}

/// Red if figures for a message decide whether memory is had.
fn memory_query_fails<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    cx.faults.inject(Fault::refuse(Method::MemoryInfo));
    same(stream.upload(&[5u32; LEN])?.download(&stream)?, [5; LEN]);
    let refused = kind(cx.device.memory_info().map(drop));
    assert!(matches!(refused, Err(ErrorKind::Driver { .. })), "{refused:?}");
    cx.faults.inject(Fault::refuse(Method::Allocate).out_of_memory());
    let refused = kind(cx.device.alloc::<u32>(LEN + 64).map(drop));
    assert!(matches!(refused, Err(ErrorKind::OutOfMemory { .. })), "{refused:?}");
    Ok(())
}

/// Red if a driver's last error is left behind.
fn missing_symbol<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut x = stream.zeros::<u32>(LEN)?;
    let module = Module::load(&cx.device, cx.program())?;
    let missing = module.function("no_such_kernel").map_err(|error| error.kind().clone());
    assert!(matches!(missing, Err(ErrorKind::NoSuchFunction { .. })), "{missing:?}");
    cx.kernels.add_one.launch(&stream, LEN, (x.span_mut(),))?;
    same(x.download(&stream)?, [1; LEN]);
    Ok(())
}

/// Red if a drop panics, aborts, or frees what the device may still use.
fn drops_after_fault<B: Backend>(cx: &Context<B>) -> Result<()> {
    let things = |case: &Context<B>| {
        let stream = case.stream()?;
        let mut x = stream.zeros::<u32>(LEN)?;
        let prepared = case.kernels.add_one.prepared((x.span_mut(),))?;
        prepared.launch(&stream, LEN)?;
        let pending = x.as_slice().start_download(&stream)?;
        let event = case.device.event()?;
        event.record(&stream)?;
        let module = Module::load(&case.device, case.program())?;
        Ok::<_, polywarp_core::Error>((stream, x, prepared, pending, event, module))
    };
    let (now, unwinding) = (things(cx)?, things(cx)?);
    let stream = cx.stream()?;
    let mut x = stream.zeros::<u32>(LEN)?;
    cx.kernels.fault.launch(&stream, 1, (x.span_mut(),))?;
    let met = stream.wait().map_err(|error| error.kind().clone());
    assert!(matches!(&met, Err(ErrorKind::DevicePoisoned { suspects, .. }) if suspects.iter().any(|name| name == "fault")), "{met:?}");
    let calls = cx.calls(|| {
        drop(now);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _dropped = unwinding;
            resume_unwind(Box::new("on purpose"))
        }));
        assert!(unwound.is_err());
        let again = cx.device.wait().map_err(|error| error.kind().clone());
        assert_eq!(again, met.map(drop));
        Ok(())
    })?;
    assert_eq!((calls[Method::Free], calls.total()), (0, 0), "{calls}");
    Ok(())
}

/// Red if the call gives up waiting while the device still writes where the caller reads.
fn lost_while_reading<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(LEN);
    let x = stream.upload(&data)?;
    stream.wait()?;
    let held = cx.hold(&stream)?;
    let (tell, told) = mpsc::channel();
    let before = cx.counts();
    let mut seen = vec![0; LEN];
    let returned = thread::scope(|scope| {
        let reading = scope.spawn(|| x.as_slice().download_into(&stream, &mut seen));
        while cx.counts().since(&before)[Method::EventWait] == 0 && !reading.is_finished() {
            thread::yield_now();
        }
        // stream: [gate, x → pinned, tell]   reading: waits for the copy
        let submitted = stream.host_function(move || tell.send(()).unwrap_or(()));
        cx.faults.poison("as planned");
        let met = kind(cx.device.event().map(drop));
        assert!(matches!(met, Err(ErrorKind::DevicePoisoned { .. })), "{met:?}");
        let early = reading.is_finished();
        drop(held);
        (submitted, early, reading.join())
    });
    let (submitted, early, Ok(outcome)) = returned else { unreachable!("a download does not panic") };
    submitted?;
    assert!(!early, "the download waits for the gate");
    let at_return = seen.clone();
    assert!(told.recv().is_ok(), "what was submitted behind the download has run");
    same(&seen, &at_return);
    match kind(outcome) {
        Ok(()) => same(seen, data),
        Err(error) => assert!(matches!(error, ErrorKind::DevicePoisoned { .. }), "{error:?}"),
    }
    Ok(())
}

/// Red if the host's memory is the destination of a copy that nobody waits for, or pinned memory is freed under one.
fn refused_wait_while_reading<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let x = stream.upload(&cx.data(LEN))?;
    stream.wait()?;
    let held = cx.hold(&stream)?;
    let before = cx.counts();
    // stream: [gate, x → pinned, tell, x → pinned]
    let pending = x.as_slice().start_download(&stream)?;
    let (tell, told) = mpsc::channel();
    stream.host_function(move || tell.send(()).unwrap_or(()))?;
    let lost = ErrorKind::DevicePoisoned { cause: "as planned".into(), suspects: Vec::new() };
    cx.faults.inject(Fault::refuse(Method::EventWait).answering(lost));
    let mut seen = vec![9; LEN];
    let outcomes = [kind(x.as_slice().download_into(&stream, &mut seen)), kind(pending.wait().map(drop))];
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(ErrorKind::DevicePoisoned { .. }))), "{outcomes:?}");
    drop(held);
    assert!(told.recv().is_ok(), "what was submitted behind the read has run");
    same(seen, [9; LEN]);
    assert_eq!(cx.counts().since(&before)[Method::Free], 0);
    Ok(())
}

/// Red if the driver is asked for no bytes.
fn zero_sized_elements<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut out = stream.zeros::<u32>(1)?;
    let mut x: Option<Buffer<B, [u32; 0]>> = None;
    let calls = cx.calls(|| {
        let mut new = stream.upload(&[[]; 10])?;
        new.fill(&stream, [])?;
        let clone = new.try_clone(&stream)?;
        new.copy_from(&stream, &clone)?;
        assert_eq!((new.len(), new.bytes(), new.device_address().0), (10, 0, 0));
        same(new.download(&stream)?, [[0u32; 0]; 10]);
        x = Some(new);
        Ok(())
    })?;
    assert_eq!(calls.to_string(), "nothing");
    let Some(x) = &x else { unreachable!("just made") };
    let calls = cx.calls(|| cx.kernels.is_null.launch(&stream, 1, (x, out.span_mut())))?;
    assert_eq!(calls.to_string(), "launch 1");
    same(out.download(&stream)?, [1]);
    Ok(())
}

/// Red if a cast checks the length alone.
fn misaligned_cast<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let doubles = [1.5f64, -2.25, 1e300];
    let floats: Vec<f32> = doubles
        .iter()
        .flat_map(|x| x.to_ne_bytes())
        .collect::<Vec<u8>>()
        .chunks(4)
        .map(|x| f32::from_ne_bytes([x[0], x[1], x[2], x[3]]))
        .collect();
    let mut x = stream.upload(&[0f32; 9])?;
    let odd = x.slice(1..7)?.cast::<f64>().map(|view| view.len()).map_err(|error| error.kind().clone());
    assert!(matches!(odd, Err(ErrorKind::Misaligned { .. })), "{odd:?}");
    let short = x.slice(2..7)?.cast::<f64>().map(|view| view.len()).map_err(|error| error.kind().clone());
    assert!(matches!(short, Err(ErrorKind::Misaligned { .. })), "{short:?}");
    x.slice_mut(2..8)?.upload(&stream, &floats)?;
    same(x.slice(2..8)?.cast::<f64>()?.download(&stream)?, doubles);
    Ok(())
}

/// Red if arguments are compared by allocation, or prepared launches skip the guards.
fn same_memory_twice<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let (mut x, mut y) = (a.upload(&data)?, b.zeros(LEN)?);
    let held = cx.hold(&a)?;
    // a: [gate, x + 1]   b: [wait a, x + x → y]
    cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
    let calls = cx.calls(|| cx.kernels.add.launch(&b, LEN, (x.span(), x.span(), y.span_mut())))?;
    assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    held.open()?;
    b.wait()?;

    let (left, mut right) = x.split_at_mut(LEN / 2)?;
    let held = cx.hold(&a)?;
    // a: [gate, left → right]   b: [left → y]
    cx.kernels.copy.launch(&a, LEN, (left.as_slice().span(), right.reborrow().span_mut()))?;
    let calls = cx.calls(|| cx.kernels.copy.launch(&b, LEN, (left.as_slice().span(), y.slice_mut(..LEN / 2)?.span_mut())))?;
    assert_eq!(calls[Method::StreamWaitEvent], 0, "{calls}");
    b.wait()?;
    assert!(!a.is_complete()?, "the other half is written behind the gate");
    held.open()?;
    let expected: Vec<u32> = data[..LEN / 2].iter().map(|x| x.wrapping_add(1)).collect();
    same(x.download(&a)?, [&expected[..], &expected[..]].concat());

    let mut pinned = cx.device.alloc_pinned::<u32>(LEN)?;
    pinned.write()?.fill(1);
    let add_one = cx.kernels.add_one.prepared((pinned.span_mut(),))?;
    let guard = pinned.read()?;
    let calls = cx.calls(|| {
        let refused = add_one.launch(&a, LEN).map_err(|error| error.kind().clone());
        assert!(matches!(refused, Err(ErrorKind::HostBorrowed { .. })), "{refused:?}");
        Ok(())
    })?;
    assert_eq!((calls.to_string().as_str(), guard[0]), ("nothing", 1));
    drop(guard);
    add_one.launch(&a, LEN)?;
    same(&pinned.read()?[..], [2; LEN]);
    Ok(())
}
