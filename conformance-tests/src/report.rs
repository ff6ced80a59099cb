//! What a run found, as a table for people.

use crate::outcome::Outcome;
use std::fmt;
use std::time::Duration;

/// What a run found.
///
/// Its display is a table of counts by family, then everything that is not a pass with the command that repeats it, then a line for
/// machines: `conformance: 30 passed, 0 failed, 1 skipped`.
///
/// ```
/// # struct OneDevice;
/// # impl polywarp_conformance::Subject for OneDevice {
/// #     type Backend = polywarp_core::host::Host;
/// #     fn name(&self) -> &str { "host" }
/// #     fn open(&self) -> polywarp_core::Result<polywarp_core::host::Host> { Ok(Default::default()) }
/// # }
/// use polywarp_conformance::{Options, run};
/// let options = Options { filter: Some("track.same_stream*".into()), ..Options::default() };
/// let report = run(OneDevice, &options)?;
/// assert!(report.is_success());
/// let (passed, failed, skipped) = report.counts();
/// assert!(report.to_string().ends_with(&format!("conformance: {passed} passed, {failed} failed, {skipped} skipped")));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The subject's name.
    pub backend: String,
    /// The device's number, name and driver.
    pub device: String,
    /// The suite's seed.
    pub seed: u64,
    /// One per case, in order.
    pub findings: Vec<Finding>,
}

/// What became of one case.
///
/// ```
/// # struct OneDevice;
/// # impl polywarp_conformance::Subject for OneDevice {
/// #     type Backend = polywarp_core::host::Host;
/// #     fn name(&self) -> &str { "host" }
/// #     fn open(&self) -> polywarp_core::Result<polywarp_core::host::Host> { Ok(Default::default()) }
/// # }
/// use polywarp_conformance::{Options, run};
/// let options = Options { filter: Some("track.same_stream*".into()), ..Options::default() };
/// let report = run(OneDevice, &options)?;
/// for finding in &report.findings {
///     println!("{} took {:?}; again: {}", finding.id, finding.elapsed, finding.replay);
///     assert!(finding.outcome.is_pass() && finding.family == "track");
/// }
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The case's id.
    pub id: &'static str,
    /// Its code in the first plan of the suite.
    pub alias: &'static str,
    /// Its family.
    pub family: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// How long it took.
    pub elapsed: Duration,
    /// The command that repeats it.
    pub replay: String,
}

impl Report {
    /// Whether nothing failed and at least one case passed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let (passed, failed, _) = self.counts();
        failed == 0 && passed > 0
    }

    /// How many passed, failed, and were skipped.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        counts(self.findings.iter())
    }
}

fn counts<'a>(findings: impl Iterator<Item = &'a Finding>) -> (usize, usize, usize) {
    findings.fold((0, 0, 0), |(passed, failed, skipped), finding| match &finding.outcome {
        outcome if outcome.is_pass() => (passed + 1, failed, skipped),
        outcome if outcome.is_failure() => (passed, failed + 1, skipped),
        _ => (passed, failed, skipped + 1),
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "polywarp conformance {} on {}, {}, seed {}\n", env!("CARGO_PKG_VERSION"), self.backend, self.device, self.seed)?;
        writeln!(f, "{:<10} {:>7} {:>7} {:>8} {:>8}", "family", "passed", "failed", "skipped", "ms")?;
        for family in self.findings.chunk_by(|one, other| one.family == other.family) {
            let (passed, failed, skipped) = counts(family.iter());
            let elapsed: Duration = family.iter().map(|finding| finding.elapsed).sum();
            writeln!(f, "{:<10} {passed:>7} {failed:>7} {skipped:>8} {:>8}", family[0].family, elapsed.as_millis())?;
        }
        for Finding { id, alias, outcome, replay, .. } in self.findings.iter().filter(|finding| !finding.outcome.is_pass()) {
            writeln!(f, "\n{id} ({alias}) {outcome}")?;
            if outcome.is_failure() {
                writeln!(f, "    replay: {replay}")?;
            }
        }
        let (passed, failed, skipped) = self.counts();
        write!(f, "\nconformance: {passed} passed, {failed} failed, {skipped} skipped")
    }
}
