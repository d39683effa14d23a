//! What a person sees and hears of a chat.
//!
//! At a terminal the conversation is on standard output, with everything around it. Where the
//! output is no terminal it holds the answers and nothing else; what is said around them goes to
//! standard error.

use std::io::{IsTerminal, Write};

use rethread_agent::Event;
use rethread_core::message::Call;

use crate::errors::Error;
use crate::out::{clean, count, fit, one_line, plural};

/// The voice of the chat.
pub(crate) struct Voice {
    /// Someone types.
    pub(crate) typed: bool,
    /// Someone reads.
    pub(crate) shown: bool,
    /// Nothing is said beside the answers.
    pub(crate) quiet: bool,
    /// Answers are not shown as they come; they are printed in another way.
    pub(crate) mute: bool,
    /// Text of the reply is on the line.
    open: bool,
    last: char,
}

impl Voice {
    pub(crate) fn new(quiet: bool) -> Voice {
        let typed = std::io::stdin().is_terminal();
        let shown = std::io::stdout().is_terminal();
        Voice { typed, shown, quiet, mute: false, open: false, last: '\n' }
    }

    /// Says something beside the answers.
    pub(crate) fn notice(&self, text: impl std::fmt::Display) {
        if self.quiet {
            return;
        }
        self.write(format_args!("{text}\n"));
    }

    /// Writes beside the answers. What cannot be shown is lost; the conversation goes on.
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
        // What is no terminal has nothing to wait for.
        match self.shown {
            true => rustix::termios::tcdrain(std::io::stdout()).ok(),
            false => rustix::termios::tcdrain(std::io::stderr()).ok(),
        };
    }

    /// Says something and stays on the line.
    pub(crate) fn begin(&self, text: &str) {
        if !self.quiet {
            self.write(format_args!("{text}"));
        }
    }

    /// Asks for the next line.
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

    /// The answer is complete, or something else is to be said.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
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

    /// Tells what happens in a turn. Questions are not answered here.
    pub(crate) fn event(&mut self, agent: &str, event: &Event) -> Result<(), Error> {
        match event {
            Event::Text(text) => return self.answer(agent, text),
            Event::Thinking(_) | Event::Progress { .. } | Event::Usage(_) => return Ok(()),
            _ => self.close()?,
        }
        match event {
            Event::Waiting { holder } => self.notice(format_args!(
                "\x1b[2m(another turn is going on in this session, in {}; waiting)\x1b[0m",
                who(holder)
            )),
            Event::QuestionCut { from_chars, to_chars } => self.notice(format_args!(
                "\x1b[33m(your message is longer than the model's window: of {} characters it sees the first {})\x1b[0m",
                count(*from_chars),
                count(*to_chars)
            )),
            Event::Retry { why, wait } => self.notice(format_args!(
                "\x1b[33m({}; asking again in {:.1} s)\x1b[0m",
                one_line(why),
                wait.as_secs_f64()
            )),
            Event::LeftOut { turns } => self.notice(format_args!(
                "\x1b[33m({} before this one {} refused by the provider and left out from now on; `/history` shows it)\x1b[0m",
                plural(*turns as u64, "question"),
                if *turns == 1 { "was" } else { "were" }
            )),
            Event::Call(call) => self.notice(format_args!("\x1b[2m  → {}\x1b[0m", shown(call))),
            Event::Result { success: false, text, .. } => {
                self.notice(format_args!("\x1b[2m  ✗ {}\x1b[0m", fit(text, 100)));
            }
            Event::Permission(request) => {
                let whole = asked(&request.call);
                self.begin(&format!("\x1b[1mAllow {whole}?\x1b[0m"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Who holds a session, for people.
fn who(holder: &str) -> String {
    match holder.split_once('.') {
        Some((pid, _)) if pid.chars().all(|c| c.is_ascii_digit()) => format!("process {pid}"),
        _ => one_line(holder),
    }
}

/// A call as it is asked about: all of it, because a part could hide what matters.
fn asked(call: &Call) -> String {
    let input: serde_json::Value = serde_json::from_str(call.input.get()).unwrap_or_default();
    let fields = match input {
        serde_json::Value::Object(fields) => fields,
        other => return format!("{} {}", one_line(&call.name), clean(&other.to_string())),
    };
    let mut text = one_line(&call.name);
    for (name, value) in &fields {
        let value = match value {
            serde_json::Value::String(value) => value.clone(),
            other => other.to_string(),
        };
        let shown = clean(&value);
        match shown.contains('\n') {
            true => text.push_str(&format!("\n  {}:\n{shown}\n", one_line(name))),
            false => text.push_str(&format!("\n  {}: {shown}", one_line(name))),
        }
    }
    text.push('\n');
    text
}

/// A call on one line.
fn shown(call: &Call) -> String {
    format!("{} {}", one_line(&call.name), fit(call.input.get(), 160))
}
