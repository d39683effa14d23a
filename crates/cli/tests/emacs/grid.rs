//! What a terminal shows, computed from the bytes that were written to it.
//!
//! An editor writes only what differs from what is there already, so the bytes alone do not say
//! what a person sees. This knows what Emacs sends to an xterm, and no more.

/// The size of the terminal.
pub(crate) const ROWS: usize = 40;
pub(crate) const COLUMNS: usize = 120;

struct Grid {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The lines that scroll.
    top: usize,
    bottom: usize,
}

/// The text on the screen, line by line.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut grid =
        Grid { rows: vec![vec![' '; COLUMNS]; ROWS], row: 0, column: 0, top: 0, bottom: ROWS - 1 };
    let text = String::from_utf8_lossy(bytes);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => match chars.next() {
                Some('[') => {
                    let mut given = String::new();
                    let end = chars.find(|c| match c {
                        '@'..='~' => true,
                        c => {
                            given.push(*c);
                            false
                        }
                    });
                    grid.command(&given, end.unwrap_or('m'));
                }
                Some('(' | ')') => drop(chars.next()),
                Some('M') if grid.row == grid.top => grid.insert_lines(grid.top, 1),
                Some('M') => grid.row = grid.row.saturating_sub(1),
                _ => {}
            },
            '\r' => grid.column = 0,
            '\n' if grid.row == grid.bottom => grid.delete_lines(grid.top, 1),
            '\n' => grid.row = (grid.row + 1).min(ROWS - 1),
            '\x08' => grid.column = grid.column.saturating_sub(1),
            '\t' => grid.column = (grid.column / 8 + 1) * 8,
            c if c.is_control() => {}
            c => {
                if grid.column < COLUMNS {
                    grid.rows[grid.row][grid.column] = c;
                }
                grid.column += 1;
            }
        }
        grid.column = grid.column.min(COLUMNS);
    }
    let lines = grid.rows.iter().map(|row| row.iter().collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

impl Grid {
    fn command(&mut self, given: &str, end: char) {
        if given.starts_with('?') || given.starts_with('>') {
            return;
        }
        let numbers: Vec<usize> = given.split(';').map(|n| n.parse().unwrap_or(0)).collect();
        let first = numbers[0];
        let count = first.max(1);
        let column = self.column.min(COLUMNS - 1);
        match end {
            'H' | 'f' => {
                self.row = (count - 1).min(ROWS - 1);
                self.column = numbers.get(1).map_or(0, |n| n.max(&1) - 1).min(COLUMNS - 1);
            }
            'd' => self.row = (count - 1).min(ROWS - 1),
            'G' => self.column = (count - 1).min(COLUMNS - 1),
            'A' => self.row = self.row.saturating_sub(count),
            'B' => self.row = (self.row + count).min(ROWS - 1),
            'C' => self.column = (column + count).min(COLUMNS - 1),
            'D' => self.column = column.saturating_sub(count),
            'K' => match first {
                0 => self.rows[self.row][column..].fill(' '),
                1 => self.rows[self.row][..=column].fill(' '),
                _ => self.rows[self.row].fill(' '),
            },
            'J' if first == 0 => {
                self.rows[self.row][column..].fill(' ');
                self.rows[self.row + 1..].iter_mut().for_each(|row| row.fill(' '));
            }
            'J' => self.rows.iter_mut().for_each(|row| row.fill(' ')),
            'L' => self.insert_lines(self.row, count),
            'M' => self.delete_lines(self.row, count),
            'P' => {
                let row = &mut self.rows[self.row];
                row.drain(column..(column + count).min(COLUMNS));
                row.resize(COLUMNS, ' ');
            }
            '@' => {
                let row = &mut self.rows[self.row];
                row.splice(column..column, std::iter::repeat_n(' ', count));
                row.truncate(COLUMNS);
            }
            'X' => self.rows[self.row][column..(column + count).min(COLUMNS)].fill(' '),
            'r' => {
                self.top = count - 1;
                self.bottom = numbers.get(1).map_or(ROWS, |n| *n).clamp(1, ROWS) - 1;
                (self.row, self.column) = (0, 0);
            }
            _ => {}
        }
    }

    fn insert_lines(&mut self, at: usize, count: usize) {
        for _ in 0..count.min(ROWS) {
            self.rows.remove(self.bottom);
            self.rows.insert(at, vec![' '; COLUMNS]);
        }
    }

    fn delete_lines(&mut self, at: usize, count: usize) {
        for _ in 0..count.min(ROWS) {
            self.rows.remove(at);
            self.rows.insert(self.bottom, vec![' '; COLUMNS]);
        }
    }
}

#[test]
fn what_is_written_over_is_what_is_seen() {
    let line = |bytes: &[u8]| shown(bytes).lines().next().unwrap_or_default().to_owned();
    assert_eq!(line(b"stopping\x1b[1;6Hed\x1b[K"), "stopped");
    assert_eq!(line(b"abc\x1b[2DXY"), "aXY");
    assert_eq!(line(b"one\r\ntwo\x1b[H\x1b[M"), "two");
    assert_eq!(line(b"ace\x1b[1;2H\x1b[@b"), "abce");
    assert_eq!(line(b"\x1b[7mbold\x1b[0m \xe2\x86\x92"), "bold →");
    assert_eq!(line(b"one\x1b[40;1H\n"), "");
}
