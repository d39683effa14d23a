//! Text written to attack the renderer: it stays text, and is no slower than other text.

mod checks;
mod random;

use std::time::Instant;

use rethread_render::terminal::{Background, Colour, Style};
use rethread_render::{Document, Stream, html, terminal};

use random::Random;

fn styles(width: usize) -> [Style; 3] {
    let rich = Style {
        width,
        colour: Colour::TrueColour,
        background: Background::Light,
        links: true,
        plain: false,
    };
    [Style { colour: Colour::None, ..rich.clone() }, rich, Style::plain(width)]
}

/// Fails unless a text is harmless in every output. Returns what is seen on a terminal.
fn harmless(text: &str) -> String {
    let document = Document::parse(text);
    checks::html(&html::render(&document, "x-"));
    let mut seen = String::new();
    for width in [1, 20, 39, 40, 80] {
        for style in styles(width) {
            seen = checks::terminal(&terminal::render(&document, &style), width);
        }
    }
    seen
}

#[test]
fn no_escape_of_the_text_reaches_the_terminal() {
    for attack in [
        "\x1b[2J\x1b[H",
        "\x1b]0;title\x07",
        "\x1b]8;;https://evil.org\x1b\\click\x1b]8;;\x1b\\",
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1bP+q544e\x1b\\",
        "\x1b_payload\x1b\\",
        "\u{9b}31m",
        "\u{9d}0;title\u{9c}",
        "\u{90}x\u{9c}",
        "\x07\x08\x0b\x0c\x0e\x0f\x7f",
        "over\rwrite",
        "&#27;[31m &#x1b;]0;t&#7; &#155;31m",
    ] {
        let places = [
            attack.to_owned(),
            format!("# {attack}"),
            format!("**{attack}** `{attack}` ~~{attack}~~"),
            format!("[{attack}](https://e.org/{attack})"),
            format!("[a](<{attack}>) ![{attack}](b \"{attack}\")"),
            format!("```{attack}\n{attack}\n```"),
            format!("    {attack}"),
            format!("| {attack} |\n|---|\n| {attack} |"),
            format!("<div {attack}>\n{attack}"),
            format!("- {attack}\n> {attack}"),
            format!("[l]: https://e.org/{attack}\n\n[l]"),
            format!("https://e.org/{attack}"),
        ];
        places.iter().for_each(|text| drop(harmless(text)));
    }
}

#[test]
fn an_escape_is_shown_as_what_it_is() {
    assert_eq!(harmless("a \x1b[2Jb"), "a \\u{1b}[2Jb\n");
    assert_eq!(harmless("`\u{9b}31m`"), "`\\u{9b}31m`\n");
    assert_eq!(harmless("&#27;c"), "\\u{1b}c\n");
}

#[test]
fn direction_and_hidden_characters_are_shown_as_what_they_are() {
    assert_eq!(harmless("access \u{202e}nimda\u{202c}"), "access \\u{202e}nimda\\u{202c}\n");
    assert_eq!(harmless("a\u{2066}b\u{200b}c\u{feff}d"), "a\\u{2066}b\\u{200b}c\\u{feff}d\n");
    assert_eq!(harmless("x\u{e0068}\u{e0069}"), "x\\u{e0068}\\u{e0069}\n");
    assert_eq!(harmless("```\na\u{202e}b\n```"), "```\na\\u{202e}b\n```\n");
}

#[test]
fn no_markup_of_the_text_reaches_the_page() {
    for attack in [
        "<script>alert(1)</script>",
        "</script><script>",
        "</code></pre><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<!-- --><style>*{}</style>",
        "<![CDATA[<b>]]>",
        "&lt;script&gt;",
        "&#60;script&#62;",
        "\" onclick=\"alert(1)",
        "' onmouseover='alert(1)",
        "{.x onclick=alert(1)}",
        "`</code>`",
    ] {
        for text in [
            attack.to_owned(),
            format!("# {attack}"),
            format!("a {attack} b"),
            format!("[{attack}](https://e.org/{attack})"),
            format!("[a](https://e.org \"{attack}\")"),
            format!("```{attack}\n{attack}\n```"),
            format!("```html\n{attack}\n```"),
            format!("| {attack} |\n|---|\n| {attack} |"),
            format!("- [ ] {attack}"),
        ] {
            harmless(&text);
            let page = html::render(&Document::parse(&text), attack);
            checks::html(&page);
        }
    }
}

#[test]
fn an_address_that_runs_is_text_and_never_a_link() {
    for address in [
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        "java&#10;script:alert(1)",
        "&#106;avascript:alert(1)",
        "vbscript:x",
        "data:text/html,b",
        "file:///etc/passwd",
        "//evil.org",
    ] {
        let document = Document::parse(&format!("[click](<{address}>)"));
        let page = html::render(&document, "");
        assert!(!page.contains("<a "), "{page}");
        let style = &styles(80)[1];
        let out = terminal::render(&document, style);
        assert!(!out.contains("\x1b]8"), "{out:?}");
        assert!(checks::terminal(&out, 80).starts_with("click ("), "{out:?}");
    }
}

#[test]
fn a_link_that_pretends_to_lead_elsewhere_says_where_it_leads() {
    let document = Document::parse("[https://bank.com](https://evil.org/x)");
    let seen = checks::terminal(&terminal::render(&document, &styles(80)[1]), 80);
    assert_eq!(seen, "https://bank.com (https://evil.org/x)\n");
    assert!(html::render(&document, "").contains("</a> (https://evil.org/x)"));
}

#[test]
fn nothing_is_loaded_by_opening_a_page() {
    let page = html::render(&Document::parse("![a](https://evil.org/?secret) <img src=x>"), "");
    assert!(!page.contains("<img"), "{page}");
    for forbidden in ["@import", "url(", "<", "expression", "javascript"] {
        assert!(!html::STYLE.contains(forbidden), "{forbidden}");
    }
}

/// Texts that make careless parsers and renderers slow or deep, about as long as asked for.
fn heavy(bytes: usize) -> Vec<(&'static str, String)> {
    let repeat = |piece: &str| piece.repeat(bytes / piece.len());
    let root = bytes.isqrt();
    vec![
        ("quotes", repeat("> ") + "a"),
        ("quotes without spaces", repeat(">") + "a"),
        ("bullets", repeat("- ") + "a"),
        ("numbers", repeat("1. ") + "a"),
        ("quotes and bullets", repeat("> - ") + "a"),
        ("bullets and blank lines", repeat("- ")[..bytes / 2].to_owned() + &"\n".repeat(bytes / 2)),
        ("steps", (0..root).map(|depth| "  ".repeat(depth / 2) + "- a\n").collect()),
        ("emphasis", repeat("*a _b ")),
        ("stars", repeat("*")),
        ("stars and letters", repeat("**a")),
        ("brackets", repeat("[")),
        ("links in links", repeat("[a](")),
        ("images", repeat("![")),
        ("backticks", (1..root).map(|count| "`".repeat(count) + " ").collect()),
        ("tildes", repeat("~~a ")),
        ("angles", repeat("<")),
        ("comments", repeat("<!--")),
        ("declarations", repeat("<?")),
        ("entities", repeat("&#27;")),
        ("definitions", repeat("[a]: b\n")),
        ("references", "[a]: b\n\n".to_owned() + &repeat("[a]")),
        ("addresses", repeat("https://")),
        ("addresses with brackets", "https://e.org/".to_owned() + &repeat(")")),
        ("one word", repeat("a")),
        ("one line of words", repeat("word ")),
        ("one line of CJK", repeat("漢")),
        ("one line of emoji", repeat("👨‍👩‍👧‍👦")),
        ("one character", "e".to_owned() + &repeat("\u{301}")),
        ("one line of code", "```rust\n".to_owned() + &repeat("let ")),
        ("one line of wide code", "```\n".to_owned() + &repeat("漢")),
        ("lines of code", "```\n".to_owned() + &repeat("a\n")),
        ("tabs", "```\n".to_owned() + &repeat("\t")),
        ("spaces", repeat(" ") + "a"),
        ("rows", "|a|b|\n|-|-|\n".to_owned() + &repeat("|1|2|\n")),
        ("columns", repeat("|a") + "|\n" + &repeat("|-") + "|\n" + &repeat("|1") + "|\n"),
        (
            "columns and short rows",
            "|a".repeat(root) + "|\n" + &"|-".repeat(root) + "|\n" + &"|\n".repeat(bytes / 2),
        ),
        ("headings", repeat("# a\n")),
        ("the same heading", repeat("# \n")),
        ("rules", repeat("***\n")),
        ("escapes", repeat("\x1b[")),
        ("tasks", repeat("- [ ] ")),
        ("line ends", repeat("\r")),
        ("broken lists", repeat("-\n\n")),
    ]
}

#[test]
fn any_text_of_a_megabyte_is_rendered() {
    for (name, text) in heavy(1_000_000) {
        let started = Instant::now();
        let document = Document::parse(&text);
        let parsed = started.elapsed();
        let [_, rich, _] = styles(80);
        let out = terminal::render(&document, &rich);
        let written = started.elapsed();
        let page = html::render(&document, "");
        let all = started.elapsed();
        println!("{name:28} parsed {parsed:>10.1?} written {written:>10.1?} all {all:>10.1?}");
        assert!(all.as_secs() < 20, "{name} takes {all:?}");
        checks::terminal(&out, 80);
        checks::html(&page);
    }
}

#[test]
fn what_is_nested_too_deep_is_shown_less_deep() {
    for mark in ["> ", "- ", "1. ", "> - "] {
        let text = mark.repeat(10_000) + "deep";
        assert!(harmless(&text).contains("deep"), "{mark}");
        let page = html::render(&Document::parse(&text), "");
        assert!(page.contains("deep") && page.len() < 2_000, "{mark}: {} bytes", page.len());
    }
}

#[test]
fn ten_thousand_levels_need_no_deep_stack() {
    let render = || {
        for (name, text) in heavy(20_000) {
            let document = Document::parse(&text);
            for style in styles(40) {
                let out = terminal::render(&document, &style);
                assert!(out.len() < 4_000_000, "{name} grows to {} bytes", out.len());
            }
            checks::html(&html::render(&document, ""));
            let mut stream = Stream::new(styles(40)[1].clone());
            for piece in text.as_bytes().chunks(1_000) {
                stream.push(&String::from_utf8_lossy(piece));
                stream.open();
            }
            stream.finish();
        }
    };
    let small = std::thread::Builder::new().stack_size(256 * 1_024);
    small.spawn(render).unwrap().join().unwrap();
}

#[test]
fn random_text_is_harmless() {
    for seed in 0..3_000 {
        let text = Random::new(seed).markdown();
        let done = std::panic::catch_unwind(|| drop(harmless(&text)));
        assert!(done.is_ok(), "seed {seed}: {text:?}");
    }
}
