//! Talking: a question, and its answer as it is written.

use std::time::Duration;

use rethread_agent::{Answer, Event, Events, QuestionState, Runner, TurnError};
use rethread_core::{Block, EntryId, Incoming, Message, Role, SessionId, StoreError, sessions};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::inbox::{Before, Pending, Reply};
use crate::limits::{
    DRAFT_AFTER, DRAFT_CHARS_MIN, DRAFT_EVERY, DRAFT_EVERY_IN_GROUP, TYPING_EVERY,
};
use crate::markup::Rich;
use crate::post::Draft;
use crate::visit::{Visit, VisitError};
use crate::words;

/// What an answer says when the model stopped before its end.
const CUT_OFF: &str = "\n\n[The answer stops here: the model's limit was reached.]";

impl Visit {
    /// Answers what was said.
    pub(crate) async fn talk(&self, text: &str, mut pending: Pending) -> Result<(), VisitError> {
        let reply = match self.session(&mut pending).await {
            Ok((session, from)) => self.answer(session, from, text, &mut pending).await?,
            Err(VisitError::Sessions(error)) if !is_passing(&error) => {
                words::trouble(&error).into()
            }
            Err(error) => return Err(error),
        };
        self.deliver(&pending, &reply).await
    }

    /// The session it is said in, and where in it to look for what was said. It is the same one
    /// whatever happens to the chat's key meanwhile.
    async fn session(&self, pending: &mut Pending) -> Result<(SessionId, u64), VisitError> {
        if let Some(Before { session: Some(session), head, .. }) = pending.before
            && self.with(move |sessions| sessions.get(session)).await.is_ok()
        {
            return Ok((session, head));
        }
        let current = self.current().await?;
        let (key, new) = (self.key.clone(), self.runner(current.as_ref()).new_session());
        let session =
            self.with(move |sessions| Ok(sessions.open(&key, &new)?.session().clone())).await?;
        let (id, head) = (session.id(), session.tally.entries);
        let before = Before { session: Some(id), head, cleared: None };
        self.desk.inbox.begun(self.heard.update, before).await?;
        pending.before = Some(before);
        Ok((id, head))
    }

    async fn answer(
        &self,
        session: SessionId,
        from: u64,
        text: &str,
        pending: &mut Pending,
    ) -> Result<Reply, VisitError> {
        let question = EntryId::new(format!("tg:{}", self.heard.update)).expect("a valid id");
        let asked = question.clone();
        let told =
            self.with(move |sessions| QuestionState::find(sessions, session, &asked, from)).await?;
        if let QuestionState::Answered(answer) = told {
            return Ok(match answer.is_empty() {
                true => Rich::plain("This was interrupted before there was an answer; ask again.")
                    .into(),
                false => Rich::markdown(&answer).into(),
            });
        }
        let header = self.with(move |sessions| sessions.get(session)).await?;
        let runner = self.runner(Some(&header));
        if header.header.imported.is_some() {
            self.announce(&runner, session).await?;
        }
        let input = Incoming { id: Some(question), message: self.message(text) };
        let reply = match self.turn(runner, session, input, pending).await? {
            Ok(answer) => {
                let cut_off = if answer.cut_off { CUT_OFF } else { "" };
                return Ok(Rich::markdown(&format!("{}{cut_off}", answer.text)).into());
            }
            Err(TurnError::Sessions(error)) if is_passing(&error) => return Err(error.into()),
            Err(TurnError::Sessions(error)) => words::trouble(&error),
            Err(TurnError::Provider(failure)) => Rich::plain(format!(
                "There is no answer: {failure}. What you wrote is kept; write again to go on."
            )),
        };
        let reply = Reply::from(reply);
        self.desk.inbox.reply(self.heard.update, &reply).await?;
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
        runner: Runner,
        session: SessionId,
        input: Incoming,
        pending: &mut Pending,
    ) -> Result<Result<Answer, TurnError>, VisitError> {
        let (events, mut heard) = Events::channel();
        // A turn of its own task goes on while a draft is on its way. It is never stopped: what
        // does not end before the process does is gone on with by the next one.
        let turn = tokio::spawn(async move {
            runner.run_turn(session, input, &events, &CancellationToken::new()).await
        });
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
                    let (desk, chat) = (self.desk.clone(), self.heard.chat);
                    tokio::spawn(async move { desk.post.typing(chat).await });
                }
                () = sleep_until(next), if writing.has_more() => {
                    let wait = self.show(&mut writing, pending).await?;
                    next = Instant::now() + wait.unwrap_or(every).max(every);
                }
            }
        }
        match turn.await {
            Ok(outcome) => Ok(outcome),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(VisitError::Stopping),
            },
        }
    }

    /// Shows how far an answer has come. Returns how long Telegram wants to be left alone.
    async fn show(
        &self,
        writing: &mut Writing,
        pending: &mut Pending,
    ) -> Result<Option<Duration>, VisitError> {
        let Some(part) = writing.draft().parts().into_iter().next() else { return Ok(None) };
        writing.shown = writing.seen;
        if writing.last.as_ref() == Some(&part.html) {
            return Ok(None);
        }
        let shown = match pending.sent.first() {
            Some(message) => self.desk.post.draft(self.heard.chat, *message, &part).await,
            None => match self.desk.post.first_draft(&self.heard, &part).await {
                Draft::Shown(message) => {
                    self.desk.inbox.sent(self.heard.update, message).await?;
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
            // Nobody is here to be asked: what is allowed is allowed by name.
            Event::Ask { answer, .. } => drop(answer.send(false)),
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
