//! Transfers between borrowed host memory and device memory, through pinned slots.
//!
//! Pageable memory is never handed to the driver: a copy from or to a borrowed slice passes through pinned blocks of the pool, and returns when
//! the last source byte has been read (upload) or the last byte has arrived (download). A slot is a tracked allocation like any
//! other, so it is reused behind the copy that reads it. A copy longer than the free slots waits for slots.

#![allow(unsafe_code, reason = "moves bytes between typed slices and pinned memory")]

use super::Region;
use crate::backend::{AccessMode, Backend, MemoryKind, Pattern};
use crate::convert::Element;
use crate::memory::Allocation;
use crate::stream::Stream;
use crate::{Error, ErrorKind, Result};
use bytemuck::{AnyBitPattern, CheckedBitPattern};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// The longest run that one slot takes, in bytes.
const SLOT_BYTES: u64 = 4 << 20;

/// Slots that a download fills before it drains the first.
const WINDOW: usize = 4;

/// A pinned block for this many bytes, of a size that others share.
fn slot<B: Backend>(stream: &Stream<B>, bytes: u64) -> Result<Arc<Allocation<B>>> {
    stream.device.allocate(bytes.next_power_of_two(), MemoryKind::Pinned, None)
}

fn whole<B: Backend>(slot: &Arc<Allocation<B>>, bytes: u64) -> Region<'_, B> {
    Region { allocation: Some(slot), device: &slot.device, offset: 0, bytes }
}

/// Elements that fit into one slot, at least one.
fn run_length<T>() -> usize {
    (SLOT_BYTES as usize / size_of::<T>().max(1)).max(1)
}

/// Writes the elements' meaningful bytes; padding becomes zero.
///
/// # Safety
/// `to` is valid for writes of all the elements' bytes.
unsafe fn store_all<T: Element>(data: &[T], to: *mut u8) {
    for (index, value) in data.iter().enumerate() {
        let place = to.wrapping_add(index * size_of::<T>());
        // SAFETY: the caller promised room for every element.
        unsafe { place.write_bytes(0, size_of::<T>()) };
        // SAFETY: as above; the place is zeroed.
        unsafe { value.store(place) };
    }
}

impl<B: Backend> Region<'_, B> {
    /// Writes elements that fill the region exactly.
    #[track_caller]
    pub(crate) fn upload<T: Element>(&self, stream: &Stream<B>, data: &[T]) -> Result<()> {
        stream.device.state.usable()?;
        if self.bytes == 0 {
            return Ok(());
        }
        let mut offset = 0;
        for run in data.chunks(run_length::<T>()) {
            let bytes = size_of_val(run) as u64;
            let slot = slot(stream, bytes)?;
            let source = whole(&slot, bytes);
            if let Some(open) = source.open(AccessMode::Write)? {
                // SAFETY: the slot has at least `bytes` bytes and is open to the host alone.
                unsafe { store_all(run, open.host) };
            }
            self.part(offset, bytes).copy_from(stream, source)?;
            offset += bytes;
        }
        Ok(())
    }

    /// Reads `len` elements that fill the region exactly.
    #[track_caller]
    pub(crate) fn download<T: AnyBitPattern>(&self, stream: &Stream<B>, len: usize) -> Result<Vec<T>> {
        let mut data = room(len).map_err(|error| error.on(stream.device.state.backend_name, Some(stream.device.ordinal())))?;
        // SAFETY: room for `len` elements was reserved.
        unsafe { self.download_to(stream, data.as_mut_ptr()) }?;
        // SAFETY: every byte was written, and every bit pattern is a value.
        unsafe { data.set_len(len) };
        Ok(data)
    }

    /// Reads into elements that are there.
    #[track_caller]
    pub(crate) fn download_into<T: AnyBitPattern>(&self, stream: &Stream<B>, data: &mut [T]) -> Result<()> {
        // SAFETY: the slice has as many bytes as the region (checked by the caller), all of them writable.
        unsafe { self.download_to(stream, data.as_mut_ptr()) }
    }

    /// Reads the region's bytes.
    ///
    /// # Safety
    /// `to` is valid for writes of all the region's bytes.
    #[track_caller]
    unsafe fn download_to<T>(&self, stream: &Stream<B>, to: *mut T) -> Result<()> {
        stream.device.state.usable()?;
        let to = to.cast::<u8>();
        let mut flying = VecDeque::new();
        let mut offset = 0;
        while offset < self.bytes || !flying.is_empty() {
            if offset < self.bytes && flying.len() < WINDOW {
                let bytes = SLOT_BYTES.min(self.bytes - offset);
                let slot = slot(stream, bytes)?;
                whole(&slot, bytes).copy_from(stream, self.part(offset, bytes))?;
                flying.push_back((slot, offset, bytes));
                offset += bytes;
                continue;
            }
            let Some((slot, offset, bytes)) = flying.pop_front() else { break };
            if let Some(open) = whole(&slot, bytes).open(AccessMode::Read)? {
                let place = to.wrapping_add(offset as usize);
                // SAFETY: the slot holds `bytes` bytes that have arrived; the caller promised room at this offset.
                unsafe { place.copy_from_nonoverlapping(open.host, bytes as usize) };
            }
        }
        Ok(())
    }

    /// Sets every element of the region.
    #[track_caller]
    pub(crate) fn fill_with<T: Element>(&self, stream: &Stream<B>, value: &T) -> Result<()> {
        if self.bytes == 0 {
            return stream.device.state.usable();
        }
        let mut bytes = vec![0; size_of::<T>()];
        // SAFETY: there is room for one element, zeroed.
        unsafe { value.store(bytes.as_mut_ptr()) };
        if let Some(pattern) = pattern(&bytes, self.offset) {
            return self.fill(stream, pattern);
        }
        self.part(0, bytes.len() as u64).upload(stream, std::slice::from_ref(value))?;
        let mut done = bytes.len() as u64;
        while done < self.bytes {
            let next = done.min(self.bytes - done);
            self.part(done, next).copy_from(stream, self.part(0, next))?;
            done += next;
        }
        Ok(())
    }
}

/// The shortest pattern that repeats to these bytes, if the device knows one that long.
fn pattern(bytes: &[u8], offset: u64) -> Option<Pattern> {
    let repeats = |length: usize| {
        bytes.len().is_multiple_of(length)
            && offset.is_multiple_of(length as u64)
            && bytes.chunks(length).all(|one| one == &bytes[..length])
    };
    match bytes {
        [byte, ..] if repeats(1) => Some(Pattern::U8(*byte)),
        &[a, b, ..] if repeats(2) => Some(Pattern::U16(u16::from_ne_bytes([a, b]))),
        &[a, b, c, d, ..] if repeats(4) => Some(Pattern::U32(u32::from_ne_bytes([a, b, c, d]))),
        _ => None,
    }
}

/// An empty vector with room for so many elements.
fn room<T>(len: usize) -> Result<Vec<T>> {
    let mut data = Vec::new();
    let requested = (len as u64).saturating_mul(size_of::<T>() as u64);
    data.try_reserve_exact(len).map_err(|_| Error::new(ErrorKind::HostOutOfMemory { requested }, "download"))?;
    Ok(data)
}

/// The values, or the index of the first that is none.
pub(super) fn check<T: CheckedBitPattern>(bits: Vec<T::Bits>) -> Result<Vec<T>, usize> {
    if let Some(index) = bits.iter().position(|bits| !T::is_valid_bit_pattern(bits)) {
        return Err(index);
    }
    // SAFETY: `Bits` has the layout of `T` (`CheckedBitPattern`'s contract), and every element was just found to be a value of `T`.
    Ok(bits.into_iter().map(|bits| unsafe { std::mem::transmute_copy::<T::Bits, T>(&bits) }).collect())
}

/// Elements on their way to the host; see [`BufferSlice::start_download`](super::BufferSlice::start_download).
///
/// It owns the pinned memory that they arrive in. Dropped, it lets that be reused when they have arrived.
/// It can be awaited: see [`ReadFuture`](super::ReadFuture).
#[must_use = "the result has not been asked for"]
pub struct PendingRead<B: Backend, T> {
    pub(super) slot: Option<Arc<Allocation<B>>>,
    len: usize,
    holds: PhantomData<fn() -> T>,
}

impl<B: Backend, T> fmt::Debug for PendingRead<B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRead").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<B: Backend, T: AnyBitPattern> PendingRead<B, T> {
    #[track_caller]
    pub(super) fn start(region: Region<'_, B>, stream: &Stream<B>, len: usize) -> Result<Self> {
        stream.device.state.usable()?;
        if region.bytes == 0 {
            return Ok(Self { slot: None, len, holds: PhantomData });
        }
        let slot = slot(stream, region.bytes)?;
        whole(&slot, region.bytes).copy_from(stream, region)?;
        Ok(Self { slot: Some(slot), len, holds: PhantomData })
    }

    /// Whether the elements have arrived.
    ///
    /// # Errors
    /// [`DevicePoisoned`](crate::ErrorKind::DevicePoisoned); [`InCallback`](crate::ErrorKind::InCallback).
    pub fn is_ready(&self) -> Result<bool> {
        let Some(slot) = &self.slot else { return Ok(true) };
        let (order, list) = (slot.device.order(), crate::order::Tracked::list(slot));
        slot.device.state.usable()?;
        order.poll(&order.needs_of(list)).map_err(|error| slot.device.settle(error))?;
        Ok(order.is_ready(list, None))
    }

    /// Waits for the elements and copies them out.
    ///
    /// # Errors
    /// [`DevicePoisoned`](crate::ErrorKind::DevicePoisoned); [`InCallback`](crate::ErrorKind::InCallback).
    pub fn wait(self) -> Result<Vec<T>> {
        let mut out = room(self.len)?;
        let data = self.into_pinned().map_err(|(_, error)| error)?;
        out.extend_from_slice(&data);
        Ok(out)
    }

    /// Waits for the elements and hands them out where they arrived, without a copy. After a failure it can be asked again.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), with the read itself.
    ///
    /// ```
    /// # use polywarp_core::{Runtime, host::Host};
    /// # let device = Runtime::new(Host::default())?.device(0)?;
    /// # let stream = device.stream()?;
    /// let x = stream.upload(&[1u64, 2])?;
    /// let data = x.as_slice().start_download(&stream)?.into_pinned().map_err(|(_, error)| error)?;
    /// assert_eq!(data[..], [1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn into_pinned(self) -> Result<HostData<B, T>, (Self, Error)> {
        let opened = match &self.slot {
            Some(slot) => whole(slot, (self.len * size_of::<T>()) as u64).open(AccessMode::Read).map(drop),
            None => Ok(()),
        };
        match opened {
            Ok(()) => Ok(HostData { slot: self.slot, len: self.len, holds: PhantomData }),
            Err(error) => Err((self, error)),
        }
    }
}

/// Elements that have arrived on the host, in the pinned memory that they arrived in.
pub struct HostData<B: Backend, T> {
    slot: Option<Arc<Allocation<B>>>,
    len: usize,
    holds: PhantomData<T>,
}

impl<B: Backend, T: AnyBitPattern> Deref for HostData<B, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let first = self.slot.as_ref().map_or(NonNull::dangling().as_ptr(), |slot| slot.host().cast::<T>());
        // SAFETY: the copy into the slot is complete (`into_pinned` waited), nobody else reaches the slot, it is aligned to 256, and every
        // bit pattern is a value.
        unsafe { std::slice::from_raw_parts(first, self.len) }
    }
}

impl<B: Backend, T: AnyBitPattern + fmt::Debug> fmt::Debug for HostData<B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
