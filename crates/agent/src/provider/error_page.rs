//! Extracts the message of an HTML error page.
//!
//! Gateways respond with HTML pages. Nobody wants to read one in a terminal, and its title says
//! enough.

/// The title of a page, otherwise its first text, which may be empty. `None` if this is not a page.
pub(super) fn text_of(page: &str) -> Option<String> {
    let page = page.trim_start();
    if !page.starts_with('<') {
        return None;
    }
    // Converting to lowercase ASCII does not move any byte.
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| {
        let from = at + lower[at..].find('>')? + 1;
        let to = from + lower[from..].find('<')?;
        Some(&page[from..to])
    });
    let title = title.map(folded).filter(|title| !title.is_empty());
    let mut texts =
        page.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| folded(text));
    title.or_else(|| texts.find(|text| !text.is_empty())).or_else(|| Some(String::new()))
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_page_is_used_or_its_first_text() {
        for (page, text) in [
            (
                "<!DOCTYPE html><html><head><TITLE>502 Bad\n Gateway</TITLE></head>",
                Some("502 Bad Gateway"),
            ),
            ("<html><body><h1></h1><p>Try &amp; wait</p></body>", Some("Try &amp; wait")),
            ("<html><title>", Some("")),
            ("<", Some("")),
            ("{\"error\":\"<b>\"}", None),
            ("plain text", None),
        ] {
            assert_eq!(text_of(page).as_deref(), text, "{page}");
        }
    }
}
