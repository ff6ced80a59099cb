//! The registry of cases. Order is visible here and nowhere hidden.
//!
//! Each case says in its documentation which wrong tracker or backend turns it red.

mod track;

use crate::case::Case;
use polywarp_core::backend::Backend;

/// All cases, in the order of the plan.
#[must_use]
pub fn all<B: Backend>() -> Vec<Case<B>> {
    [track::cases()].into_iter().flatten().collect()
}
