//! Where bytes live: kinds of memory, allocations, and their reuse.

mod allocation;
mod pool;

pub use allocation::Allocation;
pub(crate) use allocation::{access, admit};

use crate::backend;

/// Where the bytes of a buffer live, as a type; see [`DeviceMemory`], [`PinnedMemory`], [`UnifiedMemory`].
///
/// Sealed: the kinds are those of the [contract](backend::MemoryKind).
pub trait MemoryKind: sealed::Sealed + Send + Sync + 'static {
    /// The same as a value.
    const KIND: backend::MemoryKind;
}

/// Kinds that the host can reach, through guards.
pub trait HostVisible: MemoryKind {}

/// On the device. The host cannot reach it; transfers copy.
#[derive(Clone, Copy, Debug)]
pub enum DeviceMemory {}

/// Page-locked on the host; every device reaches it.
#[derive(Clone, Copy, Debug)]
pub enum PinnedMemory {}

/// At one address for host and device, moved by the driver.
#[derive(Clone, Copy, Debug)]
pub enum UnifiedMemory {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::DeviceMemory {}
    impl Sealed for super::PinnedMemory {}
    impl Sealed for super::UnifiedMemory {}
}

impl MemoryKind for DeviceMemory {
    const KIND: backend::MemoryKind = backend::MemoryKind::Device;
}

impl MemoryKind for PinnedMemory {
    const KIND: backend::MemoryKind = backend::MemoryKind::Pinned;
}

impl MemoryKind for UnifiedMemory {
    const KIND: backend::MemoryKind = backend::MemoryKind::Unified;
}

impl HostVisible for PinnedMemory {}
impl HostVisible for UnifiedMemory {}
