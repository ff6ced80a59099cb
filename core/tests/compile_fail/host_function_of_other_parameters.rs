//! A host form whose parameters are not those of the signature.

use polywarp_core::{HostSpan, Program, SpanMut, Thread};

fn reads(_: &Thread<'_>, _: HostSpan<'_, f32>) {}

fn program() -> Program {
    Program::new("reads").host::<(SpanMut<f32>,), _>("reads", reads)
}

fn main() {}
