//! A device as the order sees it: whether it is lost, what was dropped on it, what waits to be reused.

#![allow(unsafe_code, reason = "calls the contract's methods")]

use super::announce::Order;
use super::bugs::{Bug, bug};
use super::clock::Slot;
use super::deferred::{Deferred, Node, Retired};
use super::uses::Needs;
use crate::backend::{AllocationDescriptor, Backend, DeviceInfo, EventDescriptor, MemoryKind};
use crate::sync::Mutex;
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

/// One opened device. Shared by everything made from it.
pub(crate) struct DeviceState<B: Backend> {
    pub(crate) ordinal: u32,
    pub(crate) raw: B::Device,
    pub(crate) info: DeviceInfo,
    pub(crate) backend_name: &'static str,
    poison: OnceLock<Error>,
    pub(crate) deferred: Deferred<B>,
    house: Mutex<House<B>>,
    errors: Mutex<Vec<Error>>,
    kernel_names: Mutex<Vec<Arc<str>>>,
    /// Ordinals of devices whose memory kernels of this one reach.
    peers: Mutex<Vec<u32>>,
    pub(crate) reaper: Reaper,
    /// Parked bytes from which on they are returned.
    much: AtomicU64,
}

/// Parked blocks of one size that an allocation looks at, from either end.
const LOOKED_AT: usize = 32;

/// Parked bytes that are not yet worth returning.
const LITTLE: u64 = 64 << 20;

/// Looks once whether somebody is to be woken; answers whether it is over.
type Job = Box<dyn FnMut() -> bool + Send>;

/// A thread that looks on behalf of others whether what they wait for is there, and wakes them: nobody waits behind another's work.
/// Started by the first who asks, gone with the device.
#[derive(Debug, Default)]
pub(crate) struct Reaper(OnceLock<Option<mpsc::Sender<Job>>>);

impl Reaper {
    /// Has the thread do this again and again until it is over.
    pub(crate) fn send(&self, job: Job) -> Result<()> {
        let start = || {
            let (jobs, received) = mpsc::channel::<Job>();
            let work = move || look_after(&received);
            std::thread::Builder::new().name("polywarp-reaper".into()).spawn(work).ok().map(|_| jobs)
        };
        let sent = self.0.get_or_init(start).as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        let refusal = || Error::new(ErrorKind::Driver { what: "no thread to wait with".into() }, "read");
        if sent { Ok(()) } else { Err(refusal()) }
    }
}

/// The thread's work: between looks it sleeps, 20 µs at first and 1 ms at most.
fn look_after(received: &mpsc::Receiver<Job>) {
    const SHORTEST: Duration = Duration::from_micros(20);
    let mut jobs: Vec<Job> = Vec::new();
    let mut pause = SHORTEST;
    loop {
        let next = if jobs.is_empty() { received.recv().ok() } else { received.recv_timeout(pause).ok() };
        match next {
            None if jobs.is_empty() => return, // The device is gone.
            None => pause = (2 * pause).min(Duration::from_millis(1)),
            Some(job) => {
                jobs.push(job);
                pause = SHORTEST;
            }
        }
        jobs.retain_mut(|job| !job());
    }
}

/// What was dropped and taken off the deferred list, and waits until its uses are complete.
struct House<B: Backend> {
    /// Memory by kind and exact size.
    parked: HashMap<(MemoryKind, u64), Vec<Box<Node<B>>>>,
    /// Bytes of it, by kind.
    parked_bytes: HashMap<MemoryKind, u64>,
    /// Streams without a handle.
    streams: Vec<Slot>,
    /// Modules without a handle, and all that was submitted when they were dropped.
    modules: Vec<(B::Module, Needs)>,
}

impl<B: Backend> fmt::Debug for DeviceState<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceState").field("ordinal", &self.ordinal).field("name", &self.info.name).finish_non_exhaustive()
    }
}

impl<B: Backend> DeviceState<B> {
    pub(crate) fn new(ordinal: u32, raw: B::Device, info: DeviceInfo, backend_name: &'static str) -> Self {
        let house = House { parked: HashMap::new(), parked_bytes: HashMap::new(), streams: Vec::new(), modules: Vec::new() };
        Self {
            ordinal,
            raw,
            info,
            backend_name,
            poison: OnceLock::new(),
            deferred: Deferred::new(),
            house: Mutex::new(house),
            errors: Mutex::new(Vec::new()),
            kernel_names: Mutex::new(Vec::new()),
            peers: Mutex::new(Vec::new()),
            reaper: Reaper::default(),
            much: AtomicU64::new(0),
        }
    }

    /// Whether the device can be used, and this thread may use it: not lost, not inside a host function.
    #[inline]
    pub(crate) fn usable(&self) -> Result<()> {
        if let Some(error) = self.poison.get() {
            return Err(error.clone());
        }
        if super::callback::is_active() {
            return Err(self.error(ErrorKind::InCallback, "call"));
        }
        Ok(())
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, operation: &'static str) -> Error {
        Error::new(kind, operation).on(self.backend_name, Some(self.ordinal))
    }

    pub(crate) fn event_create(&self, backend: &B) -> Result<B::Event> {
        backend.event_create(&self.raw, &EventDescriptor::ordering())
    }

    /// Keeps an error of a call that succeeded all the same, for the next wait.
    #[cold]
    pub(crate) fn defer_error(&self, error: Error) {
        self.errors.lock().push(error);
    }

    /// The oldest error of draining what was dropped, once.
    pub(crate) fn take_error(&self) -> Option<Error> {
        let mut errors = self.errors.lock();
        if errors.is_empty() { None } else { Some(errors.remove(0)) }
    }

    /// A number for a kernel's name, to be remembered at launches.
    pub(crate) fn kernel_label(&self, name: &Arc<str>) -> u32 {
        let mut names = self.kernel_names.lock();
        let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(Arc::clone(name));
            names.len() - 1
        });
        index as u32 + 1
    }

    /// Makes the memory of `other` reachable for kernels of this device, once per ordered pair.
    pub(crate) fn reach(&self, backend: &B, other: &Self, operation: &'static str) -> Result<()> {
        let mut peers = self.peers.lock();
        if self.ordinal == other.ordinal || peers.contains(&other.ordinal) {
            return Ok(());
        }
        if !backend.peer_possible(&self.raw, &other.raw)? {
            return Err(self.error(ErrorKind::NoPeerAccess { from: self.ordinal, to: other.ordinal }, operation));
        }
        backend.peer_enable(&self.raw, &other.raw)?;
        peers.push(other.ordinal);
        Ok(())
    }

    /// Takes what was dropped off the list. No work is waited for.
    pub(crate) fn drain(&self, order: &Order<B>) {
        if !self.deferred.is_empty() {
            let mut house = self.house.lock();
            for node in self.deferred.take() {
                self.take_over(&mut house, order, node);
            }
        }
    }

    fn take_over(&self, house: &mut House<B>, order: &Order<B>, node: Box<Node<B>>) {
        match &node.retired {
            Retired::Block(block) => {
                if order.ledger().lists[block.list].is_lent() {
                    std::mem::forget(node); // Lent and never given back: leaked, never reused.
                    return;
                }
                *house.parked_bytes.entry(block.raw.kind).or_default() += block.raw.bytes;
                house.parked.entry((block.raw.kind, block.raw.bytes)).or_default().push(node);
            }
            _ => match node.retired {
                Retired::Block(_) => {}
                Retired::Stream(slot) => house.streams.push(slot),
                // SAFETY: the user's handle is gone, and it held the event alone, so no call on it is in progress.
                Retired::Event(event) => self.deferred_call(order, unsafe { order.backend.event_destroy(event) }),
                Retired::Module(module) => house.modules.push((module, order.everything_submitted())),
            },
        }
    }

    /// Keeps the error for the next wait; one that loses the device is kept once, since every later call tells it.
    pub(crate) fn deferred_call(&self, order: &Order<B>, result: Result<()>) {
        if let Err(error) = result
            && !self.is_poisoned()
        {
            self.defer_error(order.settle(self, error));
        }
    }

    /// Destroys a queue that got no slot.
    pub(crate) fn destroy_queue(&self, order: &Order<B>, queue: B::Stream) {
        // SAFETY: nothing was submitted to it.
        self.deferred_call(order, unsafe { order.backend.stream_destroy(queue) });
    }

    /// Destroys pooled events that nobody holds.
    pub(crate) fn destroy_events(&self, order: &Order<B>) {
        for event in order.take_spare_events(self) {
            // SAFETY: it was held by the pool alone.
            self.deferred_call(order, unsafe { order.backend.event_destroy(event) });
        }
    }

    fn recycle(&self, order: &Order<B>, slot: Slot) {
        if let Some(queue) = order.recycle(slot) {
            // SAFETY: the stream's final event is complete and nobody can submit to it any more.
            self.deferred_call(order, unsafe { order.backend.stream_destroy(queue) });
        }
    }

    /// Recycles streams and unloads modules whose work is complete; asks the driver if `poll`.
    pub(crate) fn collect(&self, order: &Order<B>, poll: bool) {
        let mut house = self.house.lock();
        let House { streams, modules, .. } = &mut *house;
        let ended = |slot: &mut Slot| order.is_over(*slot, poll) || bug(Bug::RecycledEarly);
        let done: Vec<Slot> = streams.extract_if(.., ended).collect();
        for slot in done {
            self.recycle(order, slot);
        }
        let complete = |needs: &Needs| {
            if poll {
                let _unknown = order.poll(needs);
            }
            let ledger = order.ledger();
            needs.iter().all(|&(slot, sequence)| ledger.host.get(slot) >= sequence)
        };
        let unused: Vec<B::Module> = modules.extract_if(.., |(_, needs)| complete(needs)).map(|(module, _)| module).collect();
        drop(house);
        for module in unused {
            // SAFETY: everything submitted when its last handle was dropped is complete, so none of its kernels is pending.
            self.deferred_call(order, unsafe { order.backend.module_unload(module) });
        }
    }

    /// Whether so much is parked that complete blocks are to be returned before new memory is asked for.
    pub(crate) fn is_much(&self, parked: u64) -> bool {
        parked > self.much.load(Ordering::Relaxed).max(LITTLE).max(self.info.memory_bytes / 64)
    }

    /// So much could not be returned: the next time is when it has doubled.
    pub(crate) fn grow_much(&self, parked: u64) {
        self.much.store(parked.saturating_mul(2), Ordering::Relaxed);
    }

    /// A parked block of exactly this kind and size: the first that `fits` (asked by its list).
    pub(crate) fn unpark(&self, kind: MemoryKind, bytes: u64, mut fits: impl FnMut(usize) -> bool) -> Option<Box<Node<B>>> {
        let mut house = self.house.lock();
        let House { parked, parked_bytes, .. } = &mut *house;
        let blocks = parked.get_mut(&(kind, bytes))?;
        // The oldest are the likeliest to be complete, the newest to be the asking stream's own.
        let (oldest, newest) = (LOOKED_AT.min(blocks.len()), blocks.len().saturating_sub(LOOKED_AT).max(LOOKED_AT));
        let mut looked_at = (0..oldest).chain(newest..blocks.len());
        let index = looked_at.find(|&index| matches!(&blocks[index].retired, Retired::Block(block) if fits(block.list)))?;
        let node = blocks.remove(index);
        parked_bytes.entry(kind).and_modify(|held| *held -= bytes);
        Some(node)
    }

    pub(crate) fn parked_bytes(&self, kind: MemoryKind) -> u64 {
        self.house.lock().parked_bytes.get(&kind).copied().unwrap_or(0)
    }

    /// Returns parked memory whose uses are complete to the driver.
    pub(crate) fn free_parked(&self, order: &Order<B>) {
        let mut unused = Vec::new();
        {
            let mut house = self.house.lock();
            let House { parked, parked_bytes, .. } = &mut *house;
            parked.retain(|&(kind, bytes), blocks| {
                unused.extend(blocks.extract_if(.., |node| {
                    let Retired::Block(block) = &node.retired else { return false };
                    let _unknown = order.poll(&order.needs_of(block.list));
                    let complete = order.is_ready(block.list, None);
                    if complete {
                        parked_bytes.entry(kind).and_modify(|held| *held -= bytes);
                    }
                    complete
                }));
                !blocks.is_empty()
            });
        }
        for node in unused {
            if let Retired::Block(block) = node.retired {
                let mut ledger = order.ledger();
                ledger.forget_guards(block.list);
                ledger.lists.remove(block.list);
                drop(ledger);
                // SAFETY: every use is complete, and the last handle is gone.
                self.deferred_call(order, unsafe { order.backend.free(&self.raw, block.raw) });
            }
        }
    }

    /// Allocates from the driver; success with a null address counts as out of memory.
    pub(crate) fn allocate(&self, backend: &B, bytes: u64, kind: MemoryKind) -> Result<crate::backend::RawAllocation> {
        let raw = backend.allocate(&self.raw, &AllocationDescriptor::new(bytes, kind))?;
        if raw.address.0 == 0 {
            return Err(self.out_of_memory(backend, bytes));
        }
        Ok(raw)
    }

    pub(crate) fn out_of_memory(&self, backend: &B, requested: u64) -> Error {
        let info = backend.memory_info(&self.raw).ok();
        let (free, total) = info.map_or((0, self.info.memory_bytes), |info| (info.free, info.total));
        self.error(ErrorKind::OutOfMemory { requested, free, total, held: self.parked_bytes(MemoryKind::Device) }, "allocate")
    }
}

impl<B: Backend> Order<B> {
    /// Turns the first report of a kernel fault into the answer that every later call gives: it names the suspects.
    #[cold]
    pub(crate) fn settle(&self, device: &DeviceState<B>, error: Error) -> Error {
        let ErrorKind::DevicePoisoned { cause, .. } = error.kind() else { return error.on(device.backend_name, Some(device.ordinal)) };
        // The fault may be another device's, met by waiting for its work.
        let other = error.device().filter(|&ordinal| ordinal != device.ordinal);
        let lanes = other.map(|_| self.lanes()).unwrap_or_default();
        let found = lanes.iter().find(|lane| Some(lane.device.ordinal) == other).map(|lane| &*lane.device);
        let device = match (other, found) {
            (None, _) => device,
            (Some(_), Some(found)) => found,
            (Some(_), None) => return error,
        };
        let cause = cause.clone();
        let suspects = self.suspects(device);
        let poison = ErrorKind::DevicePoisoned { cause, suspects };
        device.poison.get_or_init(|| error.into_kind(poison).on(device.backend_name, Some(device.ordinal))).clone()
    }

    /// Kernels launched on any stream of the device and not known to be complete.
    fn suspects(&self, device: &DeviceState<B>) -> Vec<String> {
        let names = device.kernel_names.lock().clone();
        let mut suspects: Vec<String> = Vec::new();
        for lane in self.lanes().iter().filter(|lane| lane.device.ordinal == device.ordinal) {
            let complete = self.ledger().host.get(lane.slot);
            let state = lane.lock();
            suspects.extend(state.suspects(complete).filter_map(|label| names.get(label as usize - 1)).map(ToString::to_string));
        }
        suspects.sort();
        suspects.dedup();
        suspects
    }
}
