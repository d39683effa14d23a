//! Tables, as columns where they fit and row by row where they do not.
//!
//! There is no frame, so what is copied is text. Wide cells are wrapped, the widest columns first; if
//! a column would become narrower than a word, each row becomes lines of `heading: cell`. A reader who
//! hears the text gets those lines as well.

use super::ansi::{Face, Line, Run};
use super::style::{Colour, Style};
use super::wrap::wrap;
use super::write::{line_width, runs};
use crate::document::{Alignment, Span, Table};

/// Columns of a window in which tables are drawn as tables. On a narrower one two columns of prose do
/// not fit side by side.
const WINDOW_COLUMNS_MIN: usize = 40;

/// Columns of the narrowest column that may be wrapped: about a word.
const COLUMN_WIDTH_MIN: usize = 8;

/// Columns between two columns: ` │ `.
const BETWEEN: usize = 3;

pub(super) fn lines(table: &Table, columns: usize, style: &Style) -> Vec<Line> {
    let head = Face { bold: true, ..Face::default() };
    let cells = |row: &[Vec<Span>], face| -> Vec<Vec<Run>> {
        row.iter().map(|cell| runs(cell, face, style)).collect()
    };
    let head = cells(&table.head, head);
    let rows: Vec<Vec<Vec<Run>>> =
        table.rows.iter().map(|row| cells(row, Face::default())).collect();
    match column_widths(&head, &rows, columns) {
        Some(widths) if !style.plain && columns.min(style.width) >= WINDOW_COLUMNS_MIN => {
            Grid { table, widths }.lines(&head, &rows)
        }
        _ => row_by_row(&head, &rows, columns, style),
    }
}

/// How wide each column is; `None` if they do not fit side by side.
fn column_widths(head: &[Vec<Run>], rows: &[Vec<Vec<Run>>], columns: usize) -> Option<Vec<usize>> {
    let mut natural = vec![1; head.len()];
    for row in std::iter::once(head).chain(rows.iter().map(Vec::as_slice)) {
        for (widest, cell) in natural.iter_mut().zip(row) {
            // A hard break in a cell: its longest line counts.
            let lines = wrap(cell, usize::MAX);
            let longest = lines.iter().map(|line| line_width(line)).max();
            *widest = longest.unwrap_or_default().max(*widest);
        }
    }
    let room = columns.checked_sub(BETWEEN * head.len().saturating_sub(1))?;
    // The widest columns are brought down to one level until all fit.
    let total = |level: usize| natural.iter().map(|wide| (*wide).min(level)).sum::<usize>();
    let widest = natural.iter().copied().max().unwrap_or_default();
    let (mut low, mut high) = (0, widest.min(room));
    while low < high {
        let level = (low + high).div_ceil(2);
        match total(level) <= room {
            true => low = level,
            false => high = level - 1,
        }
    }
    if low < widest && low < COLUMN_WIDTH_MIN {
        return None;
    }
    let mut left = room - total(low);
    let fitted = natural.iter().map(|wide| {
        let extra = wide.saturating_sub(low).min(1).min(left);
        left -= extra;
        (*wide).min(low) + extra
    });
    Some(fitted.collect())
}

struct Grid<'t> {
    table: &'t Table,
    widths: Vec<usize>,
}

impl Grid<'_> {
    fn lines(&self, head: &[Vec<Run>], rows: &[Vec<Vec<Run>>]) -> Vec<Line> {
        let (mut lines, _) = self.row(head);
        lines.push(self.rule());
        let rows: Vec<(Vec<Line>, bool)> = rows.iter().map(|row| self.row(row)).collect();
        // If a row takes several lines, rows are separated by rules.
        let ruled = rows.iter().any(|(_, is_wrapped)| *is_wrapped);
        for (index, (row, _)) in rows.into_iter().enumerate() {
            if ruled && index > 0 {
                lines.push(self.rule());
            }
            lines.extend(row);
        }
        lines
    }

    fn rule(&self) -> Line {
        let parts: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
        vec![Run::mark(parts.join("─┼─"))]
    }

    /// The lines of one row, and whether a cell was wrapped.
    fn row(&self, row: &[Vec<Run>]) -> (Vec<Line>, bool) {
        let cells = self.widths.iter().enumerate().map(|(index, width)| {
            let cell = row.get(index).map_or(&[][..], Vec::as_slice);
            wrap(cell, *width)
        });
        let cells: Vec<Vec<Line>> = cells.collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        let lines = (0..height).map(|at| {
            let mut line = Line::new();
            for (index, cell) in cells.iter().enumerate() {
                if index > 0 {
                    line.push(Run::mark(" │ "));
                }
                self.pad(index, cell.get(at).map_or(&[][..], Vec::as_slice), &mut line);
            }
            line
        });
        (lines.collect(), height > 1)
    }

    fn pad(&self, column: usize, text: &[Run], line: &mut Line) {
        let free = self.widths[column].saturating_sub(line_width(text));
        let before = match self.table.alignments.get(column) {
            Some(Alignment::End) => free,
            Some(Alignment::Centre) => free / 2,
            _ => 0,
        };
        let spaces = |count: usize| Run::new(" ".repeat(count), Face::default());
        line.push(spaces(before));
        line.extend_from_slice(text);
        line.push(spaces(free - before));
    }
}

/// `heading: cell`, a line each; a blank line between rows. Empty cells are left out.
fn row_by_row(
    head: &[Vec<Run>],
    rows: &[Vec<Vec<Run>>],
    columns: usize,
    style: &Style,
) -> Vec<Line> {
    let mut lines = Vec::new();
    if rows.is_empty() {
        lines.extend(head.iter().flat_map(|cell| wrap(cell, columns)));
    }
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            lines.push(Line::new());
        }
        for (column, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let mut text = head.get(column).cloned().unwrap_or_default();
            if !text.is_empty() {
                let bold = style.colour != Colour::None;
                text.push(Run::new(": ", Face { bold, ..Face::default() }));
            }
            text.extend_from_slice(cell);
            let indent = || Run::new("  ", Face::default());
            for (at, mut line) in
                wrap(&text, columns.saturating_sub(2).max(1)).into_iter().enumerate()
            {
                if at > 0 {
                    line.insert(0, indent());
                }
                lines.push(line);
            }
        }
    }
    match lines.is_empty() {
        true => vec![Line::new()],
        false => lines,
    }
}
