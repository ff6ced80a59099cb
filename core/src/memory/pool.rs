//! Reuse of memory: a free list per device, by kind and exact size, reused only behind its uses.
//!
//! Order of service: a block whose uses are complete, or precede whatever the asking stream does next → the same after polling the
//! driver → new memory → a block with uses pending, which the next use then waits for → after returning what is complete, new memory again →
//! [`OutOfMemory`](crate::ErrorKind::OutOfMemory).

use super::Allocation;
use crate::backend::{Backend, MemoryKind};
use crate::device::Device;
use crate::order::bugs::{Bug, bug};
use crate::order::{Block, Lane, ListId, Node, Retired};
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

/// Sizes are rounded up to this, so that nearly equal ones share.
const GRAIN: u64 = 256;

/// Bytes of a kind that may be parked with uses pending before they are preferred to new memory.
const PENDING_LIMIT: u64 = 1 << 30;

/// The same for pinned memory, which transfers pass through: beyond it they wait for slots.
const STAGING_LIMIT: u64 = 32 << 20;

impl<B: Backend> Device<B> {
    /// Memory for at least `bytes` (> 0); `home` is the stream that uses it first, if that is known.
    pub(crate) fn allocate(&self, bytes: u64, kind: MemoryKind, home: Option<&Lane<B>>) -> Result<Arc<Allocation<B>>> {
        self.state.usable()?;
        self.state.drain(self.order());
        let overflow = || self.state.error(ErrorKind::Overflow { what: "the size of the allocation".into() }, "allocate");
        let bytes = bytes.checked_next_multiple_of(GRAIN).filter(|&bytes| bytes <= isize::MAX as u64).ok_or_else(overflow)?;
        if let Some(node) = self.complete_block(bytes, kind, home) {
            return self.reuse(node);
        }
        let limit = if kind == MemoryKind::Pinned { STAGING_LIMIT } else { PENDING_LIMIT };
        let parked = self.state.parked_bytes(kind);
        if parked >= limit
            && let Some(node) = self.first_complete_block(bytes, kind)?
        {
            return self.reuse(node);
        }
        if self.state.is_much(parked) {
            self.state.free_parked(self.order());
            self.state.grow_much(self.state.parked_bytes(kind));
        }
        match self.fresh(bytes, kind) {
            Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => self.under_pressure(bytes, kind, error),
            outcome => outcome,
        }
    }

    /// A parked block that nobody uses any more, or only the stream that asks.
    fn complete_block(&self, bytes: u64, kind: MemoryKind, home: Option<&Lane<B>>) -> Option<Box<Node<B>>> {
        let order = self.order();
        let ready = |list: ListId| {
            let home_stream = bug(Bug::ReusedOnHomeStream) && home.is_some();
            home_stream || order.is_ready(list, home)
        };
        if let Some(node) = self.state.unpark(kind, bytes, ready) {
            return Some(node);
        }
        let mut oldest = true;
        let polled = |list: ListId| {
            if !std::mem::take(&mut oldest) {
                return false;
            }
            let needs = order.needs_of(list);
            let _unknown = order.poll(&needs);
            order.is_ready(list, None)
        };
        self.state.unpark(kind, bytes, polled)
    }

    /// Among blocks of this size, all in use, the one that is complete first; none if there is no block of this size.
    fn first_complete_block(&self, bytes: u64, kind: MemoryKind) -> Result<Option<Box<Node<B>>>> {
        let order = self.order();
        let mut pause = Duration::from_micros(20);
        loop {
            let (mut any, mut failed) = (false, None);
            let complete = |list: ListId| {
                any = true;
                failed = order.poll(&order.needs_of(list)).err().or(failed.take());
                order.is_ready(list, None)
            };
            let found = self.state.unpark(kind, bytes, complete);
            if found.is_some() || !any {
                return Ok(found);
            }
            if let Some(error) = failed {
                return Err(self.settle(error));
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(1));
        }
    }

    fn fresh(&self, bytes: u64, kind: MemoryKind) -> Result<Arc<Allocation<B>>> {
        let raw = self.state.allocate(&self.order().backend, bytes, kind).map_err(|error| self.settle(error))?;
        let raw = crate::backend::RawAllocation { bytes, kind, ..raw };
        let list = self.order().list_new();
        Ok(Allocation::new(self, Node::new(Retired::Block(Block { raw, list })), raw, list))
    }

    fn reuse(&self, node: Box<Node<B>>) -> Result<Arc<Allocation<B>>> {
        let Retired::Block(Block { raw, list }) = &node.retired else {
            return Err(self.state.error(ErrorKind::InvalidArgument { what: "not a block".into() }, "allocate"));
        };
        let (raw, list) = (*raw, *list);
        self.order().inherit(list);
        Ok(Allocation::new(self, node, raw, list))
    }

    /// The driver has no more: take what is still in use, then return what is not and ask again.
    #[cold]
    fn under_pressure(&self, bytes: u64, kind: MemoryKind, refusal: Error) -> Result<Arc<Allocation<B>>> {
        if let Some(node) = self.state.unpark(kind, bytes, |_| true) {
            return self.reuse(node);
        }
        self.state.free_parked(self.order());
        let mut outcome = self.fresh(bytes, kind);
        if refused_for_memory(&outcome) && self.state.parked_bytes(kind) > 0 {
            self.wait_for_parked()?;
            self.state.free_parked(self.order());
            outcome = self.fresh(bytes, kind);
        }
        if refused_for_memory(&outcome) { Err(self.out_of_memory(bytes, refusal)) } else { outcome }
    }

    fn wait_for_parked(&self) -> Result<()> {
        let order = self.order();
        for lane in order.lanes().iter().filter(|lane| lane.device.ordinal == self.ordinal()) {
            order.wait_lane(lane).map_err(|error| self.settle(error))?;
        }
        Ok(())
    }

    /// The driver's refusal with the figures filled in.
    fn out_of_memory(&self, bytes: u64, refusal: Error) -> Error {
        let figures = self.state.out_of_memory(&self.order().backend, bytes).kind().clone();
        refusal.into_kind(figures).on(self.state.backend_name, Some(self.ordinal()))
    }
}

fn refused_for_memory<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }))
}
