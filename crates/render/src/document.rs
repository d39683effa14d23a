//! Markdown as a tree of blocks, from which both outputs are made.
//!
//! All text in a document is visible text (see `visible`), and no nesting is deeper than
//! [`NESTING_MAX`], so an output may walk the tree recursively and print what it finds. The
//! structure of the tree is private to this crate.

use std::sync::Arc;

use crate::parse;

/// Levels of quotes and lists. Nobody follows more than a few; what is nested deeper is shown at this
/// level. A tree this flat can be walked and dropped by recursion on any stack.
pub(crate) const NESTING_MAX: usize = 24;

/// A parsed Markdown text. It never contains control characters or raw HTML, even if the text did.
#[derive(Debug, Clone)]
pub struct Document {
    pub(crate) blocks: Vec<Block>,
}

impl Document {
    /// Parses a text: CommonMark with tables, task lists and strikethrough. Any text is Markdown, so
    /// this never fails.
    pub fn parse(markdown: &str) -> Document {
        Document { blocks: parse::parse(markdown, &parse::Definitions::default()).blocks }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// Whether a blank line precedes it in the source. Inside a list item that decides about the
    /// blank line in the output; it never depends on what follows, so a stream can rely on it.
    pub(crate) blank_before: bool,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Paragraph(Vec<Span>),
    Heading {
        level: u8,
        spans: Vec<Span>,
    },
    /// A fence or an indented block, without blank lines at its end.
    Code {
        language: String,
        text: String,
    },
    /// A block of raw HTML, which is shown as text and never interpreted.
    RawHtml(String),
    Quote(Vec<Block>),
    List(List),
    Table(Table),
    Rule,
}

#[derive(Debug, Clone)]
pub(crate) struct List {
    /// The number of the first item; `None` for bullets.
    pub(crate) start: Option<u64>,
    /// Whether the texts of the items are paragraphs.
    pub(crate) loose: bool,
    pub(crate) items: Vec<Item>,
}

#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) blank_before: bool,
    /// Whether the box of a task is ticked; `None` if it is not a task.
    pub(crate) checked: Option<bool>,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) alignments: Vec<Alignment>,
    pub(crate) head: Vec<Cell>,
    /// A row may have fewer cells than the head: empty ones at the end are left out.
    pub(crate) rows: Vec<Vec<Cell>>,
}

pub(crate) type Cell = Vec<Span>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alignment {
    Start,
    Centre,
    End,
}

/// A piece of text that looks the same from start to end. A line feed in it is a hard break.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) look: Look,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) strike: bool,
    pub(crate) code: bool,
    /// The address of the link, safe to be written into the output.
    pub(crate) link: Option<Arc<str>>,
    /// Set for the address that is written after the text of a link.
    pub(crate) address: Option<ShowAddress>,
}

/// When the address of a link is written out after its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShowAddress {
    /// It must not be a link, or its text pretends to be another address.
    Always,
    /// Where the output has no links.
    WithoutLinks,
}

impl Look {
    /// Whether text of one look may be appended to text of the other.
    pub(crate) fn is_same(&self, other: &Look) -> bool {
        let same_link = match (&self.link, &other.link) {
            (Some(link), Some(other)) => Arc::ptr_eq(link, other),
            (None, None) => true,
            _ => false,
        };
        same_link
            && (self.bold, self.italic, self.strike, self.code, self.address)
                == (other.bold, other.italic, other.strike, other.code, other.address)
    }
}
