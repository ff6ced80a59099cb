//! The registry of cases. Order is visible here and nowhere hidden.
//!
//! Each case says in its documentation which wrong tracker or backend turns it red.

mod alloc;
mod conv;
mod corpus;
mod count;
mod error;
mod free;
mod track;
mod xstream;

use crate::case::Case;
use polywarp_core::backend::Backend;
use polywarp_core::decorate::{Counts, Method};
use polywarp_core::{ErrorKind, Result};

/// All cases, in the order of the plan.
#[must_use]
pub fn all<B: Backend>() -> Vec<Case<B>> {
    [xstream::cases(), conv::cases(), track::cases(), free::cases(), count::cases(), alloc::cases(), error::cases(), corpus::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// What kind of error it was.
fn kind<T>(result: Result<T>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind().clone())
}

/// Records, waits of streams, waits of the host, launches.
fn ordering(calls: &Counts) -> [u64; 4] {
    [Method::EventRecord, Method::StreamWaitEvent, Method::EventWait, Method::Launch].map(|method| calls[method])
}
