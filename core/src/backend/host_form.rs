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
pub trait HostBarrier {
    /// Returns when every thread of the block that has not finished has called it.
    /// Writes made before it by any of them are seen by all after it.
    fn wait(&self);
}

/// What a host kernel does for one thread: reads its parameters behind the pointers and works.
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
