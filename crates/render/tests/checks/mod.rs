//! What must hold for every output, written independently of the renderer, so that the two can
//! disagree. The fuzz targets use this file as well.
#![allow(dead_code, reason = "not every test looks at both outputs")]

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns a narrower window is treated as having.
const COLUMNS_MIN: usize = 20;

/// Tags that may be in HTML, each with the attributes it may have.
const TAGS: [(&str, &[&str]); 30] = [
    ("a", &["href", "rel"]),
    ("blockquote", &[]),
    ("br", &[]),
    ("caption", &[]),
    ("code", &["class"]),
    ("del", &[]),
    ("div", &["class", "tabindex"]),
    ("em", &[]),
    ("h1", &["id", "dir"]),
    ("h2", &["id", "dir"]),
    ("h3", &["id", "dir"]),
    ("h4", &["id", "dir"]),
    ("h5", &["id", "dir"]),
    ("h6", &["id", "dir"]),
    ("hr", &[]),
    ("input", &["type", "disabled", "checked"]),
    ("ins", &[]),
    ("li", &["class", "dir"]),
    ("ol", &["start"]),
    ("p", &["class", "dir"]),
    ("pre", &["class", "tabindex"]),
    ("span", &["class"]),
    ("strong", &[]),
    ("table", &[]),
    ("tbody", &[]),
    ("td", &["class", "dir"]),
    ("th", &["class", "dir"]),
    ("thead", &[]),
    ("tr", &["class"]),
    ("ul", &[]),
];

/// Tags without an end.
const VOID: [&str; 3] = ["br", "hr", "input"];

/// Fails unless this can be printed on a terminal of this many columns without controlling it.
/// Returns the visible text.
pub(crate) fn terminal(out: &str, columns: usize) -> String {
    assert!(out.is_empty() || out.ends_with('\n'), "the last line has no end");
    let mut seen = String::new();
    for line in out.split_terminator('\n') {
        let line = line_seen(line);
        let wide: usize = line.graphemes(true).map(UnicodeWidthStr::width).sum();
        assert!(wide <= columns.max(COLUMNS_MIN), "{wide} columns of {columns}: {line:?}");
        assert!(!line.ends_with(' '), "spaces at the end of {line:?}");
        seen += &line;
        seen.push('\n');
    }
    seen
}

/// The text of a line without the two kinds of sequences that may be in it, both closed.
fn line_seen(line: &str) -> String {
    let (mut styled, mut linked) = (false, false);
    let mut seen = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\x1b]8;") {
            let (link, after) = after.split_once("\x1b\\").expect("a link that has no end");
            let (parameters, address) = link.split_once(';').expect("a link without an address");
            assert!(address.bytes().all(|byte| byte.is_ascii_graphic()), "{address:?}");
            let id = parameters.strip_prefix("id=").unwrap_or_default();
            assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{parameters:?}");
            let schemes = ["http://", "https://", "mailto:"];
            let lower = address.to_ascii_lowercase();
            assert!(address.is_empty() || schemes.iter().any(|known| lower.starts_with(known)));
            assert_eq!(linked, address.is_empty(), "links that are not closed: {line:?}");
            linked = !address.is_empty();
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\x1b[") {
            let (codes, after) = after.split_once('m').expect("a style that has no end");
            assert!(codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'), "{codes:?}");
            assert_eq!(styled, codes == "0", "styles that are not reset: {line:?}");
            styled = codes != "0";
            rest = after;
        } else {
            assert_visible(c, line);
            seen.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    assert!(!styled && !linked, "a sequence is still open after {line:?}");
    seen
}

/// Fails unless this can be put into a page: known tags, properly nested, and nothing that runs,
/// loads or hides.
pub(crate) fn html(out: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = out;
    while let Some(c) = rest.chars().next() {
        match c {
            '<' => {
                let end = rest.find('>').expect("a tag that has no end");
                tag(&rest[1..end], &mut open);
                rest = &rest[end + 1..];
            }
            '&' => {
                let end = rest.find(';').expect("a bare &");
                let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                assert!(known.contains(&&rest[..=end]), "{}", &rest[..=end]);
                rest = &rest[end + 1..];
            }
            c => {
                assert!(!matches!(c, '>' | '"' | '\''), "a bare {c}");
                if !matches!(c, '\n' | '\t') {
                    assert_visible(c, "HTML");
                }
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

fn tag<'h>(inside: &'h str, open: &mut Vec<&'h str>) {
    if let Some(name) = inside.strip_prefix('/') {
        assert_eq!(open.pop(), Some(name), "an end tag without its start");
        return;
    }
    let (name, mut attributes) = inside.split_once(' ').unwrap_or((inside, ""));
    let known = TAGS.iter().find(|(known, _)| *known == name);
    let (_, allowed) = known.unwrap_or_else(|| panic!("the tag <{inside}> is not allowed"));
    while !attributes.is_empty() {
        let end = attributes.find(['=', ' ']).unwrap_or(attributes.len());
        let attribute = &attributes[..end];
        assert!(allowed.contains(&attribute), "{attribute} in <{inside}>");
        let Some(value) = attributes[end..].strip_prefix("=\"") else {
            attributes = attributes[end..].trim_start();
            continue;
        };
        let (value, after) = value.split_once('"').expect("a value that has no end");
        assert!(!value.chars().any(|c| "<>\"'`".contains(c)), "{value:?}");
        if attribute == "href" {
            let lower = value.to_ascii_lowercase();
            let known = ["http://", "https://", "mailto:", "#"];
            assert!(known.iter().any(|known| lower.starts_with(known)), "{value:?}");
        }
        attributes = after.trim_start();
    }
    if !VOID.contains(&name) {
        open.push(name);
    }
}

fn assert_visible(c: char, place: &str) {
    let hidden = c.is_control()
        || matches!(u32::from(c),
            0xad | 0x61c | 0x200b | 0x200e..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
            | 0xfff9..=0xfffb | 0xe0000..=0xe0fff);
    assert!(!hidden, "U+{:04X} in {place:?}", u32::from(c));
}
