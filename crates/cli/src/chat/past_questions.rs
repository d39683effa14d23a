//! Earlier questions that can be recalled: of this chat, and of the other sessions of the folder.

use super::buffer::{Buffer, Typed};
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
    questions: Vec<Question>,
    /// The one that is in the line, and what was there before.
    at: Option<(usize, Buffer)>,
}

/// A question. Whoever wrote the ones in a log, they were not typed in this chat: they come back as
/// data, like a paste.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    typed: Typed,
    is_own: bool,
}

impl PastQuestions {
    /// Adds what was sent here. It comes back with its pasted parts marked as such.
    pub(super) fn add(&mut self, typed: &Typed) {
        self.push(Question { typed: typed.clone(), is_own: true });
    }

    /// Adds the text of a question in a log.
    pub(super) fn add_logged(&mut self, text: &str) {
        self.push(Question { typed: logged(text), is_own: false });
    }

    /// Adds older ones from logs, the oldest first.
    pub(super) fn add_older(&mut self, older: Vec<String>) {
        let newer = std::mem::take(&mut self.questions);
        // The one that is in the line stays there.
        let at = self.at.take().map(|(at, kept)| (newer.get(at).cloned(), kept));
        older.iter().for_each(|text| self.add_logged(text));
        newer.into_iter().for_each(|question| self.push(question));
        self.at = at.and_then(|(question, kept)| {
            let at = self.place_of(&question?.typed.text)?;
            Some((at, kept))
        });
    }

    /// Adds the newest. A question with invisible characters is left out, because it could not be
    /// shown as it is; so are single letters and commands without arguments, which are typed faster
    /// than found.
    fn push(&mut self, mut question: Question) {
        let text = question.typed.text.trim_end();
        let is_plain = text.len() <= QUESTION_BYTES_MAX && clean(text) == text;
        let is_short = text.trim().chars().nth(1).is_none();
        if is_short || !is_plain || is_bare_command(text) {
            return;
        }
        if let Some(at) = self.place_of(text) {
            let known = self.questions.remove(at);
            // What was sent here is known better than what the log says of it.
            if known.is_own && !question.is_own {
                question = known;
            }
        }
        self.questions.push(question);
        let too_many = self.questions.len().saturating_sub(QUESTIONS_MAX);
        self.questions.drain(..too_many);
    }

    fn place_of(&self, text: &str) -> Option<usize> {
        let text = text.trim_end();
        self.questions.iter().position(|known| known.typed.text.trim_end() == text)
    }

    /// The next older question, or the next newer one; `line` is what is there now.
    pub(super) fn step(&mut self, older: bool, line: &Buffer) -> Option<Buffer> {
        let (to, kept) = match (self.at.take(), older) {
            (None, true) => (self.questions.len().checked_sub(1), line.clone()),
            (None, false) => return None,
            (Some((at, kept)), true) => (Some(at.saturating_sub(1)), kept),
            (Some((at, kept)), false) if at + 1 < self.questions.len() => (Some(at + 1), kept),
            (Some((_, kept)), false) => return Some(kept),
        };
        let found = Buffer::of_typed(&self.questions.get(to?)?.typed);
        self.at = Some((to?, kept));
        Some(found)
    }

    /// The line for a question that was found.
    pub(super) fn recall(&self, text: &str) -> Buffer {
        let at = self.place_of(text);
        at.map(|at| Buffer::of_typed(&self.questions[at].typed)).unwrap_or_default()
    }

    /// None of them is in the line any more.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// The questions that contain all these words, ignoring case, newest first.
    pub(super) fn find(&self, query: &str) -> impl Iterator<Item = &str> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let matches = move |question: &&str| {
            let question = question.to_lowercase();
            words.iter().all(|word| question.contains(word))
        };
        let texts = self.questions.iter().rev().map(|question| question.typed.text.trim_end());
        texts.filter(matches).take(MATCHES_MAX)
    }
}

/// The text of a question in a log, as it comes back. It was sent to a model, so it is never a
/// command: one that would be understood as such begins with a space, as if someone had sent it
/// that way.
pub(super) fn logged(text: &str) -> Typed {
    let text = text.trim_end();
    match text.starts_with('!') || !matches!(understand(text), Ok(TypedLine::Text(_))) {
        true => Typed::data(format!(" {text}")),
        false => Typed::data(text),
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
        questions.iter().for_each(|question| past.add(&Typed::by_hand(*question)));
        past
    }

    #[test]
    fn each_question_is_there_once_where_it_was_asked_last() {
        let asked = ["one", "two", "one", " ", "clear\u{1b}[2Jed", "n", "help", "/cost"];
        let mut past = past(&asked);
        past.add_older(vec!["zero".into(), "two".into()]);
        let texts = |past: &PastQuestions| -> Vec<String> {
            past.questions.iter().map(|question| question.typed.text.clone()).collect()
        };
        assert_eq!(texts(&past), ["zero", "two", "one"]);
        past.add(&Typed::by_hand("x".repeat(QUESTION_BYTES_MAX)));
        past.add(&Typed::by_hand("y".repeat(QUESTION_BYTES_MAX + 1)));
        assert!(texts(&past).last().expect("one").starts_with('x'));
    }

    #[test]
    fn what_a_log_says_comes_back_as_data_and_what_was_typed_here_as_it_was() {
        let mut past = past(&["!ls @a", "look @b"]);
        past.add_older(vec!["!rm @c".into(), "look @b".into()]);
        past.add_logged("!ls @a");
        let recalled = |past: &PastQuestions, text: &str| past.recall(text).typed();
        assert_eq!(recalled(&past, "look @b"), Typed::by_hand("look @b"));
        assert_eq!(recalled(&past, "!ls @a"), Typed::by_hand("!ls @a"), "it was typed here, too");
        for (text, comes_back) in [
            ("!rm @c", " !rm @c"),
            ("/allow run:sh", " /allow run:sh"),
            ("resume 3", " resume 3"),
            ("open src/a.rs", "open src/a.rs"),
            ("/usr/bin/env is missing", "/usr/bin/env is missing"),
        ] {
            past.add_logged(text);
            assert_eq!(recalled(&past, comes_back), Typed::data(comes_back), "{text}");
            assert!(matches!(understand(comes_back), Ok(TypedLine::Text(sent)) if sent == text));
        }
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
