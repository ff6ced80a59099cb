//! Kernels: bound functions, launched with arguments that are converted at the launch, or were converted once.

#![allow(unsafe_code, reason = "launches on the binding's promise")]

mod host;
mod macros;
mod module;
mod program;

pub use host::{Global, GlobalMut, HostFn, HostForm, HostSpan, HostSpanMut, Shared, Thread};
pub use macros::KernelSet;
pub use module::Module;
pub use program::Program;

use crate::backend::{Access, Backend, Feature, FunctionInfo, Geometry};
use crate::convert::{Argument, Arguments, At, Conversion, Converted, Parameters, Signature, Untyped, check_aliases};
use crate::device::Device;
use crate::launch::{Launch, LaunchConfig, check_features};
use crate::stream::Stream;
use crate::{ErrorKind, Result};
use module::{ModuleState, check_parameter_bytes};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::Arc;

/// What all handles of one bound function share.
pub(crate) struct KernelState<B: Backend> {
    pub(crate) function: B::Function,
    name: Arc<str>,
    /// Names it among suspects.
    pub(crate) label: u32,
    info: FunctionInfo,
    module: Arc<ModuleState<B>>,
}

impl<B: Backend> KernelState<B> {
    pub(crate) fn device(&self) -> &Device<B> {
        &self.module.device
    }
}

type Predicate<S> = Arc<dyn Fn(&Proposal<'_, S>) -> bool + Send + Sync>;

/// A bound kernel. `PRECONVERTED` says what a launch takes: `false`, arguments, which it converts; `true`, arguments that
/// [`prepare`](Kernel::prepare) converted once. `S` is the list of its parameters, or [`Untyped`].
///
/// ```
/// use polywarp_core::doctest::*;
/// use polywarp_core::LaunchConfig;
/// let (device, axpy) = axpy()?;                       // Kernel<Host, false, (Span<f32>, SpanMut<f32>, f32)>
/// let stream = device.stream()?;
/// let (x, mut y) = (stream.upload(&[1.0f32; 1000])?, stream.upload(&[2.0f32; 1000])?);
///
/// axpy.launch(&stream, LaunchConfig::for_elements(1000), (x.span(), y.span_mut(), 10.0))?;
///
/// let (prepared, arguments) = axpy.prepare((x.span(), y.span_mut(), 10.0))?;
/// for _ in 0..3 {
///     prepared.launch(&stream, 1000, &arguments)?;    // nothing is converted any more
/// }
/// assert_eq!(y.download(&stream)?, [42.0; 1000]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
///
/// Arguments of other types do not compile, and neither does launching a prepared kernel with unconverted arguments:
///
/// ```compile_fail
/// # use polywarp_core::doctest::*;
/// let (device, axpy) = axpy()?;
/// let stream = device.stream()?;
/// let mut y = stream.zeros::<f32>(4)?;
/// axpy.launch(&stream, 4, (y.span_mut(), y.span_mut(), 10.0))?;   // the first is only read
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Kernel<B: Backend, const PRECONVERTED: bool, S = Untyped> {
    state: Arc<KernelState<B>>,
    requires: Option<Predicate<S>>,
    may_alias: bool,
    signature: PhantomData<fn(S)>,
}

impl<B: Backend, const PRECONVERTED: bool, S> Clone for Kernel<B, PRECONVERTED, S> {
    fn clone(&self) -> Self {
        self.as_prepared()
    }
}

impl<B: Backend, const PRECONVERTED: bool, S> fmt::Debug for Kernel<B, PRECONVERTED, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.state.name)
            .field("preconverted", &PRECONVERTED)
            .field("device", self.state.device())
            .finish_non_exhaustive()
    }
}

impl<B: Backend, const PRECONVERTED: bool, S> Kernel<B, PRECONVERTED, S> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The device it was loaded for; it runs on streams of that device.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// assert!(*axpy.device() == device);
    /// let elsewhere = polywarp_core::doctest::stream()?;          // of another opened backend
    /// let refused = axpy.launch(&elsewhere, 4, (x.span(), y.span_mut(), 1.0)).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::WrongRuntime { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn device(&self) -> &Device<B> {
        self.state.device()
    }

    /// What it tells about itself: registers, shared memory, the largest block.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, LaunchConfig};
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let most = axpy.info().max_block_threads;
    /// let refused = axpy.launch(&stream, LaunchConfig::new(1, most + 1), (x.span(), y.span_mut(), 1.0)).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::LimitExceeded { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn info(&self) -> &FunctionInfo {
        &self.state.info
    }

    /// How many blocks of this size fit one multiprocessor.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) without [`Feature::Occupancy`]; those of the driver.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// let limits = &device.info().limits;
    /// let resident = axpy.occupancy(256, 0)? * 256;
    /// println!("{resident} of {} threads of a multiprocessor", limits.max_multiprocessor_threads);
    /// assert!(resident > 0);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn occupancy(&self, block_threads: u32, dynamic_shared_bytes: u32) -> Result<u32> {
        let device = self.device();
        device.state.usable()?;
        if !device.info().features.contains(Feature::Occupancy) {
            return Err(device.state.error(ErrorKind::Unsupported { feature: Feature::Occupancy }, "occupancy"));
        }
        let asked = device.order().backend.occupancy(&self.state.function, block_threads, dynamic_shared_bytes);
        asked.map_err(|error| device.settle(error))
    }

    /// A configuration for `count` elements with the block size that fills the device best: the largest product of
    /// resident blocks and threads, the smaller block where two are equal.
    ///
    /// # Errors
    /// As for [`occupancy`](Self::occupancy).
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// let (device, axpy) = axpy()?;
    /// let config = axpy.config_for(100_000)?;
    /// assert!(config.threads() >= 100_000);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn config_for(&self, count: usize) -> Result<LaunchConfig> {
        let limits = &self.device().info().limits;
        let most = self.state.info.max_block_threads.min(limits.max_block_threads).min(limits.max_block[0]);
        let warp = limits.warp_threads.clamp(1, most.max(1));
        let (mut best, mut filled) = (warp, 0);
        let mut threads = warp;
        while threads <= most {
            let resident = u64::from(self.occupancy(threads, 0)?) * u64::from(threads);
            if resident > filled {
                (best, filled) = (threads, resident);
            }
            threads = threads.saturating_mul(2);
        }
        Ok(LaunchConfig::blocks_of(count, best))
    }

    fn as_prepared<const OTHER: bool>(&self) -> Kernel<B, OTHER, S> {
        Kernel { state: Arc::clone(&self.state), requires: self.requires.clone(), may_alias: self.may_alias, signature: PhantomData }
    }

    fn geometry(&self, config: LaunchConfig) -> Result<Option<Geometry>> {
        let device = &self.device().state;
        let checked = config.check(&device.info.limits, &self.state.info);
        let geometry = checked.map_err(|error| error.on(device.backend_name, Some(device.ordinal)).with("kernel", &self.state.name))?;
        if let Some(geometry) = &geometry {
            check_features(&self.state, geometry)?;
        }
        Ok(geometry)
    }
}

/// Converted arguments and a geometry, as a kernel's [`requires`](Kernel::requires) predicate sees them.
///
/// ```
/// # use polywarp_core::ErrorKind;
/// # use polywarp_core::doctest::*;
/// # let (device, axpy) = axpy()?;
/// # let stream = device.stream()?;
/// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let axpy = axpy.requires(|launch| {
///     let (x, y) = (launch.value::<0>(), launch.value::<1>());
///     x.len() == y.len() && launch.bytes::<0>() == 4 * x.len() && launch.geometry().grid == [1; 3]
/// });
/// axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0))?;
/// let refused = axpy.launch(&stream, 1000, (x.span(), y.span_mut(), 1.0)).unwrap_err();   // four blocks
/// assert!(matches!(refused.kind(), ErrorKind::RequirementFailed { .. }));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Proposal<'a, S> {
    values: &'a S,
    accesses: &'a [Access],
    geometry: Geometry,
}

impl<S> fmt::Debug for Proposal<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposal").field("accesses", &self.accesses).field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl<S: Parameters> Proposal<'_, S> {
    /// The value of parameter `I`.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let axpy = axpy.requires(|launch| launch.value::<2>() != 0.0);      // the factor
    /// assert!(axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0)).is_ok());
    /// assert!(axpy.launch(&stream, 4, (x.span(), y.span_mut(), 0.0)).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn value<const I: usize>(&self) -> S::Type
    where
        S: At<I>,
    {
        self.values.get()
    }

    /// The bytes that parameter `I` reaches: the length of its buffer or view, in all if there are several.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let axpy = axpy.requires(|launch| launch.bytes::<1>() <= 16 && launch.bytes::<2>() == 0);   // scalars reach nothing
    /// assert!(axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0)).is_ok());
    /// assert!(axpy.launch(&stream, 4, (x.span(), stream.zeros(5)?.span_mut(), 1.0)).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn bytes<const I: usize>(&self) -> u64
    where
        S: At<I>,
    {
        self.accesses.iter().filter(|access| usize::from(access.argument) == I).map(|access| access.bytes).sum()
    }

    /// The shape of the launch.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let one_block = axpy.requires(|launch| launch.geometry().grid == [1; 3]);
    /// assert!(one_block.launch(&stream, 256, (x.span(), y.span_mut(), 1.0)).is_ok());
    /// assert!(one_block.launch(&stream, 257, (x.span(), y.span_mut(), 1.0)).is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }
}

impl<B: Backend, S> Kernel<B, false, S> {
    pub(crate) fn new(state: Arc<KernelState<B>>) -> Self {
        Self { state, requires: None, may_alias: false, signature: PhantomData }
    }

    /// The same kernel, allowed to be launched with arguments that overlap although one of them is written.
    ///
    /// # Safety
    /// The kernel has no data race even then.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (kernel, mut arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
    /// arguments.rebind::<0>(y.span())?;                           // now it reads what it writes
    /// assert!(matches!(kernel.launch(&stream, 4, &arguments).unwrap_err().kind(), ErrorKind::Aliased { .. }));
    /// // SAFETY: each thread reads and writes the same element, so there is no race.
    /// let (kernel, _) = unsafe { axpy.may_alias() }.prepare((x.span(), y.span_mut(), 1.0))?;
    /// kernel.launch(&stream, 4, &arguments)?;
    /// assert_eq!(y.download(&stream)?, [4.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub unsafe fn may_alias(mut self) -> Self {
        self.may_alias = true;
        self
    }

    fn convert<A: Arguments<B, S>>(&self, arguments: A) -> Result<Converted<B, A::Parameters>> {
        self.device().state.usable()?;
        let mut cx = Conversion::new();
        let parameters = arguments.convert_all(&mut cx)?;
        check_parameter_bytes(self.device(), A::Parameters::LAYOUT)?;
        Converted::new(parameters, cx, self.may_alias)
    }

    /// Converts, orders and submits.
    ///
    /// # Safety
    /// As for [`Launch::submit`]; `accepts` is asked before.
    #[inline]
    unsafe fn launch_with<A: Arguments<B, S>>(
        &self,
        stream: &Stream<B>,
        config: LaunchConfig,
        arguments: A,
        accepts: impl FnOnce(&A::Parameters, &[Access], Geometry) -> Result<()>,
        caller: &'static Location<'static>,
    ) -> Result<()> {
        let mut cx = Conversion::new();
        let parameters = arguments.convert_all(&mut cx)?;
        if !self.may_alias {
            check_aliases(&cx.accesses)?;
        }
        let Some(geometry) = self.geometry(config)? else { return stream.device.state.usable() };
        accepts(&parameters, &cx.accesses, geometry)?;
        let mut block = MaybeUninit::uninit();
        // SAFETY: the block is a local with room for the parameters.
        unsafe { parameters.place(block.as_mut_ptr()) };
        let pointers = A::Parameters::pointers(block.as_mut_ptr());
        let launch = Launch {
            geometry,
            parameters: pointers.as_ref(),
            layout: A::Parameters::LAYOUT,
            accesses: &cx.accesses,
            owners: &cx.allocations,
            caller,
        };
        // SAFETY: the caller's promise.
        unsafe { launch.submit(&self.state, stream) }
    }
}

impl<B: Backend, P: Parameters> Kernel<B, false, P> {
    /// The same kernel, launched only where the predicate holds; otherwise
    /// [`RequirementFailed`](ErrorKind::RequirementFailed). It is asked at every launch, and may look at geometry, values and lengths.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, doctest::*};
    /// let (device, axpy) = axpy()?;
    /// let stream = device.stream()?;
    /// let axpy = axpy.requires(|launch| launch.bytes::<0>() >= launch.bytes::<1>() && launch.value::<2>().is_finite());
    /// let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 8])?);
    /// let refused = axpy.launch(&stream, 8, (x.span(), y.span_mut(), 10.0));
    /// assert!(matches!(refused.unwrap_err().kind(), ErrorKind::RequirementFailed { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn requires(mut self, predicate: impl Fn(&Proposal<'_, P>) -> bool + Send + Sync + 'static) -> Self {
        self.requires = Some(match self.requires.take() {
            None => Arc::new(predicate),
            Some(before) => Arc::new(move |proposal: &Proposal<'_, P>| before(proposal) && predicate(proposal)),
        });
        self
    }

    /// Converts the arguments, orders the launch after what it must come after, and submits it. No work is a success.
    ///
    /// # Errors
    /// [`Aliased`](ErrorKind::Aliased), [`LimitExceeded`](ErrorKind::LimitExceeded), [`InvalidConfig`](ErrorKind::InvalidConfig),
    /// [`RequirementFailed`](ErrorKind::RequirementFailed), [`WrongDevice`](ErrorKind::WrongDevice), [`WrongRuntime`](ErrorKind::WrongRuntime),
    /// [`NoPeerAccess`](ErrorKind::NoPeerAccess), [`HostBorrowed`](ErrorKind::HostBorrowed), [`Lent`](ErrorKind::Lent),
    /// [`DevicePoisoned`](ErrorKind::DevicePoisoned), [`StreamPoisoned`](ErrorKind::StreamPoisoned), [`InCallback`](ErrorKind::InCallback); those of
    /// the driver.
    ///
    /// ```
    /// # use polywarp_core::LaunchConfig;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// axpy.launch(&stream, x.len(), (x.span(), y.span_mut(), 1.0))?;
    /// axpy.launch(&stream, LaunchConfig::new(1, 32), (x.slice(..2)?.span(), y.slice_mut(..2)?.span_mut(), 1.0))?;
    /// assert_eq!(y.download(&stream)?, [4.0, 4.0, 3.0, 3.0]);     // in order, without a wait in between
    /// axpy.launch(&stream, 0, (x.span(), y.span_mut(), f32::NAN))?;   // no work
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    #[inline]
    #[doc(alias = "cuLaunchKernel", alias = "hipModuleLaunchKernel")]
    pub fn launch<A>(&self, stream: &Stream<B>, config: impl Into<LaunchConfig>, arguments: A) -> Result<()>
    where
        A: Arguments<B, P, Parameters = P>,
    {
        let accepts = |values: &P, accesses: &[Access], geometry| self.accepts(values, accesses, geometry);
        // SAFETY: binding promised this for every launch that the predicate accepts, and it is asked.
        unsafe { self.launch_with(stream, config.into(), arguments, accepts, Location::caller()) }
    }

    /// Converts the arguments once, for many launches.
    ///
    /// # Errors
    /// [`Aliased`](ErrorKind::Aliased); [`LimitExceeded`](ErrorKind::LimitExceeded) for parameter bytes; those of the conversion.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (kernel, arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
    /// kernel.launch(&stream, 4, &arguments)?;
    /// y.fill(&stream, 0.0)?;                                      // the buffer stays usable in between
    /// kernel.launch(&stream, 4, &arguments)?;
    /// assert_eq!(y.download(&stream)?, [1.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn prepare<A>(&self, arguments: A) -> Result<(Kernel<B, true, P>, Converted<B, P>)>
    where
        A: Arguments<B, P, Parameters = P>,
    {
        Ok((self.as_prepared(), self.convert(arguments)?))
    }

    /// [`prepare`](Self::prepare), kernel and arguments in one value.
    ///
    /// # Errors
    /// As for [`prepare`](Self::prepare).
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let steps: Vec<_> = [1.0, 10.0]
    ///     .into_iter()
    ///     .map(|a| axpy.prepared((x.span(), y.span_mut(), a)))
    ///     .collect::<Result<_, _>>()?;                            // kept together, launched in any order
    /// steps[1].launch(&stream, 4)?;
    /// steps[0].launch(&stream, 4)?;
    /// assert_eq!(y.download(&stream)?, [13.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn prepared<A>(&self, arguments: A) -> Result<Prepared<B, P>>
    where
        A: Arguments<B, P, Parameters = P>,
    {
        let (kernel, arguments) = self.prepare(arguments)?;
        Ok(Prepared { kernel, arguments })
    }
}

impl<B: Backend, const PRECONVERTED: bool, P: Parameters> Kernel<B, PRECONVERTED, P> {
    #[inline]
    fn accepts(&self, values: &P, accesses: &[Access], geometry: Geometry) -> Result<()> {
        match &self.requires {
            Some(predicate) if !predicate(&Proposal { values, accesses, geometry }) => {
                let kernel = self.state.name.to_string().into();
                Err(self.device().state.error(ErrorKind::RequirementFailed { kernel }, "launch"))
            }
            _ => Ok(()),
        }
    }
}

impl<B: Backend> Kernel<B, false, Untyped> {
    /// Converts whatever is given and launches.
    ///
    /// # Errors
    /// As for the typed launch; [`SignatureMismatch`](ErrorKind::SignatureMismatch) where the kernel's parameters are known.
    ///
    /// # Safety
    /// As for [`Module::bind`], for this launch and the parameters that the arguments become.
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, module) = axpy_module()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let axpy = module.function("axpy")?;                        // parameters unknown to the compiler
    /// // SAFETY: `axpy` takes two spans and a factor, checks bounds, and each thread uses an element of its own.
    /// unsafe { axpy.launch(&stream, 4, (x.span(), y.span_mut(), 1.0f32)) }?;
    /// // SAFETY: as above; what does not fit is refused, as the host backend knows the parameters.
    /// let refused = unsafe { axpy.launch(&stream, 4, (x.span(), y.span_mut())) }.unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::SignatureMismatch { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn launch<A: Arguments<B, Untyped>>(&self, stream: &Stream<B>, config: impl Into<LaunchConfig>, arguments: A) -> Result<()> {
        self.check_signature::<A::Parameters>()?;
        // SAFETY: the caller's promise.
        unsafe { self.launch_with(stream, config.into(), arguments, |_, _, _| Ok(()), Location::caller()) }
    }

    /// Converts whatever is given once, for many launches.
    ///
    /// # Errors
    /// As for the typed [`prepare`](Kernel::prepare); [`SignatureMismatch`](ErrorKind::SignatureMismatch) where the kernel's parameters are known.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, module) = axpy_module()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (axpy, arguments) = module.function("axpy")?.prepare((x.span(), y.span_mut(), 1.0f32))?;
    /// // SAFETY: `axpy` takes two spans and a factor, checks bounds, and each thread uses an element of its own.
    /// unsafe { axpy.launch(&stream, 4, &arguments) }?;
    /// assert_eq!(y.download(&stream)?, [3.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn prepare<A: Arguments<B, Untyped>>(&self, arguments: A) -> Result<(Kernel<B, true, Untyped>, Converted<B, A::Parameters>)> {
        self.check_signature::<A::Parameters>()?;
        Ok((self.as_prepared(), self.convert(arguments)?))
    }
}

impl<B: Backend, const PRECONVERTED: bool> Kernel<B, PRECONVERTED, Untyped> {
    fn check_signature<P: Parameters>(&self) -> Result<()> {
        match &self.state.info.parameters {
            Some(has) if has.as_slice() != P::LAYOUT => Err(self.state.module.signature_mismatch(&self.state.name, has, P::LAYOUT)),
            _ => check_parameter_bytes(self.device(), P::LAYOUT),
        }
    }
}

impl<B: Backend, S: Signature> Kernel<B, true, S> {
    #[inline]
    unsafe fn launch_converted<P: Parameters>(
        &self,
        stream: &Stream<B>,
        geometry: Geometry,
        arguments: &Converted<B, P>,
        caller: &'static Location<'static>,
    ) -> Result<()> {
        let launch = Launch {
            geometry,
            parameters: arguments.pointers(),
            layout: P::LAYOUT,
            accesses: arguments.accesses(),
            owners: arguments.owners(),
            caller,
        };
        // SAFETY: the caller's promise.
        unsafe { launch.submit(&self.state, stream) }
    }

    fn recheck<P: Parameters>(&self, arguments: &Converted<B, P>) -> Result<()> {
        if self.may_alias { Ok(()) } else { arguments.recheck_aliases() }
    }
}

impl<B: Backend, P: Parameters> Kernel<B, true, P> {
    /// Orders the launch after what it must come after, and submits it: no conversion, no heap.
    ///
    /// # Errors
    /// As for the converting launch.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (kernel, arguments) = axpy.prepare((x.span(), y.span_mut(), 1.0))?;
    /// let other = device.stream()?;
    /// kernel.launch(&stream, 4, &arguments)?;
    /// kernel.launch(&other, 4, &arguments)?;                      // after the launch before: both write `y`
    /// assert_eq!(y.download(&stream)?, [4.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn launch(&self, stream: &Stream<B>, config: impl Into<LaunchConfig>, arguments: &Converted<B, P>) -> Result<()> {
        self.recheck(arguments)?;
        let Some(geometry) = self.geometry(config.into())? else { return stream.device.state.usable() };
        self.accepts(arguments.values(), arguments.accesses(), geometry)?;
        // SAFETY: binding promised this for every launch that the predicate accepts, and it was asked.
        unsafe { self.launch_converted(stream, geometry, arguments, Location::caller()) }
    }
}

impl<B: Backend> Kernel<B, true, Untyped> {
    /// Launches with arguments converted before.
    ///
    /// # Errors
    /// As for the converting launch.
    ///
    /// # Safety
    /// As for [`Module::bind`], for this launch and these arguments.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, module) = axpy_module()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let (axpy, mut arguments) = module.function("axpy")?.prepare((x.span(), y.span_mut(), 1.0f32))?;
    /// arguments.rebind::<2>(5.0)?;
    /// // SAFETY: `axpy` takes two spans and a factor, checks bounds, and each thread uses an element of its own.
    /// unsafe { axpy.launch(&stream, 4, &arguments) }?;
    /// assert_eq!(y.download(&stream)?, [7.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn launch<P: Parameters>(
        &self,
        stream: &Stream<B>,
        config: impl Into<LaunchConfig>,
        arguments: &Converted<B, P>,
    ) -> Result<()> {
        self.check_signature::<P>()?;
        self.recheck(arguments)?;
        let Some(geometry) = self.geometry(config.into())? else { return stream.device.state.usable() };
        // SAFETY: the caller's promise.
        unsafe { self.launch_converted(stream, geometry, arguments, Location::caller()) }
    }
}

/// A kernel and its converted arguments in one value, to be kept in structs.
///
/// ```
/// use polywarp_core::{Prepared, Span, SpanMut, backend::Backend, doctest::*};
///
/// struct Step<B: Backend> {
///     axpy: Prepared<B, (Span<f32>, SpanMut<f32>, f32)>,
/// }
///
/// let (device, axpy) = axpy()?;
/// let stream = device.stream()?;
/// let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
/// let mut step = Step { axpy: axpy.prepared((x.span(), y.span_mut(), 1.0))? };
/// step.axpy.launch(&stream, 4)?;
/// step.axpy.rebind::<2>(3.0)?;
/// step.axpy.launch(&stream, 4)?;
/// assert_eq!(y.download(&stream)?, [6.0; 4]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Prepared<B: Backend, P: Parameters> {
    kernel: Kernel<B, true, P>,
    arguments: Converted<B, P>,
}

impl<B: Backend, P: Parameters> Prepared<B, P> {
    /// Launches: no conversion, no heap.
    ///
    /// # Errors
    /// As for [`Kernel::launch`].
    ///
    /// ```
    /// # use polywarp_core::ErrorKind;
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let step = axpy.prepared((x.span(), y.span_mut(), 1.0))?;
    /// step.launch(&stream, 4)?;
    /// let elsewhere = polywarp_core::doctest::stream()?;
    /// assert!(matches!(step.launch(&elsewhere, 4).unwrap_err().kind(), ErrorKind::WrongRuntime { .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn launch(&self, stream: &Stream<B>, config: impl Into<LaunchConfig>) -> Result<()> {
        self.kernel.launch(stream, config, &self.arguments)
    }

    /// Replaces one argument; see [`Converted::rebind`].
    ///
    /// # Errors
    /// Those of the conversion.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let mut step = axpy.prepared((x.span(), y.span_mut(), 1.0))?;
    /// let mut z = stream.zeros::<f32>(4)?;
    /// step.rebind::<1>(z.span_mut())?;                            // another buffer of any length
    /// step.launch(&stream, 4)?;
    /// assert_eq!((y.download(&stream)?, z.download(&stream)?), (vec![2.0; 4], vec![1.0; 4]));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn rebind<const I: usize>(&mut self, value: impl Argument<B, <P as At<I>>::Type>) -> Result<()>
    where
        P: At<I>,
    {
        self.arguments.rebind(value)
    }

    /// The kernel.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let step = axpy.prepared((x.span(), y.span_mut(), 1.0))?;
    /// let config = step.kernel().config_for(x.len())?;
    /// step.launch(&stream, config)?;
    /// assert_eq!(step.kernel().name(), "axpy");
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn kernel(&self) -> &Kernel<B, true, P> {
        &self.kernel
    }

    /// The arguments.
    ///
    /// ```
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let step = axpy.prepared((x.span(), y.span_mut(), 1.0))?;
    /// step.kernel().launch(&stream, 4, step.arguments())?;        // the same as `step.launch(&stream, 4)`
    /// assert_eq!(y.download(&stream)?, [3.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn arguments(&self) -> &Converted<B, P> {
        &self.arguments
    }
}
