//! The plan of cases, as a page.

use crate::cases;
use polywarp_core::decorate::Nop;
use std::fmt::Write;

/// The plan: every case and the sentence it proves, as Markdown.
///
/// ```
/// let plan = polywarp_conformance::plan();
/// assert!(plan.starts_with("# The plan of cases") && plan.contains("## track"));
/// ```
#[must_use]
pub fn plan() -> String {
    let mut text = String::from(
        "# The plan of cases\n\nPrinted by `cargo run -p polywarp-conformance --bin conformance -- --plan`; a test fails if it is stale.\n",
    );
    let mut family = "";
    for case in cases::all::<Nop>() {
        if case.family() != family {
            family = case.family();
            let _infallible = write!(text, "\n## {family} (level {})\n\n| id | alias | proves |\n|---|---|---|\n", case.level());
        }
        let _infallible = writeln!(text, "| `{}` | {} | {} |", case.id, case.alias, case.proves);
    }
    text
}
