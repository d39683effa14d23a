//! `grep`: searches the contents of files.

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
use super::workspace::{RealPath, shown};
use super::{Spec, Tool, ToolContext, ToolFailure, Workspace, written};

/// Characters shown before a match far into a long line.
const LEAD_CHARS: usize = 100;

/// Files that are searched together, in order.
const FILES_PER_BATCH: usize = 512;

/// Threads that search them. Reading waits for the disk, so more than one helps everywhere.
const THREADS: usize = 4;

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
                    "path": {"type": "string", "description": "The folder or file to search; by default, everything."},
                    "glob": {"type": "string", "description": "Only files of these names, such as `*.md`; `!*.md` for all others."},
                    "ignore_case": {"type": "boolean", "description": "Whether `a` also finds `A`."},
                    "context": {"type": "integer", "description": "Lines to show before and after each match, at most 5."},
                    "max": {"type": "integer", "description": "Matches to return: by default 100, at most 500."},
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
        let search = Search {
            workspace: &self.workspace,
            somewhere: somewhere(&input.pattern, input.ignore_case),
            pattern,
            context,
            max,
            tool_context,
        };
        let mut found = Found { matches: Vec::new(), more: false };
        let mut passed = 0;
        let mut walk = self.workspace.walk(&base);
        while !found.more {
            if tool_context.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            let batch: Vec<RealPath> = walk.by_ref().take(FILES_PER_BATCH).collect();
            passed += batch.len();
            if batch.is_empty() {
                break;
            }
            let wanted = |path: &RealPath| names.as_ref().is_none_or(|names| names.fit(path));
            let batch: Vec<RealPath> = batch.into_iter().filter(wanted).collect();
            let all = search.files(&batch)?;
            found.more = passed >= WALK_FILES_MAX || found.matches.len() + all.len() > max;
            found.matches.extend(all);
            found.matches.truncate(max);
        }
        Ok(written(&found))
    }
}

/// The pattern for a whole text: if it does not match, no line does. `None` if that cannot be said,
/// because the pattern refers to the beginning or the end of the text.
fn somewhere(pattern: &str, ignore_case: bool) -> Option<Regex> {
    let about_ends = ["\\A", "\\z", "(?"].iter().any(|part| pattern.contains(part));
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(ignore_case).multi_line(true).crlf(true);
    builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    builder.build().ok().filter(|_| !about_ends)
}

struct Search<'a> {
    workspace: &'a Workspace,
    pattern: Regex,
    /// Matches nothing in a text without a matching line.
    somewhere: Option<Regex>,
    context: usize,
    max: usize,
    tool_context: &'a ToolContext,
}

impl Search<'_> {
    /// The matches of some files, in order; more than `max` if there are more.
    fn files(&self, paths: &[RealPath]) -> Result<Vec<Match>, ToolFailure> {
        let share = paths.len().div_ceil(THREADS).max(1);
        let part = |paths: &[RealPath]| -> Result<Vec<Match>, ToolFailure> {
            let mut matches = Vec::new();
            for path in paths {
                if matches.len() > self.max {
                    break;
                }
                self.file(path, &mut matches)?;
            }
            Ok(matches)
        };
        std::thread::scope(|scope| {
            let parts: Vec<_> =
                paths.chunks(share).map(|paths| scope.spawn(move || part(paths))).collect();
            let mut all = Vec::new();
            for found in parts {
                let found = found.join();
                all.extend(found.unwrap_or_else(|_| Err(ToolFailure("the search failed".into())))?);
            }
            Ok(all)
        })
    }

    /// Adds the matches of one file, until there is one more than `max`.
    fn file(&self, path: &RealPath, out: &mut Vec<Match>) -> Result<(), ToolFailure> {
        if self.tool_context.stop.is_cancelled() {
            return Err(ToolFailure("stopped".into()));
        }
        // Files that cannot be read are binary, too large, not regular files, or deleted by now.
        let Ok(bytes) = self.workspace.read(path) else { return Ok(()) };
        let text = String::from_utf8_lossy(&bytes);
        if self.somewhere.as_ref().is_some_and(|pattern| !pattern.is_match(&text)) {
            return Ok(());
        }
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if index % LINES_PER_LOOK == 0 && self.tool_context.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            let Some(found) = self.pattern.find(line) else { continue };
            if out.len() > self.max {
                break;
            }
            let cut = |lines: &[&str]| lines.iter().map(|line| shortened(line, 0)).collect();
            let end = lines.len().min(index + 1 + self.context);
            out.push(Match {
                path: shown(path),
                line: index + 1,
                text: shortened(line, found.start()),
                before: cut(&lines[index.saturating_sub(self.context)..index]),
                after: cut(&lines[index + 1..end]),
            });
        }
        Ok(())
    }
}

/// At most 300 characters of a line, including the match.
fn shortened(line: &str, place: usize) -> String {
    let mut start = 0;
    if line[..place].chars().count() + LEAD_CHARS > LINE_CHARS_MAX {
        start = line[..place].char_indices().rev().nth(LEAD_CHARS - 1).map_or(0, |(at, _)| at);
    }
    line[start..].chars().take(LINE_CHARS_MAX).collect()
}
