//! What a model is shown of a tool result: some of its lines, and marks where others are left out.
//!
//! A result is shown once in its life in one form, and a second time, shorter, when its turn is over
//! and the provider's cache is cold anyway. Which lines are kept depends on what the context shows
//! already, so it is decided once, by the holder of the lease who appends the result, and stored
//! beside it as line numbers ([`Shown`]). A result that nobody decided about (imported, appended
//! without a lease, or written by an earlier version) is shortened by itself, which gives the same
//! lines every time. Either way every line that is shown is a line of the original.

mod allowances;
mod cache;
mod decide;
mod digest;
mod kind;
mod late;
mod lines;
mod number;
mod seen;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use allowances::Allowances;
pub(crate) use cache::Excerpts;
pub use decide::alone;
pub use kind::ToolKind;
pub(crate) use late::decide_late;
pub(crate) use lines::{Lines, Written};
pub use seen::Seen;
pub(crate) use seen::kind_of;

use crate::limits::ECHO_CHARS;
use decide::by_itself;
use digest::Digest;

/// The version of the rule that decides which lines are kept. What is stored says which one it was
/// made with; a later rule leaves it as it is.
pub const RULE: u8 = 2;

/// Which lines of a result are shown, decided once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The version of the rule.
    pub rule: u8,
    /// The lines while the cache is warm, in order.
    #[serde(default)]
    pub parts: Vec<LineRange>,
    /// The lines that are left when its turn is over and the cache was cold. Where there are none, it
    /// stays as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thin: Vec<LineRange>,
    /// It is the echo of an edit: only the beginning of the first line is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
}

/// A run of lines, counted from zero; the end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct LineRange {
    /// Its first line.
    pub start: u32,
    /// The line after its last.
    pub end: u32,
    /// The entry whose result shows the same lines; then they are not shown here.
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
pub struct Excerpt {
    /// The text.
    pub text: String,
    /// Characters it has, and characters the original has.
    pub chars: u64,
    /// See `chars`.
    pub chars_of: u64,
    /// Lines of the original that are in it.
    pub lines: u64,
    /// Lines the original has.
    pub lines_of: u64,
    /// It is not shorter than the original, which is shown as it is.
    pub whole: bool,
    /// It is the beginning of what an edit says.
    pub echo: bool,
    /// The entries it refers to.
    pub refers_to: Vec<u64>,
}

/// The two forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As it is shown first.
    Full,
    /// As it is shown when its turn is over and the cache was cold.
    Thin,
}

impl Shown {
    /// Whether it fits a result: lines in order, and all of them there.
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

    fn of(&self, form: Form) -> &[LineRange] {
        match form {
            Form::Thin if !self.thin.is_empty() => &self.thin,
            Form::Thin | Form::Full => &self.parts,
        }
    }
}

/// The excerpt of a text. `decided` is what was stored for it, if anything was and it fits;
/// otherwise it is decided by itself. `reference` brings the original back, and `visible` says
/// whether the result of an entry is in the same context in its full form.
pub fn excerpt(
    text: &str,
    kind: ToolKind,
    decided: Option<&Shown>,
    allowances: &Allowances,
    form: Form,
    reference: &str,
    visible: impl Fn(u64) -> bool,
) -> Excerpt {
    let lines = Lines::new(text);
    let decided = decided.filter(|shown| shown.fits(&lines));
    let shown = match decided {
        Some(shown) => Cow::Borrowed(shown),
        None => Cow::Owned(by_itself(&Digest::new(&lines), kind, allowances)),
    };
    let written = match shown.echo {
        true => Written { text: lines.first_words(ECHO_CHARS), lines: 1, refers_to: Vec::new() },
        false => lines.write(shown.of(form), reference, visible),
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
        echo: shown.echo,
        refers_to: written.refers_to,
    }
}
