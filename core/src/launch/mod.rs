//! The one place where converted arguments become a descriptor, and uses become waits.

#![allow(unsafe_code, reason = "calls the contract's methods")]

mod config;

pub use config::{Axes, LaunchConfig};

use crate::Result;
use crate::backend::{Access, Backend, Feature, Geometry, LaunchDescriptor, Origin, ParameterLayout};
use crate::kernel::KernelState;
use crate::memory::{Allocation, admit};
use crate::order::{Submission, Tracked};
use crate::stream::Stream;
use crate::{Error, ErrorKind};
use std::ffi::c_void;
use std::panic::Location;
use std::sync::Arc;

/// A launch that was converted and checked.
pub(crate) struct Launch<'a, T> {
    pub(crate) geometry: Geometry,
    pub(crate) parameters: &'a [*mut c_void],
    pub(crate) layout: &'a [ParameterLayout],
    pub(crate) accesses: &'a [Access],
    pub(crate) owners: &'a [T],
    pub(crate) caller: &'static Location<'static>,
}

impl<T> Launch<'_, T> {
    /// Orders it after what it must come after, and submits it.
    ///
    /// # Safety
    /// The parameters are what the kernel expects, and every launch with these arguments and this geometry is memory-safe and free of data
    /// races inside itself.
    #[inline]
    pub(crate) unsafe fn submit<B: Backend>(self, kernel: &KernelState<B>, stream: &Stream<B>) -> Result<()>
    where
        T: Tracked + AsAllocation<B>,
    {
        if !Arc::ptr_eq(&kernel.device().state, &stream.device.state) {
            return Err(wrong_device(kernel, stream));
        }
        admit(stream, self.owners.iter().map(AsAllocation::allocation), true, "launch")?;
        let origin = Origin { accesses: self.accesses, caller: self.caller };
        let descriptor = LaunchDescriptor::new(self.geometry, self.parameters, self.layout, origin);
        let kind = Submission { operation: "launch", label: kernel.label, may_wait_for_host: false };
        // SAFETY: the caller vouches for parameters and kernel; what it reaches stays allocated behind this use, which is entered; the
        // function was found to be the stream's device's own.
        let work = |backend: &B, queue: &B::Stream| unsafe { backend.launch(queue, &kernel.function, &descriptor) };
        stream.order().submit(&stream.lane, self.accesses, self.owners, kind, work).map(drop)
    }
}

/// A share in an allocation, owned or borrowed.
pub(crate) trait AsAllocation<B: Backend> {
    fn allocation(&self) -> &Allocation<B>;
}

impl<B: Backend> AsAllocation<B> for Arc<Allocation<B>> {
    #[inline]
    fn allocation(&self) -> &Allocation<B> {
        self
    }
}

impl<B: Backend> AsAllocation<B> for &Arc<Allocation<B>> {
    #[inline]
    fn allocation(&self) -> &Allocation<B> {
        self
    }
}

#[cold]
fn wrong_device<B: Backend>(kernel: &KernelState<B>, stream: &Stream<B>) -> Error {
    let state = &stream.device.state;
    if !std::ptr::eq(kernel.device().order(), stream.order()) {
        return state.error(ErrorKind::WrongRuntime { what: "the kernel".into() }, "launch");
    }
    let kind = ErrorKind::WrongDevice { what: "the kernel".into(), expected: state.ordinal, got: kernel.device().ordinal() };
    state.error(kind, "launch")
}

/// What the geometry asks of the device beyond limits.
#[inline]
pub(crate) fn check_features<B: Backend>(kernel: &KernelState<B>, geometry: &Geometry) -> Result<()> {
    if !geometry.cooperative && geometry.cluster == [1; 3] {
        return Ok(());
    }
    let features = kernel.device().info().features;
    let lacks = |feature| Err(kernel.device().state.error(ErrorKind::Unsupported { feature }, "launch"));
    if geometry.cooperative {
        if !features.contains(Feature::CooperativeLaunch) {
            return lacks(Feature::CooperativeLaunch);
        }
        check_residency(kernel, geometry)?;
    }
    if geometry.cluster != [1; 3] && !features.contains(Feature::Clusters) {
        return lacks(Feature::Clusters);
    }
    Ok(())
}

/// All blocks of a cooperative launch are resident at the same time.
fn check_residency<B: Backend>(kernel: &KernelState<B>, geometry: &Geometry) -> Result<()> {
    let device = kernel.device();
    let threads = geometry.block.iter().product();
    let resident =
        device.order().backend.occupancy(&kernel.function, threads, geometry.shared_bytes).map_err(|error| device.settle(error))?;
    let limit = u64::from(resident) * u64::from(device.info().limits.multiprocessors);
    let asked = geometry.grid.iter().map(|&axis| u64::from(axis)).product();
    if asked <= limit {
        return Ok(());
    }
    Err(device.state.error(ErrorKind::LimitExceeded { axis: "blocks of a cooperative launch".into(), asked, limit }, "launch"))
}
