//! Any bytes as a file of the format `agent`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::reads("agent", data));
