//! JSON without hidden characters: terminal control characters and invisible ones are escaped.
//!
//! Outside ASCII, JSON has characters only inside strings, where `\\u009b` means the same as the
//! character itself. So the output is equivalent JSON.

use std::borrow::Cow;

use crate::name::is_hidden;

/// Whether a character is escaped. Those of ASCII are escaped by the string writer, and some
/// of them separate values; only `DEL` is not.
fn is_escaped(c: char) -> bool {
    c >= '\u{7f}' && is_hidden(c)
}

/// JSON with all hidden characters escaped.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match is_escaped(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_escaped_and_means_the_same() {
        let hostile = "{\"a\":\"\u{9b}2J\u{7f} \u{202e} \u{e0041} é 日\",\n\"b\":1}";
        let shown = visible_json(hostile);
        assert_eq!(shown, "{\"a\":\"\\u009b2J\\u007f \\u202e \\udb40\\udc41 é 日\",\n\"b\":1}");
        let parsed = |json: &str| serde_json::from_str::<serde_json::Value>(json).expect("JSON");
        assert_eq!(parsed(&shown), parsed(hostile));
        assert!(matches!(visible_json("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }
}
