//! Writes pieces as lines of a terminal.

use super::ansi::{Face, Line, Run, push, write_line};
use super::pieces::{Body, Container, Marker, Piece};
use super::style::{Colour, Style};
use super::table;
use super::wrap::{wrap, wrap_code};
use crate::code::Highlighter;
use crate::document::{Look, ShowAddress, Span};
use crate::palette::Role;
use crate::width::{characters, width};

/// Columns from one tab stop to the next in code. Eight leave no room in a window of 40.
const TAB_COLUMNS: usize = 4;

/// Columns of the longest rule. Across a wide window a rule is a wall.
const RULE_COLUMNS_MAX: usize = 60;

/// Writes pieces in order. It remembers only how far a block of code has been highlighted, so a copy
/// of it can write what may still change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writer {
    highlighter: Highlighter,
}

impl Writer {
    pub(crate) fn write(&mut self, piece: &Piece<'_>, style: &Style, out: &mut String) {
        let columns = style.columns();
        if let Some(depth) = piece.blank {
            let shared = piece.containers.get(..depth).unwrap_or_default();
            write_line(&prefix(shared, Shown::After, style), style, out);
        }
        let first = prefix(&piece.containers, Shown::First, style);
        let after = prefix(&piece.containers, Shown::After, style);
        let taken = line_width(&first).max(line_width(&after));
        let lines = self.lines(&piece.body, columns.saturating_sub(taken).max(1), style);
        for (index, line) in lines.into_iter().enumerate() {
            let mut whole = if index == 0 { first.clone() } else { after.clone() };
            whole.extend(line);
            write_line(&whole, style, out);
        }
    }

    fn lines(&mut self, body: &Body<'_>, columns: usize, style: &Style) -> Vec<Line> {
        match body {
            Body::Text(spans) => wrap(&runs(spans, Face::default(), style), columns),
            Body::Heading { level, spans } => wrap(&heading(*level, spans, style), columns),
            Body::CodeLine { line, begins } => self.code_line(line, *begins, columns, style),
            // Without colours the fences say what is code.
            Body::CodeEnd if style.colour == Colour::None => fence("", columns),
            Body::CodeEnd => Vec::new(),
            Body::RawHtml(text) => {
                let line = |line| code(&[(line, None)], Some(Role::Code), columns, style);
                text.split('\n').flat_map(line).collect()
            }
            Body::Table(table) => table::lines(table, columns, style),
            Body::Rule => {
                let mark = if style.plain { "-" } else { "─" };
                vec![vec![Run::mark(mark.repeat(columns.min(RULE_COLUMNS_MAX)))]]
            }
            Body::Empty => vec![Line::new()],
        }
    }

    fn code_line(
        &mut self,
        line: &str,
        begins: Option<&str>,
        columns: usize,
        style: &Style,
    ) -> Vec<Line> {
        if style.colour == Colour::None {
            let mut lines = begins.map_or(Vec::new(), |info| fence(info, columns));
            lines.extend(code(&[(line, None)], None, columns, style));
            return lines;
        }
        if let Some(info) = begins {
            self.highlighter.begin(info);
        }
        let pieces = self.highlighter.line(line);
        let plain = self.highlighter.is_off().then_some(Role::Code);
        code(&pieces, plain, columns, style)
    }
}

/// A fence as it was written, with the word after it if that is one.
fn fence(info: &str, columns: usize) -> Vec<Line> {
    let language = info.split_whitespace().next().unwrap_or_default();
    let text = format!("```{language}");
    let text = if width(&text) <= columns { text } else { "```".to_owned() };
    vec![vec![Run::mark(text)]]
}

/// One line of code, wrapped.
fn code(
    pieces: &[(&str, Option<Role>)],
    otherwise: Option<Role>,
    columns: usize,
    style: &Style,
) -> Vec<Line> {
    let faces = pieces.iter().map(|(text, role)| {
        let face = Face { role: role.or(otherwise), ..Face::default() };
        (*text, face)
    });
    wrap_code(&tabs(faces), columns, if style.plain { "  " } else { "↪ " })
}

/// A line with spaces for its tabs, so that its width is known.
pub(super) fn tabs<'p>(pieces: impl Iterator<Item = (&'p str, Face)>) -> Line {
    let mut line = Line::new();
    let mut column = 0;
    for (text, face) in pieces {
        let mut parts = text.split('\t').peekable();
        while let Some(part) = parts.next() {
            push(&mut line, part, face, None);
            column += width(part);
            if parts.peek().is_some() {
                let spaces = TAB_COLUMNS - column % TAB_COLUMNS;
                push(&mut line, &" ".repeat(spaces), face, None);
                column += spaces;
            }
        }
    }
    line
}

fn heading(level: u8, spans: &[Span], style: &Style) -> Vec<Run> {
    let underline = level == 1;
    let face = Face { bold: true, underline, role: Some(Role::Heading), ..Face::default() };
    let mut line = Vec::new();
    if style.colour == Colour::None {
        line.push(Run::mark("#".repeat(usize::from(level)) + " "));
    }
    line.extend(runs(spans, face, style));
    line
}

/// Spans as runs, upon the face of what they are in.
pub(super) fn runs(spans: &[Span], base: Face, style: &Style) -> Vec<Run> {
    let mut line = Line::new();
    for span in spans {
        if span.look.address == Some(ShowAddress::WithoutLinks) && style.links {
            continue;
        }
        let mut face = face(&span.look, base);
        // Without colours a difference in meaning is shown by the marks it was written with.
        let mark = match &span.look {
            _ if style.colour != Colour::None => "",
            Look { code: true, .. } => "`",
            Look { strike: true, .. } => "~~",
            _ => "",
        };
        if style.colour == Colour::None {
            face = Face::default();
        }
        for text in [mark, &span.text, mark] {
            push(&mut line, text, face, span.look.link.as_ref());
        }
    }
    line
}

fn face(look: &Look, base: Face) -> Face {
    let role = match look {
        Look { link: Some(_), .. } => Some(Role::Link),
        Look { code: true, .. } => Some(Role::Code),
        Look { address: Some(_), .. } => Some(Role::Mark),
        _ => base.role,
    };
    Face {
        bold: base.bold || look.bold,
        italic: base.italic || look.italic,
        underline: base.underline || look.link.is_some(),
        strike: base.strike || look.strike,
        role,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The first line of a piece: markers are shown.
    First,
    After,
}

/// What comes before a line: bars of quotes, markers of items, or spaces of their width. At most half
/// of the window is given to it; what is nested deeper moves no further to the right, but keeps its
/// own marker.
fn prefix(containers: &[Container], shown: Shown, style: &Style) -> Line {
    let columns = style.columns();
    let mut line = Line::new();
    let mut used = 0;
    for (index, container) in containers.iter().enumerate() {
        let (text, is_marker) = container_prefix(container, shown, style);
        let room = match is_marker && index + 1 == containers.len() {
            true => columns * 3 / 4,
            false => columns / 2,
        };
        if used + width(&text) <= room {
            used += width(&text);
            push(&mut line, &text, Face::of(Role::Mark), None);
        }
    }
    line
}

fn container_prefix(container: &Container, shown: Shown, style: &Style) -> (String, bool) {
    match container {
        Container::Quote if style.plain => ("> ".to_owned(), false),
        Container::Quote => ("│ ".to_owned(), false),
        Container::Item { marker, is_first } => {
            let marker = marker_text(*marker, style) + " ";
            match *is_first && shown == Shown::First {
                true => (marker, true),
                false => (" ".repeat(width(&marker)), false),
            }
        }
    }
}

fn marker_text(marker: Marker, style: &Style) -> String {
    match marker {
        Marker::Bullet(_) if style.plain => "-".to_owned(),
        Marker::Bullet(depth) => ["•", "◦", "▪"][depth % 3].to_owned(),
        Marker::Number(number) => format!("{number}."),
        Marker::Task { done, number } => {
            let number = number.map(|number| format!("{number}. ")).unwrap_or_default();
            format!("{number}{}", if done { "[x]" } else { "[ ]" })
        }
    }
}

pub(super) fn line_width(line: &[Run]) -> usize {
    line.iter().flat_map(|run| characters(&run.text)).map(|(_, columns)| columns).sum()
}
