//! What became of a case.

use polywarp_core::backend::Feature;
use std::fmt;
use std::time::Duration;

/// What became of a case.
///
/// ```
/// use polywarp_conformance::Outcome;
/// let outcome = Outcome::Failed("left: 1, right: 2".into());
/// assert!(outcome.is_failure());
/// let skipped = Outcome::Skipped("needs 2 devices".into());
/// assert!(!skipped.is_pass() && !skipped.is_failure());
/// assert_eq!(outcome.to_string(), "FAILED: left: 1, right: 2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It holds.
    Passed,
    /// The device does not declare this capability, which the case requires.
    Unsupported(Feature),
    /// It could not be asked here.
    Skipped(String),
    /// It does not hold.
    Failed(String),
    /// It was not done within this time. Nothing ran after it.
    TimedOut(Duration),
}

impl Outcome {
    /// Whether it holds.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        *self == Self::Passed
    }

    /// Whether it makes the run a failure.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::TimedOut(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Unsupported(feature) => write!(f, "unsupported: {feature}"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Failed(reason) => write!(f, "FAILED: {reason}"),
            Self::TimedOut(limit) => write!(f, "TIMED OUT after {} s", limit.as_secs()),
        }
    }
}
