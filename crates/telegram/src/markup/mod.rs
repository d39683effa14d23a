//! Converts Markdown to Telegram's HTML.
//!
//! A text becomes runs: pieces of plain text, each with a style. Runs are split into parts, and
//! each part is written as complete HTML: every tag is closed in the same part, and all text is
//! escaped, so no text can break a message or add a tag. A code block that is split continues as a
//! code block in the next part.
//!
//! It uses HTML rather than MarkdownV2, because three characters have to be escaped instead of
//! eighteen.

#[cfg(test)]
mod checker;
#[cfg(test)]
mod tests;

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde::{Deserialize, Serialize};

use crate::limits::MESSAGE_UNITS_MAX;

/// The style of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Style {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bold: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    italic: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strike: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    quote: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    code: bool,
    /// A block of code, and its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

/// A run: text with a style.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    text: String,
    #[serde(default)]
    style: Style,
}

/// Styled text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Rich(Vec<Run>);

/// A text that fits one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// As Telegram's HTML.
    pub(crate) html: String,
    /// Without any style.
    pub(crate) plain: String,
}

impl Rich {
    /// A text without styles.
    pub(crate) fn plain(text: impl Into<String>) -> Rich {
        Rich::default().and(text)
    }

    /// Parses Markdown.
    pub(crate) fn markdown(text: &str) -> Rich {
        let mut writer = Writer::default();
        let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
        for (event, place) in Parser::new_ext(text, options).into_offset_iter() {
            writer.take(text, event, place);
        }
        writer.rich
    }

    /// With a text appended.
    pub(crate) fn and(self, text: impl Into<String>) -> Rich {
        self.with(text, Style::default())
    }

    /// With a bold text appended.
    pub(crate) fn bold(self, text: impl Into<String>) -> Rich {
        self.with(text, Style { bold: true, ..Style::default() })
    }

    /// With an italic text appended.
    pub(crate) fn italic(self, text: impl Into<String>) -> Rich {
        self.with(text, Style { italic: true, ..Style::default() })
    }

    /// With code appended.
    pub(crate) fn code(self, text: impl Into<String>) -> Rich {
        self.with(text, Style { code: true, ..Style::default() })
    }

    /// With another text appended.
    pub(crate) fn join(mut self, other: Rich) -> Rich {
        self.0.extend(other.0);
        self
    }

    /// UTF-16 units, which is how Telegram counts.
    pub(crate) fn units(&self) -> usize {
        self.0.iter().map(|run| units(&run.text)).sum()
    }

    fn with(mut self, text: impl Into<String>, style: Style) -> Rich {
        self.push(&text.into(), &style);
        self
    }

    /// Adds a run, without characters that a message must not contain.
    fn push(&mut self, text: &str, style: &Style) {
        let text: String =
            text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
        if text.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.style == *style => last.text.push_str(&text),
            _ => self.0.push(Run { text, style: style.clone() }),
        }
    }

    /// Splits it into messages, none of them empty. A text without visible characters gives none.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest: Vec<Run> = trimmed(self.0.clone());
        while !rest.is_empty() {
            let (part, left) = cut(rest, MESSAGE_UNITS_MAX);
            rest = trimmed(left);
            let part = trimmed(part);
            if part.iter().any(|run| visible(&run.text)) {
                let plain = part.iter().map(|run| run.text.as_str()).collect();
                parts.push(Part { html: html(&part), plain });
            }
        }
        parts
    }
}

/// UTF-16 units of a text.
fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Telegram refuses messages without visible characters.
fn visible(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && !rethread_core::name::is_invisible(c) && !blank(c))
}

/// Invisible characters that are not white space.
fn blank(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Without the empty lines around it.
fn trimmed(mut runs: Vec<Run>) -> Vec<Run> {
    while let Some(first) = runs.first_mut() {
        // In code, leading spaces matter.
        let kept = match first.style.block {
            Some(_) => first.text.trim_start_matches('\n'),
            None => first.text.trim_start(),
        };
        if !kept.is_empty() {
            first.text = kept.to_owned();
            break;
        }
        runs.remove(0);
    }
    while let Some(last) = runs.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            break;
        }
        runs.pop();
    }
    runs
}

/// Splits off what fits: between paragraphs if possible, otherwise between lines, words or
/// characters. A code block that fits a message of its own is not split, unless much of this
/// message would stay empty.
fn cut(mut runs: Vec<Run>, most: usize) -> (Vec<Run>, Vec<Run>) {
    let mut used = 0;
    let Some(index) = runs.iter().position(|run| {
        let fits = used + units(&run.text) <= most;
        if fits {
            used += units(&run.text);
        }
        !fits
    }) else {
        return (runs, Vec::new());
    };
    let block = runs[index].style.block.is_some();
    if block && index > 0 && used >= most / 4 && units(&runs[index].text) <= most {
        let left = runs.split_off(index);
        return (runs, left);
    }
    let mut left = runs.split_off(index);
    let text = std::mem::take(&mut left[0].text);
    let room = byte_at(&text, most - used);
    let at =
        place(&text[..room], block).unwrap_or(if index > 0 && used >= most / 2 { 0 } else { room });
    if at > 0 {
        runs.push(Run { text: text[..at].to_owned(), style: left[0].style.clone() });
    }
    left[0].text = text[at..].to_owned();
    (runs, left)
}

/// The byte offset after at most so many UTF-16 units.
fn byte_at(text: &str, most: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.len_utf16();
        if used > most {
            return at;
        }
    }
    text.len()
}

/// A good position for a split, in the second half of what fits.
fn place(fits: &str, block: bool) -> Option<usize> {
    let good = |at: usize| at * 2 > fits.len();
    let paragraph = fits.rfind("\n\n").map(|at| at + 2).filter(|at| !block && good(*at));
    let line = || fits.rfind('\n').map(|at| at + 1).filter(|at| good(*at));
    let word = || fits.rfind(' ').map(|at| at + 1).filter(|at| good(*at));
    paragraph.or_else(line).or_else(word)
}

/// Writes runs as Telegram's HTML.
fn html(runs: &[Run]) -> String {
    let mut out = String::new();
    let mut open: Vec<String> = Vec::new();
    for run in runs {
        let wanted = tags(&run.style);
        let same = open.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
        close(&mut out, &mut open, same);
        for tag in &wanted[same..] {
            out.push('<');
            out.push_str(tag);
            out.push('>');
            open.push(tag.clone());
        }
        escape(&mut out, &run.text);
    }
    close(&mut out, &mut open, 0);
    out
}

/// The tags of a style, outermost first. Code contains no other tags, and a code block is not
/// nested.
fn tags(style: &Style) -> Vec<String> {
    if let Some(language) = &style.block {
        return match language.is_empty() {
            true => vec!["pre".into()],
            false => vec!["pre".into(), format!("code class=\"language-{language}\"")],
        };
    }
    let mut tags = Vec::new();
    if style.quote {
        tags.push("blockquote".into());
    }
    if style.code {
        tags.push("code".into());
        return tags;
    }
    if let Some(link) = &style.link {
        let mut address = String::new();
        escape(&mut address, link);
        tags.push(format!("a href=\"{address}\""));
    }
    for (on, tag) in [(style.bold, "b"), (style.italic, "i"), (style.strike, "s")] {
        if on {
            tags.push(tag.into());
        }
    }
    tags
}

fn close(out: &mut String, open: &mut Vec<String>, keep: usize) {
    for tag in open.drain(keep..).rev() {
        let name = tag.split(' ').next().unwrap_or_default();
        out.push_str("</");
        out.push_str(name);
        out.push('>');
    }
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

/// Converts Markdown to runs, event by event.
#[derive(Default)]
struct Writer {
    rich: Rich,
    style: Style,
    bold: usize,
    italic: usize,
    strike: usize,
    quote: usize,
    /// The open lists; with the number of the next item if it is numbered.
    lists: Vec<Option<u64>>,
    table: bool,
}

impl Writer {
    fn take(&mut self, source: &str, event: Event<'_>, place: Range<usize>) {
        if self.table {
            if matches!(event, Event::End(TagEnd::Table)) {
                self.table = false;
            }
            return;
        }
        match event {
            Event::Start(tag) => self.start(source, tag, place),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.say(&text),
            Event::Code(text) => {
                let style = Style { code: true, ..self.style.clone() };
                self.rich.push(&text, &style);
            }
            Event::Html(text) | Event::InlineHtml(text) => self.say(&text),
            Event::SoftBreak | Event::HardBreak => self.say("\n"),
            Event::Rule => {
                self.paragraph();
                self.say("———");
            }
            _ => {}
        }
    }

    fn start(&mut self, source: &str, tag: Tag<'_>, place: Range<usize>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.paragraph(),
            Tag::Heading { .. } => {
                self.paragraph();
                self.bold += 1;
            }
            Tag::BlockQuote(_) => {
                self.paragraph();
                self.quote += 1;
            }
            Tag::CodeBlock(kind) => {
                self.paragraph();
                self.style.block = Some(match kind {
                    CodeBlockKind::Fenced(info) => language(&info),
                    CodeBlockKind::Indented => String::new(),
                });
            }
            Tag::List(first) => {
                match self.lists.is_empty() {
                    true => self.paragraph(),
                    false => self.line(),
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.strike += 1,
            Tag::Link { dest_url, .. } => self.style.link = address(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.style.link = address(&dest_url);
                self.follow();
                self.say("🖼 ");
            }
            Tag::Table(_) => {
                // Columns line up only in a fixed-width font.
                self.paragraph();
                let style = Style { block: Some(String::new()), ..Style::default() };
                self.rich.push(source[place].trim_end(), &style);
                self.table = true;
            }
            _ => {}
        }
        self.follow();
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) | TagEnd::Strong => self.bold -= 1,
            TagEnd::BlockQuote(_) => self.quote -= 1,
            TagEnd::CodeBlock => {
                self.style.block = None;
                self.line();
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Emphasis => self.italic -= 1,
            TagEnd::Strikethrough => self.strike -= 1,
            TagEnd::Link | TagEnd::Image => self.style.link = None,
            _ => {}
        }
        self.follow();
    }

    fn follow(&mut self) {
        self.style.bold = self.bold > 0;
        self.style.italic = self.italic > 0;
        self.style.strike = self.strike > 0;
        self.style.quote = self.quote > 0;
    }

    fn say(&mut self, text: &str) {
        self.rich.push(text, &self.style);
    }

    fn item(&mut self) {
        self.line();
        let depth = self.lists.len().saturating_sub(1);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "• ".into(),
        };
        self.say(&format!("{}{mark}", "   ".repeat(depth)));
    }

    /// Starts a new line.
    fn line(&mut self) {
        if self.rich.0.last().is_some_and(|last| !last.text.ends_with('\n')) {
            self.between("\n");
        }
    }

    /// Starts a paragraph; but in an item it continues after the marker.
    fn paragraph(&mut self) {
        let Some(last) = self.rich.0.last() else { return };
        if !self.lists.is_empty() {
            let begun = last.text.ends_with("• ")
                || last.text.trim_end_matches(' ').ends_with('.') && last.text.ends_with(' ');
            if !begun {
                self.line();
            }
            return;
        }
        match last.text.ends_with('\n') {
            _ if last.text.ends_with("\n\n") => {}
            true => self.between("\n"),
            false => self.between("\n\n"),
        }
    }

    /// An empty line between two quotes is part of both; elsewhere it has no style.
    fn between(&mut self, text: &str) {
        let style = Style { quote: self.quote > 0, ..Style::default() };
        self.rich.push(text, &style);
    }
}

/// The language of a block of code, if it is a word.
fn language(info: &str) -> String {
    let word = info.split([' ', ',', '{']).next().unwrap_or_default();
    let good = |c: char| c.is_ascii_alphanumeric() || "+-#._".contains(c);
    match word.len() <= 32 && word.chars().all(good) {
        true => word.to_owned(),
        false => String::new(),
    }
}

/// A link target that is allowed.
fn address(text: &str) -> Option<String> {
    let text = text.trim();
    let (scheme, rest) = text.split_once(':')?;
    let known = ["http", "https", "mailto", "tg"].iter().any(|s| s.eq_ignore_ascii_case(scheme));
    let good = !rest.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    (known && good && text.len() <= 2_048).then(|| text.to_owned())
}
