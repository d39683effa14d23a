//! The real binary, as people and scripts use it.

mod append;
mod commands;
mod copy;
mod desk;
mod import;
mod serve;
mod trouble;
