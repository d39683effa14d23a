//! A README as plain lines: without HTML, badges and directives, its headings marked with `#`.
//!
//! Many READMEs begin with a logo and a title in HTML, and those of other formats mark headings by
//! lines below them. Without that, the first thing that looks like text is the second section.

use std::collections::BTreeMap;

use super::words::among;

/// HTML elements that READMEs use. `<T>` and `<https://…>` are text.
const ELEMENTS: &str = "a abbr b big blockquote br center code dd details div dl dt em font h1 h2 h3 \
    h4 h5 h6 header hr i img kbd li ol p picture pre s section small source span strong sub summary \
    sup table tbody td th thead tr u ul video";

/// Characters that underline a heading in Markdown and in reStructuredText.
const UNDERLINES: &str = "=-";
const UNDERLINES_RST: &str = "=-~^\"'`#*+:.";

/// Characters that make a rule in Markdown.
const RULES: &str = "*_";

/// Characters of an underline. Shorter ones are a list or the end of a sentence.
const UNDERLINE_MIN: usize = 3;

/// The lines with text of a README, and the empty ones between them, by their numbers.
pub(super) fn plain(path: &str, lines: &BTreeMap<u64, String>) -> Vec<(u64, String)> {
    let path = path.to_lowercase();
    let is_rst = path.ends_with(".rst") || path == "readme";
    let is_adoc = [".adoc", ".asciidoc"].iter().any(|end| path.ends_with(end));
    let underlines = if is_rst { UNDERLINES_RST } else { UNDERLINES };
    let is_setting = |text: &str| is_adoc && text.starts_with(':');
    let is_left_out = |text: &str| is_ornament(text) || is_line_of(RULES, text) || is_setting(text);
    let mut html = Html::default();
    let mut plain: Vec<(u64, String)> = Vec::new();
    let mut in_directive = false;
    for (number, line) in lines {
        let Some(text) = html.strip(line) else { continue };
        let indented = text.starts_with([' ', '\t']);
        in_directive = is_rst
            && (text.starts_with(".. ") || in_directive && (indented || text.trim().is_empty()));
        if in_directive {
            continue;
        }
        if is_line_of(underlines, &text) {
            // Below a line of text it makes that a heading; elsewhere it is a rule, or the line
            // above a heading.
            if let Some((_, above)) = plain.last_mut().filter(|(last, above)| {
                last + 1 == *number && !above.trim().is_empty() && !above.starts_with('#')
            }) {
                *above = format!("# {}", above.trim());
            }
        } else if !is_left_out(&text) {
            plain.push((*number, marked(&path, text)));
        }
    }
    plain
}

/// A heading of Org or AsciiDoc with the mark of Markdown; other lines as they are.
fn marked(path: &str, line: String) -> String {
    let mark = match path.rsplit_once('.').map(|(_, end)| end) {
        Some("org") => '*',
        Some("adoc" | "asciidoc") => '=',
        _ => return line,
    };
    let text = line.trim_start_matches(mark);
    match text.strip_prefix(' ') {
        Some(title) if text.len() < line.len() => format!("# {}", title.trim()),
        _ => line,
    }
}

/// Whether a line consists of one of these characters, again and again.
fn is_line_of(set: &str, line: &str) -> bool {
    let line = line.trim_end();
    let mut chars = line.chars();
    chars.next().is_some_and(|first| set.contains(first) && chars.all(|c| c == first))
        && line.len() >= UNDERLINE_MIN
        && !line.starts_with("```")
}

/// Whether a line has no text: badges, pictures, rules, and settings of Org and AsciiDoc.
pub(super) fn is_ornament(line: &str) -> bool {
    let line = line.trim();
    let is_substitution =
        |word: &str| word.len() > 2 && word.starts_with('|') && word.ends_with('|');
    ["[![", "![", "---", "===", "#+", "image:"].iter().any(|begin| line.starts_with(begin))
        || !line.is_empty() && line.split_whitespace().all(is_substitution)
}

/// What of the HTML is still open at the end of a line.
#[derive(Default)]
struct Html {
    /// What ends the tag or comment that began on an earlier line.
    until: Option<&'static str>,
    /// The mark of a heading whose text has not come yet.
    heading: Option<String>,
    in_link: bool,
    in_code: bool,
}

impl Html {
    /// A line without tags; nothing if it had only tags, and links to elsewhere.
    fn strip(&mut self, line: &str) -> Option<String> {
        if line.trim_start().starts_with("```") {
            self.in_code = !self.in_code;
        }
        if self.in_code || self.until.is_none() && !line.contains('<') && self.heading.is_none() {
            return Some(line.to_owned());
        }
        let (mut text, mut rest) = (String::new(), line);
        let (mut has_tags, mut has_own_text, mut in_span) = (self.until.is_some(), false, false);
        loop {
            if let Some(end) = self.until {
                let Some((_, after)) = rest.split_once(end) else { break };
                (self.until, rest) = (None, after);
            }
            let Some(c) = rest.chars().next() else { break };
            match tag(rest).filter(|_| !in_span) {
                Some(tag) => {
                    has_tags = true;
                    self.until = Some(if tag.starts_with("!--") { "-->" } else { ">" });
                    self.open(tag);
                }
                None => {
                    in_span ^= c == '`';
                    has_own_text |= c.is_alphanumeric() && !self.in_link;
                    if c.is_alphanumeric()
                        && let Some(heading) = self.heading.take()
                    {
                        has_own_text = true;
                        text = format!("{heading} {}", text.trim_start());
                    }
                    text.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        if has_tags && !has_own_text {
            return None;
        }
        let text = [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
            .iter()
            .fold(text, |text, (entity, c)| text.replace(entity, c));
        Some(if has_tags { text.trim().to_owned() } else { text })
    }

    fn open(&mut self, tag: &str) {
        match tag.as_bytes() {
            [b'h', level @ b'1'..=b'6'] => {
                self.heading = Some("#".repeat(usize::from(level - b'0')));
            }
            [b'/', b'h', b'1'..=b'6'] => self.heading = None,
            b"a" => self.in_link = true,
            b"/a" => self.in_link = false,
            _ => {}
        }
    }
}

/// The name of the tag a text begins with: `p`, `/p`, or `!--` for a comment.
fn tag(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('<')?;
    if inner.starts_with("!--") {
        return Some(&inner[..3]);
    }
    let name = inner.strip_prefix('/').unwrap_or(inner);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
    let ends = name[end..].chars().next().is_none_or(|c| c.is_whitespace() || "/>".contains(c));
    let is_known = ends && among(ELEMENTS, &name[..end]);
    is_known.then(|| &inner[..inner.len() - name.len() + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, text: &str) -> String {
        let lines = text.lines().zip(1..).map(|(line, number)| (number, line.to_owned())).collect();
        let plain = plain(path, &lines).into_iter().map(|(_, line)| line + "\n");
        plain.collect::<String>().trim().to_owned()
    }

    #[test]
    fn html_is_read_and_not_dropped() {
        for (html, plain) in [
            ("<h1 align=\"center\">Widget</h1>", "# Widget"),
            ("<h1>\n  <img src=\"x\">\n  Widget\n</h1>", "# Widget"),
            ("<h3><a href=\"x\">Widget</a></h3>\nText", "### Widget\nText"),
            (
                "<p align=\"center\">Widgets for <b>all</b> &amp; sundry</p>",
                "Widgets for all & sundry",
            ),
            ("<p>\n<a href=\"#x\">Install</a> •\n<a href=\"#y\">Use</a>\n</p>\nText", "Text"),
            ("<img\n  src=\"x\"\n  width=\"9\">\nText", "Text"),
            ("<!-- not\nseen -->Text", "Text"),
            (
                "A `Vec<a>`, a Vec<T>, 1 < 2 and <https://a.b>",
                "A `Vec<a>`, a Vec<T>, 1 < 2 and <https://a.b>",
            ),
            ("```html\n<p>code</p>\n```", "```html\n<p>code</p>\n```"),
        ] {
            assert_eq!(shown("README.md", html), plain, "{html}");
        }
    }

    #[test]
    fn headings_of_every_format_are_marked() {
        for (path, text, plain) in [
            (
                "README.rst",
                "======\nWidget\n======\n\nText\n\nUse\n~~~\n",
                "# Widget\n\nText\n\n# Use",
            ),
            (
                "README.rst",
                ".. image:: x\n   :target: y\n\nWidget\n======\n|ci| |docs|\n",
                "# Widget",
            ),
            ("README.md", "Widget\n===\n\nText\n\n---\n\nMore\n", "# Widget\n\nText\n\n\nMore"),
            ("README.org", "#+title: x\n* Widget\nText", "# Widget\nText"),
            ("README.adoc", "= Widget\n:toc:\n\nText\n\n== Use", "# Widget\n\nText\n\n# Use"),
            ("README.md", "* a point\n= b", "* a point\n= b"),
        ] {
            assert_eq!(shown(path, text), plain, "{path}: {text}");
        }
    }
}
