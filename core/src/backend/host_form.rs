//! The host form of a kernel: what a backend needs to run it on the host, and nothing typed.
//!
//! Typed host functions and bounds-checked spans are built on this in [`kernel`](crate::kernel).

use super::ParameterLayout;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// One thread of a running kernel, as the backend hands it to a [`HostEntry`].
///
/// Plain data but for [`barrier`](Self::barrier), so that reading an index costs a load.
///
/// ```
/// use polywarp_core::backend::HostThread;
/// /// The indices of a thread of a one-dimensional launch.
/// fn global(thread: &HostThread<'_>) -> u64 {
///     u64::from(thread.block[0]) * u64::from(thread.block_size[0]) + u64::from(thread.thread[0])
/// }
/// # struct Alone;
/// # impl polywarp_core::backend::HostBarrier for Alone { fn wait(&self) {} }
/// let thread = HostThread {
///     thread: [3, 0, 0], block: [2, 0, 0], block_size: [8, 1, 1], grid_size: [4, 1, 1],
///     shared: std::ptr::null_mut(), shared_bytes: 0, barrier: &Alone,
/// };
/// assert_eq!(global(&thread), 19);
/// ```
#[derive(Clone, Copy)]
pub struct HostThread<'k> {
    /// Index of the thread in its block.
    pub thread: [u32; 3],
    /// Index of the block in the grid.
    pub block: [u32; 3],
    /// Threads of a block per axis.
    pub block_size: [u32; 3],
    /// Blocks of the grid per axis.
    pub grid_size: [u32; 3],
    /// The block's shared memory: at least `shared_bytes` bytes, aligned to 16, zeroed or not.
    pub shared: *mut u8,
    /// Static and dynamic shared bytes of the block.
    pub shared_bytes: u32,
    /// Where the threads of the block meet.
    pub barrier: &'k dyn HostBarrier,
}

impl fmt::Debug for HostThread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostThread")
            .field("thread", &self.thread)
            .field("block", &self.block)
            .field("block_size", &self.block_size)
            .field("grid_size", &self.grid_size)
            .field("shared_bytes", &self.shared_bytes)
            .finish_non_exhaustive()
    }
}

/// Where the threads of a block meet.
///
/// ```
/// use polywarp_core::backend::HostBarrier;
/// /// Where threads of a block are real threads, a barrier of the standard library does.
/// struct Threads(std::sync::Barrier);
///
/// impl HostBarrier for Threads {
///     fn wait(&self) {
///         self.0.wait();
///     }
/// }
/// ```
pub trait HostBarrier {
    /// Returns when every thread of the block that has not finished has called it.
    /// Writes made before it by any of them are seen by all after it.
    fn wait(&self);
}

/// What a host kernel does for one thread: reads its parameters behind the pointers and works.
///
/// ```
/// use polywarp_core::backend::{HostBody, HostThread};
/// use std::ffi::c_void;
///
/// /// Stores a thread's index behind a pointer that is the only parameter.
/// struct Iota;
///
/// impl HostBody for Iota {
///     unsafe fn run(&self, thread: &HostThread<'_>, parameters: *const *mut c_void) {
///         // SAFETY: there is one parameter, a pointer to as many elements as the launch has threads.
///         unsafe { (*parameters).cast::<*mut u32>().read().add(thread.thread[0] as usize).write(thread.thread[0]) }
///     }
/// }
/// ```
pub trait HostBody: Send + Sync {
    /// Runs one thread. A panic means a kernel fault; the backend catches it.
    ///
    /// # Safety
    /// * There is one pointer per parameter of the entry's layout, each valid for reads of that parameter's size until this returns.
    /// * `thread` describes one thread of the launch, and its `shared` is valid for its bytes.
    /// * What the launch promised of the memory behind the parameters holds.
    unsafe fn run(&self, thread: &HostThread<'_>, parameters: *const *mut c_void);
}

/// One kernel in its host form.
///
/// ```
/// use polywarp_core::backend::{HostEntry, ParameterLayout};
/// # use polywarp_core::backend::{HostBody, HostThread};
/// # struct Iota;
/// # impl HostBody for Iota { unsafe fn run(&self, _: &HostThread<'_>, _: *const *mut std::ffi::c_void) {} }
/// let entry = HostEntry {
///     name: "iota".into(),
///     parameters: [ParameterLayout { offset: 0, bytes: 8 }].into(),
///     static_shared_bytes: 0,
///     max_block_threads: 0,                                   // the device's limit
///     body: std::sync::Arc::new(Iota),                        // a `HostBody`
/// };
/// assert_eq!(&*entry.name, "iota");
/// ```
#[derive(Clone)]
pub struct HostEntry {
    /// The kernel's name.
    pub name: Arc<str>,
    /// Its parameters in order.
    pub parameters: Arc<[ParameterLayout]>,
    /// Shared memory in bytes that every block of it has besides the dynamic.
    pub static_shared_bytes: u32,
    /// The largest block that it can be launched with; 0 for the device's limit.
    pub max_block_threads: u32,
    /// What it does.
    pub body: Arc<dyn HostBody>,
}

impl fmt::Debug for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEntry").field("name", &self.name).field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
