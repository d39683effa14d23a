//! The shapes of data, for programs.

use rethread_core::Session;
use rethread_core::world::rfc3339;
use serde_json::{Value, json};

/// A session, as `list` and `show` print it.
pub(crate) fn session(session: &Session) -> Value {
    let header = &session.header;
    json!({
        "id": header.id,
        "name": header.name,
        "keys": session.keys,
        "agent": header.agent,
        "workspace": header.workspace,
        "parent": header.parent.map(|parent| parent.id),
        "created_at": rfc3339(header.created_at),
        "last_activity_at": rfc3339(session.last_activity_at),
        "messages": session.tally.messages,
        "queries": session.tally.queries,
        "first_message": session.first_message,
        "tokens": session.tally.tokens,
        "archived": header.archived,
        "description": header.description,
        "provider": header.provider,
        "model": header.model,
    })
}
