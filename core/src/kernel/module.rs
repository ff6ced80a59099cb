//! Loaded code.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use super::{Kernel, KernelState, Program};
use crate::backend::{Backend, CompiledImage, Form, Image, ParameterLayout, SourceDescriptor};
use crate::convert::{Parameters, Untyped};
use crate::device::Device;
use crate::order::{Node, Retired};
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;

/// Kernels loaded for one device. It is unloaded behind everything that was submitted when its last kernel was dropped.
///
/// For an example see [`Program`].
///
/// ```
/// # use polywarp_core::ErrorKind;
/// # use polywarp_core::doctest::*;
/// # let (device, module) = axpy_module()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let refused = module.function("saxpy").unwrap_err();
/// assert!(matches!(refused.kind(), ErrorKind::NoSuchFunction { .. }));
/// let axpy = module.function("axpy")?;
/// drop(module);                                               // the kernel keeps it loaded
/// // SAFETY: `axpy` takes two spans and a factor, checks bounds, and each thread uses an element of its own.
/// unsafe { axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0f32)) }?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Module<B: Backend>(Arc<ModuleState<B>>);

pub(super) struct ModuleState<B: Backend> {
    raw: Option<B::Module>,
    pub(super) device: Device<B>,
    name: String,
}

impl<B: Backend> Clone for Module<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Backend> fmt::Debug for Module<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("name", &self.0.name).field("device", &self.0.device).finish_non_exhaustive()
    }
}

impl<B: Backend> ModuleState<B> {
    pub(super) fn signature_mismatch(&self, kernel: &str, has: &[ParameterLayout], given: &[ParameterLayout]) -> Error {
        let kind = ErrorKind::SignatureMismatch { kernel: kernel.to_owned().into(), expected: describe(has), got: describe(given) };
        self.device.state.error(kind, "bind")
    }
}

impl<B: Backend> Drop for ModuleState<B> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.device.state.deferred.push(Node::new(Retired::Module(raw)));
        }
    }
}

impl<B: Backend> Module<B> {
    /// Loads the program's best form for the device.
    ///
    /// # Errors
    /// [`NoSuchForm`](ErrorKind::NoSuchForm) lists the forms there are and those that the device takes;
    /// [`Compilation`](ErrorKind::Compilation) with the compiler's log; those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, Module, Program};
    /// # let stream = polywarp_core::doctest::stream()?;
    /// let program = Program::new("scale").source("extern \"C\" __global__ void scale(float* x) { x[threadIdx.x] *= 2; }");
    /// let refused = Module::load(stream.device(), &program).unwrap_err();   // the host backend has no C++ compiler
    /// assert!(matches!(refused.kind(), ErrorKind::NoSuchForm { .. }));
    /// assert!(refused.to_string().contains("the program has Source"));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn load(device: &Device<B>, program: &Program) -> Result<Self> {
        device.state.usable()?;
        device.state.drain(device.order());
        let raw = Self::load_form(device, program).map_err(|error| device.settle(error))?;
        Ok(Self(Arc::new(ModuleState { raw: Some(raw), device: device.clone(), name: program.name.clone().into_owned() })))
    }

    fn load_form(device: &Device<B>, program: &Program) -> Result<B::Module> {
        let backend = &device.order().backend;
        let load = |image: Image<'_>| {
            // SAFETY: host entries are safe to make; the other images were vouched for (`Program::ptx` and the like) or compiled just now.
            unsafe { backend.module_load(&device.state.raw, &image) }
        };
        let takes = backend.forms(&device.state.raw);
        for form in takes {
            match form {
                Form::Host if !program.host.is_empty() => return load(Image::Host(&program.host)),
                Form::Source => {
                    if let Some(source) = &program.source {
                        let compiled = compile(device, program, source)?;
                        return load(image(compiled.form, &compiled.bytes).ok_or_else(|| no_form(device, program, takes))?);
                    }
                }
                _ => {
                    let found = program.images.iter().find(|(has, _)| has == form);
                    if let Some(image) = found.and_then(|(form, bytes)| image(*form, bytes)) {
                        return load(image);
                    }
                }
            }
        }
        Err(no_form(device, program, takes))
    }

    /// A kernel whose parameters the compiler does not know. Launching it is `unsafe`.
    ///
    /// # Errors
    /// [`NoSuchFunction`](ErrorKind::NoSuchFunction).
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, module) = axpy_module()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let refused = module.function("saxpy").unwrap_err();
    /// assert!(refused.to_string().contains("it has axpy"));
    /// let axpy = module.function("axpy")?;
    /// println!("{} takes {:?}", axpy.name(), axpy.info().parameters);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn function(&self, name: &str) -> Result<Kernel<B, false, Untyped>> {
        Ok(Kernel::new(self.look_up(name)?))
    }

    /// A kernel with the parameters `P`: binding is the promise, launching is safe.
    ///
    /// Where the driver or the image can tell, count, offsets and sizes of the parameters are compared.
    ///
    /// # Errors
    /// [`NoSuchFunction`](ErrorKind::NoSuchFunction); [`SignatureMismatch`](ErrorKind::SignatureMismatch) with both lists;
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) for more parameter bytes than the device takes.
    ///
    /// # Safety
    /// For every launch that the kernel's [`requires`](Kernel::requires) predicate accepts (all, without one):
    /// * The kernel has these parameters, and reads and writes only within the buffers it is given: through [`DevicePtr`](crate::DevicePtr) and
    ///   [`Span`](crate::Span) it only reads.
    /// * It has no data race between its own threads.
    /// * It reads no element of a type with wrong bit patterns (`bool`, enums) that holds one: memory that nobody has written holds any.
    /// * It keeps no address beyond the launch.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, Span, SpanMut};
    /// # use polywarp_core::doctest::*;
    /// # let (device, module) = axpy_module()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// // SAFETY: `axpy` has these parameters, checks bounds, and each thread uses an element of its own.
    /// let axpy = unsafe { module.bind::<(Span<f32>, SpanMut<f32>, f32)>("axpy") }?;
    /// axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0))?;    // safe from here on
    /// // SAFETY: it is refused: `axpy` has other parameters.
    /// let refused = unsafe { module.bind::<(Span<f32>, SpanMut<f32>, f64)>("axpy") }.unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::SignatureMismatch { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub unsafe fn bind<P: Parameters>(&self, name: &str) -> Result<Kernel<B, false, P>> {
        let state = self.look_up(name)?;
        if let Some(has) = &state.info.parameters
            && has.as_slice() != P::LAYOUT
        {
            return Err(self.0.signature_mismatch(&state.name, has, P::LAYOUT));
        }
        check_parameter_bytes(&self.0.device, P::LAYOUT)?;
        Ok(Kernel::new(state))
    }

    fn look_up(&self, name: &str) -> Result<Arc<KernelState<B>>> {
        let device = &self.0.device;
        device.state.usable()?;
        let Some(raw) = &self.0.raw else { return Err(self.error(ErrorKind::NoSuchFunction { name: name.into(), present: Vec::new() })) };
        let backend = &device.order().backend;
        let function = backend.function(raw, name).map_err(|error| device.settle(error))?;
        let info = backend.function_info(&function).map_err(|error| device.settle(error))?;
        let name: Arc<str> = name.into();
        let label = device.state.kernel_label(&name);
        Ok(Arc::new(KernelState { function, name, label, info, module: Arc::clone(&self.0) }))
    }

    fn error(&self, kind: ErrorKind) -> Error {
        self.0.device.state.error(kind, "bind")
    }
}

fn compile<B: Backend>(device: &Device<B>, program: &Program, source: &str) -> Result<CompiledImage> {
    let headers: Vec<_> = program.headers.iter().map(|(name, content)| (&**name, &**content)).collect();
    let options: Vec<_> = program.options.iter().map(|option| &**option).collect();
    let mut descriptor = SourceDescriptor::new(&program.name, source);
    descriptor.headers = &headers;
    descriptor.options = &options;
    device.order().backend.compile(&device.state.raw, &descriptor)
}

/// Bytes as an image of that form, if it is one of machine code.
fn image(form: Form, bytes: &[u8]) -> Option<Image<'_>> {
    match form {
        Form::Ptx => Some(Image::Ptx(bytes)),
        Form::Cubin => Some(Image::Cubin(bytes)),
        Form::Fatbin => Some(Image::Fatbin(bytes)),
        Form::CodeObject => Some(Image::CodeObject(bytes)),
        Form::Host | Form::Source => None,
    }
}

fn no_form<B: Backend>(device: &Device<B>, program: &Program, takes: &[Form]) -> Error {
    let names = |forms: &[Form]| forms.iter().map(|form| format!("{form:?}")).collect();
    let kind = ErrorKind::NoSuchForm { backend: device.state.backend_name.into(), takes: names(takes), present: names(&program.forms()) };
    device.state.error(kind, "load").with("program", &program.name)
}

fn describe(layout: &[ParameterLayout]) -> String {
    let list: Vec<_> = layout.iter().map(ToString::to_string).collect();
    format!("{} parameters ({})", layout.len(), list.join(", "))
}

/// Refuses a parameter block that is larger than the device takes.
pub(super) fn check_parameter_bytes<B: Backend>(device: &Device<B>, layout: &[ParameterLayout]) -> Result<()> {
    let asked = layout.last().map_or(0, |last| u64::from(last.offset) + u64::from(last.bytes));
    let limit = u64::from(device.info().limits.max_parameter_bytes);
    if asked <= limit {
        return Ok(());
    }
    let kind = ErrorKind::LimitExceeded { axis: "parameter bytes".into(), asked, limit };
    Err(device.state.error(kind, "bind").with("parameters", describe(layout)))
}
