//! The registry of cases. Order is visible here and nowhere hidden.
//!
//! Each case says in its documentation which wrong tracker or backend turns it red.

mod conv;
mod corpus;
mod count;
mod free;
mod track;
mod xstream;

use crate::case::Case;
use polywarp_core::backend::Backend;
use polywarp_core::decorate::{Counts, Method};

/// All cases, in the order of the plan.
#[must_use]
pub fn all<B: Backend>() -> Vec<Case<B>> {
    [xstream::cases(), conv::cases(), track::cases(), free::cases(), count::cases(), corpus::cases()].into_iter().flatten().collect()
}

/// Records, waits of streams, waits of the host, launches.
fn ordering(calls: &Counts) -> [u64; 4] {
    [Method::EventRecord, Method::StreamWaitEvent, Method::EventWait, Method::Launch].map(|method| calls[method])
}
