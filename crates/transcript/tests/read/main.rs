//! Files of other programs: what is found in them, and that nothing is lost on the way.

mod again;
mod api;
mod attachments;
mod claude_code;
mod codex;
mod databases;
mod gemini;
mod others;
mod replay;
mod samples;
mod seeds;
mod strange;
mod support;
mod trouble;
