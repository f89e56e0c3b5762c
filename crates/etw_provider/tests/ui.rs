//! Wrong uses of the macros fail to compile with the expected message.
//!
//! `TRYBUILD=overwrite cargo test -p etw_provider --test ui` regenerates `tests/ui/*.stderr`.

#[test]
fn wrong_uses_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
