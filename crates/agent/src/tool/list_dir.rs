//! `list_dir`: lists a folder.

use std::sync::Arc;

use cap_std::fs::FileType;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::{DIR_ENTRIES_MAX, LIST_ROWS_MAX};
use super::workspace::{failed, shown};
use super::{Spec, Tool, ToolContext, ToolFailure, Workspace, written};

/// Lists a folder.
pub struct ListDir {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: Option<String>,
}

#[derive(Serialize)]
struct Listing {
    files: Vec<Row>,
    more: bool,
}

#[derive(Serialize)]
struct Row {
    path: String,
    kind: &'static str,
    size: u64,
}

impl ListDir {
    /// Lists folders of this workspace.
    pub fn new(workspace: Arc<Workspace>) -> ListDir {
        ListDir { workspace }
    }
}

impl Tool for ListDir {
    fn spec(&self) -> Spec {
        Spec {
            name: "list_dir".into(),
            description: "Lists a folder of the workspace, hidden files included: path, kind \
                          (file, dir, link, other) and size in bytes."
                .into(),
            input: schema(
                json!({"path": {"type": "string", "description": "The folder; by default, the workspace itself."}}),
                &[],
            ),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, input: &str, _tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let path = self.workspace.resolve(input.path.as_deref().unwrap_or("."))?;
        let error = |error: std::io::Error| failed("list", &path, &error);
        let dir = self.workspace.folder(&path).map_err(error)?;
        let mut names = Vec::new();
        for entry in dir.entries().map_err(error)?.take(DIR_ENTRIES_MAX + 1) {
            names.push(entry.map_err(error)?.file_name());
        }
        let more = names.len() > LIST_ROWS_MAX;
        names.sort();
        names.truncate(LIST_ROWS_MAX);
        let mut files = Vec::new();
        for name in names {
            // Entries that were deleted in the meantime are not listed.
            let Ok(found) = dir.symlink_metadata(&name) else { continue };
            let full = if path.as_os_str() == "." { name.into() } else { path.join(&name) };
            files.push(Row {
                path: shown(&full),
                kind: kind(found.file_type()),
                size: found.len(),
            });
        }
        Ok(written(&Listing { files, more }))
    }
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "file",
        kind if kind.is_dir() => "dir",
        kind if kind.is_symlink() => "link",
        _ => "other",
    }
}
