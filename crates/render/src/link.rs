//! Which links are allowed, and links that are written as plain addresses.
//!
//! A model's link is data until a person follows it. Only addresses that open a page or a mail are
//! links at all; everything else (`javascript:`, `data:`, `file:`, paths) is shown as text.

/// Bytes of an address. Longer ones are cut off or refused by terminals and browsers; VTE stops at
/// this many.
const ADDRESS_BYTES_MAX: usize = 2_083;

/// The address as it is safe in a link: printable ASCII only, everything else percent-encoded.
/// `None` if it must not be a link.
pub(crate) fn safe(address: &str) -> Option<String> {
    let address = address.trim();
    let (scheme, rest) = address.split_once(':')?;
    let known = ["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let slashes = scheme.eq_ignore_ascii_case("mailto") || rest.starts_with("//");
    if !known || !slashes {
        return None;
    }
    let mut encoded = String::with_capacity(address.len());
    for byte in address.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'\'' => {
                encoded += &format!("%{byte:02X}");
            }
            0x21..=0x7e => encoded.push(char::from(byte)),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    (encoded.len() <= ADDRESS_BYTES_MAX).then_some(encoded)
}

/// Whether the text of a link looks like an address other than its target. Such a link is shown
/// with its real target.
pub(crate) fn misleads(text: &str, address: &str) -> bool {
    let bare = |address: &str| {
        let address = address.trim().to_ascii_lowercase();
        let address = address.strip_prefix("mailto:").unwrap_or(&address);
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        address.trim_end_matches('/').to_owned()
    };
    let (text, address) = (text.trim(), bare(address));
    let looks_like_one = text.contains("://") || text.contains('@') || names_a_host(text);
    looks_like_one && bare(text) != address && bare(text) != host(&address)
}

fn host(address: &str) -> &str {
    address.split(['/', '?', '#']).next().unwrap_or(address)
}

/// Whether a text begins like `example.org`.
fn names_a_host(text: &str) -> bool {
    let name = host(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.contains('.')
        && name.chars().all(|c| c.is_alphanumeric() || "-.:".contains(c))
        && last.len() >= 2
        && last.chars().all(char::is_alphabetic)
}

/// The first address written out in a text, `https://…`, as a range of bytes.
pub(crate) fn find(text: &str) -> Option<std::ops::Range<usize>> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("://")?;
        let scheme = ["https", "http"].iter().find(|scheme| text[..at].ends_with(**scheme));
        let start = scheme.map(|scheme| at - scheme.len());
        let apart = |start: usize| !text[..start].ends_with(|c: char| c.is_alphanumeric());
        if let Some(start) = start.filter(|start| apart(*start)) {
            let end = start + address_len(&text[start..]);
            if end > at + 3 {
                return Some(start..end);
            }
        }
        from = at + 3;
    }
}

/// Bytes of the address a text begins with, 0 if it is too long for a link. A full stop or a bracket
/// after it is not part of it.
fn address_len(text: &str) -> usize {
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '|') || is_wide(c);
    let window = &text[..text.floor_char_boundary(ADDRESS_BYTES_MAX + 1)];
    let mut address = &window[..window.find(ends).unwrap_or(window.len())];
    if address.len() > ADDRESS_BYTES_MAX {
        return 0;
    }
    loop {
        let shorter = match address.chars().next_back() {
            Some('.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' | ']') => 1,
            Some(')') if address.matches(')').count() > address.matches('(').count() => 1,
            _ => return address.len(),
        };
        address = &address[..address.len() - shorter];
    }
}

/// Whether a character is written without spaces around it, so that an address ends before it.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_and_mail_are_links() {
        for good in ["https://example.org/a?b=c#d", "HTTP://example.org", "mailto:ada@example.org"]
        {
            assert_eq!(safe(good).as_deref(), Some(good));
        }
        for bad in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java\nscript:alert(1)",
            "\u{1}javascript:alert(1)",
            "data:text/html,<script>",
            "vbscript:x",
            "file:///etc/passwd",
            "//example.org",
            "docs/a.md",
            "https:evil",
            "x-http://a",
            "",
        ] {
            assert_eq!(safe(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_address_cannot_end_its_attribute_or_its_escape() {
        let hostile = "https://e.org/\x1b\\\u{9c}\x07\"><b a='漢 ";
        assert_eq!(
            safe(hostile).as_deref(),
            Some("https://e.org/%1B%5C%C2%9C%07%22%3E%3Cb%20a=%27%E6%BC%A2")
        );
    }

    #[test]
    fn an_address_of_2083_bytes_is_a_link_and_a_longer_one_is_not() {
        let address = |bytes: usize| format!("https://e.org/{}", "a".repeat(bytes - 14));
        assert!(safe(&address(2_082)).is_some());
        assert!(safe(&address(2_083)).is_some());
        assert!(safe(&address(2_084)).is_none());
    }

    #[test]
    fn a_text_that_names_another_place_misleads() {
        for (text, address) in [
            ("https://bank.com", "https://evil.org"),
            ("bank.com", "https://evil.org/bank.com"),
            ("ada@bank.com", "mailto:eve@evil.org"),
            ("http://bank.com@evil.org", "https://bank.com"),
        ] {
            assert!(misleads(text, address), "{text}");
        }
        for (text, address) in [
            ("the docs", "https://example.org"),
            ("https://example.org", "https://example.org/"),
            ("example.org", "https://example.org/deep/page"),
            ("ada@example.org", "mailto:ada@example.org"),
            ("e.g. this", "https://example.org"),
        ] {
            assert!(!misleads(text, address), "{text}");
        }
    }

    #[test]
    fn an_address_in_a_sentence_ends_where_the_sentence_continues() {
        for (text, address) in [
            ("see https://e.org/a_b, or", "https://e.org/a_b"),
            ("(https://e.org/a(b)).", "https://e.org/a(b)"),
            ("<http://e.org>", "http://e.org"),
            ("見て https://e.org/漢字。", "https://e.org/"),
            ("ftp://e.org then https://e.org", "https://e.org"),
        ] {
            assert_eq!(find(text).map(|range| &text[range]), Some(address));
        }
        for none in ["https://", "xhttps://e.org", "://", "https://."] {
            assert_eq!(find(none), None, "{none}");
        }
    }
}
