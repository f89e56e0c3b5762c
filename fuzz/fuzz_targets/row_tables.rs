//! Fuzz target; the body is the function of the same name in `etw_testkit::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_testkit::fuzz::row_tables(data));
