//! A span of a launch does not outlive it.

use polywarp_core::{HostSpan, Program, Span, Thread};

use std::sync::Mutex;

thread_local! {
    static STASH: Mutex<Option<HostSpan<'static, f32>>> = const { Mutex::new(None) };
}

fn stash(_: &Thread<'_>, x: HostSpan<'_, f32>) {
    STASH.with(|stash| *stash.lock().unwrap() = Some(x));
}

fn demands_forever(_: &Thread<'_>, _: HostSpan<'static, f32>) {}

fn programs() -> [Program; 2] {
    [
        Program::new("stash").host::<(Span<f32>,), _>("stash", stash),
        Program::new("forever").host::<(Span<f32>,), _>("forever", demands_forever),
    ]
}

fn main() {}
