//! Reads sessions from files and writes them to files.
//!
//! A transcript is one file per session, in a format that other programs read too. [`mod@write`] has a
//! writer for each format, which takes a session's log an entry at a time. [`read`] has a reader
//! for each format; [`import`] stores what a reader finds.
//!
//! A transcript is not the log. Most formats leave something out (tool results, thinking,
//! bookkeeping); only the format `rethread` is lossless.

mod fences;
pub mod import;
mod markdown_marks;
mod message_growth;
pub mod numbers;
mod overlap;
pub mod read;
pub mod redact;

pub mod write;
