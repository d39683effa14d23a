//! Earlier questions that can be recalled: of this chat, and of the other sessions of the folder.

use super::parse_line::{TypedLine, understand};
use crate::out::clean;

/// Questions that can be recalled. More than anyone looks through.
const QUESTIONS_MAX: usize = 2_000;

/// Bytes of a question that can be recalled for editing. More would fill the screen.
pub(super) const QUESTION_BYTES_MAX: usize = 16 << 10;

/// Matches of a search that are listed.
const MATCHES_MAX: usize = 100;

/// Questions, the oldest first, each once.
#[derive(Debug, Default)]
pub(super) struct PastQuestions {
    questions: Vec<String>,
    /// The one that is in the line, and what was typed before.
    at: Option<(usize, String)>,
}

impl PastQuestions {
    /// Adds the newest. A question with invisible characters is left out, because it could not be
    /// shown as it is; so are single letters and commands without arguments, which are typed faster
    /// than found.
    pub(super) fn add(&mut self, question: &str) {
        let question = question.trim_end();
        let is_plain = question.len() <= QUESTION_BYTES_MAX && clean(question) == question;
        let is_short = question.trim().chars().nth(1).is_none();
        if is_short || !is_plain || is_bare_command(question) {
            return;
        }
        self.questions.retain(|known| known != question);
        self.questions.push(question.to_owned());
        let too_many = self.questions.len().saturating_sub(QUESTIONS_MAX);
        self.questions.drain(..too_many);
    }

    /// Adds older ones, the oldest first.
    pub(super) fn add_older(&mut self, older: Vec<String>) {
        let newer = std::mem::take(&mut self.questions);
        // The one that is in the line stays there.
        let at = self.at.take().map(|(at, kept)| (newer.get(at).cloned(), kept));
        for question in older.iter().chain(&newer) {
            self.add(question);
        }
        self.at = at.and_then(|(question, kept)| {
            let at = self.questions.iter().position(|known| Some(known) == question.as_ref())?;
            Some((at, kept))
        });
    }

    /// The next older question, or the next newer one; `typed` is what is in the line now.
    pub(super) fn step(&mut self, older: bool, typed: &str) -> Option<String> {
        let (to, kept) = match (self.at.take(), older) {
            (None, true) => (self.questions.len().checked_sub(1), typed.to_owned()),
            (None, false) => return None,
            (Some((at, kept)), true) => (Some(at.saturating_sub(1)), kept),
            (Some((at, kept)), false) if at + 1 < self.questions.len() => (Some(at + 1), kept),
            (Some((_, kept)), false) => return Some(kept),
        };
        let found = self.questions.get(to?)?.clone();
        self.at = Some((to?, kept));
        Some(found)
    }

    /// None of them is in the line any more.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// The questions that contain all these words, ignoring case, newest first.
    pub(super) fn find(&self, query: &str) -> impl Iterator<Item = &str> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let matches = move |question: &&String| {
            let question = question.to_lowercase();
            words.iter().all(|word| question.contains(word))
        };
        self.questions.iter().rev().filter(matches).map(String::as_str).take(MATCHES_MAX)
    }
}

/// Whether this is a command and nothing else.
fn is_bare_command(text: &str) -> bool {
    let is_one_word = !text.trim().contains(char::is_whitespace);
    is_one_word && matches!(understand(text), Ok(TypedLine::Do(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(questions: &[&str]) -> PastQuestions {
        let mut past = PastQuestions::default();
        questions.iter().for_each(|question| past.add(question));
        past
    }

    #[test]
    fn each_question_is_there_once_where_it_was_asked_last() {
        let asked = ["one", "two", "one", " ", "clear\u{1b}[2Jed", "n", "help", "/cost"];
        let mut past = past(&asked);
        past.add_older(vec!["zero".into(), "two".into()]);
        assert_eq!(past.questions, ["zero", "two", "one"]);
        past.add(&"x".repeat(QUESTION_BYTES_MAX));
        past.add(&"y".repeat(QUESTION_BYTES_MAX + 1));
        assert!(past.questions.last().expect("one").starts_with('x'));
    }

    #[test]
    fn all_words_must_be_in_it_and_the_newest_comes_first() {
        let past = past(&["fix the Test", "test it", "fix it"]);
        let found = |query: &str| past.find(query).collect::<Vec<_>>().join(", ");
        assert_eq!(found("TEST"), "test it, fix the Test");
        assert_eq!(found("test fix"), "fix the Test");
        assert_eq!(found("").split(", ").count(), 3);
    }
}
