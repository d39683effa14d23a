//! The format `rethread`: JSON lines, a session and then its entries, each with everything a log
//! contains.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rethread_core::BlobId;
use rethread_core::entry::Body;
use rethread_core::limits::BLOB_BYTES_MAX;
use rethread_core::session::Header;

use super::fields::{Fields, string};
use super::output::{Out, Slot};
use super::sink::{FoundSession, Link};
use super::{Result, time};
use crate::write::VERSION;

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let mut session = None;
    let mut attached = Vec::new();
    out.lines(path, |out, number, line| {
        let place = format!("line {number}");
        let Some(fields) = out.fields(number, line) else { return Ok(()) };
        if let Some(version) = fields.number("rethread") {
            let header = fields.get("session").map(serde_json::from_str::<Header>);
            match header {
                _ if version > VERSION => {
                    let what = format!("it has version {version}; this program reads {VERSION}");
                    out.unreadable("session", place, what);
                    session = None;
                }
                Some(Ok(header)) => {
                    session = Some(out.session(found(header, &fields))?);
                    out.used("session");
                }
                Some(Err(error)) => {
                    out.unreadable("session", place, error.to_string());
                    session = None;
                }
                None => out.unreadable("session", place, "it has no session"),
            }
            return Ok(());
        }
        let Some(session) = session else {
            out.unreadable("entry", place, "it belongs to no session");
            return Ok(());
        };
        if fields.has("blob") {
            return blob(out, session, &fields, place, &mut attached);
        }
        entry(out, session, &fields, place)
    })
}

/// An attachment: what it is called, and its bytes, or a part of them that others follow.
fn blob(
    out: &mut Out<'_>,
    session: usize,
    fields: &Fields<'_>,
    place: String,
    attached: &mut Vec<u8>,
) -> Result<()> {
    let id = fields.word("blob").and_then(|id| id.parse::<BlobId>().ok());
    let part = fields.text("base64").and_then(|text| BASE64.decode(text.as_bytes()).ok());
    attached.extend(part.unwrap_or_default());
    if fields.get("more") == Some("true") && attached.len() <= BLOB_BYTES_MAX {
        out.used("attachment");
        return Ok(());
    }
    let bytes = std::mem::take(attached);
    match id {
        Some(id) if BlobId::of(&bytes) == id => out.blob(session, bytes),
        _ => {
            out.unreadable("attachment", place, "its bytes are not what its hash says");
            Ok(())
        }
    }
}

fn found(header: Header, fields: &Fields<'_>) -> FoundSession {
    let keys = fields.list("keys").unwrap_or_default();
    FoundSession {
        identity: header.id.to_string(),
        owner: None,
        keys: keys.into_iter().filter_map(|key| Some(string(key)?.into_owned())).collect(),
        name: Some(header.name.to_string()),
        readable_id: fields.word("readable_id"),
        profile: header.profile,
        created_at: Some(header.created_at),
        parent: header
            .parent
            .map(|parent| Link { identity: parent.id.to_string(), origin: parent.origin }),
        archived: header.archived,
        imported: header.imported,
        kind: Some(header.kind),
        source: header.source,
        extra: header.extra,
        ..FoundSession::default()
    }
}

fn entry(out: &mut Out<'_>, session: usize, fields: &Fields<'_>, place: String) -> Result<()> {
    let kind = fields.word("kind");
    let at = fields.get("at").and_then(|raw| time::of_json(raw, &out.options.zone));
    // JSON of another program that was spread over several lines is in a string.
    let text = fields.text("text");
    // A record of another program may be `null`, which is different from a missing one.
    let body = text.as_deref().or(fields.get("body"));
    let body = body.or_else(|| fields.has("body").then_some("null"));
    let (Some(kind), Some(id), Some(json)) = (kind, fields.word("id"), body) else {
        out.unreadable("entry", place, "it lacks its kind, its id or its body");
        return Ok(());
    };
    let slot = Slot { session, id, at };
    match Body::parse(&kind, json) {
        Ok(Body::Message(message)) => out.message(slot, message, &kind, 1),
        Ok(body) => out.store(slot, body, &kind),
        Err(error) => {
            out.unreadable(&kind, place, error.source.to_string());
            Ok(())
        }
    }
}
