//! Prints how long things take: loading the grammars, highlighting, parsing and rendering, diffs.
//! `measure FILE.rs FILE.md`.

use std::time::{Duration, Instant};

use rethread_render::terminal::{Colour, Style};
use rethread_render::{Diff, Document, html, terminal};

/// Bytes each text is repeated to.
const BYTES: usize = 200_000;

fn main() -> std::io::Result<()> {
    let mut files = std::env::args().skip(1);
    let (Some(code), Some(prose)) = (files.next(), files.next()) else {
        eprintln!("usage: measure FILE.rs FILE.md");
        return Ok(());
    };
    let style = Style { colour: Colour::TrueColour, plain: false, ..Style::plain(80) };
    let code: String = std::fs::read_to_string(code)?;
    let repeated = |text: &str| text.repeat(BYTES / text.len().max(1) + 1);
    let prose = repeated(&std::fs::read_to_string(prose)?);

    let first = Document::parse("```rust\nfn main() {}\n```\n");
    time("first fence: grammars loaded", 0, || terminal::render(&first, &style).len());
    time("second fence", 0, || terminal::render(&first, &style).len());

    let fence = format!("```rust\n{}\n```\n", repeated(&code));
    let fence = Document::parse(&fence);
    time("first block of code, expressions compiled", BYTES, || {
        terminal::render(&fence, &style).len()
    });
    time("code, terminal", BYTES, || terminal::render(&fence, &style).len());
    time("code, HTML", BYTES, || html::render(&fence, "").len());

    time("prose, parsed", prose.len(), || std::mem::size_of_val(&Document::parse(&prose)));
    let document = Document::parse(&prose);
    time("prose, terminal", prose.len(), || terminal::render(&document, &style).len());
    time("prose, HTML", prose.len(), || html::render(&document, "").len());

    let old = repeated(&code);
    let new = old.replace("let ", "let mut ");
    time("diff with many changes", old.len(), || Diff::new(old.as_bytes(), new.as_bytes()).added());
    Ok(())
}

fn time(what: &str, bytes: usize, run: impl Fn() -> usize) {
    let started = Instant::now();
    let size = std::hint::black_box(run());
    let took = started.elapsed();
    let speed = match bytes {
        0 => String::new(),
        bytes => format!(
            "{:.1} MB/s",
            bytes as f64 / 1e6 / took.max(Duration::from_nanos(1)).as_secs_f64()
        ),
    };
    println!("{what:45} {:>9.2} ms  {speed} ({size})", took.as_secs_f64() * 1e3);
}
