//! The core of polywarp: the contract between GPU backends and everything above them, and all that is above.
//!
//! Applications depend on the `polywarp` crate, which adds the choice of backends; backends depend on this one.
//!
//! The modules, in the order data travels: [`backend`] is the contract. `order` decides who waits for whom. [`Runtime`], [`Device`],
//! [`Stream`] and [`Event`] stand for what the driver has; [`Buffer`] and its views for memory; [`Convert`] turns host values into
//! what a [`Kernel`] receives; [`LaunchConfig`] says with how many threads. [`host`] is the reference backend.
//!
//! ```
//! use polywarp_core::{HostSpan, HostSpanMut, KernelSet, Module, Program, Runtime, Span, SpanMut, Thread, host::Host, kernels};
//!
//! kernels! {
//!     struct Kernels {
//!         fn axpy(x: Span<f32>, y: SpanMut<f32>, a: f32) = axpy;
//!     }
//! }
//!
//! fn axpy(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, a: f32) {
//!     if let Some(i) = thread.within(y.len()) {
//!         y.store(i, a * x.load(i) + y.load(i));
//!     }
//! }
//!
//! let device = Runtime::new(Host::default())?.device(0)?;
//! let module = Module::load(&device, &<Kernels<Host>>::host(Program::new("vectors")))?;
//! // SAFETY: `axpy` has these parameters, checks bounds, and each thread uses an element of its own.
//! let kernels = unsafe { Kernels::bind(&module) }?;
//!
//! let (a, b) = (device.stream()?, device.stream()?);
//! let (x, mut y) = (a.upload(&[1.0f32; 1000])?, b.upload(&[2.0f32; 1000])?);
//! kernels.axpy.launch(&a, 1000, (x.span(), y.span_mut(), 10.0))?;    // runs after both uploads; the host does not wait
//! assert_eq!(y.download(&b)?, [12.0; 1000]);
//! # Ok::<(), polywarp_core::Error>(())
//! ```

#![recursion_limit = "256"]

extern crate self as polywarp_core;

pub mod backend;
mod buffer;
mod convert;
pub mod counters;
#[cfg(feature = "decorate")]
pub mod decorate;
mod device;
#[cfg(feature = "host")]
#[doc(hidden)]
pub mod doctest;
mod error;
mod event;
pub mod gate;
#[cfg(feature = "host")]
pub mod host;
mod kernel;
mod launch;
mod memory;
mod order;
mod stream;
mod sync;

pub use buffer::{Buffer, BufferSlice, BufferSliceMut, HostData, HostGuard, HostGuardMut, PendingRead, ReadFuture};
pub use convert::{
    Argument, Arguments, At, Conversion, Convert, Converted, DevicePtr, DevicePtrMut, DeviceRepr, Element, HasNull, Nullable, Pair,
    Parameters, Signature, Span, SpanMut, SpanOf, SpanOfMut, Untracked, Untyped, Value,
};
pub use device::{Device, Runtime};
pub use error::{Error, ErrorKind, NativeCode, Result, Text};
pub use event::Event;
pub use kernel::{
    Global, GlobalMut, HostFn, HostForm, HostSpan, HostSpanMut, Kernel, KernelSet, Module, Prepared, Program, Proposal, Shared, Thread,
};
pub use launch::{Axes, LaunchConfig};
pub use memory::{Allocation, DeviceMemory, HostVisible, MemoryKind, PinnedMemory, UnifiedMemory};
pub use polywarp_derive::{Convert, DeviceRepr};
pub use stream::{Stream, StreamOptions};
