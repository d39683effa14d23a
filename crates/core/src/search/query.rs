//! Search queries.
//!
//! A query consists of words, and an entry must contain all of them. `"two words"` is a phrase: the
//! words must be adjacent. `limit*` matches words that begin with `limit`. There are no operators,
//! so nothing you type is a syntax error.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::terms::{Run, Term, is_unspaced, runs, terms};
use super::{Hit, SearchText, Speaker};
use crate::limits::QUERY_BYTES_MAX;
use crate::session::Place;
use crate::store::{Result, StoreError};

/// What to search for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    phrases: Vec<Phrase>,
    /// Where it looks.
    pub scope: Scope,
}

/// Where to search: everywhere, unless something is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only entries from then or later.
    pub since: Option<Timestamp>,
    /// Only sessions of this workspace.
    pub workspace: Option<String>,
    /// Only entries of this speaker.
    pub from: Option<Speaker>,
    /// Only the best entry of each session.
    pub once_per_session: bool,
}

impl Scope {
    /// Whether the scope includes an entry with this speaker, time and workspace.
    pub fn covers(&self, at: Timestamp, workspace: Option<&str>, speaker: Speaker) -> bool {
        self.since.is_none_or(|since| at >= since)
            && self.workspace.as_deref().is_none_or(|wanted| workspace == Some(wanted))
            && self.from.is_none_or(|wanted| wanted == speaker)
    }
}

/// Adjacent terms: one for a word, several for a phrase or a run of characters.
type Phrase = Vec<Wanted>;

/// A term that an entry must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The term: letters, digits and marks in lowercase, never empty.
    pub text: String,
    /// Whether it matches any term that begins with it.
    pub prefix: bool,
}

impl Wanted {
    fn is(&self, term: &str) -> bool {
        match self.prefix {
            true => term.starts_with(&self.text),
            false => term == self.text,
        }
    }
}

impl Query {
    /// Parses a query.
    ///
    /// ```
    /// # use rethread_core::search::Query;
    /// let query = Query::new(r#"limit* "token bucket""#).unwrap();
    /// assert!(query.matches("The limiter is a token bucket."));
    /// assert!(!query.matches("The limiter is a bucket of tokens."));
    /// ```
    ///
    /// # Errors
    ///
    /// [`StoreError::BadQuery`] if it is too long, or without a letter or digit.
    pub fn new(text: &str) -> Result<Query> {
        if text.len() > QUERY_BYTES_MAX {
            let given = text.len();
            let what = format!("a query has at most {QUERY_BYTES_MAX} bytes, this one {given}");
            return Err(StoreError::BadQuery { what });
        }
        let mut phrases = Vec::new();
        for (index, part) in text.split('"').enumerate() {
            // Text after an unclosed quote is a phrase that is still being typed.
            match index % 2 == 1 {
                true => phrases.push(phrase(part)),
                false => phrases.extend(runs(part).map(|run| wanted(run, part, true))),
            }
        }
        phrases.retain(|phrase| !phrase.is_empty());
        match phrases.is_empty() {
            true => Err(StoreError::BadQuery { what: "a query needs at least one word".into() }),
            false => Ok(Query { phrases, scope: Scope::default() }),
        }
    }

    /// Parses a query while somebody is typing it: its last word may be incomplete.
    ///
    /// # Errors
    ///
    /// As [`Query::new`].
    pub fn typed(text: &str) -> Result<Query> {
        match text.ends_with(|c: char| c.is_alphanumeric()) {
            true => Query::new(&format!("{text}*")),
            false => Query::new(text),
        }
    }

    /// The same, in this scope.
    pub fn within(self, scope: Scope) -> Query {
        Query { scope, ..self }
    }

    /// The terms an entry must have, each once. If [`Query::has_phrase`], having them is not
    /// enough.
    pub fn terms(&self) -> BTreeSet<&Wanted> {
        self.phrases.iter().flatten().collect()
    }

    /// Whether terms must be adjacent, which can be checked only in the text.
    pub fn has_phrase(&self) -> bool {
        self.phrases.iter().any(|phrase| phrase.len() > 1)
    }

    /// Whether a text matches.
    pub fn matches(&self, text: &str) -> bool {
        let all: Vec<Term> = terms(text).collect();
        let begins = |phrase: &Phrase| all.windows(phrase.len()).any(|terms| fits(phrase, terms));
        self.phrases.iter().all(begins)
    }

    /// The hit for an entry that matches, with a snippet.
    pub fn hit(&self, place: Place, at: Timestamp, said: &SearchText) -> Hit {
        let (snippet, marks) = super::hit::snippet(&said.text, &self.found(&said.text));
        Hit { place, at, speaker: said.speaker, snippet, marks }
    }

    /// The position of each phrase in a text: its index, and its byte range, in order.
    fn found(&self, text: &str) -> Vec<(usize, std::ops::Range<usize>)> {
        let all: Vec<Term> = terms(text).collect();
        let mut found = Vec::new();
        for at in 0..all.len() {
            for (number, phrase) in self.phrases.iter().enumerate() {
                if let Some(terms) = all.get(at..at + phrase.len())
                    && fits(phrase, terms)
                {
                    let last = &terms[terms.len() - 1];
                    let end = match phrase
                        .last()
                        .is_some_and(|w| w.prefix && w.text.starts_with(is_unspaced))
                    {
                        // The query was one character; the term also contains its neighbour.
                        true => first_char(text, &last.range),
                        false => last.range.end,
                    };
                    found.push((number, terms[0].range.start..end));
                }
            }
        }
        found
    }
}

fn fits(phrase: &[Wanted], terms: &[Term]) -> bool {
    phrase.iter().zip(terms).all(|(wanted, term)| wanted.is(&term.text))
}

fn first_char(text: &str, range: &std::ops::Range<usize>) -> usize {
    range.start + text[range.clone()].chars().next().map_or(0, char::len_utf8)
}

/// The terms of a phrase.
fn phrase(text: &str) -> Phrase {
    let all: Vec<Run> = runs(text).collect();
    let last = all.len().saturating_sub(1);
    all.into_iter().enumerate().flat_map(|(at, run)| wanted(run, text, at == last)).collect()
}

/// The terms of a run; `open` if nothing has to follow it.
fn wanted(run: Run, text: &str, open: bool) -> Phrase {
    let (unspaced, star) = (run.is_unspaced(), text[run.range.end..].starts_with('*'));
    let mut all: Phrase =
        run.into_terms().into_iter().map(|term| Wanted { text: term.text, prefix: star }).collect();
    if unspaced {
        // The last character is searched wherever it is, so it must not be the last of a run; if
        // something follows, it must.
        if open && all.len() > 1 {
            all.pop();
        }
        let last = all.len() - 1;
        for (at, wanted) in all.iter_mut().enumerate() {
            wanted.prefix = open && at == last && wanted.text.chars().count() == 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(query: &str, text: &str) -> bool {
        Query::new(query).expect("a query").matches(text)
    }

    #[test]
    fn all_words_must_be_there_in_any_order_and_case() {
        assert!(finds("bucket TOKEN", "a token-bucket"));
        assert!(!finds("bucket token", "a bucket of tokens"));
        assert!(finds("can't \"open", "I can't OPEN it"), "an open quote is not an error");
        assert!(finds("cafe", "Café") && finds("CAFÉ", "cafe"));
    }

    #[test]
    fn a_star_asks_for_the_beginning_of_a_word() {
        assert!(finds("attributio*", "the attribution of it"));
        assert!(!finds("attributio", "the attribution of it"));
        assert!(!finds("tribution*", "the attribution of it"), "not for its end");
        assert!(finds("foo_ba*", "foo_bar.rs"));
        assert!(finds("lim* *", "limits"), "a star by itself means nothing");
        assert!(Query::typed("tok").expect("a query").matches("token"));
        assert!(!Query::typed("tok ").expect("a query").matches("token"));
    }

    #[test]
    fn words_in_quotes_follow_one_another() {
        assert!(finds("\"token bucket\"", "a Token, bucket"));
        assert!(!finds("\"token bucket\"", "a bucket, a token"));
        assert!(!finds("\"token bucket\"", "a token in a bucket"));
        assert!(finds("\"token buck*\"", "a token bucket"));
        assert!(finds("\"a b\" \"b a\"", "a b a"));
        assert!(!Query::new("token bucket").expect("a query").has_phrase());
    }

    #[test]
    fn characters_without_spaces_are_found_wherever_they_are_neighbours() {
        let text = "日本語の質問です";
        for query in ["質問", "日本語", "語", "す", "の質", "日本語の質問です", "質問*"]
        {
            assert!(finds(query, text), "{query}");
        }
        for query in ["問質", "日語", "本日", "英"] {
            assert!(!finds(query, text), "{query}");
        }
        assert!(!finds("日本語", "日本と本語"), "the pairs must follow one another");
        assert!(finds("\"日本 語\"", "日本 語") && !finds("\"日本 語\"", "日本語"));
        assert!(finds("\"Rust 言語 x\"", "Rust言語 x") && finds("rust言", "Rust言語"));
    }

    #[test]
    fn a_query_without_a_word_is_refused() {
        for query in ["", "  ", "\"\"", "*", "\"*()-"] {
            assert!(matches!(Query::new(query), Err(StoreError::BadQuery { .. })), "{query}");
        }
        let longest = "x".repeat(QUERY_BYTES_MAX);
        assert!(Query::new(&longest).is_ok() && Query::new(&format!("{longest}x")).is_err());
    }
}
