//! Questions to the user, in a chat without a live view: yes or no, an answer in words, and
//! permissions. `watch.rs` asks for permission while a turn is watched.

use std::collections::VecDeque;
use std::time::Instant;

use rethread_agent::{Event, PermissionAnswer, PermissionRequest};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::input::Line;
use super::output::Look;
use super::permission_prompt::{DIFF_LINES, PermissionPrompt, PromptAnswer};
use super::{Chat, STILL_WORKING, UNANSWERABLE, YES_OR_NO, suspend, tool_line};
use crate::errors::Error;
use crate::out::{columns, wrapped};

impl Chat {
    /// Ends a question on the current line. Returns the moment from which an answer can have been
    /// typed, even by a quick reader; `None` if it cannot be distinguished from other input.
    pub(super) fn ask(&mut self) -> Option<Instant> {
        self.ask_with(YES_OR_NO)
    }

    /// The same with another end.
    pub(super) fn ask_with(&mut self, end: &str) -> Option<Instant> {
        self.voice.drain();
        if !self.input.settle() {
            self.voice.notice(UNANSWERABLE);
            return None;
        }
        let asked = Instant::now();
        self.voice.begin(end);
        Some(asked)
    }

    /// The line that answers a question on the screen, with this ending. `None` if nobody answers.
    pub(super) async fn answered(&mut self, end: &str) -> Option<String> {
        self.input.read_lines();
        let asked = self.ask_with(end)?;
        loop {
            tokio::select! {
                line = self.input.next_since(asked) => return match line? {
                    Line::Text(text) => Some(text),
                    _ => Some(String::new()),
                },
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    return None;
                }
                () = suspend::continued() => self.voice.begin(end),
            }
        }
    }

    /// Asks a yes-or-no question; the next line answers it.
    pub(super) async fn confirmed(&mut self, question: &str) -> bool {
        self.input.read_lines();
        // Words are not split, and the answer is typed on the last line of the question.
        let room = columns().saturating_sub(YES_OR_NO.len() + 1);
        let question = match self.voice.look {
            Look::Raw => question.to_owned(),
            _ => wrapped(question, room).trim_end_matches('\n').to_owned(),
        };
        self.voice.begin(&question);
        let Some(asked) = self.ask() else { return false };
        let line = loop {
            tokio::select! {
                line = async {
                    match self.input.is_typed() {
                        true => self.input.next_since(asked).await,
                        false => self.input.next().await,
                    }
                } => break line,
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    break None;
                }
                // The shell has written since, and what was typed is gone.
                () = suspend::continued() => self.voice.begin(&format!("{question}{YES_OR_NO}")),
            }
        };
        if !self.voice.typed {
            self.voice.notice("");
        }
        match line {
            Some(Line::Text(text)) if is_yes(&text) => true,
            Some(Line::Text(text)) if is_no(&text) || self.voice.typed => false,
            // Piped input that is not an answer is the next message.
            Some(line) => {
                self.input.give_back(line);
                false
            }
            None => false,
        }
    }

    /// Shows the events of a turn until it is over, and asks its questions.
    pub(super) async fn follow(
        &mut self,
        agent: &str,
        receiver: &mut Receiver<Event>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut question: Option<(Instant, PermissionPrompt)> = None;
        let mut questions = VecDeque::new();
        let began = Instant::now();
        let mut clock = tokio::time::interval(STILL_WORKING);
        clock.reset();
        loop {
            tokio::select! {
                biased;
                event = receiver.recv() => {
                    let Some(event) = event else { return Ok(()) };
                    self.voice.event(agent, &event)?;
                    questions.extend(asked_in(event));
                }
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    stop.cancel();
                }
                _ = clock.tick(), if self.voice.look == Look::Plain && question.is_none() => {
                    let time = tool_line::lasted(began.elapsed());
                    self.voice.notice(format_args!("(still working, {time}; Ctrl-C stops)"));
                }
                line = self.input.next_since(since(&question)), if question.is_some() => {
                    if let Some((_, prompt)) = question.take() {
                        question = self.read_answer(prompt, line);
                    }
                }
            }
            while question.is_none()
                && let Some((request, by_subagent)) = questions.pop_front()
            {
                let mut prompt = PermissionPrompt::new(request, by_subagent);
                self.voice.begin(&prompt.lines(&self.voice.style(), DIFF_LINES));
                question = self.asked(prompt);
            }
        }
    }

    /// Asks for the answer to a question on the screen.
    fn asked(&mut self, prompt: PermissionPrompt) -> Option<(Instant, PermissionPrompt)> {
        match self.ask_with(prompt.question()) {
            Some(asked) => Some((asked, prompt)),
            None => {
                prompt.answer(PermissionAnswer::No);
                None
            }
        }
    }

    /// Interprets a line as the answer to a question. Returns the question if it has to be
    /// repeated.
    fn read_answer(
        &mut self,
        mut prompt: PermissionPrompt,
        line: Option<Line>,
    ) -> Option<(Instant, PermissionPrompt)> {
        let answer = match line {
            Some(Line::Text(text)) => prompt.read_line(&text),
            Some(_) => PromptAnswer::Again("That could not be read.".into()),
            // Nobody is there any more.
            None => PromptAnswer::Answer(PermissionAnswer::No),
        };
        match answer {
            PromptAnswer::Answer(answer) => {
                prompt.answer(answer);
                return None;
            }
            PromptAnswer::ShowAll => {
                let style = self.voice.style();
                if let Some(change) = prompt.change(&style) {
                    self.voice.begin(&change.rendered(style.width));
                }
            }
            PromptAnswer::Instead => {}
            PromptAnswer::Again(why) => self.voice.notice(why),
        }
        self.asked(prompt)
    }
}

/// The question in an event, and whether a subagent asks it.
pub(super) fn asked_in(event: Event) -> Option<(PermissionRequest, bool)> {
    match event {
        Event::Permission(request) => Some((request, false)),
        Event::Subagent { event, .. } => asked_in(*event).map(|(request, _)| (request, true)),
        _ => None,
    }
}

/// When the question was asked.
fn since(question: &Option<(Instant, PermissionPrompt)>) -> Instant {
    question.as_ref().map_or_else(Instant::now, |(asked, _)| *asked)
}

fn is_no(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "n" | "no")
}

fn is_yes(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "y" | "yes")
}
