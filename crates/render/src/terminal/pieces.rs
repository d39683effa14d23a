//! The tree of blocks as a flat list of pieces that can be written independently.
//!
//! A piece is a paragraph, a heading, a line of code, a table. It knows the quotes and list items
//! it is in, so it can be written at any width at any time. That makes streaming simple: finished
//! pieces are written once, and those that may change are written again, see `stream`.

use crate::document::{Block, Item, Kind, List, Span, Table};

pub(crate) struct Piece<'d> {
    /// Whether a blank line comes first, and how many of the containers it is in.
    pub(crate) blank: Option<usize>,
    pub(crate) containers: Vec<Container>,
    pub(crate) body: Body<'d>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Container {
    Quote,
    /// An item of a list. Only its first piece has the marker; the others are indented as far.
    Item {
        marker: Marker,
        is_first: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// A bullet, by how many lists it is in.
    Bullet(usize),
    Number(u64),
    /// A box, after its number if the list has numbers.
    Task {
        done: bool,
        number: Option<u64>,
    },
}

pub(crate) enum Body<'d> {
    Text(&'d [Span]),
    Heading {
        level: u8,
        spans: &'d [Span],
    },
    CodeLine {
        line: &'d str,
        /// What follows the opening fence, at the first line of a block.
        begins: Option<&'d str>,
    },
    /// The end of a block of code.
    CodeEnd,
    RawHtml(&'d str),
    Table(&'d Table),
    Rule,
    /// A list item without anything in it.
    Empty,
}

/// The pieces of these blocks. `continues` says that others were written before them.
pub(crate) fn pieces(blocks: &[Block], continues: bool) -> Vec<Piece<'_>> {
    let blank = continues.then_some(0);
    let mut flat = Flat { pieces: Vec::new(), containers: Vec::new(), lists: 0, blank, continues };
    flat.blocks(blocks, false);
    flat.pieces
}

struct Flat<'d> {
    pieces: Vec<Piece<'d>>,
    containers: Vec<Container>,
    lists: usize,
    /// The blank line before the next piece.
    blank: Option<usize>,
    continues: bool,
}

impl<'d> Flat<'d> {
    fn blocks(&mut self, blocks: &'d [Block], in_item: bool) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 && (!in_item || block.blank_before) {
                self.blank = Some(self.containers.len());
            }
            self.block(&block.kind);
        }
    }

    fn block(&mut self, kind: &'d Kind) {
        match kind {
            Kind::Paragraph(spans) => self.push(Body::Text(spans)),
            Kind::Heading { level, spans } => self.push(Body::Heading { level: *level, spans }),
            Kind::Code { language, text } => {
                let mut begins = Some(language.as_str());
                for line in text.split('\n') {
                    self.push(Body::CodeLine { line, begins: begins.take() });
                }
                self.push(Body::CodeEnd);
            }
            Kind::RawHtml(text) => self.push(Body::RawHtml(text)),
            Kind::Quote(blocks) => {
                self.containers.push(Container::Quote);
                self.blocks(blocks, false);
                self.containers.pop();
            }
            Kind::List(list) => self.list(list),
            Kind::Table(table) => self.push(Body::Table(table)),
            Kind::Rule => self.push(Body::Rule),
        }
    }

    fn list(&mut self, list: &'d List) {
        for (index, item) in list.items.iter().enumerate() {
            if index > 0 && item.blank_before {
                self.blank = Some(self.containers.len());
            }
            let number = list.start.map(|start| start.saturating_add(index as u64));
            let marker = self.marker(item, number);
            self.containers.push(Container::Item { marker, is_first: true });
            self.lists += 1;
            let before = self.pieces.len();
            self.blocks(&item.blocks, true);
            if self.pieces.len() == before {
                self.push(Body::Empty);
            }
            self.lists -= 1;
            self.containers.pop();
        }
    }

    fn marker(&self, item: &Item, number: Option<u64>) -> Marker {
        match (item.checked, number) {
            (Some(done), number) => Marker::Task { done, number },
            (None, Some(number)) => Marker::Number(number),
            (None, None) => Marker::Bullet(self.lists),
        }
    }

    fn push(&mut self, body: Body<'d>) {
        let containers = self.containers.clone();
        // An empty quote comes first in some texts, and leaves nothing to be parted from.
        let is_first = self.pieces.is_empty() && !self.continues;
        let blank = self.blank.take().filter(|_| !is_first);
        self.pieces.push(Piece { blank, containers, body });
        for container in &mut self.containers {
            if let Container::Item { is_first, .. } = container {
                *is_first = false;
            }
        }
    }
}
