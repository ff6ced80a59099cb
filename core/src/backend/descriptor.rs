//! The plain data that goes into the methods of [`Backend`](super::Backend): no handles, so that an enum over backends
//! passes it on unchanged.

use super::HostEntry;
use std::ffi::c_void;
use std::fmt;
use std::panic::Location;

/// An address in a device's address space. Zero is null.
///
/// ```
/// use polywarp_core::backend::DeviceAddress;
/// let second = DeviceAddress(0x1000).offset(4);
/// assert_eq!(second, DeviceAddress(0x1004));
/// assert!(second > DeviceAddress::NULL);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DeviceAddress(pub u64);

impl DeviceAddress {
    /// The null address.
    pub const NULL: Self = Self(0);

    /// The address this many bytes further on.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// How memory is used.
///
/// ```
/// use polywarp_core::backend::AccessMode::{Read, Write};
/// assert!(!Read.conflicts(Read));                             // readers need no order among themselves
/// assert!(Read.conflicts(Write) && Write.conflicts(Write));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// It is read only.
    Read,
    /// It is written, and perhaps read.
    Write,
}

impl AccessMode {
    /// Whether two such uses of one range must be ordered.
    #[must_use]
    pub const fn conflicts(self, other: Self) -> bool {
        matches!(self, Self::Write) || matches!(other, Self::Write)
    }
}

/// One use of memory by a submission. Plain backends ignore these; decorators that check or log read them.
///
/// ```
/// use polywarp_core::backend::{Access, AccessMode, DeviceAddress};
/// let source = Access { address: DeviceAddress(0x1000), bytes: 64, mode: AccessMode::Read, argument: 0 };
/// let destination = Access { address: DeviceAddress(0x2000), mode: AccessMode::Write, argument: 1, ..source };
/// assert!(source.mode.conflicts(destination.mode) && source.address != destination.address);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub address: DeviceAddress,
    /// Bytes from there on.
    pub bytes: u64,
    /// Read or written.
    pub mode: AccessMode,
    /// Index of the argument that it came from; for copies 0 is the source, 1 the destination.
    pub argument: u8,
}

/// Who asked: what a submission touches and where the caller stands.
///
/// ```
/// use polywarp_core::backend::Origin;
/// use std::panic::Location;
/// #[track_caller]
/// fn untracked() -> Origin<'static> {
///     Origin { accesses: &[], caller: Location::caller() }
/// }
/// assert_eq!(untracked().caller.line(), line!());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Every tracked use.
    pub accesses: &'a [Access],
    /// Where in the user's source the call stands.
    pub caller: &'static Location<'static>,
}

/// Where bytes live.
///
/// ```
/// use polywarp_core::{PinnedMemory, MemoryKind as _, backend::MemoryKind};
/// assert_eq!(PinnedMemory::KIND, MemoryKind::Pinned);         // the kinds are types above the contract
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// On the device; the host cannot reach it.
    Device,
    /// Page-locked on the host; devices reach it.
    Pinned,
    /// At one address for host and device, moved by the driver.
    Unified,
}

/// What is asked of [`allocate`](super::Backend::allocate).
///
/// ```
/// use polywarp_core::{backend::{AllocationDescriptor, Backend, MemoryKind}, host::Host};
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// let memory = host.allocate(&device, &AllocationDescriptor::new(100, MemoryKind::Pinned))?;
/// assert!(memory.bytes >= 100 && !memory.host.is_null());
/// // SAFETY: nothing uses it, and it is given back once.
/// unsafe { host.free(&device, memory) }?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AllocationDescriptor {
    /// Bytes; never 0.
    pub bytes: u64,
    /// Where.
    pub kind: MemoryKind,
}

impl AllocationDescriptor {
    /// So many bytes, there.
    #[must_use]
    pub const fn new(bytes: u64, kind: MemoryKind) -> Self {
        Self { bytes, kind }
    }
}

/// Memory as the backend gave it.
///
/// ```
/// use polywarp_core::{backend::{AllocationDescriptor, Backend, MemoryKind}, host::Host};
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// let memory = host.allocate(&device, &AllocationDescriptor::new(100, MemoryKind::Device))?;
/// assert!(memory.host.is_null());                             // the host cannot reach it
/// assert!(memory.address.0.is_multiple_of(host.device_info(&device)?.limits.allocation_alignment));
/// // SAFETY: nothing uses it, and it is given back once.
/// unsafe { host.free(&device, memory) }?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawAllocation {
    /// Where a device finds it.
    pub address: DeviceAddress,
    /// Where the host finds it; null for [`MemoryKind::Device`].
    pub host: *mut u8,
    /// Bytes.
    pub bytes: u64,
    /// What kind it is.
    pub kind: MemoryKind,
}

// SAFETY: an address and a size; who may use the bytes behind them is decided elsewhere (`order`).
unsafe impl Send for RawAllocation {}
// SAFETY: as above; there is no method that dereferences the pointer.
unsafe impl Sync for RawAllocation {}

/// Free and total memory of a device in bytes.
///
/// ```
/// # use polywarp_core::{Runtime, host::{Host, HostConfig}};
/// let device = Runtime::new(Host::new(&HostConfig::new(1).with_memory(1 << 20)))?.device(0)?;
/// let memory = device.memory_info()?;
/// assert_eq!((memory.free, memory.total), (1 << 20, 1 << 20));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that can still be allocated.
    pub free: u64,
    /// Bytes that the device has.
    pub total: u64,
}

/// What is asked of [`stream_create`](super::Backend::stream_create).
///
/// ```
/// use polywarp_core::{backend::{Backend, StreamDescriptor}, host::Host};
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// let stream = host.stream_create(&device, &StreamDescriptor::new(0))?;
/// assert!(host.stream_create(&device, &StreamDescriptor::legacy()).is_err());     // the host backend has none
/// // SAFETY: nothing was submitted to it, and it is given back once.
/// unsafe { host.stream_destroy(stream) }?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct StreamDescriptor {
    /// Within [`Limits::stream_priorities`](super::Limits::stream_priorities); clamped there already.
    pub priority: i32,
    /// The legacy default stream instead of a new one.
    pub legacy: bool,
}

impl StreamDescriptor {
    /// A stream of this priority.
    #[must_use]
    pub const fn new(priority: i32) -> Self {
        Self { priority, legacy: false }
    }

    /// The legacy default stream.
    #[must_use]
    pub const fn legacy() -> Self {
        Self { priority: 0, legacy: true }
    }
}

/// What is asked of [`event_create`](super::Backend::event_create).
///
/// ```
/// use polywarp_core::{backend::{Backend, EventDescriptor}, host::Host};
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// let event = host.event_create(&device, &EventDescriptor::ordering())?;
/// assert!(host.event_query(&event)?);                         // never recorded: complete
/// assert!(EventDescriptor::timing().timing);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct EventDescriptor {
    /// Whether it must be able to measure time.
    pub timing: bool,
}

impl EventDescriptor {
    /// An event for ordering only.
    #[must_use]
    pub const fn ordering() -> Self {
        Self { timing: false }
    }

    /// An event that measures time.
    #[must_use]
    pub const fn timing() -> Self {
        Self { timing: true }
    }
}

/// One end of a copy.
///
/// ```
/// use polywarp_core::backend::{CopyDescriptor, DeviceAddress, Endpoint, Origin};
/// let mut pinned = [0u8; 16];                                 // page-locked memory, really
/// let origin = Origin { accesses: &[], caller: std::panic::Location::caller() };
/// let destination = Endpoint::Device { address: DeviceAddress(0x1000), ordinal: 0 };
/// let upload = CopyDescriptor::linear(Endpoint::Host(pinned.as_mut_ptr()), destination, 16, origin);
/// assert_eq!(upload.destination, destination);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// Memory of this device (or unified memory).
    Device {
        /// First byte.
        address: DeviceAddress,
        /// Ordinal of the device that owns it.
        ordinal: u32,
    },
    /// Page-locked host memory.
    Host(*mut u8),
}

// SAFETY: an address; who may use the bytes behind it is decided elsewhere (`order`).
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

/// What is asked of a copy: `rows × slices` runs of `bytes`, each run a pitch after the one before.
///
/// ```
/// use polywarp_core::backend::{CopyDescriptor, DeviceAddress, Endpoint, Origin};
/// let origin = Origin { accesses: &[], caller: std::panic::Location::caller() };
/// let [source, destination] = [0x1000, 0x2000].map(|at| Endpoint::Device { address: DeviceAddress(at), ordinal: 0 });
/// let mut copy = CopyDescriptor::linear(source, destination, 64, origin);
/// (copy.rows, copy.source_pitch[0]) = (3, 256);               // 64 of every 256 bytes, packed: a rectangle
/// assert_eq!((copy.slices, copy.destination_pitch[0]), (1, 64));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CopyDescriptor<'a> {
    /// Where the bytes come from.
    pub source: Endpoint,
    /// Where they go to.
    pub destination: Endpoint,
    /// Bytes of one run; never 0.
    pub bytes: u64,
    /// Runs of a slice; 1 for a plain copy, never 0.
    pub rows: u64,
    /// Slices; 1 for a plain copy or a rectangle, never 0.
    pub slices: u64,
    /// From run to run and slice to slice at the source, in bytes.
    pub source_pitch: [u64; 2],
    /// From run to run and slice to slice at the destination, in bytes.
    pub destination_pitch: [u64; 2],
    /// Who asked.
    pub origin: Origin<'a>,
}

impl<'a> CopyDescriptor<'a> {
    /// A plain copy of `bytes`.
    #[must_use]
    pub const fn linear(source: Endpoint, destination: Endpoint, bytes: u64, origin: Origin<'a>) -> Self {
        Self { source, destination, bytes, rows: 1, slices: 1, source_pitch: [bytes; 2], destination_pitch: [bytes; 2], origin }
    }
}

/// The value that a fill repeats.
///
/// ```
/// use polywarp_core::backend::Pattern;
/// assert_eq!(Pattern::U32(0x0102_0304).bytes(), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pattern {
    /// One byte.
    U8(u8),
    /// Two bytes, in the host's order.
    U16(u16),
    /// Four bytes, in the host's order.
    U32(u32),
}

impl Pattern {
    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
        }
    }
}

/// What is asked of a fill.
///
/// ```
/// use polywarp_core::backend::{DeviceAddress, FillDescriptor, Origin, Pattern};
/// let origin = Origin { accesses: &[], caller: std::panic::Location::caller() };
/// let fill = FillDescriptor::new(DeviceAddress(0x1000), Pattern::U16(7), 100, origin);
/// assert_eq!(fill.count * fill.pattern.bytes(), 200);         // the count is in patterns, not in bytes
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FillDescriptor<'a> {
    /// First byte; a multiple of the pattern's size.
    pub destination: DeviceAddress,
    /// What to repeat.
    pub pattern: Pattern,
    /// How often; never 0.
    pub count: u64,
    /// Who asked.
    pub origin: Origin<'a>,
}

impl<'a> FillDescriptor<'a> {
    /// `count` times the pattern.
    #[must_use]
    pub const fn new(destination: DeviceAddress, pattern: Pattern, count: u64, origin: Origin<'a>) -> Self {
        Self { destination, pattern, count, origin }
    }
}

/// Where a parameter lies in the parameter block.
///
/// ```
/// use polywarp_core::backend::ParameterLayout;
/// assert_eq!(ParameterLayout { offset: 8, bytes: 16 }.to_string(), "16 bytes at 8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParameterLayout {
    /// Offset in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
}

impl fmt::Display for ParameterLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.bytes, self.offset)
    }
}

/// The geometry of a launch.
///
/// ```
/// use polywarp_core::backend::Geometry;
/// let mut geometry = Geometry::new([4, 1, 1], [256, 1, 1]);
/// geometry.shared_bytes = 1024;
/// assert_eq!((geometry.cluster, geometry.cooperative), ([1; 3], false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Geometry {
    /// Blocks per axis; none is 0.
    pub grid: [u32; 3],
    /// Threads of a block per axis; none is 0.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Whether all blocks may synchronise.
    pub cooperative: bool,
    /// Blocks of a cluster per axis; all 1 for none.
    pub cluster: [u32; 3],
}

impl Geometry {
    /// A plain launch.
    #[must_use]
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, shared_bytes: 0, cooperative: false, cluster: [1; 3] }
    }
}

/// What is asked of a launch.
///
/// ```
/// use polywarp_core::backend::{Geometry, LaunchDescriptor, Origin, ParameterLayout};
/// let origin = Origin { accesses: &[], caller: std::panic::Location::caller() };
/// let (mut factor, layout) = (2.0f32, [ParameterLayout { offset: 0, bytes: 4 }]);
/// let pointers = [(&raw mut factor).cast()];
/// let launch = LaunchDescriptor::new(Geometry::new([1; 3], [32, 1, 1]), &pointers, &layout, origin);
/// assert_eq!(launch.parameters.len(), launch.layout.len());
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LaunchDescriptor<'a> {
    /// How many threads, and in which shape.
    pub geometry: Geometry,
    /// One pointer per parameter.
    pub parameters: &'a [*mut c_void],
    /// Where each parameter lies; as long as `parameters`.
    pub layout: &'a [ParameterLayout],
    /// Who asked.
    pub origin: Origin<'a>,
}

impl<'a> LaunchDescriptor<'a> {
    /// A launch of this shape with these parameters.
    #[must_use]
    pub const fn new(geometry: Geometry, parameters: &'a [*mut c_void], layout: &'a [ParameterLayout], origin: Origin<'a>) -> Self {
        Self { geometry, parameters, layout, origin }
    }
}

/// What is asked of a prefetch.
///
/// ```
/// use polywarp_core::backend::{DeviceAddress, Origin, PrefetchDescriptor};
/// let origin = Origin { accesses: &[], caller: std::panic::Location::caller() };
/// let home = PrefetchDescriptor::new(DeviceAddress(0x1000), 4096, None, origin);  // to the host
/// assert_eq!(home.to, None);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PrefetchDescriptor<'a> {
    /// First byte.
    pub address: DeviceAddress,
    /// Bytes from there on.
    pub bytes: u64,
    /// The device to move them to; `None` for the host.
    pub to: Option<u32>,
    /// Who asked.
    pub origin: Origin<'a>,
}

impl<'a> PrefetchDescriptor<'a> {
    /// These bytes, to there.
    #[must_use]
    pub const fn new(address: DeviceAddress, bytes: u64, to: Option<u32>, origin: Origin<'a>) -> Self {
        Self { address, bytes, to, origin }
    }
}

/// A form that compiled kernels come in.
///
/// ```
/// use polywarp_core::backend::{Form, Image};
/// assert_eq!(Image::Ptx(b".version 8.0\0").form(), Form::Ptx);
/// assert_eq!(Image::Host(&[]).form(), Form::Host);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Image<'a> {
    /// Rust functions for backends that run on the host.
    Host(&'a [HostEntry]),
    /// NVIDIA's virtual assembly, as text.
    Ptx(&'a [u8]),
    /// NVIDIA machine code for one architecture.
    Cubin(&'a [u8]),
    /// NVIDIA machine code or PTX for several architectures.
    Fatbin(&'a [u8]),
    /// AMD machine code: a bare ELF or an offload bundle.
    CodeObject(&'a [u8]),
}

impl Image<'_> {
    /// Which form it is.
    #[must_use]
    pub const fn form(&self) -> Form {
        match self {
            Self::Host(_) => Form::Host,
            Self::Ptx(_) => Form::Ptx,
            Self::Cubin(_) => Form::Cubin,
            Self::Fatbin(_) => Form::Fatbin,
            Self::CodeObject(_) => Form::CodeObject,
        }
    }
}

/// The forms a kernel can have.
///
/// ```
/// use polywarp_core::{backend::{Backend, Form}, host::Host};
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// assert_eq!(host.forms(&device), [Form::Host]);              // best first
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// Rust functions over a thread context.
    Host,
    /// C++ source, compiled at run time.
    Source,
    /// NVIDIA's virtual assembly.
    Ptx,
    /// NVIDIA machine code for one architecture.
    Cubin,
    /// NVIDIA machine code for several architectures.
    Fatbin,
    /// AMD machine code.
    CodeObject,
}

/// What is asked of [`compile`](super::Backend::compile).
///
/// ```
/// use polywarp_core::{backend::{Backend, SourceDescriptor}, host::Host};
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// let mut source = SourceDescriptor::new("scale", "#include \"scale.h\"");
/// source.headers = &[("scale.h", "template<class T> __global__ void scale(T* x) { *x *= 2; }")];
/// source.instances = &["scale<float>"];
/// assert!(host.compile(&device, &source).is_err());           // the host backend has no C++ compiler
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SourceDescriptor<'a> {
    /// What messages call the source.
    pub name: &'a str,
    /// C++ source.
    pub source: &'a str,
    /// Headers that it may include: name and content.
    pub headers: &'a [(&'a str, &'a str)],
    /// Options for the compiler, in its own words.
    pub options: &'a [&'a str],
    /// C++ names of template instances to make; their lowered names come back in this order.
    pub instances: &'a [&'a str],
}

impl<'a> SourceDescriptor<'a> {
    /// This source, with no header, option or instance.
    #[must_use]
    pub const fn new(name: &'a str, source: &'a str) -> Self {
        Self { name, source, headers: &[], options: &[], instances: &[] }
    }
}

/// What a compiler made.
///
/// ```
/// use polywarp_core::backend::{CompiledImage, Form};
/// let mut image = CompiledImage::new(Form::Ptx, b".version 8.0\0".to_vec());
/// image.log = "warning: variable `n` was never used".into();
/// assert!(image.lowered_names.is_empty());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompiledImage {
    /// Its form: [`Form::Ptx`], [`Form::Cubin`] or [`Form::CodeObject`].
    pub form: Form,
    /// The image.
    pub bytes: Vec<u8>,
    /// The lowered names of the instances, in the order asked.
    pub lowered_names: Vec<String>,
    /// Warnings.
    pub log: String,
}

impl CompiledImage {
    /// An image without instances or warnings.
    #[must_use]
    pub const fn new(form: Form, bytes: Vec<u8>) -> Self {
        Self { form, bytes, lowered_names: Vec::new(), log: String::new() }
    }
}

/// What a function tells about itself.
///
/// ```
/// use polywarp_core::doctest::*;
/// let (_device, axpy) = axpy()?;
/// let info = axpy.info();
/// assert_eq!(info.parameters.as_ref().map(|parameters| parameters.len()), Some(3));
/// println!("{} registers, {} local bytes", info.registers, info.local_bytes);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// The largest block that it can be launched with.
    pub max_block_threads: u32,
    /// Shared memory in bytes that every block of it has besides the dynamic.
    pub static_shared_bytes: u32,
    /// The most dynamic shared memory that a launch may ask for, in bytes.
    pub max_dynamic_shared_bytes: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Its parameters, where the driver or the image can tell ([`Feature::ParameterInfo`](super::Feature::ParameterInfo)).
    pub parameters: Option<Vec<ParameterLayout>>,
}

/// Whether a stream is being captured.
///
/// ```
/// use polywarp_core::{backend::{Backend, CaptureState, StreamDescriptor}, host::Host};
/// let host = Host::default();
/// let device = host.device_open(0)?;
/// let stream = host.stream_create(&device, &StreamDescriptor::default())?;
/// assert_eq!(host.stream_capture_state(&stream)?, CaptureState::None);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureState {
    /// It is not.
    None,
    /// What is submitted goes into a graph.
    Active,
    /// The capture was broken and must be ended.
    Invalidated,
}

/// What a host function does; see [`stream_host_function`](super::Backend::stream_host_function).
///
/// ```
/// use polywarp_core::backend::HostFunction;
/// let (tell, told) = std::sync::mpsc::channel();
/// let function = HostFunction::new(move || tell.send(1).unwrap_or(()));
/// function.call();                                            // what the stream does when it gets there; at most once
/// assert_eq!(told.try_iter().count(), 1);
/// ```
pub struct HostFunction(Box<dyn FnOnce() + Send>);

impl HostFunction {
    /// Wraps a closure. It must not panic.
    #[must_use]
    pub fn new(function: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(function))
    }

    /// Does it.
    pub fn call(self) {
        (self.0)();
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostFunction")
    }
}
