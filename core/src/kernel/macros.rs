//! Declaring a set of kernels.

use super::{Module, Program};
use crate::Result;
use crate::backend::Backend;

/// A set of kernels declared by [`kernels!`](crate::kernels).
///
/// ```
/// # use polywarp_core::{Device, HostSpanMut, KernelSet, Module, Program, Result, SpanMut, Thread, backend::Backend, kernels};
/// # let stream = polywarp_core::doctest::stream()?;
/// kernels! {
///     struct Fills { fn clear(x: SpanMut<u32>) = clear; }
/// }
/// # fn clear(thread: &Thread<'_>, x: HostSpanMut<'_, u32>) { thread.within(x.len()).map_or((), |i| x.store(i, 0)) }
/// /// Loads any set of kernels.
/// ///
/// /// # Safety
/// /// As for [`Module::bind`], for every kernel of the set.
/// unsafe fn load<B: Backend, K: KernelSet<B>>(device: &Device<B>, name: &'static str) -> Result<K> {
///     let module = Module::load(device, &K::host(Program::new(name)))?;
///     // SAFETY: the caller's promise.
///     unsafe { K::bind(&module) }
/// }
/// // SAFETY: `clear` checks bounds, and each thread uses an element of its own.
/// let fills: Fills<_> = unsafe { load(stream.device(), "fills") }?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub trait KernelSet<B: Backend>: Sized {
    /// Adds the host form of every kernel that has one.
    fn host(program: Program) -> Program;

    /// Binds every kernel of the set.
    ///
    /// # Errors
    /// As for [`Module::bind`], the first.
    ///
    /// # Safety
    /// As for [`Module::bind`], for every kernel of the set.
    #[allow(unsafe_code, reason = "binding is the promise")]
    unsafe fn bind(module: &Module<B>) -> Result<Self>;
}

/// Declares a set of kernels: names, parameters, docs, and for each kernel optionally the predicate that it `requires` and its host form.
///
/// The result is a struct with one typed handle per kernel. The macro writes `impl KernelSet`, whose `bind` is `unsafe`: it is the promise
/// that the kernels keep to what they declare.
///
/// ```
/// use polywarp_core::{HostSpan, HostSpanMut, KernelSet, Module, Program, Runtime, Span, SpanMut, Thread, host::Host, kernels};
///
/// kernels! {
///     /// Vector kernels.
///     pub struct Vectors {
///         /// y ← a·x + y.
///         pub fn axpy(x: Span<f32>, y: SpanMut<f32>, a: f32) = axpy;
///         /// y ← x, for equal lengths.
///         pub fn copy(x: Span<f32>, y: SpanMut<f32>) = copy, requires |launch| launch.bytes::<0>() == launch.bytes::<1>();
///     }
/// }
///
/// fn axpy(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, a: f32) {
///     if let Some(i) = thread.within(y.len()) {
///         y.store(i, a * x.load(i) + y.load(i));
///     }
/// }
///
/// fn copy(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>) {
///     if let Some(i) = thread.within(y.len()) {
///         y.store(i, x.load(i));
///     }
/// }
///
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let program = <Vectors<Host>>::host(Program::new("vectors"));
/// let module = Module::load(&device, &program)?;
/// // SAFETY: both check bounds, and each thread uses elements of its own.
/// let vectors = unsafe { Vectors::bind(&module) }?;
/// let stream = device.stream()?;
/// let (x, mut y) = (stream.upload(&[1.0f32; 8])?, stream.zeros(8)?);
/// vectors.copy.launch(&stream, 8, (x.span(), y.span_mut()))?;
/// vectors.axpy.launch(&stream, 8, (x.span(), y.span_mut(), 3.0))?;
/// assert_eq!(y.download(&stream)?, [4.0; 8]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[macro_export]
macro_rules! kernels {
    (
        $(#[$set_doc:meta])*
        $visible:vis struct $Set:ident {
            $(
                $(#[$doc:meta])*
                $kernel_visible:vis fn $kernel:ident($($parameter:ident: $Type:ty),* $(,)?)
                    $(= $host:path)? $(, requires |$launch:ident| $requires:expr)?;
            )*
        }
    ) => {
        $(#[$set_doc])*
        #[derive(Clone, Debug)]
        $visible struct $Set<B: $crate::backend::Backend> {
            $(
                $(#[$doc])*
                #[doc = ""]
                #[doc = concat!("Parameters: ", $("`", stringify!($parameter), ": ", stringify!($Type), "` ",)* "")]
                $kernel_visible $kernel: $crate::Kernel<B, false, ($($Type,)*)>,
            )*
        }

        #[allow(unsafe_code)]
        impl<B: $crate::backend::Backend> $crate::KernelSet<B> for $Set<B> {
            fn host(program: $crate::Program) -> $crate::Program {
                $(let program = $crate::kernels!(@host program, $kernel, ($($Type,)*) $(, $host)?);)*
                program
            }

            unsafe fn bind(module: &$crate::Module<B>) -> $crate::Result<Self> {
                // Functions of their own, so that what the user wrote is no part of an unsafe one.
                $(
                    fn $kernel<B: $crate::backend::Backend>(
                        kernel: $crate::Kernel<B, false, ($($Type,)*)>,
                    ) -> $crate::Kernel<B, false, ($($Type,)*)> {
                        kernel$(.requires(|$launch| $requires))?
                    }
                )*
                Ok(Self {
                    $(
                        // SAFETY: the caller's promise.
                        $kernel: $kernel(unsafe { module.bind::<($($Type,)*)>(stringify!($kernel)) }?),
                    )*
                })
            }
        }
    };
    (@host $program:ident, $kernel:ident, $Parameters:ty, $host:path) => {
        $program.host::<$Parameters, _>(stringify!($kernel), $host)
    };
    (@host $program:ident, $kernel:ident, $Parameters:ty) => { $program };
}
