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

/// Whether the name of a file or folder ends before this text: `/root.` ends a sentence, `/root.go` does not.
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
mod tests;
