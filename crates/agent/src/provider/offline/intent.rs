//! What the user wants, as far as the words show it.

use rethread_core::{Message, Role};

use super::answer::Source;
use super::newcomer::{self, Newcomer};
use super::words::among;

/// What the user wants.
#[derive(Debug, PartialEq)]
pub(super) enum Intent {
    Restore,
    Summarize,
    Greeting,
    Thanks,
    Help,
    /// More of an answer that was never given.
    NothingBefore,
    /// The files in a folder.
    List(String),
    /// A file.
    Read(String),
    /// The places where a text appears.
    Find(String),
    /// What this project is.
    About,
    Question(Question),
}

/// Something to look up.
#[derive(Debug, PartialEq)]
pub(super) struct Question {
    /// What is asked.
    pub(super) text: String,
    /// What was quoted already, when more is wanted.
    pub(super) shown: Vec<Source>,
    /// It is one of those that projects answer for newcomers.
    pub(super) is_newcomers: bool,
}

impl Question {
    fn new(text: &str) -> Question {
        let is_newcomers = newcomer::asks(text) == Some(Newcomer::HowTo);
        Question { text: text.into(), shown: Vec::new(), is_newcomers }
    }
}

/// The prompt with which a session continues from a summary.
const RESTORATION: &str = "CONTEXT RESTORATION:";

/// The prompt that asks for a summary.
const SUMMARY: &str = "Generate a progressive session summary:";

/// Words in a text to find; longer ones are a question.
const FIND_WORDS_MAX: usize = 4;

/// Works out what the user wants.
pub(super) fn of(text: &str, earlier: &[Message]) -> Intent {
    if text.starts_with(RESTORATION) {
        return Intent::Restore;
    }
    if text.starts_with(SUMMARY) {
        return Intent::Summarize;
    }
    // A file that goes with the question, as `@file`, is that file.
    let words: Vec<&str> =
        text.split(' ').map(|word| word.strip_prefix('@').unwrap_or(word)).collect();
    let text = words.join(" ");
    let text = text.as_str();
    let plain = text.to_lowercase();
    let plain = plain.trim_matches(|c: char| c.is_whitespace() || ".!?,;:".contains(c));
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.is_empty() {
        return Intent::Help;
    }
    if asks_for_more(plain) {
        return more(earlier);
    }
    let about = newcomer::asks(text).filter(|asked| *asked == Newcomer::About);
    courtesy(plain, &words)
        .or_else(|| about.map(|_| Intent::About))
        .or_else(|| listing(&words, text))
        .or_else(|| reading(text))
        .or_else(|| finding(text))
        .unwrap_or_else(|| Intent::Question(Question::new(text)))
}

fn courtesy(plain: &str, words: &[&str]) -> Option<Intent> {
    const HELLO: &str = "hi hello hey hallo greetings morning good";
    const THANKS: &str = "thanks thank thx cheers danke";
    const HELP: &str = "help, help me, what can you do, who are you, what are you, how do you work, \
                        what do you do, how does this work, what is this";
    const DAY: &str = "morning day evening afternoon there again all everyone";
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let first = bare(words[0]);
    let rest_is_day = words[1..].iter().all(|word| among(DAY, &bare(word)));
    if HELP.split(", ").any(|text| text == plain) {
        Some(Intent::Help)
    } else if among(THANKS, &first) && words.len() <= 6 {
        Some(Intent::Thanks)
    } else if among(HELLO, &first) && rest_is_day && (first != "good" || words.len() > 1) {
        Some(Intent::Greeting)
    } else {
        None
    }
}

fn asks_for_more(plain: &str) -> bool {
    const MORE: &str = "more, show more, more please, next, go on, continue, anything else, \
                        show me more, what else";
    MORE.split(", ").any(|text| text == plain)
}

/// The question before, without what was quoted for it.
fn more(earlier: &[Message]) -> Intent {
    let mut shown = Vec::new();
    for message in earlier.iter().rev() {
        let text = message.plain_text();
        match message.role {
            Role::Assistant => shown.extend(text.lines().filter_map(Source::parse)),
            Role::User if message.opens_turn() => {
                let plain = text.trim().trim_matches(|c: char| ".!?".contains(c)).to_lowercase();
                if asks_for_more(&plain) {
                    continue;
                }
                return match of(text.trim(), &[]) {
                    Intent::Question(question) => Intent::Question(Question { shown, ..question }),
                    Intent::Find(text) => {
                        Intent::Question(Question { shown, ..Question::new(&text) })
                    }
                    _ => Intent::NothingBefore,
                };
            }
            _ => {}
        }
    }
    Intent::NothingBefore
}

fn listing(words: &[&str], text: &str) -> Option<Intent> {
    const ASKED: &str = "list ls show what which what's dir";
    const FILLING: &str = "me all the are is in here there this of my our do we have please you \
                           see can workspace";
    const FILES: &str = "files file folder directory folders contents project";
    if !among(ASKED, words[0]) {
        return None;
    }
    let rest: Vec<&str> = words[1..].iter().copied().filter(|word| !among(FILLING, word)).collect();
    let (files, others): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|word| among(FILES, word));
    let about_files = !files.is_empty() || words[0] == "ls" || words[0] == "dir";
    match others.as_slice() {
        [] if about_files => Some(Intent::List(".".into())),
        [folder] if (about_files && words.contains(&"in")) || words[0] == "ls" => {
            // The folder as it was written, not in lowercase.
            let written = text.split_whitespace().find(|word| word.to_lowercase().contains(folder));
            let written = written.unwrap_or(folder).trim_end_matches(['?', '!', '.', ',']);
            Some(Intent::List(written.to_owned()))
        }
        _ => None,
    }
}

fn reading(text: &str) -> Option<Intent> {
    const ASKED: &str = "read show open cat display print view";
    const FILLING: &str = "me the file contents of please content";
    let mut words = text.split_whitespace();
    let first = words.next()?.to_lowercase();
    if !among(ASKED, &first) {
        return None;
    }
    let rest: Vec<&str> = words.filter(|word| !among(FILLING, &word.to_lowercase())).collect();
    let [path] = rest.as_slice() else { return None };
    let path = path.trim_matches(|c: char| "\"'`?!,;:".contains(c)).trim_end_matches('.');
    let like_a_path =
        path.contains(['.', '/']) || matches!(first.as_str(), "read" | "cat" | "open");
    (like_a_path && !path.is_empty()).then(|| Intent::Read(path.into()))
}

fn finding(text: &str) -> Option<Intent> {
    const ASKED: &str = "find search grep locate look";
    const FILLING: &str = "for me all uses of occurrences where is the any";
    let mut words = text.split_whitespace().peekable();
    let first = words.next()?.to_lowercase();
    if !among(ASKED, &first) {
        return None;
    }
    while words.peek().is_some_and(|word| among(FILLING, &word.to_lowercase())) {
        words.next();
    }
    let rest: Vec<&str> = words.collect();
    let wanted = rest.join(" ");
    let wanted = wanted.trim_matches(|c: char| "\"'`?!.,;:".contains(c));
    (!wanted.is_empty() && rest.len() <= FIND_WORDS_MAX).then(|| Intent::Find(wanted.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_requests_are_distinguished_from_questions() {
        let list = |path: &str| Intent::List(path.into());
        let read = |path: &str| Intent::Read(path.into());
        let find = |text: &str| Intent::Find(text.into());
        for (text, intent) in [
            ("list files", list(".")),
            ("What files are here?", list(".")),
            ("list the files in Docs?", list("Docs")),
            ("read README.md", read("README.md")),
            ("show me the file src/main.rs", read("src/main.rs")),
            ("read README", read("README")),
            ("read @README.md", read("README.md")),
            ("find Bucket", find("Bucket")),
            ("search for \"web push\"", find("web push")),
            ("Hello!", Intent::Greeting),
            ("good morning", Intent::Greeting),
            ("thank you very much", Intent::Thanks),
            ("What can you do?", Intent::Help),
            ("more", Intent::NothingBefore),
            ("what is this project?", Intent::About),
            ("what's in this folder?", list(".")),
            ("CONTEXT RESTORATION: x", Intent::Restore),
        ] {
            assert_eq!(of(text, &[]), intent, "{text}");
        }
        for text in [
            "show me how parcels are delivered",
            "what is in the report?",
            "which files hold the retry policy?",
            "find out why customers got the same e-mail twice",
            "good ideas?",
        ] {
            assert!(matches!(of(text, &[]), Intent::Question(_)), "{text}");
        }
    }
}
