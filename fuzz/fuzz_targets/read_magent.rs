//! Any bytes as a file of the format `magent`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::reads("magent", data));
