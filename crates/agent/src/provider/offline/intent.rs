//! What the user wants, as far as that can be told from the words.

use rethread_core::{Message, Role};

use super::answer::Source;

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
    /// The places where a text stands.
    Find(String),
    Question(Question),
}

/// Something to look up.
#[derive(Debug, PartialEq)]
pub(super) struct Question {
    /// What is asked.
    pub(super) text: String,
    /// What was quoted already, when more is wanted.
    pub(super) shown: Vec<Source>,
}

/// The prompt with which a session continues from a summary.
const RESTORATION: &str = "CONTEXT RESTORATION:";

/// The prompt that asks for a summary.
const SUMMARY: &str = "Generate a progressive session summary:";

/// Words in a text to find; longer ones are a question.
const FIND_WORDS_MAX: usize = 4;

/// Tells what the user wants.
pub(super) fn of(text: &str, earlier: &[Message]) -> Intent {
    if text.starts_with(RESTORATION) {
        return Intent::Restore;
    }
    if text.starts_with(SUMMARY) {
        return Intent::Summarize;
    }
    let plain = text.to_lowercase();
    let plain = plain.trim_matches(|c: char| c.is_whitespace() || ".!?,;:".contains(c));
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.is_empty() {
        return Intent::Help;
    }
    if asks_for_more(plain) {
        return more(earlier);
    }
    courtesy(plain, &words)
        .or_else(|| listing(&words, text))
        .or_else(|| reading(text))
        .or_else(|| finding(text))
        .unwrap_or_else(|| Intent::Question(Question { text: text.into(), shown: Vec::new() }))
}

fn courtesy(plain: &str, words: &[&str]) -> Option<Intent> {
    const HELLO: [&str; 7] = ["hi", "hello", "hey", "hallo", "greetings", "morning", "good"];
    const THANKS: [&str; 5] = ["thanks", "thank", "thx", "cheers", "danke"];
    const HELP: [&str; 9] = [
        "help",
        "help me",
        "what can you do",
        "who are you",
        "what are you",
        "how do you work",
        "what do you do",
        "how does this work",
        "what is this",
    ];
    const DAY: [&str; 8] =
        ["morning", "day", "evening", "afternoon", "there", "again", "all", "everyone"];
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let first = bare(words[0]);
    let rest_is_day = words[1..].iter().all(|word| DAY.contains(&bare(word).as_str()));
    if HELP.contains(&plain) {
        Some(Intent::Help)
    } else if THANKS.contains(&first.as_str()) && words.len() <= 6 {
        Some(Intent::Thanks)
    } else if HELLO.contains(&first.as_str()) && rest_is_day && (first != "good" || words.len() > 1)
    {
        Some(Intent::Greeting)
    } else {
        None
    }
}

fn asks_for_more(plain: &str) -> bool {
    const MORE: [&str; 9] = [
        "more",
        "show more",
        "more please",
        "next",
        "go on",
        "continue",
        "anything else",
        "show me more",
        "what else",
    ];
    MORE.contains(&plain)
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
                    Intent::Find(text) => Intent::Question(Question { text, shown }),
                    _ => Intent::NothingBefore,
                };
            }
            _ => {}
        }
    }
    Intent::NothingBefore
}

fn listing(words: &[&str], text: &str) -> Option<Intent> {
    const ASKED: [&str; 7] = ["list", "ls", "show", "what", "which", "what's", "dir"];
    const FILLING: [&str; 20] = [
        "me",
        "all",
        "the",
        "are",
        "is",
        "in",
        "here",
        "there",
        "this",
        "of",
        "my",
        "our",
        "do",
        "we",
        "have",
        "please",
        "you",
        "see",
        "can",
        "workspace",
    ];
    const FILES: [&str; 7] =
        ["files", "file", "folder", "directory", "folders", "contents", "project"];
    if !ASKED.contains(&words[0]) {
        return None;
    }
    let rest: Vec<&str> =
        words[1..].iter().copied().filter(|word| !FILLING.contains(word)).collect();
    let (files, others): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|word| FILES.contains(word));
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
    const ASKED: [&str; 7] = ["read", "show", "open", "cat", "display", "print", "view"];
    const FILLING: [&str; 7] = ["me", "the", "file", "contents", "of", "please", "content"];
    let mut words = text.split_whitespace();
    let first = words.next()?.to_lowercase();
    let first = ASKED.into_iter().find(|verb| *verb == first)?;
    let rest: Vec<&str> =
        words.filter(|word| !FILLING.contains(&word.to_lowercase().as_str())).collect();
    let [path] = rest.as_slice() else { return None };
    let path = path.trim_matches(|c: char| "\"'`?!,;:".contains(c)).trim_end_matches('.');
    let like_a_path = path.contains(['.', '/']) || matches!(first, "read" | "cat" | "open");
    (like_a_path && !path.is_empty()).then(|| Intent::Read(path.into()))
}

fn finding(text: &str) -> Option<Intent> {
    const ASKED: [&str; 5] = ["find", "search", "grep", "locate", "look"];
    const FILLING: [&str; 10] =
        ["for", "me", "all", "uses", "of", "occurrences", "where", "is", "the", "any"];
    let mut words = text.split_whitespace().peekable();
    let first = words.next()?.to_lowercase();
    if !ASKED.contains(&first.as_str()) {
        return None;
    }
    while words.peek().is_some_and(|word| FILLING.contains(&word.to_lowercase().as_str())) {
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
    fn plain_requests_are_told_from_questions() {
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
            ("find Bucket", find("Bucket")),
            ("search for \"web push\"", find("web push")),
            ("Hello!", Intent::Greeting),
            ("good morning", Intent::Greeting),
            ("thank you very much", Intent::Thanks),
            ("What can you do?", Intent::Help),
            ("more", Intent::NothingBefore),
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
