//! How a change is shown before the user agrees to it.

mod checks;

use std::time::Instant;

use rethread_render::terminal::{Background, Colour, Style};
use rethread_render::{Diff, html, terminal};

fn plain(old: &str, new: &str) -> String {
    let diff = Diff::new(old.as_bytes(), new.as_bytes());
    checks::html(&html::render_diff(&diff));
    for width in [1, 20, 80] {
        let style = Style { width, colour: Colour::Ansi16, plain: false, ..Style::plain(width) };
        checks::terminal(&terminal::render_diff(&diff, &style), width);
    }
    checks::terminal(&terminal::render_diff(&diff, &Style::plain(40)), 40)
}

fn numbered(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}

#[test]
fn changes_are_shown_with_three_lines_around_them_and_their_numbers() {
    let old = numbered(20);
    let new = old.replace("line 3\n", "line three\n").replace("line 15\n", "line 15\nand a half\n");
    let expected = "\
+2 -1
 1   line 1
 2   line 2
 3 - line 3
 3 + line three
 4   line 4
 5   line 5
 6   line 6
...
13   line 13
14   line 14
15   line 15
16 + and a half
17   line 16
18   line 17
19   line 18
";
    assert_eq!(plain(&old, &new), expected);
}

#[test]
fn an_excerpt_has_no_numbers_and_its_end_is_not_the_end_of_the_file() {
    let style = Style::plain(40);
    let shown = |old: &str, new: &str| {
        let diff = Diff::of_excerpts(old.as_bytes(), new.as_bytes());
        let page = html::render_diff(&diff);
        checks::html(&page);
        assert!(page.contains("<td class=\"place\"></td>"), "{page}");
        terminal::render_diff(&diff, &style)
    };
    assert_eq!(shown("one\ntwo", "one\ntwo\nthree"), "+1 -0\n    one\n    two\n  + three\n");
    assert_eq!(shown("one", "one\n"), "+1 -1\n  - one\n  + one\n");
    assert_eq!(shown("", "one"), "+1 -0\n  + one\n");
}

#[test]
fn changes_inside_a_line_are_highlighted() {
    let diff = Diff::new(b"let total = count;\n", b"let total = sum;\n");
    let background = Background::Dark;
    let style = Style { colour: Colour::Ansi16, background, plain: false, ..Style::plain(80) };
    let expected = "\
\\e[92m+1\\e[0m\\e[2m \\e[0m\\e[91m-1\\e[0m
\\e[2m1 \\e[0m\\e[91m- let total = \\e[0m\\e[1;4;91mcount\\e[0m\\e[91m;\\e[0m
\\e[2m1 \\e[0m\\e[92m+ let total = \\e[0m\\e[1;4;92msum\\e[0m\\e[92m;\\e[0m
";
    assert_eq!(terminal::render_diff(&diff, &style).replace('\x1b', "\\e"), expected);
    let page = html::render_diff(&diff);
    assert!(page.contains("<td>-let total = <del>count</del>;</td>"), "{page}");
    assert!(page.contains("<td>+let total = <ins>sum</ins>;</td>"), "{page}");
}

#[test]
fn a_missing_newline_at_the_end_is_shown() {
    assert_eq!(plain("a\n", "a"), "+1 -1\n1 - a\n1 + a\n  \\ no newline at end\n");
    assert_eq!(plain("", "a\n"), "+1 -0\n1 + a\n");
    assert_eq!(plain("a\n", ""), "+0 -1\n1 - a\n");
}

#[test]
fn the_same_text_has_no_changes() {
    assert_eq!(plain("a\n", "a\n"), "no changes\n");
    assert_eq!(plain("", ""), "no changes\n");
}

#[test]
fn line_endings_are_shown_where_they_are_what_differs() {
    assert_eq!(plain("a\r\n", "a\n"), "+1 -1\n1 - a\\u{d}\n1 + a\n");
    assert_eq!(plain("a\r\nb\r\n", "a\r\nc\r\n"), "+1 -1\n1   a\n2 - b\n2 + c\n");
}

#[test]
fn binary_and_very_large_files_are_summarised() {
    assert_eq!(plain("a\0b", "text"), "binary file: 3 -> 4 bytes\n");
    let invalid = Diff::new(b"text", &[0xff, 0xfe]);
    let found = terminal::render_diff(&invalid, &Style::plain(40));
    assert_eq!(found, "binary file: 4 -> 2 bytes\n");
    let limit = 2 * 1_024 * 1_024;
    for (bytes, is_shown) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
        let new = "a\n".repeat(bytes / 2 + 1)[..bytes].to_owned();
        assert_eq!(plain("b\n", &new).starts_with('+'), is_shown, "{bytes} bytes");
    }
}

#[test]
fn a_long_diff_says_how_much_it_leaves_out() {
    for (lines, end) in [(1_999, "1999 + a\n"), (2_000, "2000 + a\n"), (2_001, "1 more line\n")] {
        let found = plain("", &"a\n".repeat(lines));
        assert!(found.ends_with(end), "{lines}: {:?}", found.lines().next_back());
    }
}

#[test]
fn long_lines_are_wrapped_and_tabs_have_a_width() {
    let long = "word ".repeat(10) + "end\n";
    let expected = "\
+1 -0
1 + word word word word word word word w
    ord word word end
";
    assert_eq!(plain("", &long), expected);
    assert_eq!(plain("", "\ta\tb\n"), "+1 -0\n1 +     a   b\n");
}

#[test]
fn hostile_files_stay_text() {
    let hostile = "\x1b[2J\u{9b}31m\u{202e}</table><script>alert(1)</script>\x07\n";
    assert!(plain("", hostile).contains("\\u{1b}[2J\\u{9b}31m\\u{202e}"));
    plain(hostile, &hostile.repeat(3));
    plain("a\rb\rc", "a\rb\rd");
}

#[test]
fn texts_that_are_hard_to_compare_take_no_longer_than_allowed() {
    let lines = |step: usize| -> String {
        (0..100_000).map(|line| format!("{}\n", line * step % 1_009)).collect()
    };
    let words = |step: usize| -> String {
        (0..50)
            .map(|_| {
                (0..2_000).map(|word| format!("{} ", word * step % 997)).collect::<String>() + "\n"
            })
            .collect()
    };
    for (old, new) in [
        (lines(7), lines(11)),
        (words(7), words(11)),
        ("a".repeat(2_000_000), "b".repeat(2_000_000)),
    ] {
        let started = Instant::now();
        let diff = Diff::new(old.as_bytes(), new.as_bytes());
        let took = started.elapsed();
        println!("+{} -{} in {took:.1?}", diff.added(), diff.removed());
        assert!(took.as_secs() < 3, "{took:?}");
        plain(&old, &new);
    }
}
