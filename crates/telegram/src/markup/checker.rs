//! Telegram's rules for HTML in messages, implemented independently of the code that generates such
//! HTML, to check it. <https://core.telegram.org/bots/api#html-style>

/// Tags that may hold other tags.
const STYLES: [&str; 9] = ["b", "strong", "i", "em", "u", "ins", "s", "strike", "del"];

/// The visible text, or Telegram's error.
pub(crate) fn check(html: &str) -> Result<String, String> {
    let mut seen = String::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(c) = rest.chars().next() {
        match c {
            '<' => {
                let end = rest.find('>').ok_or("can't parse entities: unclosed start tag")?;
                tag(&rest[1..end], &mut open)?;
                rest = &rest[end + 1..];
            }
            '&' => {
                let end = rest.find(';').ok_or("can't parse entities: a bare &")?;
                seen.push(match &rest[..=end] {
                    "&lt;" => '<',
                    "&gt;" => '>',
                    "&amp;" => '&',
                    "&quot;" => '"',
                    other => return Err(format!("can't parse entities: {other} is not known")),
                });
                rest = &rest[end + 1..];
            }
            '>' => return Err("can't parse entities: a bare >".into()),
            c => {
                seen.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    if let Some(tag) = open.last() {
        return Err(format!("can't parse entities: can't find end tag corresponding to {tag}"));
    }
    if seen.trim().is_empty() {
        return Err("message text is empty".into());
    }
    if seen.encode_utf16().count() > 4_096 {
        return Err("message is too long".into());
    }
    Ok(seen)
}

fn tag(inside: &str, open: &mut Vec<String>) -> Result<(), String> {
    if let Some(name) = inside.strip_prefix('/') {
        return match open.pop() {
            Some(last) if last == name => Ok(()),
            other => {
                Err(format!("can't parse entities: unexpected end tag {name}, open is {other:?}"))
            }
        };
    }
    let (name, attribute) = inside.split_once(' ').unwrap_or((inside, ""));
    let inner = open.last().map(String::as_str);
    if inner == Some("code") || inner == Some("pre") && name != "code" {
        return Err(format!("can't parse entities: {name} in {inner:?}"));
    }
    let good = match name {
        "a" => {
            let address = attribute.strip_prefix("href=\"").and_then(|a| a.strip_suffix('"'));
            address.is_some_and(|a| !a.is_empty() && !a.contains(['"', '<']))
        }
        "code" => {
            let in_block = inner == Some("pre");
            let class =
                attribute.strip_prefix("class=\"language-").and_then(|a| a.strip_suffix('"'));
            attribute.is_empty()
                || in_block && class.is_some_and(|class| !class.contains(['"', ' ', '&']))
        }
        "blockquote" => attribute.is_empty() && !open.iter().any(|tag| tag == "blockquote"),
        "pre" => attribute.is_empty(),
        name => attribute.is_empty() && STYLES.contains(&name),
    };
    if !good {
        return Err(format!("can't parse entities: unsupported start tag <{inside}>"));
    }
    open.push(name.to_owned());
    Ok(())
}
