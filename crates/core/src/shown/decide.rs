//! Decides which lines of a result are shown.

use super::digest::{Digest, Names};
use super::hash::HashedSet;
use super::{Allowances, LineRange, Lines, RULE, Shown, ToolKind};
use crate::limits::{
    ECHO_CHARS, REPEAT_CHARS_MIN, REPEAT_LINES_MIN, SHOWN_SLACK_CHARS, THIN_FROM_CHARS,
};

/// What a context already shows.
pub(super) trait Before {
    /// Whether anything is shown at all.
    fn is_empty(&self) -> bool;
    /// Whether a name is shown.
    fn shows(&self, name: u64) -> bool;
    /// The longest run of lines, shown by one earlier result, that these lines begin with: the
    /// entry, and the length.
    fn repeats(&self, lines: &[u64]) -> Option<(u64, usize)>;
}

/// A context that shows nothing.
struct Nothing;

impl Before for Nothing {
    fn is_empty(&self) -> bool {
        true
    }

    fn shows(&self, _: u64) -> bool {
        false
    }

    fn repeats(&self, _: &[u64]) -> Option<(u64, usize)> {
        None
    }
}

/// Which lines of a result are shown, if nothing is known about the rest of the context.
pub fn decide_alone(text: &str, kind: ToolKind) -> Shown {
    by_itself(&Digest::new(&Lines::new(text)), kind, &Allowances::default())
}

pub(super) fn by_itself(digest: &Digest<'_>, kind: ToolKind, allowances: &Allowances) -> Shown {
    decide(digest, kind, allowances, &Nothing)
}

/// Which lines of a result are shown.
pub(super) fn decide(
    digest: &Digest<'_>,
    kind: ToolKind,
    allowances: &Allowances,
    before: &impl Before,
) -> Shown {
    let lines = digest.len();
    let total = digest.length_of(0..lines);
    let shown = |parts, thin| Shown { rule: RULE, parts, thin, echo: false };
    if kind == ToolKind::Edit && total > 2 * ECHO_CHARS {
        return Shown { echo: true, ..shown(Vec::new(), Vec::new()) };
    }
    let same = if before.is_empty() { Vec::new() } else { repeats(digest, before) };
    let range = |part: &LineRange| part.start as usize..part.end as usize;
    let repeated: usize = same.iter().map(|part| digest.length_of(range(part))).sum();
    let allowance = allowances.of(kind);
    let mut keep = vec![true; lines];
    let mut new = New { digest, before, is_new: Vec::new() };
    if !is_within(total - repeated, allowance) {
        keep.fill(false);
        let mut is_same = vec![false; lines];
        same.iter().for_each(|part| is_same[range(part)].fill(true));
        let (head, tail) = match kind {
            ToolKind::Shell => (allowance * 7 / 10, allowance * 3 / 10),
            _ => (allowance, 0),
        };
        keep_until(&mut keep, (0..lines).filter(|line| !is_same[*line]), head, digest);
        keep_until(&mut keep, (0..lines).rev().filter(|line| !is_same[*line]), tail, digest);
        new.keep(&mut keep, allowances.names);
    }
    let parts = runs(&keep, &same);
    let seen: usize = (0..lines).filter(|line| keep[*line]).map(|line| digest.length(line)).sum();
    let mut thin = Vec::new();
    if seen > THIN_FROM_CHARS && kind != ToolKind::Recall {
        keep.fill(false);
        keep_until(&mut keep, 0..lines, allowances.thin_head, digest);
        new.keep(&mut keep, allowances.thin_names);
        thin = runs(&keep, &[]);
    }
    shown(parts, thin)
}

/// Whether so many characters are shown whole: cutting a little saves less than it takes away.
pub(super) fn is_within(chars: usize, allowance: usize) -> bool {
    chars <= allowance + allowance / 10 + SHOWN_SLACK_CHARS
}

/// Runs of lines that an earlier result shows.
fn repeats(digest: &Digest<'_>, before: &impl Before) -> Vec<LineRange> {
    let hashes = digest.hashes();
    let mut same = Vec::new();
    let mut at = 0;
    while at < hashes.len() {
        let found = before.repeats(&hashes[at..]).filter(|(_, count)| {
            *count >= REPEAT_LINES_MIN && digest.length_of(at..at + count) >= REPEAT_CHARS_MIN
        });
        match found {
            Some((seq, count)) => {
                let end = at + count;
                same.push(LineRange { start: at as u32, end: end as u32, same_as: Some(seq) });
                at = end;
            }
            None => at += 1,
        }
    }
    same
}

/// Keeps lines as long as they fit; the first one that does not fit ends it.
fn keep_until(
    keep: &mut [bool],
    order: impl Iterator<Item = usize>,
    chars: usize,
    digest: &Digest<'_>,
) {
    let mut left = chars;
    for line in order {
        let Some(rest) = left.checked_sub(digest.length(line)) else { break };
        left = rest;
        keep[line] = true;
    }
}

/// The names of a result that no earlier text shows.
struct New<'a, B> {
    digest: &'a Digest<'a>,
    before: &'a B,
    /// For each name whether it is new; looked up on first use.
    is_new: Vec<bool>,
}

impl<B: Before> New<'_, B> {
    /// Keeps lines with new names, those with most names for their length first.
    fn keep(&mut self, keep: &mut [bool], chars: usize) {
        let names = self.digest.names();
        if self.is_new.is_empty() {
            self.is_new.extend(names.all().iter().map(|name| !self.before.shows(*name)));
        }
        let mut shown = HashedSet::default();
        for line in (0..keep.len()).filter(|line| keep[*line]) {
            shown.extend(self.in_line(names, line));
        }
        let mut candidates: Vec<(usize, usize, usize)> = Vec::new();
        for (line, kept) in keep.iter().enumerate() {
            if *kept || self.digest.lines.get(line).text.len() < 4 {
                continue;
            }
            let new = self.in_line(names, line).filter(|name| !shown.contains(name)).count();
            if new > 0 {
                candidates.push((line, self.digest.length(line) + 19, new));
            }
        }
        // The most names for their length first; if equal, the earlier line.
        candidates.sort_unstable_by(|a, b| (b.2 * a.1).cmp(&(a.2 * b.1)).then(a.0.cmp(&b.0)));
        let mut left = chars;
        for (line, length, _) in candidates {
            if self.in_line(names, line).all(|name| shown.contains(&name)) {
                continue;
            }
            let Some(rest) = left.checked_sub(length) else { continue };
            left = rest;
            keep[line] = true;
            shown.extend(self.in_line(names, line));
        }
    }

    /// The new names of a line.
    fn in_line<'b>(&'b self, names: &'b Names, line: usize) -> impl Iterator<Item = u64> + 'b {
        let range = names.range(line);
        let new = names.all()[range.clone()].iter().zip(&self.is_new[range]);
        new.filter(|(_, new)| **new).map(|(name, _)| *name)
    }
}

/// The kept lines as runs, with those that are shown elsewhere in between.
fn runs(keep: &[bool], same: &[LineRange]) -> Vec<LineRange> {
    let mut parts: Vec<LineRange> = Vec::new();
    let mut same = same.iter().peekable();
    let mut at = 0;
    while at < keep.len() {
        if let Some(part) = same.next_if(|part| part.start as usize == at) {
            parts.push(*part);
            at = part.end as usize;
            continue;
        }
        if keep[at] {
            match parts.last_mut() {
                Some(last) if last.same_as.is_none() && last.end as usize == at => last.end += 1,
                _ => parts.push(LineRange { start: at as u32, end: at as u32 + 1, same_as: None }),
            }
        }
        at += 1;
    }
    parts
}
