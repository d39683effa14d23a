//! Turns, summaries and continuing, against a scripted model.

mod attachments;
mod bench;
mod client_tools;
mod compact;
mod cut_results;
mod economy;
mod permission;
mod project;
mod refusal;
mod rewind;
mod rounds;
mod subagents;
mod transcripts;
mod turn;
