//! Names of sessions, owners and keys.
//!
//! These strings come from people, programs and files. They are validated once, here, and are plain
//! data afterwards: nothing in this project turns one into a path or a query.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use uuid::Uuid;

use crate::limits::{
    KEY_BYTES_MAX, NAME_CHARS_MAX, NAME_INPUT_CHARS_MAX, NAME_TRIES_MAX, OWNER_BYTES_MAX,
};

/// Why a name, a key or an owner was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum NameError {
    /// It is empty after normalisation.
    #[error("the {what} is empty{}", if *.given { " once its invalid characters are removed" } else { "" })]
    Empty {
        what: &'static str,
        /// Whether the input was non-empty.
        given: bool,
    },
    /// It is too long.
    #[error("the {what} is {length} long; at most {max} are allowed")]
    TooLong {
        what: &'static str,
        /// Its length, in the unit of the limit.
        length: usize,
        max: usize,
    },
    /// It contains something that is not allowed.
    #[error("the {what} may not contain {found}")]
    Forbidden {
        what: &'static str,
        /// What was found, in words.
        found: String,
    },
    /// It has another meaning in this or another system.
    #[error("`{name}` is a reserved name")]
    Reserved { name: String },
}

/// The identity of a session: a UUID of version 7, so that ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub Uuid);

impl SessionId {
    /// The id of an imported session: the same for the same source, regardless of when and by whom
    /// it is imported. It is a UUIDv8 from the SHA-256 of what identifies it.
    pub fn of_source(owner: &Owner, identity: &str) -> SessionId {
        let mut hasher = Sha256::new();
        hasher.update(owner.as_str());
        hasher.update([0]);
        hasher.update(identity);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize()[..16]);
        SessionId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// The first eight digits, for display.
    pub fn short(self) -> String {
        self.0.simple().to_string()[..8].to_owned()
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The owner of a session. It comes from a credential, never from a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Owner(String);

impl Owner {
    /// Checks an owner.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it is empty, too long or contains invisible characters.
    pub fn new(text: impl Into<String>) -> Result<Owner, NameError> {
        let text = text.into();
        checked("owner", &text, OWNER_BYTES_MAX)?;
        Ok(Owner(text))
    }

    /// The user of this machine.
    pub fn local() -> Owner {
        Owner("local".into())
    }

    /// Whether this is the user of this machine.
    pub fn is_local(&self) -> bool {
        self.0 == "local"
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A client's identifier for a session: `file:Notes/foo.md`, `telegram:123456`,
/// `project:/abs/path`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Key(String);

impl Key {
    /// Checks a key.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it is empty, too long or contains invisible characters.
    pub fn new(text: impl Into<String>) -> Result<Key, NameError> {
        let text = text.into();
        checked("key", &text, KEY_BYTES_MAX)?;
        Ok(Key(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a session, as it was typed: `Café für Ärzte`.
///
/// Two names that fold to the same text (`café-für-ärzte`) are the same name to a store: only one
/// session of an owner can have it, and each spelling finds it. `==` compares spellings, so that
/// changing `plan` to `Plan` is a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    spelling: String,
    folded: String,
}

/// Reserved names: they mean something to a selector, to the files store, or to Windows, where a
/// session with this name could never be copied to.
const RESERVED: [&str; 16] = [
    "index",
    "last",
    "metadata",
    "last_session",
    "con",
    "prn",
    "aux",
    "nul",
    "com1",
    "com2",
    "com3",
    "com4",
    "lpt1",
    "lpt2",
    "lpt3",
    "lpt4",
];

impl Name {
    /// A name with this spelling: in the composed form of Unicode (NFC), on one line, without
    /// invisible characters, at most 64 characters.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it could be a path (`..`, `/`, `\`), contains NUL, is reserved, or has no
    /// letter and no digit.
    pub fn new(text: &str) -> Result<Name, NameError> {
        const WHAT: &str = "name";
        let length = text.chars().take(NAME_INPUT_CHARS_MAX + 1).count();
        if length > NAME_INPUT_CHARS_MAX {
            let length = text.chars().count();
            return Err(NameError::TooLong { what: WHAT, length, max: NAME_INPUT_CHARS_MAX });
        }
        for forbidden in ["..", "/", "\\", "\0"] {
            if text.contains(forbidden) {
                let found = if forbidden == "\0" { "NUL".into() } else { format!("`{forbidden}`") };
                return Err(NameError::Forbidden { what: WHAT, found });
            }
        }
        let name = Name::spelt(&on_one_line(text));
        if name.folded.is_empty() || name.folded == "." {
            return Err(NameError::Empty { what: WHAT, given: !text.is_empty() });
        }
        let stem = name.folded.split('.').next().unwrap_or(&name.folded);
        if RESERVED.contains(&name.folded.as_str()) || RESERVED[4..].contains(&stem) {
            return Err(NameError::Reserved { name: name.folded });
        }
        Ok(name)
    }

    /// A name with this spelling, cut at the limit. A stored spelling folds to the same text.
    fn spelt(spelling: &str) -> Name {
        let spelling = shortened(spelling, NAME_CHARS_MAX).trim_end().to_owned();
        let lower = spelling.chars().flat_map(char::to_lowercase).nfc();
        let folded = dashed(lower, |c| c.is_alphanumeric() || is_combining_mark(c));
        let folded = shortened(&folded, NAME_CHARS_MAX).trim_end_matches('-').to_owned();
        Name { spelling, folded }
    }

    /// The default name of a session: `2025-01-04-14-32-15-001-abcd`.
    pub fn of_time(at: jiff::Timestamp, id: SessionId) -> Name {
        let time = at.strftime("%Y-%m-%d-%H-%M-%S-%3f");
        let tail = id.0.as_u128() & 0xffff_ffff;
        let letters = b"abcdefghijklmnopqrstuvwxyz234567";
        let rand: String =
            (0..4).map(|i| char::from(letters[(tail >> (5 * i) & 31) as usize])).collect();
        Name::spelt(&format!("{time}-{rand}"))
    }

    /// Whether this is a default name, also if a fork or a number was added to it.
    pub fn is_automatic(&self) -> bool {
        let mut rest = self.folded.as_str();
        while let Some((base, last)) = rest.rsplit_once('-') {
            if last != "fork" && !(last.bytes().all(|b| b.is_ascii_digit()) && base.len() >= 28) {
                break;
            }
            rest = base;
        }
        // 2025-01-04-14-32-15-001-abcd
        let parts: Vec<&str> = rest.split('-').collect();
        let digits = |(part, length): (&&str, &usize)| {
            part.len() == *length && part.bytes().all(|b| b.is_ascii_digit())
        };
        parts.len() == 8
            && parts.iter().zip(&[4, 2, 2, 2, 2, 2, 3]).all(digits)
            && parts[7].len() == 4
    }

    /// The name of a session in the trash, so that others can use its own.
    pub fn in_trash(id: SessionId) -> Name {
        Name::spelt(&format!("trash-{id}"))
    }

    /// The id of a session with this name, for programs that support only ASCII: every other
    /// character becomes a `-`. If nothing is left, it is the default name.
    pub fn ascii_id(&self, at: jiff::Timestamp, id: SessionId) -> String {
        if self.folded.is_ascii() {
            return self.folded.clone();
        }
        let plain = dashed(self.folded.chars(), |c| c.is_ascii_alphanumeric());
        let plain = plain.trim_matches(['-', '.', '_']);
        match Name::new(plain) {
            Ok(name) => name.folded,
            // Nothing is left, or the rest is reserved.
            Err(_) => Name::of_time(at, id).folded,
        }
    }

    /// This name with a number after it, still within the limit.
    pub fn numbered(&self, number: u32) -> Name {
        let suffix = format!("-{number}");
        let with_suffix = |text: &str| {
            let base = shortened(text, NAME_CHARS_MAX - suffix.len());
            Name::spelt(&format!("{}{suffix}", base.trim_end_matches([' ', '-'])))
        };
        let name = with_suffix(&self.spelling);
        // Letters that fold to two characters may leave no room for the number.
        let fits = name.folded.ends_with(&suffix);
        if fits { name } else { with_suffix(&self.folded) }
    }

    /// This name, and then with numbers after it, from 2 on: for as many attempts as are made to
    /// find one that is free.
    pub fn candidates(&self) -> impl Iterator<Item = Name> {
        let numbers = (2..=NAME_TRIES_MAX).map(|number| self.numbered(number));
        std::iter::once(self.clone()).chain(numbers)
    }

    /// The spelling, as it was typed.
    pub fn as_str(&self) -> &str {
        &self.spelling
    }

    /// What is unique among an owner's names, and can be typed without quotes: lowercase, with
    /// single dashes instead of everything but letters, digits, `.` and `_`; at most 64 characters.
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// Whether typed text selects this name: case and composition are ignored, and dashes
    /// match spaces. `plan!` does not match `plan`: it could be a typing error.
    pub fn matches_typed(&self, typed: &str) -> bool {
        let lower = |text: &str| text.to_lowercase().nfc().collect::<String>();
        let typed = lower(shortened(&on_one_line(typed), NAME_CHARS_MAX).trim_end());
        typed == lower(&self.spelling) || typed.replace(' ', "-") == self.folded
    }
}

/// The first characters of a text.
fn shortened(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(at, _)| &text[..at])
}

/// A text in composed form, with single spaces between its words. Invisible characters count as
/// spaces, and a combining mark without a letter before it is dropped.
fn on_one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.nfc() {
        let is_gap = c.is_whitespace() || is_invisible(c) || is_tag(c) || is_blank(c);
        let alone = line.is_empty() || line.ends_with(' ');
        match is_gap {
            true if !alone => line.push(' '),
            false if !(alone && is_combining_mark(c)) => line.push(c),
            _ => {}
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Characters with a single `-` instead of invalid ones. `.` and `_` are always valid. It does not
/// begin with a dash, and combining marks need a letter before them.
fn dashed(chars: impl Iterator<Item = char>, valid: impl Fn(char) -> bool) -> String {
    let mut name = String::new();
    for c in chars {
        let alone = name.is_empty() || name.ends_with('-');
        match (valid(c) || matches!(c, '.' | '_')) && !(alone && is_combining_mark(c)) {
            true => name.push(c),
            false if alone => {}
            false => name.push('-'),
        }
    }
    name
}

/// Invisible letters and marks: Hangul fillers, and variation selectors.
fn is_blank(c: char) -> bool {
    matches!(c,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{034f}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.spelling)
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.spelling.serialize(serializer)
    }
}

macro_rules! checked_on_read {
    ($($kind:ident),*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$kind, D::Error> {
                let text = String::deserialize(deserializer)?;
                $kind::new(text.as_str()).map_err(serde::de::Error::custom)
            }
        }
    )*};
}
checked_on_read!(Owner, Key, Name);

/// Control characters could control a terminal or forge log lines; direction marks make one name
/// look like another.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
            | '\u{2028}' | '\u{2029}' | '\u{061c}')
}

/// Whether a character must not be shown as it is: those of [`is_invisible`], tag characters and
/// variation selectors, which can spell text that a model reads and a person does not see, and other
/// characters without a shape. Names may contain some of them.
///
/// The two selectors of emoji (U+FE0E, U+FE0F) are not: most emoji need them.
pub fn is_hidden(c: char) -> bool {
    is_invisible(c)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0d}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Tag characters spell invisible ASCII.
fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

fn checked(what: &'static str, text: &str, max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { what, given: false });
    }
    if text.len() > max {
        return Err(NameError::TooLong { what, length: text.len(), max });
    }
    match text.chars().find(|c| is_invisible(*c)) {
        Some(c) => {
            let found = format!("the invisible character U+{:04X}", u32::from(c));
            Err(NameError::Forbidden { what, found })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_can_hide_text_are_hidden_and_those_of_emoji_are_not() {
        for c in
            ['\u{e0041}', '\u{e0100}', '\u{e01ef}', '\u{fe00}', '\u{3164}', '\u{ad}', '\u{2063}']
        {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in "❤\u{fe0f}☎\u{fe0e}1\u{fe0f}\u{20e3}é漢한नमस्ते".chars() {
            assert!(!is_hidden(c), "{c:?}");
        }
    }

    /// A name's folded form.
    fn name(text: &str) -> String {
        Name::new(text).map_or_else(|error| format!("error: {error}"), |name| name.folded)
    }

    fn spelling(text: &str) -> String {
        Name::new(text).expect("a name").spelling
    }

    #[test]
    fn a_name_is_spelt_as_it_was_given() {
        for text in ["Café für Ärzte", "Auth Refactoring!", "日本語", "naïve_v1.2", "--a -- b--"]
        {
            assert_eq!(spelling(text), text);
        }
        assert_eq!(spelling("  Two\n\tlines "), "Two lines");
        assert_eq!(spelling("Cafe\u{301}"), "Caf\u{e9}");
        assert_eq!(spelling("\u{1b}[2Jred\u{202e} \u{301}x"), "[2Jred x");
    }

    #[test]
    fn a_name_that_is_read_back_is_the_same() {
        let marks = "a\u{3164}\u{fe0f}b\u{301}\u{200d}c";
        for text in ["Café für Ärzte", "🦀 crab!", marks, &"İ ".repeat(60), &"x\u{301} ".repeat(90)]
        {
            let name = Name::new(text).expect("a name");
            for name in [name.clone(), name.numbered(7), Name::new(&name.folded).expect("a name")] {
                assert_eq!(Name::new(&name.spelling), Ok(name.clone()));
                assert!(name.spelling.chars().count() <= NAME_CHARS_MAX, "{name}");
                assert!(name.folded.chars().count() <= NAME_CHARS_MAX, "{}", name.folded);
            }
        }
    }

    #[test]
    fn a_name_matches_in_any_case_and_with_dashes_for_spaces() {
        let name = Name::new("Café für Ärzte!").expect("a name");
        let meant =
            ["Café für Ärzte!", "CAFÉ FÜR  ÄRZTE!", "cafe\u{301}-für-ärzte", "café für ärzte"];
        for typed in meant {
            assert!(name.matches_typed(typed), "{typed}");
        }
        for typed in ["cafe für ärzte", "café-für-ärzte?", "café", ""] {
            assert!(!name.matches_typed(typed), "{typed}");
        }
    }

    #[test]
    fn a_name_folds_to_lowercase_with_single_inner_dashes() {
        assert_eq!(name("Auth Refactoring!"), "auth-refactoring");
        assert_eq!(name("--a  --  b--"), "a-b");
        assert_eq!(name("naïve_v1.2"), "naïve_v1.2");
        assert_eq!(name("\u{202e}gpj"), "gpj");
    }

    #[test]
    fn a_name_has_letters_of_any_script_in_composed_form() {
        assert_eq!(name("Café für Ärzte"), "café-für-ärzte");
        assert_eq!(name("Cafe\u{301} fu\u{308}r"), name("Café für"));
        assert_eq!(name("日本語"), "日本語");
        assert_eq!(name("İstanbul / x").as_str(), "error: the name may not contain `/`");
        assert_eq!(name("हिन्दी नाम"), "हिन्दी-नाम");
        assert_eq!(name("\u{301}a \u{301}b"), "a-b", "no mark without its letter");
        assert_eq!(name("a\u{3164}\u{fe0f}b"), "a-b", "nothing invisible");
        assert_eq!(name("🦀"), "error: the name is empty once its invalid characters are removed");
    }

    #[test]
    fn the_id_for_other_programs_is_ascii_and_falls_back_to_the_time() {
        let at: jiff::Timestamp = "2025-01-04T14:32:15.001Z".parse().expect("a time");
        let id = |text: &str| {
            Name::new(text).expect("a name").ascii_id(at, SessionId(Uuid::from_u128(0)))
        };
        assert_eq!(id("Auth Refactoring!"), "auth-refactoring");
        assert_eq!(id("Café für Ärzte"), "caf-f-r-rzte");
        for text in ["日本語", "日.本", "日con", "_日"] {
            assert_eq!(id(text), "2025-01-04-14-32-15-001-aaaa", "{text}");
        }
        for text in ["a.b_c", "naïve_v1.2", &"é1".repeat(32)] {
            let id = id(text);
            assert!(id.is_ascii() && Name::new(&id).is_ok_and(|name| name.folded == id), "{id}");
        }
    }

    #[test]
    fn a_name_that_could_be_a_path_is_refused() {
        for bad in ["../x", "a/b", "a\\b", "a..b", "x\0y"] {
            assert!(name(bad).starts_with("error: the name may not contain"), "{bad:?}");
        }
    }

    #[test]
    fn a_reserved_name_is_refused_in_any_case() {
        for bad in ["index", "CON", "Lpt4", "last_session", "metadata", "con.txt"] {
            assert!(name(bad).ends_with("is a reserved name"), "{bad:?}");
        }
        assert_eq!(name("console"), "console");
        assert_eq!(name("index.html"), "index.html");
    }

    #[test]
    fn a_name_is_at_most_64_characters() {
        for (given, kept) in [(63, 63), (64, 64), (65, 64), (1_000, 64)] {
            assert_eq!(name(&"x".repeat(given)).len(), kept);
        }
        let multi_byte = format!("{}é", "x".repeat(64));
        assert_eq!(name(&multi_byte).len(), 64);
        assert_eq!(name(&"語".repeat(70)).chars().count(), 64);
        assert!(name(&"x".repeat(10_000)).contains("10000 long; at most 1000"));
    }

    #[test]
    fn nothing_left_is_an_error_that_says_so() {
        assert_eq!(name(""), "error: the name is empty");
        assert_eq!(name("…"), "error: the name is empty once its invalid characters are removed");
    }

    #[test]
    fn a_numbered_name_stays_within_the_limit() {
        let long = Name::new(&"x".repeat(64)).expect("valid");
        assert_eq!(long.numbered(2).as_str(), format!("{}-2", "x".repeat(62)));
        for (text, spelling, folded) in [
            ("a", "a-17", "a-17"),
            ("My Plan", "My Plan-17", "my-plan-17"),
            (
                &"İ".repeat(64),
                &format!("{}i-17", "i\u{307}".repeat(30)),
                &format!("{}i-17", "i\u{307}".repeat(30)),
            ),
            (&format!("{}a", "!".repeat(63)), "a-17", "a-17"),
        ] {
            let numbered = Name::new(text).expect("valid").numbered(17);
            assert_eq!((numbered.as_str(), numbered.folded()), (spelling, folded));
        }
    }

    #[test]
    fn a_key_is_any_visible_text() {
        assert!(Key::new("file:../x").is_ok(), "a key is data, never a path");
        assert!(Key::new("").is_err());
        assert!(Key::new("file:\0").is_err());
        assert!(Key::new("file:\u{202e}x").is_err());
        assert!(Key::new("é".repeat(KEY_BYTES_MAX / 2)).is_ok());
        assert!(Key::new("é".repeat(KEY_BYTES_MAX / 2 + 1)).is_err());
    }

    #[test]
    fn the_default_name_is_the_time_and_four_letters() {
        let at: jiff::Timestamp = "2025-01-04T14:32:15.001Z".parse().expect("a time");
        let name = Name::of_time(at, SessionId(Uuid::from_u128(0)));
        assert_eq!(name.as_str(), "2025-01-04-14-32-15-001-aaaa");
        assert_eq!(Name::new(name.as_str()), Ok(name));
    }
}
