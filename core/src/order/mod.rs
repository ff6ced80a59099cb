//! Who is ordered after whom: memory that orders itself.
//!
//! Every stream counts its submissions ([`clock`]); every allocation keeps the uses that still matter ([`uses`]); a submission announces its
//! uses, waits for what was announced before and is submitted ([`announce`]); what is dropped goes to a lock-free list ([`deferred`]) and is
//! dealt with by later calls ([`device`]).

pub(crate) mod announce;
pub(crate) mod bugs;
pub(crate) mod callback;
pub(crate) mod clock;
pub(crate) mod deferred;
pub(crate) mod device;
pub(crate) mod uses;

pub(crate) use announce::{Lane, Order, Submission, Tracked};
pub(crate) use clock::Clock;
pub(crate) use deferred::{Block, ListId, Node, Retired};
pub(crate) use device::DeviceState;

#[cfg(all(test, feature = "host"))]
mod log;
#[cfg(all(test, loom, feature = "host"))]
mod loom;
#[cfg(all(test, not(loom), feature = "host"))]
mod model;
#[cfg(all(test, feature = "host"))]
mod program;
