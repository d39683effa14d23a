//! Sessions written to files, and read from them.
//!
//! A transcript is what people keep, mail and read: one file per session, in a format that other
//! programs read too. [`write::markdown`] makes one from a session's log, an entry at a time;
//! [`read::markdown`] parses one again, from any program and version. Neither
//! touches a disk or a clock: the caller brings the entries and says where the text goes.
//!
//! A transcript is not the log. It leaves out what a person would not read (tool results,
//! thinking, bookkeeping); what must survive byte for byte belongs in a store.

mod beside;
mod fences;
mod grown;
pub mod import;
mod marks;
pub mod numbers;
pub mod read;
pub mod redact;
mod window;
pub mod write;
