//! The whole sample as users see it: at 40, 80 and 200 columns, plain, in colour and as HTML.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p rethread-render --test snapshots` writes the files again; read
//! the difference before you keep it.

mod checks;

use std::path::Path;

use rethread_render::terminal::{Background, Colour, Style};
use rethread_render::{Document, html, terminal};

const SAMPLE: &str = include_str!("sample.md");

fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, found).expect("the snapshots can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} differs; this is what there is now:\n{found}");
}

fn drawn(width: usize) -> Style {
    Style { plain: false, links: true, ..Style::plain(width) }
}

#[test]
fn the_sample_is_wrapped_at_the_window() {
    let document = Document::parse(SAMPLE);
    for width in [40, 80, 200] {
        let out = terminal::render(&document, &drawn(width));
        compare(&format!("{width}.txt"), &checks::terminal(&out, width));
    }
}

#[test]
fn the_sample_can_be_read_aloud() {
    let out = terminal::render(&Document::parse(SAMPLE), &Style::plain(40));
    assert_eq!(checks::terminal(&out, 40), out, "plain text has no escape sequences");
    compare("plain.txt", &out);
}

#[test]
fn the_sample_has_the_colours_of_its_background() {
    let document = Document::parse(SAMPLE);
    for (name, background) in [("dark", Background::Dark), ("light", Background::Light)] {
        let style = Style { colour: Colour::Ansi16, background, ..drawn(80) };
        let out = terminal::render(&document, &style);
        checks::terminal(&out, 80);
        compare(&format!("{name}.txt"), &out.replace('\x1b', "\\e"));
    }
}

#[test]
fn the_sample_is_a_fragment_of_html() {
    let out = html::render(&Document::parse(SAMPLE), "sample-");
    checks::html(&out);
    compare("sample.html", &out);
}

#[test]
fn more_colours_change_the_colours_and_nothing_else() {
    let document = Document::parse(SAMPLE);
    let seen = |colour| {
        let style = Style { colour, ..drawn(80) };
        checks::terminal(&terminal::render(&document, &style), 80)
    };
    assert_eq!(seen(Colour::Ansi256), seen(Colour::Ansi16));
    assert_eq!(seen(Colour::TrueColour), seen(Colour::Ansi16));
}
