//! Talking: a question, and its answer as it is written.

use std::time::Duration;

use rethread_agent::host::{AgentChanged, Refusal};
use rethread_agent::{Answer, Event, Events, QuestionState, Target, TurnError, TurnOptions};
use rethread_core::{Block, EntryId, Incoming, Message, Role, SessionId, StoreError, sessions};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::buttons::{Buttons, Press};
use crate::handle_update::{UpdateError, UpdateHandler};
use crate::inbox::{Before, Pending, Reply};
use crate::limits::{
    DRAFT_AFTER, DRAFT_CHARS_MIN, DRAFT_EVERY, DRAFT_EVERY_IN_GROUP, TYPING_EVERY,
};
use crate::markup::Rich;
use crate::send::Draft;
use crate::texts;

/// What an answer says when the model stopped before its end.
const CUT_OFF: &str = "\n\n[The answer stops here: the model's limit was reached.]";

impl UpdateHandler {
    /// Answers what was said.
    pub(crate) async fn talk(&self, text: &str, mut pending: Pending) -> Result<(), UpdateError> {
        let reply = match self.session(&mut pending).await {
            Ok((session, from)) => self.answer(session, from, text, &mut pending).await?,
            Err(UpdateError::Sessions(error)) if !is_passing(&error) => {
                texts::trouble(&error).into()
            }
            Err(UpdateError::Refused(refusal)) => refused(&refusal, false),
            Err(error) => return Err(error),
        };
        self.deliver(&pending, &reply).await
    }

    /// The session it is said in, and where in it to look for what was said. It is the same one
    /// whatever happens to the chat's key meanwhile.
    async fn session(&self, pending: &mut Pending) -> Result<(SessionId, u64), UpdateError> {
        if let Some(Before { session: Some(session), head, .. }) = pending.before
            && self.with(move |sessions| sessions.get(session)).await.is_ok()
        {
            return Ok((session, head));
        }
        let current = self.current().await?;
        let new = self.viewer(current.as_ref()).await?.responder.new_session();
        let key = self.key.clone();
        let session =
            self.with(move |sessions| Ok(sessions.open(&key, &new)?.session().clone())).await?;
        let (id, head) = (session.id(), session.tally.entries);
        let before = Before { session: Some(id), head, cleared: None };
        self.state.inbox.begun(self.heard.update, before).await?;
        pending.before = Some(before);
        Ok((id, head))
    }

    async fn answer(
        &self,
        session: SessionId,
        from: u64,
        text: &str,
        pending: &mut Pending,
    ) -> Result<Reply, UpdateError> {
        let question = EntryId::new(format!("tg:{}", self.heard.update)).expect("a valid id");
        let asked = question.clone();
        let told =
            self.with(move |sessions| QuestionState::find(sessions, session, &asked, from)).await?;
        let stored = told == QuestionState::Open;
        if let QuestionState::Answered(answer) = told {
            return Ok(match answer.is_empty() {
                true => Rich::plain("This was interrupted before there was an answer; ask again.")
                    .into(),
                false => Rich::markdown(&answer).into(),
            });
        }
        let input = Incoming { id: Some(question), message: self.message(text) };
        let reply = match self.turn(session, input, pending).await? {
            Ok(answer) => {
                let cut_off = if answer.cut_off { CUT_OFF } else { "" };
                return Ok(Rich::markdown(&format!("{}{cut_off}", answer.text)).into());
            }
            Err(TurnError::Sessions(error)) if is_passing(&error) => return Err(error.into()),
            Err(TurnError::Sessions(error)) => texts::trouble(&error).into(),
            Err(TurnError::Provider(failure)) => Rich::plain(format!(
                "There is no answer: {failure}. What you wrote is kept; write again to go on."
            ))
            .into(),
            Err(TurnError::Refused(Refusal::Stopped)) => return Err(UpdateError::Stopping),
            Err(TurnError::Refused(refusal)) => refused(&refusal, stored),
        };
        self.state.inbox.reply(self.heard.update, &reply).await?;
        Ok(reply)
    }

    /// What was said, as it goes into the log. Among several people it is told who said it.
    fn message(&self, text: &str) -> Message {
        if !self.heard.chat.group {
            return Message::user(text);
        }
        let from = Block::prefix(format!("[From: {}]\n\n", self.heard.name));
        Message::new(Role::User, vec![from, Block::text(text)])
    }

    /// Runs the turn, and shows what is written while it is written.
    async fn turn(
        &self,
        session: SessionId,
        input: Incoming,
        pending: &mut Pending,
    ) -> Result<Result<Answer, TurnError>, UpdateError> {
        let (events, mut heard) = Events::channel();
        let options = TurnOptions::default();
        let target = Target::Session(session);
        // It runs while a draft is on its way. It is never stopped: what does not end before the
        // process does is continued by the next one.
        let started = match self.handle.start_turn(target, input, options, events).await {
            Ok(started) => started,
            Err(error) => return Ok(Err(error)),
        };
        let every = if self.heard.chat.group { DRAFT_EVERY_IN_GROUP } else { DRAFT_EVERY };
        let mut writing = Writing::default();
        let mut next = Instant::now() + DRAFT_AFTER;
        let mut typing = interval(TYPING_EVERY);
        typing.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                event = heard.recv() => match event {
                    Some(event) => writing.hear(event),
                    None => break,
                },
                _ = typing.tick() => {
                    let (state, chat) = (self.state.clone(), self.heard.chat);
                    tokio::spawn(async move { state.post.typing(chat).await });
                }
                () = sleep_until(next), if writing.has_more() => {
                    let wait = self.show(&mut writing, pending).await?;
                    next = Instant::now() + wait.unwrap_or(every).max(every);
                }
            }
        }
        Ok(started.ended().await.outcome)
    }

    /// Shows how far an answer has come. Returns how long Telegram wants to be left alone.
    async fn show(
        &self,
        writing: &mut Writing,
        pending: &mut Pending,
    ) -> Result<Option<Duration>, UpdateError> {
        let Some(part) = writing.draft().parts().into_iter().next() else { return Ok(None) };
        writing.shown = writing.seen;
        if writing.last.as_ref() == Some(&part.html) {
            return Ok(None);
        }
        let shown = match pending.sent.first() {
            Some(message) => self.state.post.draft(self.heard.chat, *message, &part).await,
            None => match self.state.post.first_draft(&self.heard, &part).await {
                Draft::Shown(message) => {
                    self.state.inbox.sent(self.heard.update, message).await?;
                    pending.sent.push(message);
                    Draft::Shown(())
                }
                Draft::Later(wait) => Draft::Later(wait),
            },
        };
        match shown {
            Draft::Shown(()) => {
                writing.last = Some(part.html);
                Ok(None)
            }
            Draft::Later(wait) => Ok(Some(wait)),
        }
    }
}

/// An answer that is being written.
#[derive(Default)]
struct Writing {
    text: String,
    /// The tool that is being used.
    tool: Option<String>,
    /// Changes of it, and how many of them a draft has shown.
    seen: u64,
    shown: u64,
    last: Option<String>,
}

impl Writing {
    fn hear(&mut self, event: Event) {
        match event {
            Event::Text(text) => {
                if self.tool.take().is_some() {
                    self.text.clear();
                }
                self.text.push_str(&text);
            }
            Event::Retry { .. } => self.text.clear(),
            Event::Call(call) => self.tool = Some(call.name),
            _ => return,
        }
        self.seen += 1;
    }

    fn has_more(&self) -> bool {
        let enough = self.tool.is_some() || self.text.trim().chars().count() >= DRAFT_CHARS_MIN;
        self.seen > self.shown && enough
    }

    fn draft(&self) -> Rich {
        let text = Rich::markdown(&self.text);
        match &self.tool {
            Some(tool) => text.and("\n\n").italic(format!("🔎 {tool} …")),
            None => text,
        }
    }
}

/// Why nobody answers, and what can be done about it. A question may have been `stored` before.
pub(crate) fn refused(refusal: &Refusal, stored: bool) -> Reply {
    let kept = stored || matches!(refusal, Refusal::Abandoned);
    let next = match kept {
        true => "What you wrote is kept; write again to go on.",
        false => "Nothing was stored; send it again later.",
    };
    let Refusal::AgentChanged(changed) = refusal else {
        return Rich::plain(format!("{}. {next}", texts::capital(&refusal.to_string()))).into();
    };
    let AgentChanged { session, theirs, ours, .. } = changed;
    let text = Rich::plain("This session was answered by ")
        .code(theirs.as_str())
        .and(", and now it would be ")
        .code(ours.as_str())
        .and(match stored {
            true => ". Press a button, then write again to go on: your message is kept.",
            false => ". Press a button, then send your message again: it was not stored.",
        });
    let buttons = Buttons::default().rows([
        ("Continue here".to_owned(), Press::Accept(*session)),
        ("Leave it".to_owned(), Press::Nothing),
    ]);
    Reply { text, buttons }
}

/// Whether the same may go well in a moment: the disk is full, or locked by another program, or the
/// database is away.
pub(crate) fn is_passing(error: &sessions::Error) -> bool {
    matches!(
        error,
        sessions::Error::Store(
            StoreError::Full { .. }
                | StoreError::Busy { .. }
                | StoreError::ReadOnly { .. }
                | StoreError::Unreachable { .. }
                | StoreError::Slow { .. }
                | StoreError::Backend { .. }
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_waits_for_some_words_and_forgets_what_is_void() {
        let mut writing = Writing::default();
        assert!(!writing.has_more());
        writing.hear(Event::Text("Let me see. ".into()));
        assert!(!writing.has_more(), "too short to say anything");
        writing.hear(Event::Text("That will take a moment.".into()));
        assert!(writing.has_more());
        writing.hear(Event::Retry { why: "broke off".into(), wait: Duration::ZERO });
        assert!(!writing.has_more());
        writing.hear(Event::Text("Let me look at all of it first.".into()));
        let call = rethread_core::message::Call {
            id: "1".into(),
            name: "grep".into(),
            input: rethread_core::Raw::of(&serde_json::json!({})),
        };
        writing.hear(Event::Call(call));
        let draft = writing.draft().parts().remove(0);
        assert_eq!(draft.plain, "Let me look at all of it first.\n\n🔎 grep …");
        writing.hear(Event::Text("Found".into()));
        assert_eq!(writing.draft().parts().remove(0).plain, "Found", "the next round begins anew");
    }
}
