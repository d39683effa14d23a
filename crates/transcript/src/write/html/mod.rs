//! A self-contained HTML page: no scripts, fonts or pictures from elsewhere.
//!
//! All text of the conversation is data. Replies go through the renderer, which passes no markup
//! through; everything else is escaped. The page's content security policy allows only its own
//! style, by hash. A call and its result are one folded section that opens without a script, and
//! the outline links to every question. The outline is written last, because entries arrive one at
//! a time; the style moves it to the top.

mod tool;

use std::collections::BTreeMap;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::entry::Body;
use rethread_core::message::{BlockKind, Call, Role, ToolResult};
use rethread_core::name::is_hidden;
use rethread_core::{Entry, Message, Session};
use rethread_render::{Document, html};
use sha2::{Digest, Sha256};

use super::Writer;

/// Characters of a question in the outline, and in the title.
const OUTLINE_CHARS: usize = 70;

/// The style of the page; that of rendered text follows it.
const STYLE: &str = include_str!("page.css");

/// Writes the page.
pub struct Html<'a> {
    out: &'a mut dyn Write,
    zone: TimeZone,
    begun: bool,
    agent: String,
    /// The questions so far.
    outline: Vec<String>,
    /// Texts that were rendered, so that heading ids are unique.
    rendered: usize,
    /// Calls that still miss results.
    open: Vec<(Call, Option<ToolResult>)>,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> Html<'a> {
    /// A page written to this output, with times in this zone.
    pub fn new(out: &'a mut dyn Write, zone: TimeZone) -> Html<'a> {
        Html {
            out,
            zone,
            begun: false,
            agent: String::new(),
            outline: Vec::new(),
            rendered: 0,
            open: Vec::new(),
            left_out: BTreeMap::new(),
        }
    }

    fn time(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
    }

    fn message(&mut self, at: Timestamp, message: &Message) -> io::Result<()> {
        // Some programs store parallel calls as one message each.
        let parallel = message.calls().next().is_some()
            && self.open.iter().all(|(_, answer)| answer.is_none());
        if message.results().next().is_none() && !parallel {
            self.close_calls()?;
        }
        for result in message.results() {
            self.result(result)?;
        }
        let has = |block: &rethread_core::Block| match &block.kind {
            BlockKind::ToolResult(_) => false,
            BlockKind::Text(text) | BlockKind::Prefix(text) => !text.trim().is_empty(),
            BlockKind::Thinking(thinking) => !thinking.text.is_empty(),
            _ => true,
        };
        if message.content.iter().any(has) || message.interrupted {
            self.said(at, message)?;
        }
        Ok(())
    }

    fn said(&mut self, at: Timestamp, message: &Message) -> io::Result<()> {
        let (class, who) = match message.role {
            Role::User => ("user", "You".to_owned()),
            Role::Assistant => ("assistant", self.agent.clone()),
            Role::Tool => ("tool", "Tool".to_owned()),
            Role::System => ("system", "Instructions".to_owned()),
        };
        let (who, time) = (escape(&who), self.time(at));
        match message.opens_turn() {
            true => {
                self.outline.push(gist(&message.plain_text(), OUTLINE_CHARS));
                let turn = self.outline.len();
                write!(
                    self.out,
                    "<article class=\"{class}\" id=\"turn-{turn}\"><p class=\"who\"><b>{who}</b> \
                     <a href=\"#turn-{turn}\"><time>{time}</time></a></p>"
                )?;
            }
            false => write!(
                self.out,
                "<article class=\"{class}\"><p class=\"who\"><b>{who}</b> <time>{time}</time></p>"
            )?,
        }
        for block in &message.content {
            match &block.kind {
                BlockKind::Text(text) | BlockKind::Prefix(text) => self.text(message.role, text)?,
                BlockKind::Thinking(thinking) if thinking.text.is_empty() => {}
                BlockKind::Thinking(thinking) => {
                    let rendered = self.markdown(&thinking.text);
                    self.folded("thinking", &gist(&thinking.text, OUTLINE_CHARS), &rendered)?;
                }
                BlockKind::ToolUse(call) => self.open.push((call.clone(), None)),
                BlockKind::ToolResult(_) => {}
                BlockKind::Image { .. } => write!(self.out, "<p class=\"note\">(picture)</p>")?,
                BlockKind::Unknown => {
                    *self.left_out.entry("unknown block").or_default() += 1;
                }
            }
        }
        if message.interrupted {
            write!(self.out, "<p class=\"note\">(stopped)</p>")?;
        }
        writeln!(self.out, "</article>")
    }

    fn text(&mut self, role: Role, text: &str) -> io::Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        match role {
            Role::System => {
                let rendered = self.markdown(text);
                self.folded("instructions", "", &rendered)
            }
            Role::Assistant => {
                let rendered = self.markdown(text);
                write!(self.out, "{rendered}")
            }
            // Pasted text is not always Markdown, so it keeps its lines and characters.
            _ => write!(self.out, "<div class=\"text\" dir=\"auto\">{}</div>", escape(text.trim())),
        }
    }

    fn markdown(&mut self, text: &str) -> String {
        self.rendered += 1;
        let prefix = format!("text-{}-", self.rendered);
        let rendered = html::render(&Document::parse(text), &prefix);
        format!("<div class=\"rendered\">{rendered}</div>")
    }

    /// Adds a result to its call. They are written when the last result has arrived.
    fn result(&mut self, result: &ToolResult) -> io::Result<()> {
        let waits = |(call, answer): &&mut (Call, Option<ToolResult>)| {
            call.id == result.tool_use_id && answer.is_none()
        };
        match self.open.iter_mut().find(waits) {
            Some((_, answer)) => *answer = Some(result.clone()),
            None => {
                let text = result.text();
                let inside = tool::result(result);
                self.tool("result", &gist(&text, OUTLINE_CHARS), result.is_error, &inside)?;
            }
        }
        match self.open.iter().all(|(_, answer)| answer.is_some()) {
            true => self.close_calls(),
            false => Ok(()),
        }
    }

    fn close_calls(&mut self) -> io::Result<()> {
        for (call, answer) in std::mem::take(&mut self.open) {
            let mut inside = tool::call(&call);
            inside += &answer
                .as_ref()
                .map_or_else(|| "<p class=\"note\">(no result)</p>".to_owned(), tool::result);
            let failed = answer.is_some_and(|answer| answer.is_error);
            self.tool(&call.name, &tool::gist_of(&call), failed, &inside)?;
        }
        Ok(())
    }

    fn tool(&mut self, name: &str, gist: &str, failed: bool, inside: &str) -> io::Result<()> {
        let mark = if failed { " <span class=\"failed\">failed</span>" } else { "" };
        let (name, gist) = (escape(name), escape(gist));
        writeln!(
            self.out,
            "<details><summary><code>{name}</code>{mark} {gist}</summary>\
             <div class=\"inside\">{inside}</div></details>"
        )
    }

    fn folded(&mut self, name: &str, gist: &str, inside: &str) -> io::Result<()> {
        self.tool(name, gist, false, inside)
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "<p class=\"note\">{}</p>", escape(text))
    }
}

/// The head of the page. Its policy also prevents a page that was tampered with from loading
/// anything.
fn head(title: &str) -> String {
    let style = format!("{STYLE}{}", html::STYLE);
    let hash = BASE64.encode(Sha256::digest(style.as_bytes()));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'sha256-{hash}'\">\
         <meta name=\"referrer\" content=\"no-referrer\">\
         <title>{title}</title><style>{style}</style></head><body>"
    )
}

impl Writer for Html<'_> {
    fn begin(&mut self, session: &Session) -> io::Result<()> {
        self.close_calls()?;
        let header = &session.header;
        let asked = gist(&session.first_message, OUTLINE_CHARS);
        let title = match (&header.profile.description, asked.as_str()) {
            (Some(text), _) => escape(text),
            (None, "") => escape(header.name.as_str()),
            (None, asked) => escape(asked),
        };
        let continues = std::mem::replace(&mut self.begun, true);
        if !continues {
            writeln!(self.out, "{}", head(&title))?;
        }
        self.agent = header.profile.agent.clone().unwrap_or_else(|| "Assistant".into());
        // The next session of a chain has its header inside the page.
        let tag = if continues { "section" } else { "header" };
        write!(self.out, "<{tag} class=\"session\"><h1 dir=\"auto\">{title}</h1><dl>")?;
        let fields = [
            ("Session", Some(header.name.to_string())),
            ("Agent", header.profile.agent.clone()),
            ("Model", header.profile.model.clone()),
            ("Folder", header.profile.workspace.clone()),
            ("Started", Some(self.time(header.created_at))),
            ("Turns", Some(session.tally.queries.to_string())),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                write!(self.out, "<dt>{name}</dt><dd>{}</dd>", escape(&value))?;
            }
        }
        let main = if continues { "" } else { "<main>" };
        writeln!(self.out, "</dl></{tag}>{main}")
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        match &entry.body {
            Body::Message(message) => self.message(entry.at, message),
            Body::Summary(summary) => {
                self.close_calls()?;
                let rendered = self.markdown(&summary.text);
                self.folded("summary", "", &rendered)
            }
            Body::Restored(restored) => {
                self.note(&format!("Resumed from {}", restored.previous.id))?;
                self.message(entry.at, &Message::assistant(&restored.acknowledgment))
            }
            Body::Cleared { .. } => self.note("The context was cleared here."),
            Body::Undone { .. } => self.note("The clear was undone."),
            Body::LeftOut(_) => self.note("The turn was left out of what the model sees."),
            Body::RoundLimit(limit) => {
                let notice = limit.notice();
                self.note(&format!("{}.", notice.trim_matches(['[', ']'])))
            }
            Body::Unknown { .. } if entry.is_lost() => {
                self.note(&format!("Missing here: entry {}, which is damaged.", entry.seq))
            }
            Body::Finished(_)
            | Body::Started(_)
            | Body::Thinned(_)
            | Body::Decided(_)
            | Body::Unknown { .. } => {
                *self.left_out.entry("bookkeeping entry").or_default() += 1;
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.close_calls()?;
        write!(self.out, "</main>")?;
        if self.outline.len() > 1 {
            write!(self.out, "<nav aria-label=\"Questions\"><ol>")?;
            for (index, asked) in self.outline.iter().enumerate() {
                let (turn, asked) = (index + 1, escape(asked));
                write!(self.out, "<li><a href=\"#turn-{turn}\" dir=\"auto\">{asked}</a></li>")?;
            }
            write!(self.out, "</ol></nav>")?;
        }
        writeln!(self.out, "</body></html>")?;
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }
}

/// The beginning of a text, on one line, with an ellipsis if it was cut. It is cut after a whole word
/// if there is one in its second half.
fn gist(text: &str, chars: usize) -> String {
    // It may be megabytes long; what will be cut anyway is not read.
    let start: String = text.chars().take(chars * 8).collect();
    let folded = start.split_whitespace().collect::<Vec<_>>().join(" ");
    match folded.char_indices().nth(chars) {
        Some((end, _)) => {
            let is_whole = folded[end..].starts_with(' ');
            let word = folded[..end].rfind(' ').filter(|at| !is_whole && at * 2 > end);
            format!("{}…", folded[..word.unwrap_or(end)].trim_end())
        }
        None if start.len() < text.len() => format!("{folded}…"),
        None => folded,
    }
}

/// Escapes text: the five special characters of HTML, and characters that cannot be seen.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' | '\u{200d}' => escaped.push(c),
            c if is_hidden(c) => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_calls_stored_as_two_messages_each_have_their_result() {
        let call = |id: &str| {
            let input = rethread_core::Raw::of(&serde_json::json!({}));
            let call = rethread_core::Block::tool_use(id, "grep", input);
            Message::new(Role::Assistant, vec![call])
        };
        let (one, two) = (Message::tool_result("c1", "one"), Message::tool_result("c2", "two"));
        let mut out = Vec::new();
        let mut page = Html::new(&mut out, TimeZone::UTC);
        for message in [Message::user("go"), call("c1"), call("c2"), one, two] {
            page.message(Timestamp::UNIX_EPOCH, &message).expect("written");
        }
        page.close_calls().expect("written");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.matches("<details>").count(), 2, "{text}");
        assert!(
            !text.contains("no result") && text.contains("one") && text.contains("two"),
            "{text}"
        );
    }

    #[test]
    fn nothing_said_becomes_markup() {
        let hostile = "<script>alert('x')</script><img src=x onerror=\"y\">&amp;\u{202e}\0";
        let escaped = escape(hostile);
        assert!(!escaped.contains(['<', '>', '"', '\'']), "{escaped}");
        assert!(!escaped.chars().any(char::is_control), "{escaped}");
    }

    #[test]
    fn the_policy_allows_the_style_of_the_page_and_nothing_else() {
        let head = head("title");
        let (before, rest) = head.split_once("<style>").unwrap();
        let (style, _) = rest.split_once("</style>").unwrap();
        let hash = BASE64.encode(Sha256::digest(style.as_bytes()));
        let policy = format!("content=\"default-src 'none'; style-src 'sha256-{hash}'\"");
        assert!(before.contains(&policy), "{before}");
        assert!(!style.contains("url(") && !style.contains("@import"), "{style}");
    }

    #[test]
    fn a_gist_that_is_cut_says_so() {
        assert_eq!(gist(" one\n two ", 7), "one two");
        assert_eq!(gist("one two", 4), "one…");
        assert_eq!(gist("one two three", 9), "one two…");
        assert_eq!(gist("one two three", 7), "one two…");
        assert_eq!(gist("a verylongwordindeed", 9), "a verylon…");
        assert_eq!(gist(&" ".repeat(1_000), 4), "…");
    }
}
