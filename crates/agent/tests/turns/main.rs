//! Turns, summaries and going on, against a scripted model behind a real HTTP server.

mod bench;
mod compact;
mod turn;
