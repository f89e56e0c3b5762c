//! Wrong uses of the macros do not compile, and the compiler says why.
//!
//! `TRYBUILD=overwrite cargo test -p etw_provider --test ui` writes what it says to `tests/ui/*.stderr`.

#[test]
fn wrong_uses_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
