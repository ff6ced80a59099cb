//! What must not compile, and the words it is refused with.
//!
//! The words are those of the compiler that the repository is built with; regenerate them with `TRYBUILD=overwrite`.

#[test]
fn programs_that_must_not_compile_do_not() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
