//! What must not compile, and what the compiler says about it.
//!
//! Messages differ between compilers, so they are compared under the recorded one only; under others it is checked that nothing compiles.

#![cfg(feature = "host")]
#![allow(unsafe_code, reason = "sets a variable of the environment")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The compiler whose messages are recorded.
const RECORDED: &str = "rustc 1.95.";

#[test]
fn nothing_of_this_compiles() {
    let cases = trybuild::TestCases::new();
    // A case that passes makes the others be built, not only checked, so that what only code generation finds is found.
    cases.pass("tests/compile_pass/*.rs");
    if is_recorded() {
        cases.compile_fail("tests/compile_fail/*.rs");
    } else {
        copies().iter().for_each(|case| cases.compile_fail(case));
        // SAFETY: this is the only test of the process, so no other thread reads the environment. It lets `trybuild` write what this
        // compiler says next to the copies.
        unsafe { env::set_var("TRYBUILD", "overwrite") };
    }
}

fn is_recorded() -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("the compiler that built this tells its version");
    version.stdout.starts_with(RECORDED.as_bytes())
}

/// The cases without their messages.
fn copies() -> Vec<PathBuf> {
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    fs::create_dir_all(&copies).expect("cargo made this folder for us");
    let cases = fs::read_dir("tests/compile_fail").expect("the cases lie there").flatten().map(|entry| entry.path());
    let copy = |case: PathBuf| {
        let to = copies.join(case.file_name()?);
        fs::copy(&case, &to).expect("the folder is ours").gt(&0).then_some(to)
    };
    cases.filter(|case| case.extension().is_some_and(|extension| extension == "rs")).filter_map(copy).collect()
}
