//! [`AnyBackend`]: one of the compiled-in backends, chosen at run time.
//!
//! The list at `backends!` names the backends; everything else here is made from it.
//!
//! # Safety
//! Every unsafe method passes its caller's promise on, word for word, to the method of the same name.
#![allow(unsafe_code, reason = "implements the unsafe methods of the contract by forwarding")]

use polywarp_core::backend::{
    AllocationDescriptor, Backend, CaptureState, CompiledImage, CopyDescriptor, DeviceAddress, DeviceInfo, EventDescriptor, FillDescriptor,
    Form, FunctionInfo, HostFunction, Image, LaunchDescriptor, MemoryInfo, Origin, PrefetchDescriptor, RawAllocation, SourceDescriptor,
    StreamDescriptor,
};
use polywarp_core::{Error, ErrorKind, Result};
use std::time::Duration;

/// Makes the enum of backends, the enums of handles, and `forward!`, from one list. `$d` is a dollar sign for the inner macro.
macro_rules! backends {
    ($d:tt $($(#[$cfg:meta])* $Variant:ident $name:literal $Backend:ty;)*) => {
        /// Names of the backends that are compiled in.
        pub(crate) const COMPILED_IN: &[&str] = &[$($(#[$cfg])* $name),*];

        /// One of the compiled-in backends: a backend like any other, chosen at run time.
        ///
        /// A call costs one comparison per handle more than the backend itself; [`dispatch!`](macro@crate::dispatch) avoids even that. A
        /// handle of another variant is refused with [`WrongRuntime`](ErrorKind::WrongRuntime).
        ///
        /// ```
        /// # #[cfg(feature = "host")]
        /// # {
        /// use polywarp::{AnyBackend, backend::Backend, host::Host};
        ///
        /// let backend = AnyBackend::Host(Host::default());
        /// assert_eq!(backend.name(), "host");
        /// let device = backend.device_open(0)?;
        /// println!("{}", backend.device_info(&device)?.name);
        /// # }
        /// # Ok::<(), polywarp::Error>(())
        /// ```
        #[derive(Debug)]
        pub enum AnyBackend {
            $(
                $(#[$cfg])*
                #[doc = concat!("The backend `", $name, "`.")]
                $Variant($Backend),
            )*
        }

        impl AnyBackend {
            /// The backend of this name with its usual settings, if it is compiled in. Nothing says yet that this machine can use it.
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name {
                    $($(#[$cfg])* $name => Some(Self::$Variant(<$Backend>::default())),)*
                    _ => None,
                }
            }
        }

        /// One enum of handles.
        macro_rules! handle {
            ($d(#[$d attribute:meta])* $d Any:ident $d Handle:ident) => {
                $d(#[$d attribute])*
                #[derive(Debug)]
                #[non_exhaustive]
                pub enum $d Any {
                    $(
                        $(#[$cfg])*
                        #[doc = concat!("One of the backend `", $name, "`.")]
                        $Variant(<$Backend as Backend>::$d Handle),
                    )*
                }

                impl $d Any {
                    /// The name of the backend that made it.
                    #[must_use]
                    pub fn backend(&self) -> &'static str {
                        match *self {
                            $($(#[$cfg])* Self::$Variant(_) => $name,)*
                        }
                    }
                }
            };
        }

        /// `forward!(self.method(x))` calls the chosen backend. `forward!(self.method[a: AnyA, b: AnyB](a, x, b))` does with handles, where
        /// all are the chosen backend's; else it answers `mixed`, or what stands behind `else`. `=> AnyC` wraps the answer.
        macro_rules! forward {
            ($d self:ident.$d method:ident($d($d argument:ident),*) $d(=> $d Out:ident)?) => {
                match *$d self {
                    $($(#[$cfg])* AnyBackend::$Variant(ref backend) => {
                        let answer = backend.$d method($d($d argument),*);
                        $d(let answer = answer.map($d Out::$Variant);)?
                        answer
                    })*
                }
            };
            ($d self:ident.$d method:ident[$d($d handle:ident: $d Any:ident),+]$d arguments:tt $d(=> $d Out:ident)?) => {
                forward!($d self.$d method[$d($d handle: $d Any),+]$d arguments $d(=> $d Out)? else
                    Err(mixed(stringify!($d method), $d self.name(), &[$d((stringify!($d handle), $d handle.backend())),+])))
            };
            ($d self:ident.$d method:ident[$d($d handle:ident: $d Any:ident),+]($d($d argument:ident),*) $d(=> $d Out:ident)? else $d otherwise:expr) => {
                #[allow(unreachable_patterns, unused_variables, reason = "with less than two backends compiled in nothing can be mixed")]
                match ($d self, $d($d handle),+) {
                    $($(#[$cfg])* (AnyBackend::$Variant(backend), $d($d Any::$Variant($d handle)),+) => {
                        // SAFETY: the caller's promise is the one that this method asks for.
                        #[allow(unused_unsafe, reason = "the contract's safe methods pass here too")]
                        let answer = unsafe { backend.$d method($d($d argument),*) };
                        $d(let answer = answer.map($d Out::$Variant);)?
                        answer
                    })*
                    (_, $d($d handle),+) => $d otherwise,
                }
            };
        }
    };
}

backends! { $
    #[cfg(feature = "host")]
    Host "host" polywarp_core::host::Host;
    #[cfg(feature = "cuda")]
    Cuda "cuda" polywarp_cuda::Cuda;
    #[cfg(feature = "hip")]
    Hip "hip" polywarp_hip::Hip;
}

handle! {
    /// An opened device of the chosen backend.
    ///
    /// ```
    /// # #[cfg(feature = "host")]
    /// # {
    /// use polywarp::{AnyBackend, AnyDevice, backend::Backend};
    /// let backend = AnyBackend::Host(Default::default());
    /// let device: AnyDevice = backend.device_open(0)?;
    /// assert_eq!(device.backend(), "host");
    /// println!("{}", backend.device_info(&device)?.name);
    /// # }
    /// # Ok::<(), polywarp::Error>(())
    /// ```
    #[derive(Clone)]
    AnyDevice Device
}
handle! {
    /// A queue of work of the chosen backend.
    ///
    /// ```
    /// # #[cfg(feature = "host")]
    /// # {
    /// use polywarp::{AnyBackend, AnyStream, backend::Backend};
    /// let backend = AnyBackend::Host(Default::default());
    /// let stream: AnyStream = backend.stream_create(&backend.device_open(0)?, &Default::default())?;
    /// assert_eq!(stream.backend(), "host");
    /// // SAFETY: nothing was submitted to it, and it is given back once.
    /// unsafe { backend.stream_destroy(stream) }?;
    /// # }
    /// # Ok::<(), polywarp::Error>(())
    /// ```
    AnyStream Stream
}
handle! {
    /// A point of a stream of the chosen backend.
    ///
    /// ```
    /// # #[cfg(feature = "host")]
    /// # {
    /// use polywarp::{AnyBackend, AnyEvent, backend::{Backend, EventDescriptor}};
    /// let backend = AnyBackend::Host(Default::default());
    /// let event: AnyEvent = backend.event_create(&backend.device_open(0)?, &EventDescriptor::ordering())?;
    /// assert!(backend.event_query(&event)?);                      // never recorded: complete
    /// # }
    /// # Ok::<(), polywarp::Error>(())
    /// ```
    AnyEvent Event
}
handle! {
    /// Code loaded by the chosen backend.
    ///
    /// ```
    /// # #[cfg(feature = "host")]
    /// # {
    /// use polywarp::{AnyBackend, AnyModule, backend::{Backend, Image}};
    /// let backend = AnyBackend::Host(Default::default());
    /// // SAFETY: there is no kernel in it.
    /// let module: AnyModule = unsafe { backend.module_load(&backend.device_open(0)?, &Image::Host(&[])) }?;
    /// assert_eq!(module.backend(), "host");
    /// # }
    /// # Ok::<(), polywarp::Error>(())
    /// ```
    AnyModule Module
}
handle! {
    /// A kernel of the chosen backend.
    ///
    /// ```
    /// # #[cfg(feature = "host")]
    /// # {
    /// use polywarp::{AnyBackend, AnyFunction, backend::{Backend, Image}};
    /// let backend = AnyBackend::Host(Default::default());
    /// // SAFETY: there is no kernel in it.
    /// let module = unsafe { backend.module_load(&backend.device_open(0)?, &Image::Host(&[])) }?;
    /// let missing: polywarp::Result<AnyFunction> = backend.function(&module, "axpy");
    /// assert!(missing.is_err());
    /// # }
    /// # Ok::<(), polywarp::Error>(())
    /// ```
    #[derive(Clone)]
    AnyFunction Function
}
handle! {
    /// A graph of the chosen backend, under construction.
    ///
    /// ```
    /// # #[cfg(feature = "host")]
    /// # {
    /// use polywarp::{AnyBackend, AnyGraph, backend::{Backend, Feature}};
    /// let backend = AnyBackend::Host(Default::default());
    /// let device = backend.device_open(0)?;
    /// let graph: polywarp::Result<AnyGraph> = backend.graph_create(&device);
    /// assert_eq!(graph.is_ok(), backend.device_info(&device)?.features.contains(Feature::Graphs));
    /// # }
    /// # Ok::<(), polywarp::Error>(())
    /// ```
    AnyGraph Graph
}
handle! {
    /// A graph of the chosen backend that can be launched.
    ///
    /// ```
    /// # #[cfg(feature = "host")]
    /// # {
    /// use polywarp::{AnyBackend, AnyExecutableGraph, Result, backend::{Backend, Feature}};
    /// let backend = AnyBackend::Host(Default::default());
    /// let device = backend.device_open(0)?;
    /// let graph: Result<AnyExecutableGraph> = backend.graph_create(&device).and_then(|graph| backend.graph_instantiate(&graph));
    /// assert_eq!(graph.is_ok(), backend.device_info(&device)?.features.contains(Feature::Graphs));
    /// # }
    /// # Ok::<(), polywarp::Error>(())
    /// ```
    AnyExecutableGraph ExecutableGraph
}

/// Handles of a backend other than the chosen one; each comes with the name of its own.
#[cold]
fn mixed(operation: &'static str, chosen: &'static str, handles: &[(&str, &str)]) -> Error {
    let foreign = handles.iter().filter(|(_, backend)| *backend != chosen);
    let what: Vec<_> = foreign.map(|(handle, backend)| format!("the {handle} (of {backend})")).collect();
    Error::new(ErrorKind::WrongRuntime { what: what.join(" and ").into() }, operation).on(chosen, None)
}

#[cfg_attr(
    not(any(feature = "host", feature = "cuda", feature = "hip")),
    allow(unused_variables, reason = "with no backend compiled in nothing is forwarded")
)]
// SAFETY: each method is that of the backend inside, with handles that are its own; others are refused before it is called.
unsafe impl Backend for AnyBackend {
    type Device = AnyDevice;
    type Stream = AnyStream;
    type Event = AnyEvent;
    type Module = AnyModule;
    type Function = AnyFunction;
    type Graph = AnyGraph;
    type ExecutableGraph = AnyExecutableGraph;

    fn name(&self) -> &'static str {
        forward!(self.name())
    }

    fn device_count(&self) -> Result<u32> {
        forward!(self.device_count())
    }

    fn device_open(&self, ordinal: u32) -> Result<AnyDevice> {
        forward!(self.device_open(ordinal) => AnyDevice)
    }

    /// Nothing for a device of another backend.
    fn forms(&self, device: &AnyDevice) -> &'static [Form] {
        forward!(self.forms[device: AnyDevice](device) else &[])
    }

    fn device_info(&self, device: &AnyDevice) -> Result<DeviceInfo> {
        forward!(self.device_info[device: AnyDevice](device))
    }

    fn memory_info(&self, device: &AnyDevice) -> Result<MemoryInfo> {
        forward!(self.memory_info[device: AnyDevice](device))
    }

    fn peer_possible(&self, from: &AnyDevice, to: &AnyDevice) -> Result<bool> {
        forward!(self.peer_possible[from: AnyDevice, to: AnyDevice](from, to))
    }

    fn peer_enable(&self, from: &AnyDevice, to: &AnyDevice) -> Result<()> {
        forward!(self.peer_enable[from: AnyDevice, to: AnyDevice](from, to))
    }

    fn allocate(&self, device: &AnyDevice, descriptor: &AllocationDescriptor) -> Result<RawAllocation> {
        forward!(self.allocate[device: AnyDevice](device, descriptor))
    }

    unsafe fn free(&self, device: &AnyDevice, memory: RawAllocation) -> Result<()> {
        forward!(self.free[device: AnyDevice](device, memory))
    }

    unsafe fn host_register(&self, device: &AnyDevice, host: *mut u8, bytes: u64) -> Result<RawAllocation> {
        forward!(self.host_register[device: AnyDevice](device, host, bytes))
    }

    unsafe fn host_unregister(&self, device: &AnyDevice, memory: RawAllocation) -> Result<()> {
        forward!(self.host_unregister[device: AnyDevice](device, memory))
    }

    fn stream_create(&self, device: &AnyDevice, descriptor: &StreamDescriptor) -> Result<AnyStream> {
        forward!(self.stream_create[device: AnyDevice](device, descriptor) => AnyStream)
    }

    unsafe fn stream_destroy(&self, stream: AnyStream) -> Result<()> {
        forward!(self.stream_destroy[stream: AnyStream](stream))
    }

    fn stream_capture_state(&self, stream: &AnyStream) -> Result<CaptureState> {
        forward!(self.stream_capture_state[stream: AnyStream](stream))
    }

    unsafe fn stream_host_function(&self, stream: &AnyStream, function: HostFunction) -> Result<()> {
        forward!(self.stream_host_function[stream: AnyStream](stream, function))
    }

    fn event_create(&self, device: &AnyDevice, descriptor: &EventDescriptor) -> Result<AnyEvent> {
        forward!(self.event_create[device: AnyDevice](device, descriptor) => AnyEvent)
    }

    unsafe fn event_destroy(&self, event: AnyEvent) -> Result<()> {
        forward!(self.event_destroy[event: AnyEvent](event))
    }

    unsafe fn event_record(&self, stream: &AnyStream, event: &AnyEvent) -> Result<()> {
        forward!(self.event_record[stream: AnyStream, event: AnyEvent](stream, event))
    }

    unsafe fn stream_wait_event(&self, stream: &AnyStream, event: &AnyEvent) -> Result<()> {
        forward!(self.stream_wait_event[stream: AnyStream, event: AnyEvent](stream, event))
    }

    fn event_query(&self, event: &AnyEvent) -> Result<bool> {
        forward!(self.event_query[event: AnyEvent](event))
    }

    fn event_wait(&self, event: &AnyEvent) -> Result<()> {
        forward!(self.event_wait[event: AnyEvent](event))
    }

    fn event_elapsed(&self, start: &AnyEvent, end: &AnyEvent) -> Result<Duration> {
        forward!(self.event_elapsed[start: AnyEvent, end: AnyEvent](start, end))
    }

    unsafe fn copy(&self, stream: &AnyStream, descriptor: &CopyDescriptor<'_>) -> Result<()> {
        forward!(self.copy[stream: AnyStream](stream, descriptor))
    }

    unsafe fn fill(&self, stream: &AnyStream, descriptor: &FillDescriptor<'_>) -> Result<()> {
        forward!(self.fill[stream: AnyStream](stream, descriptor))
    }

    unsafe fn prefetch(&self, stream: &AnyStream, descriptor: &PrefetchDescriptor<'_>) -> Result<()> {
        forward!(self.prefetch[stream: AnyStream](stream, descriptor))
    }

    unsafe fn launch(&self, stream: &AnyStream, function: &AnyFunction, descriptor: &LaunchDescriptor<'_>) -> Result<()> {
        forward!(self.launch[stream: AnyStream, function: AnyFunction](stream, function, descriptor))
    }

    fn compile(&self, device: &AnyDevice, descriptor: &SourceDescriptor<'_>) -> Result<CompiledImage> {
        forward!(self.compile[device: AnyDevice](device, descriptor))
    }

    unsafe fn module_load(&self, device: &AnyDevice, image: &Image<'_>) -> Result<AnyModule> {
        forward!(self.module_load[device: AnyDevice](device, image) => AnyModule)
    }

    unsafe fn module_unload(&self, module: AnyModule) -> Result<()> {
        forward!(self.module_unload[module: AnyModule](module))
    }

    fn function(&self, module: &AnyModule, name: &str) -> Result<AnyFunction> {
        forward!(self.function[module: AnyModule](module, name) => AnyFunction)
    }

    fn function_info(&self, function: &AnyFunction) -> Result<FunctionInfo> {
        forward!(self.function_info[function: AnyFunction](function))
    }

    fn global(&self, module: &AnyModule, name: &str) -> Result<(DeviceAddress, u64)> {
        forward!(self.global[module: AnyModule](module, name))
    }

    fn occupancy(&self, function: &AnyFunction, block_threads: u32, dynamic_shared_bytes: u32) -> Result<u32> {
        forward!(self.occupancy[function: AnyFunction](function, block_threads, dynamic_shared_bytes))
    }

    fn graph_create(&self, device: &AnyDevice) -> Result<AnyGraph> {
        forward!(self.graph_create[device: AnyDevice](device) => AnyGraph)
    }

    unsafe fn graph_add_kernel(
        &self,
        graph: &AnyGraph,
        function: &AnyFunction,
        descriptor: &LaunchDescriptor<'_>,
        after: &[u32],
    ) -> Result<u32> {
        forward!(self.graph_add_kernel[graph: AnyGraph, function: AnyFunction](graph, function, descriptor, after))
    }

    unsafe fn graph_add_copy(&self, graph: &AnyGraph, descriptor: &CopyDescriptor<'_>, after: &[u32]) -> Result<u32> {
        forward!(self.graph_add_copy[graph: AnyGraph](graph, descriptor, after))
    }

    unsafe fn graph_add_fill(&self, graph: &AnyGraph, descriptor: &FillDescriptor<'_>, after: &[u32]) -> Result<u32> {
        forward!(self.graph_add_fill[graph: AnyGraph](graph, descriptor, after))
    }

    fn graph_instantiate(&self, graph: &AnyGraph) -> Result<AnyExecutableGraph> {
        forward!(self.graph_instantiate[graph: AnyGraph](graph) => AnyExecutableGraph)
    }

    unsafe fn graph_update_kernel(
        &self,
        graph: &AnyExecutableGraph,
        node: u32,
        function: &AnyFunction,
        descriptor: &LaunchDescriptor<'_>,
    ) -> Result<()> {
        forward!(self.graph_update_kernel[graph: AnyExecutableGraph, function: AnyFunction](graph, node, function, descriptor))
    }

    unsafe fn graph_update_copy(&self, graph: &AnyExecutableGraph, node: u32, descriptor: &CopyDescriptor<'_>) -> Result<()> {
        forward!(self.graph_update_copy[graph: AnyExecutableGraph](graph, node, descriptor))
    }

    unsafe fn graph_update_fill(&self, graph: &AnyExecutableGraph, node: u32, descriptor: &FillDescriptor<'_>) -> Result<()> {
        forward!(self.graph_update_fill[graph: AnyExecutableGraph](graph, node, descriptor))
    }

    unsafe fn graph_launch(&self, stream: &AnyStream, graph: &AnyExecutableGraph, origin: Origin<'_>) -> Result<()> {
        forward!(self.graph_launch[stream: AnyStream, graph: AnyExecutableGraph](stream, graph, origin))
    }

    fn graph_destroy(&self, graph: AnyGraph) -> Result<()> {
        forward!(self.graph_destroy[graph: AnyGraph](graph))
    }

    unsafe fn executable_destroy(&self, graph: AnyExecutableGraph) -> Result<()> {
        forward!(self.executable_destroy[graph: AnyExecutableGraph](graph))
    }

    unsafe fn capture_begin(&self, stream: &AnyStream) -> Result<()> {
        forward!(self.capture_begin[stream: AnyStream](stream))
    }

    unsafe fn capture_end(&self, stream: &AnyStream) -> Result<AnyGraph> {
        forward!(self.capture_end[stream: AnyStream](stream) => AnyGraph)
    }
}

#[cfg(all(test, feature = "host", any(feature = "cuda", feature = "hip")))]
mod tests {
    use super::*;
    use polywarp_core::backend::{EventDescriptor, MemoryKind};
    use polywarp_core::host::Host;

    fn others() -> impl Iterator<Item = AnyBackend> {
        ["cuda", "hip"].into_iter().filter_map(AnyBackend::named)
    }

    /// It is refused, and the message names both backends.
    fn refused<T: std::fmt::Debug>(result: Result<T>, chosen: &AnyBackend, what: &str) {
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongRuntime { .. }), "{error}");
        assert_eq!(error.backend(), chosen.name());
        assert!(error.to_string().contains(what), "{error}");
    }

    #[test]
    fn a_borrowed_handle_of_another_backend_is_refused() {
        let device = AnyBackend::Host(Host::default()).device_open(0).unwrap();
        for other in others() {
            refused(other.device_info(&device), &other, "the device (of host)");
            refused(other.allocate(&device, &AllocationDescriptor::new(1, MemoryKind::Device)), &other, "the device (of host)");
            refused(other.peer_possible(&device, &device), &other, "the from (of host) and the to (of host)");
            assert!(other.forms(&device).is_empty());
        }
    }

    #[test]
    fn an_owned_handle_of_another_backend_is_refused() {
        let host = AnyBackend::Host(Host::default());
        let device = host.device_open(0).unwrap();
        for other in others() {
            let stream = host.stream_create(&device, &StreamDescriptor::default()).unwrap();
            let event = host.event_create(&device, &EventDescriptor::ordering()).unwrap();
            // SAFETY: the calls are refused before any backend sees them.
            refused(unsafe { other.event_record(&stream, &event) }, &other, "the stream (of host) and the event (of host)");
            // SAFETY: as above; no work was submitted to the stream.
            refused(unsafe { other.stream_destroy(stream) }, &other, "the stream (of host)");
        }
    }

    #[test]
    fn handles_of_the_chosen_backend_reach_it() {
        let host = AnyBackend::Host(Host::default());
        let device = host.device_open(0).unwrap();
        assert_eq!(device.backend(), "host");
        let stream = host.stream_create(&device, &StreamDescriptor::default()).unwrap();
        let event = host.event_create(&device, &EventDescriptor::ordering()).unwrap();
        // SAFETY: stream and event are of one device, and no other call on them is in progress.
        unsafe { host.event_record(&stream, &event) }.unwrap();
        host.event_wait(&event).unwrap();
        // SAFETY: all work of the stream is complete.
        unsafe { host.stream_destroy(stream) }.unwrap();
    }
}
