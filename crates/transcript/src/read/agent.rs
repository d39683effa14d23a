//! A command-line agent's sessions: a folder with an index, or one file of it.

use std::path::{Path, PathBuf};

use super::document;
use super::fields::Fields;
use super::messages::one;
use super::output::{Out, Slot, fingerprint};
use super::sink::FoundSession;
use super::{ReadError, Result, time};
use rethread_core::Profile;

/// Files next to the sessions that contain nothing new.
const SIDE_FILES: [&str; 2] = ["index.json", "last_session"];

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    if !path.is_dir() {
        return file(path, out);
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(path)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let mut bytes = 0;
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        bytes += path.metadata().map_or(0, |meta| meta.len());
        out.bytes(bytes);
        if SIDE_FILES.contains(&name.as_str()) {
            out.records(1);
            out.used(&name);
        } else if name.ends_with(".json") {
            if let Err(error) = file(&path, out) {
                if let ReadError::Sink(_) = error {
                    return Err(error);
                }
                out.records(1);
                out.unreadable("file", name, error.to_string());
            }
        } else {
            // The remains of an interrupted write, or a file of another program.
            out.records(1);
            out.unreadable("file", name, "it is not a session");
        }
    }
    Ok(())
}

fn file(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let (text, damage) = document::mended(&text)?;
    let doc = Fields::parse(&text).map_err(ReadError::broken)?;
    let meta = doc.object("metadata").unwrap_or_default();
    if !doc.has("messages") && meta.get("id").is_none() {
        return Err(ReadError::broken("it has no metadata and no messages"));
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let id = meta.word("id").or(stem).unwrap_or_default();
    let at = |name: &str| meta.get(name).and_then(|raw| time::of_json(raw, &out.options.zone));
    let (created, last) = (at("createdAt"), at("lastActivityAt"));
    let session = out.session(FoundSession {
        identity: id.clone(),
        name: Some(meta.word("name").unwrap_or(id)),
        profile: Profile {
            description: meta.word("description"),
            provider: meta.word("provider"),
            model: meta.word("model"),
            workspace: meta.word("workspace").or_else(|| meta.word("cwd")),
            ..Profile::default()
        },
        created_at: created,
        windowed: true,
        ..FoundSession::default()
    })?;
    out.records(1);
    out.used("metadata");
    let rest = doc.without_list("messages", &["metadata", "contextSummary"]);
    if rest != "{}" {
        out.records(1);
        let id = format!("header:{}", fingerprint(&[&rest]));
        out.raw(Slot { session, id, at: created }, "header", &rest)?;
    }
    let items = doc.list("messages").unwrap_or_default();
    for item in &items {
        out.records(1);
        one(out, session, item)?;
    }
    out.damaged(damage, items.len());
    if let Some(summary) = doc.get("contextSummary") {
        // It is shown to a user who comes back; no model was ever sent it.
        out.records(1);
        let id = format!("summary:{}", fingerprint(&[summary]));
        out.raw(Slot { session, id, at: last }, "context_summary", summary)?;
    }
    Ok(())
}
