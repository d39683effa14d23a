//! A diff as lines of a terminal.

use super::ansi::{Face, Line, Run, push, write_line};
use super::style::Style;
use super::wrap::wrap_code;
use super::write::tabs;
use crate::diff::{Content, Diff, DiffLine, Sign, more_lines};
use crate::palette::Role;
use crate::width::width;

pub(super) fn render(diff: &Diff, style: &Style) -> String {
    let mut out = String::new();
    let note = |text: String, out: &mut String| {
        for line in super::wrap::wrap(&[Run::mark(text)], style.columns()) {
            write_line(&line, style, out);
        }
    };
    let arrow = if style.plain { "->" } else { "→" };
    match &diff.content {
        Content::Same => note("no changes".to_owned(), &mut out),
        Content::Binary { old, new } => {
            note(format!("binary file: {old} {arrow} {new} bytes"), &mut out);
        }
        Content::TooLarge { old, new } => {
            note(format!("too large to compare: {old} {arrow} {new} bytes"), &mut out);
        }
        Content::Hunks { hunks, left_out } => {
            let added = Run::new(format!("+{}", diff.added()), Face::of(Role::Added));
            let removed = Run::new(format!("-{}", diff.removed()), Face::of(Role::Removed));
            write_line(&[added, Run::mark(" "), removed], style, &mut out);
            let last = hunks.iter().flatten().filter_map(number).max().unwrap_or_default();
            let digits = width(&last.to_string());
            for (index, hunk) in hunks.iter().enumerate() {
                if index > 0 {
                    let dots = if style.plain { "..." } else { "⋮" };
                    write_line(&[Run::mark(format!("{dots:>digits$}"))], style, &mut out);
                }
                for line in hunk {
                    write_diff_line(line, digits, style, &mut out);
                }
            }
            if *left_out > 0 {
                note(more_lines(*left_out), &mut out);
            }
        }
    }
    out
}

/// The number a line is known by: where it is now, or where it was.
fn number(line: &DiffLine) -> Option<usize> {
    line.new.or(line.old)
}

fn write_diff_line(line: &DiffLine, digits: usize, style: &Style, out: &mut String) {
    let (sign, role) = match line.sign {
        Sign::Same => (" ", None),
        Sign::Added => ("+", Some(Role::Added)),
        Sign::Removed => ("-", Some(Role::Removed)),
    };
    let face = Face { role, ..Face::default() };
    let changed = Face { bold: true, underline: true, ..face };
    let parts = line.parts.iter().map(|(is_new, text)| {
        let face = if *is_new { changed } else { face };
        (text.as_str(), face)
    });
    let number = number(line).map(|number| number.to_string()).unwrap_or_default();
    let taken = digits + 3;
    let columns = style.columns().saturating_sub(taken).max(1);
    for (index, text) in wrap_code(&tabs(parts), columns, "").into_iter().enumerate() {
        let mut whole: Line = match index {
            0 => vec![Run::mark(format!("{number:>digits$} ")), Run::new(format!("{sign} "), face)],
            _ => vec![Run::mark(" ".repeat(taken))],
        };
        for run in text {
            push(&mut whole, &run.text, run.face, None);
        }
        write_line(&whole, style, out);
    }
    if line.is_unended {
        let note = format!("{}\\ no newline at end", " ".repeat(digits + 1));
        for line in wrap_code(&[Run::mark(note)], style.columns(), "") {
            write_line(&line, style, out);
        }
    }
}
