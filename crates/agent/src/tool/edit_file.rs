//! `edit_file`: another text in the place of one.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
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

    fn preview(&self, input: &str) -> Result<Option<FileChange>, ToolFailure> {
        self.edited(input).map(|(change, _)| Some(change))
    }

    fn run(&self, input: &str, _site: &Site) -> Result<String, ToolFailure> {
        let (FileChange { path, after, .. }, count) = self.edited(input)?;
        replace(&self.workspace, &path, after.as_bytes())?;
        let times = if count == 1 { "once".into() } else { format!("{count} times") };
        Ok(format!("replaced {times} in `{}`", path.display()))
    }
}

impl EditFile {
    /// The file before and after an edit, and how often the text was replaced.
    fn edited(&self, input: &str) -> Result<(FileChange, usize), ToolFailure> {
        let Input { path, old, new, all } = arguments(&self.spec().input, input)?;
        if old.is_empty() {
            return Err(ToolFailure("`old` is empty; `write_file` writes a whole file".into()));
        }
        if old == new {
            return Err(ToolFailure("`old` and `new` are the same".into()));
        }
        let path = self.workspace.locate(&path)?;
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
        Ok((FileChange { path, before: Some(text), after }, count))
    }
}
