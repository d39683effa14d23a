//! Any text on a terminal.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::render::on_a_terminal(data));
