//! `/rewind`: lists the turns of this session, and goes back to one.
//!
//! The conversation goes back in a fork: the original session is not changed, and `/undo` returns
//! to it. Files are restored only if the user agrees, after they saw what that would undo.

use rethread_agent::{DoneSince, PastFile, PastTurn};
use rethread_core::SessionId;
use rethread_core::sessions::Fork;
use rethread_render::Diff;
use rethread_render::terminal::render_diff;

use super::Chat;
use super::output::Look;
use crate::commands::change;
use crate::errors::Error;
use crate::out::{ago, clean, fit, one_line, plural};

/// Turns that are listed; older ones can be selected by their number.
const TURNS_LISTED: usize = 20;

/// Commands that are listed.
const COMMANDS_LISTED: usize = 5;

/// Lines that are shown of other changes to one file.
const DIFF_LINES: usize = 30;

const HINT: &str = "`/rewind` lists the turns of this session";

/// Which files are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// Those that nobody else changed in the meantime.
    Untouched,
    None,
}

impl Chat {
    /// Lists the turns of this session, or goes back to the point before one.
    pub(super) async fn rewind(&mut self, turn: Option<&str>) -> Result<(), Error> {
        let turns = self.runner.past_turns(self.current()?)?;
        let Some(number) = turn else {
            self.voice.notice(listed(
                &turns,
                self.handle.host().world().now(),
                crate::out::columns(),
            ));
            return Ok(());
        };
        let wrong = || Error::Word {
            what: format!("no turn `{}` in this session", one_line(number)),
            hint: HINT,
        };
        let at = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).ok_or_else(wrong)?;
        let turn = turns.get(at).ok_or_else(wrong)?;
        self.go_back(turn, at + 1).await
    }

    async fn go_back(&mut self, turn: &PastTurn, number: usize) -> Result<(), Error> {
        let from = self.current()?;
        let done = self.runner.done_since(from, turn.place)?;
        self.voice.notice(format_args!(
            "Going back to before turn {number}: {}",
            fit(&turn.question, 100)
        ));
        let Some(which) = self.which_files(&done).await else {
            self.voice.notice("Nothing was changed.");
            return Ok(());
        };
        // A log that begins with its question has nothing before it.
        let Some(last) = turn.place.seq.checked_sub(1) else {
            return Err(Error::Word {
                what: "there is nothing before this turn".into(),
                hint: "`/new` starts a session",
            });
        };
        let fork = Fork { at: Some(last), name: None, take_keys: true };
        let session = self.handle.sessions().fork(turn.place.session, &fork)?;
        self.handle.inherit_trust(from, session.id());
        self.enter(session.id()).await?;
        self.rewound = Some((session.id(), from));
        let chosen = done.files.iter().filter(|file| !file.has_earlier_content()).filter(|file| {
            which == Which::All || which == Which::Untouched && !file.changed_meanwhile()
        });
        for file in chosen {
            self.put_back(session.id(), file);
        }
        self.voice.notice(format_args!(
            "You are now in {}, before that turn. The original session is kept; /undo goes back to it, and \
             brings the files back unless you continue here first.",
            change::shown(&session)
        ));
        if clean(&turn.question) == turn.question {
            self.input.begin_with(&turn.question);
        }
        Ok(())
    }

    /// Restores files to their state before a `/rewind`. Those that someone changed since are not
    /// touched.
    pub(super) fn undo_put_back(&self, id: SessionId, files: &[PastFile]) {
        for file in files.iter().filter(|file| !file.has_earlier_content()) {
            match file.changed_meanwhile() {
                true => self.voice.notice(format_args!(
                    "  {} was changed since, and stays as it is",
                    one_line(&file.path)
                )),
                false => self.put_back(id, file),
            }
        }
    }

    fn put_back(&self, id: SessionId, file: &PastFile) {
        let path = one_line(&file.path);
        match self.runner.put_back(id, file) {
            Ok(()) if file.then.is_none() => self.voice.notice(format_args!("  removed {path}")),
            Ok(()) => self.voice.notice(format_args!("  restored {path}")),
            Err(why) => {
                self.voice.notice(format_args!("  {path} was not restored: {}", clean(&why)))
            }
        }
    }

    /// Shows what was done since, and asks which files to restore. `None` if the user cancels.
    async fn which_files(&mut self, done: &DoneSince) -> Option<Which> {
        let changed: Vec<&PastFile> =
            done.files.iter().filter(|file| !file.has_earlier_content()).collect();
        for (path, why) in &done.out_of_reach {
            let (path, why) = (one_line(path), one_line(why));
            self.voice.notice(format_args!("  {path} cannot be restored: {why}"));
        }
        if !done.commands.is_empty() {
            self.voice.notice(command_lines(&done.commands));
        }
        if changed.is_empty() {
            return Some(Which::None);
        }
        let meanwhile = changed.iter().filter(|file| file.changed_meanwhile()).count();
        self.voice.notice("The agent changed these files since:");
        for file in &changed {
            self.voice.notice(format_args!("  {}", file_line(file)));
        }
        for file in changed.iter().filter(|file| file.changed_meanwhile()) {
            self.show_meanwhile(file);
        }
        if !self.voice.typed {
            self.voice.notice("They are left as they are, because no one can be asked here.");
            return Some(Which::None);
        }
        let choices = match meanwhile {
            0 => "y restore them · n leave them as they are · c cancel, and stay here",
            _ => {
                "y restore all of them, which undoes those other changes · o only the others · \
                 n leave them as they are · c cancel, and stay here"
            }
        };
        loop {
            self.voice.notice(choices);
            let end = if meanwhile == 0 { "? (y/n/c) " } else { "? (y/o/n/c) " };
            let answer = self.answered(end).await?;
            match answer.trim().to_lowercase().as_str() {
                "y" | "yes" => return Some(Which::All),
                "o" if meanwhile > 0 => return Some(Which::Untouched),
                "n" | "no" => return Some(Which::None),
                "c" => return None,
                _ => {}
            }
        }
    }

    /// Shows what someone else did to a file after the agent, or between its changes.
    fn show_meanwhile(&self, file: &PastFile) {
        let style = self.voice.style();
        self.voice.notice(format_args!(
            "\x1b[33m{} was changed by someone else after the agent wrote it:\x1b[0m",
            one_line(&file.path)
        ));
        let between = file.others.iter().map(|others| (&others.from, &others.to));
        let after = [(&file.left, &file.now)].into_iter().filter(|(left, now)| left != now);
        let whole: String =
            between.chain(after).map(|(old, new)| render_diff(&diff(old, new), &style)).collect();
        let shown: String =
            whole.lines().take(DIFF_LINES).map(|line| format!("{line}\n")).collect();
        match self.voice.look {
            Look::Raw => self.voice.notice(shown.trim_end()),
            _ => drop(super::output::print(&shown)),
        }
        let more = whole.lines().count().saturating_sub(DIFF_LINES);
        if more > 0 {
            self.voice.notice(format_args!("… {}", plural(more as u64, "more line")));
        }
    }
}

fn diff(old: &Option<Vec<u8>>, new: &Option<Vec<u8>>) -> Diff {
    Diff::new(old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default())
}

/// The turns, the latest last.
fn listed(turns: &[PastTurn], now: jiff::Timestamp, columns: usize) -> String {
    let left_out = turns.len().saturating_sub(TURNS_LISTED);
    let mut lines = Vec::new();
    if left_out > 0 {
        lines.push(format!("  ({} before these)", plural(left_out as u64, "turn")));
    }
    for (index, turn) in turns.iter().enumerate().skip(left_out) {
        let files = match turn.files {
            0 => String::new(),
            files => format!(" · {}", plural(files as u64, "file")),
        };
        let when = ago(turn.at, now);
        let head = format!("{:>4}  {when:<8}  ", index + 1);
        let room = columns.saturating_sub(head.chars().count() + files.chars().count()).max(10);
        lines.push(format!("{head}{}{files}", fit(&turn.question, room)));
    }
    if turns.is_empty() {
        return "No questions in this session yet.".to_owned();
    }
    lines.push(
        "`/rewind N` goes back to the point before turn N, in a fork: nothing is lost. Files that the agent \
                wrote or edited since can be restored; what commands changed cannot."
            .to_owned(),
    );
    lines.join("\n")
}

fn file_line(file: &PastFile) -> String {
    let path = one_line(&file.path);
    if file.then.is_none() {
        return format!("{path}  (restoring removes it: it was not there)");
    }
    let back = diff(&file.now, &file.then);
    format!("{path}  (restoring it: +{} −{})", back.added(), back.removed())
}

fn command_lines(commands: &[String]) -> String {
    let mut text =
        "These ran since. What commands changed, a subagent's too, is not restored:".to_owned();
    for command in commands.iter().take(COMMANDS_LISTED) {
        text += &format!("\n  {}", fit(command, 70));
    }
    let more = commands.len().saturating_sub(COMMANDS_LISTED);
    if more > 0 {
        text += &format!("\n  and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_listed_one_on_a_line_with_the_files_they_changed() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let session = SessionId::of_source(&rethread_core::Owner::local(), "test");
        let place = rethread_core::Place { session, seq: 1 };
        let turn =
            |question: &str, files| PastTurn { place, at: now, question: question.into(), files };
        let turns = [turn("add a limiter", 2), turn(&"and then ".repeat(20), 0)];
        let text = listed(&turns, now, 40);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "   1  now       add a limiter · 2 files");
        assert!(
            lines[1].starts_with("   2  now       and then") && lines[1].ends_with('…'),
            "{text}"
        );
        assert!(lines[..2].iter().all(|line| line.chars().count() <= 40), "{text}");
        let many: Vec<PastTurn> = (0..25).map(|_| turn("q", 0)).collect();
        let text = listed(&many, now, 40);
        assert!(text.starts_with("  (5 turns before these)\n   6  now"), "{text}");
    }
}
