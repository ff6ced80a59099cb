//! A simulated device: its limits, its share of memory, its peers, and whether a fault has poisoned it.

use super::HostConfig;
use super::adversary::Adversary;
use super::kernel::Pool;
use crate::backend::{DeviceInfo, Feature, Features, Limits, MemoryInfo, Quirk, Quirks};
use crate::{Error, ErrorKind, Result, Text};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Shared memory of a multiprocessor, and what each block of it costs besides its own.
const MULTIPROCESSOR_SHARED_BYTES: u32 = 228 << 10;
const RESERVED_SHARED_BYTES: u32 = 1 << 10;
const MAX_MULTIPROCESSOR_BLOCKS: u32 = 32;

const FEATURES: &[Feature] = &[
    Feature::PeerAccess,
    Feature::PinnedMemory,
    Feature::UnifiedMemory,
    Feature::ConcurrentUnifiedAccess,
    Feature::Prefetch,
    Feature::HostRegistration,
    Feature::HostFunctions,
    Feature::TimingEvents,
    Feature::PitchedCopies,
    Feature::ParameterInfo,
    Feature::Occupancy,
];

/// A device of a [`Host`](super::Host).
///
/// ```
/// use polywarp_core::{backend::Backend, host::{self, Host}};
/// let host = Host::default();
/// let (one, other): (host::Device, host::Device) = (host.device_open(0)?, host.device_open(0)?);     // handles of one device
/// assert_eq!(host.device_info(&one)?.name, host.device_info(&other)?.name);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Device(Arc<State>);

#[derive(Debug)]
struct State {
    ordinal: u32,
    memory_bytes: u64,
    used_bytes: AtomicU64,
    features: Features,
    limits: Limits,
    reaches: Box<[bool]>,
    poison: OnceLock<Text>,
    pool: Arc<Pool>,
    /// In the adversarial mode.
    adversary: Option<Arc<Adversary>>,
}

impl Device {
    pub(super) fn new(ordinal: u32, config: &HostConfig, pool: &Arc<Pool>, adversary: Option<&Arc<Adversary>>) -> Self {
        let peers = |to| !config.hidden.contains(Feature::PeerAccess) && (config.peers)(ordinal, to);
        let reaches: Box<[bool]> = (0..config.devices).map(|to| to == ordinal || peers(to)).collect();
        let has_peer = reaches.iter().filter(|&&reaches| reaches).count() > 1;
        let hidden = |feature| config.hidden.contains(feature) || (feature == Feature::PeerAccess && !has_peer);
        let features = FEATURES.iter().copied().filter(|&feature| !hidden(feature)).collect();
        let limits = Limits {
            max_shared_bytes: MULTIPROCESSOR_SHARED_BYTES - RESERVED_SHARED_BYTES,
            multiprocessors: u32::try_from(pool.threads()).unwrap_or(u32::MAX),
            ..Limits::default()
        };
        Self(Arc::new(State {
            ordinal,
            memory_bytes: config.memory_bytes,
            used_bytes: AtomicU64::new(0),
            features,
            limits,
            reaches,
            poison: OnceLock::new(),
            pool: Arc::clone(pool),
            adversary: adversary.cloned(),
        }))
    }

    pub(super) fn ordinal(&self) -> u32 {
        self.0.ordinal
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.0.pool
    }

    pub(super) fn adversary(&self) -> Option<&Arc<Adversary>> {
        self.0.adversary.as_ref()
    }

    pub(super) fn info(&self) -> DeviceInfo {
        let mut info = DeviceInfo::new("polywarp host reference", "host");
        info.driver = env!("CARGO_PKG_VERSION").into();
        info.memory_bytes = self.0.memory_bytes;
        info.features = self.0.features;
        info.limits = self.0.limits.clone();
        info.quirks = Quirks::NONE.with(Quirk::RunsOnHost).with(Quirk::BoundedQueue);
        info
    }

    pub(super) fn reaches(&self, to: &Self) -> bool {
        self.0.reaches.get(to.0.ordinal as usize).copied().unwrap_or(false)
    }

    /// How many blocks fit one multiprocessor.
    pub(super) fn occupancy(&self, block_threads: u32, shared_bytes: u32) -> u32 {
        let limits = &self.0.limits;
        if block_threads > limits.max_block_threads || shared_bytes > limits.max_shared_bytes {
            return 0;
        }
        let by_threads = limits.max_multiprocessor_threads / block_threads.max(1).next_multiple_of(limits.warp_threads);
        let by_shared = MULTIPROCESSOR_SHARED_BYTES / (shared_bytes + RESERVED_SHARED_BYTES);
        by_threads.min(by_shared).min(MAX_MULTIPROCESSOR_BLOCKS)
    }

    // ---------------------------------------------------------------- memory

    pub(super) fn memory_info(&self) -> MemoryInfo {
        let total = self.0.memory_bytes;
        MemoryInfo { free: total.saturating_sub(self.0.used_bytes.load(Ordering::Relaxed)), total }
    }

    /// Takes `bytes` of the device's memory, or answers that there are not that many.
    pub(super) fn charge(&self, bytes: u64) -> Result<()> {
        let add = |used: u64| used.checked_add(bytes).filter(|&used| used <= self.0.memory_bytes);
        match self.0.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.out_of_memory(bytes)),
        }
    }

    pub(super) fn refund(&self, bytes: u64) {
        self.0.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn out_of_memory(&self, requested: u64) -> Error {
        let MemoryInfo { free, total } = self.memory_info();
        self.error(ErrorKind::OutOfMemory { requested, free, total, held: 0 }, "allocate")
    }

    // ---------------------------------------------------------------- errors

    pub(super) fn error(&self, kind: ErrorKind, operation: &'static str) -> Error {
        Error::new(kind, operation).on(super::NAME, Some(self.0.ordinal))
    }

    pub(super) fn unsupported<T>(&self, feature: Feature, operation: &'static str) -> Result<T> {
        Err(self.error(ErrorKind::Unsupported { feature }, operation))
    }

    /// Refuses what needs a feature that this device lacks.
    pub(super) fn require(&self, feature: Feature, operation: &'static str) -> Result<()> {
        if self.0.features.contains(feature) { self.check(operation) } else { self.unsupported(feature, operation) }
    }

    /// Refuses everything once a fault has been met.
    pub(super) fn check(&self, operation: &'static str) -> Result<()> {
        match self.poison_cause() {
            None => Ok(()),
            Some(cause) => Err(self.error(ErrorKind::DevicePoisoned { cause: cause.clone(), suspects: Vec::new() }, operation)),
        }
    }

    /// The first fault's message, if there was one.
    pub(super) fn poison_cause(&self) -> Option<&Text> {
        self.0.poison.get()
    }

    /// Makes the device unusable; the first cause stays.
    pub(super) fn poison(&self, cause: Text) {
        // A later fault tells nothing more.
        let _ = self.0.poison.set(cause);
    }
}
