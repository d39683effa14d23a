//! What the user wants, guessed from the words.

use rethread_core::{Message, Role};

use super::answer::{GREETING, HELP, NO_SUMMARY, NOTHING_BEFORE, Source, THANKS};
use super::newcomer;
use super::words::among;

/// What the user wants.
#[derive(Debug, PartialEq)]
pub(super) enum Intent {
    /// To continue from the summary in the text.
    Restore,
    /// Something with a fixed answer.
    Said(&'static str),
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
    /// The question.
    pub(super) text: String,
    /// What was already quoted, if the user wants more.
    pub(super) shown: Vec<Source>,
    /// It is a typical question of newcomers.
    pub(super) is_newcomers: bool,
}

impl Question {
    fn new(text: &str) -> Question {
        let is_newcomers = newcomer::asks_how(text);
        Question { text: text.into(), shown: Vec::new(), is_newcomers }
    }
}

/// The prompt with which a session continues from a summary.
const RESTORATION: &str = "CONTEXT RESTORATION:";

/// The prompt that asks for a summary.
const SUMMARY: &str = "Generate a progressive session summary:";

/// Words in a text to find; longer ones are a question.
const FIND_WORDS_MAX: usize = 4;

/// Guesses what the user wants.
pub(super) fn of(text: &str, earlier: &[Message]) -> Intent {
    if text.starts_with(RESTORATION) {
        return Intent::Restore;
    }
    if text.starts_with(SUMMARY) {
        return Intent::Said(NO_SUMMARY);
    }
    // A file attached with `@file` is that file.
    let words: Vec<&str> =
        text.split(' ').map(|word| word.strip_prefix('@').unwrap_or(word)).collect();
    let text = words.join(" ");
    let text = text.as_str();
    let plain = text.to_lowercase();
    let plain = plain.trim_matches(|c: char| c.is_whitespace() || ".!?,;:".contains(c));
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.is_empty() {
        return Intent::Said(HELP);
    }
    if asks_for_more(plain) {
        return more(earlier);
    }
    courtesy(plain, &words)
        .or_else(|| newcomer::asks_what(text).then_some(Intent::About))
        .or_else(|| listing(text))
        .or_else(|| reading(text))
        .or_else(|| finding(text))
        .unwrap_or_else(|| Intent::Question(Question::new(text)))
}

fn courtesy(plain: &str, words: &[&str]) -> Option<Intent> {
    const HELPED: &str = "help, help me, what can you do, who are you, what are you, how do you work, \
                          what do you do, how does this work, what is this";
    const GREETED: &str = "hi, hello, hey, hallo, greetings, morning, hi there, hello there, hey \
                           there, hi all, hello everyone, hello again, good morning, good day, good \
                           evening, good afternoon";
    const THANKED: &str = "thanks thank thx cheers danke";
    let text = match plain {
        _ if is_one_of(HELPED, plain) => HELP,
        _ if is_one_of(GREETED, plain) => GREETING,
        _ if among(THANKED, words[0].trim_end_matches(',')) && words.len() <= 6 => THANKS,
        _ => return None,
    };
    Some(Intent::Said(text))
}

fn asks_for_more(plain: &str) -> bool {
    const MORE: &str = "more, show more, more please, next, go on, continue, anything else, \
                        show me more, what else";
    is_one_of(MORE, plain)
}

fn is_one_of(list: &str, text: &str) -> bool {
    list.split(", ").any(|known| known == text)
}

/// The previous question, without what was quoted for it.
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
                    _ => Intent::Said(NOTHING_BEFORE),
                };
            }
            _ => {}
        }
    }
    Intent::Said(NOTHING_BEFORE)
}

fn listing(text: &str) -> Option<Intent> {
    const FILLING: &str = "me all the are is in here there this of my our do we have please you \
                           see can workspace";
    const FILES: &str = "files file folder directory folders contents project";
    let text = text.trim_end_matches(['?', '!', '.', ',', ' ']);
    let (verb, words) = asked("list ls show what which what's dir", text)?;
    let is = |list: &str, word: &str| among(list, &word.to_lowercase());
    let others: Vec<&str> =
        words.iter().copied().filter(|word| !is(FILLING, word) && !is(FILES, word)).collect();
    let is_command = among("ls dir", &verb);
    let about_files = is_command || words.iter().any(|word| is(FILES, word));
    match others.as_slice() {
        [] if about_files => Some(Intent::List(".".into())),
        [folder] if about_files && (is_command || words.contains(&"in")) => {
            Some(Intent::List((*folder).to_owned()))
        }
        _ => None,
    }
}

/// The first word of a text, where it is one of these, and the others.
fn asked<'t>(verbs: &str, text: &'t str) -> Option<(String, Vec<&'t str>)> {
    let mut words = text.split_whitespace();
    let first = words.next()?.to_lowercase();
    among(verbs, &first).then(|| (first, words.collect()))
}

fn reading(text: &str) -> Option<Intent> {
    const FILLING: &str = "me the file contents of please content";
    let (verb, mut rest) = asked("read show open cat display print view", text)?;
    rest.retain(|word| !among(FILLING, &word.to_lowercase()));
    let [path] = rest.as_slice() else { return None };
    let path = path.trim_matches(|c: char| "\"'`?!,;:".contains(c)).trim_end_matches('.');
    let like_a_path = path.contains(['.', '/']) || among("read cat open", &verb);
    (like_a_path && !path.is_empty()).then(|| Intent::Read(path.into()))
}

fn finding(text: &str) -> Option<Intent> {
    const FILLING: &str = "for me all uses of occurrences where is the any";
    let (_, rest) = asked("find search grep locate look", text)?;
    let rest = rest.into_iter().skip_while(|word| among(FILLING, &word.to_lowercase()));
    let rest: Vec<&str> = rest.collect();
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
            ("Hello!", Intent::Said(GREETING)),
            ("good morning", Intent::Said(GREETING)),
            ("thank you very much", Intent::Said(THANKS)),
            ("What can you do?", Intent::Said(HELP)),
            ("more", Intent::Said(NOTHING_BEFORE)),
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
