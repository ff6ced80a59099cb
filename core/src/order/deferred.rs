//! The lock-free list that drops push to, and what lies in it.
//!
//! # Safety
//! The list owns its nodes: a node is a leaked box from [`Deferred::push`] until [`Deferred::take`] makes it a box again. `take` detaches the
//! whole list at once, so no node is ever reached by two threads and there is no ABA problem.
#![allow(unsafe_code, reason = "an intrusive list, so that a drop neither locks nor allocates")]

use super::clock::Slot;
use crate::backend::{Backend, RawAllocation};
use crate::sync::atomic::{AtomicPtr, Ordering};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

/// The index of an allocation's uses in the ledger.
pub(crate) type ListId = usize;

/// Memory from the driver, and where its uses are kept.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) raw: RawAllocation,
    pub(crate) list: ListId,
}

/// What was dropped and must be dealt with by a later call.
pub(crate) enum Retired<B: Backend> {
    /// Memory, to be reused or freed behind all of its uses.
    Block(Block),
    /// A stream's slot, to be recycled behind its final event.
    Stream(Slot),
    /// An event that nothing refers to any more.
    Event(B::Event),
    /// A module, to be unloaded behind everything submitted so far.
    Module(B::Module),
}

pub(crate) struct Node<B: Backend> {
    next: *mut Self,
    pub(crate) retired: Retired<B>,
}

// SAFETY: `next` is null outside of a list, and a list's nodes are handed over whole; the rest is `Send`.
unsafe impl<B: Backend> Send for Node<B> {}
// SAFETY: nothing is reached through a shared node but plain data and `Sync` handles.
unsafe impl<B: Backend> Sync for Node<B> {}

impl<B: Backend> Node<B> {
    pub(crate) fn new(retired: Retired<B>) -> Box<Self> {
        Box::new(Self { next: ptr::null_mut(), retired })
    }
}

/// Pushed to from any thread, taken as a whole.
pub(crate) struct Deferred<B: Backend> {
    head: AtomicPtr<Node<B>>,
    owns: PhantomData<Box<Node<B>>>,
}

// SAFETY: nodes are owned by the list and handed over whole; what they hold is `Send` (`Backend` demands it of its handles).
unsafe impl<B: Backend> Send for Deferred<B> {}
// SAFETY: as above; all access through `&self` goes through the atomic head.
unsafe impl<B: Backend> Sync for Deferred<B> {}

impl<B: Backend> Deferred<B> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// Takes no lock, makes no driver call, does not allocate.
    pub(crate) fn push(&self, node: Box<Node<B>>) {
        let node = Box::into_raw(node);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: `node` came from a box just now and no other thread knows it yet.
            unsafe { (*node).next = head };
            match self.head.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Whether there is nothing to take.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// All that was pushed, the oldest last.
    pub(crate) fn take(&self) -> impl Iterator<Item = Box<Node<B>>> + use<B> {
        Taken { head: self.head.swap(ptr::null_mut(), Ordering::Acquire), owns: PhantomData }
    }
}

impl<B: Backend> Drop for Deferred<B> {
    fn drop(&mut self) {
        self.take().for_each(drop);
    }
}

impl<B: Backend> fmt::Debug for Deferred<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").field("empty", &self.is_empty()).finish()
    }
}

struct Taken<B: Backend> {
    head: *mut Node<B>,
    owns: PhantomData<Box<Node<B>>>,
}

impl<B: Backend> Iterator for Taken<B> {
    type Item = Box<Node<B>>;

    fn next(&mut self) -> Option<Box<Node<B>>> {
        if self.head.is_null() {
            return None;
        }
        // SAFETY: `push` leaked this box, and `take` detached it from the list, so it is ours alone.
        let mut node = unsafe { Box::from_raw(self.head) };
        self.head = std::mem::replace(&mut node.next, ptr::null_mut());
        Some(node)
    }
}

impl<B: Backend> Drop for Taken<B> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
