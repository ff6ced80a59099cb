//! Simulated memory, and the work that moves its bytes.
//!
//! # Safety
//!
//! All kinds of memory are aligned blocks of the global allocator, so a device address is a host address whose provenance
//! was exposed. The contract's callers promise that ranges lie in live allocations and that uses are ordered.

#![allow(unsafe_code, reason = "owns raw memory and moves bytes between raw addresses")]

use super::device::Device;
use crate::backend::{
    AllocationDescriptor, CopyDescriptor, DeviceAddress, Endpoint, Feature, FillDescriptor, MemoryKind, Pattern, RawAllocation,
};
use crate::{ErrorKind, Result};
use std::alloc::{Layout, alloc, dealloc};
use std::ptr;

/// What fresh memory is filled with, so that reading it before writing shows.
pub const POISON: u8 = 0xA5;

/// What freed memory is filled with in the adversarial mode, so that using it shows.
pub const FREED: u8 = 0x5B;

fn layout(device: &Device, bytes: u64) -> Option<Layout> {
    let alignment = usize::try_from(device.limits().allocation_alignment).ok()?;
    Layout::from_size_align(usize::try_from(bytes).ok()?, alignment).ok()
}

/// Page-locked memory is the host's; the rest is the device's.
fn is_of_device(kind: MemoryKind) -> bool {
    kind != MemoryKind::Pinned
}

pub(super) fn allocate(device: &Device, descriptor: &AllocationDescriptor) -> Result<RawAllocation> {
    let AllocationDescriptor { bytes, kind } = *descriptor;
    match kind {
        MemoryKind::Device => device.check("allocate")?,
        MemoryKind::Pinned => device.require(Feature::PinnedMemory, "allocate")?,
        MemoryKind::Unified => device.require(Feature::UnifiedMemory, "allocate")?,
    }
    if is_of_device(kind) {
        device.charge(bytes)?;
    }
    match layout(device, bytes).filter(|layout| layout.size() > 0).and_then(fresh) {
        Some(start) => {
            let host = if kind == MemoryKind::Device { ptr::null_mut() } else { start };
            Ok(RawAllocation { address: DeviceAddress(start.expose_provenance() as u64), host, bytes, kind })
        }
        None => {
            if is_of_device(kind) {
                device.refund(bytes);
            }
            Err(refusal(device, bytes))
        }
    }
}

fn fresh(layout: Layout) -> Option<*mut u8> {
    // SAFETY: the caller filtered out layouts of size 0.
    let start = unsafe { alloc(layout) };
    if start.is_null() {
        return None;
    }
    // SAFETY: `alloc` gave this many bytes.
    unsafe { start.write_bytes(POISON, layout.size()) };
    Some(start)
}

fn refusal(device: &Device, bytes: u64) -> crate::Error {
    match (bytes, layout(device, bytes)) {
        (0, _) => device.error(ErrorKind::InvalidArgument { what: "an allocation has at least one byte".into() }, "allocate"),
        (_, None) => {
            device.error(ErrorKind::Overflow { what: "the size of an allocation, rounded up to its alignment,".into() }, "allocate")
        }
        (_, Some(_)) => device.out_of_memory(bytes),
    }
}

/// # Safety
/// * `memory` came from [`allocate`] of this device, was not freed, and every use of it is complete.
pub(super) unsafe fn free(device: &Device, memory: RawAllocation) {
    let Some(layout) = layout(device, memory.bytes) else {
        return debug_assert!(false, "an allocation of {} bytes cannot exist", memory.bytes);
    };
    let block = Block { start: pointer(memory.address), layout };
    if let Some(adversary) = device.adversary() {
        // SAFETY: the whole of a block that the caller gives up.
        unsafe { block.start.write_bytes(FREED, layout.size()) };
        adversary.keep(block);
    }
    if is_of_device(memory.kind) {
        device.refund(memory.bytes);
    }
}

/// Memory that nobody uses; dropping it returns it to the system.
#[derive(Debug)]
pub(super) struct Block {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: it owns its memory alone.
unsafe impl Send for Block {}

impl Block {
    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `allocate` took the block from the global allocator with this very layout, and `free`'s caller gave it up.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// The host address behind a device address.
fn pointer(address: DeviceAddress) -> *mut u8 {
    // Device addresses are host addresses, so they fit.
    ptr::with_exposed_provenance_mut(address.0 as usize)
}

fn end(endpoint: Endpoint) -> *mut u8 {
    match endpoint {
        Endpoint::Device { address, .. } => pointer(address),
        Endpoint::Host(host) => host,
    }
}

/// A copy as it waits in a queue.
#[derive(Debug)]
pub(super) struct Copy {
    source: *const u8,
    destination: *mut u8,
    bytes: usize,
    rows: usize,
    slices: usize,
    source_pitch: [usize; 2],
    destination_pitch: [usize; 2],
}

// SAFETY: `copy`'s caller promises that both ranges stay allocated until the copy is complete, on whatever thread it runs.
unsafe impl Send for Copy {}

impl Copy {
    pub(super) fn new(descriptor: &CopyDescriptor<'_>) -> Self {
        // Sizes and pitches describe ranges of this address space, so they fit.
        Self {
            source: end(descriptor.source),
            destination: end(descriptor.destination),
            bytes: descriptor.bytes as usize,
            rows: descriptor.rows as usize,
            slices: descriptor.slices as usize,
            source_pitch: descriptor.source_pitch.map(|pitch| pitch as usize),
            destination_pitch: descriptor.destination_pitch.map(|pitch| pitch as usize),
        }
    }

    /// # Safety
    /// * The promises of [`Backend::copy`](crate::backend::Backend::copy) hold.
    pub(super) unsafe fn run(&self) {
        for slice in 0..self.slices {
            for row in 0..self.rows {
                let at = |[row_pitch, slice_pitch]: [usize; 2]| row * row_pitch + slice * slice_pitch;
                // SAFETY: the run lies inside the source's allocation (the caller's promise).
                let source = unsafe { self.source.add(at(self.source_pitch)) };
                // SAFETY: likewise for the destination.
                let destination = unsafe { self.destination.add(at(self.destination_pitch)) };
                // SAFETY: both runs are live and do not overlap (the caller's promise).
                unsafe { source.copy_to_nonoverlapping(destination, self.bytes) };
            }
        }
    }
}

/// A fill as it waits in a queue.
#[derive(Debug)]
pub(super) struct Fill {
    destination: *mut u8,
    pattern: Pattern,
    count: usize,
}

// SAFETY: `fill`'s caller promises that the range stays allocated until the fill is complete, on whatever thread it runs.
unsafe impl Send for Fill {}

impl Fill {
    pub(super) fn new(descriptor: &FillDescriptor<'_>) -> Self {
        // The count describes a range of this address space, so it fits.
        Self { destination: pointer(descriptor.destination), pattern: descriptor.pattern, count: descriptor.count as usize }
    }

    /// # Safety
    /// * The promises of [`Backend::fill`](crate::backend::Backend::fill) hold.
    pub(super) unsafe fn run(&self) {
        match self.pattern {
            // SAFETY: the range is live and this stream's alone (the caller's promise).
            Pattern::U8(value) => unsafe { self.destination.write_bytes(value, self.count) },
            // SAFETY: as above, and aligned to the pattern.
            Pattern::U16(value) => unsafe { repeat(self.destination.cast(), value, self.count) },
            // SAFETY: as above, and aligned to the pattern.
            Pattern::U32(value) => unsafe { repeat(self.destination.cast(), value, self.count) },
        }
    }
}

/// # Safety
/// * `start` is aligned and valid for writes of `count` values.
unsafe fn repeat<T: std::marker::Copy>(start: *mut T, value: T, count: usize) {
    for index in 0..count {
        // SAFETY: inside the range that the caller promises.
        let at = unsafe { start.add(index) };
        // SAFETY: valid and aligned (the caller's promise).
        unsafe { at.write(value) };
    }
}
