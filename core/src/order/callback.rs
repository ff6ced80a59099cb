//! Whether this thread is inside a host function of a stream.

use std::cell::Cell;

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.get()
}

/// Steps out of a host kernel while it waits for the other threads of its block: they may run on this thread, and so may others.
pub(crate) fn step_out<R>(wait: impl FnOnce() -> R) -> R {
    let before = ACTIVE.replace(false);
    let waited = wait();
    ACTIVE.set(before);
    waited
}

/// Runs a host function: submissions and waits inside it are refused.
pub(crate) fn run<R>(function: impl FnOnce() -> R) -> R {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }
    let _leave = Leave(ACTIVE.replace(true));
    function()
}
