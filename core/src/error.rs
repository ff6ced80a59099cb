//! One error type: what went wrong, in which operation, where, and the driver's own words.
//!
//! ```
//! use polywarp_core::{Error, ErrorKind};
//! let error = Error::new(ErrorKind::Overflow { what: "element count × size".into() }, "alloc").on("host", Some(0));
//! assert_eq!(error.to_string(), "alloc on host device 0: element count × size does not fit into 64 bits");
//! assert!(matches!(error.kind(), ErrorKind::Overflow { .. }));
//! ```

use crate::backend::Feature;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The result of every fallible call.
///
/// ```
/// use polywarp_core::{ErrorKind, Result};
/// fn halve(x: u64) -> Result<u64, ErrorKind> {                // another error where that suits
///     if x % 2 == 0 { Ok(x / 2) } else { Err(ErrorKind::InvalidArgument { what: "odd".into() }) }
/// }
/// assert!(halve(3).is_err());
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Text that is usually a constant.
///
/// ```
/// use polywarp_core::{ErrorKind, Text};
/// let constant: Text = "no device".into();
/// let made: Text = format!("{} devices", 0).into();
/// assert!(ErrorKind::InvalidConfig { what: constant } != ErrorKind::InvalidConfig { what: made });
/// ```
pub type Text = Cow<'static, str>;

/// What went wrong, with the figures that name the limit and the way out.
///
/// Generic code matches on this; the message of each kind says what to do.
///
/// ```
/// use polywarp_core::{Buffer, Device, ErrorKind, Result, backend::Backend};
/// /// As large as fits.
/// fn scratch<B: Backend>(device: &Device<B>, mut len: usize) -> Result<Buffer<B, f32>> {
///     loop {
///         match device.alloc(len) {
///             Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) && len > 1 => len /= 2,
///             outcome => return outcome,
///         }
///     }
/// }
/// # use polywarp_core::{Runtime, host::{Host, HostConfig}};
/// let device = Runtime::new(Host::new(&HostConfig::new(1).with_memory(1 << 20)))?.device(0)?;
/// assert_eq!(scratch(&device, 1 << 20)?.bytes(), 1 << 20);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The backend cannot be used on this machine: no library, no symbol, no device, driver too old.
    #[error("{reason}{}", list(tried))]
    BackendUnavailable {
        /// Why, in one sentence.
        reason: Text,
        /// Each thing that was tried, with the answer it gave.
        tried: Vec<String>,
    },
    /// The device or backend does not have this capability.
    #[error("this device does not support {feature}")]
    Unsupported {
        /// The capability that is missing.
        feature: Feature,
    },
    /// No such device.
    #[error("there is no device {ordinal}: this backend has {count} (0 … count − 1)")]
    NoSuchDevice {
        /// What was asked for.
        ordinal: u32,
        /// How many devices there are.
        count: u32,
    },
    /// The device's memory does not suffice.
    #[error(
        "out of memory: {requested} bytes requested, {free} of {total} free, {held} held for reuse (`trim` returns them); drop buffers or use smaller ones"
    )]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes that the device says are free.
        free: u64,
        /// Bytes of the device.
        total: u64,
        /// Bytes kept by polywarp for reuse.
        held: u64,
    },
    /// The host's memory does not suffice for a result.
    #[error("the host has no {requested} bytes for the result; read it in parts, or where it arrives (`start_download`)")]
    HostOutOfMemory {
        /// Bytes asked for.
        requested: u64,
    },
    /// An offset or range lies outside of its buffer.
    #[error("range {start}..{end} lies outside of 0..{len} ({what})")]
    OutOfBounds {
        /// What was indexed.
        what: Text,
        /// First element asked for.
        start: u64,
        /// One past the last element asked for.
        end: u64,
        /// Elements there are.
        len: u64,
    },
    /// A product or sum of sizes does not fit.
    #[error("{what} does not fit into 64 bits")]
    Overflow {
        /// Which computation.
        what: Text,
    },
    /// Two lengths that must be equal are not.
    #[error("{what}: expected {expected}, got {got}")]
    LengthMismatch {
        /// What was compared.
        what: Text,
        /// The length that is needed.
        expected: u64,
        /// The length that was given.
        got: u64,
    },
    /// A view cannot be cast: its address or length does not fit the new element type.
    #[error("a view at byte {offset} of {bytes} bytes cannot be seen as elements of {size} bytes aligned to {align}")]
    Misaligned {
        /// Byte offset of the view in its allocation.
        offset: u64,
        /// Bytes of the view.
        bytes: u64,
        /// Size of the new element.
        size: u64,
        /// Alignment of the new element.
        align: u64,
    },
    /// Source and destination of a copy overlap.
    #[error("source and destination overlap; copy through a third buffer")]
    Overlap,
    /// A launch asks for more than the device or the kernel allows.
    #[error("{axis} is {asked}, but the limit is {limit}")]
    LimitExceeded {
        /// Which axis or quantity.
        axis: Text,
        /// What was asked for.
        asked: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A launch configuration that no device could run.
    #[error("{what}")]
    InvalidConfig {
        /// What is wrong with it.
        what: Text,
    },
    /// The binding's predicate refused this launch.
    #[error("kernel `{kernel}` refuses these arguments: its `requires` does not hold")]
    RequirementFailed {
        /// The kernel's name.
        kernel: Text,
    },
    /// A range is written and otherwise used by the same launch.
    #[error("arguments {first} and {second} overlap and one of them is written; pass disjoint views, or bind the kernel with `may_alias`")]
    Aliased {
        /// Index of one argument.
        first: u8,
        /// Index of the other.
        second: u8,
    },
    /// The host holds an open guard of this memory.
    #[error("the host holds a guard of this memory (bytes {start}..{end}); drop the guard first")]
    HostBorrowed {
        /// First byte of the guarded range.
        start: u64,
        /// One past its last byte.
        end: u64,
    },
    /// The memory is lent to foreign code.
    #[error("this memory (bytes {start}..{end}) is lent to foreign code on another stream; let the lend end first")]
    Lent {
        /// First byte of the lent range.
        start: u64,
        /// One past its last byte.
        end: u64,
    },
    /// An object of another device was used where only this device's own can be.
    #[error("{what} belongs to device {got}, but is used on device {expected}")]
    WrongDevice {
        /// Which object.
        what: Text,
        /// The device it was used on.
        expected: u32,
        /// The device it belongs to.
        got: u32,
    },
    /// An object of another opened backend.
    #[error("{what} belongs to another opened backend; open all devices from one `Runtime`")]
    WrongRuntime {
        /// Which object.
        what: Text,
    },
    /// One device cannot reach the other's memory.
    #[error(
        "device {from} cannot access memory of device {to}; copy the data (`copy_from` works between devices), or use pinned or unified memory"
    )]
    NoPeerAccess {
        /// The device that would access.
        from: u32,
        /// The device that owns the memory.
        to: u32,
    },
    /// The kernel has other parameters than the caller says.
    #[error("kernel `{kernel}` takes {expected}, but {got} was given")]
    SignatureMismatch {
        /// The kernel's name.
        kernel: Text,
        /// What the kernel takes.
        expected: String,
        /// What was given.
        got: String,
    },
    /// The module has no such function.
    #[error("there is no kernel `{name}` in this module; it has {}", names(present))]
    NoSuchFunction {
        /// What was looked for.
        name: String,
        /// What the module has, where that is known.
        present: Vec<String>,
    },
    /// The program has no form that this backend runs.
    #[error("this program has no form for backend {backend}, which takes {}; the program has {}", names(takes), names(present))]
    NoSuchForm {
        /// The backend.
        backend: Text,
        /// Forms that it takes.
        takes: Vec<String>,
        /// Forms that the program has.
        present: Vec<String>,
    },
    /// The source did not compile.
    #[error("the kernel source does not compile:\n{log}")]
    Compilation {
        /// The compiler's log.
        log: String,
    },
    /// A kernel fault (or the like) made the device unusable for this process.
    #[error("the device is lost for this process: {cause}; suspects: {}", names(suspects))]
    DevicePoisoned {
        /// What the driver said.
        cause: Text,
        /// Kernels launched and not known to be complete when the fault was met.
        suspects: Vec<String>,
    },
    /// A host function panicked; its stream takes no further work.
    #[error("a host function on this stream panicked: {message}; create another stream")]
    StreamPoisoned {
        /// The panic's message.
        message: Text,
    },
    /// The call cannot be made from inside a host function.
    #[error("submissions and waits are not possible inside a host function; drops are")]
    InCallback,
    /// The stream is being captured by foreign code.
    #[error("this stream is being captured; end the capture first")]
    Capturing,
    /// Work is not complete yet.
    #[error("not complete yet")]
    NotReady,
    /// An argument of the call itself is wrong.
    #[error("{what}")]
    InvalidArgument {
        /// What is wrong, and what would be right.
        what: Text,
    },
    /// The driver refused the call for a reason that has no kind of its own.
    #[error("the driver refused: {what}")]
    Driver {
        /// The driver's description.
        what: Text,
    },
}

fn list(tried: &[String]) -> String {
    tried.iter().fold(String::new(), |text, one| text + "\n  tried " + one)
}

fn names(names: &[String]) -> String {
    match names {
        [] => "none known".into(),
        _ => names.join(", "),
    }
}

/// A status of the driver, kept so that a human can search for it.
///
/// ```
/// # use polywarp_core::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::Driver { what: "out of resources".into() }, "launch").with_code(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
/// let code = error.code().map(|code| format!("{} = {}", code.name, code.value));
/// assert_eq!(code.as_deref(), Some("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeCode {
    /// The integer that the driver returned.
    pub value: i64,
    /// Its name in the driver's documentation.
    pub name: Text,
}

/// Any failure of polywarp: a [kind](ErrorKind), the operation, and where it happened. One pointer wide.
///
/// `Display` is one line (the driver's log, if any, follows on lines of its own); `Debug` lists all that is known:
///
/// ```
/// use polywarp_core::{Error, ErrorKind, NativeCode};
/// let error = Error::new(ErrorKind::Driver { what: "an illegal address".into() }, "launch")
///     .on("cuda", Some(1))
///     .with_code(700, "CUDA_ERROR_ILLEGAL_ADDRESS");
/// assert_eq!(error.to_string(), "launch on cuda device 1: the driver refused: an illegal address (CUDA_ERROR_ILLEGAL_ADDRESS, 700)");
/// assert!(format!("{error:?}").contains("operation: \"launch\""));
/// assert_eq!((error.operation(), error.backend(), error.device()), ("launch", "cuda", Some(1)));
/// assert_eq!(error.code(), Some(&NativeCode { value: 700, name: "CUDA_ERROR_ILLEGAL_ADDRESS".into() }));
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    backend: &'static str,
    device: Option<u32>,
    code: Option<NativeCode>,
    context: Vec<(&'static str, String)>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind, met in this operation.
    #[must_use]
    #[cold]
    pub fn new(kind: ErrorKind, operation: &'static str) -> Self {
        Self(Box::new(Inner { kind, operation, backend: "", device: None, code: None, context: Vec::new(), source: None }))
    }

    /// [`ErrorKind::Unsupported`], the answer of a backend that lacks `feature`.
    ///
    /// ```
    /// use polywarp_core::{Error, backend::Feature};
    /// let error = Error::unsupported(Feature::Graphs, "graph_create");
    /// assert_eq!(error.to_string(), "graph_create: this device does not support Graphs");
    /// ```
    #[must_use]
    pub fn unsupported(feature: Feature, operation: &'static str) -> Self {
        Self::new(ErrorKind::Unsupported { feature }, operation)
    }

    /// The same, naming backend and device. What is known already stays.
    ///
    /// ```
    /// # use polywarp_core::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::NotReady, "event_elapsed").on("cuda", Some(1)).on("host", Some(0));
    /// assert_eq!((error.backend(), error.device()), ("cuda", Some(1)));   // who knew first stays
    /// ```
    #[must_use]
    pub fn on(mut self, backend: &'static str, device: Option<u32>) -> Self {
        if self.0.backend.is_empty() {
            self.0.backend = backend;
        }
        self.0.device = self.0.device.or(device);
        self
    }

    /// The same, with the driver's status.
    #[must_use]
    pub fn with_code(mut self, value: i64, name: impl Into<Text>) -> Self {
        self.0.code = Some(NativeCode { value, name: name.into() });
        self
    }

    /// The same, with one more thing that helps to understand it.
    ///
    /// ```
    /// # use polywarp_core::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::NotReady, "launch").with("kernel", "axpy").with("stream", 3);
    /// assert_eq!(error.to_string(), "launch: not complete yet; kernel: axpy; stream: 3");
    /// ```
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// The same, with the error that caused it.
    ///
    /// ```
    /// use std::error::Error as _;
    /// # use polywarp_core::{Error, ErrorKind};
    /// let missing = std::fs::read("/no/such/kernel.ptx").unwrap_err();
    /// let error = Error::new(ErrorKind::InvalidArgument { what: "no PTX".into() }, "load").because(missing);
    /// assert!(error.source().is_some_and(|source| source.is::<std::io::Error>()));
    /// ```
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The same with another kind; everything else stays.
    ///
    /// ```
    /// # use polywarp_core::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Driver { what: "not ready".into() }, "event_query").on("hip", Some(0)).into_kind(ErrorKind::NotReady);
    /// assert_eq!(error.to_string(), "event_query on hip device 0: not complete yet");
    /// ```
    #[must_use]
    pub fn into_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The operation that failed, such as `launch`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The backend's name; empty where none was involved.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.0.backend
    }

    /// The device's ordinal, where one was involved.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        self.0.device
    }

    /// The driver's status, where a driver was asked.
    #[must_use]
    pub fn code(&self) -> Option<&NativeCode> {
        self.0.code.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, operation, backend, device, code, context, .. } = &*self.0;
        write!(f, "{operation}")?;
        match (backend.is_empty(), device) {
            (false, Some(device)) => write!(f, " on {backend} device {device}")?,
            (false, None) => write!(f, " on {backend}")?,
            (true, Some(device)) => write!(f, " on device {device}")?,
            (true, None) => {}
        }
        // What follows the kind's first line (what was tried, a compiler's log) comes last.
        let kind = kind.to_string();
        let (first, more) = kind.find('\n').map_or((kind.as_str(), ""), |end| kind.split_at(end));
        write!(f, ": {first}")?;
        if let Some(NativeCode { value, name }) = code {
            write!(f, " ({name}, {value})")?;
        }
        for (key, value) in context {
            write!(f, "; {key}: {value}")?;
        }
        f.write_str(more)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, operation, backend, device, code, context, source } = &*self.0;
        f.debug_struct("Error")
            .field("message", &self.to_string())
            .field("kind", kind)
            .field("operation", operation)
            .field("backend", backend)
            .field("device", device)
            .field("code", code)
            .field("context", context)
            .field("source", source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

const _: () = assert!(size_of::<Error>() == size_of::<usize>());
