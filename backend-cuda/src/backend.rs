//! [`Cuda`]: what the contract's methods answer while no device can be opened.
#![allow(unsafe_code, reason = "the contract's methods are unsafe; these do nothing")]

use crate::library;
use polywarp_core::backend::{
    AllocationDescriptor, Backend, CaptureState, CompiledImage, CopyDescriptor, DeviceAddress, DeviceInfo, EventDescriptor, FillDescriptor,
    Form, FunctionInfo, HostFunction, Image, LaunchDescriptor, MemoryInfo, Origin, PrefetchDescriptor, RawAllocation, SourceDescriptor,
    StreamDescriptor,
};
use polywarp_core::{Error, Result};
use std::time::Duration;

/// NVIDIA GPUs, through the CUDA driver that this machine has.
///
/// Making one looks for the driver and starts it; it never fails. [`device_count`](Backend::device_count) says what was met.
/// The environment variable `POLYWARP_CUDA_LIBRARY` names the library to load instead of the usual ones.
///
/// ```
/// use polywarp_core::{ErrorKind, backend::Backend};
/// use polywarp_cuda::Cuda;
///
/// // This version finds devices, but opens none: the answer says why.
/// let error = Cuda::default().device_count().unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::BackendUnavailable { .. }));
/// println!("{error}");
/// ```
#[derive(Clone, Debug)]
pub struct Cuda {
    unavailable: Error,
}

impl Default for Cuda {
    fn default() -> Self {
        Self { unavailable: library::open().map_or_else(|error| error, |started| started.not_driven()) }
    }
}

macro_rules! handles {
    ($($(#[$attribute:meta])* $Handle:ident)*) => {
        $(
            $(#[$attribute])*
            #[derive(Debug)]
            pub enum $Handle {}
        )*
    };
}

handles! {
    /// An opened device. There is none in this version.
    #[derive(Clone)]
    Device
    /// A queue of work. There is none in this version.
    Stream
    /// A point of a stream. There is none in this version.
    Event
    /// Loaded code. There is none in this version.
    Module
    /// A kernel of a module. There is none in this version.
    #[derive(Clone)]
    Function
    /// A graph under construction. There is none in this version.
    Graph
    /// A graph that can be launched. There is none in this version.
    ExecutableGraph
}

// SAFETY: the driver keeps the promises; no stream, memory or module is handed out yet.
unsafe impl Backend for Cuda {
    type Device = Device;
    type Stream = Stream;
    type Event = Event;
    type Module = Module;
    type Function = Function;
    type Graph = Graph;
    type ExecutableGraph = ExecutableGraph;

    fn name(&self) -> &'static str {
        "cuda"
    }

    fn device_count(&self) -> Result<u32> {
        Err(self.unavailable.clone())
    }

    fn device_open(&self, _: u32) -> Result<Device> {
        Err(self.unavailable.clone())
    }

    fn device_info(&self, device: &Device) -> Result<DeviceInfo> {
        match *device {}
    }

    fn memory_info(&self, device: &Device) -> Result<MemoryInfo> {
        match *device {}
    }

    fn peer_possible(&self, from: &Device, _: &Device) -> Result<bool> {
        match *from {}
    }

    fn peer_enable(&self, from: &Device, _: &Device) -> Result<()> {
        match *from {}
    }

    fn allocate(&self, device: &Device, _: &AllocationDescriptor) -> Result<RawAllocation> {
        match *device {}
    }

    unsafe fn free(&self, device: &Device, _: RawAllocation) -> Result<()> {
        match *device {}
    }

    unsafe fn host_register(&self, device: &Device, _: *mut u8, _: u64) -> Result<RawAllocation> {
        match *device {}
    }

    unsafe fn host_unregister(&self, device: &Device, _: RawAllocation) -> Result<()> {
        match *device {}
    }

    fn stream_create(&self, device: &Device, _: &StreamDescriptor) -> Result<Stream> {
        match *device {}
    }

    unsafe fn stream_destroy(&self, stream: Stream) -> Result<()> {
        match stream {}
    }

    fn stream_capture_state(&self, stream: &Stream) -> Result<CaptureState> {
        match *stream {}
    }

    unsafe fn stream_host_function(&self, stream: &Stream, _: HostFunction) -> Result<()> {
        match *stream {}
    }

    fn event_create(&self, device: &Device, _: &EventDescriptor) -> Result<Event> {
        match *device {}
    }

    unsafe fn event_destroy(&self, event: Event) -> Result<()> {
        match event {}
    }

    unsafe fn event_record(&self, stream: &Stream, _: &Event) -> Result<()> {
        match *stream {}
    }

    unsafe fn stream_wait_event(&self, stream: &Stream, _: &Event) -> Result<()> {
        match *stream {}
    }

    fn event_query(&self, event: &Event) -> Result<bool> {
        match *event {}
    }

    fn event_wait(&self, event: &Event) -> Result<()> {
        match *event {}
    }

    fn event_elapsed(&self, start: &Event, _: &Event) -> Result<Duration> {
        match *start {}
    }

    unsafe fn copy(&self, stream: &Stream, _: &CopyDescriptor<'_>) -> Result<()> {
        match *stream {}
    }

    unsafe fn fill(&self, stream: &Stream, _: &FillDescriptor<'_>) -> Result<()> {
        match *stream {}
    }

    unsafe fn prefetch(&self, stream: &Stream, _: &PrefetchDescriptor<'_>) -> Result<()> {
        match *stream {}
    }

    unsafe fn launch(&self, stream: &Stream, _: &Function, _: &LaunchDescriptor<'_>) -> Result<()> {
        match *stream {}
    }

    fn forms(&self, device: &Device) -> &'static [Form] {
        match *device {}
    }

    fn compile(&self, device: &Device, _: &SourceDescriptor<'_>) -> Result<CompiledImage> {
        match *device {}
    }

    unsafe fn module_load(&self, device: &Device, _: &Image<'_>) -> Result<Module> {
        match *device {}
    }

    unsafe fn module_unload(&self, module: Module) -> Result<()> {
        match module {}
    }

    fn function(&self, module: &Module, _: &str) -> Result<Function> {
        match *module {}
    }

    fn function_info(&self, function: &Function) -> Result<FunctionInfo> {
        match *function {}
    }

    fn global(&self, module: &Module, _: &str) -> Result<(DeviceAddress, u64)> {
        match *module {}
    }

    fn occupancy(&self, function: &Function, _: u32, _: u32) -> Result<u32> {
        match *function {}
    }

    fn graph_create(&self, device: &Device) -> Result<Graph> {
        match *device {}
    }

    unsafe fn graph_add_kernel(&self, graph: &Graph, _: &Function, _: &LaunchDescriptor<'_>, _: &[u32]) -> Result<u32> {
        match *graph {}
    }

    unsafe fn graph_add_copy(&self, graph: &Graph, _: &CopyDescriptor<'_>, _: &[u32]) -> Result<u32> {
        match *graph {}
    }

    unsafe fn graph_add_fill(&self, graph: &Graph, _: &FillDescriptor<'_>, _: &[u32]) -> Result<u32> {
        match *graph {}
    }

    fn graph_instantiate(&self, graph: &Graph) -> Result<ExecutableGraph> {
        match *graph {}
    }

    unsafe fn graph_update_kernel(&self, graph: &ExecutableGraph, _: u32, _: &Function, _: &LaunchDescriptor<'_>) -> Result<()> {
        match *graph {}
    }

    unsafe fn graph_update_copy(&self, graph: &ExecutableGraph, _: u32, _: &CopyDescriptor<'_>) -> Result<()> {
        match *graph {}
    }

    unsafe fn graph_update_fill(&self, graph: &ExecutableGraph, _: u32, _: &FillDescriptor<'_>) -> Result<()> {
        match *graph {}
    }

    unsafe fn graph_launch(&self, stream: &Stream, _: &ExecutableGraph, _: Origin<'_>) -> Result<()> {
        match *stream {}
    }

    fn graph_destroy(&self, graph: Graph) -> Result<()> {
        match graph {}
    }

    unsafe fn executable_destroy(&self, graph: ExecutableGraph) -> Result<()> {
        match graph {}
    }

    unsafe fn capture_begin(&self, stream: &Stream) -> Result<()> {
        match *stream {}
    }

    unsafe fn capture_end(&self, stream: &Stream) -> Result<Graph> {
        match *stream {}
    }
}
