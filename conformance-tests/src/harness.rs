//! The suite as a test target: one trial per case and device.

use crate::cases;
use crate::outcome::Outcome;
use crate::runner::{Options, try_case};
use crate::subject::Subject;
use libtest_mimic::{Arguments, Completion, Trial};
use polywarp_core::Runtime;
use std::process::ExitCode;
use std::sync::Arc;

/// The `main` of a test target with `harness = false`: every case on device 0 and on the last device, one at a time.
///
/// Trials are called `id`, or `id@ordinal` on the last of several devices.
///
/// ```
/// // tests/conformance.rs, a target with `harness = false`: `cargo test --test conformance track -- --list` works as usual.
/// # struct OneDevice;
/// # impl polywarp_conformance::Subject for OneDevice {
/// #     type Backend = polywarp_core::host::Host;
/// #     fn name(&self) -> &str { "host" }
/// #     fn open(&self) -> polywarp_core::Result<polywarp_core::host::Host> { Ok(Default::default()) }
/// # }
/// # fn real_main() -> std::process::ExitCode {
/// polywarp_conformance::test_main(OneDevice)                  // a `Subject`
/// # }
/// ```
#[must_use]
pub fn test_main<S: Subject>(subject: S) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let subject = Arc::new(subject);
    let devices = subject.open().and_then(Runtime::new).map(|runtime| runtime.device_count());
    match devices {
        Ok(count) => libtest_mimic::run(&arguments, trials(&subject, count)).exit_code(),
        Err(error) => {
            eprintln!("{} cannot be opened: {error}", subject.name());
            ExitCode::FAILURE
        }
    }
}

fn trials<S: Subject>(subject: &Arc<S>, devices: u32) -> Vec<Trial> {
    let mut places = vec![0];
    places.extend((devices > 1).then(|| devices - 1));
    let on = |ordinal| cases::all().into_iter().map(move |case| (ordinal, case));
    let all = places.into_iter().flat_map(on).map(|(ordinal, case)| {
        let name = if ordinal == 0 { case.id.to_owned() } else { format!("{}@{ordinal}", case.id) };
        let subject = Arc::clone(subject);
        Trial::ignorable_test(name, move || {
            let finding = try_case(&subject, case, ordinal, &Options::default());
            match finding.outcome {
                Outcome::Passed => Ok(Completion::Completed),
                Outcome::TimedOut(_) => {
                    eprintln!("{}: {}; replay: {}", finding.id, finding.outcome, finding.replay);
                    std::process::exit(1)
                }
                outcome if outcome.is_failure() => Err(format!("{outcome}\nreplay: {}", finding.replay).into()),
                outcome => Ok(Completion::ignored_with(outcome.to_string())),
            }
        })
    });
    all.collect()
}
