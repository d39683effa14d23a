//! Any bytes, in the format they are recognised as.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::recognises(data));
