//! Recognises the format of a file by its content.

use std::io::Read;
use std::path::Path;

use super::database::{self, Database};
use super::fields::{Fields, string};
use super::lines::unpacked;
use super::{goose, llm, openai_agents, opencode};

/// Bytes of a file that are examined. The first record of some formats contains complete
/// instructions.
const HEAD_BYTES: u64 = 256 << 10;

/// Characters of a value that are examined.
const VALUE_CHARS: usize = 4_000;

/// Lines that are examined if the first one is not conclusive.
const LINES_TRIED: usize = 20;

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $title:literal;)*) => {
        /// A format that sessions are read from.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format { $($(#[$doc])* $variant,)* }

        impl Format {
            /// All of them.
            pub const ALL: &[Format] = &[$(Format::$variant,)*];

            /// Its name in commands and options.
            pub fn name(self) -> &'static str {
                match self { $(Format::$variant => $name,)* }
            }

            /// The name of the program or format, for people.
            pub fn title(self) -> &'static str {
                match self { $(Format::$variant => $title,)* }
            }
        }
    };
}

formats! {
    /// `session-*.json` of an Emacs agent: an id, messages, a time.
    Magent = "magent", "magent";
    /// A command-line agent's folder of sessions, or one file of it: metadata and messages.
    Agent = "agent", "agent";
    /// A chat bot's `sessions.json`: all its users at once.
    Telegram = "telegram", "Telegram";
    /// A Markdown transcript, ours or that of a program with the same layout.
    Markdown = "markdown", "Markdown";
    /// Our own JSON lines, which lose nothing.
    Rethread = "rethread", "Rethread";
    /// Claude Code's lines.
    ClaudeCode = "claude-code", "Claude Code";
    /// Codex's rollouts.
    Codex = "codex", "Codex";
    /// A list of messages as OpenAI's API takes it.
    OpenAi = "openai", "OpenAI";
    /// A list of messages as Anthropic's API takes it.
    Anthropic = "anthropic", "Anthropic";
    /// Gemini CLI's document or lines.
    Gemini = "gemini", "Gemini CLI";
    /// opencode's folder of records.
    OpenCode = "opencode", "opencode";
    /// pi's lines.
    Pi = "pi", "pi";
    /// aider's history of chats.
    Aider = "aider", "aider";
    /// SpecStory's Markdown.
    SpecStory = "specstory", "SpecStory";
    /// A trajectory of SWE-agent or mini-swe-agent.
    SweAgent = "swe-agent", "SWE-agent";
    /// goose's database of sessions.
    Goose = "goose", "goose";
    /// The database of simonw/llm.
    Llm = "llm", "llm";
    /// A database of the OpenAI Agents SDK.
    OpenAiAgents = "openai-agents", "OpenAI Agents SDK";
}

/// The format of a file or folder; `None` if it is not a transcript in a known format. A folder has
/// a format only if the format is a folder.
///
/// # Errors
///
/// I/O errors, and a compressed file that is damaged.
pub fn recognise(path: &Path) -> std::io::Result<Option<Format>> {
    if path.is_dir() {
        return Ok(folder(path));
    }
    let mut head = Vec::new();
    unpacked(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    if head.starts_with(database::MAGIC) {
        return layout(path);
    }
    let text = match std::str::from_utf8(&head) {
        Ok(text) => text,
        // The cut may split a character; any other invalid byte means it is not text.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        // A record in the middle may be damaged: what comes before it decides.
        Err(error) if error.valid_up_to() > 0 && head.first() == Some(&b'{') => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Ok(None),
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    Ok(match text.as_bytes().first() {
        Some(b'{') => object(text).or_else(|| later(text)),
        Some(b'[') => array(text),
        Some(_) => prose(text).or_else(|| later(text)),
        None => None,
    })
}

/// The format of a file whose first lines are damaged, truncated or not its own. Only lines that
/// are records count.
fn later(text: &str) -> Option<Format> {
    let records = text.lines().skip(1).take(LINES_TRIED).filter(|line| line.starts_with('{'));
    let whole = records.filter(|line| Fields::of(line).is_some());
    let known = [Format::ClaudeCode, Format::Codex, Format::Pi, Format::Gemini, Format::Rethread];
    whole.filter_map(object).find(|format| known.contains(format))
}

/// The format of a database, by its tables and their columns.
fn layout(path: &Path) -> std::io::Result<Option<Format>> {
    let database =
        Database::open(path).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(match () {
        () if goose::is_one(&database) => Some(Format::Goose),
        () if openai_agents::is_one(&database) => Some(Format::OpenAiAgents),
        () if llm::is_one(&database) => Some(Format::Llm),
        () if opencode::is_one(&database) => Some(Format::OpenCode),
        () => None,
    })
}

fn folder(path: &Path) -> Option<Format> {
    let has = |name: &str| path.join(name).is_dir();
    if has("session") && (has("message") || has("part")) {
        return Some(Format::OpenCode);
    }
    let index = std::fs::read_to_string(path.join("index.json")).ok();
    let indexed = index.as_deref().and_then(Fields::of).is_some_and(|index| {
        index.has("sessions") && (index.has("version") || index.has("updatedAt"))
    });
    let last = path.join("last_session").is_file();
    (indexed || last).then_some(Format::Agent)
}

fn object(text: &str) -> Option<Format> {
    // A complete first line is a record; an incomplete one belongs to a document.
    let peek = Peek::of(text);
    let has = |name: &str| peek.has(name);
    let kind = peek.text("type").unwrap_or_default();
    if has("rethread") {
        return Some(Format::Rethread);
    }
    if has("projectHash") || has("sessionId") && has("messages") {
        return Some(Format::Gemini);
    }
    if has("info") && peek.value("messages").is_some_and(|value| value.contains("\"parts\"")) {
        return Some(Format::OpenCode);
    }
    if peek.value("history").is_some_and(|value| value.contains("\"parts\"")) {
        return Some(Format::Gemini);
    }
    if has("type") && has("payload")
        || has("instructions") && has("timestamp") && has("id")
        || peek.text("record_type").is_some()
    {
        return Some(Format::Codex);
    }
    if kind == "session" && (has("cwd") || has("version") || has("modelId")) {
        return Some(Format::Pi);
    }
    let claude =
        ["uuid", "parentUuid", "sessionId", "session_id", "leafUuid", "snapshot", "isSidechain"];
    if has("type") && claude.iter().any(|name| has(name)) {
        return Some(Format::ClaudeCode);
    }
    if has("trajectory") || has("trajectory_format") || has("history") && has("info") {
        return Some(Format::SweAgent);
    }
    if has("messages") {
        return Some(match () {
            _ if has("metadata") => Format::Agent,
            _ if has("info") => Format::SweAgent,
            _ if has("model") || has("tools") || has("system") => style(text),
            _ if has("id") || has("timestamp") || has("agent") => Format::Magent,
            _ => style(text),
        });
    }
    if has("metadata") && peek.value("metadata").is_some_and(|value| value.contains("createdAt")) {
        return Some(Format::Agent);
    }
    if has("role") && (has("content") || has("tool_calls")) {
        return Some(style(text));
    }
    let of_a_bot = |value: &str| {
        value.starts_with('{') && (value.contains("\"history\"") || value.contains("\"user_id\""))
    };
    peek.0.iter().any(|(_, value)| of_a_bot(value)).then_some(Format::Telegram)
}

fn array(text: &str) -> Option<Format> {
    let first = text[1..].trim_start();
    let peek = Peek::of(first);
    if peek.has("role") && peek.has("parts") {
        return Some(Format::Gemini);
    }
    // Items of OpenAI's newer API: some have a role, others only a type.
    let kind = peek.text("type").unwrap_or_default();
    if peek.has("call_id") || kind == "reasoning" || kind == "message" && peek.has("role") {
        return Some(Format::OpenAi);
    }
    (peek.has("role") && (peek.has("content") || peek.has("tool_calls"))).then(|| style(text))
}

/// Which API these messages belong to. Both are read alike, so it is only a label.
fn style(text: &str) -> Format {
    let theirs = ["\"tool_use\"", "\"tool_result\"", "\"thinking\""];
    match theirs.iter().any(|mark| text.contains(mark)) && !text.contains("\"tool_calls\"") {
        true => Format::Anthropic,
        false => Format::OpenAi,
    }
}

fn prose(text: &str) -> Option<Format> {
    let first = text.lines().next().unwrap_or_default();
    if text.contains("<!-- Generated by SpecStory") || text.contains("\n_**User") {
        return Some(Format::SpecStory);
    }
    if first.strip_prefix("# ").is_some_and(|title| title.trim_end().ends_with("Conversation")) {
        return Some(Format::Markdown);
    }
    let aider = text.lines().any(|line| line.starts_with("# aider chat started at "))
        || text.lines().filter(|line| line.starts_with("#### ")).count() > 1
            && text.lines().any(|line| line.starts_with("> "));
    aider.then_some(Format::Aider)
}

/// The top level of a JSON object that may be truncated: its keys, and the beginning of each value.
struct Peek<'a>(Vec<(String, &'a str)>);

impl<'a> Peek<'a> {
    fn of(text: &'a str) -> Peek<'a> {
        let mut found = Vec::new();
        let Some(inner) = text.strip_prefix('{') else { return Peek(found) };
        let mut rest = inner;
        loop {
            rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
            let Some((key, after)) = next_string(rest) else { return Peek(found) };
            let Some(value) = after.trim_start().strip_prefix(':').map(str::trim_start) else {
                return Peek(found);
            };
            let end = value.char_indices().nth(VALUE_CHARS).map_or(value.len(), |(at, _)| at);
            let mut values = serde_json::Deserializer::from_str(value)
                .into_iter::<&serde_json::value::RawValue>();
            let whole = values.next().is_some_and(|value| value.is_ok());
            let length = if whole { values.byte_offset() } else { value.len() };
            found.push((key.to_owned(), &value[..end.min(length)]));
            rest = &value[length..];
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.value(name).and_then(string).map(std::borrow::Cow::into_owned)
    }
}

/// The string a text begins with, and what follows it.
fn next_string(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((&inner[..at], &inner[at + 1..])),
            _ => {}
        }
    }
    None
}
