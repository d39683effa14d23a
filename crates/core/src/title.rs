//! Titles: what lists show for a session.
//!
//! A title that a person or a model gave is stored in the profile. Without one, a name that a
//! person chose is used; without that, the first question. The last is computed where it is shown,
//! so it costs no write and no model, and sessions of any age have it.

use crate::name::Name;
use crate::session::Session;

/// Characters of a title. A row of a list has room for this in addition to a folder and an age.
const TITLE_CHARS_MAX: usize = 60;

impl Session {
    /// A few words about its topic; `None` if it has no messages and nobody named it.
    pub fn title(&self) -> Option<String> {
        let given = self.header.profile.title.as_deref();
        let given = given.filter(|given| self.shown_as.as_deref() != Some(given)).and_then(of_text);
        let chosen = || self.is_named().then(|| self.shown_name());
        given.or_else(chosen).or_else(|| of_text(&self.first_message))
    }

    /// How messages refer to it: the name a person chose, otherwise its title in quotation marks.
    pub fn label(&self) -> String {
        match self.title().filter(|_| !self.is_named()) {
            Some(title) => format!("“{title}”"),
            None => self.shown_name(),
        }
    }

    /// A selector for it that needs no quotes in a shell.
    pub fn selector(&self) -> &str {
        let name = &self.header.name;
        // One made of the time may be another program's id, which may have capitals.
        if name.is_automatic() { name.as_str() } else { name.folded() }
    }

    /// Whether it has a title that a person or a model gave it, or a name a person chose.
    pub fn is_titled(&self) -> bool {
        self.header.profile.title.is_some() || self.is_named()
    }

    /// Whether it has a name that a person chose, here or in a program that shares the store.
    pub fn is_named(&self) -> bool {
        match &self.shown_as {
            Some(shown) => !Name::new(shown).is_ok_and(|name| name.is_automatic()),
            None => !self.header.name.is_automatic(),
        }
    }
}

/// The first words of a text, on one line: up to the end of the first sentence, and no more than
/// fits a row. Markdown markup and invisible characters are left out.
pub fn of_text(text: &str) -> Option<String> {
    let line = text.lines().map(bare).find(|line| line.chars().any(char::is_alphanumeric))?;
    let sentence = first_sentence(&line);
    let title = cut(sentence.trim_end_matches(['.', ':', ',', ';', ' ']));
    Some(title).filter(|title| !title.is_empty())
}

/// A line without its markup, with single spaces.
fn bare(line: &str) -> String {
    let line = line.trim().trim_start_matches(['#', '>', '*', '-', '`', ' ']);
    let seen = line.chars().filter(|c| !crate::name::is_hidden(*c) && *c != '`');
    let seen: String = seen.collect();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Up to the first full stop, question mark or exclamation mark that ends a word.
fn first_sentence(line: &str) -> &str {
    let ends = |(at, c): (usize, char)| {
        let next = line[at + c.len_utf8()..].chars().next();
        let ends = match c {
            '.' if is_abbreviation(&line[..at]) => false,
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace),
            '。' | '！' | '？' => true,
            _ => false,
        };
        ends.then(|| at + c.len_utf8())
    };
    // No sentence ends this early.
    let end = line.char_indices().skip(12).find_map(ends);
    end.map_or(line, |end| &line[..end])
}

/// Whether the last word of a text is an initial, or letters with stops between them (`e.g`).
fn is_abbreviation(text: &str) -> bool {
    let word = text.rsplit(' ').next().unwrap_or(text);
    word.split('.').all(|part| part.chars().count() == 1 && part.chars().all(char::is_alphabetic))
}

/// At most as many characters as a title has, ending at a word boundary if possible.
fn cut(text: &str) -> String {
    if text.chars().count() <= TITLE_CHARS_MAX {
        return text.to_owned();
    }
    let kept: String = text.chars().take(TITLE_CHARS_MAX - 1).collect();
    let whole = kept.rsplit_once(' ').map(|(whole, _)| whole);
    let whole = whole.filter(|whole| whole.chars().count() > TITLE_CHARS_MAX / 2).unwrap_or(&kept);
    format!("{}…", whole.trim_end_matches(['.', ',', ';', ':', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_sentence_of_the_question() {
        for (text, title) in [
            ("Where is the rate limiter?", "Where is the rate limiter?"),
            ("fix the tests. then commit", "fix the tests"),
            ("  \n\n# Plan for the garden\nand more", "Plan for the garden"),
            ("> quoted `code` here", "quoted code here"),
            ("why does e.g. this fail", "why does e.g. this fail"),
            (
                "version 1.2.3 is out, please update the readme",
                "version 1.2.3 is out, please update the readme",
            ),
            (
                "質問です。もう一つ、長い説明がここに続きます。",
                "質問です。もう一つ、長い説明がここに続きます。",
            ),
            ("\u{1b}[2Jhello\u{202e} there", "[2Jhello there"),
        ] {
            assert_eq!(of_text(text).as_deref(), Some(title), "{text:?}");
        }
        for nothing in ["", " \n ", "---", "```"] {
            assert_eq!(of_text(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_title_fits_a_row_and_ends_with_a_whole_word() {
        let long = "explain how the scheduler decides which of the waiting tasks runs next on a busy machine";
        let title = of_text(long).expect("a title");
        assert_eq!(title, "explain how the scheduler decides which of the waiting…");
        for text in [long.to_owned(), "x".repeat(500), "語".repeat(500)] {
            let title = of_text(&text).expect("a title");
            assert!(title.chars().count() <= TITLE_CHARS_MAX, "{title}");
            assert!(title.ends_with('…'), "{title}");
        }
    }
}
