//! Which lines of a result are shown.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{LineRange, Lines, RULE, Shown, ToolKind};
use crate::limits::{
    ECHO_CHARS, REPEAT_CHARS_MIN, REPEAT_LINES_MIN, SHOWN_NAMES_CHARS, SHOWN_SLACK_CHARS,
    THIN_FROM_CHARS, THIN_HEAD_CHARS, THIN_NAMES_CHARS,
};
use crate::names::names;

/// What a context shows already.
pub(super) trait Before {
    /// Whether a name is shown.
    fn shows(&self, name: u64) -> bool;
    /// The longest run of lines shown by one earlier result that these lines begin with: the entry,
    /// and how many.
    fn repeats(&self, lines: &[u64]) -> Option<(u64, usize)>;
}

/// Nothing is shown.
struct Nothing;

impl Before for Nothing {
    fn shows(&self, _: u64) -> bool {
        false
    }

    fn repeats(&self, _: &[u64]) -> Option<(u64, usize)> {
        None
    }
}

/// Which lines of a result are shown where nothing is known of what else is.
pub fn alone(text: &str, kind: ToolKind) -> Shown {
    by_itself(&Lines::new(text), kind)
}

pub(super) fn by_itself(lines: &Lines<'_>, kind: ToolKind) -> Shown {
    decide(lines, kind, &Nothing)
}

/// A name or a line as a number.
pub(super) fn number(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Which lines of a result are shown.
pub(super) fn decide(lines: &Lines<'_>, kind: ToolKind, before: &impl Before) -> Shown {
    let length = |index: usize| lines.get(index).text.chars().count() + 1;
    let total: usize = (0..lines.len()).map(length).sum();
    let shown = |parts, thin| Shown { rule: RULE, parts, thin, echo: false };
    if kind == ToolKind::Edit && total > 2 * ECHO_CHARS {
        return Shown { echo: true, ..shown(Vec::new(), Vec::new()) };
    }
    let same = repeats(lines, before);
    let told: usize = same
        .iter()
        .map(|part| (part.start..part.end).map(|i| length(i as usize)).sum::<usize>())
        .sum();
    let allowance = kind.allowance();
    let mut keep = vec![true; lines.len()];
    if total - told > allowance + allowance / 10 + SHOWN_SLACK_CHARS {
        keep.fill(false);
        let is_same = |index: usize| {
            same.iter().any(|part| (part.start as usize..part.end as usize).contains(&index))
        };
        let (head, tail) = match kind {
            ToolKind::Shell => (allowance * 7 / 10, allowance * 3 / 10),
            _ => (allowance, 0),
        };
        keep_until(&mut keep, (0..lines.len()).filter(|index| !is_same(*index)), head, length);
        keep_until(
            &mut keep,
            (0..lines.len()).rev().filter(|index| !is_same(*index)),
            tail,
            length,
        );
        keep_names(&mut keep, lines, before, SHOWN_NAMES_CHARS);
    }
    let parts = runs(&keep, &same);
    let seen: usize = (0..lines.len()).filter(|index| keep[*index]).map(length).sum();
    let mut thin = Vec::new();
    if seen > THIN_FROM_CHARS && kind != ToolKind::Recall {
        keep.fill(false);
        keep_until(&mut keep, 0..lines.len(), THIN_HEAD_CHARS, length);
        keep_names(&mut keep, lines, before, THIN_NAMES_CHARS);
        thin = runs(&keep, &[]);
    }
    shown(parts, thin)
}

/// Runs of lines that an earlier result shows.
fn repeats(lines: &Lines<'_>, before: &impl Before) -> Vec<LineRange> {
    let numbers: Vec<u64> = lines.iter().map(|line| number(&line.text)).collect();
    let mut same = Vec::new();
    let mut at = 0;
    while at < numbers.len() {
        let found = before.repeats(&numbers[at..]).filter(|(_, count)| {
            let chars: usize =
                (at..at + count).map(|i| lines.get(i).text.chars().count() + 1).sum();
            *count >= REPEAT_LINES_MIN && chars >= REPEAT_CHARS_MIN
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

/// Keeps lines as long as their characters fit; of a first one that does not, nothing.
fn keep_until(
    keep: &mut [bool],
    order: impl Iterator<Item = usize>,
    chars: usize,
    length: impl Fn(usize) -> usize,
) {
    let mut left = chars;
    for index in order {
        let Some(rest) = left.checked_sub(length(index)) else { break };
        left = rest;
        keep[index] = true;
    }
}

/// Keeps lines with names that nothing else shows, those with most for their length first.
fn keep_names(keep: &mut [bool], lines: &Lines<'_>, before: &impl Before, chars: usize) {
    let mut shown: HashSet<u64> = HashSet::new();
    for (index, line) in lines.iter().enumerate() {
        if keep[index] {
            shown.extend(names(&line.text).map(number));
        }
    }
    let mut candidates: Vec<(usize, usize, Vec<u64>)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if keep[index] || line.text.len() < 4 {
            continue;
        }
        let mut new: Vec<u64> = names(&line.text).map(number).collect();
        new.sort_unstable();
        new.dedup();
        new.retain(|name| !shown.contains(name) && !before.shows(*name));
        if !new.is_empty() {
            candidates.push((index, line.text.chars().count() + 20, new));
        }
    }
    // The most names for their length first; those further up first where they are equal.
    candidates.sort_by(|a, b| (b.2.len() * a.1).cmp(&(a.2.len() * b.1)).then(a.0.cmp(&b.0)));
    let mut left = chars;
    for (index, length, new) in candidates {
        if new.iter().all(|name| shown.contains(name)) {
            continue;
        }
        let Some(rest) = left.checked_sub(length) else { continue };
        left = rest;
        keep[index] = true;
        shown.extend(new);
    }
}

/// The lines that are kept, as runs, with those that are shown elsewhere in between.
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
