//! `edit_file`: replaces texts in a file.
//!
//! All edits of a call are made or none is. They are made one after the other, each on what the one
//! before left. The line endings of the file are kept, also where it has both kinds: a model reads
//! and writes `\n`, also where the file has `\r\n`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::EDITS_MAX;
use super::nearest_text::{nearest, numbered};
use super::workspace::RealPath;
use super::write_file::replace;
use super::{FileChange, Spec, Tool, ToolContext, ToolFailure, Workspace};

/// Occurrences that are shown if a text is not unique.
const PLACES_SHOWN: usize = 5;

/// Replaces pieces of a file.
pub struct EditFile {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    old: Option<String>,
    new: Option<String>,
    #[serde(default)]
    all: bool,
    edits: Option<Vec<Edit>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
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
        let edit = schema(
            json!({
                "old": {"type": "string", "description": "The text to replace."},
                "new": {"type": "string", "description": "The text to put there."},
                "all": {"type": "boolean", "description": "Replace every occurrence."},
            }),
            &["old", "new"],
        );
        Spec {
            name: "edit_file".into(),
            description: "Replaces text in a file of the workspace: `old` by `new`, or several \
                          `edits` in order, all or none. `old` must occur exactly once, white space \
                          included and without the line numbers of `read_file`, unless `all` is set."
                .into(),
            input: schema(
                json!({
                    "path": {"type": "string", "description": "The file, relative to the workspace."},
                    "old": {"type": "string", "description": "The text to replace, exactly as in the file."},
                    "new": {"type": "string", "description": "The text to put there."},
                    "all": {"type": "boolean", "description": "Replace every occurrence."},
                    "edits": {"type": "array", "items": edit, "description": "Several edits, instead of `old` and `new`."},
                }),
                &["path"],
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

    fn run(&self, input: &str, _tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let (path, FileChange { after, .. }, count) = self.edited(input)?;
        replace(&self.workspace, &path, after.as_bytes())?;
        let times = if count == 1 { "once".into() } else { format!("{count} times") };
        Ok(format!("replaced {times} in `{}`", path.display()))
    }
}

impl EditFile {
    /// The file, its content before and after the edits, and how many texts were replaced.
    fn edited(&self, input: &str) -> Result<(RealPath, FileChange, usize), ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let path = input.path.clone();
        let edits = edits_of(input)?;
        let path = self.workspace.resolve_for_writing(&path)?;
        // Text that was shown with replacement characters must not be written back with them.
        let before = String::from_utf8(self.workspace.read(&path)?)
            .map_err(|_| ToolFailure(format!("`{}` is not valid UTF-8", path.display())))?;
        let shown = path.display().to_string();
        let (mut after, mut count) = (before.clone(), 0);
        for (index, edit) in edits.iter().enumerate() {
            let (text, times) =
                edit.applied(&after, &shown).map_err(|ToolFailure(why)| match edits.len() {
                    1 => ToolFailure(why),
                    all => ToolFailure(format!(
                        "edit {} of {all}: {why}\nNone of the edits was made.",
                        index + 1
                    )),
                })?;
            (after, count) = (text, count + times);
        }
        if after == before {
            return Err(ToolFailure(format!("the edits leave `{shown}` as it is")));
        }
        let before = Some(before.into_bytes());
        let change = FileChange { path: path.to_path_buf(), before, after };
        Ok((path, change, count))
    }
}

/// The edits of a call: one, or a list.
fn edits_of(input: Input) -> Result<Vec<Edit>, ToolFailure> {
    let all = input.all;
    match (input.old, input.new, input.edits) {
        (Some(old), Some(new), None) => Ok(vec![Edit { old, new, all }]),
        (None, None, Some(edits)) if !all && (1..=EDITS_MAX).contains(&edits.len()) => Ok(edits),
        (None, None, Some(edits)) if edits.len() > EDITS_MAX => {
            Err(ToolFailure(format!("`edits` may have at most {EDITS_MAX} edits")))
        }
        _ => {
            Err(ToolFailure("give either `old` and `new`, or `edits` with one edit or more".into()))
        }
    }
}

impl Edit {
    /// The text after this edit, and the number of replacements.
    fn applied(&self, text: &str, path: &str) -> Result<(String, usize), ToolFailure> {
        if self.old.is_empty() {
            return Err(ToolFailure("`old` is empty; `write_file` writes a whole file".into()));
        }
        if self.old == self.new {
            return Err(ToolFailure("`old` and `new` are the same".into()));
        }
        let mut old = self.old.clone();
        if !text.contains(&old) && text.contains("\r\n") {
            old = in_crlf(&old);
        }
        match text.matches(&old).count() {
            0 => Err(ToolFailure(match nearest(text, &self.old) {
                Some(near) => format!(
                    "`old` does not occur in `{path}`; {}. It must be exactly as in the file, white \
                     space included. The nearest text is at line {}:\n{}",
                    near.difference, near.first, near.lines
                ),
                None => format!(
                    "`old` does not occur in `{path}`, and nothing there is like it; read the file \
                     again"
                ),
            })),
            count @ 2.. if !self.all => {
                let places = places(text, &old);
                Err(ToolFailure(format!(
                    "`old` occurs {count} times in `{path}`; give more of the text around it, or \
                     set `all`. It begins at:\n{places}"
                )))
            }
            count => {
                let (mut after, mut from) = (String::with_capacity(text.len()), 0);
                for (at, _) in text.match_indices(&old) {
                    after.push_str(&text[from..at]);
                    match ends_in_crlf(text, at) {
                        true => after.push_str(&in_crlf(&self.new)),
                        false => after.push_str(&self.new),
                    }
                    from = at + old.len();
                }
                after.push_str(&text[from..]);
                Ok((after, count))
            }
        }
    }
}

/// A text with the line endings of Windows.
fn in_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Whether the line at a place ends as those of Windows do; where it is the last one and has no end,
/// the line before it.
fn ends_in_crlf(text: &str, at: usize) -> bool {
    let end = text[at..].find('\n').map(|end| at + end).or_else(|| text[..at].rfind('\n'));
    end.is_some_and(|end| text[..end].ends_with('\r'))
}

/// The lines at which a text begins.
fn places(text: &str, wanted: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = Vec::new();
    let (mut line, mut from) = (0, 0);
    for (at, _) in text.match_indices(wanted).take(PLACES_SHOWN) {
        line += text[from..at].matches('\n').count();
        from = at;
        shown.push(numbered(line + 1, lines.get(line).copied().unwrap_or_default()));
    }
    shown.join("\n")
}
