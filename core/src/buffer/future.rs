//! Reads as futures: one thread per device waits for what was asked for and wakes whoever asked.

use super::PendingRead;
use crate::backend::Backend;
use crate::memory::Allocation;
use crate::order::Tracked;
use crate::{Error, ErrorKind, Result};
use bytemuck::AnyBitPattern;
use parking_lot::Mutex;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A [`PendingRead`] as a future: made by `.await`. It can be polled from any executor; dropped, it is like a dropped read.
///
/// ```
/// # use polywarp_core::{Runtime, host::Host};
/// # let device = Runtime::new(Host::default())?.device(0)?;
/// # let stream = device.stream()?;
/// let x = stream.upload(&[1u64, 2])?;
/// let pending = x.as_slice().start_download(&stream)?;
/// let data = pollster::block_on(async { pending.await })?;
/// assert_eq!(data, [1, 2]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct ReadFuture<B: Backend, T> {
    read: Option<PendingRead<B, T>>,
    /// Whom the device's thread wakes; none until it was asked to.
    waker: Option<Place>,
}

/// Where the device's thread finds whom to wake.
type Place = Arc<Mutex<Option<Waker>>>;

impl<B: Backend, T> fmt::Debug for ReadFuture<B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadFuture").field("read", &self.read).finish_non_exhaustive()
    }
}

impl<B: Backend, T: AnyBitPattern> IntoFuture for PendingRead<B, T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = ReadFuture<B, T>;

    fn into_future(self) -> ReadFuture<B, T> {
        ReadFuture { read: Some(self), waker: None }
    }
}

impl<B: Backend, T: AnyBitPattern> Future for ReadFuture<B, T> {
    type Output = Result<Vec<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(read) = &this.read else {
            let what = "the read was handed out already".into();
            return Poll::Ready(Err(Error::new(ErrorKind::InvalidArgument { what }, "read")));
        };
        if !matches!(read.is_ready(), Ok(false)) {
            return Poll::Ready(this.read.take().map_or_else(|| Ok(Vec::new()), PendingRead::wait));
        }
        let waiting = this.waker.as_ref().is_some_and(|place| match &mut *place.lock() {
            Some(waker) => {
                waker.clone_from(cx.waker());
                true
            }
            None => false, // The thread has woken somebody already.
        });
        if !waiting {
            match wake_when_ready(read, cx.waker()) {
                Ok(place) => this.waker = Some(place),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

/// Asks the device's thread to wake somebody once the elements have arrived, or never will; it takes the waker then.
fn wake_when_ready<B: Backend, T>(read: &PendingRead<B, T>, waker: &Waker) -> Result<Place> {
    let place: Place = Arc::new(Mutex::new(Some(waker.clone())));
    let Some(slot) = &read.slot else { return Ok(place) };
    let (slot, told) = (Arc::clone(slot), Arc::clone(&place));
    let job = {
        let slot: Arc<Allocation<B>> = Arc::clone(&slot);
        move || {
            let order = slot.device.order();
            let pending = order.poll(&order.needs_of(slot.list())).is_ok() && !order.is_ready(slot.list(), None);
            if pending {
                return false;
            }
            let Some(waker) = told.lock().take() else { return true };
            // The waker is the user's: if it panics, the thread goes on for the others. What the panic carries may panic when dropped.
            catch_unwind(AssertUnwindSafe(|| waker.wake())).unwrap_or_else(std::mem::forget);
            true
        }
    };
    slot.device.state.reaper.send(Box::new(job))?;
    Ok(place)
}
