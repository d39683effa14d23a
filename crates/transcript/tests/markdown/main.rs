//! Markdown transcripts: what is written, and what is read back.

mod log;
mod read;
mod write;
