//! Any text in pieces, which must give what the whole gives.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::render::as_it_arrives(data));
