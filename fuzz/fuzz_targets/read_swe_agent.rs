//! Any bytes as a file of the format `swe-agent`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::reads("swe-agent", data));
