//! Deliberate mistakes, compiled for tests only: each is a deviation that a reader could take from the text, and each must be caught.

pub(crate) use switch::bug;
#[cfg(all(test, feature = "host"))]
pub(crate) use switch::with_bug;

/// A wrong tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(test), allow(dead_code, reason = "the hooks are compiled for tests only"))]
pub(crate) enum Bug {
    /// A producer's record is made without waiting for what was announced to be submitted.
    RecordWithoutWaiting,
    /// A record copies the announced count in place of the submitted one.
    CountForSubmitted,
    /// A stream that waits for its producers is not marked busy.
    NotBusy,
    /// A submission is made after the stream was unlocked.
    SubmitUnlocked,
    /// Uses are pruned before the waits for them were accepted.
    PruneBeforeWait,
    /// A wait that the driver refused is taken in all the same.
    RefusedWaitTakenIn,
    /// A use prunes those that it overlaps, not only those that it contains.
    PruneByOverlap,
    /// A read prunes a write.
    ReadPrunesWrite,
    /// A full list drops what does not fit.
    CappedList,
    /// The lists of a submission are locked one at a time.
    OneListAtATime,
    /// A host guard is entered after its wait.
    GuardEntersAfterWait,
    /// A host wait raises the host's vector to the count at its return.
    HostRaisedToCountAtReturn,
    /// A host wait raises the host's vector by the stream's vector at its return.
    HostTakesClockAtReturn,
    /// A wait of one stream for another merges both vectors.
    BothMerged,
    /// The producer's vector is read when it is merged, not when the event was recorded.
    ClockReadAtMerge,
    /// A user event stands for the count at the time of the wait.
    EventTakesCurrentCount,
    /// A user event is recorded again between a wait for it and the read of its vector.
    EventRecordedBetween,
    /// The slot of a dropped stream restarts its count.
    RecycledCountRestarts,
    /// The slot of a dropped stream is recycled before its final event is complete.
    RecycledEarly,
    /// A block is reused on its home stream although foreign uses are pending.
    ReusedOnHomeStream,
    /// Readers are forgotten when memory is freed.
    ReadersForgotten,
    /// A merged list keeps only one part's uses.
    MergeLosesPart,
    /// A refused launch leaves its stream busy and its announcement never submitted.
    NoDropGuard,
}

#[cfg(not(test))]
mod switch {
    #[inline(always)]
    pub(crate) const fn bug(_: super::Bug) -> bool {
        false
    }
}

#[cfg(test)]
mod switch {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    #[inline]
    pub(crate) fn bug(bug: Bug) -> bool {
        ON.get() == Some(bug)
    }

    /// Runs with one mistake switched on for this thread.
    #[cfg(feature = "host")]
    pub(crate) fn with_bug<R>(bug: Option<Bug>, run: impl FnOnce() -> R) -> R {
        struct Reset;
        impl Drop for Reset {
            fn drop(&mut self) {
                ON.set(None);
            }
        }
        ON.set(bug);
        let _reset = Reset;
        run()
    }
}
