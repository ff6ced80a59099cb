//! The page of the plan is what the registry says.

#[test]
fn the_plan_is_up_to_date() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/PLAN.md")).expect("PLAN.md is there");
    assert_eq!(page, polywarp_conformance::plan(), "PLAN.md is stale; print it anew with `conformance --plan`");
}

#[test]
fn ids_and_aliases_are_unique() {
    let cases = polywarp_conformance::cases::all::<polywarp_core::decorate::Nop>();
    for (index, case) in cases.iter().enumerate() {
        assert!(cases[..index].iter().all(|other| other.id != case.id && other.alias != case.alias), "{}", case.id);
        assert!(case.proves.ends_with('.') && case.id.contains('.'), "{}", case.id);
    }
}
