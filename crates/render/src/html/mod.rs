//! Documents and diffs as HTML.
//!
//! Tags are written here and nowhere else, all of them spelled out; every text goes through
//! `escape`. There is no script, no inline style, no image, and no attribute whose value comes from
//! the text, except safe addresses, ids and the name of a language, each reduced to harmless
//! characters. Nothing is loaded from anywhere when the page is opened.
//!
//! The result is a fragment. Put it into an element of class `rendered`, and [`STYLE`] into the page.

mod diff;

use std::collections::HashMap;
use std::fmt::Write;

use crate::code::Highlighter;
use crate::diff::Diff;
use crate::document::{Alignment, Block, Document, Kind, List, ShowAddress, Span, Table};

/// The stylesheet for light and dark pages, as the reader prefers. It applies inside elements of the
/// class `rendered`.
pub const STYLE: &str = include_str!("style.css");

/// Columns of alignment, in the words of the stylesheet.
const ALIGNED: [(Alignment, &str); 2] =
    [(Alignment::Centre, " class=\"centre\""), (Alignment::End, " class=\"end\"")];

/// The document as a fragment of HTML.
///
/// `id_prefix` begins the id of every heading, and links to headings are led there. Give each document
/// of a page its own, such as `m12-`.
pub fn render(document: &Document, id_prefix: &str) -> String {
    let mut page = Page { id_prefix: identifier(id_prefix), ..Page::default() };
    page.blocks(&document.blocks, true);
    page.out
}

/// The diff as a fragment of HTML.
pub fn render_diff(diff: &Diff) -> String {
    diff::render(diff)
}

#[derive(Default)]
struct Page {
    out: String,
    id_prefix: String,
    /// How often each id was given.
    ids: HashMap<String, usize>,
    highlighter: Highlighter,
}

impl Page {
    /// `in_paragraphs` is not set for the texts of a list without blank lines.
    fn blocks(&mut self, blocks: &[Block], in_paragraphs: bool) {
        for block in blocks {
            self.block(&block.kind, in_paragraphs);
        }
    }

    fn block(&mut self, kind: &Kind, in_paragraphs: bool) {
        match kind {
            Kind::Paragraph(spans) if in_paragraphs => self.paragraph("", spans),
            Kind::Paragraph(spans) => self.spans(spans),
            Kind::Heading { level, spans } => self.heading(*level, spans),
            Kind::Code { language, text } => self.code(language, text),
            Kind::RawHtml(text) => {
                self.out += "<pre class=\"raw\" tabindex=\"0\">";
                escape(text, &mut self.out);
                self.out += "</pre>\n";
            }
            Kind::Quote(blocks) => {
                self.out += "<blockquote>\n";
                self.blocks(blocks, true);
                self.out += "</blockquote>\n";
            }
            Kind::List(list) => self.list(list),
            Kind::Table(table) => self.table(table),
            Kind::Rule => self.out += "<hr>\n",
        }
    }

    /// A paragraph, with a tag of ours before its text.
    fn paragraph(&mut self, tag: &'static str, spans: &[Span]) {
        self.out += "<p dir=\"auto\">";
        self.out += tag;
        self.spans(spans);
        self.out += "</p>\n";
    }

    fn heading(&mut self, level: u8, spans: &[Span]) {
        let text: String = spans.iter().map(|span| span.text.as_str()).collect();
        let name = match identifier(&text) {
            name if name.is_empty() => "section".to_owned(),
            name => name,
        };
        let count = self.ids.entry(name.clone()).or_default();
        let id = match *count {
            0 => format!("{}{name}", self.id_prefix),
            count => format!("{}{name}-{count}", self.id_prefix),
        };
        *count += 1;
        write!(self.out, "<h{level} id=\"{id}\" dir=\"auto\">").expect(WRITES);
        self.spans(spans);
        writeln!(self.out, "</h{level}>").expect(WRITES);
    }

    fn code(&mut self, info: &str, text: &str) {
        let language = identifier(info.split_whitespace().next().unwrap_or_default());
        match language.as_str() {
            "" => self.out += "<pre tabindex=\"0\"><code>",
            name => write!(self.out, "<pre tabindex=\"0\"><code class=\"language-{name}\">")
                .expect(WRITES),
        }
        self.highlighter.begin(info);
        for line in text.split('\n') {
            for (piece, role) in self.highlighter.line(line) {
                let Some(role) = role else {
                    escape(piece, &mut self.out);
                    continue;
                };
                write!(self.out, "<span class=\"{}\">", role.class()).expect(WRITES);
                escape(piece, &mut self.out);
                self.out += "</span>";
            }
            self.out.push('\n');
        }
        self.out += "</code></pre>\n";
    }

    fn list(&mut self, list: &List) {
        match list.start {
            None => self.out += "<ul>\n",
            Some(1) => self.out += "<ol>\n",
            Some(start) => writeln!(self.out, "<ol start=\"{start}\">").expect(WRITES),
        }
        for item in &list.items {
            let tick = match item.checked {
                None => "",
                Some(true) => "<input type=\"checkbox\" disabled checked> ",
                Some(false) => "<input type=\"checkbox\" disabled> ",
            };
            // The box takes the place of a bullet; a number stays.
            self.out += match (item.checked, list.start) {
                (Some(_), None) => "<li class=\"task\" dir=\"auto\">",
                _ => "<li dir=\"auto\">",
            };
            match item.blocks.split_first() {
                // The box and its text are on one line.
                Some((Block { kind: Kind::Paragraph(spans), .. }, others)) if list.loose => {
                    self.paragraph(tick, spans);
                    self.blocks(others, true);
                }
                _ => {
                    self.out += tick;
                    self.blocks(&item.blocks, list.loose);
                }
            }
            self.out += "</li>\n";
        }
        self.out += if list.start.is_some() { "</ol>\n" } else { "</ul>\n" };
    }

    fn table(&mut self, table: &Table) {
        self.out += "<div class=\"table\" tabindex=\"0\"><table>\n<thead>\n";
        self.row(table, &table.head, "th");
        self.out += "</thead>\n<tbody>\n";
        for row in &table.rows {
            self.row(table, row, "td");
        }
        self.out += "</tbody>\n</table></div>\n";
    }

    fn row(&mut self, table: &Table, cells: &[Vec<Span>], tag: &str) {
        self.out += "<tr>";
        for (cell, alignment) in cells.iter().zip(&table.alignments) {
            let aligned = ALIGNED.iter().find(|(known, _)| known == alignment);
            let class = aligned.map_or("", |(_, class)| class);
            write!(self.out, "<{tag}{class} dir=\"auto\">").expect(WRITES);
            self.spans(cell);
            write!(self.out, "</{tag}>").expect(WRITES);
        }
        self.out += "</tr>\n";
    }

    fn spans(&mut self, spans: &[Span]) {
        let mut open: Option<&str> = None;
        let shown = |span: &&Span| span.look.address != Some(ShowAddress::WithoutLinks);
        for span in spans.iter().filter(shown) {
            let link = span.look.link.as_deref();
            if link.map(str::as_ptr) != open.map(str::as_ptr) {
                self.close_link(open);
                self.open_link(link);
                open = link;
            }
            self.span(span);
        }
        self.close_link(open);
    }

    fn open_link(&mut self, link: Option<&str>) {
        let Some(address) = link else { return };
        match address.strip_prefix('#') {
            Some(heading) => {
                let name = identifier(heading);
                write!(self.out, "<a href=\"#{}{name}\">", self.id_prefix).expect(WRITES);
            }
            None => {
                self.out += "<a rel=\"noreferrer nofollow\" href=\"";
                escape(address, &mut self.out);
                self.out += "\">";
            }
        }
    }

    fn close_link(&mut self, open: Option<&str>) {
        if open.is_some() {
            self.out += "</a>";
        }
    }

    fn span(&mut self, span: &Span) {
        let look = &span.look;
        let tags =
            [(look.bold, "strong"), (look.italic, "em"), (look.strike, "del"), (look.code, "code")];
        let on = || tags.iter().filter(|(is_on, _)| *is_on);
        for (_, tag) in on() {
            write!(self.out, "<{tag}>").expect(WRITES);
        }
        for (index, line) in span.text.split('\n').enumerate() {
            if index > 0 {
                self.out += "<br>\n";
            }
            escape(line, &mut self.out);
        }
        for (_, tag) in on().rev() {
            write!(self.out, "</{tag}>").expect(WRITES);
        }
    }
}

const WRITES: &str = "a string can be written to";

/// Appends a text in which nothing is markup, inside an element or an attribute.
fn escape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// The text reduced to what is allowed in an id or a class: letters, digits and single dashes.
fn identifier(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(80).flat_map(char::to_lowercase) {
        match c {
            c if c.is_alphanumeric() || matches!(c, '_' | '+') => name.push(c),
            ' ' | '-' if !name.ends_with('-') && !name.is_empty() => name.push('-'),
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::{Background, Role};

    #[test]
    fn the_stylesheet_has_the_colours_of_the_palette() {
        let (light, dark) = STYLE.split_once("prefers-color-scheme: dark").unwrap();
        for (sheet, background) in [(light, Background::Light), (dark, Background::Dark)] {
            for role in Role::ALL {
                let (red, green, blue) = role.rgb(background);
                let colour = format!("--{}: #{red:02x}{green:02x}{blue:02x};", role.class());
                assert!(sheet.contains(&colour), "{background:?} has no {colour}");
            }
        }
    }
}
