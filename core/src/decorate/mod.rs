//! Backends around a backend, for tests and measurements: [`Counting`] counts, [`Faulty`] fails on request, [`Nop`] costs nothing.
//!
//! A decorator's handles are those of the backend inside, so code that is generic over [`Backend`](crate::backend::Backend) runs on it
//! unchanged. The delegation is written once, in the macro `delegate!`; a decorator says in `Around::around` what happens around each
//! call.
//!
//! # Safety
//!
//! A decorator passes every call on with the arguments it got. What the caller of an unsafe method promised therefore holds for the
//! backend inside.

#![allow(unsafe_code, reason = "decorators pass on the contract's unsafe methods")]

mod counting;
mod faulty;
mod nop;

pub use counting::{Counting, Counts, Live, Tally};
pub use faulty::{Fault, Faults, Faulty};
pub use nop::Nop;

use crate::Result;
use crate::backend::{Feature, MemoryKind};
use std::fmt;

/// One call of a backend method, as [`Around::around`] sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Which method.
    pub(crate) method: Method,
    /// Bytes that it allocates, frees, registers or unregisters; 0 for other methods.
    pub(crate) bytes: u64,
    /// What the device must be capable of.
    pub(crate) needs: Option<Feature>,
}

/// The capability without which there is no such memory.
fn memory_feature(kind: MemoryKind) -> Option<Feature> {
    match kind {
        MemoryKind::Device => None,
        MemoryKind::Pinned => Some(Feature::PinnedMemory),
        MemoryKind::Unified => Some(Feature::UnifiedMemory),
    }
}

/// What a decorator does around each call.
pub(crate) trait Around {
    /// The backend inside.
    type Inner;

    /// The backend inside.
    fn inner(&self) -> &Self::Inner;

    /// Runs the call, or refuses it, and passes its answer on, or another.
    fn around<R: 'static>(&self, call: Call, run: impl FnOnce(&Self::Inner) -> Result<R>) -> Result<R>;
}

/// Hands every fallible method of [`Backend`](crate::backend::Backend) to another macro: variant of [`Method`], name, arguments,
/// result, `as` the bytes that the call moves,
/// and the capability that it `needs`.
///
/// `name` and `forms` are not among them: they answer constants and cannot fail.
macro_rules! methods {
    ($macro:ident! $argument:tt) => {
        $macro! { $argument
            safe {
                DeviceCount device_count() -> u32;
                DeviceOpen device_open(ordinal: u32) -> B::Device;
                DeviceInfo device_info(device: &B::Device) -> DeviceInfo;
                MemoryInfo memory_info(device: &B::Device) -> MemoryInfo;
                PeerPossible peer_possible(from: &B::Device, to: &B::Device) -> bool;
                PeerEnable peer_enable(from: &B::Device, to: &B::Device) -> (), needs Some(Feature::PeerAccess);
                Allocate allocate(device: &B::Device, descriptor: &AllocationDescriptor) -> RawAllocation as descriptor.bytes, needs memory_feature(descriptor.kind);
                StreamCreate stream_create(device: &B::Device, descriptor: &StreamDescriptor) -> B::Stream, needs descriptor.legacy.then_some(Feature::LegacyStream);
                StreamCaptureState stream_capture_state(stream: &B::Stream) -> CaptureState;
                EventCreate event_create(device: &B::Device, descriptor: &EventDescriptor) -> B::Event, needs descriptor.timing.then_some(Feature::TimingEvents);
                EventQuery event_query(event: &B::Event) -> bool;
                EventWait event_wait(event: &B::Event) -> ();
                EventElapsed event_elapsed(start: &B::Event, end: &B::Event) -> Duration;
                Compile compile(device: &B::Device, descriptor: &SourceDescriptor<'_>) -> CompiledImage, needs Some(Feature::RuntimeCompilation);
                Function function(module: &B::Module, name: &str) -> B::Function;
                FunctionInfo function_info(function: &B::Function) -> FunctionInfo;
                Global global(module: &B::Module, name: &str) -> (DeviceAddress, u64), needs Some(Feature::Globals);
                Occupancy occupancy(function: &B::Function, block_threads: u32, dynamic_shared_bytes: u32) -> u32, needs Some(Feature::Occupancy);
                GraphCreate graph_create(device: &B::Device) -> B::Graph, needs Some(Feature::Graphs);
                GraphInstantiate graph_instantiate(graph: &B::Graph) -> B::ExecutableGraph;
                GraphDestroy graph_destroy(graph: B::Graph) -> ();
            }
            unsafe {
                Free free(device: &B::Device, memory: RawAllocation) -> () as memory.bytes;
                HostRegister host_register(device: &B::Device, host: *mut u8, bytes: u64) -> RawAllocation as bytes, needs Some(Feature::HostRegistration);
                HostUnregister host_unregister(device: &B::Device, memory: RawAllocation) -> () as memory.bytes;
                StreamDestroy stream_destroy(stream: B::Stream) -> ();
                StreamHostFunction stream_host_function(stream: &B::Stream, function: HostFunction) -> (), needs Some(Feature::HostFunctions);
                EventDestroy event_destroy(event: B::Event) -> ();
                EventRecord event_record(stream: &B::Stream, event: &B::Event) -> ();
                StreamWaitEvent stream_wait_event(stream: &B::Stream, event: &B::Event) -> ();
                Copy copy(stream: &B::Stream, descriptor: &CopyDescriptor<'_>) -> (), needs (descriptor.rows * descriptor.slices > 1).then_some(Feature::PitchedCopies);
                Fill fill(stream: &B::Stream, descriptor: &FillDescriptor<'_>) -> ();
                Prefetch prefetch(stream: &B::Stream, descriptor: &PrefetchDescriptor<'_>) -> (), needs Some(Feature::Prefetch);
                Launch launch(stream: &B::Stream, function: &B::Function, descriptor: &LaunchDescriptor<'_>) -> ();
                ModuleLoad module_load(device: &B::Device, image: &Image<'_>) -> B::Module;
                ModuleUnload module_unload(module: B::Module) -> ();
                GraphAddKernel graph_add_kernel(
                    graph: &B::Graph, function: &B::Function, descriptor: &LaunchDescriptor<'_>, after: &[u32]
                ) -> u32;
                GraphAddCopy graph_add_copy(graph: &B::Graph, descriptor: &CopyDescriptor<'_>, after: &[u32]) -> u32;
                GraphAddFill graph_add_fill(graph: &B::Graph, descriptor: &FillDescriptor<'_>, after: &[u32]) -> u32;
                GraphUpdateKernel graph_update_kernel(
                    graph: &B::ExecutableGraph, node: u32, function: &B::Function, descriptor: &LaunchDescriptor<'_>
                ) -> ();
                GraphUpdateCopy graph_update_copy(graph: &B::ExecutableGraph, node: u32, descriptor: &CopyDescriptor<'_>) -> ();
                GraphUpdateFill graph_update_fill(graph: &B::ExecutableGraph, node: u32, descriptor: &FillDescriptor<'_>) -> ();
                GraphLaunch graph_launch(stream: &B::Stream, graph: &B::ExecutableGraph, origin: Origin<'_>) -> ();
                ExecutableDestroy executable_destroy(graph: B::ExecutableGraph) -> ();
                CaptureBegin capture_begin(stream: &B::Stream) -> (), needs Some(Feature::Capture);
                CaptureEnd capture_end(stream: &B::Stream) -> B::Graph;
            }
        }
    };
}

/// Implements [`Backend`](crate::backend::Backend) for a decorator `$Decorator<B>` that is [`Around`] a backend `B`.
macro_rules! delegate {
    ($Decorator:ident) => { methods! { delegate! $Decorator } };
    ($Decorator:ident
        safe { $($Safe:ident $safe:ident($($s:ident: $S:ty),*) -> $SR:ty $(as $s_bytes:expr)? $(, needs $s_needs:expr)?;)* }
        unsafe { $($Unsafe:ident $unsafe:ident($($u:ident: $U:ty),*) -> $UR:ty $(as $u_bytes:expr)? $(, needs $u_needs:expr)?;)* }
    ) => {
        // SAFETY: the inner backend keeps the promises; a decorator passes its answers on, or an error, or memory at null.
        unsafe impl<B: Backend> Backend for $Decorator<B> {
            type Device = B::Device;
            type Stream = B::Stream;
            type Event = B::Event;
            type Module = B::Module;
            type Function = B::Function;
            type Graph = B::Graph;
            type ExecutableGraph = B::ExecutableGraph;

            fn name(&self) -> &'static str {
                Around::inner(self).name()
            }

            fn forms(&self, device: &B::Device) -> &'static [Form] {
                Around::inner(self).forms(device)
            }

            $(#[inline]
            fn $safe(&self, $($s: $S),*) -> Result<$SR> {
                let call = Call { method: Method::$Safe, bytes: 0 $(+ $s_bytes)?, needs: None $(.or($s_needs))? };
                self.around(call, |inner| inner.$safe($($s),*))
            })*

            $(#[inline]
            unsafe fn $unsafe(&self, $($u: $U),*) -> Result<$UR> {
                let call = Call { method: Method::$Unsafe, bytes: 0 $(+ $u_bytes)?, needs: None $(.or($u_needs))? };
                // SAFETY: the arguments are the caller's, and so are the promises about them.
                self.around(call, |inner| unsafe { inner.$unsafe($($u),*) })
            })*
        }
    };
}
use {delegate, methods};

macro_rules! method {
    (Method
        safe { $($Safe:ident $safe:ident $s:tt -> $SR:ty $(as $s_bytes:expr)? $(, needs $s_needs:expr)?;)* }
        unsafe { $($Unsafe:ident $unsafe:ident $u:tt -> $UR:ty $(as $u_bytes:expr)? $(, needs $u_needs:expr)?;)* }
    ) => {
        /// A fallible method of [`Backend`](crate::backend::Backend), by name.
        ///
        /// ```
        /// use polywarp_core::decorate::Method;
        /// assert_eq!(Method::EventRecord.to_string(), "event_record");
        /// assert!(Method::ALL.iter().any(|method| method.name() == "launch"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $(#[doc = concat!("[`", stringify!($safe), "`](crate::backend::Backend::", stringify!($safe), ")")] $Safe,)*
            $(#[doc = concat!("[`", stringify!($unsafe), "`](crate::backend::Backend::", stringify!($unsafe), ")")] $Unsafe,)*
        }

        impl Method {
            /// All of them, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$Safe,)* $(Self::$Unsafe,)*];

            /// The method's name in the trait.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Safe => stringify!($safe),)*
                    $(Self::$Unsafe => stringify!($unsafe),)*
                }
            }
        }
    };
}
methods! { method! Method }

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
