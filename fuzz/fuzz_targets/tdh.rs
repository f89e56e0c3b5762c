//! Fuzz target: TDH's functions of the C interface with hostile records (`cargo fuzz run tdh` in `fuzz`).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_capi::decode_hostile_record(data));
