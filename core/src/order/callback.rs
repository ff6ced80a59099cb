//! Whether this thread is inside a host function of a stream.

use std::cell::Cell;

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.get()
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
