//! What the model's threads do, on the real types: launches, guards, lends, waits, reuse, recycled streams. Random programs and loom share it.

#![allow(unsafe_code, reason = "submits to the log")]

use super::Submission;
use super::log::{Call, Log};
use crate::Result;
use crate::backend::{Access, AccessMode, Backend, Geometry, LaunchDescriptor, MemoryKind, Origin};
use crate::buffer::Region;
use crate::memory::{Allocation, access, admit};
use crate::stream::Stream;
use std::panic::Location;
use std::sync::Arc;

/// Bytes of every allocation of a model.
pub(crate) const BYTES: u64 = 256;

/// A use: which allocation, which eighths of it, how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Touch {
    pub(crate) allocation: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) mode: AccessMode,
}

impl Touch {
    pub(crate) const fn read(allocation: usize, start: u64, end: u64) -> Self {
        Self { allocation, start, end, mode: AccessMode::Read }
    }

    pub(crate) const fn write(allocation: usize, start: u64, end: u64) -> Self {
        Self { allocation, start, end, mode: AccessMode::Write }
    }

    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        self.allocation == other.allocation && self.start < other.end && other.start < self.end && self.mode.conflicts(other.mode)
    }

    fn region<'a>(&self, allocation: &'a Arc<Allocation<Log>>) -> Region<'a, Log> {
        let eighth = BYTES / 8;
        Region {
            allocation: Some(allocation),
            device: &allocation.device,
            offset: self.start * eighth,
            bytes: (self.end - self.start) * eighth,
        }
    }

    fn access(&self, allocation: &Allocation<Log>, argument: u8) -> Access {
        let eighth = BYTES / 8;
        access(allocation, self.start * eighth, (self.end - self.start) * eighth, self.mode, argument)
    }
}

pub(crate) fn allocate(stream: &Stream<Log>, home: bool) -> Result<Arc<Allocation<Log>>> {
    stream.device.allocate(BYTES, MemoryKind::Device, home.then_some(&*stream.lane))
}

/// A launch, as kernels make it, with uses at will.
pub(crate) fn launch(stream: &Stream<Log>, touches: &[(Touch, Arc<Allocation<Log>>)]) -> Result<()> {
    let accesses: Vec<Access> = touches.iter().zip(0..).map(|((touch, allocation), argument)| touch.access(allocation, argument)).collect();
    let owners: Vec<_> = touches.iter().map(|(_, allocation)| Arc::clone(allocation)).collect();
    admit(stream, owners.iter().map(|owner| &**owner), true, "launch")?;
    let origin = Origin { accesses: &accesses, caller: Location::caller() };
    let descriptor = LaunchDescriptor::new(Geometry::new([1; 3], [1; 3]), &[], &[], origin);
    // SAFETY: the log runs nothing.
    let work = |backend: &Log, queue: &usize| unsafe { backend.launch(queue, &(), &descriptor) };
    stream.order().submit(&stream.lane, &accesses, &owners, Submission::of("launch"), work).map(drop)
}

/// A host guard, held while others run.
pub(crate) fn guard(log: &Log, touch: &Touch, allocation: &Arc<Allocation<Log>>, others_run: impl Fn()) -> Result<()> {
    let open = touch.region(allocation).open(touch.mode)?;
    let id = log.state().host_begin(touch.access(allocation, 0));
    others_run();
    log.state().host_end(id);
    drop(open);
    Ok(())
}

/// A lend to foreign code that submits twice.
pub(crate) fn lend(log: &Log, stream: &Stream<Log>, touch: &Touch, allocation: &Arc<Allocation<Log>>, others_run: impl Fn()) -> Result<()> {
    touch.region(allocation).lend(stream, touch.mode, |_| {
        for _ in 0..2 {
            others_run();
            let queue = stream.lane.lock().queue;
            if let Some(queue) = queue {
                log.state().work(queue, &[touch.access(allocation, 0)]);
            }
            others_run();
        }
    })
}

/// The next such call of the log fails.
pub(crate) fn refuse(log: &Log, call: Option<Call>) {
    log.state().fail = call;
}
