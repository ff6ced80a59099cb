//! What a device can do and how much of it: capabilities, limits and quirks, as data.
//!
//! **Naming.** A [`Feature`] is a noun for something that may be absent; a limit in [`Limits`] is `max_…` with its unit; a
//! [`Quirk`] is a sentence about behaviour that differs from the contract's usual case. None of them names a vendor.

use std::fmt;

macro_rules! flags {
    ($(#[$doc:meta])* $Flag:ident in $Set:ident: $($(#[$flag_doc:meta])* $flag:ident,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum $Flag { $($(#[$flag_doc])* $flag),* }

        impl $Flag {
            /// Every one there is, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$flag),*];
        }

        impl fmt::Display for $Flag {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }

        #[doc = concat!("A set of [`", stringify!($Flag), "`]s; see there for an example.")]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $Set(u64);

        impl $Set {
            /// Nothing.
            pub const NONE: Self = Self(0);

            /// This set and one more.
            #[must_use]
            pub const fn with(self, one: $Flag) -> Self {
                Self(self.0 | 1 << one as u8)
            }

            /// This set without one.
            #[must_use]
            pub const fn without(self, one: $Flag) -> Self {
                Self(self.0 & !(1 << one as u8))
            }

            /// Whether the set has it.
            #[must_use]
            pub const fn contains(self, one: $Flag) -> bool {
                self.0 >> one as u8 & 1 == 1
            }

            /// The members, in the order of declaration.
            pub fn iter(self) -> impl Iterator<Item = $Flag> {
                $Flag::ALL.iter().copied().filter(move |&one| self.contains(one))
            }
        }

        impl FromIterator<$Flag> for $Set {
            fn from_iter<I: IntoIterator<Item = $Flag>>(all: I) -> Self {
                all.into_iter().fold(Self::NONE, Self::with)
            }
        }

        impl fmt::Debug for $Set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_set().entries(self.iter()).finish()
            }
        }
    };
}

flags! {
    /// A capability that a device may lack. Asking for a missing one answers [`Unsupported`](crate::ErrorKind::Unsupported)
    /// and has no effect.
    ///
    /// ```
    /// use polywarp_core::backend::{Feature, Features};
    /// let set = Features::NONE.with(Feature::Graphs);
    /// assert!(set.contains(Feature::Graphs) && !set.contains(Feature::PeerAccess));
    /// assert_eq!(format!("{set:?}"), "{Graphs}");
    /// ```
    Feature in Features:
    /// Kernels of one device can access memory of another (asked per pair).
    PeerAccess,
    /// Page-locked host memory that the device reaches.
    PinnedMemory,
    /// Memory that both host and device reach at one address.
    UnifiedMemory,
    /// Host and device may use different unified allocations at the same time.
    ConcurrentUnifiedAccess,
    /// Unified memory can be moved ahead of its use.
    Prefetch,
    /// Existing host memory can be page-locked.
    HostRegistration,
    /// Allocation ordered on a stream.
    StreamOrderedAllocation,
    /// Host functions run in stream order.
    HostFunctions,
    /// Events that measure time.
    TimingEvents,
    /// Streams with priorities.
    StreamPriorities,
    /// The legacy default stream as a stream of its own.
    LegacyStream,
    /// Copies of rectangles and boxes with pitches.
    PitchedCopies,
    /// Launches whose blocks may all synchronise.
    CooperativeLaunch,
    /// Launches in clusters of blocks.
    Clusters,
    /// Kernel sources compiled at run time.
    RuntimeCompilation,
    /// Functions tell offset and size of their parameters.
    ParameterInfo,
    /// How many blocks fit a multiprocessor can be asked.
    Occupancy,
    /// Executable graphs.
    Graphs,
    /// Streams can be captured into graphs.
    Capture,
    /// Module globals can be looked up.
    Globals,
}

flags! {
    /// Behaviour that the vendor's driver shows and that code above must allow for.
    ///
    /// ```
    /// use polywarp_core::backend::{Quirk, Quirks};
    /// let quirks = Quirks::NONE.with(Quirk::BoundedQueue).with(Quirk::FaultAborts).without(Quirk::BoundedQueue);
    /// assert!(quirks.iter().eq([Quirk::FaultAborts]));
    /// assert!(Quirk::ALL.contains(&Quirk::RunsOnHost));
    /// ```
    Quirk in Quirks:
    /// A kernel fault may end the process.
    FaultAborts,
    /// Every update of an executable graph leaks a little.
    GraphUpdatesLeak,
    /// Submitting blocks the caller once the queue is full.
    BoundedQueue,
    /// Freeing page-locked memory waits for the device.
    PinnedFreeWaits,
    /// Kernel threads run as host threads of this process.
    RunsOnHost,
}

/// How much of each thing a device has. All are checked before the backend is called.
///
/// ```
/// use polywarp_core::backend::Limits;
/// let mut limits = Limits::default();
/// limits.warp_threads = 64;
/// assert_eq!(limits.max_block[0], 1024);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Blocks of a grid, per axis.
    pub max_grid: [u32; 3],
    /// Threads of a block, per axis.
    pub max_block: [u32; 3],
    /// Threads of a block in all.
    pub max_block_threads: u32,
    /// Threads of a grid in all; `u64::MAX` where only the axes limit it.
    pub max_grid_threads: u64,
    /// Shared memory of a block in bytes, static and dynamic, as a kernel gets it (opt-in included).
    pub max_shared_bytes: u32,
    /// Parameters of a launch in bytes, by placed offset.
    pub max_parameter_bytes: u32,
    /// Threads of a warp (wavefront).
    pub warp_threads: u32,
    /// Multiprocessors (compute units).
    pub multiprocessors: u32,
    /// Resident threads of a multiprocessor.
    pub max_multiprocessor_threads: u32,
    /// Blocks of a cluster.
    pub max_cluster_blocks: u32,
    /// What every allocation's address is a multiple of, in bytes.
    pub allocation_alignment: u64,
    /// Priorities of streams, lowest to highest; equal where there are none.
    pub stream_priorities: [i32; 2],
}

impl Default for Limits {
    /// What every device of the field offers.
    fn default() -> Self {
        Self {
            max_grid: [0x7fff_ffff, 65_535, 65_535],
            max_block: [1024, 1024, 64],
            max_block_threads: 1024,
            max_grid_threads: u64::MAX,
            max_shared_bytes: 48 << 10,
            max_parameter_bytes: 4096,
            warp_threads: 32,
            multiprocessors: 1,
            max_multiprocessor_threads: 2048,
            max_cluster_blocks: 1,
            allocation_alignment: 256,
            stream_priorities: [0, 0],
        }
    }
}

/// What a device is: asked once, when it is opened.
///
/// ```
/// use polywarp_core::backend::{DeviceInfo, Feature};
/// let mut info = DeviceInfo::new("simulated", "toy");
/// info.features = [Feature::Occupancy].into_iter().collect();
/// assert_eq!(info.name, "simulated");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device's name, as its vendor writes it.
    pub name: String,
    /// What compilers target, such as `sm_90` or `gfx90a:sramecc+:xnack-`.
    pub architecture: String,
    /// The driver's version, as its vendor writes it.
    pub driver: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Capabilities.
    pub features: Features,
    /// Limits.
    pub limits: Limits,
    /// Behaviour to allow for.
    pub quirks: Quirks,
}

impl DeviceInfo {
    /// A device with no capability, default limits and no quirk; set what differs.
    ///
    /// ```
    /// use polywarp_core::backend::{DeviceInfo, Features, Limits, Quirks};
    /// let info = DeviceInfo::new("simulated", "toy");
    /// assert_eq!((info.features, info.quirks, info.limits), (Features::NONE, Quirks::NONE, Limits::default()));
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, architecture: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            architecture: architecture.into(),
            driver: String::new(),
            memory_bytes: 0,
            features: Features::NONE,
            limits: Limits::default(),
            quirks: Quirks::NONE,
        }
    }
}
