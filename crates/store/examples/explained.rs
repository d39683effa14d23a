//! A context explained: what a model would see, and why something is missing.
//!
//! `cargo run --release -p rethread-store --example explained`

use std::sync::Arc;

use rethread_core::context::{Model, Policy, explain};
use rethread_core::{Block, Message, New, Owner, Raw, Role, Sessions};
use rethread_store::{System, connect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("rethread.db").display().to_string();
    let sessions =
        Sessions::new(connect(&path, Arc::new(System))?, Owner::local(), Arc::new(System));
    let id = sessions.create(&New::default(), None)?.id();
    for turn in 1..=3 {
        let call_id = format!("call_{turn}");
        let input = Raw::parse(format!(r#"{{"query":"limiter {turn}"}}"#))?;
        let found: Vec<_> = (0..40).map(|n| format!(r#"{{"path":"notes/{n}.md"}}"#)).collect();
        let messages = [
            Message::user(format!("Question {turn}")),
            Message::new(Role::Assistant, vec![Block::tool_use(&call_id, "search_vault", input)]),
            Message::tool_result(&call_id, format!(r#"{{"results":[{}]}}"#, found.join(","))),
            Message::assistant(format!("Answer {turn}")),
        ];
        sessions.append(id, messages.into_iter().map(Into::into).collect())?;
    }
    // The tool results of finished turns are stubs now; the log still has every byte.
    let context = sessions.context(id, &Policy::editor(), &Model::new("openai", "gpt-5"))?;
    println!("{}\n\n{} tokens, hash {}", explain(&context), context.tokens, context.hash());
    Ok(())
}
