//! A diff as HTML: a table with the line numbers of both sides.

use std::fmt::Write;

use super::{WRITES, escape};
use crate::diff::{Content, Diff, DiffLine, Sign, more_lines};

pub(super) fn render(diff: &Diff) -> String {
    let mut out = String::new();
    let note = |text: String| format!("<p class=\"note\">{text}</p>\n");
    match &diff.content {
        Content::Same => out += &note("no changes".to_owned()),
        Content::Binary { old, new } => out += &note(format!("binary file: {old} → {new} bytes")),
        Content::TooLarge { old, new } => {
            out += &note(format!("too large to compare: {old} → {new} bytes"));
        }
        Content::Hunks { hunks, left_out } => {
            let (added, removed) = (diff.added(), diff.removed());
            out += "<div class=\"diff\" tabindex=\"0\"><table>\n<caption>";
            write!(out, "<span class=\"added\">+{added}</span> ").expect(WRITES);
            writeln!(out, "<span class=\"removed\">-{removed}</span></caption>").expect(WRITES);
            for hunk in hunks {
                out += "<tbody>\n";
                hunk.iter().for_each(|line| write_line(line, &mut out));
                out += "</tbody>\n";
            }
            out += "</table></div>\n";
            if *left_out > 0 {
                out += &note(more_lines(*left_out));
            }
        }
    }
    out
}

fn write_line(line: &DiffLine, out: &mut String) {
    let (row, sign) = match line.sign {
        Sign::Same => ("<tr>", " "),
        Sign::Added => ("<tr class=\"added\">", "+"),
        Sign::Removed => ("<tr class=\"removed\">", "-"),
    };
    *out += row;
    for number in [line.old, line.new] {
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        write!(out, "<td class=\"place\">{number}</td>").expect(WRITES);
    }
    write!(out, "<td>{sign}").expect(WRITES);
    let changed = match line.sign {
        Sign::Removed => "del",
        _ => "ins",
    };
    for (is_changed, text) in &line.parts {
        if *is_changed {
            write!(out, "<{changed}>").expect(WRITES);
        }
        escape(text, out);
        if *is_changed {
            write!(out, "</{changed}>").expect(WRITES);
        }
    }
    if line.is_unended {
        *out += " <span class=\"mark\">no newline at end</span>";
    }
    *out += "</td></tr>\n";
}
