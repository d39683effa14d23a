//! One page that needs nothing else: no script, no font, no picture from elsewhere.
//!
//! Everything said is data and is escaped; nothing of it becomes markup. Tool calls and their
//! results are folded, and open without a script.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::entry::Body;
use rethread_core::message::{BlockKind, Role, ToolResult};
use rethread_core::name::is_hidden;
use rethread_core::{Entry, Message, Session};

use super::Writer;

/// Characters of a call that stand beside its name while it is folded.
const GIST_CHARS: usize = 100;

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d1d9e0;--you:#eef4ff;--box:#f6f8fa}\
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--line:#3d444d;--you:#131d2e;--box:#151b23}}\
*{box-sizing:border-box}\
body{margin:0 auto;padding:1rem;max-width:52rem;background:var(--bg);color:var(--fg);font:16px/1.55 system-ui,sans-serif;overflow-wrap:anywhere}\
header{border-bottom:1px solid var(--line);margin-bottom:1.5rem}h1{font-size:1.4rem;margin:.2rem 0}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;color:var(--dim);font-size:.85rem;margin:.6rem 0 1rem}dd{margin:0}\
article{margin:1rem 0;padding:.1rem .9rem;border-left:3px solid var(--line)}\
article.user{background:var(--you);border-color:#4a7fd4;border-radius:.3rem}\
.who{color:var(--dim);font-size:.8rem;margin:.5rem 0 0}.who b{color:var(--fg)}\
.text{white-space:pre-wrap;margin:.4rem 0 .7rem}\
details{margin:.4rem 0;border:1px solid var(--line);border-radius:.3rem;background:var(--box)}\
summary{cursor:pointer;padding:.35rem .6rem;font-size:.85rem}summary code{font-weight:600}summary .failed{color:#d1242f}\
pre{margin:0;padding:.6rem;border-top:1px solid var(--line);overflow-x:auto;font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap}\
.note{color:var(--dim);font-size:.85rem;text-align:center;margin:1.2rem 0}\
@media print{details{break-inside:avoid}}";

/// Writes the page.
pub struct Html<'a> {
    out: &'a mut dyn Write,
    zone: TimeZone,
    begun: bool,
    agent: String,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> Html<'a> {
    /// A page that is written here, with the times of this zone.
    pub fn new(out: &'a mut dyn Write, zone: TimeZone) -> Html<'a> {
        Html { out, zone, begun: false, agent: String::new(), left_out: BTreeMap::new() }
    }

    fn time(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
    }

    fn message(&mut self, at: Timestamp, message: &Message) -> io::Result<()> {
        let (class, who) = match message.role {
            Role::User => ("user", "You".to_owned()),
            Role::Assistant => ("assistant", self.agent.clone()),
            Role::Tool => ("tool", String::new()),
            Role::System => ("system", "Instructions".to_owned()),
        };
        write!(self.out, "<article class=\"{class}\">")?;
        if !who.is_empty() {
            let (who, time) = (escape(&who), self.time(at));
            write!(self.out, "<p class=\"who\"><b>{who}</b> <time>{time}</time></p>")?;
        }
        for block in &message.content {
            match &block.kind {
                BlockKind::Text(text) if message.role == Role::System => {
                    self.folded("instructions", "", text, false)?;
                }
                BlockKind::Text(text) | BlockKind::Prefix(text) => {
                    write!(self.out, "<div class=\"text\">{}</div>", escape(text.trim()))?;
                }
                BlockKind::Thinking(thinking) if thinking.text.is_empty() => {}
                BlockKind::Thinking(thinking) => {
                    self.folded("thinking", "", &thinking.text, false)?;
                }
                BlockKind::ToolUse(call) => {
                    let input = pretty(call.input.get());
                    let gist: String = call.input.get().chars().take(GIST_CHARS).collect();
                    self.folded(&call.name, &gist, &input, false)?;
                }
                BlockKind::ToolResult(result) => self.result(result)?,
                BlockKind::Image { .. } => write!(self.out, "<p class=\"note\">(picture)</p>")?,
                BlockKind::Unknown => {
                    *self.left_out.entry("block of an unknown kind").or_default() += 1;
                }
            }
        }
        if message.interrupted {
            write!(self.out, "<p class=\"note\">(stopped)</p>")?;
        }
        writeln!(self.out, "</article>")
    }

    fn result(&mut self, result: &ToolResult) -> io::Result<()> {
        let text = result.text();
        let gist: String = text.trim().chars().take(GIST_CHARS).collect();
        self.folded("→", &gist, &text, result.is_error)
    }

    fn folded(&mut self, name: &str, gist: &str, text: &str, failed: bool) -> io::Result<()> {
        let gist = escape(&gist.split_whitespace().collect::<Vec<_>>().join(" "));
        let mark = if failed { " <span class=\"failed\">failed</span>" } else { "" };
        let (name, text) = (escape(name), escape(text));
        write!(
            self.out,
            "<details><summary><code>{name}</code>{mark} {gist}</summary><pre>{text}</pre></details>"
        )
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "<p class=\"note\">{}</p>", escape(text))
    }
}

impl Writer for Html<'_> {
    fn begin(&mut self, session: &Session) -> io::Result<()> {
        let header = &session.header;
        let name = escape(header.name.as_str());
        if !std::mem::replace(&mut self.begun, true) {
            // The policy keeps a page that was tampered with from loading anything either.
            writeln!(
                self.out,
                "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
                 <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
                 <meta name=\"referrer\" content=\"no-referrer\">\
                 <title>{name}</title><style>{STYLE}</style></head><body>"
            )?;
        }
        self.agent = header.profile.agent.clone().unwrap_or_else(|| "Assistant".into());
        writeln!(self.out, "<header><h1>{name}</h1>")?;
        if let Some(text) = &header.profile.description {
            writeln!(self.out, "<p>{}</p>", escape(text))?;
        }
        write!(self.out, "<dl>")?;
        let fields = [
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
        writeln!(self.out, "</dl></header><main>")
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        match &entry.body {
            Body::Message(message) => self.message(entry.at, message),
            Body::Summary(summary) => {
                writeln!(self.out, "<article class=\"summary\">")?;
                self.folded("summary", "", &summary.text, false)?;
                writeln!(self.out, "</article>")
            }
            Body::Restored(restored) => {
                self.note(&format!("Resumed from {}", restored.previous.id))?;
                self.message(entry.at, &Message::assistant(&restored.acknowledgment))
            }
            Body::Cleared { .. } => self.note("The context was cleared here."),
            Body::Undone { .. } => self.note("The clear was taken back."),
            Body::LeftOut(_) => self.note("The turn was left out of what the model sees."),
            Body::RoundLimit => self.note("Tool call limit reached."),
            Body::Finished(_) | Body::Started(_) | Body::Unknown { .. } => {
                *self.left_out.entry("bookkeeping entry").or_default() += 1;
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        writeln!(self.out, "</main></body></html>")?;
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }
}

/// JSON over several lines, for people; as it is where it is none.
fn pretty(json: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.to_owned()),
        Err(_) => json.to_owned(),
    }
}

/// Text that is no markup: the five characters that could be, and what cannot be seen, are spelt
/// out.
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
    fn nothing_said_becomes_markup() {
        let hostile = "<script>alert('x')</script><img src=x onerror=\"y\">&amp;\u{202e}\0";
        let escaped = escape(hostile);
        assert!(!escaped.contains(['<', '>', '"', '\'']), "{escaped}");
        assert!(!escaped.chars().any(char::is_control), "{escaped}");
    }
}
