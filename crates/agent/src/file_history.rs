//! Files as they were before the agent changed them.
//!
//! Before `write_file` or `edit_file` writes, what the file holds and what it will hold are kept as
//! blobs of the session, and an entry of the log says so. All of that is on disk before the file is
//! touched, so the change can always be undone: see `rewind.rs`. What a subagent changes is noted
//! in the sessions it works for as well. What commands change is not known here.

use rethread_core::{BlobId, Body, Raw, Thread, sessions};
use serde::{Deserialize, Serialize};

use crate::tool::FileChange;

/// The kind of these entries.
pub(crate) const FILE_CHANGED: &str = "file_changed";

/// A change to a file, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChanged {
    /// The file, from the workspace.
    pub path: String,
    /// The workspace.
    pub workspace: String,
    /// What it held; none where it was not there.
    pub before: Option<BlobId>,
    /// What it was to hold; none where it was to be removed.
    pub after: Option<BlobId>,
    /// The call that changed it; none where a person went back.
    pub call: Option<String>,
}

impl FileChanged {
    /// What an entry says, where it is about a file.
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

/// Keeps what a call is about to change with a session, and notes it in its log.
pub(crate) fn keep(
    thread: &mut Thread,
    workspace: &str,
    call: &str,
    change: &FileChange,
) -> Result<(), sessions::Error> {
    let FileChange { path, before, after } = change;
    // A path that is not text could not be found again by the text of it.
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
