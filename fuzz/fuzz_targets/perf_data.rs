//! Fuzz target; the body is the function of the same name in `etw_fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::perf_data(data));
