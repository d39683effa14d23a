//! Any messages, written and read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::comes_home(data));
