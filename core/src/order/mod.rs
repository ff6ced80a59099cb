//! Who is ordered after whom: memory that orders itself.
//!
//! Every stream ([`lane`]) counts its submissions ([`clock`]); every allocation keeps the uses that still matter ([`uses`], in the [`ledger`]);
//! a submission announces its uses, waits for what was announced before ([`points`]) and is submitted ([`announce`]); what is dropped goes to
//! a lock-free list ([`deferred`]) and is dealt with by later calls ([`device`]). [`bugs`] are deliberate mistakes that tests must catch.

pub(crate) mod announce;
pub(crate) mod bugs;
pub(crate) mod callback;
pub(crate) mod clock;
pub(crate) mod deferred;
pub(crate) mod device;
mod lane;
mod ledger;
mod points;
pub(crate) mod uses;

pub(crate) use announce::{Order, Submission, Tracked};
pub(crate) use clock::Clock;
pub(crate) use deferred::{Block, ListId, Node, Retired};
pub(crate) use device::DeviceState;
pub(crate) use lane::Lane;

#[cfg(all(test, feature = "host"))]
mod log;
#[cfg(all(test, loom, feature = "host"))]
mod loom;
#[cfg(all(test, not(loom), feature = "host"))]
mod model;
#[cfg(all(test, feature = "host"))]
mod program;
