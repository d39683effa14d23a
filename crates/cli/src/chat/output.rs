//! The output of a chat, except while a turn is watched (see `watch.rs`).
//!
//! At a terminal the conversation is on standard output, together with all notes, rendered and
//! wrapped at the window. Otherwise standard output has only the unchanged answers, and notes go to
//! standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use rethread_agent::Event;
use rethread_agent::tool::FileChange;
use rethread_core::message::Call;
use rethread_render::Stream;
use rethread_render::terminal::{Background, Style};

use super::tool_line;
use super::turn_view::who;
use crate::errors::Error;
use crate::out::{clean, columns, count, fit, one_line, plural, wrapped};

/// Terminals that cannot move their cursor.
const SIMPLE: [&str; 3] = ["dumb", "cons25", "emacs"];

/// The note for an entry that cannot be read.
pub(super) fn damaged(seq: u64, what: &str) -> String {
    let what = one_line(what);
    format!("entry {seq} of this session is left out, {what}; `rethread doctor` says more")
}

/// The note for earlier questions that a provider refuses.
pub(super) fn left_out(turns: usize) -> String {
    let (questions, were) =
        (plural(turns as u64, "question"), if turns == 1 { "was" } else { "were" });
    format!("{questions} before this one {were} refused by the provider, and left out from now on")
}

/// Whether this terminal can move its cursor.
pub(super) fn is_simple_terminal() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    term.is_empty() || SIMPLE.iter().any(|name| name.eq_ignore_ascii_case(&term))
}

/// The style of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Unchanged text: for programs, files and `-p`.
    Raw,
    /// Appended lines in plain characters: for screen readers and simple terminals.
    Plain,
    /// Colours, and a few lines at the bottom that change.
    Rich,
}

/// The output of the chat.
pub(crate) struct Voice {
    /// Someone types.
    pub(crate) typed: bool,
    /// Someone reads.
    pub(crate) shown: bool,
    /// No notes.
    pub(crate) quiet: bool,
    /// Answers are not shown as they arrive; they are printed in another way.
    pub(crate) mute: bool,
    pub(crate) look: Look,
    /// The background, if the terminal reported it.
    pub(crate) background: Option<Background>,
    /// Text of the reply is on the current line.
    open: bool,
    last: char,
    /// The reply, where it is rendered.
    stream: Option<Stream>,
    /// Running calls, and their start times.
    running: Vec<(String, Instant)>,
}

impl Voice {
    pub(crate) fn new(quiet: bool, plain: bool) -> Voice {
        let typed = std::io::stdin().is_terminal();
        let shown = std::io::stdout().is_terminal();
        let look = match typed && shown && !quiet {
            false => Look::Raw,
            true if plain || is_simple_terminal() => Look::Plain,
            true => Look::Rich,
        };
        if look == Look::Plain {
            // Notes and errors have no colours either.
            anstream::ColorChoice::Never.write_global();
        }
        Voice {
            typed,
            shown,
            quiet,
            mute: false,
            look,
            background: None,
            open: false,
            last: '\n',
            stream: None,
            running: Vec::new(),
        }
    }

    /// How text is rendered, in the current window.
    pub(crate) fn style(&self) -> Style {
        match self.look {
            Look::Rich => {
                let style = Style::detect(columns(), |name| std::env::var(name).ok());
                let known = self.background.filter(|_| style.background == Background::Unknown);
                Style { background: known.unwrap_or(style.background), ..style }
            }
            _ => Style::plain(columns()),
        }
    }

    /// Prints a note.
    pub(crate) fn notice(&self, text: impl std::fmt::Display) {
        if self.quiet {
            return;
        }
        match self.look {
            Look::Raw => self.write(format_args!("{text}\n")),
            _ => self.write(format_args!("{}", wrapped(&text.to_string(), columns()))),
        }
    }

    /// Prints rendered lines as a note.
    pub(crate) fn rendered(&self, lines: &[String]) {
        if !self.quiet && !lines.is_empty() {
            self.write(format_args!("{}\n", lines.join("\n")));
        }
    }

    /// Writes a note. If it cannot be shown, the conversation continues.
    fn write(&self, text: std::fmt::Arguments<'_>) {
        let written = match self.shown {
            true => {
                let mut out = anstream::stdout().lock();
                out.write_fmt(text).and_then(|()| out.flush())
            }
            false => anstream::stderr().lock().write_fmt(text),
        };
        written.ok();
    }

    /// Waits until all that was written has reached the terminal.
    pub(crate) fn drain(&self) {
        // This fails if the output is not a terminal; then there is nothing to wait for.
        match self.shown {
            true => rustix::termios::tcdrain(std::io::stdout()).ok(),
            false => rustix::termios::tcdrain(std::io::stderr()).ok(),
        };
    }

    /// Prints a note without a line end.
    pub(crate) fn begin(&self, text: &str) {
        if !self.quiet {
            self.write(format_args!("{text}"));
        }
    }

    /// Prints the prompt for the next line.
    pub(crate) fn prompt(&self) {
        if self.typed {
            self.begin("\x1b[1;32mYou:\x1b[0m ");
        }
    }

    /// More of an answer.
    pub(crate) fn answer(&mut self, agent: &str, text: &str) -> Result<(), Error> {
        if self.mute {
            return Ok(());
        }
        if self.look != Look::Raw {
            return self.rendered_answer(agent, text);
        }
        let mut out = anstream::stdout().lock();
        if !self.open && self.typed && !self.quiet {
            write!(out, "\n\x1b[1;36m{}:\x1b[0m ", clean(agent))?;
        }
        self.open = true;
        self.last = text.chars().last().unwrap_or(self.last);
        write!(out, "{}", clean(text))?;
        out.flush()?;
        Ok(())
    }

    /// A short answer, complete: on one line with the name of who gives it, unless it begins with a
    /// list or another block.
    pub(crate) fn short_answer(&mut self, agent: &str, text: &str) -> Result<(), Error> {
        let is_plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '-');
        let begins_with_a_word = text.trim_start().starts_with(char::is_alphabetic);
        if self.look == Look::Raw || self.mute || !is_plain(agent) || !begins_with_a_word {
            self.answer(agent, text)?;
            return self.close();
        }
        self.write(format_args!("\n"));
        let mut stream = Stream::new(self.style());
        let begun = stream.push(&format!("**{agent}:** {}", text.trim_start()));
        print(&format!("{begun}{}\n", stream.finish()))
    }

    fn rendered_answer(&mut self, agent: &str, text: &str) -> Result<(), Error> {
        if self.stream.is_none() {
            self.write(format_args!("\n\x1b[1;36m{}:\x1b[0m\n", clean(agent)));
            self.stream = Some(Stream::new(self.style()));
        }
        if let Some(stream) = &mut self.stream {
            let finished = stream.push(text);
            print(&finished)?;
        }
        Ok(())
    }

    /// Ends an answer, or makes room for something else.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        if let Some(mut stream) = self.stream.take() {
            print(&format!("{}\n", stream.finish()))?;
        }
        if std::mem::take(&mut self.open) {
            let end = match (self.last, self.typed && !self.quiet) {
                ('\n', false) => "",
                ('\n', true) | (_, false) => "\n",
                (_, true) => "\n\n",
            };
            let mut out = anstream::stdout().lock();
            write!(out, "{end}")?;
            out.flush()?;
        }
        Ok(())
    }

    /// Shows an event of a turn. Questions are not answered here.
    pub(crate) fn event(&mut self, agent: &str, event: &Event) -> Result<(), Error> {
        match event {
            Event::Text(text) => return self.answer(agent, text),
            Event::Thinking(_) | Event::Progress { .. } | Event::Usage(_) => return Ok(()),
            _ => self.close()?,
        }
        match event {
            Event::Waiting { holder } => self.notice(format_args!(
                "\x1b[2m(waiting for another turn in this session, in {})\x1b[0m",
                who(holder)
            )),
            Event::QuestionCut { from_chars, to_chars } => self.notice(format_args!(
                "\x1b[33m(your message is longer than the model's window: of {} characters it sees the first {})\x1b[0m",
                count(*from_chars),
                count(*to_chars)
            )),
            Event::Damaged { seq, what } => {
                self.notice(format_args!("\x1b[33m({})\x1b[0m", damaged(*seq, what)));
            }
            Event::Retry { why, wait } => self.notice(format_args!(
                "\x1b[33m({}; asking again in {:.1} s)\x1b[0m",
                one_line(why),
                wait.as_secs_f64()
            )),
            Event::LeftOut { turns } => {
                self.notice(format_args!("\x1b[33m({})\x1b[0m", left_out(*turns)));
            }
            Event::Call(call) => self.called(call),
            Event::Result { call, success, text, change } => {
                self.result(call, *success, text, change.as_deref());
            }
            _ => {}
        }
        Ok(())
    }

    fn called(&mut self, call: &Call) {
        if self.look == Look::Raw {
            self.notice(format_args!("\x1b[2m  → {}\x1b[0m", tool_line::what(call)));
            return;
        }
        self.running.push((call.id.clone(), Instant::now()));
        if call.name == "run" {
            self.notice(format_args!("  {} …", tool_line::what(call)));
        }
    }

    fn result(&mut self, call: &Call, success: bool, text: &str, change: Option<&FileChange>) {
        if self.look == Look::Raw {
            if !success {
                self.notice(format_args!("\x1b[2m  ✗ {}\x1b[0m", fit(text, 100)));
            }
            return;
        }
        let at = self.running.iter().position(|(id, _)| *id == call.id);
        let took = at.map_or(Duration::ZERO, |at| self.running.remove(at).1.elapsed());
        let room = columns().saturating_sub(2);
        self.notice(format_args!(
            "  {}",
            tool_line::line(call, success, text, change, (took, room))
        ));
    }
}

/// Prints lines that are rendered: their escape sequences are wanted.
pub(super) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_two_columns_stay_two() {
        assert_eq!(wrapped("one two three", 8), "one two\nthree\n");
        assert_eq!(
            wrapped("  /new [NAME]  start a new session", 30),
            "  /new [NAME]  start a new\n               session\n"
        );
        let marked = "* build        changes files and runs";
        assert_eq!(
            wrapped(marked, 30),
            format!("* build        changes files\n{:15}and runs\n", "")
        );
        assert_eq!(wrapped("a\n\nb", 8), "a\n\nb\n");
    }
}
