//! Draws the picker.
//!
//! A line to type in, the list, the preview, and a line about the keys. Wide windows have the
//! preview next to the list, others below it. No line is wider than the window.

use rethread_render::terminal::{fit_line, line_width, wrap_line};

use super::{Focus, Picker, PreviewSize};
use crate::out::{count, one_line};

/// Columns of a window from which the preview is next to the list.
const BESIDE_FROM_COLUMNS: usize = 120;

/// The separator between the list and the preview.
const BETWEEN: &str = " │ ";

/// Rows of a preview before a turn: two that say what the session is or where words were found, a
/// blank one, and how long ago the turn was.
const PREVIEW_HEAD_ROWS: usize = 4;

/// Lines of a turn in a preview.
const PREVIEW_TURN_LINES_MAX: usize = 16;

/// The keys while letters filter.
const FILTER_KEYS: &str = "Enter continues it · Tab: keys (s starts from its summary) · Esc closes";

/// What they do otherwise.
const KEYS: &str = "Enter continues it · s starts from its summary · r rename · f fork · \
                    a archive · d delete · u undo · c chain · / filter · q closes";

const NAME_KEYS: &str = "Enter renames · Esc keeps the name";

/// The lines of the window, and the position of the cursor, if it is visible.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) lines: Vec<String>,
    /// Line and column, counted from 0.
    pub(crate) cursor: Option<(usize, usize)>,
}

/// The layout of the window.
pub(super) struct Layout {
    pub(super) list_rows: usize,
    list_columns: usize,
    preview_rows: usize,
    preview_columns: usize,
    is_beside: bool,
}

impl Layout {
    /// How much a preview has room for: one turn with its question and the end of its answer is
    /// always visible below what the session is.
    pub(super) fn preview_size(&self) -> PreviewSize {
        let turn_lines = self.preview_rows.saturating_sub(PREVIEW_HEAD_ROWS);
        PreviewSize {
            columns: self.preview_columns,
            turn_lines: turn_lines.min(PREVIEW_TURN_LINES_MAX),
        }
    }
}

impl Picker {
    /// How the window is divided.
    pub(super) fn layout(&self) -> Layout {
        let (columns, rows) = self.size;
        // The line to type in, a note, and the keys.
        let body = rows.saturating_sub(2 + self.footer().len());
        if columns >= BESIDE_FROM_COLUMNS {
            let list_columns = columns / 2;
            let preview_columns = columns - list_columns - line_width(BETWEEN);
            let (list_rows, preview_rows) = (body, body);
            return Layout {
                list_rows,
                list_columns,
                preview_rows,
                preview_columns,
                is_beside: true,
            };
        }
        let list_rows = (body * 2 / 5).max(1);
        Layout {
            list_rows,
            list_columns: columns,
            // A line is between them.
            preview_rows: body.saturating_sub(list_rows + 1),
            preview_columns: columns,
            is_beside: false,
        }
    }

    /// The window, ready to be drawn.
    pub(crate) fn draw(&self) -> Frame {
        let layout = self.layout();
        let (columns, rows) = self.size;
        let (first, mut cursor) = self.first_line();
        let list = self.list_lines(&layout);
        let preview = self.preview_lines(&layout);
        let mut lines = vec![first];
        match layout.is_beside {
            true => {
                for (left, right) in list.iter().zip(preview) {
                    let gap = layout.list_columns.saturating_sub(line_width(left));
                    let between = self.paint.dim(BETWEEN);
                    lines.push(format!("{left}{}{between}{right}", " ".repeat(gap)));
                }
            }
            false => {
                lines.extend(list);
                lines.push(self.paint.dim(&"─".repeat(columns)));
                lines.extend(preview);
            }
        }
        lines.push(self.paint.warning(&fit_line(&self.question(), columns)));
        if let Focus::Name(name) = &self.focus {
            let column = line_width(&format!("New name: {}", one_line(name)));
            cursor = Some((lines.len() - 1, column.min(columns.saturating_sub(1))));
        }
        lines.extend(self.footer().iter().map(|line| self.paint.dim(line)));
        lines.truncate(rows.max(1));
        Frame { lines, cursor: cursor.filter(|(row, _)| *row < rows) }
    }

    /// The line to type in, with the number of sessions.
    fn first_line(&self) -> (String, Option<(usize, usize)>) {
        let columns = self.size.0;
        let listed = self.rows.iter().filter(|row| row.is_listed).count() as u64;
        let more = if self.is_loading { "+" } else { "" };
        let searching = if self.searching.is_some() { "searching · " } else { "" };
        let counted = match (&self.chain, self.filter.is_empty()) {
            (Some(chain), _) => format!("chain of {} ", chain.len()),
            (None, true) => format!("{}{more} sessions ", count(listed)),
            (None, false) => {
                let is_listed = |at: &&usize| self.rows[**at].is_listed;
                let fitting = self.shown.iter().filter(is_listed).count();
                // Archived and continued sessions are found, and are not in the list.
                let others = match self.shown.len() - fitting {
                    0 => String::new(),
                    others => format!(" + {} more", count(others as u64)),
                };
                let fitting = count(fitting as u64);
                let capped = if self.is_capped { "+" } else { "" };
                format!("{searching}{fitting}{capped} of {}{more}{others} ", count(listed))
            }
        };
        let label = "Filter: ";
        let room = columns.saturating_sub(label.len() + line_width(&counted) + 1).max(1);
        let typed = last_columns(&one_line(&self.filter), room);
        let column = label.len() + line_width(&typed);
        let gap = columns.saturating_sub(column + line_width(&counted));
        let label = match self.focus {
            Focus::Filter => self.paint.you(label),
            _ => self.paint.dim(label),
        };
        let line = format!("{label}{typed}{}{}", " ".repeat(gap), self.paint.dim(&counted));
        let cursor = (self.focus == Focus::Filter).then_some((0, column));
        (fit_line(&line, columns), cursor)
    }

    fn list_lines(&self, layout: &Layout) -> Vec<String> {
        let rows = self.visible_rows();
        let height = layout.list_rows;
        // The selected row is in the middle, if there are enough on both sides.
        let last_top = self.shown.len().saturating_sub(height);
        let top = self.selected.saturating_sub(height / 2).min(last_top);
        let mut lines = Vec::with_capacity(height);
        for (place, at) in self.shown.iter().enumerate().skip(top).take(height) {
            let row = &rows[*at];
            let before = || self.rows[..=*at].iter().filter(|row| row.is_listed).count();
            let position = (self.chain.is_none() && row.is_listed).then(before);
            let line = row.line(position, layout.list_columns.saturating_sub(1), self.now);
            lines.push(match place == self.selected {
                true => self.paint.selected(&format!("›{line}")),
                false => format!(" {line}"),
            });
        }
        if self.shown.is_empty() {
            let why = match (self.is_loading, self.searching.is_some(), self.filter.is_empty()) {
                (true, ..) => "Reading the list …",
                (_, true, _) => "Searching …",
                (.., true) => "No other sessions yet.",
                _ => "No matches: Ctrl-U clears the filter.",
            };
            lines.push(fit_line(&format!("  {why}"), layout.list_columns));
        }
        lines.resize(height, String::new());
        lines
    }

    fn preview_lines(&self, layout: &Layout) -> Vec<String> {
        let (height, columns) = (layout.preview_rows, layout.preview_columns);
        let Some(row) = self.selected_row() else { return vec![String::new(); height] };
        let mut lines = Vec::new();
        if let Some(said) = self.said.get(&row.id).filter(|_| !self.filter.is_empty()) {
            let found = format!("found: {}", said.snippet);
            lines.push(self.paint.dim(&fit_line(&found, columns)));
        }
        let Some(preview) = self.previews.get(&row.id) else {
            lines.push(self.paint.dim("…"));
            lines.resize(height, String::new());
            return lines;
        };
        // The session, and then the end of its conversation.
        let head = preview.iter().position(String::is_empty).map_or(0, |at| at + 1);
        // Where words were found is said in place of the folder, which the list shows too.
        let is_found = !lines.is_empty();
        let head_lines = preview[..head].iter().enumerate();
        lines.extend(head_lines.filter(|(at, _)| !is_found || *at != 1).map(|(_, it)| it.clone()));
        let said = &preview[head..];
        let room = height.saturating_sub(lines.len());
        let first = lines.len();
        lines.extend_from_slice(&said[said.len().saturating_sub(room)..]);
        if said.len() > room && room > 0 {
            lines[first] = self.paint.dim("…");
        }
        lines.iter_mut().for_each(|line| *line = fit_line(line, columns));
        lines.resize(height, String::new());
        lines
    }

    /// The question or note above the keys.
    fn question(&self) -> String {
        match &self.focus {
            Focus::Name(name) if self.note.is_empty() => format!("New name: {}", one_line(name)),
            _ => self.note.clone(),
        }
    }

    /// What the keys do.
    fn footer(&self) -> Vec<String> {
        let keys = match self.focus {
            Focus::Filter => FILTER_KEYS,
            Focus::Keys => KEYS,
            Focus::Name(_) => NAME_KEYS,
        };
        // Always of the same height, so that nothing jumps when the focus moves.
        let columns = self.size.0.max(1);
        let height = wrap_line(KEYS, columns, 0).len();
        let mut lines = wrap_line(keys, columns, 0);
        lines.resize(height.max(lines.len()), String::new());
        lines
    }
}

/// The end of a text that fits this many columns: where someone types.
fn last_columns(text: &str, columns: usize) -> String {
    let mut end = text;
    while line_width(end) > columns {
        let mut rest = end.chars();
        rest.next();
        end = rest.as_str();
    }
    end.to_owned()
}
