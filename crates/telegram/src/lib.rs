//! Sessions over Telegram: one for each person, kept for ever.
//!
//! An update walks down: `bot.rs` asks Telegram for updates, `update.rs` says what one means,
//! `allow_list.rs` who may send it and whose sessions they mean, and `inbox.rs` puts it on disk
//! before it is confirmed. `handle_update.rs` handles it, in order in each chat and beside the
//! others: a question is a turn of the owner's [`Handle`](rethread_agent::Handle) (`question.rs`,
//! with what was sent along: `attachment.rs`), anything else a verb (`commands.rs`, `history.rs`,
//! `status.rs`). The reply becomes parts that Telegram takes
//! (`markup/`), which `send.rs` delivers.
//!
//! It never stores anything of a stranger, never leaves the folders it was given, and never shows
//! its token. It says nothing about exactly-once that does not hold: `docs/telegram.md` says where
//! Telegram itself leaves a gap. Every limit is in [`limits`].

mod allow_list;
mod api;
mod attachment;
mod bot;
mod buttons;
mod commands;
mod handle_update;
mod history;
mod inbox;
pub mod limits;
mod markup;
mod question;
mod running;
mod send;
mod status;
mod texts;
mod token;
mod update;
mod wire;

pub use allow_list::People;
pub use api::{ApiError, DEFAULT_URL};
pub use bot::{Bot, BotError, BotSettings, Warn};
pub use inbox::INBOX_OWNER;
pub use token::{BotToken, BotTokenError};
