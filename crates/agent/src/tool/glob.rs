//! `glob`: finds files by name.

use std::path::Path;
use std::sync::Arc;

use ignore::overrides::{Override, OverrideBuilder};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::{LIST_ROWS_MAX, WALK_FILES_MAX};
use super::workspace::shown;
use super::{Spec, Tool, ToolContext, ToolFailure, Workspace, written};

/// Finds files by name.
pub struct Glob {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    pattern: String,
    path: Option<String>,
}

#[derive(Serialize)]
struct Found {
    files: Vec<String>,
    more: bool,
}

impl Glob {
    /// Finds files of this workspace.
    pub fn new(workspace: Arc<Workspace>) -> Glob {
        Glob { workspace }
    }
}

impl Tool for Glob {
    fn spec(&self) -> Spec {
        Spec {
            name: "glob".into(),
            description: "Finds files by name, such as `*.rs` (anywhere), `src/**/*.ts` or \
                          `docs/*.{md,txt}`. Leaves out hidden files and those in .gitignore."
                .into(),
            input: schema(
                json!({
                    "pattern": {"type": "string", "description": "The glob."},
                    "path": {"type": "string", "description": "The folder to look in; the pattern is relative to it."},
                }),
                &["pattern"],
            ),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, input: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let base = self.workspace.base(input.path.as_deref())?;
        let names = Names::new("pattern", &input.pattern, &self.workspace)?;
        let mut files = Vec::new();
        let mut more = false;
        for (passed, path) in self.workspace.walk(&base).enumerate() {
            if tool_context.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            let fits = names.fit(path.strip_prefix(&*base).unwrap_or(&path))
                && self.workspace.is_file(&path);
            more = passed >= WALK_FILES_MAX || (fits && files.len() == LIST_ROWS_MAX);
            if more {
                break;
            }
            if fits {
                files.push(shown(&path));
            }
        }
        Ok(written(&Found { files, more }))
    }
}

/// A glob as models write it.
pub(super) struct Names(Override);

impl Names {
    /// Parses the glob in the argument `name`. A glob without a slash matches at any depth.
    pub(super) fn new(name: &str, glob: &str, workspace: &Workspace) -> Result<Names, ToolFailure> {
        let bad = |error: &dyn std::fmt::Display| {
            ToolFailure(format!("`{name}` is not a valid glob: {error}"))
        };
        if glob.trim().is_empty() || glob.contains('\0') {
            return Err(bad(&"it is empty or contains a NUL character"));
        }
        let root = workspace.root().to_string_lossy();
        let inside = glob
            .strip_prefix(&*root)
            .or(glob.strip_prefix('.'))
            .filter(|glob| glob.starts_with('/'));
        // A folder means everything in it.
        let mut glob = inside.unwrap_or(glob).to_owned();
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        let mut builder = OverrideBuilder::new("");
        builder.add(&glob).map_err(|error| bad(&error))?;
        Ok(Names(builder.build().map_err(|error| bad(&error))?))
    }

    /// Whether it matches a path.
    pub(super) fn fit(&self, path: &Path) -> bool {
        !self.0.matched(path, false).is_ignore()
    }
}
