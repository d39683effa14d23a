//! `open`: a session becomes this folder's session again.

use std::process::ExitCode;

use rethread_core::world::rfc3339;
use rethread_core::{Key, Session};
use serde_json::json;

use super::{Cli, Done};
use crate::args::Open;
use crate::out::{clean, fit, line};

pub(crate) fn run(cli: &Cli, args: &Open) -> Done {
    let id = cli.select(&args.sel)?;
    let key = match &args.key {
        Some(key) => Key::new(key.as_str())?,
        None => Key::new(format!("project:{}", cli.workspace()?))?,
    };
    let thread = cli.sessions.thread(id)?;
    cli.sessions.bind(&key, id)?;
    if cli.global.json {
        let session = cli.sessions.get(id)?;
        crate::out::json(&json!({ "session": session, "key": key }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let stats = cli.sessions.stats(id)?;
    line(summary(thread.session(), stats.user, stats.assistant))?;
    Ok(ExitCode::SUCCESS)
}

/// What a person is told when a conversation goes on. A model is not sent this.
pub(crate) fn summary(session: &Session, user: u64, assistant: u64) -> String {
    let header = &session.header;
    let mut lines = vec![
        "You are resuming a previous conversation session.".to_owned(),
        format!("Session: {}", header.name),
        format!("Created: {}", rfc3339(header.created_at)),
        format!("Last activity: {}", rfc3339(session.last_activity_at)),
        format!(
            "Total messages: {} ({user} from user, {assistant} from assistant)",
            session.tally.messages
        ),
    ];
    if let Some(description) = &header.profile.description {
        lines.push(format!("Description: {}", clean(description)));
    }
    if !session.first_message.is_empty() {
        lines.push(format!("First topic: {}", fit(&session.first_message, 100)));
    }
    lines.push(String::new());
    lines.push(
        "The conversation history follows. Continue naturally from where you left off.".to_owned(),
    );
    lines.join("\n")
}
