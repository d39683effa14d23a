//! The front matter of an agent file: a few `key: value` lines between two fences.
//!
//! It supports the small part of YAML that people use there, parsed by hand so that every error has
//! a line: plain and quoted values, values over several lines, block texts (`|` and `>`), and lists
//! in brackets, with commas or with dashes. Unknown keys may have any value, because other programs
//! use the same files.

use super::AgentFault;

/// What opens and closes the front matter.
const FENCE: &str = "---";

/// A parsed file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Front<'a> {
    fields: Vec<Field<'a>>,
    /// The text below the front matter, without surrounding white space.
    pub(crate) body: &'a str,
}

/// One key with the lines that belong to it.
#[derive(Debug, PartialEq, Eq)]
struct Field<'a> {
    key: &'a str,
    /// Its line, 1 for the first of the file.
    line: usize,
    /// The text after the colon.
    value: &'a str,
    /// The lines below that belong to it.
    below: Vec<&'a str>,
}

/// An error, and its line.
pub(crate) type Wrong = (usize, AgentFault);

/// Parses a file.
pub(crate) fn parse(text: &str) -> Result<Front<'_>, Wrong> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut fields: Vec<Field<'_>> = Vec::new();
    let mut place = 0;
    for (index, piece) in text.split_inclusive('\n').enumerate() {
        place += piece.len();
        let (number, line) = (index + 1, piece.trim_end());
        match (index, line == FENCE) {
            (0, true) => continue,
            (0, false) => return Err((1, AgentFault::NoFrontMatter)),
            (_, true) => return Ok(Front { fields, body: text[place..].trim() }),
            (_, false) => {}
        }
        let indented = line.starts_with([' ', '\t']);
        let item = line.starts_with("- ") || line == "-";
        match fields.last_mut() {
            // A comment at the start of a line does not end a text, and is not part of it.
            _ if line.starts_with('#') => {}
            Some(field) if indented || line.is_empty() || (item && field.value.is_empty()) => {
                field.below.push(line);
            }
            None if line.is_empty() => {}
            _ => {
                let (key, value) = key_of(line).ok_or((number, AgentFault::NotAKey))?;
                fields.push(Field { key, line: number, value, below: Vec::new() });
            }
        }
    }
    match text.is_empty() {
        true => Err((1, AgentFault::NoFrontMatter)),
        false => Err((text.lines().count(), AgentFault::NoEnd)),
    }
}

/// Splits `key: value`. The colon must be followed by white space or nothing, so that an address
/// (`http://…`) is not a key.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let spaced = value.is_empty() || value.starts_with([' ', '\t']);
    (is_key && spaced).then(|| (key, value.trim()))
}

impl<'a> Front<'a> {
    fn field(&self, key: &str) -> Result<Option<&Field<'a>>, Wrong> {
        let mut found = self.fields.iter().filter(|field| field.key == key);
        let first = found.next();
        match found.next() {
            Some(again) => Err((again.line, AgentFault::Twice { key: key.into() })),
            None => Ok(first),
        }
    }

    /// The line of this key.
    pub(super) fn line_of(&self, key: &str) -> Option<usize> {
        self.fields.iter().find(|field| field.key == key).map(|field| field.line)
    }

    /// The text under this key; `None` if the key is missing or empty.
    pub(crate) fn text(&self, key: &str) -> Result<Option<(usize, String)>, Wrong> {
        let Some(field) = self.field(key)? else { return Ok(None) };
        let text = field.text().map_err(|fault| (field.line, fault))?;
        Ok(Some((field.line, text)).filter(|(_, text)| !text.is_empty()))
    }

    /// The list under this key; `None` if the key is missing.
    pub(super) fn list(&self, key: &str) -> Result<Option<(usize, Vec<String>)>, Wrong> {
        let Some(field) = self.field(key)? else { return Ok(None) };
        let list = field.list().map_err(|fault| (field.line, fault))?;
        Ok(list.map(|list| (field.line, list)))
    }
}

impl Field<'_> {
    fn text(&self) -> Result<String, AgentFault> {
        let style = uncommented(self.value);
        match style.chars().next() {
            Some('|') if is_block(style) => Ok(self.block().join("\n").trim_end().to_owned()),
            Some('>') if is_block(style) => Ok(folded(&self.block())),
            Some('"' | '\'') => unquoted(self.value),
            _ => {
                let below = self.below.iter().map(|line| uncommented(line));
                let words = std::iter::once(style).chain(below).map(str::trim);
                Ok(words.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// The lines below, without their common indentation.
    fn block(&self) -> Vec<&str> {
        let indent = |line: &&&str| line.len() - line.trim_start().len();
        let shared = self.below.iter().filter(|line| !line.is_empty()).map(|l| indent(&l)).min();
        let shared = shared.unwrap_or(0);
        self.below.iter().map(|line| line.get(shared..).unwrap_or_default()).collect()
    }

    fn list(&self) -> Result<Option<Vec<String>>, AgentFault> {
        let not_a_list = || AgentFault::NotAList { key: self.key.into() };
        let value = uncommented(self.value);
        if !value.is_empty() {
            if self.below.iter().any(|line| !uncommented(line).trim().is_empty()) {
                return Err(not_a_list());
            }
            let inner = match value.strip_prefix('[') {
                Some(rest) => rest.strip_suffix(']').ok_or_else(not_a_list)?,
                None => value,
            };
            return items(inner.split(',')).map(Some);
        }
        let below = self.below.iter().map(|line| uncommented(line).trim());
        let below: Vec<&str> = below.filter(|line| !line.is_empty()).collect();
        if below.is_empty() {
            return Ok(None);
        }
        let dashed: Option<Vec<&str>> = below.iter().map(|line| line.strip_prefix('-')).collect();
        items(dashed.ok_or_else(not_a_list)?.into_iter()).map(Some)
    }
}

fn items<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Vec<String>, AgentFault> {
    parts.map(str::trim).filter(|part| !part.is_empty()).map(unquoted).collect()
}

/// Whether the lines below are a block text: `|` or `>`, perhaps with a chomping sign.
fn is_block(style: &str) -> bool {
    style[1..].chars().all(|c| matches!(c, '-' | '+'))
}

/// Folds lines: a blank line is a line break, any other break is a space.
fn folded(lines: &[&str]) -> String {
    let paragraphs = lines.split(|line| line.trim().is_empty());
    let paragraphs = paragraphs.filter(|lines| !lines.is_empty()).map(|lines| lines.join(" "));
    paragraphs.collect::<Vec<_>>().join("\n")
}

/// A plain value without its trailing comment.
fn uncommented(value: &str) -> &str {
    let value = value.trim_end();
    if value.trim_start().starts_with('#') {
        return "";
    }
    value.find(" #").map_or(value, |end| &value[..end]).trim_end()
}

/// A value without its quotes, if it has any. Only a comment may follow them.
fn unquoted(value: &str) -> Result<String, AgentFault> {
    let quote = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => quote,
        _ => return Ok(uncommented(value).to_owned()),
    };
    let mut text = String::new();
    let mut chars = value[1..].chars().peekable();
    loop {
        match chars.next().ok_or(AgentFault::Quote)? {
            '\\' if quote == '"' => match chars.next().ok_or(AgentFault::Quote)? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                other => text.push(other),
            },
            c if c == quote => match (quote, chars.peek()) {
                ('\'', Some('\'')) => text.extend(chars.next()),
                _ => break,
            },
            c => text.push(c),
        }
    }
    let rest: String = chars.collect();
    match uncommented(&rest).trim().is_empty() {
        true => Ok(text),
        false => Err(AgentFault::Quote),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(front: &str) -> Result<Option<String>, Wrong> {
        let file = format!("---\n{front}\n---\nbody");
        Ok(parse(&file)?.text("key")?.map(|(_, text)| text))
    }

    fn list(front: &str) -> Result<Option<Vec<String>>, Wrong> {
        let file = format!("---\n{front}\n---\nbody");
        Ok(parse(&file)?.list("key")?.map(|(_, list)| list))
    }

    #[test]
    fn a_value_may_contain_colons_quotes_and_a_trailing_comment() {
        for (front, value) in [
            ("key: a: b", "a: b"),
            ("key:   http://x/#y  ", "http://x/#y"),
            ("key: a # a comment", "a"),
            ("key: \"a # b\" # c", "a # b"),
            (r#"key: "a \"b\" \\ c\n""#, "a \"b\" \\ c\n"),
            ("key: 'it''s'", "it's"),
            ("# first\n\nother: 1\nkey: a\n  # between\n  and b", "a and b"),
            ("key:\n  below", "below"),
        ] {
            assert_eq!(text(front), Ok(Some(value.into())), "{front}");
        }
        for front in ["key:", "key: # nothing", "key: \"\"", "other: x"] {
            assert_eq!(text(front), Ok(None), "{front}");
        }
    }

    #[test]
    fn a_block_keeps_its_lines_or_folds_them() {
        let below = "  one: 1\n    - two\n\n  # three\nother: x";
        let kept = "one: 1\n  - two\n\n# three";
        assert_eq!(text(&format!("key: |\n{below}")), Ok(Some(kept.into())));
        assert_eq!(text(&format!("key: |-\n{below}")), Ok(Some(kept.into())));
        assert_eq!(text("key: >\n  a\n  b\n\n  c\n"), Ok(Some("a b\nc".into())));
        assert_eq!(text("key: > a"), Ok(Some("> a".into())));
    }

    #[test]
    fn a_list_is_written_in_three_ways() {
        let all = ["[a, \"b\"]", "a, b", "\n- a\n- 'b' # c", "\n  - a\n\n  - b"];
        for value in all {
            assert_eq!(list(&format!("key: {value}")), Ok(Some(vec!["a".into(), "b".into()])));
        }
        assert_eq!(list("key: []"), Ok(Some(Vec::new())));
        assert_eq!(list("key:"), Ok(None));
        for value in ["[a, b", "a\n  b", "\n  a: true"] {
            let fault = AgentFault::NotAList { key: "key".into() };
            assert_eq!(list(&format!("other: 1\nkey: {value}")), Err((3, fault)), "{value}");
        }
    }

    #[test]
    fn keys_nobody_knows_may_hold_anything() {
        let front =
            "permission:\n  edit: deny\n  bash:\n    - x\nhooks: {a: [b]}\nlist:\n- a\nkey: a";
        assert_eq!(text(front), Ok(Some("a".into())));
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        let not_a_key = Err((3, AgentFault::NotAKey));
        for line in ["no key", "- item", "a b: c", ": x", "key:x", "http://x"] {
            assert_eq!(text(&format!("key: a\n{line}")), not_a_key, "{line}");
        }
        assert_eq!(text("  indented: x"), Err((2, AgentFault::NotAKey)));
        assert_eq!(text("a: 1\nkey: \"open"), Err((3, AgentFault::Quote)));
        assert_eq!(text("key: 'a' b"), Err((2, AgentFault::Quote)));
        assert_eq!(text("key: 1\nkey: 2"), Err((3, AgentFault::Twice { key: "key".into() })));
        for file in ["", "no fence", "\n---\n---\n", "# a\n---"] {
            assert_eq!(parse(file), Err((1, AgentFault::NoFrontMatter)), "{file:?}");
        }
        assert_eq!(parse("---"), Err((1, AgentFault::NoEnd)));
        assert_eq!(parse("---\nkey: a\n----\n"), Err((3, AgentFault::NotAKey)));
        assert_eq!(parse("---\nkey: a\n"), Err((2, AgentFault::NoEnd)));
    }

    #[test]
    fn a_file_cut_off_anywhere_is_read_or_refused() {
        let sample =
            "---\nkey: \"é \\\" x\"\nother: |\n   a\n  é\ntools:\n- 'b'\n- é # c\n---\nbody é";
        for (at, _) in sample.char_indices() {
            for part in [&sample[..at], &format!("---\n{}", &sample[at..])] {
                let Ok(front) = parse(part) else { continue };
                for key in ["key", "other", "tools"] {
                    let wrong = [front.text(key).err(), front.list(key).err()];
                    let lines = part.lines().count();
                    assert!(wrong.iter().flatten().all(|(line, _)| (1..=lines).contains(line)));
                }
            }
        }
    }

    #[test]
    fn a_file_of_another_system_is_read_too() {
        let front = parse("\u{feff}---\r\nkey: a\r\n---\r\n\r\nbody\r\n").expect("valid");
        assert_eq!((front.text("key"), front.body), (Ok(Some((2, "a".into()))), "body"));
    }
}
