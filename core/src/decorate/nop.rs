//! A backend that does nothing.

use crate::backend::{
    AllocationDescriptor, Backend, CaptureState, CompiledImage, CopyDescriptor, DeviceAddress, DeviceInfo, EventDescriptor, Feature,
    Features, FillDescriptor, Form, FunctionInfo, HostFunction, Image, LaunchDescriptor, Limits, MemoryInfo, MemoryKind, Origin,
    PrefetchDescriptor, RawAllocation, SourceDescriptor, StreamDescriptor,
};
use crate::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const NAME: &str = "nop";
const MEMORY_BYTES: u64 = 1 << 40;
/// Far from null, so that no range reaches down to it.
const FIRST_ADDRESS: u64 = 1 << 32;

/// For measuring polywarp's own cost; nothing runs.
///
/// One device, whose operations do nothing and succeed at once. Allocations get distinct addresses with nothing behind them, so there is
/// device memory alone: pinned and unified memory, which the host would touch, are unsupported. Host functions run at once on
/// the calling thread. Modules take any [`Image::Host`] and have a function of any name.
///
/// ```
/// use polywarp_core::{Result, backend::Backend, decorate::Nop};
/// let backend = Nop::default();
/// let device = backend.device_open(0)?;
/// let event = backend.event_create(&device, &polywarp_core::backend::EventDescriptor::ordering())?;
/// assert!(backend.event_query(&event)?);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Nop {
    next_address: AtomicU64,
}

impl Default for Nop {
    fn default() -> Self {
        Self { next_address: AtomicU64::new(FIRST_ADDRESS) }
    }
}

impl Nop {
    fn error(kind: ErrorKind, operation: &'static str) -> Error {
        Error::new(kind, operation).on(NAME, Some(0))
    }

    fn unsupported<T>(feature: Feature, operation: &'static str) -> Result<T> {
        Err(Error::unsupported(feature, operation).on(NAME, Some(0)))
    }

    /// Addresses are never used twice.
    fn address(&self, bytes: u64) -> Option<DeviceAddress> {
        let bytes = bytes.checked_next_multiple_of(Limits::default().allocation_alignment)?;
        let take = |next: u64| next.checked_add(bytes);
        self.next_address.fetch_update(Relaxed, Relaxed, take).ok().map(DeviceAddress)
    }

    /// The index of the next node.
    fn node(graph: &AtomicU32) -> Result<u32> {
        Ok(graph.fetch_add(1, Relaxed))
    }
}

// SAFETY: device memory has no host address, and nothing runs.
unsafe impl Backend for Nop {
    type Device = ();
    type Stream = ();
    type Event = ();
    type Module = ();
    type Function = ();
    /// How many nodes it has.
    type Graph = AtomicU32;
    type ExecutableGraph = ();

    fn name(&self) -> &'static str {
        NAME
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn device_open(&self, ordinal: u32) -> Result<()> {
        match ordinal {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::NoSuchDevice { ordinal, count: 1 }, "device_open").on(NAME, None)),
        }
    }

    fn device_info(&self, (): &()) -> Result<DeviceInfo> {
        let mut info = DeviceInfo::new("no device", NAME);
        info.memory_bytes = MEMORY_BYTES;
        info.features = Features::NONE
            .with(Feature::HostFunctions)
            .with(Feature::PitchedCopies)
            .with(Feature::CooperativeLaunch)
            .with(Feature::Occupancy)
            .with(Feature::Graphs);
        Ok(info)
    }

    fn memory_info(&self, (): &()) -> Result<MemoryInfo> {
        Ok(MemoryInfo { free: MEMORY_BYTES, total: MEMORY_BYTES })
    }

    fn peer_possible(&self, (): &(), (): &()) -> Result<bool> {
        Ok(true)
    }

    fn peer_enable(&self, (): &(), (): &()) -> Result<()> {
        Self::unsupported(Feature::PeerAccess, "peer_enable")
    }

    fn allocate(&self, (): &(), descriptor: &AllocationDescriptor) -> Result<RawAllocation> {
        let &AllocationDescriptor { bytes, kind } = descriptor;
        match kind {
            MemoryKind::Device => {}
            MemoryKind::Pinned => return Self::unsupported(Feature::PinnedMemory, "allocate"),
            MemoryKind::Unified => return Self::unsupported(Feature::UnifiedMemory, "allocate"),
        }
        let refused =
            || Self::error(ErrorKind::OutOfMemory { requested: bytes, free: MEMORY_BYTES, total: MEMORY_BYTES, held: 0 }, "allocate");
        let address = self.address(bytes).filter(|_| bytes <= MEMORY_BYTES).ok_or_else(refused)?;
        Ok(RawAllocation { address, host: std::ptr::null_mut(), bytes, kind })
    }

    unsafe fn free(&self, (): &(), _: RawAllocation) -> Result<()> {
        Ok(())
    }

    unsafe fn host_register(&self, (): &(), _: *mut u8, _: u64) -> Result<RawAllocation> {
        Self::unsupported(Feature::HostRegistration, "host_register")
    }

    unsafe fn host_unregister(&self, (): &(), _: RawAllocation) -> Result<()> {
        Self::unsupported(Feature::HostRegistration, "host_unregister")
    }

    fn stream_create(&self, (): &(), descriptor: &StreamDescriptor) -> Result<()> {
        if descriptor.legacy { Self::unsupported(Feature::LegacyStream, "stream_create") } else { Ok(()) }
    }

    unsafe fn stream_destroy(&self, (): ()) -> Result<()> {
        Ok(())
    }

    fn stream_capture_state(&self, (): &()) -> Result<CaptureState> {
        Ok(CaptureState::None)
    }

    unsafe fn stream_host_function(&self, (): &(), function: HostFunction) -> Result<()> {
        function.call();
        Ok(())
    }

    fn event_create(&self, (): &(), descriptor: &EventDescriptor) -> Result<()> {
        if descriptor.timing { Self::unsupported(Feature::TimingEvents, "event_create") } else { Ok(()) }
    }

    unsafe fn event_destroy(&self, (): ()) -> Result<()> {
        Ok(())
    }

    unsafe fn event_record(&self, (): &(), (): &()) -> Result<()> {
        Ok(())
    }

    unsafe fn stream_wait_event(&self, (): &(), (): &()) -> Result<()> {
        Ok(())
    }

    fn event_query(&self, (): &()) -> Result<bool> {
        Ok(true)
    }

    fn event_wait(&self, (): &()) -> Result<()> {
        Ok(())
    }

    fn event_elapsed(&self, (): &(), (): &()) -> Result<Duration> {
        Self::unsupported(Feature::TimingEvents, "event_elapsed")
    }

    unsafe fn copy(&self, (): &(), _: &CopyDescriptor<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn fill(&self, (): &(), _: &FillDescriptor<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn prefetch(&self, (): &(), _: &PrefetchDescriptor<'_>) -> Result<()> {
        Self::unsupported(Feature::Prefetch, "prefetch")
    }

    unsafe fn launch(&self, (): &(), (): &(), _: &LaunchDescriptor<'_>) -> Result<()> {
        Ok(())
    }

    fn forms(&self, (): &()) -> &'static [Form] {
        &[Form::Host]
    }

    fn compile(&self, (): &(), _: &SourceDescriptor<'_>) -> Result<CompiledImage> {
        Self::unsupported(Feature::RuntimeCompilation, "compile")
    }

    unsafe fn module_load(&self, (): &(), image: &Image<'_>) -> Result<()> {
        let (takes, present) = (vec![format!("{:?}", Form::Host)], vec![format!("{:?}", image.form())]);
        match image {
            Image::Host(_) => Ok(()),
            _ => Err(Self::error(ErrorKind::NoSuchForm { backend: NAME.into(), takes, present }, "module_load")),
        }
    }

    unsafe fn module_unload(&self, (): ()) -> Result<()> {
        Ok(())
    }

    fn function(&self, (): &(), _: &str) -> Result<()> {
        Ok(())
    }

    fn function_info(&self, (): &()) -> Result<FunctionInfo> {
        let Limits { max_block_threads, max_shared_bytes, .. } = Limits::default();
        Ok(FunctionInfo { max_block_threads, max_dynamic_shared_bytes: max_shared_bytes, ..FunctionInfo::default() })
    }

    fn global(&self, (): &(), _: &str) -> Result<(DeviceAddress, u64)> {
        Self::unsupported(Feature::Globals, "global")
    }

    fn occupancy(&self, (): &(), _: u32, _: u32) -> Result<u32> {
        Ok(1)
    }

    fn graph_create(&self, (): &()) -> Result<AtomicU32> {
        Ok(AtomicU32::new(0))
    }

    unsafe fn graph_add_kernel(&self, graph: &AtomicU32, (): &(), _: &LaunchDescriptor<'_>, _: &[u32]) -> Result<u32> {
        Self::node(graph)
    }

    unsafe fn graph_add_copy(&self, graph: &AtomicU32, _: &CopyDescriptor<'_>, _: &[u32]) -> Result<u32> {
        Self::node(graph)
    }

    unsafe fn graph_add_fill(&self, graph: &AtomicU32, _: &FillDescriptor<'_>, _: &[u32]) -> Result<u32> {
        Self::node(graph)
    }

    fn graph_instantiate(&self, _: &AtomicU32) -> Result<()> {
        Ok(())
    }

    unsafe fn graph_update_kernel(&self, (): &(), _: u32, (): &(), _: &LaunchDescriptor<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn graph_update_copy(&self, (): &(), _: u32, _: &CopyDescriptor<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn graph_update_fill(&self, (): &(), _: u32, _: &FillDescriptor<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn graph_launch(&self, (): &(), (): &(), _: Origin<'_>) -> Result<()> {
        Ok(())
    }

    fn graph_destroy(&self, _: AtomicU32) -> Result<()> {
        Ok(())
    }

    unsafe fn executable_destroy(&self, (): ()) -> Result<()> {
        Ok(())
    }

    unsafe fn capture_begin(&self, (): &()) -> Result<()> {
        Self::unsupported(Feature::Capture, "capture_begin")
    }

    unsafe fn capture_end(&self, (): &()) -> Result<AtomicU32> {
        Self::unsupported(Feature::Capture, "capture_end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_functions_run_at_once() -> Result<()> {
        let (send, receive) = std::sync::mpsc::channel();
        // SAFETY: the function does not unwind; the stream is not captured.
        unsafe { Nop::default().stream_host_function(&(), HostFunction::new(move || send.send(1).unwrap_or_default()))? };
        assert_eq!(receive.try_recv(), Ok(1));
        Ok(())
    }

    #[test]
    fn allocations_are_disjoint_and_bounded() -> Result<()> {
        let nop = Nop::default();
        let [first, second] = [1000, 24].map(|bytes| nop.allocate(&(), &AllocationDescriptor::new(bytes, MemoryKind::Device)));
        let (first, second) = (first?, second?);
        assert!(first.address.0 % 256 == 0 && second.address.0 >= first.address.0 + first.bytes);
        let error = nop.allocate(&(), &AllocationDescriptor::new(u64::MAX, MemoryKind::Device)).expect_err("too large");
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { requested: u64::MAX, .. }));
        Ok(())
    }
}
