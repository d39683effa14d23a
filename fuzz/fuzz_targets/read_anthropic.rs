//! Any bytes as a file of the format `anthropic`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::reads("anthropic", data));
