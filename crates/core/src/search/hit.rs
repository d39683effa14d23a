//! Search hits: what is shown of an entry that was found.

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::Timestamp;

use super::Speaker;
use crate::session::Place;

/// Characters shown around the matches.
const SNIPPET_CHARS: usize = 160;

/// Positions that are tried for the one that shows most of the query.
const PLACES_MAX: usize = 1_000;

/// A search hit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Hit {
    /// Its position.
    pub place: Place,
    /// The time of the entry.
    pub at: Timestamp,
    pub speaker: Speaker,
    /// The text around the matches, on one line.
    pub snippet: String,
    /// The byte ranges of the matches in the snippet, in order.
    pub marks: Vec<Range<usize>>,
}

impl Hit {
    /// The snippet in pieces, each with whether it is a match.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, bool)> {
        let mut pieces = Vec::new();
        let mut at = 0;
        for mark in &self.marks {
            pieces.push((&self.snippet[at..mark.start], false));
            pieces.push((&self.snippet[mark.clone()], true));
            at = mark.end;
        }
        pieces.push((&self.snippet[at..], false));
        pieces.into_iter().filter(|(text, _)| !text.is_empty())
    }

    /// The marks counted in characters, as other languages do: start and end of each.
    pub fn marks_in_chars(&self) -> Vec<[usize; 2]> {
        let chars = |end: usize| self.snippet[..end].chars().count();
        self.marks.iter().map(|mark| [chars(mark.start), chars(mark.end)]).collect()
    }
}

/// The part of a text that shows most of the query, on one line, with the position of the matches.
/// `found` has the index of each phrase, and its byte range.
pub(super) fn snippet(text: &str, found: &[(usize, Range<usize>)]) -> (String, Vec<Range<usize>>) {
    let found = &found[..found.len().min(PLACES_MAX)];
    let different = |at: usize| {
        let shown = found[at].1.start..found[at].1.start + SNIPPET_CHARS * 3 / 4;
        let near = found[at..].iter().take_while(|(_, other)| shown.contains(&other.start));
        near.map(|(number, _)| number).collect::<BTreeSet<_>>().len()
    };
    // The first of the best.
    let best = (0..found.len()).rev().max_by_key(|at| different(*at)).map(|at| &found[at].1);
    let hit = best.map_or(0, |range| range.start);
    let begin = text[..hit].char_indices().rev().nth(SNIPPET_CHARS / 4).map_or(0, |(at, _)| at);
    let mut line = Line::default();
    if begin > 0 {
        line.text.push('…');
    }
    let mut left = SNIPPET_CHARS;
    let mut next =
        found.iter().map(|(_, range)| range).filter(|range| range.start >= begin).peekable();
    let mut spaces = true;
    for (at, c) in text[begin..].char_indices().map(|(at, c)| (begin + at, c)) {
        while let Some(range) = next.next_if(|range| range.start <= at) {
            line.open(range.end);
        }
        line.close(at);
        if c.is_whitespace() && spaces {
            continue;
        }
        if left == 0 {
            line.cut();
            return (line.text, line.marks);
        }
        left -= 1;
        spaces = c.is_whitespace();
        line.push(if spaces { ' ' } else { c });
    }
    line.close(usize::MAX);
    let end = line.text.trim_end().len();
    line.text.truncate(end);
    (line.text, line.marks)
}

/// A line with marks, while it is written.
#[derive(Default)]
struct Line {
    text: String,
    marks: Vec<Range<usize>>,
    /// The start of the open mark in the line, and its end in the text.
    open: Option<(usize, usize)>,
}

impl Line {
    fn open(&mut self, end: usize) {
        let here = self.text.len();
        self.open = match self.open {
            Some((start, other)) => Some((start, other.max(end))),
            None => Some((here, end)),
        };
    }

    /// Closes the mark that ends here in the text.
    fn close(&mut self, at: usize) {
        if let Some((start, end)) = self.open
            && end <= at
        {
            self.marks.push(start..self.text.len());
            self.open = None;
        }
    }

    fn cut(&mut self) {
        if let Some((start, _)) = self.open.take() {
            self.marks.push(start..self.text.len());
        }
        self.text.push('…');
    }

    fn push(&mut self, c: char) {
        self.text.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Query, SearchText};
    use super::*;

    fn hit(query: &str, text: &str) -> Hit {
        let said = SearchText { speaker: Speaker::User, text: text.into() };
        let place = Place { session: crate::SessionId(uuid::Uuid::nil()), seq: 0 };
        Query::new(query).expect("a query").hit(place, Timestamp::UNIX_EPOCH, &said)
    }

    fn marked(query: &str, text: &str) -> String {
        let hit = hit(query, text);
        hit.pieces()
            .map(|(text, mark)| if mark { format!("[{text}]") } else { text.into() })
            .collect()
    }

    #[test]
    fn a_snippet_shows_a_hit_with_what_is_around_it() {
        let text = format!("{} the needle, here {}", "hay ".repeat(100), "straw ".repeat(100));
        let snippet = hit("needle", &text).snippet;
        assert!(snippet.starts_with('…') && snippet.ends_with('…'), "{snippet}");
        assert!(snippet.contains("the needle, here straw"), "{snippet}");
        assert!(snippet.chars().count() <= SNIPPET_CHARS + 2);
    }

    #[test]
    fn what_was_asked_for_is_marked() {
        assert_eq!(
            marked("limit* naive", "A  naïve\n Limiter limits."),
            "A [naïve] [Limiter] [limits]."
        );
        assert_eq!(marked("\"token bucket\"", "token, a Token-Bucket"), "token, a [Token-Bucket]");
        assert_eq!(marked("質問", "日本語の質問です"), "日本語の[質問]です");
        assert_eq!(marked("日本語 で", "日本語です"), "[日本語][で]す".replace("][", ""));
        assert_eq!(hit("質問", "の質問").marks_in_chars(), [[1, 3]]);
    }

    #[test]
    fn a_snippet_shows_the_place_with_most_of_what_was_asked_for() {
        let text = format!("a token here {} the token bucket is full", "words ".repeat(100));
        assert!(marked("bucket token", &text).contains("the [token] [bucket] is full"));
    }
}
