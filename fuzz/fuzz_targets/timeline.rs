//! Fuzzes the target of this file's name; the body is in `etw_testkit::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_testkit::fuzz::timeline(data));
