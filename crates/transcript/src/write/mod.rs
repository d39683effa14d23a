//! A session as a file: one module per format.

pub mod markdown;
mod turn;
