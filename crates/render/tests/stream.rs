//! However a text is split, and however often the window is resized, nothing is lost and nothing is
//! shown twice.

mod checks;
mod random;

use rethread_render::terminal::{Colour, Style};
use rethread_render::{Document, Stream, terminal};

use random::Random;

const SAMPLE: &str = include_str!("sample.md");

fn styles() -> [Style; 3] {
    let drawn = Style { colour: Colour::Ansi256, plain: false, links: true, ..Style::plain(80) };
    [drawn.clone(), Style { width: 40, ..drawn }, Style::plain(60)]
}

/// The finished lines of a text that arrives in pieces of these lengths.
fn streamed(text: &str, style: &Style, mut next: impl FnMut() -> usize) -> String {
    let mut stream = Stream::new(style.clone());
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(next().min(rest.len())));
        out += &stream.push(piece);
        rest = after;
    }
    out + &stream.finish()
}

#[test]
fn any_cut_of_a_text_gives_the_lines_of_the_whole() {
    for style in styles() {
        let whole = terminal::render(&Document::parse(SAMPLE), &style);
        for length in 1..80 {
            assert_eq!(streamed(SAMPLE, &style, || length), whole, "pieces of {length} bytes");
        }
    }
}

#[test]
fn any_cut_of_any_text_gives_the_lines_of_the_whole() {
    let style = Style { colour: Colour::Ansi16, plain: false, ..Style::plain(40) };
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let text = random.markdown();
        let whole = terminal::render(&Document::parse(&text), &style);
        let found = streamed(&text, &style, || random.below(12) + 1);
        assert_eq!(found, whole, "seed {seed}: {text:?}");
    }
}

#[test]
fn finished_and_open_lines_together_are_the_text_so_far() {
    for style in styles() {
        let mut stream = Stream::new(style.clone());
        let mut finished = String::new();
        for at in (0..SAMPLE.len()).filter(|at| SAMPLE.is_char_boundary(*at)) {
            let next = SAMPLE.ceil_char_boundary(at + 1);
            finished += &stream.push(&SAMPLE[at..next]);
            let now = terminal::render(&Document::parse(&SAMPLE[..next]), &style);
            assert_eq!(format!("{finished}{}", stream.open()), now, "after {next} bytes");
        }
    }
}

#[test]
fn a_block_is_finished_as_soon_as_nothing_can_change_it() {
    let mut stream = Stream::new(Style::plain(40));
    for (text, finished) in [
        ("A paragraph", ""),
        (" that\nruns.\n", ""),
        ("\n", "A paragraph that runs.\n"),
        ("# Title\n", "\n# Title\n"),
        ("- one\n", ""),
        ("- two\n", "\n- one\n"),
        ("\n", "- two\n"),
        ("```rust\n", ""),
        ("let a = 1;\n", "\n```rust\nlet a = 1;\n"),
        ("let b = 2;\n", "let b = 2;\n"),
        ("\n", ""),
        ("let c = 3;\n", "\nlet c = 3;\n"),
        ("```\n", ""),
        ("| a | b |\n", "```\n"),
        ("|---|---|\n", ""),
        ("| 1 | 2 |\n", ""),
        ("\n", "\na: 1\nb: 2\n"),
        ("> quote\n", ""),
        ("\nend", "\n> quote\n"),
    ] {
        assert_eq!(stream.push(text), finished, "{text:?}");
    }
    assert_eq!(stream.finish(), "\nend\n");
}

#[test]
fn a_resize_loses_nothing() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    // Words longer than a line, rules and tables depend on the width, so the text has none.
    let text = "One *two* three four.\n\n- five six seven\n  - eight nine ten eleven\n\n\
                > twelve thirteen\n\n```rust\nfn main() {}\nlet a = 1;\n```\n\nlast words\n"
        .repeat(8);
    let whole = words(&terminal::render(&Document::parse(&text), &Style::plain(200)));
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut stream = Stream::new(Style::plain(80));
        let (mut out, mut rest) = (String::new(), text.as_str());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((random.below(40) + 1).min(rest.len()));
            let width = 30 + random.below(100);
            stream.resize(width);
            let finished = stream.push(piece);
            checks::terminal(&finished, width);
            checks::terminal(&stream.open(), width);
            out += &finished;
            rest = after;
        }
        assert_eq!(words(&(out + &stream.finish())), whole, "seed {seed}");
    }
}

#[test]
fn a_label_is_known_after_its_definition() {
    let style = Style { links: true, plain: false, ..Style::plain(80) };
    let text = "[Docs]: https://example.org\n\nSome text.\n\nSee [the docs][DOCS].\n\nEnd.\n";
    let found = streamed(text, &style, || 1);
    assert!(found.contains("https://example.org"), "{found:?}");
    assert_eq!(found, terminal::render(&Document::parse(text), &style));
    let later = "See [docs].\n\n[docs]: https://example.org\n";
    assert_eq!(streamed(later, &style, || 1), "See [docs].\n", "what is finished stays");
}

#[test]
fn an_open_block_is_shown_up_to_its_limit() {
    let limit = 256 * 1_024;
    for (bytes, is_shown) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
        let mut stream = Stream::new(Style::plain(80));
        stream.push(&"a".repeat(bytes));
        assert_eq!(!stream.open().is_empty(), is_shown, "{bytes} bytes");
        assert_eq!(stream.finish().matches('a').count(), bytes);
    }
}

#[test]
fn a_stream_can_be_handed_to_another_thread() {
    fn sent<T: Send + Sync>(value: T) -> T {
        value
    }
    sent(Document::parse("a"));
    assert_eq!(sent(Stream::new(Style::plain(80))).finish(), "");
}

#[test]
fn the_work_for_a_long_block_does_not_grow_with_its_square() {
    // Half a megabyte each, a line at a time. Parsed at every line, each takes minutes.
    let blocks = [format!("```\n{}", "some code\n".repeat(50_000)), "- some item\n".repeat(40_000)];
    for text in blocks {
        let style = Style { plain: false, ..Style::plain(80) };
        let mut lines = text.split_inclusive('\n');
        let mut stream = Stream::new(style.clone());
        let mut out = String::new();
        for line in &mut lines {
            out += &stream.push(line);
        }
        assert!(out.len() > text.len() / 2, "most of it was finished on the way");
        checks::terminal(&stream.open(), 80);
        out += &stream.finish();
        assert_eq!(out, terminal::render(&Document::parse(&text), &style));
    }
}
