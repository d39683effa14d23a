//! The chat, as people meet it: the real binary in a real pseudo-terminal, or on pipes.

mod agreed_work;
mod broken_work;
mod coming;
mod compacting;
mod editing;
#[path = "../cli/home.rs"]
#[allow(dead_code, reason = "shared with the tests of the commands")]
mod home;
mod last_row;
mod lines;
mod page;
mod permission;
mod picker;
mod picture;
mod rewind;
mod screens;
mod surprises;
mod terminal;
mod typing;
mod window;
mod wires;
mod work;
