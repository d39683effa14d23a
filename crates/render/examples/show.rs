//! Shows a Markdown file: `show FILE WIDTH`, `show FILE html`, or `show OLD NEW diff`.

use rethread_render::terminal::{Background, Colour, Style};
use rethread_render::{Diff, Document, html, terminal};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let style = |width: usize| {
        let plain = Style::plain(width);
        match std::env::var_os("NO_COLOR") {
            Some(_) => plain,
            None => Style {
                colour: Colour::TrueColour,
                background: Background::Dark,
                links: true,
                plain: false,
                ..plain
            },
        }
    };
    let page = |body: String| {
        let viewport = "<meta name=viewport content=\"width=device-width\">";
        let head = format!("<!doctype html><meta charset=utf-8>{viewport}<title>Sample</title>");
        let style = html::STYLE;
        format!("{head}<style>{style}</style><body class=rendered style=\"padding:2em\">{body}")
    };
    match arguments[..] {
        [file, "html"] => {
            let document = Document::parse(&std::fs::read_to_string(file)?);
            println!("{}", page(html::render(&document, "sample-")));
        }
        [file, width] => {
            let document = Document::parse(&std::fs::read_to_string(file)?);
            let width = width.parse().unwrap_or(80);
            print!("{}", terminal::render(&document, &style(width)));
        }
        [old, new, "diff"] => {
            let diff = Diff::new(&std::fs::read(old)?, &std::fs::read(new)?);
            print!("{}", terminal::render_diff(&diff, &style(80)));
        }
        [old, new, "diff-html"] => {
            let diff = Diff::new(&std::fs::read(old)?, &std::fs::read(new)?);
            println!("{}", page(html::render_diff(&diff)));
        }
        _ => eprintln!("usage: show FILE WIDTH | FILE html | OLD NEW diff | OLD NEW diff-html"),
    }
    Ok(())
}
