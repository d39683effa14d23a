//! What a person sees and hears of a chat.
//!
//! At a terminal the conversation is on standard output, with everything around it. Where the
//! output is no terminal it holds the answers and nothing else; what is said around them goes to
//! standard error.

use std::io::{IsTerminal, Write};

use rethread_agent::Event;
use rethread_core::message::Call;

use crate::errors::Error;
use crate::out::{clean, fit, one_line};

/// The voice of the chat.
pub(crate) struct Voice {
    /// Someone types.
    pub(crate) typed: bool,
    /// Someone reads.
    pub(crate) shown: bool,
    /// Only answers, or nothing at all, reach standard output.
    pub(crate) quiet: bool,
    /// Text of the reply is on the line.
    open: bool,
    last: char,
}

impl Voice {
    pub(crate) fn new(quiet: bool) -> Voice {
        let typed = std::io::stdin().is_terminal();
        let shown = std::io::stdout().is_terminal();
        Voice { typed, shown, quiet, open: false, last: '\n' }
    }

    /// Says something beside the answers.
    pub(crate) fn notice(&self, text: impl std::fmt::Display) {
        if self.quiet {
            return;
        }
        match self.shown {
            true => anstream::println!("{text}"),
            false => anstream::eprintln!("{text}"),
        }
    }

    /// Says something and stays on the line.
    pub(crate) fn begin(&self, text: &str) {
        if self.quiet {
            return;
        }
        // What cannot be shown is lost either way; the conversation goes on.
        let flushed = match self.shown {
            true => {
                anstream::print!("{text}");
                std::io::stdout().flush()
            }
            false => {
                anstream::eprint!("{text}");
                std::io::stderr().flush()
            }
        };
        drop(flushed);
    }

    /// Asks for the next line.
    pub(crate) fn prompt(&self) {
        if self.typed {
            self.begin("\x1b[1;32mYou:\x1b[0m ");
        }
    }

    /// More of an answer.
    pub(crate) fn answer(&mut self, agent: &str, text: &str) -> Result<(), Error> {
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
            Event::Thinking(_) => return Ok(()),
            _ => self.close()?,
        }
        match event {
            Event::Waiting { holder } => self.notice(format_args!(
                "\x1b[2m(another turn is going on in this session, held by {}; waiting)\x1b[0m",
                one_line(holder)
            )),
            Event::Retry { why, wait } => self.notice(format_args!(
                "\x1b[33m({}; asking again in {:.1} s)\x1b[0m",
                one_line(why),
                wait.as_secs_f64()
            )),
            Event::Call(call) => self.notice(format_args!("\x1b[2m  → {}\x1b[0m", shown(call))),
            Event::Result { success: false, text, .. } => {
                self.notice(format_args!("\x1b[2m  ✗ {}\x1b[0m", fit(text, 100)));
            }
            Event::Ask { call, .. } => {
                self.begin(&format!("\x1b[1mAllow {}?\x1b[0m (y/n) ", shown(call)));
            }
            _ => {}
        }
        Ok(())
    }
}

/// A call on one line.
fn shown(call: &Call) -> String {
    format!("{} {}", one_line(&call.name), fit(call.input.get(), 160))
}
