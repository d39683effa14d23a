//! `read_file`: reads a file.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::{FILE_BYTES_MAX, LINES_PER_LOOK, OUTPUT_BYTES_MAX, READ_LINES_MAX};
use super::workspace::{failed, too_large};
use super::{Spec, Tool, ToolContext, ToolFailure, Workspace};

/// Reads a file, or a range of its lines.
pub struct ReadFile {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl ReadFile {
    /// Reads files of this workspace.
    pub fn new(workspace: Arc<Workspace>) -> ReadFile {
        ReadFile { workspace }
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> Spec {
        Spec {
            name: "read_file".into(),
            description: "Reads a text file of the workspace, each line with its number and a tab \
                          before it. Returns at most 2,000 lines; the last line says how to continue."
                .into(),
            input: schema(
                json!({
                    "path": {"type": "string", "description": "The file, relative to the workspace."},
                    "offset": {"type": "integer", "description": "The first line to read; 1 is the first of the file."},
                    "limit": {"type": "integer", "description": "How many lines to read."},
                }),
                &["path"],
            ),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, input: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let path = self.workspace.resolve(&input.path)?;
        let range = input.offset.is_some() || input.limit.is_some();
        let first = input.offset.unwrap_or(1);
        let limit = input.limit.unwrap_or(READ_LINES_MAX).min(READ_LINES_MAX);
        if first == 0 || limit == 0 {
            let name = if first == 0 { "offset" } else { "limit" };
            return Err(ToolFailure(format!("`{name}` must be 1 or more")));
        }
        let file = self.workspace.text_file(&path)?;
        let large = file.size > FILE_BYTES_MAX;
        if large && !range {
            return Err(too_large(&path));
        }
        let mut lines = Lines { reader: BufReader::new(file), path: &path, seen: 0 };
        while lines.seen + 1 < first && lines.skip(tool_context)? {}
        let mut text = String::new();
        let mut room = OUTPUT_BYTES_MAX;
        let mut cut = false;
        let mut more = false;
        for _ in 0..limit {
            let Some(line) = lines.next(OUTPUT_BYTES_MAX + 1)? else { break };
            let line = String::from_utf8_lossy(&line);
            let number = format!("{}\t", lines.seen);
            if line.len() <= room {
                text.push_str(&number);
                text.push_str(&line);
                room -= line.len();
                continue;
            }
            // A single line that is too long is cut; otherwise the rest is left to the next call.
            if text.is_empty() {
                text.push_str(&number);
                text.push_str(&line[..line.floor_char_boundary(room)]);
                cut = true;
            } else {
                lines.seen -= 1;
                more = true;
            }
            break;
        }
        let last = lines.seen;
        if last < first {
            return match last {
                0 if first == 1 => Ok("[the file is empty]".into()),
                // Nothing was left to skip, so this is the number of lines.
                n => {
                    let shown = path.display();
                    let what = format!("`offset` is {first}, but `{shown}` has {n} lines");
                    Err(ToolFailure(what))
                }
            };
        }
        let mut total = last + u64::from(more);
        while (!large || total == last) && lines.skip(tool_context)? {
            total += 1;
        }
        if total > last || cut {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            if cut {
                text.push_str(&format!("[line {last} is longer than this and was cut]\n"));
            }
            let of = if large { String::new() } else { format!(" of {total}") };
            let next = match total > last {
                true => format!("; continue with offset={}", last + 1),
                false => String::new(),
            };
            text.push_str(&format!("[lines {first}-{last}{of}{next}]"));
        }
        Ok(text)
    }
}

/// A file, line by line, however long its lines are.
struct Lines<'a, R> {
    reader: R,
    path: &'a Path,
    seen: u64,
}

impl<R: BufRead> Lines<'_, R> {
    /// The next line with its end, of which the first `keep` bytes are kept.
    fn next(&mut self, keep: usize) -> Result<Option<Vec<u8>>, ToolFailure> {
        let mut line = Vec::new();
        let mut any = false;
        loop {
            let buffer =
                self.reader.fill_buf().map_err(|error| failed("read", self.path, &error))?;
            if buffer.is_empty() {
                break;
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(buffer.len(), |end| end + 1);
            line.extend_from_slice(&buffer[..length.min(keep - line.len())]);
            self.reader.consume(length);
            if end.is_some() {
                break;
            }
        }
        self.seen += u64::from(any);
        Ok(any.then_some(line))
    }

    /// Skips a line; `false` if there is none.
    fn skip(&mut self, tool_context: &ToolContext) -> Result<bool, ToolFailure> {
        if self.seen.is_multiple_of(LINES_PER_LOOK as u64) && tool_context.stop.is_cancelled() {
            return Err(ToolFailure("stopped".into()));
        }
        Ok(self.next(0)?.is_some())
    }
}
