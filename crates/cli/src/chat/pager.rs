//! The pager: calls and their results in full, on the alternate screen.
//!
//! This only decides what is shown; the caller draws it and reads the keys.

use rethread_core::message::Call;
use rethread_render::terminal::{fit_line, wrap_line};
use serde_json::Value;

use super::command_output::visible;
use super::keys::Key;
use super::paint::Paint;
use super::tool_line;
use super::turn_view::CallRecord;
use crate::out::{clean, one_line};

/// Shows calls, one at a time.
pub(super) struct Pager {
    records: Vec<CallRecord>,
    /// The index of the current call.
    at: usize,
    /// The first line that is shown.
    top: usize,
    lines: Vec<String>,
    columns: usize,
    rows: usize,
    paint: Paint,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paging {
    /// It is drawn again.
    Goes,
    /// The pager is closed.
    Over,
}

impl Pager {
    /// Shows the last of these calls; none without any.
    pub(super) fn open(
        records: Vec<CallRecord>,
        columns: usize,
        rows: usize,
        paint: Paint,
    ) -> Option<Pager> {
        let at = records.len().checked_sub(1)?;
        let mut pager = Pager { records, at, top: 0, lines: Vec::new(), columns, rows, paint };
        pager.lay_out();
        Some(pager)
    }

    /// Updates the calls. A view at the end of a command's output stays there.
    pub(super) fn update(&mut self, records: &[CallRecord]) {
        let shown = self.records[self.at].changes;
        for (index, record) in records.iter().enumerate() {
            match self.records.get_mut(index) {
                Some(known) if known.changes == record.changes => {}
                Some(known) => *known = record.clone(),
                None => self.records.push(record.clone()),
            }
        }
        if self.records[self.at].changes != shown {
            let is_at_end = self.top + self.page() >= self.lines.len();
            self.lay_out();
            if is_at_end && self.records[self.at].result.is_none() {
                self.top = self.lines.len().saturating_sub(self.page());
            }
        }
    }

    /// The window was resized.
    pub(super) fn resize(&mut self, columns: usize, rows: usize) {
        (self.columns, self.rows) = (columns, rows);
        self.lay_out();
    }

    /// What a key does.
    pub(super) fn key(&mut self, key: &Key) -> Paging {
        let page = self.page();
        match key {
            Key::Escape | Key::Open => return Paging::Over,
            Key::Text(text) => match text.chars().last() {
                Some('q') => return Paging::Over,
                Some('j') => self.top += 1,
                Some('k') => self.top = self.top.saturating_sub(1),
                Some(' ') => self.top += page,
                Some('b') => self.top = self.top.saturating_sub(page),
                Some('g') => self.top = 0,
                Some('G') => self.top = self.lines.len(),
                Some('p') => self.show(self.at.saturating_sub(1)),
                Some('n') => self.show(self.at + 1),
                _ => {}
            },
            Key::Down | Key::Enter => self.top += 1,
            Key::Up => self.top = self.top.saturating_sub(1),
            Key::PageDown => self.top += page,
            Key::PageUp => self.top = self.top.saturating_sub(page),
            Key::Home => self.top = 0,
            Key::End => self.top = self.lines.len(),
            Key::Left => self.show(self.at.saturating_sub(1)),
            Key::Right => self.show(self.at + 1),
            _ => {}
        }
        self.top = self.top.min(self.lines.len().saturating_sub(page));
        Paging::Goes
    }

    /// The lines of the window.
    pub(super) fn draw(&self) -> Vec<String> {
        let page = self.page();
        let mut lines: Vec<String> = self.lines.iter().skip(self.top).take(page).cloned().collect();
        lines.resize(page, String::new());
        let last = (self.top + page).min(self.lines.len());
        let which = match self.records.len() {
            1 => String::new(),
            all => format!("call {} of {all} (← →) · ", self.at + 1),
        };
        let footer =
            format!("{which}lines {}–{last} of {} · q closes", self.top + 1, self.lines.len());
        lines.push(self.paint.bold(&fit_line(&footer, self.columns)));
        lines
    }

    fn page(&self) -> usize {
        self.rows.saturating_sub(1).max(1)
    }

    fn show(&mut self, at: usize) {
        let at = at.min(self.records.len() - 1);
        if at != self.at {
            (self.at, self.top) = (at, 0);
            self.lay_out();
        }
    }

    fn lay_out(&mut self) {
        let CallRecord { call, result, partial, change, is_asked, .. } = &self.records[self.at];
        let mut lines = vec![self.paint.bold(&tool_line::what(call)), String::new()];
        match change {
            Some(change) => lines.extend(change.rendered(self.columns).lines().map(str::to_owned)),
            None if !tool_line::edits(call).is_empty() => lines.extend(edits(call)),
            None => lines.extend(arguments(call)),
        }
        lines.push(String::new());
        match result {
            None if *is_asked => lines.push(self.paint.dim("(it waits for your answer)")),
            None if change.is_some() => lines.push(self.paint.dim("(it is not done yet)")),
            None => {
                lines.push(self.paint.dim("(it is running)"));
                lines.extend(partial.lines().map(visible));
            }
            Some((success, text)) => {
                if !success {
                    lines.push(self.paint.bad("✗ it failed"));
                }
                lines.extend(whole(text));
            }
        }
        let wrap = |line: &String| wrap_line(line, self.columns, 0);
        self.lines = lines.iter().flat_map(wrap).collect();
        self.top = self.top.min(self.lines.len().saturating_sub(self.page()));
    }
}

/// The text that an edit removes and inserts. Its position in the file is not known any more.
pub(crate) fn edits(call: &Call) -> Vec<String> {
    let mut lines = Vec::new();
    for (old, new) in tool_line::edits(call) {
        if !lines.is_empty() {
            lines.push("⋯".to_owned());
        }
        let signed = |sign: &str, text: &str| -> Vec<String> {
            let text = clean(&text.replace('\t', "    "));
            text.lines().map(|line| format!("{sign} {line}")).collect()
        };
        lines.extend(signed("-", &old));
        lines.extend(signed("+", &new));
    }
    lines
}

/// The arguments of a call, each with its name, and all of it.
pub(crate) fn arguments(call: &Call) -> Vec<String> {
    let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
    let Value::Object(fields) = input else { return whole(call.input.get()) };
    let mut lines = Vec::new();
    for (name, value) in &fields {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match value.contains('\n') {
            true => {
                lines.push(format!("{}:", one_line(name)));
                lines.extend(whole(&value).into_iter().map(|line| format!("  {line}")));
            }
            false => lines.push(format!("{}: {}", one_line(name), one_line(&value))),
        }
    }
    lines
}

/// A text as visible lines. JSON on one line is indented.
fn whole(text: &str) -> Vec<String> {
    let laid_out = match text.starts_with(['{', '[']) {
        true => serde_json::from_str::<Value>(text)
            .ok()
            .and_then(|value| serde_json::to_string_pretty(&value).ok()),
        false => None,
    };
    let text = clean(&laid_out.as_deref().unwrap_or(text).replace('\t', "    "));
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rethread_core::Raw;
    use rethread_render::terminal::Style;
    use serde_json::json;

    use super::*;

    fn record(command: &str, result: &str) -> CallRecord {
        let input = Raw::of(&json!({ "command": command }));
        let call = Call { id: "1".into(), name: "run".into(), input };
        let mut record = CallRecord::new(call);
        record.finish(true, result.into());
        record
    }

    fn pager(records: Vec<CallRecord>) -> Pager {
        Pager::open(records, 40, 6, Paint::of(&Style::plain(40))).expect("there is a call")
    }

    #[test]
    fn the_last_call_is_shown_first_and_the_others_are_one_key_away() {
        let mut pager = pager(vec![record("one", "1"), record("two", "2")]);
        assert_eq!(
            pager.draw(),
            ["run two", "", "command: two", "", "2", "call 2 of 2 (← →) · lines 1–5 of 5 · q …"]
        );
        assert_eq!(pager.key(&Key::Left), Paging::Goes);
        assert_eq!(pager.draw()[0], "run one");
        assert_eq!(pager.key(&Key::Text("q".into())), Paging::Over);
        assert!(Pager::open(Vec::new(), 40, 6, Paint::of(&Style::plain(40))).is_none());
    }

    #[test]
    fn an_edit_is_shown_as_what_goes_and_what_comes() {
        let edits = json!([{"old": "one\ntwo", "new": "TWO"}, {"old": "x", "new": "\u{1b}y"}]);
        let input = Raw::of(&json!({ "path": "a.txt", "edits": edits }));
        let call = Call { id: "1".into(), name: "edit_file".into(), input };
        let mut record = CallRecord::new(call);
        record.finish(true, "2 edits made".into());
        let shown = Pager::open(vec![record], 40, 20, Paint::of(&Style::plain(40)));
        let shown = shown.expect("there is a call").draw();
        assert_eq!(shown[..5], ["edit a.txt", "", "- one", "- two", "+ TWO"]);
        assert_eq!(shown[5..7], ["⋯", "- x"]);
        assert!(!shown.concat().contains(['"', '\u{1b}']), "{shown:?}");
    }

    #[test]
    fn a_long_result_is_seen_to_its_last_line_and_not_beyond() {
        let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let mut pager = pager(vec![record("seq", &text)]);
        for key in [Key::End, Key::PageDown, Key::Down] {
            pager.key(&key);
            assert_eq!(pager.draw()[4], "line 100");
        }
        pager.key(&Key::PageUp);
        assert_eq!(pager.draw()[4], "line 95");
        pager.key(&Key::Home);
        pager.resize(20, 8);
        assert_eq!(pager.draw().len(), 8);
        assert_eq!(pager.draw()[0], "run seq");
    }

    #[test]
    fn what_a_running_command_writes_is_seen_as_it_comes_and_its_end_is_followed() {
        let running = |partial: String, changes| CallRecord {
            result: None,
            partial,
            changes,
            ..record("seq", "")
        };
        let asked = CallRecord { is_asked: true, ..running(String::new(), 0) };
        assert_eq!(pager(vec![asked]).draw()[4], "(it waits for your answer)");
        let mut pager = pager(vec![running("one\n".into(), 1)]);
        assert_eq!(pager.draw()[4], "(it is running)");
        pager.key(&Key::End);
        assert_eq!(pager.draw()[4], "one");
        let many: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        pager.update(&[running(many, 2), record("next", "")]);
        assert_eq!(pager.draw()[3..5], ["line 99", "line 100"]);
        assert!(pager.draw()[5].starts_with("call 1 of 2"), "{:?}", pager.draw());
    }
}
