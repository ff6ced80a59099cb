//! Opened backends and their devices.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use crate::backend::{Backend, DeviceInfo, MemoryInfo};
use crate::order::{DeviceState, Order};
use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// An opened backend: its devices, and the one order of all their memory.
///
/// Devices that are to share memory come from one `Runtime`. Cloning gives another handle.
///
/// When the last handle of it and of everything made from it is gone, a thread of its own waits for what is still running and returns
/// all memory; [`close`](Self::close) does so at once and tells of errors.
///
/// ```
/// use polywarp_core::{Runtime, host::Host};
/// let runtime = Runtime::new(Host::default())?;
/// let device = runtime.device(0)?;
/// println!("{} of {}: {}", device.ordinal(), runtime.device_count(), device.info().name);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Runtime<B: Backend>(pub(crate) Arc<RuntimeState<B>>);

pub(crate) struct RuntimeState<B: Backend> {
    pub(crate) order: Arc<Order<B>>,
    devices: Box<[OnceLock<Arc<DeviceState<B>>>]>,
    opening: Mutex<()>,
}

impl<B: Backend> Clone for Runtime<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Backend> fmt::Debug for Runtime<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("backend", &self.0.order.backend).finish_non_exhaustive()
    }
}

impl<B: Backend> Runtime<B> {
    /// Takes a backend into use. No device is opened yet.
    ///
    /// # Errors
    /// [`BackendUnavailable`](ErrorKind::BackendUnavailable) if this machine cannot run it.
    pub fn new(backend: B) -> Result<Self> {
        let count = backend.device_count()?;
        let devices = (0..count).map(|_| OnceLock::new()).collect();
        Ok(Self(Arc::new(RuntimeState { order: Arc::new(Order::new(backend)), devices, opening: Mutex::new(()) })))
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.0.order.backend
    }

    /// How many devices there are.
    #[must_use]
    pub fn device_count(&self) -> u32 {
        self.0.devices.len() as u32
    }

    /// A device; opened at the first call, the same one at later calls.
    ///
    /// # Errors
    /// [`NoSuchDevice`](ErrorKind::NoSuchDevice); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, Runtime, host::{Host, HostConfig}};
    /// let runtime = Runtime::new(Host::new(&HostConfig::new(2)))?;
    /// assert!(runtime.device(1)? == runtime.device(1)?);
    /// let error = runtime.device(2).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::NoSuchDevice { ordinal: 2, count: 2 }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn device(&self, ordinal: u32) -> Result<Device<B>> {
        let backend = self.backend();
        let kind = ErrorKind::NoSuchDevice { ordinal, count: self.device_count() };
        let place = self.0.devices.get(ordinal as usize).ok_or_else(|| Error::new(kind, "device").on(backend.name(), None))?;
        let _one_at_a_time = self.0.opening.lock();
        if place.get().is_none() {
            let raw = backend.device_open(ordinal)?;
            let info = backend.device_info(&raw)?;
            let _opened = place.set(Arc::new(DeviceState::new(ordinal, raw, info, backend.name())));
        }
        match place.get() {
            Some(state) => Ok(Device { runtime: Arc::clone(&self.0), state: Arc::clone(state) }),
            None => Err(Error::new(ErrorKind::NoSuchDevice { ordinal, count: self.device_count() }, "device")),
        }
    }

    /// All devices, opened.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::{Host, HostConfig}};
    /// let runtime = Runtime::new(Host::new(&HostConfig::new(3)))?;
    /// let streams: Vec<_> = runtime.devices()?.iter().map(|device| device.stream()).collect::<Result<_, _>>()?;
    /// assert_eq!(streams[2].device().ordinal(), 2);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn devices(&self) -> Result<Vec<Device<B>>> {
        (0..self.device_count()).map(|ordinal| self.device(ordinal)).collect()
    }

    /// Waits for all work and returns the memory, streams and modules that nothing refers to any more.
    ///
    /// # Errors
    /// The first error of waiting, or of dealing with what was dropped.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// let runtime = Runtime::new(Host::default())?;
    /// let stream = runtime.device(0)?.stream()?;
    /// drop(stream.zeros::<u8>(1 << 20)?);     // the fill may still run
    /// drop(stream);
    /// runtime.close()?;                       // it is complete now, and the memory is returned
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        let devices: Vec<_> = self.0.devices.iter().filter_map(OnceLock::get).cloned().collect();
        devices.iter().try_for_each(|device| device.usable())?;
        finish(&self.0.order, &devices)?;
        devices.iter().find_map(|device| device.take_error()).map_or(Ok(()), Err)
    }
}

impl<B: Backend> Drop for RuntimeState<B> {
    /// Drops make no driver call and never block, so a thread does what is left; if there is none to be had, it is left to the end of the process.
    fn drop(&mut self) {
        let order = Arc::clone(&self.order);
        let devices: Vec<_> = self.devices.iter_mut().filter_map(OnceLock::take).collect();
        if !devices.is_empty() {
            let close = move || drop(finish(&order, &devices));
            #[cfg(loom)]
            return close(); // Part of a model's program.
            #[cfg(all(test, not(loom)))]
            if crate::sync::schedule::active() {
                return close(); // The same.
            }
            #[cfg(not(loom))]
            let _left = std::thread::Builder::new().name("polywarp-close".into()).spawn(close);
        }
    }
}

/// Waits for the work of all devices, then returns all that was dropped: memory of one device may be in use on another.
fn finish<B: Backend>(order: &Order<B>, devices: &[Arc<DeviceState<B>>]) -> Result<()> {
    devices.iter().for_each(|device| device.drain(order));
    let mut outcome = Ok(());
    for lane in order.lanes() {
        let waited = order.wait_lane(&lane).map_err(|error| order.settle(&lane.device, error));
        outcome = outcome.and(waited);
    }
    devices.iter().for_each(|device| device.drain(order)); // What host functions dropped meanwhile.
    for device in devices.iter().filter(|device| !device.is_poisoned()) {
        device.collect(order, false);
        device.free_parked(order);
        device.destroy_events(order);
    }
    outcome
}

/// One device of a [`Runtime`]. Cloning gives another handle.
///
/// ```
/// use polywarp_core::{Runtime, host::Host};
/// let device = Runtime::new(Host::default())?.device(0)?;
/// let stream = device.stream()?;
/// let buffer = stream.upload(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(buffer.download(&stream)?, [1.0, 2.0, 3.0]);
/// device.wait()?;
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub struct Device<B: Backend> {
    pub(crate) runtime: Arc<RuntimeState<B>>,
    pub(crate) state: Arc<DeviceState<B>>,
}

impl<B: Backend> Clone for Device<B> {
    fn clone(&self) -> Self {
        Self { runtime: Arc::clone(&self.runtime), state: Arc::clone(&self.state) }
    }
}

impl<B: Backend> fmt::Debug for Device<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("backend", &self.state.backend_name).field("ordinal", &self.ordinal()).finish_non_exhaustive()
    }
}

impl<B: Backend> PartialEq for Device<B> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl<B: Backend> Eq for Device<B> {}

impl<B: Backend> Device<B> {
    /// The runtime that it belongs to.
    #[must_use]
    pub fn runtime(&self) -> Runtime<B> {
        Runtime(Arc::clone(&self.runtime))
    }

    /// Its number among the devices of the runtime.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.state.ordinal
    }

    /// What it is and can do.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.state.info
    }

    /// The backend's own handle, for calls past polywarp.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, backend::Backend, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let runtime = device.runtime();
    /// let asked = runtime.backend().device_info(device.raw())?;   // a method of the contract, called by hand
    /// assert_eq!(asked.name, device.info().name);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn raw(&self) -> &B::Device {
        &self.state.raw
    }

    /// Free and total memory now, in bytes. What polywarp holds for reuse is not free ([`trim`](Self::trim) returns it).
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// let device = Runtime::new(Host::default())?.device(0)?;
    /// let before = device.memory_info()?;
    /// drop(device.alloc::<u8>(1 << 20)?);                         // held for reuse …
    /// let after = device.memory_info()?;
    /// assert_eq!(before.free - after.free, 1 << 20);              // … and so not free
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.state.usable()?;
        self.order().backend.memory_info(&self.state.raw).map_err(|error| self.order().settle(&self.state, error))
    }

    /// Whether kernels of this device can use memory of `other`.
    ///
    /// # Errors
    /// [`DevicePoisoned`](ErrorKind::DevicePoisoned); [`InCallback`](ErrorKind::InCallback); those of the driver.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::{Host, HostConfig}};
    /// let runtime = Runtime::new(Host::new(&HostConfig::new(2).with_peers(|from, _| from == 0)))?;
    /// let (first, second) = (runtime.device(0)?, runtime.device(1)?);
    /// assert!(first.can_reach(&second)? && !second.can_reach(&first)?);   // each direction is asked for itself
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn can_reach(&self, other: &Self) -> Result<bool> {
        self.state.usable()?;
        if !std::ptr::eq(self.order(), other.order()) {
            return Err(self.state.error(ErrorKind::WrongRuntime { what: "the device".into() }, "can reach"));
        }
        let asked = || self.order().backend.peer_possible(&self.state.raw, &other.state.raw);
        if self == other { Ok(true) } else { asked().map_err(|error| self.settle(error)) }
    }

    /// Waits on the host until everything submitted to the device's streams so far is complete.
    ///
    /// # Errors
    /// [`DevicePoisoned`](ErrorKind::DevicePoisoned) after a kernel fault; an error met while dealing with what was dropped, once.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// let (a, b) = (device.stream()?, device.stream()?);
    /// let (x, y) = (a.zeros::<u8>(4096)?, b.zeros::<u8>(4096)?);
    /// device.wait()?;
    /// assert!(a.is_complete()? && b.is_complete()?);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn wait(&self) -> Result<()> {
        self.state.usable()?;
        let order = self.order();
        self.state.drain(order);
        for lane in order.lanes().iter().filter(|lane| Arc::ptr_eq(&lane.device, &self.state)) {
            order.wait_lane(lane).map_err(|error| order.settle(&self.state, error))?;
        }
        self.state.collect(order, false);
        self.take_deferred_error().map_or(Ok(()), Err)
    }

    /// Returns memory that is held for reuse and no longer in use to the driver; waits for nothing.
    ///
    /// # Errors
    /// An error met while dealing with what was dropped, once.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// let device = Runtime::new(Host::default())?.device(0)?;
    /// let free = device.memory_info()?.free;
    /// drop(device.alloc::<f32>(1 << 20)?);
    /// device.trim()?;
    /// assert_eq!(device.memory_info()?.free, free);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn trim(&self) -> Result<()> {
        self.state.usable()?;
        self.state.drain(self.order());
        self.state.collect(self.order(), true);
        self.state.free_parked(self.order());
        self.take_deferred_error().map_or(Ok(()), Err)
    }

    /// The oldest error met while dealing with what was dropped, which no call has told yet.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// drop(device.alloc::<u8>(64)?);                              // dropping cannot fail …
    /// if let Some(error) = device.take_deferred_error() {         // … so what went wrong afterwards is told here
    ///     eprintln!("while memory was returned: {error}");
    /// }
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn take_deferred_error(&self) -> Option<Error> {
        self.state.take_error()
    }

    pub(crate) fn order(&self) -> &Order<B> {
        &self.runtime.order
    }

    /// An error of this device, known to be lost or not.
    #[cold]
    pub(crate) fn settle(&self, error: Error) -> Error {
        self.order().settle(&self.state, error)
    }
}
