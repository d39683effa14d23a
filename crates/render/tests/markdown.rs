//! What each thing in Markdown becomes, in both outputs.

mod checks;

use rethread_render::terminal::{Background, Colour, Style};
use rethread_render::{Document, html, terminal};

/// What is seen on a terminal without colours, but with links and drawn marks.
fn seen(text: &str, width: usize) -> String {
    let style = Style { links: true, plain: false, ..Style::plain(width) };
    checks::terminal(&terminal::render(&Document::parse(text), &style), width)
}

fn page(text: &str) -> String {
    let page = html::render(&Document::parse(text), "m-");
    checks::html(&page);
    page
}

#[test]
fn emphasis_is_a_style_and_where_there_is_none_the_words_remain() {
    let text = "**bold** *italic* ***both*** ~~gone~~ `code`";
    assert_eq!(seen(text, 80), "bold italic both ~~gone~~ `code`\n");
    let style = Style { colour: Colour::Ansi16, plain: false, ..Style::plain(80) };
    let out = terminal::render(&Document::parse(text), &style).replace('\x1b', "\\e");
    let expected = "\\e[1mbold\\e[0m \\e[3mitalic\\e[0m \\e[1;3mboth\\e[0m \\e[9mgone\\e[0m \
                    \\e[35mcode\\e[0m\n";
    assert_eq!(out, expected);
    let expected = "<p dir=\"auto\"><strong>bold</strong> <em>italic</em> \
                    <strong><em>both</em></strong> <del>gone</del> <code>code</code></p>\n";
    assert_eq!(page(text), expected);
}

#[test]
fn a_link_is_a_link_on_every_line_it_is_wrapped_to() {
    let style = Style { links: true, plain: false, ..Style::plain(20) };
    let text = "[one two three four five](https://e.org)";
    let out = terminal::render(&Document::parse(text), &style);
    let opened = out.matches("\x1b]8;id=").count();
    assert_eq!((opened, out.lines().count()), (2, 2), "{out:?}");
    let ids: Vec<&str> =
        out.split("id=").skip(1).filter_map(|rest| rest.split(';').next()).collect();
    assert_eq!(ids[0], ids[1], "both parts light up together");
}

#[test]
fn the_address_is_written_out_where_there_are_no_links() {
    let out = |text| terminal::render(&Document::parse(text), &Style::plain(80));
    assert_eq!(out("[docs](https://e.org/a)"), "docs (https://e.org/a)\n");
    assert_eq!(out("<https://e.org/a> <ada@e.org>"), "https://e.org/a ada@e.org\n");
    assert_eq!(out("see https://e.org/a_b."), "see https://e.org/a_b.\n");
    assert_eq!(out("[below](#part)"), "below\n");
}

#[test]
fn addresses_in_a_text_are_links_on_a_page() {
    let link = |address| format!("<a rel=\"noreferrer nofollow\" href=\"{address}\">");
    assert!(page("see https://e.org/a_b_c.").contains(&link("https://e.org/a_b_c")));
    assert!(page("<ada@e.org>").contains(&link("mailto:ada@e.org")));
    assert!(!page("`https://e.org`").contains("<a"));
}

#[test]
fn headings_have_ids_and_links_find_them() {
    let expected = "<h2 id=\"m-the-plan\" dir=\"auto\">The plan!</h2>\n\
                    <h2 id=\"m-the-plan-1\" dir=\"auto\">The <em>plan</em></h2>\n\
                    <h3 id=\"m-section\" dir=\"auto\">!</h3>\n\
                    <p dir=\"auto\"><a href=\"#m-the-plan\">up</a></p>\n";
    assert_eq!(page("## The plan!\n## The *plan*\n### !\n\n[up](#the-plan)"), expected);
}

#[test]
fn lists_hang_and_keep_the_numbers_and_blank_lines_they_were_written_with() {
    let text = "9. nine\n10. ten is long enough to be wrapped\n    - in ten\n\n11. apart\n";
    let expected = "\
9. nine
10. ten is long enough to be
    wrapped
    ◦ in ten

11. apart
";
    assert_eq!(seen(text, 30), expected);
    assert!(page(text).starts_with("<ol start=\"9\">\n<li dir=\"auto\"><p dir=\"auto\">nine</p>"));
    assert_eq!(
        page("- a\n- b\n"),
        "<ul>\n<li dir=\"auto\">a</li>\n<li dir=\"auto\">b</li>\n</ul>\n"
    );
}

#[test]
fn a_blank_line_before_a_list_is_not_one_before_the_list_in_it() {
    assert_eq!(seen("a\n\n- b\n\t- c\n", 20), "a\n\n• b\n  ◦ c\n", "indented by a tab");
    assert_eq!(seen("a\r\r- b\r  - c\r", 20), "a\n\n• b\n  ◦ c\n", "carriage returns");
}

#[test]
fn an_empty_item_keeps_its_place() {
    assert_eq!(seen("- a\n-\n- c\n", 20), "• a\n•\n• c\n");
}

#[test]
fn tasks_have_boxes() {
    assert_eq!(seen("- [x] done\n- [ ] open\n", 20), "[x] done\n[ ] open\n");
    let expected = "<ul>\n<li class=\"task\" dir=\"auto\">\
                    <input type=\"checkbox\" disabled checked> done</li>\n</ul>\n";
    assert_eq!(page("- [x] done\n"), expected);
}

#[test]
fn a_task_in_a_numbered_list_keeps_its_number() {
    let shown = "3. [x] done\n4. [ ] open, with\n       more\n";
    assert_eq!(seen("3. [x] done\n4. [ ] open, with more\n", 20), shown);
    let expected = "<ol start=\"3\">\n<li dir=\"auto\">\
                    <input type=\"checkbox\" disabled checked> done</li>\n</ol>\n";
    assert_eq!(page("3. [x] done\n"), expected);
}

#[test]
fn a_box_and_its_text_are_on_one_line_in_a_list_with_blank_lines_too() {
    let expected = "<ul>\n<li class=\"task\" dir=\"auto\"><p dir=\"auto\">\
                    <input type=\"checkbox\" disabled> one</p>\n<p dir=\"auto\">more</p>\n</li>\n\
                    <li dir=\"auto\"><p dir=\"auto\">two</p>\n</li>\n</ul>\n";
    assert_eq!(page("- [ ] one\n\n  more\n- two\n"), expected);
}

#[test]
fn code_keeps_every_space_and_no_frame_is_copied_with_it() {
    let style = Style { colour: Colour::Ansi16, plain: false, ..Style::plain(40) };
    let out = terminal::render(&Document::parse("```\nif a:\n    b\n\n  c\n\n\n```\n"), &style);
    assert_eq!(checks::terminal(&out, 40), "if a:\n    b\n\n  c\n");
    assert_eq!(seen("```py x\nif a:\n```\n", 40), "```py\nif a:\n```\n", "fences without colours");
}

#[test]
fn highlighting_is_the_same_in_both_outputs() {
    let text = "```rust\nfn main() {} // end\n```\n";
    let expected = "<pre tabindex=\"0\"><code class=\"language-rust\">\
        <span class=\"keyword\">fn</span> <span class=\"function\">main</span>() {} \
        <span class=\"comment\">//</span><span class=\"comment\"> end</span>\n</code></pre>\n";
    assert_eq!(page(text), expected);
    let style = Style {
        colour: Colour::TrueColour,
        background: Background::Light,
        plain: false,
        ..Style::plain(80)
    };
    let out = terminal::render(&Document::parse(text), &style).replace('\x1b', "\\e");
    let expected = "\\e[38;2;207;34;46mfn\\e[0m \\e[38;2;130;80;223mmain\\e[0m() {} \
                    \\e[38;2;97;106;117m// end\\e[0m\n";
    assert_eq!(out, expected);
}

#[test]
fn a_table_fits_its_window() {
    let text = "| Name | What it does |\n|---|--:|\n| a | one |\n| 漢字 | `b` |\n";
    let expected = "\
Name │ What it does
─────┼─────────────
a    │          one
漢字 │          `b`
";
    assert_eq!(seen(text, 40), expected);
    let expected = "\
Name: a
What it does: one

Name: 漢字
What it does: `b`
";
    assert_eq!(seen(text, 39), expected);
    let wide = "| a | b |\n|---|---|\n| short | a long cell that has to be wrapped here |\n| x | y<br>z |\n";
    let expected = "\
a     │ b
──────┼─────────────────────────────────
short │ a long cell that has to be
      │ wrapped here
──────┼─────────────────────────────────
x     │ y
      │ z
";
    assert_eq!(seen(wide, 40), expected);
}

#[test]
fn a_table_with_too_many_columns_is_read_row_by_row() {
    let row = |cell: &str| format!("|{}\n", format!(" {cell} |").repeat(12));
    let text = row("a heading") + &row("---") + &row("some text");
    let found = seen(&text, 80);
    assert_eq!(found, "a heading: some text\n".repeat(12));
    assert!(seen(&text, 200).contains('┼'));
}

#[test]
fn raw_html_is_text() {
    assert_eq!(seen("<div>\n  <b>a</b>\n</div>\n", 40), "<div>\n  <b>a</b>\n</div>\n");
    assert_eq!(seen("a <b>c</b> d", 40), "a <b>c</b> d\n");
    assert_eq!(page("a <b>"), "<p dir=\"auto\">a &lt;b&gt;</p>\n");
    assert_eq!(seen("one<br>two<BR/>three", 40), "one\ntwo\nthree\n");
}

#[test]
fn hard_breaks_stay_and_soft_ones_do_not() {
    assert_eq!(seen("a  \nb\nc\\\nd", 40), "a\nb c\nd\n");
    assert_eq!(page("a  \nb\nc"), "<p dir=\"auto\">a<br>\nb c</p>\n");
}

#[test]
fn deep_nesting_leaves_half_of_the_window_for_words() {
    let text = "> ".repeat(30) + &"word ".repeat(8);
    let found = seen(&text, 40);
    assert!(
        found.lines().all(|line| line.starts_with("│ │ │ │ │ │ │ │ │ │ word word word")),
        "{found}"
    );
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(seen("", 80), "");
    assert_eq!(page(" \n\n"), "");
}

#[test]
fn the_stylesheet_has_both_backgrounds_and_no_more_specific_rules_than_its_class() {
    assert!(html::STYLE.contains("prefers-color-scheme: dark"));
    for line in html::STYLE.lines().filter(|line| line.contains('{')) {
        let line = line.trim();
        assert!(line.starts_with(".rendered") || line.starts_with("@media"), "{line}");
    }
}
