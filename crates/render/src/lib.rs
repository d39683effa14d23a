//! One renderer for Markdown, code and diffs, with two outputs: terminal and HTML.
//!
//! A model's text is data. It is parsed once, into a [`Document`] of visible text, and both outputs
//! are made from that: no escape sequence, no raw HTML and no hidden character of the text reaches
//! a terminal or a browser. [`Stream`] renders a text while it arrives, and [`Diff`] shows a
//! change.
//!
//! Nothing here reads a file, queries a terminal or keeps state between calls, except the grammars
//! for highlighting: they are loaded at the first block of code that needs them.
//!
//! ```
//! use rethread_render::{Document, html, terminal};
//!
//! let document = Document::parse("# Title\n\nSome *text*.");
//! let style = terminal::Style::plain(80);
//! assert_eq!(terminal::render(&document, &style), "# Title\n\nSome text.\n");
//! assert_eq!(
//!     html::render(&document, "m1-"),
//!     "<h1 id=\"m1-title\" dir=\"auto\">Title</h1>\n<p dir=\"auto\">Some <em>text</em>.</p>\n"
//! );
//! ```

mod code;
mod diff;
mod document;
pub mod html;
mod link;
mod palette;
mod parse;
mod stream;
pub mod terminal;
mod visible;
mod width;

pub use code::grammars_are_loaded;
pub use diff::Diff;
pub use document::Document;
pub use stream::Stream;
