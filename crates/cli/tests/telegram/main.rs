//! The Telegram door with the real binary, against a Bot API over real HTTP.

mod bot;
#[path = "../../../telegram/src/markup/checker.rs"]
mod checker;
mod commands;
mod crashes;
mod crowd;
#[path = "../cli/desk.rs"]
#[allow(dead_code, reason = "these tests need less of it")]
mod desk;
mod fake;
mod files;
mod moved;
mod network;
mod people;
mod running;
mod talking;
