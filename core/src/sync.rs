//! Locks, condition variables and atomics of the ordering protocol: `parking_lot`'s, loom's under `cfg(loom)`, and in unit
//! tests with a hook at every step, where a model's scheduler may run another thread.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
mod imp {
    pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<'a, T>(&self, _lock: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(not(loom))]
mod imp {
    pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        #[cfg(not(test))]
        #[inline]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            crate::counters::lock();
            self.0.lock()
        }

        #[cfg(test)]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            crate::counters::lock();
            if !super::schedule::step() {
                return self.0.lock();
            }
            loop {
                match self.0.try_lock() {
                    Some(guard) => return guard,
                    None => super::schedule::blocked(),
                }
            }
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(parking_lot::Condvar::new())
        }

        #[cfg(not(test))]
        pub(crate) fn wait<'a, T>(&self, _lock: &'a Mutex<T>, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// A scheduled thread looks again whenever it runs; a wake-up is never lost that way, so lost wake-ups are loom's part.
        #[cfg(test)]
        pub(crate) fn wait<'a, T>(&self, lock: &'a Mutex<T>, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            if !super::schedule::active() {
                self.0.wait(&mut guard);
                return guard;
            }
            drop(guard);
            super::schedule::blocked();
            lock.lock()
        }

        #[inline]
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

pub(crate) use imp::{Condvar, Mutex, MutexGuard};

/// Where a model's scheduler takes over (`order/model.rs`).
#[cfg(all(test, not(loom)))]
pub(crate) mod schedule {
    use std::cell::Cell;

    thread_local! {
        static HOOK: Cell<Option<fn(bool)>> = const { Cell::new(None) };
    }

    /// Calls `hook(blocked)` at every step of this thread, until reset to `None`.
    #[cfg(feature = "host")]
    pub(crate) fn set(hook: Option<fn(bool)>) {
        HOOK.set(hook);
    }

    pub(crate) fn active() -> bool {
        HOOK.get().is_some()
    }

    /// Another thread may run here; false if nothing schedules this thread.
    pub(crate) fn step() -> bool {
        HOOK.get().is_some_and(|hook| {
            hook(false);
            true
        })
    }

    /// Nothing can be done until another thread has run.
    pub(crate) fn blocked() {
        if let Some(hook) = HOOK.get() {
            hook(true);
        }
    }
}
