//! The host reference backend: correct first, and on any machine.
//!
//! Kernels are Rust functions ([`HostEntry`](crate::backend::HostEntry)). Each stream is a queue with a worker thread, the
//! blocks of a launch run on all cores, and the threads of a block really meet at barriers. Devices are simulated: as many as
//! asked for, each with its own limit of memory and its own peers. Fresh memory is filled with [`POISON`]; a panic in a
//! kernel poisons its device as a fault poisons a GPU.
//!
//! # The adversarial mode
//!
//! [`HostConfig::adversarial`] finds what waits for too little, without any timing. Submitted work is held until a host wait needs
//! it, or until an event was asked for it often enough, its stream holds too much or is dropped, or no call has come for a second. What is
//! needed then runs in a random order among all that streams and events allow; what is not needed usually does not run. Blocks, threads
//! of a block and threads that leave a barrier run in random order too. Freed memory is filled with [`FREED`]. The same calls from one
//! thread with the same seed give the same order; work that waits for the host for long loosens that.
//!
//! # What is missing
//!
//! It has no graphs, captures, run-time compiler or legacy stream, and says so in its features.
//!
//! # Where to read on
//!
//! * `device`: limits, memory accounts, peers, poison.
//! * `memory`: allocations, copies, fills.
//! * `queue`: streams, events and the workers.
//! * `kernel`: modules, and launches over all cores.
//! * `block`: the threads of one block.
//! * `adversary`: what holds work back in the adversarial mode, and lets it pass.
//!
//! # Safety
//!
//! Every unsafe method here passes its caller's promise on to the module that needs it.

#![allow(unsafe_code, reason = "implements the unsafe methods of the contract")]

mod adversary;
mod block;
mod device;
mod kernel;
mod memory;
mod queue;
#[cfg(test)]
mod tests;

pub use device::Device;
pub use kernel::{Function, Module};
pub use memory::{FREED, POISON};
pub use queue::{Event, Stream};

use crate::backend::{
    AllocationDescriptor, Backend, CaptureState, CompiledImage, CopyDescriptor, DeviceAddress, DeviceInfo, EventDescriptor, Feature,
    Features, FillDescriptor, Form, FunctionInfo, HostFunction, Image, LaunchDescriptor, MemoryInfo, MemoryKind, Origin,
    PrefetchDescriptor, RawAllocation, SourceDescriptor, StreamDescriptor,
};
use crate::{Error, ErrorKind, Result};
use adversary::Adversary;
use kernel::{Launch, Pool};
use memory::{Copy, Fill};
use queue::Task;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "host";

/// What a [`Host`] simulates.
///
/// ```
/// use polywarp_core::backend::{Backend, Feature};
/// use polywarp_core::host::{Host, HostConfig};
///
/// let config = HostConfig::new(2).with_memory(1 << 20).with_peers(|from, to| from < to).without(Feature::Prefetch);
/// let host = Host::new(&config);
/// let (first, second) = (host.device_open(0)?, host.device_open(1)?);
/// assert!(host.peer_possible(&first, &second)? && !host.peer_possible(&second, &first)?);
/// assert_eq!(host.memory_info(&second)?.total, 1 << 20);
/// assert!(!host.device_info(&first)?.features.contains(Feature::Prefetch));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostConfig {
    devices: u32,
    memory_bytes: u64,
    peers: fn(u32, u32) -> bool,
    hidden: Features,
    threads: Option<NonZeroUsize>,
    adversary: Option<u64>,
}

impl HostConfig {
    /// So many devices, each with as much memory as the machine and able to reach all others.
    #[must_use]
    pub fn new(devices: u32) -> Self {
        Self { devices, memory_bytes: machine_memory(), peers: |_, _| true, hidden: Features::NONE, threads: None, adversary: None }
    }

    /// The same, with a limit on what each device can allocate. Page-locked memory is the host's and does not count.
    ///
    /// ```
    /// use polywarp_core::{ErrorKind, Runtime, host::{Host, HostConfig}};
    /// let device = Runtime::new(Host::new(&HostConfig::new(1).with_memory(4096)))?.device(0)?;
    /// let all = device.alloc::<u8>(4096)?;
    /// let refused = device.alloc::<u8>(1).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::OutOfMemory { free: 0, total: 4096, .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The same, where kernels of device `from` reach memory of another device `to` if `reaches(from, to)`.
    ///
    /// ```
    /// use polywarp_core::{Runtime, host::{Host, HostConfig}};
    /// let runtime = Runtime::new(Host::new(&HostConfig::new(3).with_peers(|from, to| from.abs_diff(to) == 1)))?;     // a chain
    /// let [first, second, third] = [runtime.device(0)?, runtime.device(1)?, runtime.device(2)?];
    /// assert!(first.can_reach(&second)? && !first.can_reach(&third)?);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn with_peers(mut self, reaches: fn(u32, u32) -> bool) -> Self {
        self.peers = reaches;
        self
    }

    /// The same, where a launch runs on at most so many threads, its stream's own included. By default all hosts share one
    /// thread per core; with this, the host has its own.
    ///
    /// ```
    /// use polywarp_core::{Runtime, host::{Host, HostConfig}};
    /// let one = std::num::NonZeroUsize::MIN;
    /// let device = Runtime::new(Host::new(&HostConfig::new(1).with_threads(one)))?.device(0)?;   // blocks run one after the other
    /// # device.stream()?.wait()?;
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The same in the adversarial mode (see the [module](self)): work runs as late as it may, in a random order that the seed repeats.
    /// For tests of whatever orders work.
    ///
    /// ```
    /// use polywarp_core::host::{Host, HostConfig};
    /// use polywarp_core::Runtime;
    ///
    /// for seed in 0..8 {
    ///     let device = Runtime::new(Host::new(&HostConfig::default().adversarial(seed)))?.device(0)?;
    ///     let (a, b) = (device.stream()?, device.stream()?);
    ///     let buffer = a.upload(&[1, 2, 3])?;
    ///     assert_eq!(buffer.download(&b)?, [1, 2, 3], "with seed {seed}");
    /// }
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn adversarial(mut self, seed: u64) -> Self {
        self.adversary = Some(seed);
        self
    }

    /// The same without a capability, to test what code does where it is missing.
    ///
    /// ```
    /// use polywarp_core::{Runtime, backend::Feature, host::{Host, HostConfig}};
    /// let device = Runtime::new(Host::new(&HostConfig::new(1).without(Feature::HostFunctions)))?.device(0)?;
    /// assert!(device.stream()?.host_function(|| ()).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn without(mut self, feature: Feature) -> Self {
        self.hidden = self.hidden.with(feature);
        self
    }
}

impl Default for HostConfig {
    /// One device.
    fn default() -> Self {
        Self::new(1)
    }
}

/// Bytes of memory of this machine; 16 GiB where it cannot be asked.
fn machine_memory() -> u64 {
    let total = |info: String| info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    std::fs::read_to_string("/proc/meminfo").ok().and_then(total).map_or(16 << 30, |kibibytes| kibibytes << 10)
}

/// The host reference backend. Clones are the same backend.
///
/// ```
/// use polywarp_core::backend::{AllocationDescriptor, Backend, MemoryKind};
/// use polywarp_core::host::{Host, POISON};
///
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// let memory = host.allocate(&device, &AllocationDescriptor::new(64, MemoryKind::Pinned))?;
/// // SAFETY: page-locked memory of 64 bytes that nobody else uses.
/// assert_eq!(unsafe { *memory.host }, POISON);
/// // SAFETY: it is not in use, and not freed before.
/// unsafe { host.free(&device, memory)? };
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    devices: Arc<[Device]>,
}

impl Host {
    /// A backend of simulated devices.
    #[must_use]
    pub fn new(config: &HostConfig) -> Self {
        let pool = Pool::of(config.threads);
        let adversary = config.adversary.map(|seed| Arc::new(Adversary::new(seed)));
        Self { devices: (0..config.devices).map(|ordinal| Device::new(ordinal, config, &pool, adversary.as_ref())).collect() }
    }
}

impl Default for Host {
    /// One device.
    fn default() -> Self {
        Self::new(&HostConfig::default())
    }
}

/// There is none: [`Feature::Graphs`] is not among the features.
#[derive(Debug)]
pub enum Graph {}

/// There is none: [`Feature::Graphs`] is not among the features.
#[derive(Debug)]
pub enum ExecutableGraph {}

// SAFETY: memory comes from the global allocator at the limits' alignment, filled with `POISON`; workers run their queues in order. For
// the methods see the module's paragraph.
unsafe impl Backend for Host {
    type Device = Device;
    type Stream = Stream;
    type Event = Event;
    type Module = Module;
    type Function = Function;
    type Graph = Graph;
    type ExecutableGraph = ExecutableGraph;

    // ---------------------------------------------------------------- devices

    fn name(&self) -> &'static str {
        NAME
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.devices.len() as u32)
    }

    fn device_open(&self, ordinal: u32) -> Result<Device> {
        let count = self.devices.len() as u32;
        let missing = || Error::new(ErrorKind::NoSuchDevice { ordinal, count }, "device_open").on(NAME, None);
        self.devices.get(ordinal as usize).cloned().ok_or_else(missing)
    }

    fn device_info(&self, device: &Device) -> Result<DeviceInfo> {
        Ok(device.info())
    }

    fn memory_info(&self, device: &Device) -> Result<MemoryInfo> {
        Ok(device.memory_info())
    }

    fn peer_possible(&self, from: &Device, to: &Device) -> Result<bool> {
        Ok(from.reaches(to))
    }

    fn peer_enable(&self, from: &Device, to: &Device) -> Result<()> {
        from.check("peer_enable")?;
        if from.ordinal() == to.ordinal() {
            return Ok(());
        }
        from.require(Feature::PeerAccess, "peer_enable")?;
        if from.reaches(to) {
            return Ok(());
        }
        Err(from.error(ErrorKind::NoPeerAccess { from: from.ordinal(), to: to.ordinal() }, "peer_enable"))
    }

    // ---------------------------------------------------------------- memory

    fn allocate(&self, device: &Device, descriptor: &AllocationDescriptor) -> Result<RawAllocation> {
        memory::allocate(device, descriptor)
    }

    unsafe fn free(&self, device: &Device, memory: RawAllocation) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { memory::free(device, memory) };
        device.check("free")
    }

    unsafe fn host_register(&self, device: &Device, host: *mut u8, bytes: u64) -> Result<RawAllocation> {
        device.require(Feature::HostRegistration, "host_register")?;
        let address = DeviceAddress(host.expose_provenance() as u64);
        Ok(RawAllocation { address, host, bytes, kind: MemoryKind::Pinned })
    }

    unsafe fn host_unregister(&self, device: &Device, _memory: RawAllocation) -> Result<()> {
        device.require(Feature::HostRegistration, "host_unregister")
    }

    // ---------------------------------------------------------------- streams and events

    fn stream_create(&self, device: &Device, descriptor: &StreamDescriptor) -> Result<Stream> {
        device.check("stream_create")?;
        if descriptor.legacy {
            return device.unsupported(Feature::LegacyStream, "stream_create");
        }
        Ok(Stream::new(device))
    }

    unsafe fn stream_destroy(&self, stream: Stream) -> Result<()> {
        stream.device().check("stream_destroy")
    }

    fn stream_capture_state(&self, stream: &Stream) -> Result<CaptureState> {
        stream.device().check("stream_capture_state")?;
        Ok(CaptureState::None)
    }

    unsafe fn stream_host_function(&self, stream: &Stream, function: HostFunction) -> Result<()> {
        stream.device().require(Feature::HostFunctions, "stream_host_function")?;
        stream.submit(Task::HostFunction(function), "stream_host_function")
    }

    fn event_create(&self, device: &Device, descriptor: &EventDescriptor) -> Result<Event> {
        Event::new(device, descriptor)
    }

    unsafe fn event_destroy(&self, event: Event) -> Result<()> {
        event.device().check("event_destroy")
    }

    unsafe fn event_record(&self, stream: &Stream, event: &Event) -> Result<()> {
        event.set(stream.point()?);
        Ok(())
    }

    unsafe fn stream_wait_event(&self, stream: &Stream, event: &Event) -> Result<()> {
        match event.point() {
            None => stream.device().check("stream_wait_event"),
            Some(point) => stream.wait_for(point),
        }
    }

    fn event_query(&self, event: &Event) -> Result<bool> {
        event.query()
    }

    fn event_wait(&self, event: &Event) -> Result<()> {
        event.wait()
    }

    fn event_elapsed(&self, start: &Event, end: &Event) -> Result<Duration> {
        start.elapsed(end)
    }

    // ---------------------------------------------------------------- work

    unsafe fn copy(&self, stream: &Stream, descriptor: &CopyDescriptor<'_>) -> Result<()> {
        if descriptor.rows > 1 || descriptor.slices > 1 {
            stream.device().require(Feature::PitchedCopies, "copy")?;
        }
        stream.submit(Task::Copy(Copy::new(descriptor)), "copy")
    }

    unsafe fn fill(&self, stream: &Stream, descriptor: &FillDescriptor<'_>) -> Result<()> {
        stream.submit(Task::Fill(Fill::new(descriptor)), "fill")
    }

    unsafe fn prefetch(&self, stream: &Stream, _descriptor: &PrefetchDescriptor<'_>) -> Result<()> {
        // Memory is where it is used already.
        stream.device().require(Feature::Prefetch, "prefetch")
    }

    unsafe fn launch(&self, stream: &Stream, function: &Function, descriptor: &LaunchDescriptor<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        let launch = unsafe { Launch::new(function, descriptor)? };
        stream.submit(Task::Launch(Arc::new(launch)), "launch")
    }

    // ---------------------------------------------------------------- code

    fn forms(&self, _device: &Device) -> &'static [Form] {
        &[Form::Host]
    }

    fn compile(&self, device: &Device, _descriptor: &SourceDescriptor<'_>) -> Result<CompiledImage> {
        device.unsupported(Feature::RuntimeCompilation, "compile")
    }

    unsafe fn module_load(&self, device: &Device, image: &Image<'_>) -> Result<Module> {
        Module::load(device, image)
    }

    unsafe fn module_unload(&self, module: Module) -> Result<()> {
        module.device().check("module_unload")
    }

    fn function(&self, module: &Module, name: &str) -> Result<Function> {
        module.function(name)
    }

    fn function_info(&self, function: &Function) -> Result<FunctionInfo> {
        function.info()
    }

    fn global(&self, module: &Module, _name: &str) -> Result<(DeviceAddress, u64)> {
        module.device().unsupported(Feature::Globals, "global")
    }

    fn occupancy(&self, function: &Function, block_threads: u32, dynamic_shared_bytes: u32) -> Result<u32> {
        function.occupancy(block_threads, dynamic_shared_bytes)
    }

    // ---------------------------------------------------------------- graphs

    fn graph_create(&self, device: &Device) -> Result<Graph> {
        device.unsupported(Feature::Graphs, "graph_create")
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

    unsafe fn graph_launch(&self, _: &Stream, graph: &ExecutableGraph, _: Origin<'_>) -> Result<()> {
        match *graph {}
    }

    fn graph_destroy(&self, graph: Graph) -> Result<()> {
        match graph {}
    }

    unsafe fn executable_destroy(&self, graph: ExecutableGraph) -> Result<()> {
        match graph {}
    }

    unsafe fn capture_begin(&self, stream: &Stream) -> Result<()> {
        stream.device().unsupported(Feature::Capture, "capture_begin")
    }

    unsafe fn capture_end(&self, stream: &Stream) -> Result<Graph> {
        stream.device().unsupported(Feature::Capture, "capture_end")
    }
}
