//! Telegram accepts everything a model can write, completely.

use super::checker::check;
use super::*;

fn html(text: &str) -> Vec<String> {
    Rich::markdown(text).parts().into_iter().map(|part| part.html).collect()
}

fn one(text: &str) -> String {
    let parts = html(text);
    assert_eq!(parts.len(), 1, "{parts:?}");
    check(&parts[0]).expect("good");
    parts[0].clone()
}

#[test]
fn markdown_keeps_its_look() {
    assert_eq!(
        one("**bold** *it* ~~no~~ `a<b`"),
        "<b>bold</b> <i>it</i> <s>no</s> <code>a&lt;b</code>"
    );
    assert_eq!(one("# Title\n\ntext"), "<b>Title</b>\n\ntext");
    assert_eq!(one("- a\n- b\n  1. c\n  2. d"), "• a\n• b\n   1. c\n   2. d");
    assert_eq!(one("one\n\ntwo\nthree"), "one\n\ntwo\nthree");
    assert_eq!(one("> said\n\nme"), "<blockquote>said</blockquote>\n\nme");
    assert_eq!(
        one("```rust\nfn a() {}\n\n  b\n```\nafter"),
        "<pre><code class=\"language-rust\">fn a() {}\n\n  b</code></pre>\n\nafter"
            .replace("b</code>", "b\n</code>")
            .replace("</pre>\n\nafter", "</pre>\nafter")
    );
    assert_eq!(
        one("[x](https://e.org/?a=1&b=\"2\")"),
        "<a href=\"https://e.org/?a=1&amp;b=&quot;2&quot;\">x</a>"
    );
    assert_eq!(one("[x](javascript:alert)"), "x", "nowhere people should be led");
    assert_eq!(one("**[a `b` c](http://e.org)**").matches("<code>").count(), 1);
    assert!(one("| a | b |\n|---|---|\n| 1 | 2 |").starts_with("<pre>| a | b |"));
    assert_eq!(
        one("<b>not ours</b> & <script>"),
        "&lt;b&gt;not ours&lt;/b&gt; &amp; &lt;script&gt;"
    );
}

#[test]
fn a_message_is_cut_at_4096_utf16_units_and_not_before() {
    for unit in ["a", "é", "🧵"] {
        let width = unit.encode_utf16().count();
        for units in [4_095, 4_096, 4_097, 8_192, 8_193] {
            let text = unit.repeat(units / width);
            let parts = Rich::plain(text.clone()).parts();
            assert_eq!(parts.len(), text.encode_utf16().count().div_ceil(4_096), "{unit} {units}");
            let joined: String = parts.iter().map(|part| part.plain.as_str()).collect();
            assert_eq!(joined, text);
            for part in parts {
                check(&part.html).expect("good");
            }
        }
    }
}

#[test]
fn a_block_of_code_that_is_cut_continues_as_one() {
    let code: String = (0..600).map(|line| format!("    line {line} <&>\n")).collect();
    let parts = html(&format!("Before.\n\n```rust\n{code}```\n\nAfter."));
    assert!(parts.len() > 2, "{}", parts.len());
    for part in &parts {
        check(part).expect("good");
    }
    for part in &parts[..parts.len() - 1] {
        assert!(part.ends_with("</code></pre>"), "closed where it is cut");
    }
    for part in &parts[1..] {
        assert!(
            part.starts_with("<pre><code class=\"language-rust\">    line "),
            "opened again: {part:.60}"
        );
    }
    let said: String =
        parts.iter().map(|part| check(part).expect("good")).collect::<Vec<_>>().join("\n");
    for line in 0..600 {
        assert!(
            said.contains(&format!("    line {line} <&>\n"))
                || said.contains(&format!("    line {line} <&>")),
            "{line}"
        );
    }
}

#[test]
fn a_block_that_fits_a_message_is_not_cut() {
    let text = format!("{}\n\n```\n{}\n```", "word ".repeat(500), "x\n".repeat(1_500));
    let parts = html(&text);
    assert_eq!(parts.len(), 2);
    assert!(!parts[0].contains("<pre>") && parts[1].starts_with("<pre>"));
}

#[test]
fn invisible_text_is_not_a_message() {
    for text in ["", "  \n\t", "\u{200b}\u{feff}", "\u{2800}", "\0\u{7}", "```\n```", "# "] {
        assert_eq!(Rich::markdown(text).parts(), [], "{text:?}");
    }
    let parts = Rich::plain(format!("a{}b", " ".repeat(10_000))).parts();
    assert_eq!(parts.len(), 2, "a message of spaces is left out");
}

/// A pseudo-random sequence that is the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Pieces with a meaning in Markdown, HTML or Telegram, and some without.
const PIECES: [&str; 64] = [
    "*",
    "**",
    "***",
    "_",
    "__",
    "`",
    "``",
    "```",
    "```rust\n",
    "~~~",
    "~~",
    "~",
    "[",
    "](",
    ")",
    "![",
    "](http://e.org)",
    "<",
    ">",
    "</b>",
    "<b>",
    "<a href=\"x\">",
    "&",
    "&lt;",
    "&amp",
    "&#0;",
    "&nbsp;",
    "\"",
    "'",
    "\n",
    "\n\n",
    "\n> ",
    "\n- ",
    "\n1. ",
    "\n# ",
    "    ",
    "\t",
    "\\",
    "|",
    "\n| a | b |\n|---|---|\n",
    "---",
    "\n---\n",
    "a",
    "word ",
    "é",
    "日本",
    "🧵",
    "👩‍👩‍👧",
    "\u{301}",
    "\u{202e}",
    "\u{200b}",
    "\0",
    "\u{1b}[2J",
    "\u{fffd}",
    "https://e.org/?a=<b>&c",
    "@bot",
    "/delete",
    "tg://user?id=1",
    "</code>",
    "</pre>",
    "<pre><code class=\"language-",
    "```\"><b>\n",
    "[a](<http://e.org/\"x>)",
    "\r\n",
];

#[test]
fn telegram_accepts_everything_a_model_can_say() {
    let mut dice = Dice(0x5eed_cafe_f00d_1234);
    for round in 0..6_000 {
        let start = dice.0;
        let long = round % 20 == 0;
        let count = if long { 300 + dice.roll(2_000) } else { dice.roll(40) };
        let mut text = String::new();
        for _ in 0..count {
            text.push_str(PIECES[dice.roll(PIECES.len())]);
            if long && dice.roll(9) == 0 {
                text.push_str(&"filling ".repeat(dice.roll(40)));
            }
        }
        for part in Rich::markdown(&text).parts() {
            let seen = check(&part.html).unwrap_or_else(|wrong| {
                panic!("seed {start:#x}: {wrong}\n{text:?}\n{:?}", part.html)
            });
            assert_eq!(seen, part.plain, "seed {start:#x}: the plain text says the same");
        }
    }
}

#[test]
fn no_letter_of_a_text_is_lost_by_cutting() {
    let mut dice = Dice(0xabcd_ef01_2345_6789);
    for _ in 0..60 {
        let mut text = String::new();
        while text.len() < 20_000 {
            let word = ["alpha", "日本語", "🧵", "x"][dice.roll(4)].repeat(1 + dice.roll(30));
            text.push_str(&word);
            text.push_str([" ", "\n", "\n\n", ""][dice.roll(4)]);
        }
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        for rich in [
            Rich::plain(text.clone()),
            Rich::markdown(&text),
            Rich::markdown(&format!("```\n{text}\n```")),
        ] {
            let said: String = rich.parts().into_iter().map(|part| part.plain).collect();
            assert_eq!(letters(&said), letters(&text));
        }
    }
}
