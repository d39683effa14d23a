//! The picture in the README: a recorded screen of the real program, drawn.
//!
//! `cargo xtask picture` redraws it. The test fails if the program's output differs from the
//! picture.

use std::fmt::Write;
use std::path::Path;

use rethread_agent::scripted::{Answer, Server};
use rethread_core::message::Usage;
use serde_json::json;
use vt100::Color;

use crate::home::Home;
use crate::window::Window;

/// The window that is drawn: columns and rows.
const SIZE: (u16, u16) = (84, 34);

/// Pixels of a character, and around all of them.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 16.0;

/// The colours of the terminal: background, text, and the sixteen.
const BACKGROUND: &str = "#0d1117";
const TEXT: &str = "#e6edf3";
const SIXTEEN: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
    "#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
];

const REPLY: &str =
    "The limiter is a **token bucket**: each address gets 10 tokens, and one comes \
back every second.

```rust
/// Takes one token, if there is one.
pub fn take(&mut self, now: Instant) -> bool {
    self.refill(now);
    self.tokens >= 1.0
}
```

| key    | limit | why                              |
|--------|------:|----------------------------------|
| `ip`   |    10 | a person types slowly            |
| `user` |     5 | see [the paper](https://example.org) |

All **42 tests** pass. Shall I raise the limit for signed-in users?";

const SOURCE: &str = "pub struct RateLimiter {\n    tokens: f64,\n}\n\nimpl RateLimiter {}\n";

#[test]
fn the_picture_shows_what_the_program_shows() {
    let home = Home::new();
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write("src/limit.rs", SOURCE);
    write(".git/HEAD", "ref: refs/heads/main\n");
    write("test", "printf 'running 42 tests\\n\\ntest result: ok. 42 passed; 0 failed\\n'\n");
    let usage = Usage { input: 2_400, output: 310, cache_read: 21_000, cache_write: 0 };
    let server = Server::start([
        Answer::text("Let me look at the code, and see whether its tests pass.")
            .and_calls([
                ("grep", json!({"pattern": "RateLimiter"})),
                ("read_file", json!({"path": "src/limit.rs"})),
                ("run", json!({"command": "sh test"})),
            ])
            .usage(usage),
        Answer::text(REPLY).usage(usage),
    ]);
    let mut variables = server.vars().to_vec();
    variables.extend([
        ("TERM", "xterm-256color".to_owned()),
        ("NO_COLOR", String::new()),
        ("COLORFGBG", "15;0".to_owned()),
    ]);
    let args = ["--model", "anthropic/claude-sonnet-4-5"];
    let mut window = Window::open(&home, SIZE, &args, &variables);
    window.until("the prompt", |shown| shown.ends_with("You:"));
    window.say("how does the rate limiter work, and do its tests pass?");
    window.shows(&["? (y/n/"]);
    window.say("y");
    window.shows(&["Shall I", "cached"]);
    window.until("the prompt", |shown| shown.ends_with("\nYou:"));
    let bytes = window.bytes();
    let found = drawn(window.emulated(&bytes).screen());

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/chat.svg");
    if std::env::var_os("UPDATE_PICTURE").is_some() {
        std::fs::write(&path, &found).expect("the picture can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/chat.svg differs; `cargo xtask picture` draws it again:\n{found}"
    );
}

/// A screen as a picture.
fn drawn(screen: &vt100::Screen) -> String {
    let (rows, columns) = (screen.size().0.get(), screen.size().1.get());
    let width = f64::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = f64::from(rows) * CELL.1 + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">\n<title>A chat in the terminal</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" \
         fill=\"{TEXT}\" xml:space=\"preserve\">\n"
    );
    for row in 0..rows {
        let mut column = 0;
        while column < columns {
            let look = look(screen, row, column);
            let (from, mut text) = (column, String::new());
            while column < columns && self::look(screen, row, column) == look {
                let cell = screen.cell(row, column).expect("inside the screen");
                match cell.contents() {
                    "" if cell.is_wide_continuation() => {}
                    "" => text.push(' '),
                    contents => text.push_str(contents),
                }
                column += 1;
            }
            let lead = text.len() - text.trim_start().len();
            if text.trim().is_empty() {
                continue;
            }
            let x = MARGIN + (f64::from(from) + lead as f64) * CELL.0;
            let y = MARGIN + f64::from(row) * CELL.1 + 13.0;
            let text = escaped(text.trim());
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.0}\"{look}>{text}</text>").expect("written");
        }
    }
    svg + "</g>\n</svg>\n"
}

/// How a cell looks, as attributes.
fn look(screen: &vt100::Screen, row: u16, column: u16) -> String {
    let cell = screen.cell(row, column).expect("inside the screen");
    let mut look = String::new();
    if let Some(colour) = colour(cell.fgcolor()) {
        write!(look, " fill=\"{colour}\"").expect("written");
    }
    for (is_on, attribute) in [
        (cell.bold(), " font-weight=\"bold\""),
        (cell.italic(), " font-style=\"italic\""),
        (cell.underline(), " text-decoration=\"underline\""),
        (cell.dim(), " opacity=\"0.65\""),
    ] {
        look += if is_on { attribute } else { "" };
    }
    look
}

fn colour(colour: Color) -> Option<String> {
    Some(match colour {
        Color::Default => return None,
        Color::Idx(index @ 0..16) => SIXTEEN[usize::from(index)].to_owned(),
        Color::Idx(index @ 16..232) => {
            let step = |value: u8| if value == 0 { 0 } else { 55 + 40 * value };
            let index = index - 16;
            let (red, green, blue) = (step(index / 36), step(index / 6 % 6), step(index % 6));
            format!("#{red:02x}{green:02x}{blue:02x}")
        }
        Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
