//! Kernels: look-up, and launches whose blocks run on all cores.
//!
//! A launch is a shared counter of blocks. The stream's worker takes blocks until none is left; helpers from a pool of threads
//! do the same if they come in time. The worker waits only for blocks that a helper has taken, never for the pool: when all its
//! threads are held by kernels that wait for the host, other launches go on without helpers.
//!
//! # Safety
//!
//! A launch owns a copy of its parameters. What lies behind them is touched only within a block, and the worker ends the
//! launch only when every block has ended, so a helper that comes late touches nothing of the caller's.

#![allow(unsafe_code, reason = "copies parameters from behind raw pointers")]

use super::adversary::Order;
use super::block::Runner;
use super::device::Device;
use crate::backend::{Feature, FunctionInfo, HostEntry, Image, LaunchDescriptor, ParameterLayout};
use crate::{ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::ffi::c_void;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Loaded kernels of a [`Host`](super::Host).
///
/// ```
/// use polywarp_core::{backend::{Backend, Image}, host::{self, Host}};
/// let host = Host::default();
/// // SAFETY: entries of the host form are checked by their types; there are none.
/// let module: host::Module = unsafe { host.module_load(&host.device_open(0)?, &Image::Host(&[])) }?;
/// assert!(host.function(&module, "axpy").is_err());
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Module {
    device: Device,
    kernels: Vec<Arc<Kernel>>,
}

/// A kernel of a [`Module`].
///
/// ```
/// # use polywarp_core::{backend::{HostBody, HostEntry, HostThread}};
/// use polywarp_core::{backend::{Backend, Image}, host::{self, Host}};
/// let host = Host::default();
/// # struct Nothing;
/// # impl HostBody for Nothing { unsafe fn run(&self, _: &HostThread<'_>, _: *const *mut std::ffi::c_void) {} }
/// # let nothing = HostEntry { name: "nothing".into(), parameters: [].into(), static_shared_bytes: 0, max_block_threads: 64, body: std::sync::Arc::new(Nothing) };
/// // SAFETY: `nothing` takes no parameters.
/// let module = unsafe { host.module_load(&host.device_open(0)?, &Image::Host(&[nothing])) }?;
/// let nothing: host::Function = host.function(&module, "nothing")?;
/// assert_eq!(host.function_info(&nothing)?.max_block_threads, 64);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Function {
    device: Device,
    kernel: Arc<Kernel>,
}

#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) entry: HostEntry,
    /// The most fibers that a block has needed: 0 before the first launch, 1 while no thread has waited for another.
    fibers: AtomicU32,
}

impl Kernel {
    /// Notes that a block needed so many; blocks usually need what the one before needed, so this usually only reads.
    pub(super) fn needed(&self, fibers: u32) {
        if self.fibers.load(Ordering::Relaxed) < fibers {
            self.fibers.fetch_max(fibers, Ordering::Relaxed);
        }
    }
}

impl Module {
    pub(super) fn load(device: &Device, image: &Image<'_>) -> Result<Self> {
        device.check("module_load")?;
        let Image::Host(entries) = image else {
            let (takes, present) = (vec!["Host".into()], vec![format!("{:?}", image.form())]);
            return Err(device.error(ErrorKind::NoSuchForm { backend: super::NAME.into(), takes, present }, "module_load"));
        };
        let kernel = |entry: &HostEntry| Arc::new(Kernel { entry: entry.clone(), fibers: AtomicU32::new(0) });
        Ok(Self { device: device.clone(), kernels: entries.iter().map(kernel).collect() })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn function(&self, name: &str) -> Result<Function> {
        self.device.check("function")?;
        match self.kernels.iter().find(|kernel| *kernel.entry.name == *name) {
            Some(kernel) => Ok(Function { device: self.device.clone(), kernel: Arc::clone(kernel) }),
            None => {
                let present = self.kernels.iter().map(|kernel| kernel.entry.name.to_string()).collect();
                Err(self.device.error(ErrorKind::NoSuchFunction { name: name.into(), present }, "function"))
            }
        }
    }
}

impl Function {
    pub(super) fn info(&self) -> Result<FunctionInfo> {
        self.device.check("function_info")?;
        let (entry, limits) = (&self.kernel.entry, self.device.limits());
        let tells = self.device.require(Feature::ParameterInfo, "function_info").is_ok();
        Ok(FunctionInfo {
            max_block_threads: self.max_block_threads(),
            static_shared_bytes: entry.static_shared_bytes,
            max_dynamic_shared_bytes: limits.max_shared_bytes.saturating_sub(entry.static_shared_bytes),
            parameters: tells.then(|| entry.parameters.to_vec()),
            ..FunctionInfo::default()
        })
    }

    pub(super) fn occupancy(&self, block_threads: u32, dynamic_shared_bytes: u32) -> Result<u32> {
        self.device.require(Feature::Occupancy, "occupancy")?;
        if block_threads > self.max_block_threads() {
            return Ok(0);
        }
        Ok(self.device.occupancy(block_threads, self.kernel.entry.static_shared_bytes.saturating_add(dynamic_shared_bytes)))
    }

    fn max_block_threads(&self) -> u32 {
        match self.kernel.entry.max_block_threads {
            0 => self.device.limits().max_block_threads,
            most => most.min(self.device.limits().max_block_threads),
        }
    }
}

/// Parameters of a launch: one block of bytes, and a pointer to each.
struct Parameters {
    pointers: Vec<*mut c_void>,
    /// What they point into; a `Vec`, because moving it leaves pointers into it valid.
    _block: Vec<Chunk>,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Chunk(#[expect(dead_code, reason = "reached through pointers")] [u8; 64]);

/// Aligned bytes, at least so many, all of this value.
pub(super) fn chunks(bytes: usize, value: u8) -> Vec<Chunk> {
    vec![Chunk([value; 64]); bytes.div_ceil(64)]
}

impl Parameters {
    /// # Safety
    /// * Each pointer is valid for reads of its layout's size.
    unsafe fn copy(descriptor: &LaunchDescriptor<'_>) -> Self {
        let end = descriptor.layout.iter().map(|layout| layout.offset as usize + layout.bytes as usize).max().unwrap_or(0);
        let mut block = chunks(end, 0);
        let start = block.as_mut_ptr().cast::<u8>();
        let place = |(&source, layout): (&*mut c_void, &ParameterLayout)| {
            // SAFETY: `block` holds every layout's end.
            let to = unsafe { start.add(layout.offset as usize) };
            // SAFETY: the caller promises the source; the destination is a fresh block of ours.
            unsafe { to.copy_from_nonoverlapping(source.cast(), layout.bytes as usize) };
            to.cast()
        };
        let pointers = descriptor.parameters.iter().zip(descriptor.layout).map(place).collect();
        Self { pointers, _block: block }
    }
}

/// A launch as it waits in a queue and as its participants share it.
pub(super) struct Launch {
    device: Device,
    kernel: Arc<Kernel>,
    parameters: Parameters,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
    /// Blocks in all, and the first that nobody has taken.
    blocks: u64,
    next: AtomicU64,
    /// Blocks that have ended or will never start.
    done: Mutex<u64>,
    ended: Condvar,
    /// In the adversarial mode.
    order: Option<Order>,
}

// SAFETY: the pointers lead into the launch's own block of parameters, which nobody writes; what the values in it lead to may be
// used by this launch on any thread (the promise of `Backend::launch`'s caller).
unsafe impl Send for Launch {}
// SAFETY: as above; everything else that changes is atomic or behind a lock.
unsafe impl Sync for Launch {}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("kernel", &self.kernel.entry.name).field("grid", &self.grid).finish_non_exhaustive()
    }
}

impl Launch {
    /// # Safety
    /// * The promises of [`Backend::launch`](crate::backend::Backend::launch) hold.
    pub(super) unsafe fn new(function: &Function, descriptor: &LaunchDescriptor<'_>) -> Result<Self> {
        let Function { device, kernel } = function;
        let geometry = descriptor.geometry;
        if geometry.cooperative {
            return device.unsupported(Feature::CooperativeLaunch, "launch");
        }
        if geometry.cluster != [1; 3] {
            return device.unsupported(Feature::Clusters, "launch");
        }
        let (shared, limit) =
            (u64::from(kernel.entry.static_shared_bytes) + u64::from(geometry.shared_bytes), device.limits().max_shared_bytes);
        let shared_bytes = u32::try_from(shared).ok().filter(|&bytes| bytes <= limit).ok_or_else(|| {
            let axis = "shared memory of a block in bytes".into();
            device.error(ErrorKind::LimitExceeded { axis, asked: shared, limit: limit.into() }, "launch")
        })?;
        let blocks = geometry.grid.iter().map(|&blocks| u64::from(blocks)).product();
        Ok(Self {
            device: device.clone(),
            kernel: Arc::clone(kernel),
            // SAFETY: the caller's promise.
            parameters: unsafe { Parameters::copy(descriptor) },
            grid: geometry.grid,
            block: geometry.block,
            shared_bytes,
            blocks,
            next: AtomicU64::new(0),
            done: Mutex::new(0),
            ended: Condvar::new(),
            order: device.adversary().map(|adversary| adversary.order(blocks)),
        })
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub(super) fn order(&self) -> Option<&Order> {
        self.order.as_ref()
    }

    pub(super) fn parameters(&self) -> *const *mut c_void {
        self.parameters.pointers.as_ptr()
    }

    /// Runs all blocks, with helpers; the first fault poisons the device and stops the rest.
    pub(super) fn run(self: &Arc<Self>) {
        if self.order.is_some() {
            self.take_part(u64::MAX, 1);
            return;
        }
        let (pool, threads): (_, u32) = (self.device.pool(), self.block.iter().product());
        let fibers = || self.kernel.fibers.load(Ordering::Relaxed);
        if threads > 1 && fibers() == 0 {
            // Whether threads meet decides how many stacks a block needs, and that how many blocks may run at once.
            self.take_part(1, 1);
        }
        let stacks = if fibers() > 1 { threads } else { 1 };
        let untaken = self.blocks.saturating_sub(self.next.load(Ordering::Relaxed));
        let participants = pool.threads().min(usize::try_from(untaken).unwrap_or(usize::MAX));
        let at_once = (untaken / (8 * participants.max(1) as u64)).clamp(1, 64);
        if participants > 1 {
            let launch = Arc::clone(self);
            pool.spawn(participants - 1, stacks, move || launch.take_part(u64::MAX, at_once));
        }
        self.take_part(u64::MAX, at_once);
        self.end()
    }

    /// Takes blocks, some at once, and runs them, until none is left or that often.
    fn take_part(&self, times: u64, at_once: u64) {
        let mut runner = None;
        let mut done = 0;
        for _ in 0..times {
            let Some(mut blocks) = self.take(at_once) else { break };
            done += blocks.end - blocks.start;
            let runner = runner.get_or_insert_with(|| Runner::new(self));
            if let Err(fault) = blocks.try_for_each(|block| runner.run(block)) {
                // At once, since blocks that wait for this one may never end.
                self.device.poison(fault);
                done += self.stop();
                break;
            }
        }
        if done > 0 {
            *self.done.lock() += done;
            self.ended.notify_all();
        }
    }

    fn take(&self, most: u64) -> Option<Range<u64>> {
        let start = self.next.fetch_add(most, Ordering::Relaxed);
        (start < self.blocks).then(|| start..(start + most).min(self.blocks))
    }

    /// Lets nobody take another block, and answers how many will so never start.
    fn stop(&self) -> u64 {
        self.blocks - self.next.swap(self.blocks, Ordering::Relaxed).min(self.blocks)
    }

    /// Waits for the blocks that helpers have taken.
    fn end(&self) {
        self.ended.wait_while(&mut self.done.lock(), |done| *done < self.blocks);
    }
}

/// Threads that help with launches: one pool for the process, or one of a [`Host`](super::Host) that asks for a number.
#[derive(Debug)]
pub(super) struct Pool {
    threads: usize,
    /// Helpers that can start at once. More are never asked for, so nothing piles up behind kernels that wait.
    idle: AtomicUsize,
    rayon: OnceLock<Option<rayon::ThreadPool>>,
}

impl Pool {
    pub(super) fn of(threads: Option<NonZeroUsize>) -> Arc<Self> {
        static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();
        match threads {
            Some(threads) => Arc::new(Self::new(threads.get())),
            None => {
                let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
                Arc::clone(SHARED.get_or_init(|| Arc::new(Self::new(cores()))))
            }
        }
    }

    /// One of the threads is a stream's own worker.
    fn new(threads: usize) -> Self {
        Self { threads, idle: AtomicUsize::new(threads - 1), rayon: OnceLock::new() }
    }

    /// Threads that run a launch together, the stream's worker included.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Asks for helpers that need so many stacks each; as many come as are idle, perhaps none.
    fn spawn(self: &Arc<Self>, wanted: usize, stacks: u32, help: impl Fn() + Clone + Send + 'static) {
        let Some(rayon) = self.rayon() else { return };
        for helper in (0..wanted).map_while(|_| Helper::hire(self, stacks)) {
            let help = help.clone();
            rayon.spawn(move || {
                let _helper = helper;
                help();
            });
        }
    }

    /// `None` where the system gives no threads: workers then run alone.
    fn rayon(&self) -> Option<&rayon::ThreadPool> {
        let build = || {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(self.threads - 1);
            builder.thread_name(|index| format!("polywarp-{index}")).build().ok()
        };
        if self.threads < 2 { None } else { self.rayon.get_or_init(build).as_ref() }
    }
}

/// A thread of the pool and the stacks that it may need, until dropped.
struct Helper {
    pool: Arc<Pool>,
    stacks: u32,
}

/// Stacks that all helpers of the process may need together; systems limit mappings to about four times as many.
static FREE_STACKS: AtomicU32 = AtomicU32::new(16 << 10);

impl Helper {
    fn hire(pool: &Arc<Pool>, stacks: u32) -> Option<Self> {
        pool.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |idle| idle.checked_sub(1)).ok()?;
        if FREE_STACKS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(stacks)).is_err() {
            pool.idle.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Self { pool: Arc::clone(pool), stacks })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        FREE_STACKS.fetch_add(self.stacks, Ordering::Relaxed);
        self.pool.idle.fetch_add(1, Ordering::Relaxed);
    }
}
