//! Makes invisible characters visible.
//!
//! A terminal obeys control characters, and a reader is misled by direction marks and by characters
//! without a shape. All of them are written as escapes, `\u{1b}`, so nothing is lost and nothing
//! has an effect. This is done after parsing: `&#27;` is harmless text before, and an escape
//! character after.
//!
//! Nothing is escaped for HTML here: that belongs to the output, see `html`.

use std::borrow::Cow;

/// One paragraph's text: line breaks and tabs become spaces.
pub(crate) fn prose(text: &str) -> Cow<'_, str> {
    replaced(text, |c| match c {
        '\n' | '\r' | '\t' => Some(' '),
        _ => None,
    })
}

/// Lines of code: line feeds and tabs stay.
pub(crate) fn code(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t').then_some(c))
}

fn replaced(text: &str, allowed: impl Fn(char) -> Option<char>) -> Cow<'_, str> {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let harmless = |c: char| !is_hidden(c) || allowed(c) == Some(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match allowed(c) {
            Some(c) => visible.push(c),
            None if is_hidden(c) => visible.extend(c.escape_unicode()),
            None => visible.push(c),
        }
    }
    Cow::Owned(visible)
}

/// Whether a character acts on a terminal, changes the direction of a text, or has no shape.
///
/// The two joiners (U+200C, U+200D) and the two selectors of emoji (U+FE0E, U+FE0F) are not: Persian
/// and most emoji need them, and they do nothing else.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_is_spelled_out() {
        assert_eq!(
            prose("a\x1b[2Jb\u{9b}31mc\x07\x7f\0"),
            r"a\u{1b}[2Jb\u{9b}31mc\u{7}\u{7f}\u{0}"
        );
        assert_eq!(code("a\r\nb"), "a\\u{d}\nb");
    }

    #[test]
    fn what_hides_or_turns_text_is_spelled_out() {
        for hidden in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{e0041}', '\u{e0101}'] {
            let shown = format!("a{}b", hidden.escape_unicode());
            assert_eq!(prose(&format!("a{hidden}b")), shown);
            assert_eq!(code(&format!("a{hidden}b")), shown);
        }
    }

    #[test]
    fn text_of_every_script_stays_as_it_is() {
        for text in ["naïve", "漢字かな", "한국어", "می\u{200c}خواهم", "👨‍👩‍👧‍👦", "❤\u{fe0f}", "नमस्ते"]
        {
            assert!(matches!(prose(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_paragraph_has_no_line_breaks_and_code_keeps_them() {
        assert_eq!(prose("a\n\tb"), "a  b");
        assert_eq!(code("a\n\tb"), "a\n\tb");
    }
}
