//! Earlier versions of files that the agent changed.
//!
//! Before `write_file` or `edit_file` writes, the current and the new content of the file are
//! stored as blobs of the session, and an entry of the log refers to them. All of that is on disk
//! before the file is changed, so the change can always be undone: see `rewind.rs`. Changes by a
//! subagent are also recorded in the sessions it works for. Changes by commands are not recorded.

use rethread_core::{BlobId, Body, Raw, Thread, sessions};
use serde::{Deserialize, Serialize};

use crate::tool::FileChange;

/// The kind of these entries.
pub(crate) const FILE_CHANGED: &str = "file_changed";

/// A change to a file, as recorded in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct FileChanged {
    /// The file, relative to the workspace.
    pub path: String,
    pub workspace: String,
    /// The old content; `None` if the file did not exist.
    pub before: Option<BlobId>,
    /// The new content; `None` if the file was to be removed.
    pub after: Option<BlobId>,
    /// The call that changed it; `None` for `/rewind`.
    pub call: Option<String>,
}

impl FileChanged {
    /// The change in an entry, if it is one.
    pub fn of(body: &Body) -> Option<FileChanged> {
        match body {
            Body::Unknown { kind, raw } if kind == FILE_CHANGED => {
                serde_json::from_str(raw.get()).ok()
            }
            _ => None,
        }
    }

    /// The entry for it.
    pub(crate) fn body(&self) -> Body {
        Body::Unknown { kind: FILE_CHANGED.into(), raw: Raw::of(self) }
    }
}

/// Stores what a call is about to change with a session, and records it in its log.
pub(crate) fn keep(
    thread: &mut Thread,
    workspace: &str,
    call: &str,
    change: &FileChange,
) -> Result<(), sessions::Error> {
    let FileChange { path, before, after } = change;
    // A path that is not UTF-8 could not be found again by its text.
    let Some(path) = path.to_str().filter(|_| before.as_deref() != Some(after.as_bytes())) else {
        return Ok(());
    };
    let (sessions, id) = (thread.sessions().clone(), thread.session().id());
    let before = before.as_ref().map(|bytes| sessions.put_blob(id, bytes)).transpose()?;
    let after = Some(sessions.put_blob(id, after.as_bytes())?);
    let (path, workspace) = (path.to_owned(), workspace.to_owned());
    let changed = FileChanged { path, workspace, before, after, call: Some(call.to_owned()) };
    thread.note(changed.body()).map(drop)
}
