//! An allocation: bytes that are reused or returned behind all of their uses.

use crate::backend::{Access, AccessMode, Backend, DeviceAddress, MemoryKind, RawAllocation};
use crate::device::Device;
use crate::order::{ListId, Node, Retired, Tracked};
use crate::stream::Stream;
use crate::{ErrorKind, Result};
use std::fmt;
use std::sync::Arc;

/// Bytes of a device (or of the host) that polywarp tracks. Buffers, views and converted arguments share it; when the last of them is
/// dropped the bytes are reused, or returned, behind every use that was submitted.
///
/// Users meet it only inside of [`Conversion`](crate::Conversion).
///
/// ```
/// use polywarp_core::doctest::*;
/// let (device, axpy) = axpy()?;
/// let stream = device.stream()?;
/// let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.zeros::<f32>(4)?);
/// let (kernel, arguments) = axpy.prepare((x.span(), y.span_mut(), 2.0))?;
/// drop(x);                                                    // the arguments share the allocation
/// kernel.launch(&stream, 4, &arguments)?;
/// assert_eq!(y.download(&stream)?, [2.0; 4]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Allocation<B: Backend> {
    raw: RawAllocation,
    list: ListId,
    pub(crate) device: Device<B>,
    /// Goes to the deferred list when this is dropped.
    node: Option<Box<Node<B>>>,
}

impl<B: Backend> fmt::Debug for Allocation<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation").field("raw", &self.raw).field("device", &self.device).finish_non_exhaustive()
    }
}

impl<B: Backend> Allocation<B> {
    pub(crate) fn new(device: &Device<B>, node: Box<Node<B>>, raw: RawAllocation, list: ListId) -> Arc<Self> {
        Arc::new(Self { raw, list, device: device.clone(), node: Some(node) })
    }

    /// Where a device finds it.
    #[inline]
    pub(crate) fn address(&self) -> DeviceAddress {
        self.raw.address
    }

    /// Where the host finds it; null for device memory.
    pub(crate) fn host(&self) -> *mut u8 {
        self.raw.host
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        self.raw.kind
    }
}

impl<B: Backend> Drop for Allocation<B> {
    /// Takes no lock, makes no driver call.
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            debug_assert!(matches!(node.retired, Retired::Block(_)));
            self.device.state.deferred.push(node);
        }
    }
}

impl<B: Backend> Tracked for Allocation<B> {
    #[inline]
    fn list(&self) -> ListId {
        self.list
    }

    #[inline]
    fn base(&self) -> u64 {
        self.raw.address.0
    }
}

/// An access to `bytes` of an allocation from `offset` on.
#[inline]
pub(crate) fn access<B: Backend>(allocation: &Allocation<B>, offset: u64, bytes: u64, mode: AccessMode, argument: u8) -> Access {
    Access { address: allocation.address().offset(offset), bytes, mode, argument }
}

/// Refuses memory of another opened backend; for kernels, makes memory of other devices reachable first.
#[inline]
pub(crate) fn admit<'a, B: Backend>(
    stream: &Stream<B>,
    allocations: impl Iterator<Item = &'a Allocation<B>>,
    kernel: bool,
    operation: &'static str,
) -> Result<()> {
    for allocation in allocations {
        if !Arc::ptr_eq(&allocation.device.state, &stream.device.state) {
            admit_foreign(stream, allocation, kernel, operation)?;
        }
    }
    Ok(())
}

#[cold]
fn admit_foreign<B: Backend>(stream: &Stream<B>, allocation: &Allocation<B>, kernel: bool, operation: &'static str) -> Result<()> {
    if !std::ptr::eq(stream.order(), allocation.device.order()) {
        return Err(stream.device.state.error(ErrorKind::WrongRuntime { what: "the buffer".into() }, operation));
    }
    if kernel && allocation.kind() == MemoryKind::Device {
        stream.device.state.usable()?;
        let reached = stream.device.state.reach(&stream.order().backend, &allocation.device.state, operation);
        reached.map_err(|error| stream.device.settle(error))?;
    }
    Ok(())
}
