//! The real binary, as people and scripts use it.

mod append;
mod commands;
mod copy;
mod economy;
mod find;
mod flipped;
mod foreign;
mod home;
mod import;
mod labels;
mod reading;
mod readme;
mod retry;
mod run;
mod serve;
#[path = "../chat/terminal.rs"]
#[allow(dead_code, reason = "shared with the tests of the chat")]
mod terminal;
mod trash;
mod trouble;
