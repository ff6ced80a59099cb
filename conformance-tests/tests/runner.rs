//! The runner itself: what it refuses, what it prints, how it ends.

use polywarp_conformance::{Options, Outcome, Place, Subject, run};
use polywarp_core::backend::Feature;
use polywarp_core::host::{Host, HostConfig};
use polywarp_core::{ErrorKind, Result};
use std::process::{Command, Output};

fn conformance(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conformance")).args(arguments).output().expect("the runner starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

fn says(bytes: &[u8], text: &str) {
    let bytes = String::from_utf8_lossy(bytes);
    assert!(bytes.contains(text), "{bytes}");
}

#[test]
fn what_makes_no_sense_ends_with_2() {
    let refused: [(&[&str], &str); 8] = [
        (&[], "--backend is missing"),
        (&["--backend", "abacus"], "no backend \"abacus\"; this runner has host"),
        (&["--backend", "host", "--filter", "nothing.*"], "no case matches \"nothing.*\""),
        (&["--list", "--filter", "xstream"], "no case matches"),
        (&["--backend", "host", "--frobnicate"], "--frobnicate"),
        (&["--backend", "host", "--device", "first"], "--device takes a number or `last`"),
        (&["--backend", "host", "--mode", "lazy"], "--mode takes `plain` or `adversarial`"),
        (&["--backend", "host", "--seed", "-1"], "--seed takes a number or `random`"),
    ];
    for (arguments, message) in refused {
        let output = conformance(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        says(&output.stderr, message);
    }
}

#[test]
fn a_run_ends_with_the_line_for_machines() {
    let output = conformance(&["--backend", "host", "--device", "last", "--seed", "7", "--filter", "track.*"]);
    says(&output.stdout, "device 1 of 2");
    says(&output.stdout, "seed 7");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((text.lines().last(), code(&output)), (Some("conformance: 11 passed, 0 failed, 0 skipped"), 0));
}

#[test]
fn the_adversarial_mode_passes_with_several_seeds() {
    for seed in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        let output = conformance(&["--backend", "host", "--mode", "adversarial", "--seed", seed]);
        says(&output.stdout, "adversarial mode, seed");
        says(&output.stdout, " passed, 0 failed, 0 skipped");
        assert_eq!(code(&output), 0);
    }
}

#[test]
fn a_device_that_is_not_there_is_a_failure() {
    let output = conformance(&["--backend", "host", "--device", "9"]);
    assert_eq!(code(&output), 1);
    says(&output.stderr, "there is no device 9");
    says(&output.stdout, "conformance: 0 passed, 0 failed, 0 skipped");
}

#[test]
fn the_list_names_what_the_filter_selects() {
    let output = conformance(&["--list", "--filter", "xstream.w*"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "xstream.writer_then_reader\nxstream.writer_after_all_readers\n");
}

/// One device that lacks host functions.
struct Poor;

impl Subject for Poor {
    type Backend = Host;

    fn name(&self) -> &str {
        "poor"
    }

    fn open(&self) -> Result<Host> {
        Ok(Host::new(&HostConfig::new(1).without(Feature::HostFunctions)))
    }
}

#[test]
fn what_a_device_lacks_is_skipped_with_the_reason() -> Result<()> {
    let report = run(Poor, &Options::default())?;
    let outcome = |alias| report.findings.iter().find(|finding| finding.alias == alias).map(|finding| &finding.outcome);
    assert_eq!(outcome("XS1"), Some(&Outcome::Unsupported(Feature::HostFunctions)));
    assert_eq!(outcome("XS9"), Some(&Outcome::Skipped("needs 2 devices".into())));
    assert_eq!(outcome("XS12"), Some(&Outcome::Passed));
    assert!(report.is_success(), "{report}");
    Ok(())
}

#[test]
fn a_run_in_which_nothing_passed_is_no_success() -> Result<()> {
    let report = run(Poor, &Options { filter: Some("xstream.writer*".into()), ..Options::default() })?;
    assert_eq!((report.counts(), report.is_success()), ((0, 0, 2), false));
    Ok(())
}

/// A device with hardly any memory.
struct Broken;

impl Subject for Broken {
    type Backend = Host;

    fn name(&self) -> &str {
        "broken"
    }

    fn open(&self) -> Result<Host> {
        Ok(Host::new(&HostConfig::new(1).with_memory(16)))
    }
}

#[test]
fn a_failure_tells_how_to_repeat_it() -> Result<()> {
    let report = run(Broken, &Options { filter: Some("count.*".into()), seed: 3, ..Options::default() })?;
    assert!(!report.is_success());
    let text = report.to_string();
    says(text.as_bytes(), "out of memory");
    says(
        text.as_bytes(),
        "replay: cargo run --release -p polywarp-conformance --bin conformance -- --backend broken --device 0 --seed 3 --filter 'count.launch'",
    );
    Ok(())
}

#[test]
fn a_missing_device_is_an_error() {
    let missing = run(Poor, &Options { place: Place::Ordinal(1), ..Options::default() }).map_err(|error| error.kind().clone());
    assert!(matches!(missing, Err(ErrorKind::NoSuchDevice { ordinal: 1, count: 1 })));
}
