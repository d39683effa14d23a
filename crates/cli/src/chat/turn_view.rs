//! The view of a turn: turns events into lines.
//!
//! Events go in; finished lines come out, once. A few lines may still change, and are computed
//! whenever the screen is drawn: the open block of the reply, a line for each running tool, and the
//! status line. Nothing here writes to a terminal or reads a clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rethread_agent::Event;
use rethread_agent::tool::{CHANGING, FileChange};
use rethread_core::message::Call;
use rethread_render::Stream;
use rethread_render::terminal::{Style, fit_line, line_width, wrap_line};

use super::command_output::CommandOutput;
use super::paint::Paint;
use super::permission_prompt::{PermissionPrompt, ShownChange, diff_lines};
use super::tool_line::{self, lasted};
use crate::out::{clean, count, one_line, plural};

/// Calls with a line of their own; further read-only calls right after them are only counted.
const CALLS_SHOWN: usize = 5;

/// Lines of a running command's output: its first, and its latest.
const OUTPUT_LINES: (usize, usize) = (3, 3);

/// Spaces before a line about a tool, and before its output.
const INDENT: (&str, &str) = ("  ", "    ");

/// Bytes of a running command's output that the pager shows: the latest. Its result has the rest.
const PARTIAL_BYTES_MAX: usize = 256 << 10;

/// A call and its result, for the pager.
#[derive(Clone, Debug)]
pub(super) struct CallRecord {
    pub(super) call: Call,
    /// Whether it succeeded, and its result; none while it runs.
    pub(super) result: Option<(bool, String)>,
    /// What it wrote so far, while it runs.
    pub(super) partial: String,
    /// The number of its changes, so that a copy knows when it is out of date.
    pub(super) changes: u64,
    /// Its change to a file, if someone was asked about it.
    pub(super) change: Option<ShownChange>,
    /// Someone is asked about it, and has not answered.
    pub(super) is_asked: bool,
}

impl CallRecord {
    /// A call that is running.
    pub(super) fn new(call: Call) -> CallRecord {
        let (partial, change) = (String::new(), None);
        CallRecord { call, result: None, partial, changes: 0, change, is_asked: false }
    }

    fn push(&mut self, text: &str) {
        self.partial.push_str(text);
        let too_many = self.partial.len().saturating_sub(PARTIAL_BYTES_MAX);
        // Not at every byte, because the rest has to be moved.
        if too_many > PARTIAL_BYTES_MAX / 4 {
            self.partial.drain(..self.partial.ceil_char_boundary(too_many));
        }
        self.changes += 1;
    }

    /// What came of it.
    pub(super) fn finish(&mut self, success: bool, text: String) {
        self.result = Some((success, text));
        self.partial = String::new();
        self.changes += 1;
    }
}

/// Whether a call changes nothing, by itself or through a subagent: a change always has its line.
fn only_looks(call: &Call) -> bool {
    !CHANGING.contains(&call.name.as_str()) && call.name != "task"
}

/// What was written last: a blank line parts it from what is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// The question, or the label of who answers.
    Beginning,
    Text,
    Tools,
    Note,
}

/// The current activity.
#[derive(Clone, Debug)]
enum Doing {
    Asking,
    Thinking,
    Writing,
    Waiting { holder: String },
    Retrying { until: Instant },
    Stopping,
}

#[derive(Debug)]
struct RunningCall {
    call: Call,
    since: Instant,
    output: CommandOutput,
}

/// A turn as it is seen.
pub(super) struct TurnView {
    agent: String,
    model: String,
    style: Style,
    paint: Paint,
    last: Last,
    label_is_due: bool,
    stream: Stream,
    doing: Doing,
    since: Instant,
    /// The model's thinking, since when, and how many words.
    thought: String,
    running: Vec<RunningCall>,
    /// Calls in a row that have their line, and those that are only counted.
    shown: usize,
    counted: BTreeMap<String, u64>,
    pub(super) records: Vec<CallRecord>,
}

impl TurnView {
    /// A turn in which `agent` answers, by `model`.
    pub(super) fn new(agent: &str, model: &str, style: Style, now: Instant) -> TurnView {
        TurnView {
            agent: clean(agent),
            model: one_line(model),
            paint: Paint::of(&style),
            stream: Stream::new(style.clone()),
            style,
            last: Last::Beginning,
            label_is_due: true,
            doing: Doing::Asking,
            since: now,
            thought: String::new(),
            running: Vec::new(),
            shown: 0,
            counted: BTreeMap::new(),
            records: Vec::new(),
        }
    }

    /// The window has so many columns now.
    pub(super) fn resize(&mut self, columns: usize) {
        self.style.width = columns;
        self.stream.resize(columns);
    }

    /// The user wants to stop it.
    pub(super) fn stopping(&mut self, now: Instant) {
        self.change(Doing::Stopping, now);
    }

    /// A call starts now: until here the user was asked about it.
    pub(super) fn restart(&mut self, id: &str, now: Instant) {
        if let Some(running) = self.running.iter_mut().find(|running| running.call.id == id) {
            running.since = now;
        }
        if let Some(record) = self.records.iter_mut().rev().find(|record| record.call.id == id) {
            record.is_asked = false;
            record.changes += 1;
        }
    }

    /// Handles an event. Returns the lines that are finished by it.
    pub(super) fn event(&mut self, event: &Event, now: Instant) -> String {
        match event {
            Event::Text(text) => self.text(text, now),
            Event::Thinking(text) => {
                let done = self.close_text();
                self.thought.push_str(text);
                if !matches!(self.doing, Doing::Thinking | Doing::Stopping) {
                    self.change(Doing::Thinking, now);
                }
                done
            }
            Event::Waiting { holder } => {
                self.change(Doing::Waiting { holder: who(holder) }, now);
                String::new()
            }
            Event::QuestionCut { from_chars, to_chars } => self.note(&self.paint.warning(&format!(
                "(your message is longer than the model's window: of {} characters it sees the first {})",
                count(*from_chars),
                count(*to_chars)
            ))),
            Event::Retry { why, wait } => {
                // What was shown of the reply and is not finished is void.
                self.stream = Stream::new(self.style.clone());
                let done = self.close(now);
                self.change(Doing::Retrying { until: now + *wait }, now);
                let what = format!("({}; asking again in {:.1} s)", one_line(why), wait.as_secs_f64());
                done + &self.note(&self.paint.warning(&what))
            }
            Event::Damaged { seq, what } => {
                let done = self.close(now);
                let what = format!("({})", super::output::damaged(*seq, what));
                done + &self.note(&self.paint.warning(&what))
            }
            Event::LeftOut { turns } => {
                let done = self.close(now);
                done + &self.note(&self.paint.warning(&format!("({})", super::output::left_out(*turns))))
            }
            Event::Call(call) => {
                let done = self.close_text() + &self.close_thought(now);
                let output = CommandOutput::default();
                self.running.push(RunningCall { call: call.clone(), since: now, output });
                self.records.push(CallRecord::new(call.clone()));
                done
            }
            Event::Progress { call, text } => {
                let running = self.running.iter_mut().find(|running| running.call.id == *call);
                if let Some(running) = running {
                    running.output.push(text);
                }
                let record = self.records.iter_mut().rev().find(|record| record.call.id == *call);
                if let Some(record) = record {
                    record.push(text);
                }
                String::new()
            }
            Event::Result { call, success, text, change } => {
                self.result(call, *success, text, change.as_deref(), now)
            }
            // Questions are asked by `ask`.
            Event::Permission(_) | Event::Usage(_) => String::new(),
            Event::Subagent { event, .. } => self.subagent(event),
        }
    }

    /// Shows a question, in a window with this many rows. Returns its lines.
    pub(super) fn ask(
        &mut self,
        prompt: &mut PermissionPrompt,
        rows: usize,
        now: Instant,
    ) -> String {
        let lines = prompt.lines(&self.style, diff_lines(rows));
        let (id, change) = (&prompt.call().id, prompt.change(&self.style));
        match self.records.iter_mut().rev().find(|record| record.call.id == *id) {
            Some(record) => (record.change, record.is_asked) = (change, true),
            // A subagent's: it is shown in full, too.
            None => {
                let record = CallRecord::new(prompt.call().clone());
                self.records.push(CallRecord { change, is_asked: true, ..record });
            }
        }
        self.close(now) + &self.written(Last::Note, &lines)
    }

    /// Shows a call that a turn in another program is running.
    pub(super) fn runs_elsewhere(&mut self, call: &Call) -> String {
        let line = format!("{} · still running", tool_line::what(call));
        let lines = self.wrapped(INDENT.0, &self.paint.dim(&line), INDENT.1.len());
        self.close_text() + &self.close_counted() + &self.written(Last::Tools, &lines)
    }

    /// The lines that may still change: at most `rows` of the reply, and the status line.
    pub(super) fn live(&self, now: Instant, rows: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let open = self.stream.open();
        if !open.trim().is_empty() {
            lines.extend(self.start_of(Last::Text).lines().map(str::to_owned));
            lines.extend(open.lines().map(str::to_owned));
        } else if !self.counted.is_empty() {
            lines.push(self.counted_line());
        }
        let mut is_first = true;
        for running in self.running.iter().filter(|running| !running.output.is_empty()) {
            if std::mem::take(&mut is_first) {
                lines.extend(self.start_of(Last::Tools).lines().map(str::to_owned));
            }
            lines.extend(self.running_lines(running));
        }
        // What is further up cannot be seen anyway.
        lines.drain(..lines.len().saturating_sub(rows.saturating_sub(2)));
        lines.push(String::new());
        lines.push(self.happening(now));
        lines
    }

    /// Ends the turn: returns the rest.
    pub(super) fn finish(&mut self, now: Instant) -> String {
        let mut done = self.close(now);
        if self.last != Last::Beginning {
            done.push('\n');
        }
        done
    }

    /// The status line: the activity, its duration, and how to stop it.
    fn happening(&self, now: Instant) -> String {
        let stopping = matches!(self.doing, Doing::Stopping);
        let (what, since) = match (self.running.as_slice(), &self.doing) {
            (_, Doing::Stopping) => ("stopping".to_owned(), self.since),
            ([first, others @ ..], _) => {
                let what = tool_line::what(&first.call);
                let what =
                    what.strip_prefix("run ").map_or(what.clone(), |c| format!("running {c}"));
                let others = match others.len() {
                    0 => String::new(),
                    more => format!(" and {}", plural(more as u64, "other call")),
                };
                (what + &others, first.since)
            }
            (_, Doing::Waiting { holder }) => {
                (format!("waiting for another turn in this session ({holder})"), self.since)
            }
            (_, Doing::Retrying { until }) if *until > now => {
                let left = (*until - now).as_secs_f64().ceil();
                (format!("retrying in {left} s"), now)
            }
            (_, Doing::Retrying { .. } | Doing::Asking) => {
                (format!("asking {}", self.model), self.since)
            }
            (_, Doing::Thinking) => ("thinking".to_owned(), self.since),
            (_, Doing::Writing) => ("writing".to_owned(), self.since),
        };
        let took = now.saturating_duration_since(since);
        let stop = if stopping { "" } else { " · Esc stops" };
        let line = happening(&what, took, stop, self.style.width, self.paint);
        match self.doing {
            Doing::Thinking if self.running.is_empty() => {
                let room = self.style.width.saturating_sub(line_width(&line));
                let thought = format!(" · {}", latest_words(&self.thought));
                line + &self.paint.dim(&fit_line(&thought, room))
            }
            _ => line,
        }
    }

    fn text(&mut self, text: &str, now: Instant) -> String {
        let done = self.close_thought(now) + &self.close_calls();
        if !matches!(self.doing, Doing::Writing | Doing::Stopping) {
            self.change(Doing::Writing, now);
        }
        let finished = self.stream.push(text);
        done + &self.written(Last::Text, &finished)
    }

    /// A tool is done.
    fn result(
        &mut self,
        call: &Call,
        success: bool,
        text: &str,
        change: Option<&FileChange>,
        now: Instant,
    ) -> String {
        let at = self.running.iter().position(|running| running.call.id == call.id);
        let running = at.map(|at| self.running.remove(at));
        let since = running.as_ref().map_or(now, |running| running.since);
        let took = now.saturating_duration_since(since);
        let record = self.records.iter_mut().rev().find(|record| record.call.id == call.id);
        if let Some(record) = record {
            record.finish(success, text.to_owned());
        }
        if self.running.is_empty() && !matches!(self.doing, Doing::Stopping) {
            self.change(Doing::Asking, now);
        }
        let output = running.map(|running| running.output).unwrap_or_default();
        let details = if success { tool_line::details(call) } else { Vec::new() };
        let counted = self.shown >= CALLS_SHOWN && only_looks(call);
        if success && output.is_empty() && details.is_empty() && counted {
            *self.counted.entry(tool_line::verb(call)).or_default() += 1;
            return String::new();
        }
        let mut done = self.close_counted();
        self.shown += 1;
        let room = self.style.width.saturating_sub(INDENT.0.len());
        let line = tool_line::line(call, success, text, change, (took, room));
        let line = match success {
            true => self.paint.dim(&line),
            false => self.paint.bad(&line),
        };
        let mut lines = self.wrapped(INDENT.0, &line, INDENT.1.len());
        for line in output.lines(OUTPUT_LINES.0, OUTPUT_LINES.1) {
            lines += &self.output_line(&line);
            lines.push('\n');
        }
        for line in details {
            lines += &self.wrapped(INDENT.1, &line, INDENT.1.len() + 2);
        }
        done += &self.written(Last::Tools, &lines);
        done
    }

    fn subagent(&mut self, event: &Event) -> String {
        match event {
            Event::Result { call, success: true, .. }
                if self.shown >= CALLS_SHOWN && only_looks(call) =>
            {
                *self.counted.entry(tool_line::verb(call)).or_default() += 1;
                String::new()
            }
            Event::Result { call, success, text, change } => {
                let done = self.close_counted();
                self.shown += 1;
                let change = change.as_deref();
                let room = self.style.width.saturating_sub(INDENT.1.len());
                let line = tool_line::line(call, *success, text, change, (Duration::ZERO, room));
                let lines = self.wrapped(INDENT.1, &self.paint.dim(&line), INDENT.1.len() + 2);
                done + &self.written(Last::Tools, &lines)
            }
            _ => String::new(),
        }
    }

    /// A running tool that has written something.
    fn running_lines(&self, running: &RunningCall) -> Vec<String> {
        let what = tool_line::what(&running.call);
        let mut lines = vec![format!("{}{}", INDENT.0, self.paint.dim(&what))];
        let output = running.output.lines(OUTPUT_LINES.0, OUTPUT_LINES.1);
        lines.extend(output.iter().map(|line| self.output_line(line)));
        lines
    }

    fn output_line(&self, line: &str) -> String {
        let room = self.style.width.saturating_sub(INDENT.1.len());
        format!("{}{}", INDENT.1, self.paint.dim(&fit_line(line, room)))
    }

    fn counted_line(&self) -> String {
        let all: u64 = self.counted.values().sum();
        let each: Vec<String> =
            self.counted.iter().map(|(verb, calls)| format!("{calls} {verb}")).collect();
        let line = format!("and {} more: {}", count(all), each.join(", "));
        format!("{}{}", INDENT.0, self.paint.dim(&line))
    }

    /// A line about the conversation.
    fn note(&mut self, text: &str) -> String {
        let lines = self.wrapped("", text, 0);
        self.written(Last::Note, &lines)
    }

    fn change(&mut self, doing: Doing, now: Instant) {
        (self.doing, self.since) = (doing, now);
    }

    /// Finishes everything that is open.
    fn close(&mut self, now: Instant) -> String {
        self.close_thought(now) + &self.close_text() + &self.close_calls()
    }

    fn close_text(&mut self) -> String {
        let rest = self.stream.finish();
        self.written(Last::Text, &rest)
    }

    /// Folds the model's thinking to one line.
    fn close_thought(&mut self, now: Instant) -> String {
        let thought = std::mem::take(&mut self.thought);
        if thought.trim().is_empty() {
            return String::new();
        }
        let took = now.saturating_duration_since(self.since);
        let time =
            if took.as_secs() >= 1 { format!(" for {}", lasted(took)) } else { String::new() };
        let words = plural(thought.split_whitespace().count() as u64, "word");
        let line = format!("thought{time} · {words} · /thinking shows it");
        let lines = self.wrapped(INDENT.0, &self.paint.dim(&line), INDENT.1.len());
        self.written(Last::Tools, &lines)
    }

    fn close_calls(&mut self) -> String {
        let done = self.close_counted();
        self.shown = 0;
        done
    }

    fn close_counted(&mut self) -> String {
        if self.counted.is_empty() {
            return String::new();
        }
        let line = self.counted_line() + "\n";
        self.counted.clear();
        self.written(Last::Tools, &line)
    }

    /// Lines that are finished, with what parts them from those before.
    fn written(&mut self, kind: Last, lines: &str) -> String {
        if lines.is_empty() {
            return String::new();
        }
        let start = self.start_of(kind);
        self.label_is_due = false;
        self.last = kind;
        start + lines
    }

    /// What comes before lines of a kind: the label once, a blank line after something else.
    fn start_of(&self, kind: Last) -> String {
        let mut start = String::new();
        if self.label_is_due {
            start = format!("\n{}\n", self.paint.speaker(&format!("{}:", self.agent)));
        } else if self.last != kind {
            start.push('\n');
        }
        start
    }

    fn wrapped(&self, indent: &str, line: &str, further: usize) -> String {
        let lines = wrap_line(&format!("{indent}{line}"), self.style.width, further);
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// The activity and its duration, on one line that says how to stop it.
pub(super) fn happening(
    what: &str,
    took: Duration,
    stop: &str,
    columns: usize,
    paint: Paint,
) -> String {
    let time = if took.as_secs() >= 1 { format!(" · {}", lasted(took)) } else { String::new() };
    let room = columns.saturating_sub(2 + line_width(&time) + line_width(stop));
    format!("{} {}{time}{}", paint.speaker("•"), fit_line(what, room), paint.dim(stop))
}

/// The end of a text, on one line.
fn latest_words(text: &str) -> String {
    const BYTES: usize = 400;
    let from = text.floor_char_boundary(text.len().saturating_sub(BYTES));
    let tail = text[from..].rsplit('\n').find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(tail.trim())
}

/// Who holds a session, for people.
pub(super) fn who(holder: &str) -> String {
    match holder.split_once('.') {
        Some((pid, _)) if pid.chars().all(|c| c.is_ascii_digit()) => format!("process {pid}"),
        _ => one_line(holder),
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{Owner, Raw, SessionId};
    use serde_json::json;

    use super::*;

    fn view() -> (TurnView, Instant) {
        let now = Instant::now();
        (TurnView::new("build", "m", Style::plain(40), now), now)
    }

    fn call(id: &str, command: &str) -> Call {
        Call { id: id.into(), name: "run".into(), input: Raw::of(&json!({ "command": command })) }
    }

    fn result(call: &Call) -> Event {
        let text = "[exit code 0]".into();
        Event::Result { call: call.clone(), success: true, text, change: None }
    }

    #[test]
    fn the_label_comes_once_and_blank_lines_part_what_is_different() {
        let (mut view, now) = view();
        let one = call("1", "one");
        let mut done = view.event(&Event::Text("Hello".into()), now);
        assert_eq!(done, "");
        assert_eq!(view.live(now, 20), ["", "build:", "Hello", "", "• writing · Esc stops"]);
        for event in [Event::Call(one.clone()), result(&one), Event::Text("Done.\n\nBye".into())] {
            done += &view.event(&event, now);
        }
        done += &view.finish(now);
        assert_eq!(done, "\nbuild:\nHello\n\n  run one · exit 0\n\nDone.\n\nBye\n\n");
    }

    #[test]
    fn a_turn_in_which_nothing_is_said_leaves_nothing() {
        let (mut view, now) = view();
        assert_eq!(view.event(&Event::Thinking(" ".into()), now), "");
        assert_eq!(view.finish(now), "");
    }

    #[test]
    fn what_is_void_after_a_retry_is_not_shown_again() {
        let (mut view, now) = view();
        view.event(&Event::Text("half a sen".into()), now);
        let wait = Duration::from_millis(2_500);
        let note = view.event(&Event::Retry { why: "cut\noff".into(), wait }, now);
        assert_eq!(note, "\nbuild:\n(cut\\noff; asking again in 2.5 s)\n");
        assert_eq!(view.live(now, 20), ["", "• retrying in 3 s · Esc stops"]);
        let later = now + Duration::from_millis(2_600);
        assert_eq!(view.live(later, 20)[1], "• asking m · 2 s · Esc stops");
    }

    #[test]
    fn calls_that_run_at_once_are_all_named_and_timed_by_themselves() {
        let (mut view, now) = view();
        let (one, two) = (call("1", "one"), call("2", "two"));
        view.event(&Event::Call(one.clone()), now);
        view.event(&Event::Call(two.clone()), now + Duration::from_secs(2));
        let at = |seconds| now + Duration::from_secs(seconds);
        let shown = view.live(at(3), 20);
        assert_eq!(shown, ["", "• running one and 1 o… · 3 s · Esc stops"]);
        let done = view.event(&result(&one), at(4)) + &view.event(&result(&two), at(5));
        assert_eq!(done, "\nbuild:\n  run one · exit 0 · 4 s\n  run two · exit 0 · 3 s\n");
    }

    #[test]
    fn the_live_lines_fit_the_rows_they_are_given_and_the_last_says_what_happens() {
        let (mut view, now) = view();
        let text: String = (0..50).map(|n| format!("word{n}  \n")).collect();
        view.event(&Event::Text(text), now);
        let shown = view.live(now, 10);
        assert_eq!(shown.len(), 10);
        assert_eq!(shown[7..], ["word49", "", "• writing · Esc stops"]);
        view.stopping(now);
        assert_eq!(view.live(now, 10)[9], "• stopping");
    }

    #[test]
    fn what_a_subagent_does_is_indented_below() {
        let (mut view, now) = view();
        let session = SessionId::of_source(&Owner::local(), "child");
        let event = Event::Subagent { session, event: Box::new(result(&call("9", "ls"))) };
        assert_eq!(view.event(&event, now), "\nbuild:\n    run ls · exit 0\n");
    }
}
