//! `-p`: one question, one answer.

use std::process::ExitCode;

use rethread_agent::{Answer, End, How};
use rethread_core::limits::READ_ENTRIES;
use rethread_core::{Entry, Message, SessionId};
use serde_json::json;

use super::Chat;
use super::input::Line;
use crate::args::Talk;
use crate::commands::Done;
use crate::errors::Error;

impl Chat {
    /// Asks once and prints the answer.
    pub(super) async fn ask_once(&mut self, talk: &Talk, prompt: &str) -> Done {
        // Only the answer is printed; what is around it goes to standard error.
        self.voice.typed = false;
        self.voice.shown = false;
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
        if let Some(sel) = &talk.resume {
            self.resume_quietly(sel).await?;
        }
        let id = self.session_for_turn()?;
        let quiet = self.desk.global.json;
        if quiet {
            let runner = self.runner.clone();
            let (events, stop) = (rethread_agent::Events::none(), Default::default());
            let answer = runner.run_turn(id, Message::user(text), &events, &stop).await?;
            self.print_turn(id, &answer)?;
            return Ok(code(&answer));
        }
        let (answer, _) = self.turn(id, Message::user(text)).await?;
        Ok(code(&answer))
    }

    /// Everything on standard input.
    async fn all_input(&mut self) -> Result<String, Error> {
        let mut lines = Vec::new();
        while let Some(line) = self.input.next().await {
            match line {
                Line::Text(text) => lines.push(text),
                Line::NotText | Line::TooLong => {
                    let what = "standard input is not text, or has a line of more than 4 MiB";
                    return Err(Error::Word { what: what.into(), hint: "nothing was asked" });
                }
                Line::Failed(what) => return Err(std::io::Error::other(what).into()),
            }
        }
        Ok(lines.join("\n"))
    }

    /// Starts from a summary; only the answer to the question is printed.
    async fn resume_quietly(&mut self, sel: &str) -> Result<(), Error> {
        let id = self.runner.sessions.select(sel)?;
        let summary = match self.runner.summarize(id, How::ModelOrExtract).await? {
            rethread_agent::Summary::Written(summary) => summary,
            rethread_agent::Summary::Failed { why } => {
                return Err(Error::Word {
                    what: why,
                    hint: "`rethread -c` goes on without a summary",
                });
            }
        };
        let past = self.runner.past(id).await?;
        let keys = vec![self.key.clone()];
        let origin = rethread_core::entry::Origin::Resume;
        let on = self.runner.restore(&past, &summary.text, origin, keys).await?;
        self.enter(on.session.id());
        Ok(())
    }

    /// The whole turn, for programs.
    fn print_turn(&self, id: SessionId, answer: &Answer) -> Result<(), Error> {
        let session = self.runner.sessions.get(id)?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut start = answer.seq;
        while start < session.tally.entries {
            let end = session.tally.entries.min(start + READ_ENTRIES);
            entries.extend(self.runner.sessions.read(id, start..end)?);
            start = end;
        }
        crate::out::json(&Out {
            session: crate::json::session(&session),
            answer: &answer.text,
            end: match answer.end {
                End::Answered => "answered",
                End::RoundLimit => "round_limit",
                End::Stopped => "stopped",
            },
            rounds: answer.rounds,
            usage: json!(answer.usage),
            ms: u64::try_from(answer.took.as_millis()).unwrap_or(u64::MAX),
            entries: &entries,
        })
    }
}

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Out<'a> {
    session: serde_json::Value,
    answer: &'a str,
    end: &'a str,
    rounds: u32,
    usage: serde_json::Value,
    ms: u64,
    entries: &'a [Entry],
}

fn code(answer: &Answer) -> ExitCode {
    match answer.end {
        End::Stopped => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    }
}
