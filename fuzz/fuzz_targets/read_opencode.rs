//! Any bytes as a file of the format `opencode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::reads("opencode", data));
