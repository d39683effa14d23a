//! `edit_file`: another text in the place of one.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::workspace::RealPath;
use super::write_file::replace;
use super::{FileChange, Site, Spec, Tool, ToolFailure, Workspace};

/// Replaces a piece of a file.
pub struct EditFile {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

impl EditFile {
    /// Edits files of this workspace.
    pub fn new(workspace: Arc<Workspace>) -> EditFile {
        EditFile { workspace }
    }
}

impl Tool for EditFile {
    fn spec(&self) -> Spec {
        Spec {
            name: "edit_file".into(),
            description: "Replaces a text in a file of the workspace. The old text must stand \
                          there exactly once, white space included, unless `all` is set."
                .into(),
            input: schema(
                json!({
                    "path": {"type": "string", "description": "The file, relative to the workspace."},
                    "old": {"type": "string", "description": "The text to replace, exactly as it stands in the file."},
                    "new": {"type": "string", "description": "The text to put there."},
                    "all": {"type": "boolean", "description": "Replace it wherever it stands."},
                }),
                &["path", "old", "new"],
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
        self.edited(input).map(|(_, change, _)| Some(change))
    }

    fn run(&self, input: &str, _site: &Site) -> Result<String, ToolFailure> {
        let (path, FileChange { after, .. }, count) = self.edited(input)?;
        replace(&self.workspace, &path, after.as_bytes())?;
        let times = if count == 1 { "once".into() } else { format!("{count} times") };
        Ok(format!("replaced {times} in `{}`", path.display()))
    }
}

impl EditFile {
    /// The file, what is in it before and after an edit, and how often the text was replaced.
    fn edited(&self, input: &str) -> Result<(RealPath, FileChange, usize), ToolFailure> {
        let Input { path, old, new, all } = arguments(&self.spec().input, input)?;
        if old.is_empty() {
            return Err(ToolFailure("`old` is empty; `write_file` writes a whole file".into()));
        }
        if old == new {
            return Err(ToolFailure("`old` and `new` are the same".into()));
        }
        let path = self.workspace.resolve_for_writing(&path)?;
        let shown = path.display();
        // What is shown with stand-ins for broken characters must not be written back with them.
        let text = String::from_utf8(self.workspace.read(&path)?)
            .map_err(|_| ToolFailure(format!("`{shown}` is not valid UTF-8")))?;
        let count = text.matches(&old).count();
        match count {
            0 => {
                let hint = "it must be exactly as in the file, white space included";
                return Err(ToolFailure(format!("`old` does not occur in `{shown}`; {hint}")));
            }
            2.. if !all => {
                let hint = "give more of the text around it, or set `all`";
                return Err(ToolFailure(format!(
                    "`old` occurs {count} times in `{shown}`; {hint}"
                )));
            }
            _ => {}
        }
        let after = text.replace(&old, &new);
        let change = FileChange { path: path.to_path_buf(), before: Some(text), after };
        Ok((path, change, count))
    }
}
