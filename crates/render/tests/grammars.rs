//! The grammars are loaded lazily. This is the only test of its binary: another one may have
//! loaded them already.

use rethread_render::terminal::{Colour, Style, render};
use rethread_render::{Document, grammars_are_loaded};

#[test]
fn nothing_is_loaded_before_the_first_fence_that_needs_it() {
    let style = Style { colour: Colour::Ansi16, ..Style::plain(80) };
    let show = |text: &str, style: &Style| drop(render(&Document::parse(text), style));
    show("# Title\n\n*text* `code`\n\n    indented\n\n```\nplain\n```\n```text\na\n```", &style);
    show("```rust\nfn a() {}\n```", &Style::plain(80));
    assert!(!grammars_are_loaded());
    show("```rust\nfn a() {}\n```", &style);
    assert!(grammars_are_loaded());
}
