//! Any text through the renderer: the output must be harmless.

#[path = "../../crates/render/tests/checks/mod.rs"]
mod checks;

use rethread_render::terminal::{Background, Colour, Style};
use rethread_render::{Diff, Document, Stream, html, terminal};

/// The text on terminals of several kinds and widths. The first byte chooses.
pub fn on_a_terminal(data: &[u8]) {
    let Some((style, text)) = styled(data) else { return };
    let out = terminal::render(&Document::parse(&text), &style);
    let seen = checks::terminal(&out, style.width);
    assert!(style.colour != Colour::None || style.links || seen == out, "an escape nobody wanted");
}

/// The text as a page, and as one side of a diff.
pub fn as_a_page(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    checks::html(&html::render(&Document::parse(&text), "x-"));
    let (old, new) = data.split_at(data.len() / 2);
    let diff = Diff::new(old, new);
    checks::html(&html::render_diff(&diff));
    checks::terminal(&terminal::render_diff(&diff, &Style::plain(40)), 40);
}

/// The text in pieces; together they must give what the whole gives. The second byte chooses the cuts.
pub fn as_it_arrives(data: &[u8]) {
    let Some((style, text)) = styled(data) else { return };
    // A stream does not look back for the definition of a label, so there are none. A long text is
    // rendered again and again, and finds nothing more.
    let text: String = text.replace("]:", "] :").chars().take(2_000).collect();
    let mut stream = Stream::new(style.clone());
    let mut cuts = u32::from(data.get(1).copied().unwrap_or_default()) + 1;
    let (mut out, mut rest) = (String::new(), text.as_str());
    while !rest.is_empty() {
        cuts = cuts.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (cuts >> 24) as usize % 40 + 1;
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(length.min(rest.len())));
        out += &stream.push(piece);
        rest = after;
        if cuts & 0x30_0000 == 0 {
            checks::terminal(&stream.open(), style.width);
        }
    }
    out += &stream.finish();
    assert_eq!(out, terminal::render(&Document::parse(&text), &style), "{text:?}");
}

fn styled(data: &[u8]) -> Option<(Style, String)> {
    let (choice, text) = data.split_first()?;
    let style = Style {
        width: [1, 20, 33, 40, 80, 200, 1_000, 41][usize::from(choice & 7)],
        colour: [Colour::None, Colour::Ansi16, Colour::Ansi256, Colour::TrueColour]
            [usize::from(choice >> 3 & 3)],
        background: if choice & 0x20 == 0 { Background::Dark } else { Background::Light },
        links: choice & 0x40 == 0,
        plain: choice & 0x80 != 0,
    };
    Some((style, String::from_utf8_lossy(text).into_owned()))
}
