//! Turns, summaries and going on, against a scripted model behind a real HTTP server.

mod attachments;
mod bench;
mod client_tools;
mod compact;
mod permission;
mod refusal;
mod transcripts;
mod rounds;
mod turn;
