//! The permission question: what is shown, the possible answers, and their meaning.
//!
//! A change to a file is shown as a diff, any other call in full: a part could hide what matters.
//! Nothing here reads keys or writes to a terminal, so the question is the same in every kind of
//! chat.

use std::sync::atomic::{AtomicBool, Ordering};

use rethread_agent::tool::{Confinement, FileChange};
use rethread_agent::{Grant, PermissionAnswer, PermissionRequest};
use rethread_core::message::Call;
use rethread_render::Diff;
use rethread_render::terminal::{Style, render_diff, wrap_line};
use serde_json::Value;

use super::paint::Paint;
use crate::out::{clean, one_line, plural};

/// Lines of a diff that are shown at once, if the window has no size.
pub(super) const DIFF_LINES: usize = 40;

/// The fewest lines of a diff that are shown, in the smallest window.
const DIFF_LINES_MIN: usize = 10;

/// Lines of the window that are left for what is around a diff.
const LINES_AROUND: usize = 8;

/// A question that is on the screen.
pub(super) struct PermissionPrompt {
    request: PermissionRequest,
    /// What to do instead is typed next.
    instead: bool,
    /// A subagent wants to do it.
    by_subagent: bool,
    /// Part of the change is not on the screen.
    folded: bool,
    /// What the kernel cannot prevent, if this is the first question about a command.
    unconfined: Option<&'static str>,
}

/// Whether the chat has said what the kernel cannot prevent. There is one chat per process.
static SAID: AtomicBool = AtomicBool::new(false);

/// What the kernel cannot prevent, unless it was said before: repeated in every question, it would
/// not be read.
fn unconfined(here: Confinement, said: &AtomicBool) -> Option<&'static str> {
    let note = match here {
        Confinement::Full => return None,
        Confinement::Partial => {
            "! This kernel confines commands only in part: they may reach the network and your other \
             processes."
        }
        Confinement::None => {
            "! This kernel cannot confine commands: they may write wherever you may, and reach the \
             network."
        }
    };
    (!said.swap(true, Ordering::Relaxed)).then_some(note)
}

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptAnswer {
    /// The user has decided.
    Answer(PermissionAnswer),
    /// They want to see the whole change.
    ShowAll,
    /// They want to say what to do instead, and type it next.
    Instead,
    /// The question is repeated, for this reason.
    Again(String),
}

impl PermissionPrompt {
    pub(super) fn new(request: PermissionRequest, by_subagent: bool) -> PermissionPrompt {
        let unconfined = match request.call.name == "run" {
            true => unconfined(Confinement::here(), &SAID),
            false => None,
        };
        PermissionPrompt { request, instead: false, by_subagent, folded: false, unconfined }
    }

    pub(super) fn call(&self) -> &Call {
        &self.request.call
    }

    /// Its change, to be shown in full.
    pub(super) fn change(&self, style: &Style) -> Option<ShownChange> {
        self.request.change.as_ref().map(|change| ShownChange::new(change, style))
    }

    /// The question, as lines that each end with a line feed. Only the first `diff_lines` of a long
    /// diff are shown.
    pub(super) fn lines(&mut self, style: &Style, diff_lines: usize) -> String {
        let paint = Paint::of(style);
        let mut lines = String::new();
        let who = if self.by_subagent { " (asked for by a subagent)" } else { "" };
        let call = &self.request.call;
        let name = one_line(&call.name);
        match self.change(style) {
            Some(change) => {
                let title = format!("Allow {name} {}{who}", change.path);
                push(&mut lines, &paint.bold(&title), style, 2);
                let (shown, more) = change.folded(style.width, diff_lines);
                lines += &shown;
                self.folded = more > 0;
                if self.folded {
                    let more = format!("… {} · v shows all", plural(more as u64, "more line"));
                    push(&mut lines, &paint.dim(&more), style, 2);
                }
            }
            None => {
                push(&mut lines, &paint.bold(&format!("Allow {name}{who}")), style, 2);
                for line in arguments(call) {
                    push(&mut lines, &format!("  {line}"), style, 6);
                }
            }
        }
        for note in self.notes() {
            push(&mut lines, &paint.warning(&note), style, 2);
        }
        push(&mut lines, &paint.dim(&self.choices()), style, 2);
        lines
    }

    /// What a person should know before they answer.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(why) = &self.request.why {
            notes.push(format!("! You are asked every time: {}", one_line(why)));
        }
        notes.extend(self.unconfined.map(str::to_owned));
        notes
    }

    fn choices(&self) -> String {
        let always = match &self.request.always {
            // It is above, in full.
            Some(Grant::Exactly(_)) => " · a always: exactly this command".to_owned(),
            Some(grant) => {
                format!(" · a always, in this session: {}", one_line(&grant.to_string()))
            }
            None => String::new(),
        };
        format!("y yes · n no{always} · e say what to do instead")
    }

    /// The prompt for the answer.
    pub(super) fn question(&self) -> &'static str {
        match (self.instead, &self.request.always) {
            (true, _) => "What to do instead: ",
            (false, Some(_)) => "? (y/n/a/e) ",
            (false, None) => "? (y/n/e) ",
        }
    }

    /// Interprets an answer.
    pub(super) fn read_line(&mut self, line: &str) -> PromptAnswer {
        let text = line.trim();
        if std::mem::take(&mut self.instead) {
            return match text.is_empty() {
                true => PromptAnswer::Again("The line was empty. The question is still:".into()),
                false => PromptAnswer::Answer(PermissionAnswer::NoBecause(text.to_owned())),
            };
        }
        if let Some((first, rest)) = text.split_once(char::is_whitespace)
            && first.eq_ignore_ascii_case("e")
        {
            return PromptAnswer::Answer(PermissionAnswer::NoBecause(rest.trim().to_owned()));
        }
        match (text.to_lowercase().as_str(), &self.request.always) {
            ("y" | "yes", _) => PromptAnswer::Answer(PermissionAnswer::Once),
            ("n" | "no", _) => PromptAnswer::Answer(PermissionAnswer::No),
            ("a" | "always", Some(grant)) => {
                PromptAnswer::Answer(PermissionAnswer::Always(grant.clone()))
            }
            ("a" | "always", None) => PromptAnswer::Again(match &self.request.why {
                Some(_) => "You are asked about this every time.".into(),
                None => "`always` is not offered here: answer y or n.".into(),
            }),
            ("e", _) => {
                self.instead = true;
                PromptAnswer::Instead
            }
            ("v", _) if self.request.change.is_some() => PromptAnswer::ShowAll,
            _ => PromptAnswer::Again(format!("Please answer one of these: {}", self.choices())),
        }
    }

    /// Gives the answer.
    pub(super) fn answer(self, answer: PermissionAnswer) {
        self.request.answer(answer);
    }
}

/// How many lines of a diff are shown in a window of so many rows.
pub(super) fn diff_lines(rows: usize) -> usize {
    rows.saturating_sub(LINES_AROUND).max(DIFF_LINES_MIN)
}

/// A change to a file as it is shown.
#[derive(Clone, Debug)]
pub(super) struct ShownChange {
    /// The file, and that it is new.
    path: String,
    diff: Diff,
    style: Style,
}

impl ShownChange {
    pub(super) fn new(change: &FileChange, style: &Style) -> ShownChange {
        let FileChange { path, before, after } = change;
        let path = one_line(&path.display().to_string());
        let path = if before.is_some() { path } else { format!("{path} (a new file)") };
        let diff = Diff::new(before.as_deref().unwrap_or_default(), after.as_bytes());
        ShownChange { path, diff, style: style.clone() }
    }

    /// The diff, in so many columns.
    pub(super) fn rendered(&self, columns: usize) -> String {
        render_diff(&self.diff, &Style { width: columns, ..self.style.clone() })
    }

    /// Its first lines, and how many more there are.
    fn folded(&self, columns: usize, most: usize) -> (String, usize) {
        let whole = self.rendered(columns);
        let count = whole.lines().count();
        // A fold that saves a line or two is not worth a key.
        if count <= most + 3 {
            return (whole, 0);
        }
        let shown = whole.lines().take(most).map(|line| format!("{line}\n")).collect();
        (shown, count - most)
    }
}

/// The arguments of a call, each with its name, and all of it.
pub(super) fn arguments(call: &Call) -> Vec<String> {
    let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
    let Value::Object(fields) = input else { return vec![one_line(call.input.get())] };
    let mut lines = Vec::new();
    for (name, value) in &fields {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (name, shown) = (one_line(name), clean(&value.replace('\t', "    ")));
        match shown.contains('\n') {
            true => {
                lines.push(format!("{name}:"));
                lines.extend(shown.split('\n').map(|line| format!("  {line}")));
            }
            false => lines.push(format!("{name}: {shown}")),
        }
    }
    lines
}

fn push(lines: &mut String, line: &str, style: &Style, further: usize) {
    for part in wrap_line(line, style.width, further) {
        lines.push_str(&part);
        lines.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::Raw;
    use serde_json::json;

    use super::*;

    fn call(name: &str, input: Value) -> Call {
        Call { id: "1".into(), name: name.into(), input: Raw::of(&input) }
    }

    #[test]
    fn what_has_several_lines_is_indented_below_its_name() {
        let run = call("run", json!({"command": "one\n\nAllow two\x1b[2J", "network": true}));
        assert_eq!(
            arguments(&run),
            ["command:", "  one", "  ", "  Allow two\\u{1b}[2J", "network: true"]
        );
        assert_eq!(arguments(&call("run", json!("a\nb"))), ["\"a\\nb\""]);
    }

    #[test]
    fn what_the_kernel_cannot_prevent_is_said_once_per_chat() {
        for here in [Confinement::Partial, Confinement::None] {
            let said = AtomicBool::new(false);
            assert_eq!(unconfined(Confinement::Full, &said), None);
            assert!(unconfined(here, &said).is_some_and(|note| note.contains("kernel")));
            assert_eq!(unconfined(here, &said), None);
        }
    }

    #[test]
    fn a_long_diff_is_folded_and_a_short_one_is_not() {
        let text = |lines: usize| (0..lines).map(|n| format!("{n}\n")).collect::<String>();
        let change = |lines| FileChange { path: "a".into(), before: None, after: text(lines) };
        let shown = |lines| ShownChange::new(&change(lines), &Style::plain(40)).folded(40, 10);
        assert_eq!(shown(100).1, 91, "a line of counts, and nine of a hundred");
        assert_eq!(shown(100).0.lines().count(), 10);
        assert_eq!(shown(12).1, 0);
    }
}
