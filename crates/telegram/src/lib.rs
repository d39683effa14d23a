//! Sessions over Telegram: one for each person, kept for ever.
//!
//! What is heard walks down: `door.rs` asks Telegram for updates, `heard.rs` says what an update
//! means, `people.rs` who may say it and whose sessions they mean, and `inbox.rs` puts it on disk
//! before it is confirmed. `visit.rs` deals with it, in order in each chat and beside the others:
//! a question is a turn (`talk.rs`), anything else a verb (`commands.rs`, `history.rs`). What is
//! said back becomes parts that Telegram takes (`markup/`), which `post.rs` gets there.
//!
//! It never stores anything of a stranger, never leaves the folders it was given, and never shows
//! its token. It says nothing about exactly-once that does not hold: `docs/telegram.md` says where
//! Telegram itself leaves a gap. Every limit is in [`limits`].

mod api;
mod buttons;
mod commands;
mod door;
mod heard;
mod history;
mod inbox;
pub mod limits;
mod markup;
mod people;
mod post;
mod talk;
mod token;
mod visit;
mod words;
mod workspaces;

pub use api::{ApiError, DEFAULT_URL};
pub use door::{Bot, Door, DoorError, Voice};
pub use inbox::INBOX_OWNER;
pub use people::People;
pub use token::{Token, TokenError};
pub use workspaces::Workspaces;
