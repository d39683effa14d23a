//! A file as a session: one module per format.

pub mod markdown;
mod section;
