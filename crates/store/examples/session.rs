//! A session in twenty lines: written, stored, and continued.
//!
//! `cargo run --release -p rethread-store --example session`

use std::sync::Arc;

use rethread_core::context::{Model, Policy};
use rethread_core::{Key, Message, New, Owner, Sessions};
use rethread_store::{System, connect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("rethread.db").display());
    let open = || -> Result<Sessions, Box<dyn std::error::Error>> {
        let store = connect(&url, Arc::new(System))?;
        Ok(Sessions::new(store, Owner::local(), Arc::new(System)))
    };
    let key = Key::new("file:notes.md")?;
    let system = Some("You keep notes.".to_owned());

    let mut thread = open()?.open(&key, &New { system, ..New::default() })?;
    thread.append(Message::user("We use a token bucket."))?;
    thread.append(Message::assistant("Noted: a token bucket."))?;
    drop(thread);

    // Another run of the program, another day.
    let mut thread = open()?.open(&key, &New::default())?;
    thread.append(Message::user("What do we use?"))?;
    let context = thread.context(&Policy::chat(), &Model::new("openai", "gpt-5"))?;
    for message in &context.messages {
        println!("{:>9}: {}", message.role.as_str(), message.plain_text());
    }
    assert_eq!(context.messages.len(), 4);
    Ok(())
}
