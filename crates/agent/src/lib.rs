//! The loop between a session and a model.
//!
//! A turn walks down: a door calls [`Runner::run_turn`] (`turn.rs`), which builds a context, asks
//! a [`provider`], writes the reply down, runs the [`tool`]s it calls, writes their results down,
//! and asks again. What happens meanwhile is told as [`Event`]s. The rest of the crate is about
//! going on after a long conversation: `summarize.rs`, `compact.rs` and `restore.rs`.
//!
//! The agents people talk to are in [`agents`]; every limit is in [`limits`].

pub mod agents;
mod ask;
mod call;
mod compact;
mod conversation;
mod events;
mod extract;
mod find_answer;
pub mod lanes;
mod lease;
pub mod limits;
mod past;
mod prompt;
pub mod provider;
mod restore;
mod runner;
mod save;
#[cfg(feature = "scripted")]
pub mod scripted;
mod step;
mod summarize;
pub mod tool;
mod turn;

pub use compact::{Compacted, Preview, Receipt, Stage};
pub use events::{Event, Events};
pub use find_answer::QuestionState;
pub use lease::{Held, Kept, is_dead, past_the_dead};
pub use past::{FileError, FromFile};
pub use restore::{GoesOn, NO_ACKNOWLEDGMENT, Past};
pub use rethread_transcript::numbers;
pub use rethread_transcript::read::markdown::Summary as FileSummary;
pub use rethread_transcript::write::markdown::WriteError;
pub use runner::{Answer, Bounds, End, Runner, Scribe, TurnError};
pub use summarize::{EXTRACTIVE, How, INHERITED, Summary};
