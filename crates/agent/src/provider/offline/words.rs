//! The words of a question that are worth searching for.

use regex::Regex;

/// Stop words.
const STOP: &str = "a about above after again all also am an and any are as at be because been before being \
    below between both but by can cannot could did do does doing down during each every few \
    for from further get gets give given go goes got had has have having he her here hers him \
    his how however i if in into is it its itself just kind let like made make makes many may \
    me might mine more most much must my myself need needs no nor not now of off on once one \
    only or other our ours out over own per please put really same say says see shall she \
    should show so some something such two three take takes tell than that the their theirs \
    them then there these they thing things this those through to too under until up us use \
    used uses using very want wants was way we well were what when where whether which while \
    who whom whose why will with within without would yes you your yours find found know known \
    explain describe happen happens happened work works come comes mean means long often \
    reason";

/// Words that ask for earlier conversations, and are not searched for themselves.
const PAST: &str = "decide decided decision decisions agree agreed choose chose chosen settle \
    settled discuss discussed discussion talked conclude concluded conclusion pick picked remember \
    earlier previously yesterday ago last previous said";

/// Letters a word needs to be stemmed, and those that must be left.
const STEM_MIN: usize = 4;

/// Letters a stem needs to match inside of other words.
const INSIDE_MIN: usize = 6;

/// Suffixes.
const ENDINGS: [&str; 18] = [
    "ications", "ication", "ations", "ation", "ings", "ing", "ers", "ies", "ied", "ions", "ion",
    "er", "es", "ed", "s", "y", "e", "or",
];

/// Words of one question that are searched for. Longer texts are not questions.
const WORDS_MAX: usize = 8;

/// Characters of a question that are considered. Longer ones were pasted.
const QUESTION_CHARS_MAX: usize = 4_000;

/// Characters of a word. Longer ones are data.
const WORD_CHARS_MAX: usize = 60;

/// Whether a word is in a list, in which spaces separate them.
pub(super) fn among(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// A word, and how to match it.
pub(super) struct Word {
    /// As it was written, in lowercase.
    pub(super) text: String,
    stem: String,
    regex: Regex,
    /// It looks like an identifier and is used as it is.
    pub(super) exact: bool,
}

/// What a question asks about.
pub(super) struct Keywords {
    /// Its words, in order.
    pub(super) words: Vec<Word>,
    /// Phrases of several words that were in quotes.
    pub(super) phrases: Vec<Word>,
    /// It asks for earlier conversations.
    pub(super) past: bool,
}

impl Word {
    fn exact(text: &str) -> Option<Word> {
        let pattern = format!("(?i:{})", regex::escape(text));
        Word::new(text, text.to_lowercase(), &pattern, true)
    }

    /// Matches the word and its derivatives: at the beginning of a word, after an underscore, or at
    /// a capital inside a name. A long word may match inside others (`duplicate` in
    /// `deduplication`).
    fn stemmed(text: &str) -> Option<Word> {
        let stem = stem(&text.to_lowercase());
        let loose = regex::escape(&stem);
        let capital = regex::escape(&capitalised(&stem));
        let pattern = match stem.chars().count() >= INSIDE_MIN {
            true => format!("(?i:{loose})"),
            false => format!(r"(?:(?:\b|_)(?i:{loose})|[a-z]{capital})"),
        };
        Word::new(text, stem, &pattern, false)
    }

    fn new(text: &str, stem: String, pattern: &str, exact: bool) -> Option<Word> {
        let regex = Regex::new(pattern).ok()?;
        Some(Word { text: text.to_lowercase(), stem, regex, exact })
    }

    /// The regular expression that finds it.
    pub(super) fn pattern(&self) -> &str {
        self.regex.as_str()
    }

    /// What finds it in sessions.
    fn query(&self) -> String {
        match self.exact {
            true => format!("\"{}\"", self.text.replace('"', " ")),
            false => format!("{}*", self.stem),
        }
    }

    /// Whether a text contains it.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// A word with a capital first, if it begins with an ASCII letter.
fn capitalised(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}

/// The stem of a word.
pub(super) fn stem(word: &str) -> String {
    if !word.is_ascii() {
        return word.into();
    }
    for ending in ENDINGS {
        let Some(rest) = word.strip_suffix(ending).filter(|rest| rest.len() >= 3) else { continue };
        let bytes = rest.as_bytes();
        let doubled = bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
            && !matches!(bytes[bytes.len() - 1], b'a' | b'e' | b'i' | b'o' | b'u' | b'l' | b's');
        if doubled && matches!(ending, "ing" | "ed" | "er" | "ers") {
            return rest[..rest.len() - 1].into();
        }
        if rest.len() >= STEM_MIN || (ending == "s" && !rest.ends_with('s')) {
            return rest.into();
        }
    }
    word.into()
}

impl Keywords {
    /// Picks the words of a question.
    pub(super) fn of(question: &str) -> Keywords {
        let mut keywords = Keywords { words: Vec::new(), phrases: Vec::new(), past: false };
        let question: String = question.chars().take(QUESTION_CHARS_MAX).collect();
        let mut plain = String::new();
        for (index, part) in question.split(['"', '`', '“', '”']).enumerate() {
            let quoted = index % 2 == 1;
            match quoted && !part.trim().is_empty() {
                true if part.trim().contains(char::is_whitespace) => {
                    keywords.phrases.extend(Word::exact(part.trim()));
                    plain.push_str(part);
                }
                true => keywords.add(Word::exact(part.trim())),
                false => plain.push_str(part),
            }
            plain.push(' ');
        }
        for (index, token) in plain.split_whitespace().enumerate() {
            keywords.token(token, index == 0);
        }
        keywords
    }

    fn token(&mut self, token: &str, first: bool) {
        let edge = |c: char| !c.is_alphanumeric() && c != '_';
        let token = token.trim_matches(edge);
        let bare = token.trim_end_matches("'s").trim_end_matches("’s");
        let lower = bare.to_lowercase().replace('’', "'");
        if among(PAST, &lower) {
            self.past = true;
            return;
        }
        // A stop word with a capital in the middle of a sentence is a name, such as the month.
        let name = !first && bare.starts_with(char::is_uppercase);
        // Contractions (`don't`, `we'll`) are stop words too.
        let is_small = among(STOP, &lower) && !name || lower.contains('\'');
        if bare.chars().count() < 2 || is_small {
            return;
        }
        if names_something(bare) {
            return self.add(Word::exact(bare));
        }
        for part in bare.split(['/', ',', ':', '(', ')']).filter(|part| part.len() >= 2) {
            self.add(Word::stemmed(&part.replace('-', "")));
        }
    }

    fn add(&mut self, word: Option<Word>) {
        if let Some(word) = word
            && self.words.len() < WORDS_MAX
            && word.text.chars().count() <= WORD_CHARS_MAX
            && !self.words.iter().any(|other| other.stem == word.stem)
        {
            self.words.push(word);
        }
    }

    /// The words, the longest first: they tend to be rare.
    pub(super) fn by_length(&self) -> impl Iterator<Item = &Word> {
        let mut words: Vec<&Word> = self.words.iter().collect();
        words.sort_by_key(|word| std::cmp::Reverse((word.exact, word.stem.len())));
        words.into_iter()
    }

    /// Matches lines that contain two of the words.
    pub(super) fn pairs(&self) -> Option<String> {
        let words: Vec<&Word> = self.by_length().take(5).collect();
        let mut pairs = Vec::new();
        for (index, a) in words.iter().enumerate() {
            for b in &words[index + 1..] {
                let (a, b) = (a.pattern(), b.pattern());
                pairs.extend([format!("{a}.*{b}"), format!("{b}.*{a}")]);
            }
        }
        (!pairs.is_empty()).then(|| pairs.join("|"))
    }

    /// Matches files that have one of the words in their path.
    pub(super) fn file_names(&self) -> String {
        let mut stems = Vec::new();
        for word in &self.words {
            let plain = word.stem.chars().filter(|c| c.is_alphanumeric() || "_-.".contains(*c));
            let plain: String = plain.collect();
            stems.extend([plain.to_uppercase(), capitalised(&plain), plain]);
        }
        stems.retain(|stem| !stem.is_empty());
        format!("**/*{{{}}}*", stems.join(","))
    }

    /// Queries for earlier sessions, from all words to single ones, in all their forms.
    pub(super) fn queries(&self) -> Vec<String> {
        let words: Vec<String> = self.by_length().map(Word::query).collect();
        let mut queries: Vec<String> = self.phrases.iter().map(Word::query).collect();
        let alone = words.iter().take(3).cloned();
        let together = [4, 2].map(|most| words[..words.len().min(most)].join(" "));
        queries.extend(together.into_iter().chain(alone).filter(|query| !query.is_empty()));
        queries.dedup();
        queries
    }

    /// The words as they were written, for people.
    pub(super) fn shown(&self) -> String {
        let words = self.phrases.iter().chain(&self.words).map(|word| word.text.as_str());
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Whether a word looks like code: an identifier, a path, a version.
fn names_something(word: &str) -> bool {
    let inner_capital =
        word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    let dotted = word.contains('.') && !word.contains(' ');
    inner_capital || dotted || word.contains('_') || word.contains("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_word_meet() {
        for (a, b) in [
            ("limits", "limiter"),
            ("caching", "cached"),
            ("retries", "retry"),
            ("running", "run"),
            ("databases", "database"),
            ("stopped", "stop"),
        ] {
            let word = Word::stemmed(a).expect("a word");
            assert!(word.is_in(b), "{a} ({}) finds {b}", word.stem);
        }
    }

    #[test]
    fn a_word_is_found_inside_names_but_not_inside_other_words() {
        let port = Word::stemmed("port").expect("a word");
        for there in ["the port", "http_port", "httpPort", "Ports"] {
            assert!(port.is_in(there), "{there}");
        }
        assert!(!port.is_in("report and support"));
    }

    #[test]
    fn names_and_quotes_are_kept_and_small_words_dropped() {
        let keywords = Keywords::of("Where is `ATTEMPTS_MAX` used with \"web push\" in main.rs?");
        let words: Vec<&str> = keywords.words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(words, ["attempts_max", "web", "push", "main.rs"]);
        assert_eq!(keywords.phrases[0].text, "web push");
        assert!(Keywords::of("What did we decide about it?").past);
    }
}
