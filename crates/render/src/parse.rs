//! From Markdown to blocks.
//!
//! pulldown-cmark decides what the text means; here its events become a tree. Raw HTML becomes text,
//! images become links (nothing is ever loaded), and addresses in plain text become links.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd,
};

use crate::document::{
    Alignment, Block, Cell, Item, Kind, List, Look, NESTING_MAX, ShowAddress, Span, Table,
};
use crate::{link, visible};

/// Definitions of links that are remembered from earlier text. A page with more of them is a list of
/// links, and would be held in memory for nothing.
const DEFINITIONS_MAX: usize = 1_000;

/// Where the labels of earlier text lead: `[label]: address`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Definitions(HashMap<String, String>);

impl Definitions {
    /// Adds those not known yet: the first one holds.
    pub(crate) fn add(&mut self, found: Vec<(String, String)>) {
        for (label, address) in found {
            if self.0.len() < DEFINITIONS_MAX {
                self.0.entry(normal(&label)).or_insert(address);
            }
        }
    }

    fn resolve<'a>(&self, label: &str) -> Option<(CowStr<'a>, CowStr<'a>)> {
        let address = self.0.get(&normal(label))?;
        Some((address.clone().into(), "".into()))
    }
}

/// Labels are the same if they differ in case and spaces only.
fn normal(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// What a text holds.
pub(crate) struct Parsed {
    pub(crate) blocks: Vec<Block>,
    /// Where each block begins in the text, always at the start of a line.
    pub(crate) starts: Vec<usize>,
    /// Labels defined in the text, with the place of each definition.
    pub(crate) definitions: Vec<(usize, String, String)>,
}

pub(crate) fn parse(text: &str, known: &Definitions) -> Parsed {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let resolve = |broken: BrokenLink<'_>| known.resolve(&broken.reference);
    let parser = Parser::new_with_broken_link_callback(text, options, Some(resolve));
    let definitions = parser.reference_definitions().iter();
    let definitions = definitions
        .map(|(label, found)| (found.span.start, label.to_owned(), found.dest.to_string()))
        .collect();
    let mut builder = Builder::new(text);
    for (event, range) in parser.into_offset_iter() {
        builder.event(event, range);
    }
    let Some(Frame::Root { blocks, starts }) = builder.frames.pop() else {
        unreachable!("the root is opened first and closed here");
    };
    Parsed { blocks, starts, definitions }
}

/// A container that is still open.
enum Frame {
    Root { blocks: Vec<Block>, starts: Vec<usize> },
    Quote { blank_before: bool, blocks: Vec<Block> },
    List { blank_before: bool, list: List },
    Item(Item),
}

struct Builder<'t> {
    text: &'t str,
    frames: Vec<Frame>,
    /// Containers that are open and too deep to be shown.
    too_deep: usize,
    /// Where the open block begins. Text directly in a list item begins with its first event.
    start: Option<usize>,
    spans: Vec<Span>,
    /// How often each style was opened and not closed.
    bold: usize,
    italic: usize,
    strike: usize,
    /// Open links: where their text begins, and where they lead.
    links: Vec<(usize, Address)>,
    code: Option<(String, String)>,
    table: Option<Table>,
    row: Vec<Cell>,
}

struct Address {
    text: String,
    link: Option<Arc<str>>,
}

impl<'t> Builder<'t> {
    fn new(text: &'t str) -> Builder<'t> {
        Builder {
            text,
            frames: vec![Frame::Root { blocks: Vec::new(), starts: Vec::new() }],
            too_deep: 0,
            start: None,
            spans: Vec::new(),
            bold: 0,
            italic: 0,
            strike: 0,
            links: Vec::new(),
            code: None,
            table: None,
            row: Vec::new(),
        }
    }

    fn event(&mut self, event: Event<'_>, mut range: Range<usize>) {
        // After a tab a block is said to begin with the line feed before it.
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        range.start += self.text.as_bytes()[range.clone()].iter().take_while(|b| blank(b)).count();
        if !matches!(event, Event::Start(_) | Event::End(_)) {
            self.start.get_or_insert(range.start);
        }
        match event {
            Event::Start(tag) => self.open(tag, range.start),
            Event::End(tag) => self.close(tag),
            Event::Text(text) | Event::Html(text) if self.code.is_some() => {
                let (_, code) = self.code.as_mut().expect("it was just looked at");
                code.push_str(&text);
            }
            Event::Text(text) => self.push(&visible::prose(&text), false),
            Event::Code(text) => self.push(&visible::prose(&text), true),
            Event::InlineHtml(tag) | Event::Html(tag) => match is_break(&tag) {
                true => self.push("\n", false),
                false => self.push(&visible::prose(&tag), false),
            },
            Event::SoftBreak => self.push(" ", false),
            Event::HardBreak => self.push("\n", false),
            Event::Rule => {
                self.begin(range.start);
                self.add(Kind::Rule);
            }
            Event::TaskListMarker(done) => {
                if let (0, Some(Frame::Item(item))) = (self.too_deep, self.frames.last_mut()) {
                    item.checked = Some(done);
                }
            }
            // Footnotes and formulas are not switched on.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&visible::prose(&text), false);
            }
        }
    }

    fn open(&mut self, tag: Tag<'_>, start: usize) {
        match tag {
            Tag::Paragraph => {
                if let Some(Frame::List { list, .. }) = self.frames.iter_mut().nth_back(1) {
                    list.loose = true;
                }
                self.begin(start);
            }
            Tag::Heading { .. } => self.begin(start),
            Tag::CodeBlock(kind) => {
                self.begin(start);
                let language = match kind {
                    CodeBlockKind::Fenced(info) => visible::prose(&info).into_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::HtmlBlock => {
                self.begin(start);
                self.code = Some(Default::default());
            }
            Tag::BlockQuote(_) | Tag::List(_) | Tag::Item => self.open_container(tag, start),
            Tag::Table(alignments) => {
                self.begin(start);
                let alignments = alignments.into_iter().map(|alignment| match alignment {
                    pulldown_cmark::Alignment::Center => Alignment::Centre,
                    pulldown_cmark::Alignment::Right => Alignment::End,
                    _ => Alignment::Start,
                });
                self.table = Some(Table { alignments: alignments.collect(), ..Table::default() });
            }
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.strike += 1,
            Tag::Link { dest_url, link_type, .. } => self.open_link(&dest_url, link_type),
            Tag::Image { dest_url, link_type, .. } => {
                self.open_link(&dest_url, link_type);
                self.push("[image] ", false);
            }
            _ => {}
        }
    }

    fn open_container(&mut self, tag: Tag<'_>, start: usize) {
        self.end_paragraph();
        self.start = None;
        if self.too_deep > 0 || self.frames.len() > NESTING_MAX && !matches!(tag, Tag::Item) {
            self.too_deep += 1;
            return;
        }
        let blank_before = follows_blank_line(self.text, start);
        self.note_start(start);
        self.frames.push(match tag {
            Tag::List(first) => {
                let list = List { start: first, loose: false, items: Vec::new() };
                Frame::List { blank_before, list }
            }
            Tag::Item => Frame::Item(Item { blank_before, checked: None, blocks: Vec::new() }),
            _ => Frame::Quote { blank_before, blocks: Vec::new() },
        });
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.end_paragraph(),
            TagEnd::Heading(level) => {
                let spans = self.take_spans();
                self.add(Kind::Heading { level: number(level), spans });
            }
            TagEnd::CodeBlock => {
                let (language, text) = self.code.take().unwrap_or_default();
                let text = without_blank_end(&visible::code(&text)).to_owned();
                self.add(Kind::Code { language, text });
            }
            TagEnd::HtmlBlock => {
                let (_, text) = self.code.take().unwrap_or_default();
                let text = without_blank_end(&visible::code(&text)).to_owned();
                self.add(Kind::RawHtml(text));
            }
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item => self.close_container(),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.add(Kind::Table(table));
                }
            }
            TagEnd::TableCell => {
                let cell = self.take_spans();
                self.row.push(cell);
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                let mut row = std::mem::take(&mut self.row);
                if let Some(table) = &mut self.table {
                    match tag {
                        TagEnd::TableHead => table.head = row,
                        _ => {
                            let used = row.iter().rposition(|cell| !cell.is_empty());
                            row.truncate(used.map_or(0, |last| last + 1));
                            table.rows.push(row);
                        }
                    }
                }
            }
            TagEnd::Emphasis => self.italic = self.italic.saturating_sub(1),
            TagEnd::Strong => self.bold = self.bold.saturating_sub(1),
            TagEnd::Strikethrough => self.strike = self.strike.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.close_link(),
            _ => {}
        }
    }

    fn close_container(&mut self) {
        self.end_paragraph();
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let (blank_before, kind) = match self.frames.pop() {
            Some(Frame::Quote { blank_before, blocks }) => (blank_before, Kind::Quote(blocks)),
            Some(Frame::List { blank_before, list }) => (blank_before, Kind::List(list)),
            Some(Frame::Item(item)) => {
                if let Some(Frame::List { list, .. }) = self.frames.last_mut() {
                    list.items.push(item);
                }
                return;
            }
            Some(root @ Frame::Root { .. }) => {
                self.frames.push(root);
                return;
            }
            None => return,
        };
        self.append(Block { blank_before, kind });
    }

    /// Text directly in a list item has no paragraph of its own: it ends where a block begins.
    fn begin(&mut self, start: usize) {
        self.end_paragraph();
        self.start = Some(start);
    }

    fn end_paragraph(&mut self) {
        let spans = self.take_spans();
        if !spans.is_empty() {
            self.add(Kind::Paragraph(spans));
        }
    }

    fn add(&mut self, kind: Kind) {
        let start = self.start.take().unwrap_or_default();
        self.note_start(start);
        let blank_before = follows_blank_line(self.text, start);
        self.append(Block { blank_before, kind });
    }

    /// Notes where a block of the document begins; blocks inside others are not noted.
    fn note_start(&mut self, start: usize) {
        if let Some(Frame::Root { starts, .. }) = self.frames.last_mut() {
            starts.push(line_start(self.text, start));
        }
    }

    fn append(&mut self, block: Block) {
        match self.frames.last_mut() {
            Some(Frame::Root { blocks, .. } | Frame::Quote { blocks, .. }) => blocks.push(block),
            Some(Frame::Item(item)) => item.blocks.push(block),
            Some(Frame::List { .. }) | None => {}
        }
    }

    fn push(&mut self, text: &str, code: bool) {
        let look = Look {
            bold: self.bold > 0,
            italic: self.italic > 0,
            strike: self.strike > 0,
            code,
            link: self.links.last().and_then(|(_, address)| address.link.clone()),
            address: None,
        };
        match self.spans.last_mut() {
            Some(last) if last.look.is_same(&look) => last.text.push_str(text),
            _ => self.spans.push(Span { text: text.to_owned(), look }),
        }
    }

    fn open_link(&mut self, address: &str, kind: LinkType) {
        let full = match kind {
            LinkType::Email => format!("mailto:{address}"),
            _ => address.to_owned(),
        };
        let link = match full.strip_prefix('#') {
            Some(_) => Some(full.as_str().into()),
            None => link::safe(&full).map(Arc::from),
        };
        let text = visible::prose(address).into_owned();
        self.links.push((self.spans.len(), Address { text, link }));
    }

    fn close_link(&mut self) {
        let Some((start, address)) = self.links.pop() else { return };
        let spans = self.spans.get(start..).unwrap_or_default();
        let text: String = spans.iter().map(|span| span.text.as_str()).collect();
        let within = address.text.is_empty() || address.text.starts_with('#');
        if within || text == address.text {
            return;
        }
        let show = match &address.link {
            Some(_) if !link::misleads(&text, &address.text) => ShowAddress::WithoutLinks,
            _ => ShowAddress::Always,
        };
        let look = Look { address: Some(show), ..Look::default() };
        self.spans.push(Span { text: format!(" ({})", address.text), look });
    }

    fn take_spans(&mut self) -> Vec<Span> {
        let spans = std::mem::take(&mut self.spans);
        let mut linked = Vec::with_capacity(spans.len());
        for span in spans {
            link_addresses(span, &mut linked);
        }
        linked
    }
}

/// Makes links of the addresses in a span.
fn link_addresses(span: Span, out: &mut Vec<Span>) {
    let Span { text, look } = span;
    let mut rest = text.as_str();
    let mut push = |text: &str, look: Look| {
        if !text.is_empty() {
            out.push(Span { text: text.to_owned(), look });
        }
    };
    if look.link.is_none() && !look.code && look.address.is_none() {
        while let Some(range) = link::find(rest) {
            let address = &rest[range.clone()];
            push(&rest[..range.start], look.clone());
            push(address, Look { link: link::safe(address).map(Arc::from), ..look.clone() });
            rest = &rest[range.end..];
        }
    }
    match rest.len() == text.len() {
        true if text.is_empty() => {}
        true => out.push(Span { text, look }),
        false => push(rest, look),
    }
}

/// Where the line begins that this place is in. A carriage return alone ends a line, too.
fn line_start(text: &str, place: usize) -> usize {
    text[..place].rfind(['\n', '\r']).map_or(0, |at| at + 1)
}

/// Whether the line before this place is blank, marks of quotes not counted.
fn follows_blank_line(text: &str, place: usize) -> bool {
    let before = &text[..line_start(text, place)];
    let Some(earlier) = before.strip_suffix('\n').or_else(|| before.strip_suffix('\r')) else {
        return false;
    };
    let earlier = match before.ends_with("\r\n") {
        true => &earlier[..earlier.len() - 1],
        false => earlier,
    };
    let mut line = earlier.chars().rev().take_while(|c| !matches!(c, '\n' | '\r'));
    line.all(|c| matches!(c, ' ' | '\t' | '>'))
}

fn without_blank_end(text: &str) -> &str {
    let end = text.trim_end();
    let line = text[end.len()..].find('\n').unwrap_or(text.len() - end.len());
    match end.is_empty() {
        true => "",
        false => &text[..end.len() + line],
    }
}

fn is_break(tag: &str) -> bool {
    ["<br>", "<br/>", "<br />"].iter().any(|known| tag.eq_ignore_ascii_case(known))
}

fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}
