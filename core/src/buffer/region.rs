//! Bytes of an allocation, untyped: what transfers, lends and guards work on.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use crate::backend::{
    Access, AccessMode, Backend, CopyDescriptor, DeviceAddress, Endpoint, Feature, FillDescriptor, MemoryKind, Origin, Pattern,
};
use crate::device::Device;
use crate::memory::{Allocation, access, admit};
use crate::order::{Submission, Tracked};
use crate::stream::Stream;
use crate::{ErrorKind, Result};
use std::panic::Location;
use std::sync::Arc;

/// Bytes of an allocation. Empty regions have none.
#[derive(Debug)]
pub(crate) struct Region<'a, B: Backend> {
    pub(crate) allocation: Option<&'a Arc<Allocation<B>>>,
    pub(crate) device: &'a Device<B>,
    /// From the start of the allocation, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl<B: Backend> Clone for Region<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Region<'_, B> {}

impl<'a, B: Backend> Region<'a, B> {
    /// The allocation, unless there are no bytes.
    pub(crate) fn bytes_of(&self) -> Option<&'a Arc<Allocation<B>>> {
        self.allocation.filter(|_| self.bytes > 0)
    }

    /// A part of it; the caller has checked the bounds.
    pub(crate) fn part(self, offset: u64, bytes: u64) -> Self {
        debug_assert!(offset + bytes <= self.bytes);
        Self { offset: self.offset + offset, bytes, ..self }
    }

    pub(crate) fn access(&self, allocation: &Allocation<B>, mode: AccessMode, argument: u8) -> Access {
        access(allocation, self.offset, self.bytes, mode, argument)
    }

    fn endpoint(&self, allocation: &Allocation<B>) -> Endpoint {
        if allocation.kind() == MemoryKind::Pinned {
            return Endpoint::Host(allocation.host().wrapping_add(self.offset as usize));
        }
        Endpoint::Device { address: allocation.address().offset(self.offset), ordinal: allocation.device.ordinal() }
    }

    /// Copies equally many bytes from elsewhere, in stream order.
    #[track_caller]
    pub(crate) fn copy_from(&self, stream: &Stream<B>, source: Region<'_, B>) -> Result<()> {
        let caller = Location::caller();
        let (Some(from), Some(to)) = (source.bytes_of(), self.bytes_of()) else { return stream.device.state.usable() };
        let overlap = self.offset < source.offset + source.bytes && source.offset < self.offset + self.bytes;
        if Arc::ptr_eq(from, to) && overlap {
            return Err(stream.device.state.error(ErrorKind::Overlap, "copy"));
        }
        admit(stream, [&**from, &**to].into_iter(), false, "copy")?;
        let accesses = [source.access(from, AccessMode::Read, 0), self.access(to, AccessMode::Write, 1)];
        let origin = Origin { accesses: &accesses, caller };
        let descriptor = CopyDescriptor::linear(source.endpoint(from), self.endpoint(to), self.bytes, origin);
        // SAFETY: both ranges lie in allocations that stay until their uses are complete (their uses are entered), they do not overlap, and
        // host ends are pinned allocations of ours.
        let work = |backend: &B, queue: &B::Stream| unsafe { backend.copy(queue, &descriptor) };
        stream.order().submit(&stream.lane, &accesses, &[&**from, &**to], Submission::of("copy"), work).map(drop)
    }

    /// Repeats a pattern over all of it, in stream order; the caller has checked that it fits.
    #[track_caller]
    pub(crate) fn fill(&self, stream: &Stream<B>, pattern: Pattern) -> Result<()> {
        let caller = Location::caller();
        let Some(allocation) = self.bytes_of() else { return stream.device.state.usable() };
        admit(stream, [&**allocation].into_iter(), true, "fill")?;
        let accesses = [self.access(allocation, AccessMode::Write, 1)];
        let origin = Origin { accesses: &accesses, caller };
        let destination = allocation.address().offset(self.offset);
        let descriptor = FillDescriptor::new(destination, pattern, self.bytes / pattern.bytes(), origin);
        // SAFETY: the range lies in an allocation that stays until its uses are complete (this one is entered).
        let work = |backend: &B, queue: &B::Stream| unsafe { backend.fill(queue, &descriptor) };
        stream.order().submit(&stream.lane, &accesses, &[&**allocation], Submission::of("fill"), work).map(drop)
    }

    #[track_caller]
    pub(crate) fn fill_bytes(&self, stream: &Stream<B>, byte: u8) -> Result<()> {
        self.fill(stream, Pattern::U8(byte))
    }

    /// Hands the address to foreign code that works on `stream`, ordered like any use.
    pub(crate) fn lend<R>(&self, stream: &Stream<B>, mode: AccessMode, foreign: impl FnOnce(DeviceAddress) -> R) -> Result<R> {
        stream.device.state.usable()?;
        let Some(allocation) = self.bytes_of() else { return Ok(foreign(DeviceAddress::NULL)) };
        admit(stream, [&**allocation].into_iter(), true, "lend")?;
        let access = self.access(allocation, mode, 0);
        let id = stream.order().lend_open(&stream.lane, &access, allocation).map_err(|error| stream.device.settle(error))?;
        let _end = LendEnd { stream, access, allocation, id };
        Ok(foreign(access.address))
    }

    /// Opens the memory to the host after the conflicting uses; `close` ends it.
    pub(crate) fn open(&self, mode: AccessMode) -> Result<Option<HostUse<'a, B>>> {
        self.device.state.usable()?;
        let Some(allocation) = self.bytes_of() else { return Ok(None) };
        let access = self.access(allocation, mode, 0);
        let stops = stops_device(allocation).then(|| allocation.device.ordinal());
        let id = self.device.order().guard_open(&access, allocation, stops).map_err(|error| self.device.settle(error))?;
        let host = allocation.host().wrapping_add(self.offset as usize);
        Ok(Some(HostUse { allocation, id, host }))
    }
}

/// Whether the device must do nothing at all while the host uses this memory.
fn stops_device<B: Backend>(allocation: &Allocation<B>) -> bool {
    allocation.kind() == MemoryKind::Unified && !allocation.device.info().features.contains(Feature::ConcurrentUnifiedAccess)
}

/// Ends a lend, also when the foreign code unwinds: what it may have submitted counts as a use.
struct LendEnd<'a, B: Backend> {
    stream: &'a Stream<B>,
    access: Access,
    allocation: &'a Arc<Allocation<B>>,
    id: u32,
}

impl<B: Backend> Drop for LendEnd<'_, B> {
    fn drop(&mut self) {
        self.stream.order().lend_close(&self.stream.lane, &self.access, self.allocation, self.id);
    }
}

/// Memory open to the host.
#[derive(Debug)]
pub(crate) struct HostUse<'a, B: Backend> {
    allocation: &'a Arc<Allocation<B>>,
    id: u32,
    /// The first byte, as the host finds it.
    pub(crate) host: *mut u8,
}

impl<B: Backend> Drop for HostUse<'_, B> {
    fn drop(&mut self) {
        self.allocation.device.order().guard_close(self.allocation.list(), self.id);
    }
}
