//! The loop between a session and a model, and the host that every interface uses.
//!
//! The path of a turn: an interface asks its [`Handle`] to start one (`host/turns.rs`), which finds
//! the session, waits in its queue, decides which agent answers (`host/decision.rs`) and runs it
//! (`turn.rs`): build a context, ask a [`provider`], append the reply, run the [`tool`]s it calls,
//! append their results, and ask again. [`Event`]s report the progress. Long conversations continue
//! from a summary: `summarize.rs`, `compact.rs` and `restore.rs`.
//!
//! Agents are in [`agents`]; every limit is in [`limits`].

pub mod agents;
mod ask;
mod attachments;
mod blocking;
mod byte_budget;
mod compact;
mod conversation;
mod events;
mod extractive;
pub mod fifo;
mod file_history;
mod find_answer;
mod grant;
mod holder;
pub mod host;
mod instructions;
mod leased_thread;
pub mod limits;
pub mod media;
mod next_call;
mod open_tasks;
pub mod own_commands;
mod permission;
mod project_instructions;
mod prompt;
pub mod provider;
mod refusal;
mod repetition;
mod responder;
mod restore;
mod resume_from;
mod rewind;
mod run_call;
mod runner;
mod save;
#[cfg(feature = "scripted")]
pub mod scripted;
mod stats_report;
mod step;
mod subagent;
mod summarize;
mod thread_cache;
pub mod tool;
mod transcript_index;
mod turn;
mod turn_economy;
mod write_title;

pub use blocking::blocking;
pub use byte_budget::{BudgetExceeded, ByteBudget, HeldBytes};
pub use compact::{CompactReceipt, Compacted, Preview, Stage};
pub use events::{Event, Events, Progress};
pub use file_history::FileChanged;
pub use find_answer::QuestionState;
pub use grant::{BadGrant, CommandPrefix, Grant, Permissions};
pub use holder::is_dead;
pub use host::{
    Handle, Host, HostLimits, HostSettings, Roster, RosterSettings, Target, Workspaces,
};
pub use leased_thread::LeasedThread;
pub use next_call::{CacheState, NextCall};
pub use permission::{DECLINED, NOT_RUN, PermissionAnswer, PermissionRequest, SessionPermissions};
pub use project_instructions::{ProjectFile, ProjectInstructions, project_files};
pub use responder::{Responder, Summarizer, TurnLimits};
pub use restore::{Continued, NO_ACKNOWLEDGMENT, PastSession};
pub use resume_from::{FileError, FromFile};
pub use rethread_transcript::numbers;
pub use rethread_transcript::read::markdown::TranscriptSummary;
pub use rethread_transcript::write::markdown::WriteError;
pub use rewind::{ByOthers, DoneSince, PastFile, PastTurn};
pub use runner::{End, Runner, TurnAnswer, TurnError};
pub use save::TranscriptSteps;
pub use stats_report::{SessionCost, StatsReport};
pub use summarize::{EXTRACTIVE, INHERITED, SummaryMethod, SummaryOutcome};
pub use turn::{TurnInput, TurnMode, TurnOptions};
pub use turn_economy::TurnEconomy;

/// How the text that was piped in with a question begins. It is a block of its own, after the
/// question.
pub const STANDARD_INPUT: &str = "\n\nStandard input:\n\n";
