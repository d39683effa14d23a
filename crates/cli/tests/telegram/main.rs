//! The Telegram door with the real binary, against a Bot API over real HTTP.

mod bot;
#[path = "../../../telegram/src/markup/checker.rs"]
mod checker;
mod commands;
mod crashes;
mod crowd;
mod fake;
mod files;
#[path = "../cli/home.rs"]
#[allow(dead_code, reason = "these tests need less of it")]
mod home;
mod moved;
mod network;
mod people;
mod running;
mod talking;
