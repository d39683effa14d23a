//! `write_file`: writes a file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::OpenOptions;
use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::FILE_BYTES_MAX;
use super::workspace::{RealPath, failed};
use super::{FileChange, Spec, Tool, ToolContext, ToolFailure, Workspace};

/// Writes a file.
pub struct WriteFile {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    content: String,
}

impl WriteFile {
    /// Writes files of this workspace.
    pub fn new(workspace: Arc<Workspace>) -> WriteFile {
        WriteFile { workspace }
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> Spec {
        Spec {
            name: "write_file".into(),
            description: "Writes a whole file of the workspace: a new one, with the folders it \
                          needs, or in place of an old one."
                .into(),
            input: schema(
                json!({
                    "path": {"type": "string", "description": "The file, relative to the workspace."},
                    "content": {"type": "string", "description": "All of its content."},
                }),
                &["path", "content"],
            ),
        }
    }

    fn changes(&self) -> bool {
        true
    }

    fn must_ask(&self, input: &str) -> Option<String> {
        let input: Input = arguments(&self.spec().input, input).ok()?;
        self.workspace.starts_by_itself(&input.path)
    }

    fn preview(&self, input: &str) -> Result<Option<FileChange>, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let path = self.workspace.resolve_for_writing(&input.path)?;
        let before = self.workspace.content_at(&path)?;
        Ok(Some(FileChange { path: path.into(), before, after: input.content }))
    }

    fn run(&self, input: &str, _tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let path = self.workspace.resolve_for_writing(&input.path)?;
        let now = self.workspace.content_at(&path).ok().flatten();
        if now.as_deref() == Some(input.content.as_bytes()) {
            return Ok(format!("`{}` has this content already", path.display()));
        }
        let created = replace(&self.workspace, &path, input.content.as_bytes())?;
        let how = if created { "created" } else { "replaced" };
        let size = match input.content.len() {
            1 => "1 byte".to_owned(),
            bytes => format!("{bytes} bytes"),
        };
        Ok(format!("{how} `{}`: {size}", path.display()))
    }
}

/// Replaces the content of a file atomically. Returns whether the file is new; an existing one
/// keeps its mode.
pub(super) fn replace(
    workspace: &Workspace,
    path: &RealPath,
    content: &[u8],
) -> Result<bool, ToolFailure> {
    if content.len() as u64 > FILE_BYTES_MAX {
        let max = FILE_BYTES_MAX >> 20;
        return Err(ToolFailure(format!("a file may be at most {max} MiB")));
    }
    let error = |error: io::Error| failed("write", path, &error);
    if path.file_name().is_none() {
        return Err(ToolFailure(format!("`{}` is not a file", path.display())));
    }
    let (folder, name) = workspace.folder_to_write(path).map_err(error)?;
    // From here on everything happens in one open folder, even if it is renamed.
    let mode = match folder.symlink_metadata(name) {
        Ok(old) if old.is_file() => Some(old.permissions()),
        Ok(_) => return Err(ToolFailure(format!("`{}` is not a file", path.display()))),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => None,
        Err(other) => return Err(error(other)),
    };
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = PathBuf::from(format!(".rethread-{}-{count}.tmp", std::process::id()));
    let created = mode.is_none();
    let written = (|| {
        let mut file =
            folder.open_with(&temporary, OpenOptions::new().write(true).create_new(true))?;
        // Before there is anything to read: the file may be its owner's alone.
        if let Some(mode) = mode {
            file.set_permissions(mode)?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        folder.rename(&temporary, &folder, name)
    })();
    written.map_err(|failure| {
        // The first error is the one to report; a leftover file is hidden.
        folder.remove_file(&temporary).ok();
        error(failure)
    })?;
    Ok(created)
}
