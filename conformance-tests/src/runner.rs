//! Runs cases, one at a time, each on a freshly opened backend and a thread of its own.

use crate::case::{Case, Requirement};
use crate::cases;
use crate::context::{Context, panic_message};
use crate::kernels;
use crate::outcome::Outcome;
use crate::report::{Finding, Report};
use crate::subject::Subject;
use polywarp_core::backend::{Backend, Quirk};
use polywarp_core::decorate::{Counting, Faulty, Live, Tally};
use polywarp_core::{Device, Error, Result, Runtime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use wildmatch::WildMatch;

/// Beyond this a case hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// How long what a case dropped may take to be given back, once nothing runs any more.
const GRACE: Duration = Duration::from_secs(5);

/// Which device.
///
/// ```
/// use polywarp_conformance::{Options, Place};
/// let on_the_last = Options { place: Place::Last, ..Options::default() };
/// assert_eq!(Options::default().place, Place::Ordinal(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one with this number.
    Ordinal(u32),
    /// The one with the highest number: device 0 hides mistakes.
    Last,
}

/// What to run, and how.
///
/// ```
/// use polywarp_conformance::Options;
/// use std::time::Duration;
/// let options = Options { filter: Some("xstream.*".into()), seed: 7, limit: Duration::from_secs(10), ..Options::default() };
/// assert!(options.selects("xstream.read_after_write") && !options.selects("free.host_drop"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Only cases whose id matches; `*` and `?` stand for anything.
    pub filter: Option<String>,
    /// The suite's seed.
    pub seed: u64,
    /// On which device.
    pub place: Place,
    /// Beyond this a case hangs, and the run ends.
    pub limit: Duration,
}

impl Default for Options {
    /// Every case, with seed 0, on device 0.
    fn default() -> Self {
        Self { filter: None, seed: 0, place: Place::Ordinal(0), limit: LIMIT }
    }
}

impl Options {
    /// Whether the filter lets a case with this id pass.
    #[must_use]
    pub fn selects(&self, id: &str) -> bool {
        self.filter.as_ref().is_none_or(|pattern| WildMatch::new(pattern).matches(id))
    }
}

/// Runs the selected cases.
///
/// # Errors
/// Those of opening the backend and the device.
///
/// ```
/// # struct OneDevice;
/// # impl polywarp_conformance::Subject for OneDevice {
/// #     type Backend = polywarp_core::host::Host;
/// #     fn name(&self) -> &str { "host" }
/// #     fn open(&self) -> polywarp_core::Result<polywarp_core::host::Host> { Ok(Default::default()) }
/// # }
/// use polywarp_conformance::{Options, Place, run};
/// let options = Options { filter: Some("track.same_stream*".into()), place: Place::Last, ..Options::default() };
/// let report = run(OneDevice, &options)?;
/// assert!(report.is_success(), "{report}");
/// let nowhere = Options { place: Place::Ordinal(9), ..options };
/// assert!(run(OneDevice, &nowhere).is_err());                 // no such device
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub fn run<S: Subject>(subject: S, options: &Options) -> Result<Report> {
    let subject = Arc::new(subject);
    let (device, ordinal) = describe(&*subject, options)?;
    let mut report = Report { backend: subject.name().into(), device, seed: options.seed, findings: Vec::new() };
    let mut hung = None;
    for case in cases::all().into_iter().filter(|case| options.selects(case.id)) {
        let id = case.id;
        let finding = match hung {
            None => try_case(&subject, case, ordinal, options),
            Some(before) => finding(&*subject, &case, ordinal, options.seed, Outcome::Skipped(format!("{before} hangs"))),
        };
        if matches!(finding.outcome, Outcome::TimedOut(_)) {
            hung = Some(id);
        }
        report.findings.push(finding);
    }
    Ok(report)
}

/// Faults are inside: the counters tell what polywarp sees.
type Tried<S> = Counting<Faulty<<S as Subject>::Backend>>;

fn describe<S: Subject>(subject: &S, options: &Options) -> Result<(String, u32)> {
    let runtime = Runtime::new(subject.open()?)?;
    let count = runtime.device_count();
    let ordinal = match options.place {
        Place::Ordinal(ordinal) => ordinal,
        Place::Last => count.saturating_sub(1),
    };
    let device = runtime.device(ordinal)?;
    let info = device.info();
    let mode = if subject.mode().is_empty() { String::new() } else { format!(", {} mode", subject.mode()) };
    let driver = if info.driver.is_empty() { String::new() } else { format!(", driver {}", info.driver) };
    Ok((format!("device {ordinal} of {count} ({}{driver}){mode}", info.name), ordinal))
}

/// Runs one case. After a time-out its thread is left behind, and the process should end.
pub(crate) fn try_case<S: Subject>(subject: &Arc<S>, case: Case<Tried<S>>, ordinal: u32, options: &Options) -> Finding {
    let mut finding = finding(&**subject, &case, ordinal, options.seed, Outcome::TimedOut(options.limit));
    let seed = case.seed(options.seed);
    let (tell, told) = mpsc::channel();
    let begin = Instant::now();
    let for_thread = Arc::clone(subject);
    let work = move || {
        let outcome = attempt(&*for_thread, &case, ordinal, seed);
        let _gave_up = tell.send(outcome.unwrap_or_else(|error| Outcome::Failed(error.to_string())));
    };
    if let Err(error) = std::thread::Builder::new().name(finding.id.into()).spawn(work) {
        finding.outcome = Outcome::Failed(format!("no thread for the case: {error}"));
        return finding;
    }
    match told.recv_timeout(options.limit) {
        Ok(outcome) => finding.outcome = outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => {}
        Err(mpsc::RecvTimeoutError::Disconnected) => finding.outcome = Outcome::Failed("the case's thread ended early".into()),
    }
    finding.elapsed = begin.elapsed();
    finding
}

fn finding<S: Subject>(subject: &S, case: &Case<Tried<S>>, ordinal: u32, seed: u64, outcome: Outcome) -> Finding {
    let (id, name, mode) = (case.id, subject.name(), subject.mode());
    let mode = if mode.is_empty() { String::new() } else { format!(" --mode {mode}") };
    let replay = format!(
        "cargo run --release -p polywarp-conformance --bin conformance -- --backend {name}{mode} --device {ordinal} --seed {seed} --filter '{id}'"
    );
    Finding { id, alias: case.alias, family: case.family(), outcome, elapsed: Duration::ZERO, replay }
}

/// Opens the backend and runs the case on it.
fn attempt<S: Subject>(subject: &S, case: &Case<Tried<S>>, ordinal: u32, seed: u64) -> Result<Outcome> {
    let backend = Counting::new(Faulty::new(subject.open()?));
    let injection = (backend.tally(), backend.inner().faults());
    let runtime = Runtime::new(backend)?;
    let device = runtime.device(ordinal)?;
    if let Some(outcome) = refusal(case, &device) {
        return Ok(outcome);
    }
    let context = Context::new(runtime, device, subject.kernels(kernels::program()), injection, seed)?;
    let outcome = match catch_unwind(AssertUnwindSafe(|| (case.run)(&context))) {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
        Err(panic) => Outcome::Failed(panic_message(&*panic)),
    };
    let (tally, closed) = context.close();
    if !outcome.is_pass() || case.hazard || case.abandons {
        return Ok(outcome);
    }
    Ok(closed.map_err(left).and_then(|()| leaks(&tally)).map_or_else(Outcome::Failed, |()| Outcome::Passed))
}

fn refusal<B: Backend>(case: &Case<B>, device: &Device<B>) -> Option<Outcome> {
    match case.lacks(device) {
        Some(Requirement::Feature(feature)) => return Some(Outcome::Unsupported(feature)),
        Some(Requirement::Devices(count)) => return Some(Outcome::Skipped(format!("needs {count} devices"))),
        None => {}
    }
    let harmless = device.info().quirks.contains(Quirk::RunsOnHost);
    (case.hazard && !harmless).then(|| Outcome::Skipped("would leave the device unusable for this process".into()))
}

fn left(error: Error) -> String {
    format!("closing failed after the case: {error}")
}

/// Once the last handle is gone, everything made is given back.
fn leaks(tally: &Tally) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let live = tally.counts().live();
        if live == Live::default() {
            return Ok(());
        }
        if begin.elapsed() > GRACE {
            return Err(format!("leaked: {live:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
