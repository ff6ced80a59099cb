#[test] fn f() { trybuild::TestCases::new().compile_fail("tests/compile_fail/derive_*.rs"); }
