//! Excerpts: a model is shown some lines of a tool result, and notes where others are left out.
//!
//! A result is shown in one form at first, and in a second, shorter one when its turn is over and
//! the provider's cache is cold anyway. Which lines are kept depends on what the context already
//! shows, so it is decided once, by the holder of the lease who appends the result, and stored with
//! it as line numbers ([`Shown`]). A result without such a decision (imported, appended without a
//! lease, or written by an earlier version) is shortened independently of the others, which gives
//! the same lines every time. Either way, every line that is shown is a line of the original.

mod allowances;
mod cache;
mod decide;
mod digest;
mod hash;
mod kind;
mod late_decisions;
mod lines;
mod seen;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use allowances::Allowances;
pub(crate) use cache::{ExcerptKey, Excerpts};
pub use decide::decide_alone;
pub use kind::ToolKind;
pub(crate) use late_decisions::decide_late;
pub(crate) use lines::{Lines, Written};
pub use seen::Seen;
pub(crate) use seen::kind_of;

use crate::limits::ECHO_CHARS;
use decide::{by_itself, is_within};
use digest::Digest;

/// The version of the rule that decides which lines are kept. Stored decisions record the version
/// they were made with; a later rule does not change them.
pub const RULE: u8 = 2;

/// Which lines of a result are shown, decided once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The version of the rule.
    pub rule: u8,
    /// The lines while the cache is warm, in order.
    #[serde(default)]
    pub parts: Vec<LineRange>,
    /// The lines that are left after the turn is over and the cache has expired. If there are none,
    /// the result is not thinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thin: Vec<LineRange>,
    /// It is the output of an edit: only the beginning of the first line is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
}

/// A run of lines, counted from zero; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct LineRange {
    /// Its first line.
    pub start: u32,
    /// The line after its last.
    pub end: u32,
    /// The entry whose result shows the same lines; then they are not repeated here.
    pub same_as: Option<u64>,
}

impl From<LineRange> for Vec<u64> {
    fn from(part: LineRange) -> Vec<u64> {
        [part.start.into(), part.end.into()].into_iter().chain(part.same_as).collect()
    }
}

impl TryFrom<Vec<u64>> for LineRange {
    type Error = &'static str;

    fn try_from(numbers: Vec<u64>) -> Result<LineRange, &'static str> {
        let line = |at: usize| numbers.get(at).and_then(|number| u32::try_from(*number).ok());
        match (line(0), line(1), numbers.len()) {
            (Some(start), Some(end), 2 | 3) => {
                Ok(LineRange { start, end, same_as: numbers.get(2).copied() })
            }
            _ => Err("a run of lines is its first line, the line after its last, and an entry"),
        }
    }
}

/// A result as a model is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Excerpt {
    pub text: String,
    /// Its length, and that of the original, in characters.
    pub chars: u64,
    /// See `chars`.
    pub chars_of: u64,
    /// The number of original lines in it.
    pub lines: u64,
    /// Lines the original has.
    pub lines_of: u64,
    /// It is not shorter than the original, which is shown unchanged.
    pub whole: bool,
    /// It is the beginning of an edit's output.
    pub echo: bool,
    /// It is shorter than the form that is shown first.
    pub thin: bool,
    /// The entries it refers to.
    pub refers_to: Vec<u64>,
}

/// The two forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultForm {
    /// The first form.
    Full,
    /// The form after the turn is over and the cache has expired.
    Thin,
}

impl Shown {
    /// Whether it is valid for a result: lines in order, and within its length.
    fn fits(&self, lines: &Lines<'_>) -> bool {
        let in_order = |parts: &[LineRange]| {
            let mut end = 0;
            parts.iter().all(|part| {
                let right = part.start >= end && part.end > part.start;
                end = part.end;
                right && part.end as usize <= lines.len()
            })
        };
        (1..=RULE).contains(&self.rule) && in_order(&self.parts) && in_order(&self.thin)
    }

    fn of(&self, form: ResultForm) -> &[LineRange] {
        match form {
            ResultForm::Thin if !self.thin.is_empty() => &self.thin,
            ResultForm::Thin | ResultForm::Full => &self.parts,
        }
    }
}

/// The excerpt of a text. `decided` is the stored decision, if there is one and it is valid;
/// otherwise a decision is made from this result alone. `reference` is what fetches the original,
/// and `visible` says whether the result of an entry is in the same context in its full form. Lines
/// that are the same as in one that is not are shown here, up to the allowance; in the thin form
/// they are cut.
pub fn excerpt(
    text: &str,
    kind: ToolKind,
    decided: Option<&Shown>,
    allowances: &Allowances,
    form: ResultForm,
    reference: &str,
    visible: impl Fn(u64) -> bool,
) -> Excerpt {
    let lines = Lines::new(text);
    let decided = decided.filter(|shown| shown.fits(&lines));
    let shown = match decided {
        Some(shown) => Cow::Borrowed(shown),
        None => Cow::Owned(by_itself(&Digest::new(&lines), kind, allowances)),
    };
    let room = match form {
        ResultForm::Full => allowances.of(kind),
        ResultForm::Thin => 0,
    };
    let parts = fill_in(shown.of(form), &lines, room, visible);
    let thin =
        form == ResultForm::Thin && (!shown.thin.is_empty() || matches!(parts, Cow::Owned(_)));
    write(text, &lines, (&parts, shown.echo), thin, reference)
}

/// What pages lines of a result back: the entry and, where it has several results, which of them.
pub(crate) fn reference_to_lines(seq: u64, index: usize, one_of_several: bool) -> String {
    match one_of_several {
        true => format!("{seq}.{}", index + 1),
        false => seq.to_string(),
    }
}

/// The excerpt in its first form, of a text that was just decided about: all that it refers to is
/// in the same context.
pub(crate) fn first_excerpt(
    text: &str,
    lines: &Lines<'_>,
    decided: &Shown,
    reference: &str,
) -> Excerpt {
    write(text, lines, (&decided.parts, decided.echo), false, reference)
}

fn write(
    text: &str,
    lines: &Lines<'_>,
    (parts, echo): (&[LineRange], bool),
    thin: bool,
    reference: &str,
) -> Excerpt {
    let written = match echo {
        true => Written { text: lines.first_words(ECHO_CHARS), lines: 1, refers_to: Vec::new() },
        false => lines.write(parts, reference),
    };
    let (excerpt, lines_of) = (written.text, lines.originals());
    let chars = |text: &str| text.chars().count() as u64;
    Excerpt {
        chars: chars(&excerpt),
        chars_of: chars(text),
        whole: excerpt.len() >= text.len(),
        text: excerpt,
        lines: written.lines,
        lines_of,
        echo,
        thin,
        refers_to: written.refers_to,
    }
}

/// The runs to show where some refer to results that are out of view: of those, the first lines
/// that there is room for. What the result shows by itself stays, because later ones may refer to
/// it.
fn fill_in<'a>(
    parts: &'a [LineRange],
    lines: &Lines<'_>,
    room: usize,
    visible: impl Fn(u64) -> bool,
) -> Cow<'a, [LineRange]> {
    let dangles = |part: &&LineRange| part.same_as.is_some_and(|seq| !visible(seq));
    let chars = |line: u32| lines.get(line as usize).text.chars().count() + 1;
    let dangling = parts.iter().filter(dangles).flat_map(|part| part.start..part.end);
    let all: usize = dangling.map(chars).sum();
    if all == 0 {
        return Cow::Borrowed(parts);
    }
    let mut left = if is_within(all, room) { all } else { room };
    let mut filled: Vec<LineRange> = Vec::with_capacity(parts.len());
    for part in parts {
        let mut part = *part;
        if dangles(&&part) {
            let fits = |line: &u32| match left.checked_sub(chars(*line)) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => {
                    left = 0;
                    false
                }
            };
            let count = (part.start..part.end).take_while(fits).count();
            part = LineRange { end: part.start + count as u32, same_as: None, ..part };
        }
        match filled.last_mut() {
            _ if part.start == part.end => {}
            Some(last)
                if last.end == part.start && last.same_as.is_none() && part.same_as.is_none() =>
            {
                last.end = part.end;
            }
            _ => filled.push(part),
        }
    }
    Cow::Owned(filled)
}
