//! Diffs of texts: the changed lines with some context, and line numbers.
//!
//! Bounded in time and size for any two texts: binary and very large files are summarised, a
//! comparison that takes too long becomes coarser, and a very long diff says how much it leaves
//! out. File names are not part of it; the caller knows them.

use std::time::{Duration, Instant};

use similar::{ChangeTag, DiffOp, DiffTag, TextDiff};

use crate::visible;

/// Lines shown around a change, as everywhere.
const CONTEXT_LINES: usize = 3;

/// Bytes of a text that is compared. Larger files are generated, and nobody reads their diff.
const TEXT_BYTES_MAX: usize = 2 * 1_024 * 1_024;

/// Lines that are shown. A person who has to approve a change reads a few hundred at most.
const LINES_MAX: usize = 2_000;

/// Time for comparing lines, and again for comparing words: short enough not to be noticed.
const TIME_MAX: Duration = Duration::from_millis(200);

/// Lines of a change in which changed words are looked for. In longer ones little is left to find.
const WORD_LINES_MAX: usize = 100;

/// Bytes at the start of a file that decide whether it is binary, as in git.
const BINARY_PROBE_BYTES: usize = 8_000;

/// The difference between two texts, with three lines of context. See
/// [`terminal::render_diff`](crate::terminal::render_diff) and
/// [`html::render_diff`](crate::html::render_diff).
#[derive(Debug, Clone)]
pub struct Diff {
    pub(crate) content: Content,
    added: usize,
    removed: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Same,
    Hunks {
        hunks: Vec<Vec<DiffLine>>,
        /// Lines that are left out at the end.
        left_out: usize,
    },
    /// Not text; how many bytes there were and are.
    Binary {
        old: usize,
        new: usize,
    },
    /// Text nobody would read.
    TooLarge {
        old: usize,
        new: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiffLine {
    pub(crate) sign: Sign,
    /// The number in the old text, from 1; `None` if the line is new, or in an excerpt.
    pub(crate) old: Option<usize>,
    pub(crate) new: Option<usize>,
    /// The pieces of the line, and whether each is what changed.
    pub(crate) parts: Vec<(bool, String)>,
    /// Whether the text ends with this line, without a line feed.
    pub(crate) is_unended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Same,
    Added,
    Removed,
}

impl Diff {
    /// Compares the current and the new content of a file. Takes at most half a second.
    pub fn new(old: &[u8], new: &[u8]) -> Diff {
        let summary = |content| Diff { content, added: 0, removed: 0 };
        if old == new {
            return summary(Content::Same);
        }
        let sizes = (old.len(), new.len());
        let (Some(old), Some(new)) = (text(old), text(new)) else {
            return summary(Content::Binary { old: sizes.0, new: sizes.1 });
        };
        if old.len().max(new.len()) > TEXT_BYTES_MAX {
            return summary(Content::TooLarge { old: old.len(), new: new.len() });
        }
        compare(old, new)
    }

    /// Compares two excerpts of a file. Where in the file they are is not known: their lines have no
    /// numbers, and their ends are not its end.
    pub fn of_excerpts(old: &[u8], new: &[u8]) -> Diff {
        let ended = |text: &[u8]| match text {
            [] | [.., b'\n'] => text.to_vec(),
            _ => [text, b"\n"].concat(),
        };
        let (old_ended, new_ended) = (ended(old), ended(new));
        let mut diff = match old_ended == new_ended {
            true => Diff::new(old, new),
            false => Diff::new(&old_ended, &new_ended),
        };
        if let Content::Hunks { hunks, .. } = &mut diff.content {
            for line in hunks.iter_mut().flatten() {
                (line.old, line.new, line.is_unended) = (None, None, false);
            }
        }
        diff
    }

    /// Lines that are new.
    pub fn added(&self) -> usize {
        self.added
    }

    /// Lines that are gone.
    pub fn removed(&self) -> usize {
        self.removed
    }
}

/// The note about lines that are left out.
pub(crate) fn more_lines(count: usize) -> String {
    format!("{count} more line{}", if count == 1 { "" } else { "s" })
}

/// The bytes as text, unless they are binary.
fn text(bytes: &[u8]) -> Option<&str> {
    let start = &bytes[..bytes.len().min(BINARY_PROBE_BYTES)];
    if start.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

fn compare(old: &str, new: &str) -> Diff {
    // Line endings are shown where they are what differs.
    let hide_returns = old.contains("\r\n") && new.contains("\r\n");
    let diff = TextDiff::configure().timeout(TIME_MAX).diff_lines(old, new);
    let (mut added, mut removed) = (0, 0);
    for op in diff.ops() {
        match op.tag() {
            DiffTag::Equal => {}
            _ => {
                removed += op.old_range().len();
                added += op.new_range().len();
            }
        }
    }
    let deadline = Instant::now() + TIME_MAX;
    let (mut hunks, mut shown, mut left_out) = (Vec::new(), 0, 0);
    for group in diff.grouped_ops(CONTEXT_LINES) {
        let mut hunk = Vec::new();
        for op in &group {
            let lines = op.old_range().len().max(op.new_range().len());
            match op.tag() {
                DiffTag::Replace if lines <= WORD_LINES_MAX => {
                    let changes = diff.iter_inline_changes_deadline(op, Some(deadline));
                    hunk.extend(changes.map(|change| {
                        let parts = change.values().iter().map(|(is_new, text)| (*is_new, *text));
                        let places = (change.old_index(), change.new_index());
                        line(change.tag(), places, parts.collect(), hide_returns)
                    }));
                }
                _ => hunk.extend(plain_lines(&diff, op, hide_returns)),
            }
        }
        let kept = hunk.len().min(LINES_MAX - shown);
        left_out += hunk.len() - kept;
        hunk.truncate(kept);
        shown += kept;
        if !hunk.is_empty() {
            hunks.push(hunk);
        }
    }
    Diff { content: Content::Hunks { hunks, left_out }, added, removed }
}

fn plain_lines<'d>(
    diff: &'d TextDiff<'_, '_, str>,
    op: &DiffOp,
    hide_returns: bool,
) -> impl Iterator<Item = DiffLine> + use<'d> {
    diff.iter_changes(op).map(move |change| {
        let places = (change.old_index(), change.new_index());
        line(change.tag(), places, vec![(false, change.value())], hide_returns)
    })
}

fn line(
    tag: ChangeTag,
    (old, new): (Option<usize>, Option<usize>),
    mut parts: Vec<(bool, &str)>,
    hide_returns: bool,
) -> DiffLine {
    let ended = match parts.last_mut() {
        Some((_, text)) if text.ends_with('\n') => {
            *text = &text[..text.len() - 1];
            if hide_returns {
                *text = text.strip_suffix('\r').unwrap_or(text);
            }
            true
        }
        _ => false,
    };
    let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
    let parts = parts.map(|(is_new, text)| (is_new, visible::code(text).replace('\n', "")));
    DiffLine {
        sign: match tag {
            ChangeTag::Equal => Sign::Same,
            ChangeTag::Insert => Sign::Added,
            ChangeTag::Delete => Sign::Removed,
        },
        old: old.map(|index| index + 1),
        new: new.map(|index| index + 1),
        parts: parts.collect(),
        is_unended: !ended,
    }
}
