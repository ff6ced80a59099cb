//! Shared memory of a block is its own.

use polywarp_core::{Program, Shared, Thread};

thread_local! {
    static STASH: std::cell::Cell<Option<Shared<'static, f32>>> = const { std::cell::Cell::new(None) };
}

fn stash(thread: &Thread<'_>) {
    STASH.set(Some(thread.shared(0, 1)));
}

fn program() -> Program {
    Program::new("stash").host::<(), _>("stash", stash)
}

fn main() {}
