//! The Telegram bot: one session for each person, kept permanently.
//!
//! The path of an update: `bot.rs` polls Telegram for updates, `update.rs` interprets them,
//! `allow_list.rs` checks the sender and finds the owner, and `inbox.rs` writes it to disk before
//! it is confirmed. `handle_update.rs` handles it, in order within a chat and in parallel with
//! other chats: a question is a turn of the owner's [`Handle`](rethread_agent::Handle)
//! (`question.rs`, with attachments: `attachment.rs`), anything else a verb (`commands.rs`,
//! `history.rs`, `status.rs`). The reply is split into parts that Telegram accepts (`markup/`),
//! which `send.rs` delivers.
//!
//! It never stores anything from a stranger, never leaves the folders it was given, and never shows
//! its token. `docs/telegram.md` says what is guaranteed about delivery, and where Telegram itself
//! leaves a gap. Every limit is in [`limits`].

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

pub use allow_list::AllowList;
pub use api::{ApiError, DEFAULT_URL};
pub use bot::{Bot, BotError, BotSettings, Warn};
pub use inbox::INBOX_OWNER;
pub use token::{BotToken, BotTokenError};
