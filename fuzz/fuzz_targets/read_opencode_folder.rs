//! Any bytes as the files of an opencode folder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rethread_fuzz::reads_folder(data));
