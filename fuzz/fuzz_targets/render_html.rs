//! Any text as a page, and as a diff.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::render::as_a_page(data));
