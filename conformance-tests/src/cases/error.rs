//! Failures: what goes on after them, and how often they are told.

use super::kind;
use crate::case::{Case, case};
use crate::check::same;
use crate::context::Context;
use crate::kernels::reference;
use polywarp_core::backend::Backend;
use polywarp_core::decorate::{Fault, Method};
use polywarp_core::{ErrorKind, Result};

const LEN: usize = 1000;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case(
            "error.recoverable",
            "ER3",
            "After a call that the driver refused, or that failed after it happened, the next one succeeds and the data is right.",
            recoverable,
        ),
        case(
            "error.sticky",
            "ER4",
            "After an error that loses the device every call answers the same, without a call of the driver, and drops are quiet.",
            sticky,
        )
        .abandons(),
        case(
            "error.deferred_once",
            "ER5",
            "An error met while dealing with what was dropped is told once, by the next wait and by no call that succeeded.",
            deferred_once,
        ),
    ]
}

/// Red if a refused call leaves an error, a half-made submission or a wrong record of uses behind.
fn recoverable<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    for fault in [Fault::refuse, Fault::fail] {
        for method in [Method::Launch, Method::Copy, Method::Fill, Method::EventRecord, Method::StreamWaitEvent, Method::EventWait] {
            let mut x = a.upload(&data)?;
            let mut y = a.alloc(LEN)?;
            let before = cx.faults.injected();
            cx.faults.inject(fault(method).nth(1));
            let mut refusals = 0;
            let mut told = |outcome: Result<()>| {
                let Err(error) = outcome else { return false };
                assert_eq!(error.operation(), method.name(), "{error}");
                refusals += 1;
                true
            };
            while told(x.fill(&a, 3)) {}
            while told(x.slice_mut(1..)?.upload(&a, &data[1..])) {}
            while told(cx.kernels.copy.launch(&b, LEN, (x.span(), y.span_mut()))) {}
            while told(b.wait()) {}
            let mut seen = vec![0; LEN];
            while told(y.as_slice().download_into(&b, &mut seen)) {}
            assert_eq!((refusals, cx.faults.injected() - before), (1, 1), "{method}");
            same(&seen[..1], [3]);
            same(&seen[1..], &data[1..]);
            cx.faults.clear();
            assert!(cx.device.take_deferred_error().is_none());
        }
    }
    let mut x = a.upload(&data)?;
    cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
    same(x.download(&b)?, reference::add_each(&data, 1));
    Ok(())
}

/// Red if the driver is asked again, an answer changes, or a drop frees or panics.
fn sticky<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let event = cx.device.event()?;
    let add_one = cx.kernels.add_one.prepared((x.span_mut(),))?;
    let dropped = a.zeros::<u32>(LEN)?;
    add_one.launch(&a, LEN)?;
    cx.faults.poison("as planned");
    let met = kind(a.wait());
    assert!(matches!(&met, Err(ErrorKind::DevicePoisoned { suspects, .. }) if suspects == &["add_one"]), "{met:?}");
    let calls = cx.calls(|| {
        let answers = [
            kind(a.wait()),
            kind(b.wait()),
            kind(cx.device.wait()),
            kind(cx.device.trim()),
            kind(cx.stream().map(drop)),
            kind(cx.device.event().map(drop)),
            kind(cx.device.alloc::<u32>(LEN).map(drop)),
            kind(cx.device.memory_info().map(drop)),
            kind(add_one.launch(&b, LEN)),
            kind(x.fill(&b, 0)),
            kind(x.upload(&b, &[0; LEN])),
            kind(x.download(&b).map(drop)),
            kind(event.record(&b)),
            kind(event.wait()),
            kind(b.wait_for(&event)),
            kind(b.is_complete().map(drop)),
            kind(b.checkpoint()),
        ];
        answers.iter().enumerate().for_each(|(i, answer)| assert_eq!(answer, &met, "call {i}"));
        drop((dropped, event, add_one, x, a, b));
        assert_eq!(kind(cx.device.wait()), met);
        Ok(())
    })?;
    assert_eq!(calls.to_string(), "nothing");
    Ok(())
}

/// Red if such errors are lost, told again, or told by a call that did what it should.
fn deferred_once<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut x = stream.zeros::<u32>(LEN)?;
    drop(cx.device.event()?);
    cx.faults.inject(Fault::fail(Method::EventDestroy).nth(1));
    let event = cx.device.event()?; // destroys the first
    x.fill(&stream, 1)?;
    assert_eq!(cx.faults.injected(), 1);
    let told = stream.wait().map_err(|error| error.operation());
    assert_eq!(told, Err("event_destroy"));
    stream.wait()?;
    assert!(cx.device.take_deferred_error().is_none());

    drop(event);
    cx.faults.inject(Fault::fail(Method::EventDestroy).nth(1));
    same(x.download(&stream)?, [1; LEN]);
    let again = cx.device.event()?;
    let told = cx.device.take_deferred_error().map(|error| error.operation());
    assert_eq!(told, Some("event_destroy"));
    cx.device.wait()?;
    drop(again);
    Ok(())
}
