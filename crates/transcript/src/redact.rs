//! Removes secrets from text that is written for others.
//!
//! The log is never changed: this works on the text of an export. It finds what looks like a key, a
//! token, a private key, a password in a connection string, a secret assigned to a name, and the
//! home folder of the writer. It is a safety net, not a guarantee: read what you publish.

use std::borrow::Cow;
use std::collections::BTreeMap;

use regex::{Captures, Regex, RegexSet};
use rethread_core::message::without_lone_surrogates;
use rethread_core::session::ExtraFields;
use rethread_core::{Body, Entry, Key, Name, Raw, Session};
use serde_json::Value;

/// Characters an assigned value must have before it is checked.
const ASSIGNED_CHARS_MIN: usize = 12;

/// The minimum entropy, in bits per character, of a random value. English has about four, and words
/// joined by underscores less; base64 keys have five and more.
const ENTROPY_BITS_MIN: f64 = 3.2;

/// Removes secrets, and counts them.
pub struct Redactor {
    rules: Vec<Rule>,
    any: RegexSet,
    block: Regex,
    removed: BTreeMap<&'static str, u64>,
}

struct Rule {
    name: &'static str,
    pattern: Regex,
    /// The replacement, or how to decide about it.
    stays: &'static str,
}

/// How the name of a password ends, and that of a key: in a pattern that ignores case.
macro_rules! password {
    () => {
        r"[A-Z0-9_.-]{0,40}(?:password|passwd|pwd|passphrase|[_-]pass|[_-]pw)"
    };
}
macro_rules! key {
    () => {
        r"[A-Z0-9_.-]{0,40}(?:(?:api|access|private|encryption|signing)[_-]?key|secret[_-]?key(?:[_-]?base)?|secret[_-]?access[_-]?key|(?:client|app|webhook|jwt)[_-]?secret|(?:auth|access|refresh|api|bot)[_-]?token|[A-Z0-9][_-]pat)"
    };
}

/// A name and its value in quotes: double, single, or double in text that is itself in quotes. An
/// escaped quote does not end the value.
macro_rules! quoted {
    ($name:expr) => {
        [
            concat!(
                r"(?P<keep>(?i:\b",
                $name,
                r#")["']?\s*(?::=|=>|=|:)\s*")(?P<secret>(?:[^"\\\r\n]|\\[^\r\n])+)(?P<after>")"#
            ),
            concat!(
                r"(?P<keep>(?i:\b",
                $name,
                r#")["']?\s*(?::=|=>|=|:)\s*')(?P<secret>(?:[^'\\\r\n]|\\[^\r\n]|'')+)(?P<after>')"#
            ),
            concat!(
                r"(?P<keep>(?i:\b",
                $name,
                r#")(?:\\["'])?\s*(?::=|=>|=|:)\s*\\")(?P<secret>(?:[^"\\\r\n]|\\[^"\\\r\n]|\\\\\\?[^\r\n])+)(?P<after>\\")"#
            ),
        ]
    };
}
const QUOTED_PASSWORDS: [&str; 3] = quoted!(password!());
const QUOTED_KEYS: [&str; 3] = quoted!(key!());

/// A variable in the environment of a container, in YAML or JSON, and its value: in the same quotes as
/// above, or in none.
macro_rules! container {
    ($value:expr) => {
        concat!(
            r#"(?P<keep>(?i:\bname\\?["']?[ \t]*:[ \t]*\\?["']?(?:"#,
            password!(),
            "|",
            key!(),
            r#"|[A-Z0-9_.-]{0,40}(?:secret|token)))\\?["']?(?:,\s*|\s+)\\?["']?value\\?["']?[ \t]*:[ \t]*"#,
            $value
        )
    };
}
const CONTAINER: [&str; 4] = [
    container!(r#"")(?P<secret>(?:[^"\\\r\n]|\\[^\r\n])+)(?P<after>")"#),
    container!(r#"')(?P<secret>(?:[^'\\\r\n]|\\[^\r\n]|'')+)(?P<after>')"#),
    container!(r#"\\")(?P<secret>(?:[^"\\\r\n]|\\[^"\\\r\n]|\\\\\\?[^\r\n])+)(?P<after>\\")"#),
    container!(r#")(?P<secret>[^\s"'\\,{}\[][^\r\n"'\\,}]{0,300})(?P<after>)"#),
];

/// A line of YAML that begins a block of text, and what is indented before the name.
const BLOCK: &str = concat!(
    r#"(?m)^(?P<indent>[ \t]*(?:-[ \t]+)*)(?i:["']?(?:"#,
    password!(),
    "|",
    key!(),
    r#")["']?):[ \t]*[|>][0-9+-]{0,2}[ \t]*(?:#[^\r\n]*)?\r?$"#
);

/// What is written in the place of such a block.
const BLOCK_NAME: &str = "password";

/// Each rule: its name, its pattern, and what is kept. They are tried in this order.
///
/// What is kept: nothing, a `~` where a path begins (`~`, and `root` if the name ends there) or a
/// folder is named after one (`-~`), or the named groups `keep` and `after` around the secret: always
/// (`keep`), if `secret` looks random (`weigh`), is not the name of a type (`value`), is not code
/// (`phrase`), is one of several values in braces (`flow`), or is not a port with a path (`login`).
///
/// A slash may be written `\/`, because some programs write it that way in JSON.
const RULES: &[(&str, &str, &str)] = &[
    (
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        "",
    ),
    ("anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{16,}", ""),
    ("openai key", r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}", ""),
    ("stripe key", r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}", ""),
    ("github token", r"\bgh[pousr]_[A-Za-z0-9]{30,}", ""),
    ("github token", r"\bgithub_pat_[A-Za-z0-9_]{40,}", ""),
    ("gitlab token", r"\bglpat-[A-Za-z0-9_-]{20,}", ""),
    ("slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}", ""),
    ("slack webhook", r"https://hooks\.slack\.com/services/[A-Za-z0-9/_+-]+", ""),
    ("aws key id", r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b", ""),
    ("google key", r"\bAIza[A-Za-z0-9_-]{35}", ""),
    ("google token", r"\bya29\.[A-Za-z0-9_-]{20,}", ""),
    ("npm token", r"\bnpm_[A-Za-z0-9]{30,}", ""),
    ("pypi token", r"\bpypi-[A-Za-z0-9_-]{40,}", ""),
    ("hugging face token", r"\bhf_[A-Za-z0-9]{30,}", ""),
    ("sendgrid key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", ""),
    ("telegram token", r"\b\d{8,10}:AA[A-Za-z0-9_-]{32,}", ""),
    ("json web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", ""),
    ("rethread token", r"\brt_[0-9a-f]{40,}", ""),
    ("age key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}", ""),
    (
        "connection string",
        r"(?P<keep>\b[a-z][a-z0-9+.-]{1,30}:\\*/\\*/[^\s:/@<>\x22'`\\]{0,100}:)(?P<secret>[^\s<>\x22'`]{1,300})(?P<after>@)",
        "login",
    ),
    (
        "authorization",
        r"(?P<keep>(?i:\bauthorization\b(?:\\?[\x22'])?\s*[:=]\s*(?:\\?[\x22'])?(?:bearer|basic|token)\s+))[A-Za-z0-9._~+/=-]{8,}(?P<after>)",
        "keep",
    ),
    ("bearer token", r"(?P<keep>\b[Bb]earer\s+)[A-Za-z0-9._~+/=-]{20,}(?P<after>)", "keep"),
    ("password", QUOTED_PASSWORDS[0], "keep"),
    ("password", QUOTED_PASSWORDS[1], "keep"),
    ("password", QUOTED_PASSWORDS[2], "keep"),
    ("assigned secret", QUOTED_KEYS[0], "value"),
    ("assigned secret", QUOTED_KEYS[1], "value"),
    ("assigned secret", QUOTED_KEYS[2], "value"),
    ("assigned secret", CONTAINER[0], "keep"),
    ("assigned secret", CONTAINER[1], "keep"),
    ("assigned secret", CONTAINER[2], "keep"),
    ("assigned secret", CONTAINER[3], "keep"),
    (
        "password",
        r"(?P<keep>(?i:\b(?:[A-Za-z0-9_.-]{0,40}(?:password|passwd|pwd|passphrase))(?:\\?[\x22'])?\s*(?:=|:|=>)\s*\\?[\x22']))[^\x22'\r\n\\]{4,200}(?P<after>\\?[\x22'])",
        "keep",
    ),
    (
        "assigned secret",
        r"(?P<keep>(?i:\b[A-Za-z0-9_.-]{0,40}(?:secret|token|passw(?:or)?d|passwd|pwd|api[_-]?key|apikey|access[_-]?key|private[_-]?key|credential|auth)[A-Za-z0-9_-]{0,20})(?:\\?[\x22'])?\s*(?::=|=>|=|:)\s*(?:\\?[\x22'])?)(?P<secret>[A-Za-z0-9+/=_.~!@#$%^&*-]{8,200})(?P<after>)",
        "weigh",
    ),
    (
        "password",
        concat!(
            r"(?m)(?P<keep>^[ \t]*(?:-[ \t]+|export[ \t]+)?(?i:",
            password!(),
            r")[ \t]*=[ \t]*)(?P<secret>[^\s\x22'(){}\[\]<>;,$]{3,200})(?P<after>(?:[ \t]+[#;][^\r\n]*)?[ \t]*\r?$)"
        ),
        "value",
    ),
    // A line of YAML. Its value may have several words, and a comment.
    (
        "password",
        concat!(
            r"(?m)(?P<keep>^[ \t]*(?:-[ \t]+)*(?i:",
            password!(),
            r"):[ \t]+)(?P<secret>[^\s\x22'(){}\[\]<>;,$|&*!%@`#][^\r\n]*?)(?P<after>(?:[ \t]+#[^\r\n]*)?[ \t]*\r?$)"
        ),
        "phrase",
    ),
    (
        "assigned secret",
        concat!(
            r"(?m)(?P<keep>^[ \t]*(?:-[ \t]+)*(?i:",
            key!(),
            r"):[ \t]+)(?P<secret>[^\s\x22'(){}\[\]<>;,$|&*!%@`#][^\r\n]*?)(?P<after>(?:[ \t]+#[^\r\n]*)?[ \t]*\r?$)"
        ),
        "phrase",
    ),
    // The same in braces, on one line.
    (
        "password",
        concat!(
            r"(?P<keep>[{,][ \t]*(?i:",
            password!(),
            r"):[ \t]+)(?P<secret>[^\s\x22'(){}\[\]<>;,$|&*!%@`#][^\r\n\x22'(){}\[\]<>;,]*)(?P<after>)"
        ),
        "flow",
    ),
    (
        "assigned secret",
        concat!(
            r"(?P<keep>[{,][ \t]*(?i:",
            key!(),
            r"):[ \t]+)(?P<secret>[^\s\x22'(){}\[\]<>;,$|&*!%@`#][^\r\n\x22'(){}\[\]<>;,]*)(?P<after>)"
        ),
        "flow",
    ),
    (
        "assigned secret",
        r"(?P<keep>\b(?:[A-Z0-9_]{0,40}(?:PASSWORD|PASSWD|PASSPHRASE|_PWD|_PASS|_PW|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|SECRET_KEY|CREDENTIALS?)[A-Z0-9_]{0,20}|[A-Z0-9_]{1,40}_PAT)=\\?[\x22']?)(?P<secret>[^\s\x22'`(){}\[\]<>;,$\\]{3,200})(?P<after>)",
        "value",
    ),
    (
        "password",
        r"(?P<keep>(?i:--pass(?:word|wd|phrase)?[ =]|\b[A-Z0-9_.-]{0,40}(?:password|passwd|passphrase)=))(?P<secret>[^\s\x22'`(){}\[\]<>;,$&\\]{3,200})(?P<after>)",
        "value",
    ),
    (
        "home folder",
        r"(?:\\*/(?:var|usr|export|System\\*/Volumes\\*/Data|(?:(?:mnt|cygdrive)\\*/)?[a-z]))?\\*/(?:home|Users)\\*/[\w.-]+",
        "~",
    ),
    ("home folder", r"(?i:[a-z]:(?:\\\\|\\|/)users(?:\\\\|\\|/))[\w.-]+", "~"),
    ("home folder", r"\\*/root\b", "root"),
    ("home folder", r"(?:-mnt-[a-z]|-var)?-(?:Users|home)-[\w.]+|[A-Za-z]--Users-[\w.]+", "-~"),
];

impl Default for Redactor {
    fn default() -> Redactor {
        Redactor::new()
    }
}

impl Redactor {
    /// A redactor that has removed nothing yet.
    ///
    /// # Panics
    ///
    /// Never: the rules are constants, and a test compiles them.
    pub fn new() -> Redactor {
        let rules: Vec<Rule> = RULES
            .iter()
            .map(|(name, pattern, stays)| Rule {
                name,
                pattern: Regex::new(pattern).expect("a rule is a valid pattern"),
                stays,
            })
            .collect();
        let any = RegexSet::new(RULES.iter().map(|(_, pattern, _)| *pattern).chain([BLOCK]));
        Redactor {
            rules,
            block: Regex::new(BLOCK).expect("the pattern of a block is valid"),
            any: any.expect("the rules are valid patterns"),
            removed: BTreeMap::new(),
        }
    }

    /// The text without what the rules find, including in JSON where it is written with escapes.
    pub fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if text.contains('\\') && text.trim_start().starts_with(['{', '[', '"']) {
            // What the rules find in the text itself is found in its values too.
            let counted = self.removed.clone();
            if let Ok(mut value) = serde_json::from_str::<Value>(text) {
                self.value(&mut value);
                if self.removed != counted {
                    return Cow::Owned(value.to_string());
                }
            }
        }
        self.plain(text)
    }

    fn plain<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if !self.any.is_match(text) {
            return Cow::Borrowed(text);
        }
        let mut result = self.without_blocks(text);
        for rule in &self.rules {
            let mut count = 0;
            let replaced = rule.pattern.replace_all(&result, |found: &Captures<'_>| {
                let whole = found.get(0).map_or("", |m| m.as_str());
                let part = |name: &str| found.name(name).map_or("", |m| m.as_str());
                let secret = part("secret");
                let (before, after) = match found.get(0) {
                    Some(whole) => (&result[..whole.start()], &result[whole.end()..]),
                    None => ("", ""),
                };
                let is_secret = match rule.stays {
                    "weigh" => is_random(secret),
                    "value" => is_value(secret),
                    "phrase" => is_phrase(secret),
                    "flow" => is_phrase(secret) && is_in_braces(&result, found),
                    "keep" => !whole[part("keep").len()..].starts_with("[redacted"),
                    "login" => !is_port_and_path(secret),
                    "~" => begins_path(before),
                    "root" => begins_path(before) && ends_component(after),
                    "-~" => !before.ends_with(is_in_component),
                    _ => true,
                };
                if !is_secret {
                    return whole.to_owned();
                }
                count += 1;
                match rule.stays {
                    "~" | "root" => "~".to_owned(),
                    "-~" => "-~".to_owned(),
                    "" => format!("[redacted: {}]", rule.name),
                    _ => format!("{}[redacted: {}]{}", part("keep"), rule.name, part("after")),
                }
            });
            if count > 0 {
                result = Cow::Owned(replaced.into_owned());
                *self.removed.entry(rule.name).or_default() += count;
            }
        }
        result
    }

    /// The text without the blocks of YAML whose name is that of a secret: the lines that are indented
    /// more than the name.
    fn without_blocks<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if !self.block.is_match(text) {
            return Cow::Borrowed(text);
        }
        let mut left = String::with_capacity(text.len());
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            left.push_str(line);
            let Some(found) = self.block.captures(line) else { continue };
            let name = found.name("indent").map_or(0, |indent| indent.as_str().len());
            let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
            let inside = |line: &&str| line.trim().is_empty() || indent(line) > name;
            let Some(first) = lines.next_if(inside) else { continue };
            let mut last = first;
            while let Some(line) = lines.next_if(inside) {
                last = line;
            }
            let end = if last.ends_with('\n') { "\n" } else { "" };
            left.extend([&first[..indent(first)], "[redacted: ", BLOCK_NAME, "]", end]);
            *self.removed.entry(BLOCK_NAME).or_default() += 1;
        }
        Cow::Owned(left)
    }

    /// An entry without what the rules find in it.
    pub fn entry(&mut self, entry: &Entry) -> Entry {
        let (kind, json) = (entry.body.kind().to_owned(), entry.body.json());
        // The rules look at the values: escapes, and the quotes around a value, hide what they find.
        let counted = self.removed.clone();
        let parsed = serde_json::from_str::<Value>(&json)
            .or_else(|_| serde_json::from_str(&without_lone_surrogates(&json)));
        let body = match parsed {
            Ok(mut value) => {
                self.value(&mut value);
                if self.removed == counted {
                    return entry.clone();
                }
                Body::parse(&kind, &value.to_string()).ok()
            }
            Err(_) => None,
        };
        // What cannot be parsed is not exported.
        let unknown = || Body::Unknown { kind, raw: Raw::of(&"[redacted: unreadable]") };
        Entry { body: body.unwrap_or_else(unknown), ..entry.clone() }
    }

    /// A session's header without what the rules find in it.
    pub fn session(&mut self, session: &Session) -> Session {
        let mut session = session.clone();
        session.shown_as = None;
        let header = &mut session.header;
        // Its meaning is not known here.
        header.extra = ExtraFields::default();
        for text in header.profile.texts_mut().chain(&mut header.source) {
            *text = self.text(text).into_owned();
        }
        if let Cow::Owned(name) = self.text(header.name.as_str()) {
            header.name = Name::new(&name)
                .or_else(|_| Name::new(&format!("redacted-{}", header.id.short())))
                .expect("letters, digits and a hyphen are a name");
        }
        // The first message is in the log too, and counted there.
        let counted = self.removed.clone();
        session.first_message = self.text(&session.first_message).into_owned();
        self.removed = counted;
        let keys = session.keys.iter().filter_map(|key| Key::new(self.text(key.as_str())).ok());
        session.keys = keys.collect();
        // An id that contains a secret is left out; the UUID remains.
        let shown = session.readable_id.take();
        session.readable_id = shown.filter(|id| matches!(self.text(id), Cow::Borrowed(_)));
        session
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.text(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                let named = std::mem::take(fields);
                // The environment of a container.
                let variable = named.get("name").and_then(Value::as_str).map(str::to_owned);
                for (key, mut value) in named {
                    self.value(&mut value);
                    if let Value::String(text) = &mut value {
                        let name = variable.as_ref().filter(|_| key == "value");
                        self.named(name.unwrap_or(&key), text);
                    }
                    fields.insert(self.text(&key).into_owned(), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A value whose name suggests that it is a secret.
    fn named(&mut self, key: &str, text: &mut String) {
        // With its quotes escaped, so that none of them ends the value.
        let line = format!("{key}={}", Value::from(text.as_str()));
        let redacted = match self.text(&line) {
            Cow::Owned(redacted) => redacted,
            Cow::Borrowed(_) => return,
        };
        let inner = redacted.strip_prefix(&format!("{key}="));
        if let Some(inner) = inner.and_then(|inner| serde_json::from_str(inner).ok()) {
            *text = inner;
        }
    }

    /// How often each rule matched.
    pub fn removed(&self) -> &BTreeMap<&'static str, u64> {
        &self.removed
    }
}

/// Whether a value looks random: long, mixed, and unlike a redaction or a placeholder.
fn is_random(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',']);
    if value.chars().count() < ASSIGNED_CHARS_MIN || value.contains("redacted") {
        return false;
    }
    let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
    let mixed = has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    mixed && entropy(value) >= ENTROPY_BITS_MIN
}

/// Whether a value assigned to a password's name can be one: not the name of a type, a number, a
/// redaction or a placeholder.
fn is_value(value: &str) -> bool {
    const TYPES: [&str; 22] = [
        "string",
        "str",
        "text",
        "bool",
        "boolean",
        "int",
        "integer",
        "number",
        "bytes",
        "char",
        "null",
        "nil",
        "none",
        "true",
        "false",
        "undefined",
        "required",
        "optional",
        "any",
        "option",
        "varchar",
        "password",
    ];
    let word = value.trim_start_matches('&').trim_end_matches(['.', ',', ';', '?', '!']);
    let is_capital = |c: char| c.is_ascii_uppercase() || c == '_';
    let constant = word.contains('_') && word.chars().all(is_capital);
    let word = word.to_lowercase();
    let placeholder = word.chars().all(|c| matches!(c, '*' | '.' | '…' | 'x' | '-' | '_'));
    let number = word.len() < 6 && word.chars().all(|c| c.is_ascii_digit());
    // Code passes a variable of that name on: `password=self.password`.
    let names = ["password", "api_key", "apikey", "secret_key", "access_key", "_token", "string"];
    let variable =
        constant || names.iter().any(|name| word.ends_with(name)) || TYPES.contains(&word.as_str());
    !placeholder && !number && !variable && !word.contains("redacted")
}

/// Whether the rest of a line is a value of YAML: not a type, and not code.
fn is_phrase(value: &str) -> bool {
    let first = value.split_whitespace().next().unwrap_or_default();
    let code = value.ends_with([',', ';', '{', '('])
        || ["(", "<", " = ", "=>", " | "].iter().any(|mark| value.contains(mark));
    !code && is_value(first)
}

/// Whether a match is one of several values in braces: `{user: bob, password: hunter2}`.
fn is_in_braces(text: &str, found: &Captures<'_>) -> bool {
    let Some(place) = found.get(0) else { return false };
    let line = text[..place.start()].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line..=place.start()];
    let open = before.rfind('{').is_some_and(|open| before[open..].find('}').is_none());
    open && text[place.end()..].starts_with([',', '}'])
}

/// Whether what follows the host of a URL is its port and a path, as in `http://host:80/@name`.
fn is_port_and_path(text: &str) -> bool {
    text.split_once('/').is_some_and(|(port, _)| {
        let port = port.trim_end_matches('\\');
        (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether a path begins after this text. `src/home/x` and `https://example.org/home/x` are not in a
/// home folder; `-I/home/you`, `vscode://file/home/you` and `\x1b[1m/home/you` are.
fn begins_path(before: &str) -> bool {
    let start = before
        .rfind(|c| !is_in_component(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    let (above, word) = before.split_at(start);
    let is_option = word.starts_with('-');
    let is_escape = above.ends_with('\\')
        && (matches!(word, "n" | "r" | "t") || word.len() == 5 && word.starts_with('u'));
    let numbers = |c: char| c.is_ascii_digit() || c == ';';
    let is_colour = word.strip_suffix('m').is_some_and(|word| word.chars().all(numbers))
        && above.trim_end_matches(numbers).ends_with('[');
    let address = before.rsplit(|c: char| c.is_whitespace() || "\"'`<>()".contains(c)).next();
    let scheme = address.and_then(|address| address.split_once("://")).map(|(scheme, _)| scheme);
    let is_on_a_disk = scheme.is_some_and(|scheme| !["http", "https"].contains(&scheme));
    word.is_empty() || is_option || is_escape || is_colour || is_on_a_disk
}

/// Whether the name of a file or folder ends before this text: `/root/x` and `/root.`, not `/root.go`.
fn ends_component(after: &str) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        Some('.') => !rest.next().is_some_and(char::is_alphanumeric),
        next => !next.is_some_and(is_in_component),
    }
}

/// Characters of the names of files, and the `~` they may begin with.
fn is_in_component(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '~')
}

/// Entropy in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts: BTreeMap<char, f64> = BTreeMap::new();
    for c in text.chars() {
        *counts.entry(c).or_default() += 1.0;
    }
    let all: f64 = counts.values().sum();
    counts.values().map(|count| -(count / all) * (count / all).log2()).sum()
}

#[cfg(test)]
mod tests {
    use rethread_core::{EntryId, NewEntry};

    use super::*;

    fn redacted(text: &str) -> String {
        Redactor::new().text(text).into_owned()
    }

    #[test]
    fn keys_and_tokens_are_taken_out() {
        // Concatenated here, so that no scanner takes this file for a leak.
        let long = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9";
        for (secret, name) in [
            (format!("sk-ant-api03-{long}"), "anthropic key"),
            (format!("sk-proj-{long}"), "openai key"),
            (format!("ghp_{long}{long}"), "github token"),
            (format!("AKIA{}", "ABCDEFGH12345678"), "aws key id"),
            (format!("xoxb-{long}"), "slack token"),
            (format!("eyJhbGciOiJI.eyJzdWIiOiIx.{long}"), "json web token"),
        ] {
            let said = redacted(&format!("use {secret} here"));
            assert_eq!(said, format!("use [redacted: {name}] here"));
        }
    }

    #[test]
    fn a_private_key_goes_whole_also_when_it_is_cut_off() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----";
        assert_eq!(redacted(&format!("a\n{key}\nb")), "a\n[redacted: private key]\nb");
        assert_eq!(redacted(&format!("a\n{}", &key[..40])), "a\n[redacted: private key]");
        let json = key.replace('\n', "\\n");
        assert_eq!(redacted(&json), "[redacted: private key]");
    }

    #[test]
    fn the_text_around_a_secret_stays() {
        for (text, expected) in [
            ("postgres://app:hunter2@db/x", "postgres://app:[redacted: connection string]@db/x"),
            ("password = 'hunter2'", "password = '[redacted: password]'"),
            ("API_KEY=a8Fk29dLq0Zx81mP", "API_KEY=[redacted: assigned secret]"),
            (
                "Authorization: Bearer abcdef123456",
                "Authorization: Bearer [redacted: authorization]",
            ),
            ("see /home/you/notes and /Users/you/x", "see ~/notes and ~/x"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn passwords_are_found_however_they_are_assigned_and_escaped() {
        let token = format!("rt_{}", "0123456789abcdef".repeat(4));
        for (text, secret) in [
            ("DB_PASSWORD=hunter2", "hunter2"),
            ("run DB_PASSWORD=hunter2 make", "hunter2"),
            ("  password: hunter2\nuser: me", "hunter2"),
            ("- smtp_pass: hunter2", "hunter2"),
            ("export PGPASSWORD=hunter2", "hunter2"),
            ("API_KEY=lettersonly", "lettersonly"),
            ("the title says password=hunter2", "hunter2"),
            ("mysql --password=hunter2 -u me", "hunter2"),
            ("login --password hunter2", "hunter2"),
            ("jdbc:postgresql://h/d?user=a&password=hunter2", "hunter2"),
            ("[db]\npassword = hunter2\n", "hunter2"),
            (r#""password": "hunter2 and more""#, "and more"),
            ("SECRET_KEY='short'", "short"),
            ("https://bob:s3/cr@etpw@host/p", "etpw"),
            ("https://bob:s3/cr@etpw@host/p", "s3/cr"),
            (r"https:\/\/bob:s3cretpw@host\/p", "s3cretpw"),
            (r#"{"u":"https:\u002f\u002fbob:s3cretpw@host"}"#, "s3cretpw"),
            (r#"{"DB_P\u0041SSWORD":"hunter2"}"#, "hunter2"),
            (r#"{"path":"\/home\/alice\/x"}"#, "alice"),
            (r"see \/home\/alice", "alice"),
            (token.as_str(), "0123456789abcdef"),
        ] {
            let said = redacted(text);
            assert!(!said.contains(secret), "{text}: {said}");
        }
    }

    #[test]
    fn passwords_are_found_in_every_form_of_yaml() {
        for (text, expected) in [
            ("password: hunter2 # staging", "password: [redacted: password] # staging"),
            ("{user: bob, password: hunter2}", "{user: bob, password: [redacted: password]}"),
            ("{password: hunter2, user: bob}", "{password: [redacted: password], user: bob}"),
            (
                "{password: string, a_pwd: hunter2, b_pwd: two words}",
                "{password: string, a_pwd: [redacted: password], b_pwd: [redacted: password]}",
            ),
            ("password: two words\nuser: bob", "password: [redacted: password]\nuser: bob"),
            (
                "db:\n  password: |\n    hunter2\n\n    more\n  user: bob\n",
                "db:\n  password: |\n    [redacted: password]\n  user: bob\n",
            ),
            ("- password: >-\n    hunter2", "- password: >-\n    [redacted: password]"),
            (
                "a:\n  x_password: |\n    one\n  y_password: |\n    two\n",
                "a:\n  x_password: |\n    [redacted: password]\n  y_password: |\n    [redacted: password]\n",
            ),
            (
                "- name: DB_PASSWORD\n  value: x\n- name: MODE\n  value: test",
                "- name: DB_PASSWORD\n  value: [redacted: assigned secret]\n- name: MODE\n  value: test",
            ),
            (
                r#"{"name": "API_TOKEN", "value": "hunter2"}"#,
                r#"{"name": "API_TOKEN", "value": "[redacted: assigned secret]"}"#,
            ),
            (
                r#"- {name: A_TOKEN, value: "a\"b"} # x"#,
                r#"- {name: A_TOKEN, value: "[redacted: assigned secret]"} # x"#,
            ),
            ("secret_key_base: hunter2", "secret_key_base: [redacted: assigned secret]"),
            ("  api_key: hunter2\r\n", "  api_key: [redacted: assigned secret]\r\n"),
            ("password: the user's password", "password: [redacted: password]"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn a_quoted_secret_goes_up_to_its_last_quote() {
        for (text, expected) in [
            (r#"PASSWORD="abc\"x""#, r#"PASSWORD="[redacted: password]""#),
            (r#"PASSWORD="it's mine" make"#, r#"PASSWORD="[redacted: password]" make"#),
            (r"password: 'it''s mine'", r"password: '[redacted: password]'"),
            (r#"{\"password\":\"ab\\\"cd\"}"#, r#"{\"password\":\"[redacted: password]\"}"#),
            (r#""api_key":"hunter2""#, r#""api_key":"[redacted: assigned secret]""#),
            ("GH_PAT=hunter2", "GH_PAT=[redacted: assigned secret]"),
            (r#"GH_PAT="two words""#, r#"GH_PAT="[redacted: assigned secret]""#),
            (r#"{"password":"ab\"cd"}"#, r#"{"password":"[redacted: password]"}"#),
            (
                r#"{"name":"DB_PASSWORD","value":"ab\"cd"}"#,
                r#"{"name":"DB_PASSWORD","value":"[redacted: password]"}"#,
            ),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn a_message_that_is_nothing_but_an_assignment_is_redacted() {
        let body = Body::Message(rethread_core::Message::user("password: hunter2"));
        let entry = NewEntry {
            id: EntryId::new("e").expect("valid"),
            at: Default::default(),
            body,
            measure: Default::default(),
        };
        let json = Redactor::new().entry(&entry.placed(&Default::default())).body.json();
        assert!(!json.contains("hunter2"), "{json}");
    }

    #[test]
    fn code_that_handles_secrets_stays_readable() {
        for text in [
            "password: String,",
            "    password: Option<String>",
            "password: str = None",
            "password: z.string().min(8)",
            "api_key: str | None",
            "api_key: config.api_key",
            "{ user: string, password: string }",
            "fn login(user: &str, password: &str) {",
            "client = Client(api_key=settings.api_key)",
            r#"api_key: "OPENAI_API_KEY""#,
            "MY_PATH=/usr/bin",
            "- name: MODE\n  value: test",
            "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:",
            "password: $DB_PASSWORD",
            "password: {{ vault_password }}",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn escapes_in_a_body_hide_nothing() {
        let raw = r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"fetch",
            "input":{"u":"https:\/\/bob:s3cretpw@host\/p","h":"\/home\/alice"}}]}"#;
        let body = Body::parse("message", raw).expect("a message");
        let entry = NewEntry {
            id: EntryId::new("e").expect("valid"),
            at: Default::default(),
            body,
            measure: Default::default(),
        };
        let json = Redactor::new().entry(&entry.placed(&Default::default())).body.json();
        assert!(!json.contains("s3cretpw") && !json.contains("alice"), "{json}");
    }

    #[test]
    fn ordinary_words_are_left_alone() {
        for text in [
            "the token bucket refills",
            "max_tokens = 4096",
            "token: string",
            "let secret_name = load_from_environment",
            "https://example.org:8080/path",
            "sk-short",
            "http://localhost:4873/@scope/pkg",
            "password: string",
            "the password: it is required",
            "MAX_TOKENS=4096",
            "login(password=self.password)",
            "use --password or a file",
            "DB_PASSWORD=$SECRET",
            r"C:\new\table",
            r#"{"a":"b\n"}"#,
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn a_home_folder_goes_where_a_path_begins_and_its_name_ends() {
        for (text, expected) in [
            ("/root", "~"),
            ("see /home/m\u{fc}ller/x", "see ~/x"),
            ("cd /root/x, then /root.", "cd ~/x, then ~."),
            ("a:/home/you:/home/me", "a:~:~"),
            (r"\/root\/x", r"~\/x"),
            ("/var/home/you/x /mnt/c/Users/you/x /c/Users/you", "~/x ~/x ~"),
            (r"C:\Users\you\x", r"~\x"),
            ("gcc -I/home/you/include", "gcc -I~/include"),
            ("file:///home/you/x vscode://file/home/you/x", "file://~/x vscode://file~/x"),
            ("a\\n/home/you \u{1b}[1;32m/home/you\u{1b}[0m", "a\\n~ \u{1b}[1;32m~\u{1b}[0m"),
            ("projects/-home-you-code/x and C--Users-you-code", "projects/-~-code/x and -~-code"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn a_file_whose_path_looks_like_a_home_folder_keeps_its_name() {
        for text in [
            "internal/cli/root.go",
            "see internal/cli/root, and crates/root/src",
            "/rootfs and /root.go and /root-ca.pem and /root_x",
            "src/home/index.ts and ../home/view.rs and app/Users/list.php",
            "https://example.org/home/x and https://example.org/root/",
            "https://example.org/my-home-page, --home-colour",
            "src:/users/list",
            r"src\/home\/x",
            "~/home/x",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn what_was_removed_is_counted_by_rule() {
        let mut redactor = Redactor::new();
        redactor.text("/home/you /home/you postgres://a:b@c");
        let removed: Vec<_> = redactor.removed().iter().map(|(name, n)| (*name, *n)).collect();
        assert_eq!(removed, [("connection string", 1), ("home folder", 2)]);
    }
}
