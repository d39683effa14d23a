//! A text rendered for a terminal while it arrives.
//!
//! Finished lines are returned once and never again; what may still change is rendered on request.
//! A piece is finished when no later text can change it: a paragraph at the blank line after it, a
//! line of code with its line feed, an item of a list when the next one begins, a table when it
//! ends. All finished pieces together are the same as rendering the whole text at once, however the
//! text was split.
//!
//! One exception: a reference link, `[text][label]`, is a link only if its label is defined before it,
//! or in the same block. A definition that comes later does not change what is finished.

use crate::document::{Block, Kind};
use crate::parse::{self, Definitions};
use crate::terminal::Style;
use crate::terminal::pieces::pieces;
use crate::terminal::write::Writer;

/// An open block is parsed again when it has grown by this fraction of its size, so that the total
/// work is linear in the length of the text. Up to 4 KiB that is every line; a list of 64 KiB is
/// parsed after each kilobyte.
const GROWTH: usize = 64;

/// Bytes of an open block that is small enough to be parsed at every line.
const SMALL_BYTES: usize = 4 * 1_024;

/// Bytes of open text that are rendered for a preview: many screens, and at most 20 ms of work. The
/// end of a longer block is not shown before it is finished.
const OPEN_BYTES_MAX: usize = 256 * 1_024;

/// Renders a text that arrives in pieces.
///
/// ```
/// use rethread_render::{Stream, terminal::Style};
///
/// let mut stream = Stream::new(Style::plain(80));
/// assert_eq!(stream.push("Hel"), "");
/// assert_eq!(stream.open(), "Hel\n");
/// assert_eq!(stream.push("lo.\n\nMore"), "Hello.\n");
/// assert_eq!(stream.open(), "\nMore\n");
/// assert_eq!(stream.finish(), "\nMore\n");
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    style: Style,
    /// The text from the start of the block that is open.
    text: String,
    /// Bytes of it that were parsed last.
    parsed: usize,
    /// Pieces of it that were returned.
    written: usize,
    /// Whether anything was written before it.
    continues: bool,
    definitions: Definitions,
    writer: Writer,
}

impl Stream {
    /// An empty text.
    pub fn new(style: Style) -> Stream {
        Stream {
            style,
            text: String::new(),
            parsed: 0,
            written: 0,
            continues: false,
            definitions: Definitions::default(),
            writer: Writer::default(),
        }
    }

    /// Adds text. Returns the lines that are finished by it, each with its line feed.
    pub fn push(&mut self, text: &str) -> String {
        self.text.push_str(text);
        // Only whole lines decide: `-` may become a list, a rule, or a heading.
        let whole = match text.contains('\n') {
            true => self.text.rfind('\n').map_or(0, |at| at + 1),
            false => return String::new(),
        };
        let is_due = whole <= SMALL_BYTES || whole - self.parsed >= self.parsed / GROWTH;
        if !is_due {
            return String::new();
        }
        self.parsed = whole;
        self.advance(whole)
    }

    /// The lines that may still change, as they look now: they follow the finished ones on the
    /// screen until the next call. The open block is parsed for this, so call it when the screen is
    /// drawn and not for every word. The end of a block larger than 256 KiB is not shown.
    pub fn open(&self) -> String {
        let mut out = String::new();
        if self.text.len() > OPEN_BYTES_MAX {
            return out;
        }
        let parsed = parse::parse(&self.text, &self.definitions);
        let mut writer = self.writer.clone();
        for piece in pieces(&parsed.blocks, self.continues).iter().skip(self.written) {
            writer.write(piece, &self.style, &mut out);
        }
        out
    }

    /// Continues at another width. Finished lines stay as they were; everything else is rendered at
    /// the new width, and nothing is lost or repeated.
    pub fn resize(&mut self, width: usize) {
        self.style.width = width;
    }

    /// Ends the text. Returns the lines that were open. The stream is empty afterwards.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        let parsed = parse::parse(&self.text, &self.definitions);
        for piece in pieces(&parsed.blocks, self.continues).iter().skip(self.written) {
            self.writer.write(piece, &self.style, &mut out);
        }
        *self = Stream::new(self.style.clone());
        out
    }

    /// Writes what is finished in the first `whole` bytes, which are lines, and lets go of blocks that
    /// are closed.
    fn advance(&mut self, whole: usize) -> String {
        let text = &self.text[..whole];
        let parsed = parse::parse(text, &self.definitions);
        let all = pieces(&parsed.blocks, self.continues);
        let finished = all.len().saturating_sub(open_pieces(&parsed.blocks, text));
        let mut out = String::new();
        for piece in all.iter().take(finished).skip(self.written) {
            self.writer.write(piece, &self.style, &mut out);
        }
        self.written = self.written.max(finished);

        let Some((last, start)) = parsed.blocks.last().zip(parsed.starts.last().copied()) else {
            return out;
        };
        let of_last = pieces(std::slice::from_ref(last), false).len();
        let before = all.len() - of_last;
        if start > 0 && self.written >= before {
            self.written -= before;
            self.continues |= before > 0;
            let gone = parsed.definitions.into_iter().filter(|(at, ..)| *at < start);
            self.definitions.add(gone.map(|(_, label, address)| (label, address)).collect());
            self.text.drain(..start);
            self.parsed -= start;
        }
        out
    }
}

/// How many pieces at the end may still change, in a text of whole lines.
fn open_pieces(blocks: &[Block], text: &str) -> usize {
    match blocks.last().map(|block| &block.kind) {
        None => 1,
        Some(Kind::Heading { .. } | Kind::Rule) => 0,
        Some(Kind::Paragraph(_) | Kind::Table(_)) => usize::from(!ends_blank(text)),
        // Its lines are finished; its end is not known yet.
        Some(Kind::Code { text, .. }) if text.is_empty() => 2,
        Some(Kind::Code { .. }) => 1,
        Some(Kind::RawHtml(_)) => 1,
        Some(Kind::Quote(blocks)) => open_pieces(blocks, text),
        Some(Kind::List(list)) => {
            open_pieces(list.items.last().map_or(&[][..], |item| &item.blocks), text)
        }
    }
}

/// Whether the last line is blank, in a quote or outside. Where a mark of a quote may be text, it is
/// taken for text.
fn ends_blank(text: &str) -> bool {
    let line = text.strip_suffix('\n').unwrap_or(text).rsplit('\n').next().unwrap_or_default();
    let indent = line.bytes().take_while(|byte| *byte == b' ').count().min(3);
    let mut rest = &line[indent..];
    while let Some(after) = rest.strip_prefix('>') {
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    rest.trim_matches([' ', '\t', '\r']).is_empty()
}
