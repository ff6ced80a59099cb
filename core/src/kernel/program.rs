//! A kernel source in all the forms it has.

#![allow(unsafe_code, reason = "machine code is trusted by drivers")]

use super::host::{HostFn, entry};
use crate::Parameters;
use crate::backend::{Form, HostEntry};
use std::borrow::Cow;

type Bytes = Cow<'static, [u8]>;

/// Kernels in every form that they have: Rust functions for the host backend, C++ source for run-time compilers, precompiled images.
///
/// [`Module::load`](super::Module::load) takes the best form that the device runs; if there is none, the error says which there are.
///
/// ```
/// use polywarp_core::{HostSpanMut, Module, Program, Runtime, SpanMut, Thread, host::Host};
///
/// fn double(thread: &Thread<'_>, x: HostSpanMut<'_, f32>) {
///     if let Some(i) = thread.within(x.len()) {
///         x.store(i, 2.0 * x.load(i));
///     }
/// }
///
/// let program = Program::new("double").host::<(SpanMut<f32>,), _>("double", double);
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let module = Module::load(&device, &program)?;
/// // SAFETY: `double` checks bounds, and each thread uses an element of its own.
/// let kernel = unsafe { module.bind::<(SpanMut<f32>,)>("double") }?;
/// let stream = device.stream()?;
/// let mut x = stream.upload(&[1.0f32, 2.0, 3.0])?;
/// kernel.launch(&stream, x.len(), (x.span_mut(),))?;
/// assert_eq!(x.download(&stream)?, [2.0, 4.0, 6.0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Program {
    pub(crate) name: Cow<'static, str>,
    pub(crate) host: Vec<HostEntry>,
    pub(crate) source: Option<Cow<'static, str>>,
    pub(crate) headers: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    pub(crate) options: Vec<Cow<'static, str>>,
    pub(crate) images: Vec<(Form, Bytes)>,
}

impl Program {
    /// A program without any form yet; messages call it `name`.
    ///
    /// ```
    /// use polywarp_core::Program;
    /// let empty = Program::new("filters");
    /// assert!(empty.forms().is_empty());                          // loading it tells which forms the device takes
    /// ```
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), host: Vec::new(), source: None, headers: Vec::new(), options: Vec::new(), images: Vec::new() }
    }

    /// Adds the host form of one kernel: a function over a [`Thread`](super::Thread) and one parameter per element of `S`.
    ///
    /// ```
    /// use polywarp_core::{HostSpan, HostSpanMut, Program, Span, SpanMut, Thread, backend::Form};
    /// fn copy(thread: &Thread<'_>, x: HostSpan<'_, u32>, y: HostSpanMut<'_, u32>) {
    ///     if let Some(i) = thread.within(y.len()) {
    ///         y.store(i, x.load(i));
    ///     }
    /// }
    /// let program = Program::new("copies")
    ///     .host::<(Span<u32>, SpanMut<u32>), _>("copy", copy)
    ///     .host::<(SpanMut<u32>,), _>("clear", |thread: &Thread<'_>, y: HostSpanMut<'_, u32>| {
    ///         thread.within(y.len()).map_or((), |i| y.store(i, 0))
    ///     });
    /// assert_eq!(program.forms(), [Form::Host]);
    /// ```
    pub fn host<S: Parameters, F: HostFn<S>>(mut self, name: &str, function: F) -> Self {
        self.host.push(entry::<S, F>(name, function));
        self
    }

    /// Gives the host kernel added last static shared memory, in bytes per block.
    ///
    /// ```
    /// # use polywarp_core::{Module, Program, Thread};
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let program = Program::new("tiles").host::<(), _>("tile", |_: &Thread<'_>| ()).host_shared_bytes(1024);   // `__shared__` in C++
    /// let tile = Module::load(stream.device(), &program)?.function("tile")?;
    /// assert_eq!(tile.info().static_shared_bytes, 1024);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn host_shared_bytes(mut self, bytes: u32) -> Self {
        if let Some(last) = self.host.last_mut() {
            last.static_shared_bytes = bytes;
        }
        self
    }

    /// The same kernels as C++ source, for run-time compilers.
    ///
    /// ```
    /// use polywarp_core::{Program, backend::Form};
    /// let program = Program::new("double").source(r#"
    ///     extern "C" __global__ void double_all(Span<float> x) { /* … */ }
    /// "#);
    /// assert_eq!(program.forms(), [Form::Source]);
    /// ```
    pub fn source(mut self, source: impl Into<Cow<'static, str>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// A header that the source may include.
    ///
    /// ```
    /// use polywarp_core::Program;
    /// let program = Program::new("double")
    ///     .header("span.h", "template<class T> struct Span { T* data; unsigned long long len; };")   // found without a file
    ///     .source("#include \"span.h\"\nextern \"C\" __global__ void double_all(Span<float> x) { /* … */ }");
    /// ```
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, content: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name.into(), content.into()));
        self
    }

    /// An option for the compiler, in its own words.
    ///
    /// ```
    /// use polywarp_core::Program;
    /// let program = Program::new("double").source("/* … */").option("-DBLOCK=256").option("-std=c++17");
    /// ```
    pub fn option(mut self, option: impl Into<Cow<'static, str>>) -> Self {
        self.options.push(option.into());
        self
    }

    /// The same kernels as PTX.
    ///
    /// # Safety
    /// The text is PTX: drivers need not survive anything else.
    ///
    /// ```
    /// use polywarp_core::{Program, backend::Form};
    /// let text = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n\0";   // `include_bytes!`, usually
    /// // SAFETY: it is PTX.
    /// let program = unsafe { Program::new("nothing").ptx(text.as_bytes()) };
    /// assert_eq!(program.forms(), [Form::Ptx]);
    /// ```
    pub unsafe fn ptx(self, ptx: impl Into<Bytes>) -> Self {
        self.image(Form::Ptx, ptx.into())
    }

    /// The same kernels as NVIDIA machine code for one architecture.
    ///
    /// # Safety
    /// The bytes are a cubin: drivers need not survive anything else.
    ///
    /// ```
    /// use polywarp_core::{Program, backend::Form};
    /// let bytes = std::fs::read("kernels.cubin").unwrap_or_default();
    /// if !bytes.is_empty() {
    ///     // SAFETY: the build wrote a cubin there.
    ///     let program = unsafe { Program::new("kernels").cubin(bytes) };
    ///     assert_eq!(program.forms(), [Form::Cubin]);
    /// }
    /// ```
    pub unsafe fn cubin(self, cubin: impl Into<Bytes>) -> Self {
        self.image(Form::Cubin, cubin.into())
    }

    /// The same kernels as an NVIDIA fatbin.
    ///
    /// # Safety
    /// The bytes are a fatbin: drivers need not survive anything else.
    ///
    /// ```
    /// use polywarp_core::{Program, backend::Form};
    /// let bytes = std::fs::read("kernels.fatbin").unwrap_or_default();
    /// if !bytes.is_empty() {
    ///     // SAFETY: the build wrote a fatbin there.
    ///     let program = unsafe { Program::new("kernels").fatbin(bytes) };
    ///     assert_eq!(program.forms(), [Form::Fatbin]);
    /// }
    /// ```
    pub unsafe fn fatbin(self, fatbin: impl Into<Bytes>) -> Self {
        self.image(Form::Fatbin, fatbin.into())
    }

    /// The same kernels as an AMD code object, bare or bundled.
    ///
    /// # Safety
    /// The bytes are a code object: drivers need not survive anything else.
    ///
    /// ```
    /// use polywarp_core::{Program, backend::Form};
    /// let bytes = std::fs::read("kernels.hsaco").unwrap_or_default();
    /// if !bytes.is_empty() {
    ///     // SAFETY: the build wrote a code object there.
    ///     let program = unsafe { Program::new("kernels").code_object(bytes) };
    ///     assert_eq!(program.forms(), [Form::CodeObject]);
    /// }
    /// ```
    pub unsafe fn code_object(self, code_object: impl Into<Bytes>) -> Self {
        self.image(Form::CodeObject, code_object.into())
    }

    fn image(mut self, form: Form, bytes: Bytes) -> Self {
        self.images.push((form, bytes));
        self
    }

    /// The forms there are.
    ///
    /// ```
    /// use polywarp_core::{Program, Thread, backend::Form};
    /// let program = Program::new("nothing").source("extern \"C\" __global__ void nothing() {}").host::<(), _>("nothing", |_: &Thread<'_>| ());
    /// assert_eq!(program.forms(), [Form::Host, Form::Source]);
    /// ```
    #[must_use]
    pub fn forms(&self) -> Vec<Form> {
        let host = (!self.host.is_empty()).then_some(Form::Host);
        let source = self.source.is_some().then_some(Form::Source);
        host.into_iter().chain(source).chain(self.images.iter().map(|(form, _)| *form)).collect()
    }
}
