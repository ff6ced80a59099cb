//! Where bytes live: kinds of memory, allocations, and their reuse.

mod allocation;
mod pool;

pub use allocation::Allocation;
pub(crate) use allocation::{access, admit};

use crate::backend;

/// Where the bytes of a buffer live, as a type; see [`DeviceMemory`], [`PinnedMemory`], [`UnifiedMemory`].
///
/// Sealed: the kinds are those of the [contract](backend::MemoryKind).
///
/// ```
/// use polywarp_core::{Buffer, Element, MemoryKind, PinnedMemory, backend, host::Host};
/// fn bytes<T: Element, M: MemoryKind>(x: &Buffer<Host, T, M>) -> String {
///     format!("{} bytes of {:?} memory", x.bytes(), M::KIND)
/// }
/// # let stream = polywarp_core::doctest::stream()?;
/// # let device = stream.device();
/// assert_eq!(bytes(&device.alloc_pinned::<u64>(2)?), "16 bytes of Pinned memory");
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub trait MemoryKind: sealed::Sealed + Send + Sync + 'static {
    /// The same as a value.
    const KIND: backend::MemoryKind;
}

/// Kinds that the host can reach, through guards.
///
/// ```
/// use polywarp_core::{Buffer, HostVisible, Result, host::Host};
/// fn sum<M: HostVisible>(x: &Buffer<Host, u32, M>) -> Result<u32> {
///     Ok(x.read()?.iter().sum())                              // no copy: the host reads in place
/// }
/// # let stream = polywarp_core::doctest::stream()?;
/// # let device = stream.device();
/// let mut x = device.alloc_unified(3)?;
/// x.fill(&stream, 5)?;
/// assert_eq!(sum(&x)?, 15);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub trait HostVisible: MemoryKind {}

/// On the device. The host cannot reach it; transfers copy.
///
/// ```
/// # use polywarp_core::{Buffer, DeviceMemory, host::Host};
/// # let stream = polywarp_core::doctest::stream()?;
/// let x: Buffer<Host, u32, DeviceMemory> = stream.upload(&[1, 2])?;   // the same as Buffer<Host, u32>
/// assert_eq!(x.download(&stream)?, [1, 2]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum DeviceMemory {}

/// Page-locked on the host; every device reaches it.
///
/// ```
/// # use polywarp_core::{Buffer, PinnedMemory, host::Host};
/// # let stream = polywarp_core::doctest::stream()?;
/// # let device = stream.device();
/// let mut x: Buffer<Host, u32, PinnedMemory> = device.alloc_pinned(2)?;
/// x.write()?[0] = 1;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum PinnedMemory {}

/// At one address for host and device, moved by the driver.
///
/// ```
/// # use polywarp_core::{Buffer, UnifiedMemory, host::Host};
/// # let stream = polywarp_core::doctest::stream()?;
/// # let device = stream.device();
/// let mut x: Buffer<Host, u32, UnifiedMemory> = device.alloc_unified(2)?;
/// x.fill(&stream, 3)?;
/// assert_eq!(x.read()?[..], [3, 3]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
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
