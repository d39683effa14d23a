//! `-p`: one question, one answer.

use std::io::IsTerminal;
use std::process::ExitCode;

use rethread_agent::host::{Decision, Refusal};
use rethread_agent::{End, Event, Events, STANDARD_INPUT, Target, TurnAnswer, TurnOptions};
use rethread_core::{Block, Entry, Message, Place, Role, Session, SessionId};
use serde_json::json;

use super::input::Line;
use super::output::Look;
use super::{ANY_MESSAGE_CONTINUES, Chat, TERMINAL_LINE};
use crate::args::ChatFlags;
use crate::commands::Done;
use crate::errors::Error;
use crate::out::{clean, line, note};

impl Chat {
    /// Asks once and prints the answer.
    pub(super) async fn ask_once(&mut self, talk: &ChatFlags, prompt: &str) -> Done {
        // Only the answer is printed; everything else goes to standard error.
        self.voice.typed = false;
        self.voice.shown = false;
        self.voice.look = Look::Raw;
        let (text, input) = match prompt {
            "-" => (self.all_input().await?, String::new()),
            text => (text.to_owned(), self.piped_input().await?),
        };
        if text.trim().is_empty() {
            return Err(Error::Word {
                what: "the question is empty".into(),
                hint: "give the question after -p, or pipe it in with `-p -`",
            });
        }
        // Only a terminal shows the answer while it is written.
        let json = self.cli.global.json || talk.json_stream;
        let streams = std::io::stdout().is_terminal() && !json;
        self.voice.mute = true;
        match &talk.resume {
            None => {}
            Some(Some(sel)) => self.resume(sel).await?,
            Some(None) => {
                let what = "with -p, --resume needs a session".into();
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
        let question = with_input(text, &input);
        let answer = match talk.json_stream {
            true => self.stream_turn(id, question).await?,
            false => self.turn(id, question).await?,
        };
        match (json, streams) {
            (true, _) => self.print_turn(id, &answer)?,
            (false, true) => {}
            // The line ends once, whether or not the answer ends in a newline.
            (false, false) => line(clean(answer.text.trim_end_matches('\n')))?,
        }
        if answer.limit.is_some() && !self.cli.global.json {
            self.voice.notice(ANY_MESSAGE_CONTINUES);
        }
        self.tidy()?;
        Ok(match answer.end {
            End::Stopped if self.terminated => ExitCode::from(143),
            End::Stopped => ExitCode::from(130),
            _ => ExitCode::SUCCESS,
        })
    }

    /// Piped input; `None` at a terminal.
    async fn piped_input(&mut self) -> Result<String, Error> {
        if self.input.is_typed() || std::io::stdin().is_terminal() {
            return Ok(String::new());
        }
        let waiting = async {
            tokio::time::sleep(INPUT_SOON).await;
            note("(reading standard input; `</dev/null` asks without it)");
            std::future::pending::<()>().await;
        };
        tokio::pin!(waiting);
        tokio::select! {
            input = self.all_input() => input,
            () = &mut waiting => unreachable!("it waits for ever"),
        }
    }

    /// Runs a turn and prints its events, each as a line of JSON.
    async fn stream_turn(&mut self, id: SessionId, question: Message) -> Result<TurnAnswer, Error> {
        let (events, mut receiver) = Events::channel();
        let target = Target::Session(id);
        let options = TurnOptions::default();
        let started = self.handle.start_turn(target, question, options, events).await?;
        loop {
            tokio::select! {
                biased;
                event = receiver.recv() => {
                    let Some(event) = event else { break };
                    if let Some(value) = event_json(&event)
                        && let Err(error) = crate::out::json(&value)
                    {
                        // Nobody reads any more.
                        started.stop.cancel();
                        return Err(error);
                    }
                }
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    started.stop.cancel();
                }
            }
        }
        Ok(started.ended().await.outcome?)
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

    /// The complete turn, as JSON.
    fn print_turn(&self, id: SessionId, answer: &TurnAnswer) -> Result<(), Error> {
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

/// How long standard input may be silent before a note says that it is being read.
const INPUT_SOON: std::time::Duration = std::time::Duration::from_secs(3);

/// A question, with the piped input as a separate block.
fn with_input(question: String, input: &str) -> Message {
    if input.trim().is_empty() {
        return Message::user(question);
    }
    let input = format!("{STANDARD_INPUT}{input}");
    Message::new(Role::User, vec![Block::text(question), Block::text(input)])
}

/// An event as a line of JSON: its kind is `event`.
fn event_json(event: &Event) -> Option<serde_json::Value> {
    Some(match event {
        Event::Waiting { holder } => json!({ "event": "waiting", "holder": holder }),
        Event::QuestionCut { from_chars, to_chars } => {
            json!({ "event": "question_cut", "from_chars": from_chars, "to_chars": to_chars })
        }
        Event::Damaged { seq, what } => json!({ "event": "damaged", "seq": seq, "what": what }),
        Event::Text(text) => json!({ "event": "text", "text": text }),
        Event::Thinking(text) => json!({ "event": "thinking", "text": text }),
        Event::Retry { why, wait } => {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            json!({ "event": "retry", "why": why, "wait_ms": wait })
        }
        Event::LeftOut { turns } => json!({ "event": "left_out", "turns": turns }),
        Event::Call(call) => {
            json!({ "event": "call", "id": call.id, "tool": call.name, "input": call.input })
        }
        Event::Progress { call, text } => {
            json!({ "event": "progress", "id": call, "text": text })
        }
        Event::Result { call, success, text, .. } => {
            json!({ "event": "result", "id": call.id, "tool": call.name, "success": success, "text": text })
        }
        Event::Usage(usage) => json!({ "event": "usage", "usage": usage }),
        Event::Subagent { session, event } => {
            let event = event_json(event)?;
            json!({ "event": "subagent", "session": session, "of": event })
        }
        // Nobody can be asked.
        _ => return None,
    })
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
