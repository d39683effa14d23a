//! `-p`: one question, one answer.

use std::io::IsTerminal;
use std::process::ExitCode;

use rethread_agent::host::{Decision, Refusal};
use rethread_agent::{Answer, End};
use rethread_core::{Entry, Message, Place, Session, SessionId};
use serde_json::json;

use super::input::Line;
use super::say::Look;
use super::{ANY_MESSAGE_CONTINUES, Chat, TERMINAL_LINE};
use crate::args::Talk;
use crate::commands::Done;
use crate::errors::Error;
use crate::out::{clean, line};

impl Chat {
    /// Asks once and prints the answer.
    pub(super) async fn ask_once(&mut self, talk: &Talk, prompt: &str) -> Done {
        // Only the answer is printed; what is around it goes to standard error.
        self.voice.typed = false;
        self.voice.shown = false;
        self.voice.look = Look::Raw;
        let text = match prompt {
            "-" => self.all_input().await?,
            text => text.to_owned(),
        };
        if text.trim().is_empty() {
            return Err(Error::Word {
                what: "the question is empty".into(),
                hint: "-p takes a question",
            });
        }
        // Whoever reads a file or a pipe wants the answer, not how it came about.
        let streams = std::io::stdout().is_terminal() && !self.cli.global.json;
        self.voice.mute = true;
        match &talk.resume {
            None => {}
            Some(Some(sel)) => self.resume(sel).await?,
            Some(None) => {
                let what = "--resume needs a session beside -p".into();
                let hint = "`rethread list` shows them; `--resume 1` is the newest";
                return Err(Error::Word { what, hint });
            }
        }
        self.voice.mute = !streams;
        let id = self.session_for_turn()?;
        let session = self.handle.sessions().get(id)?;
        match self.decide(&session) {
            Decision::Ready(runner) => self.runner = *runner,
            Decision::AskFirst(changed) => return Err(Refusal::from(changed).into()),
            Decision::Refused(refusal) => return Err(refusal.into()),
        }
        self.ask_for_trust(&session).await?;
        let answer = self.turn(id, Message::user(text)).await?;
        match (self.cli.global.json, streams) {
            (true, _) => self.print_turn(id, &answer)?,
            (false, true) => {}
            (false, false) => line(clean(&answer.text))?,
        }
        if answer.limit.is_some() && !self.cli.global.json {
            self.voice.notice(ANY_MESSAGE_CONTINUES);
        }
        self.tidy()?;
        Ok(match answer.end {
            End::Stopped if self.told => ExitCode::from(143),
            End::Stopped => ExitCode::from(130),
            _ => ExitCode::SUCCESS,
        })
    }

    /// Everything on standard input.
    async fn all_input(&mut self) -> Result<String, Error> {
        let mut lines = Vec::new();
        loop {
            let line = tokio::select! {
                line = self.input.next() => line,
                _ = self.signals.next() => {
                    let what = "stopped before the question was read".into();
                    return Err(Error::Word { what, hint: "nothing was asked" });
                }
            };
            let Some(line) = line else { return Ok(lines.join("\n")) };
            match line {
                Line::Text(text) if self.input.is_typed() && text.len() >= TERMINAL_LINE => {
                    return Err(super::cut_line());
                }
                Line::Text(text) => lines.push(text),
                Line::Ahead(typed) => lines.push(typed.text),
                Line::Key(_) => {}
                Line::NotText | Line::TooLong => {
                    let what = "standard input is not text, or has a line of more than 4 MiB";
                    return Err(Error::Word { what: what.into(), hint: "nothing was asked" });
                }
                Line::Failed(what) => return Err(std::io::Error::other(what).into()),
            }
        }
    }

    /// The whole turn, for programs.
    fn print_turn(&self, id: SessionId, answer: &Answer) -> Result<(), Error> {
        let session = self.handle.sessions().get(id)?;
        let turn = self.handle.sessions().turn_at(Place { session: id, seq: answer.seq })?;
        crate::out::json(&Out {
            session: &session,
            answer: &answer.text,
            end: answer.end.as_str(),
            rounds: answer.rounds,
            usage: json!(answer.usage),
            ms: u64::try_from(answer.took.as_millis()).unwrap_or(u64::MAX),
            entries: turn.entries(),
        })
    }
}

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Out<'a> {
    session: &'a Session,
    answer: &'a str,
    end: &'a str,
    rounds: u32,
    usage: serde_json::Value,
    ms: u64,
    entries: &'a [Entry],
}
