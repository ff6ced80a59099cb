//! The contract: all that a backend author must read.
//!
//! A backend is a value that implements [`Backend`]. It hands out handles (devices, streams, events, modules, functions,
//! graphs) and performs single operations on them; it decides nothing. Everything above (which work waits for which, when
//! memory may be reused, what a launch's arguments are) is done once, in this crate, for all backends.
//!
//! # The ordering model
//!
//! * Work submitted to one stream runs in the order of submission.
//! * Work on different streams is unordered, except through events: [`event_record`](Backend::event_record) marks a point of a
//!   stream, [`stream_wait_event`](Backend::stream_wait_event) makes later work of another stream run after it. Ordering is
//!   transitive.
//! * The host is ordered after a point by [`event_wait`](Backend::event_wait) (or by [`event_query`](Backend::event_query) answering
//!   true), and whatever the host did before submitting is visible to the work it submits.
//! * Work on one stream never waits for another stream that it has no event of: a kernel that waits for the host must not
//!   keep independent streams from running.
//!
//! ```text
//!   stream A   ──[write x]──●───────────[read y]──
//!                           │ event_record(A, e)
//!                           ╰──────╮ stream_wait_event(B, e)
//!   stream B   ──[write y]─────────●──[read x]────   after the write, without any host wait
//! ```
//!
//! # What callers promise
//!
//! Arguments arrive validated: sizes are not zero, ranges lie inside their allocations, launches are within
//! [`Limits`], capabilities are there. All checking is above this trait, once. A backend may `debug_assert!` it.
//! Handles are used with the backend value that made them, and with their own device unless a method says otherwise.
//!
//! # What every method promises
//!
//! * It may be called from any thread, and from several at once. Calls on *one* stream are never concurrent.
//! * Submissions (copies, fills, launches, records, waits of streams) return before the work is done, unless the driver's queue is full
//!   ([`Quirk::BoundedQueue`]).
//! * On an error nothing was submitted, and the next call is not affected, unless the error is
//!   [`DevicePoisoned`](crate::ErrorKind::DevicePoisoned): that one stays, and every later call may answer it.
//! * What a device lacks (its [`Features`]) answers [`Unsupported`](crate::ErrorKind::Unsupported) and has no effect. There are no
//!   default methods, so none that could pretend success.
//! * Nothing panics. No callback unwinds into a driver.
//!
//! # Lifecycles
//!
//! ```text
//! device    device_open → in use → (never closed: devices are shared with the rest of the process)
//! memory    allocate → in use → free, behind all of its uses
//! stream    stream_create → submissions → final event complete → stream_destroy
//! event     event_create → unrecorded (complete) → event_record → pending → complete → event_record … → event_destroy
//! module    module_load → functions used → all launches complete → module_unload
//! graph     graph_create → nodes added → graph_instantiate → launch | update … → executable_destroy; graph_destroy at any time after
//! ```

#![allow(unsafe_code, reason = "the contract's methods are unsafe where they trust their caller")]

mod capabilities;
mod descriptor;
mod host_form;

pub use capabilities::{DeviceInfo, Feature, Features, Limits, Quirk, Quirks};
pub use descriptor::{
    Access, AccessMode, AllocationDescriptor, CaptureState, CompiledImage, CopyDescriptor, DeviceAddress, Endpoint, EventDescriptor,
    FillDescriptor, Form, FunctionInfo, Geometry, HostFunction, Image, LaunchDescriptor, MemoryInfo, MemoryKind, Origin, ParameterLayout,
    Pattern, PrefetchDescriptor, RawAllocation, SourceDescriptor, StreamDescriptor,
};
pub use host_form::{HostBarrier, HostBody, HostEntry, HostThread};

use crate::Result;
use std::fmt::Debug;
use std::time::Duration;

/// What any implementor writes: see the [module](self) for the rules that hold for every method.
///
/// ```
/// use polywarp_core::{Result, backend::Backend, host::Host};
///
/// /// Generic code names the trait alone.
/// fn device_names<B: Backend>(backend: &B) -> Result<Vec<String>> {
///     (0..backend.device_count()?).map(|i| Ok(backend.device_info(&backend.device_open(i)?)?.name)).collect()
/// }
/// assert_eq!(device_names(&Host::default())?.len(), 1);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
///
/// # Safety
/// Safe code above trusts the answers:
/// * Memory from [`allocate`](Self::allocate) is what was asked for: so many bytes, aligned to
///   [`Limits::allocation_alignment`], initialised, apart from all other memory, at a host address where the kind has one, until it is freed.
/// * Work runs in the order that streams and events say, and is complete when [`event_wait`](Self::event_wait) returns or
///   [`event_query`](Self::event_query) answers true; it touches the memory that its descriptor names, and no other.
/// * Parameters reach the kernel that the function was looked up for; [`FunctionInfo::parameters`] and [`Limits`] are true.
pub unsafe trait Backend: Sized + Debug + Send + Sync + 'static {
    /// An opened device.
    type Device: Clone + Debug + Send + Sync + 'static;
    /// A queue of work.
    type Stream: Debug + Send + Sync + 'static;
    /// A point of a stream.
    type Event: Debug + Send + Sync + 'static;
    /// Loaded code.
    type Module: Debug + Send + Sync + 'static;
    /// A kernel of a module.
    type Function: Clone + Debug + Send + Sync + 'static;
    /// A graph under construction.
    type Graph: Debug + Send + Sync + 'static;
    /// A graph that can be launched.
    type ExecutableGraph: Debug + Send + Sync + 'static;

    // ---------------------------------------------------------------- devices

    /// The backend's name, such as `cuda`: lower case, the same for every value of the type (of the variant, for an enum of backends).
    fn name(&self) -> &'static str;

    /// How many devices there are.
    ///
    /// # Behaviour
    /// * The same answer for the life of the value; no context is created, no memory taken.
    ///
    /// # Errors
    /// [`BackendUnavailable`](crate::ErrorKind::BackendUnavailable) with everything that was tried.
    fn device_count(&self) -> Result<u32>;

    /// Opens a device.
    ///
    /// # Behaviour
    /// * Opening twice gives handles of the same device.
    /// * The device that was current for the calling thread stays current for foreign code.
    ///
    /// # Errors
    /// [`NoSuchDevice`](crate::ErrorKind::NoSuchDevice) for an ordinal ≥ the count.
    fn device_open(&self, ordinal: u32) -> Result<Self::Device>;

    /// What the device is and can do.
    ///
    /// # Behaviour
    /// * Each [`Feature`] listed works; each one not listed answers `Unsupported`.
    ///
    /// # Errors
    /// Those of the driver.
    fn device_info(&self, device: &Self::Device) -> Result<DeviceInfo>;

    /// Free and total memory now.
    ///
    /// # Errors
    /// Those of the driver. Callers go on without the answer.
    fn memory_info(&self, device: &Self::Device) -> Result<MemoryInfo>;

    /// Whether kernels of `from` can reach memory of `to` once enabled.
    ///
    /// # Behaviour
    /// * A device reaches itself.
    /// * No context is created by asking.
    ///
    /// # Errors
    /// Those of the driver.
    fn peer_possible(&self, from: &Self::Device, to: &Self::Device) -> Result<bool>;

    /// Lets kernels of `from` reach memory of `to`, allocated before or later.
    ///
    /// Requires [`Feature::PeerAccess`] and that [`peer_possible`](Self::peer_possible) answered true.
    ///
    /// # Behaviour
    /// * Enabling twice is fine, also from two threads, also when foreign code enabled it.
    ///
    /// # Errors
    /// [`NoPeerAccess`](crate::ErrorKind::NoPeerAccess) if the driver refuses.
    fn peer_enable(&self, from: &Self::Device, to: &Self::Device) -> Result<()>;

    // ---------------------------------------------------------------- memory

    /// Allocates memory.
    ///
    /// # Behaviour
    /// * The address is a multiple of [`Limits::allocation_alignment`]; the whole range is the caller's alone.
    /// * [`MemoryKind::Device`] memory belongs to `device` whichever device is current for the thread; its `host` is null.
    /// * [`MemoryKind::Pinned`] memory is reachable by every device of the backend.
    /// * Success never comes with a null address.
    /// * Contents are unspecified.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory), with nothing kept; `Unsupported` for a kind that the device lacks.
    fn allocate(&self, device: &Self::Device, descriptor: &AllocationDescriptor) -> Result<RawAllocation>;

    /// Gives memory back.
    ///
    /// # Behaviour
    /// * Works whichever device is current for the thread.
    ///
    /// # Errors
    /// Those of the driver; the memory counts as gone in any case.
    ///
    /// # Safety
    /// * Every use of the memory is complete.
    /// * It came from [`allocate`](Self::allocate) of this device and was not freed before.
    unsafe fn free(&self, device: &Self::Device, memory: RawAllocation) -> Result<()>;

    /// Page-locks existing host memory and makes it reachable by every device. Requires [`Feature::HostRegistration`].
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    ///
    /// # Safety
    /// * The range stays allocated until [`host_unregister`](Self::host_unregister).
    /// * No part of it is registered already.
    unsafe fn host_register(&self, device: &Self::Device, host: *mut u8, bytes: u64) -> Result<RawAllocation>;

    /// Ends a registration; the memory itself stays its owner's.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * Every use by a device is complete, and the range came from [`host_register`](Self::host_register).
    unsafe fn host_unregister(&self, device: &Self::Device, memory: RawAllocation) -> Result<()>;

    // ---------------------------------------------------------------- streams and events

    /// Creates a stream that is not ordered with any other, the legacy default stream included.
    ///
    /// # Errors
    /// `Unsupported` for [`StreamDescriptor::legacy`] without [`Feature::LegacyStream`]; those of the driver.
    fn stream_create(&self, device: &Self::Device, descriptor: &StreamDescriptor) -> Result<Self::Stream>;

    /// Destroys a stream.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * All its work is complete.
    unsafe fn stream_destroy(&self, stream: Self::Stream) -> Result<()>;

    /// Whether foreign code is capturing the stream.
    ///
    /// # Errors
    /// Those of the driver.
    fn stream_capture_state(&self, stream: &Self::Stream) -> Result<CaptureState>;

    /// Runs a host function in stream order: after all earlier work, before all later work.
    /// Requires [`Feature::HostFunctions`].
    ///
    /// # Behaviour
    /// * The function runs once, on a thread of the library, not inside a driver's callback.
    /// * Other streams go on while it runs, even if it never returns.
    /// * If the driver never calls it (after an error), it is dropped, not leaked.
    ///
    /// # Errors
    /// `Unsupported`; those of the driver: the function was then dropped without running.
    ///
    /// # Safety
    /// * The function does not unwind.
    /// * `stream` is not being captured.
    unsafe fn stream_host_function(&self, stream: &Self::Stream, function: HostFunction) -> Result<()>;

    /// Creates an event. It counts as complete until it is recorded.
    ///
    /// # Behaviour
    /// * An event without timing is cheaper to record; it never answers [`event_elapsed`](Self::event_elapsed).
    /// * Waiting for it on the host sleeps instead of spinning, after 50 µs at the latest.
    ///
    /// # Errors
    /// `Unsupported` for timing without [`Feature::TimingEvents`]; those of the driver.
    fn event_create(&self, device: &Self::Device, descriptor: &EventDescriptor) -> Result<Self::Event>;

    /// Destroys an event, complete or not.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * No other call on the event is in progress.
    unsafe fn event_destroy(&self, event: Self::Event) -> Result<()>;

    /// Marks the point of the stream behind everything submitted to it so far. What was recorded before is forgotten; waits already
    /// submitted keep what they waited for.
    ///
    /// # Behaviour
    /// * Waits submitted before the new record still refer to the old point.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * `event` belongs to the stream's device; no other call on the event is in progress.
    unsafe fn event_record(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Makes all later work of the stream run after the event's point. The host does not wait.
    ///
    /// # Behaviour
    /// * An event that was never recorded orders nothing.
    /// * The event may belong to another device.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * No record of the event is in progress.
    unsafe fn stream_wait_event(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Whether the event's point has been reached.
    ///
    /// # Errors
    /// [`DevicePoisoned`](crate::ErrorKind::DevicePoisoned) if the work before it failed; those of the driver.
    fn event_query(&self, event: &Self::Event) -> Result<bool>;

    /// Waits on the host for the event's point.
    ///
    /// # Behaviour
    /// * Holds no lock that another thread's submission or wait needs.
    /// * Memory written by work before the point is visible to the host afterwards, where the host can reach it at all.
    ///
    /// # Errors
    /// [`DevicePoisoned`](crate::ErrorKind::DevicePoisoned) if the work before it failed; those of the driver.
    fn event_wait(&self, event: &Self::Event) -> Result<()>;

    /// The time from one timing event's point to another's, on the device's clock.
    ///
    /// # Errors
    /// [`NotReady`](crate::ErrorKind::NotReady) unless both are recorded and complete;
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) without timing.
    fn event_elapsed(&self, start: &Self::Event, end: &Self::Event) -> Result<Duration>;

    // ---------------------------------------------------------------- work

    /// Copies bytes in stream order, between any two endpoints: host and device, device and device, two devices.
    ///
    /// # Behaviour
    /// * Between devices it works with and without peer access.
    /// * Bytes between the runs of a pitched copy are not touched. More than one run requires [`Feature::PitchedCopies`].
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    ///
    /// # Safety
    /// * Both ranges stay allocated until the copy is complete, do not overlap, and host ends are page-locked memory.
    unsafe fn copy(&self, stream: &Self::Stream, descriptor: &CopyDescriptor<'_>) -> Result<()>;

    /// Repeats a pattern in stream order.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * The range stays allocated until the fill is complete.
    unsafe fn fill(&self, stream: &Self::Stream, descriptor: &FillDescriptor<'_>) -> Result<()>;

    /// Moves unified memory ahead of its use, in stream order. Requires [`Feature::Prefetch`].
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    ///
    /// # Safety
    /// * The range is unified memory and stays allocated until the work is complete.
    unsafe fn prefetch(&self, stream: &Self::Stream, descriptor: &PrefetchDescriptor<'_>) -> Result<()>;

    /// Launches a kernel in stream order.
    ///
    /// # Behaviour
    /// * Parameters are copied before the call returns.
    /// * Dynamic shared memory above the default is opted in by the backend itself.
    /// * A failed launch leaves nothing behind for the next call to trip over.
    ///
    /// # Errors
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for what only the driver knows; those of the driver.
    ///
    /// # Safety
    /// * Each pointer is valid for reads of its layout's size; layout and values are what the kernel expects.
    /// * What the kernel reaches stays allocated until it is complete, and its uses are ordered.
    /// * The function belongs to the stream's device.
    unsafe fn launch(&self, stream: &Self::Stream, function: &Self::Function, descriptor: &LaunchDescriptor<'_>) -> Result<()>;

    // ---------------------------------------------------------------- code

    /// The forms of code that the device runs, best first.
    fn forms(&self, device: &Self::Device) -> &'static [Form];

    /// Compiles C++ source for the device's architecture. Requires [`Feature::RuntimeCompilation`].
    ///
    /// # Errors
    /// `Unsupported`; [`Compilation`](crate::ErrorKind::Compilation) with the log;
    /// [`BackendUnavailable`](crate::ErrorKind::BackendUnavailable) if there is no compiler.
    fn compile(&self, device: &Self::Device, descriptor: &SourceDescriptor<'_>) -> Result<CompiledImage>;

    /// Loads an image.
    ///
    /// # Errors
    /// [`NoSuchForm`](crate::ErrorKind::NoSuchForm) for a form that is not in [`forms`](Self::forms); those of the driver.
    ///
    /// # Safety
    /// * The image is well formed: drivers trust it.
    unsafe fn module_load(&self, device: &Self::Device, image: &Image<'_>) -> Result<Self::Module>;

    /// Unloads a module.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * No launch of its functions is pending, and none follows.
    unsafe fn module_unload(&self, module: Self::Module) -> Result<()>;

    /// Looks up a kernel.
    ///
    /// # Behaviour
    /// * A look-up that fails does not affect the next call.
    ///
    /// # Errors
    /// [`NoSuchFunction`](crate::ErrorKind::NoSuchFunction), with the names there are where they are known.
    fn function(&self, module: &Self::Module, name: &str) -> Result<Self::Function>;

    /// What a kernel tells about itself.
    ///
    /// # Errors
    /// Those of the driver.
    fn function_info(&self, function: &Self::Function) -> Result<FunctionInfo>;

    /// Address and size in bytes of a global of the module. Requires [`Feature::Globals`].
    ///
    /// # Errors
    /// `Unsupported`; [`NoSuchFunction`](crate::ErrorKind::NoSuchFunction).
    fn global(&self, module: &Self::Module, name: &str) -> Result<(DeviceAddress, u64)>;

    /// How many blocks of this size fit one multiprocessor. Requires [`Feature::Occupancy`].
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    fn occupancy(&self, function: &Self::Function, block_threads: u32, dynamic_shared_bytes: u32) -> Result<u32>;

    // ---------------------------------------------------------------- graphs: all require Feature::Graphs

    /// An empty graph.
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    fn graph_create(&self, device: &Self::Device) -> Result<Self::Graph>;

    /// Adds a launch that runs after the nodes in `after`; answers the node's index: 0, 1, ….
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    ///
    /// # Safety
    /// * As for [`launch`](Self::launch), at every launch of the graph. Parameters are copied now.
    unsafe fn graph_add_kernel(
        &self,
        graph: &Self::Graph,
        function: &Self::Function,
        descriptor: &LaunchDescriptor<'_>,
        after: &[u32],
    ) -> Result<u32>;

    /// Adds a copy that runs after the nodes in `after`.
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    ///
    /// # Safety
    /// * As for [`copy`](Self::copy), at every launch of the graph.
    unsafe fn graph_add_copy(&self, graph: &Self::Graph, descriptor: &CopyDescriptor<'_>, after: &[u32]) -> Result<u32>;

    /// Adds a fill that runs after the nodes in `after`.
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    ///
    /// # Safety
    /// * As for [`fill`](Self::fill), at every launch of the graph.
    unsafe fn graph_add_fill(&self, graph: &Self::Graph, descriptor: &FillDescriptor<'_>, after: &[u32]) -> Result<u32>;

    /// Makes a graph that can be launched.
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    fn graph_instantiate(&self, graph: &Self::Graph) -> Result<Self::ExecutableGraph>;

    /// Replaces the launch of one node; takes effect at the next launch of the graph.
    ///
    /// # Errors
    /// `Unsupported` if this change needs a new graph; those of the driver.
    ///
    /// # Safety
    /// * As for [`graph_add_kernel`](Self::graph_add_kernel); no call on the executable graph is in progress.
    unsafe fn graph_update_kernel(
        &self,
        graph: &Self::ExecutableGraph,
        node: u32,
        function: &Self::Function,
        descriptor: &LaunchDescriptor<'_>,
    ) -> Result<()>;

    /// Replaces the copy of one node.
    ///
    /// # Errors
    /// As for [`graph_update_kernel`](Self::graph_update_kernel).
    ///
    /// # Safety
    /// * As for [`graph_add_copy`](Self::graph_add_copy); no call on the executable graph is in progress.
    unsafe fn graph_update_copy(&self, graph: &Self::ExecutableGraph, node: u32, descriptor: &CopyDescriptor<'_>) -> Result<()>;

    /// Replaces the fill of one node.
    ///
    /// # Errors
    /// As for [`graph_update_kernel`](Self::graph_update_kernel).
    ///
    /// # Safety
    /// * As for [`graph_add_fill`](Self::graph_add_fill); no call on the executable graph is in progress.
    unsafe fn graph_update_fill(&self, graph: &Self::ExecutableGraph, node: u32, descriptor: &FillDescriptor<'_>) -> Result<()>;

    /// Runs the graph in stream order.
    ///
    /// # Behaviour
    /// * Two launches of one executable graph never run at the same time.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * Everything that its nodes reach stays allocated until it is complete; no other call on the executable graph is in progress.
    unsafe fn graph_launch(&self, stream: &Self::Stream, graph: &Self::ExecutableGraph, origin: Origin<'_>) -> Result<()>;

    /// Destroys a graph; executables made from it stay.
    ///
    /// # Errors
    /// Those of the driver.
    fn graph_destroy(&self, graph: Self::Graph) -> Result<()>;

    /// Destroys an executable graph.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// * No launch of it is pending.
    unsafe fn executable_destroy(&self, graph: Self::ExecutableGraph) -> Result<()>;

    /// Starts to capture what is submitted to a stream of our own. Requires [`Feature::Capture`].
    ///
    /// # Behaviour
    /// * Other threads and other streams are not affected.
    ///
    /// # Errors
    /// `Unsupported`; those of the driver.
    ///
    /// # Safety
    /// * The stream was made for this capture; nothing else is submitted to it.
    unsafe fn capture_begin(&self, stream: &Self::Stream) -> Result<()>;

    /// Ends a capture, also a broken one.
    ///
    /// # Errors
    /// `Unsupported`; those of the driver. The stream is usable afterwards in any case.
    ///
    /// # Safety
    /// * [`capture_begin`](Self::capture_begin) was called for this stream.
    unsafe fn capture_end(&self, stream: &Self::Stream) -> Result<Self::Graph>;
}
