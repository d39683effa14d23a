//! `grep`: lines by what stands in them.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::glob::Names;
use super::input::{arguments, schema};
use super::limits::{
    CONTEXT_LINES_MAX, LINE_CHARS_MAX, LINES_PER_LOOK, MATCHES, MATCHES_MAX, PATTERN_BYTES_MAX,
    WALK_FILES_MAX,
};
use super::workspace::shown;
use super::{Site, Spec, Tool, ToolFailure, Workspace, written};

/// Characters shown before a match that stands far out in a long line.
const LEAD_CHARS: usize = 100;

/// Searches the contents of files.
pub struct Grep {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: u64,
    max: Option<u64>,
}

#[derive(Serialize)]
struct Found {
    matches: Vec<Match>,
    more: bool,
}

#[derive(Serialize)]
struct Match {
    path: String,
    line: usize,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

impl Grep {
    /// Searches files of this workspace.
    pub fn new(workspace: Arc<Workspace>) -> Grep {
        Grep { workspace }
    }
}

impl Tool for Grep {
    fn spec(&self) -> Spec {
        Spec {
            name: "grep".into(),
            description: "Searches the text files of the workspace for a regular expression, line \
                          by line. Leaves out hidden files, those in .gitignore, binary files and \
                          files over 8 MiB."
                .into(),
            input: schema(
                json!({
                    "pattern": {"type": "string", "description": "The regular expression (Rust syntax: no look-around, no back-references)."},
                    "path": {"type": "string", "description": "The folder or file to search; everything when left out."},
                    "glob": {"type": "string", "description": "Only files of these names, such as `*.md`; `!*.md` for all others."},
                    "ignore_case": {"type": "boolean", "description": "Whether `a` also finds `A`."},
                    "context": {"type": "integer", "description": "Lines to show before and after each match, 5 at the most."},
                    "max": {"type": "integer", "description": "Matches to give: 100 when left out, 500 at the most."},
                }),
                &["pattern"],
            ),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, input: &str, site: &Site) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let pattern = RegexBuilder::new(&input.pattern)
            .case_insensitive(input.ignore_case)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|error| {
                ToolFailure(format!("`pattern` is not a valid regular expression: {error}"))
            })?;
        let base = self.workspace.base(input.path.as_deref())?;
        let names = match &input.glob {
            Some(glob) => Some(Names::new("glob", glob, &self.workspace)?),
            None => None,
        };
        let context = input.context.min(CONTEXT_LINES_MAX) as usize;
        let max = input.max.unwrap_or(MATCHES).clamp(1, MATCHES_MAX) as usize;
        let mut matches = Vec::new();
        let mut more = false;
        for (passed, path) in self.workspace.walk(&base).enumerate() {
            if passed >= WALK_FILES_MAX || more {
                more = true;
                break;
            }
            if site.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            if names.as_ref().is_some_and(|names| !names.fit(&path)) {
                continue;
            }
            // What cannot be read is binary, too large, or gone by now.
            let Ok(bytes) = self.workspace.read(&path) else { continue };
            let text = String::from_utf8_lossy(&bytes);
            let search = Search { pattern: &pattern, context, path: shown(&path), site };
            more = search.file(&text, max, &mut matches)?;
        }
        Ok(written(&Found { matches, more }))
    }
}

struct Search<'a> {
    pattern: &'a Regex,
    context: usize,
    path: String,
    site: &'a Site,
}

impl Search<'_> {
    /// Adds the matches of one file; `true` when there is one more than `max`.
    fn file(&self, text: &str, max: usize, out: &mut Vec<Match>) -> Result<bool, ToolFailure> {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if index % LINES_PER_LOOK == 0 && self.site.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            let Some(found) = self.pattern.find(line) else { continue };
            if out.len() == max {
                return Ok(true);
            }
            let cut = |lines: &[&str]| lines.iter().map(|line| shortened(line, 0)).collect();
            let end = lines.len().min(index + 1 + self.context);
            out.push(Match {
                path: self.path.clone(),
                line: index + 1,
                text: shortened(line, found.start()),
                before: cut(&lines[index.saturating_sub(self.context)..index]),
                after: cut(&lines[index + 1..end]),
            });
        }
        Ok(false)
    }
}

/// At most 300 characters of a line, among them the place that matters.
fn shortened(line: &str, place: usize) -> String {
    let mut start = 0;
    if line[..place].chars().count() + LEAD_CHARS > LINE_CHARS_MAX {
        start = line[..place].char_indices().rev().nth(LEAD_CHARS - 1).map_or(0, |(at, _)| at);
    }
    line[start..].chars().take(LINE_CHARS_MAX).collect()
}
