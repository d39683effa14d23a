//! Asks a question, and shows the answer while it is written.

use std::time::Duration;

use rethread_agent::host::{AgentChanged, Refusal};
use rethread_agent::{
    End, Event, Events, QuestionState, Target, TurnAnswer, TurnError, TurnOptions,
};
use rethread_core::turn::turns;
use rethread_core::{
    Block, Body, Entry, EntryId, Incoming, Message, Place, Role, SessionId, Sessions, StoreError,
    sessions,
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::attachment::Taken;
use crate::buttons::{Buttons, Press};
use crate::handle_update::{UpdateError, UpdateHandler};
use crate::inbox::{Before, Pending, Reply};
use crate::limits::{
    DRAFT_AFTER, DRAFT_CHARS_MIN, DRAFT_EVERY, DRAFT_EVERY_IN_GROUP, TYPING_EVERY,
};
use crate::markup::Rich;
use crate::send::Draft;
use crate::texts;
use crate::update::SentFile;

/// The text of an answer if the model stopped before its end.
const CUT_OFF: &str = "\n\n[The answer stops here: the model's limit was reached.]";

/// The note after an answer that the person stopped.
const STOPPED: &str = "[stopped]";

/// The note after the answer of a turn that was ended early.
const CONTINUES: &str = "Any message continues.";

/// A question, once its session is known.
struct Question {
    session: SessionId,
    /// The question is in the log at this position or after it, if it was stored.
    from: u64,
    incoming: Incoming,
    /// A note for the person, sent with the answer.
    note: Option<Rich>,
}

impl UpdateHandler {
    /// Answers a message, with its attachments.
    pub(crate) async fn talk(
        &self,
        text: &str,
        file: Option<&SentFile>,
        mut pending: Pending,
    ) -> Result<(), UpdateError> {
        let asked = self.question(text, file, &mut pending).await;
        self.reply_to(asked, pending).await
    }

    /// Asks the last question again. If it has no answer yet, its turn is continued instead.
    pub(crate) async fn retry(&self, pending: Pending) -> Result<(), UpdateError> {
        let asked = self.last_question(&pending).await;
        self.reply_to(asked, pending).await
    }

    async fn reply_to(
        &self,
        asked: Result<Result<Question, Reply>, UpdateError>,
        mut pending: Pending,
    ) -> Result<(), UpdateError> {
        let reply = match asked {
            Ok(Ok(question)) => self.answer(question, &mut pending).await?,
            Ok(Err(reply)) => reply,
            Err(UpdateError::Sessions(error)) if !is_passing(&error) => {
                texts::trouble(&error).into()
            }
            Err(UpdateError::Refused(refusal)) => refused(&refusal, false),
            Err(error) => return Err(error),
        };
        self.deliver(&pending, &reply).await
    }

    /// The question, or a reply instead of an answer.
    async fn question(
        &self,
        text: &str,
        file: Option<&SentFile>,
        pending: &mut Pending,
    ) -> Result<Result<Question, Reply>, UpdateError> {
        let (session, from) = self.session(pending).await?;
        let id = question_id(self.incoming.update);
        let mut question = Question {
            session,
            from,
            incoming: Incoming { id: Some(id.clone()), message: self.message(text, Vec::new()) },
            note: None,
        };
        let Some(file) = file else { return Ok(Ok(question)) };
        let asked =
            self.with(move |sessions| QuestionState::find(sessions, session, &id, from)).await?;
        if matches!(asked, QuestionState::Answered(_)) {
            return Ok(Ok(question));
        }
        match self.typing(self.take_file(session, file)).await? {
            Taken::Refused(why) => Ok(Err(why.into())),
            Taken::Stored { blocks, unseen } => {
                question.incoming.message = self.message(text, blocks);
                question.note = unseen;
                match question.note.is_some() && text.is_empty() {
                    true => self.keep(question).await.map(Err),
                    false => Ok(Ok(question)),
                }
            }
        }
    }

    /// Stores a message that cannot be answered: a file the model cannot read, without a caption.
    async fn keep(&self, question: Question) -> Result<Reply, UpdateError> {
        let Question { session, incoming, note, .. } = question;
        let stored =
            self.with(move |sessions| sessions.append(session, vec![incoming.clone()]).map(drop));
        stored.await?;
        Ok(note.unwrap_or_default().and(" Write what you want to know.").into())
    }

    /// The last question of this chat at the time of the request.
    async fn last_question(
        &self,
        pending: &Pending,
    ) -> Result<Result<Question, Reply>, UpdateError> {
        let (before, _) = self.begin(pending).await?;
        let nothing = || {
            let text = "There is no question to ask again. Send one.";
            Rich::plain(text).into()
        };
        let Some(session) = before.session else { return Ok(Err(nothing())) };
        let last = self.with(move |sessions| last_question(sessions, session, before.head)).await?;
        let Some((entry, open)) = last else { return Ok(Err(nothing())) };
        let Body::Message(message) = entry.body else { return Ok(Err(nothing())) };
        let (id, from) = match open {
            true => (entry.id, entry.seq),
            false => (question_id(self.incoming.update), before.head),
        };
        let incoming = Incoming { id: Some(id), message };
        Ok(Ok(Question { session, from, incoming, note: None }))
    }

    /// The session of the question, and where in it to look for the question. It stays the same
    /// even if the chat's key moves in the meantime.
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
        self.state.inbox.begun(self.incoming.update, before).await?;
        pending.before = Some(before);
        Ok((id, head))
    }

    async fn answer(
        &self,
        question: Question,
        pending: &mut Pending,
    ) -> Result<Reply, UpdateError> {
        let Question { session, from, incoming, note } = question;
        let asked = incoming.id.clone().expect("a question here has an id");
        let state =
            self.with(move |sessions| QuestionState::find(sessions, session, &asked, from)).await?;
        let stored = state == QuestionState::Open;
        if let QuestionState::Answered(answer) = state {
            return Ok(match answer.is_empty() {
                true => {
                    Rich::plain("This ended before an answer arrived; /retry asks again.").into()
                }
                false => Rich::markdown(&answer).into(),
            });
        }
        let stop = self.state.running.stop(self.incoming.update);
        let reply = match self.turn(session, incoming, &stop, pending).await? {
            Ok(answer) => return self.answered(session, &answer, note).await,
            Err(TurnError::Sessions(error)) if is_passing(&error) => return Err(error.into()),
            Err(TurnError::Sessions(error)) => texts::trouble(&error).into(),
            Err(TurnError::Provider(failure)) => Rich::plain(format!(
                "No answer: {failure}. Your message is kept; /retry asks again."
            ))
            .into(),
            Err(TurnError::Refused(Refusal::Stopped | Refusal::Closing)) if stop.is_cancelled() => {
                match stored {
                    true => Rich::plain("Stopped; your message is kept. /retry asks again."),
                    false => {
                        Rich::plain("Stopped before it started, and not stored: send it again.")
                    }
                }
                .into()
            }
            Err(TurnError::Refused(Refusal::Stopped | Refusal::Closing)) => {
                return Err(UpdateError::Stopping);
            }
            Err(TurnError::Refused(refusal)) => refused(&refusal, stored),
        };
        self.state.inbox.reply(self.incoming.update, &reply).await?;
        Ok(reply)
    }

    /// The reply at the end of a turn.
    async fn answered(
        &self,
        session: SessionId,
        answer: &TurnAnswer,
        note: Option<Rich>,
    ) -> Result<Reply, UpdateError> {
        let mut text = match answer.end {
            End::Stopped if answer.text.is_empty() => {
                Rich::plain("Stopped before an answer arrived. /retry asks again.")
            }
            End::Stopped => Rich::markdown(&answer.text).and("\n\n").italic(STOPPED),
            End::RoundLimit | End::Repeated => {
                Rich::markdown(&answer.text).and("\n\n").italic(CONTINUES)
            }
            _ if answer.cut_off => Rich::markdown(&format!("{}{CUT_OFF}", answer.text)),
            _ => Rich::markdown(&answer.text),
        };
        if let Some(note) = note {
            text = note.and("\n\n").join(text);
        }
        let session = self.with(move |sessions| sessions.get(session)).await?;
        let offers = session.header.imported.is_some() && self.state.offered.first(session.id());
        match offers {
            true => self.with_offer(text, &session).await,
            false => Ok(text.into()),
        }
    }

    /// The message for the log. In a group it includes who wrote it.
    fn message(&self, text: &str, sent: Vec<Block>) -> Message {
        let from = self
            .incoming
            .chat
            .group
            .then(|| Block::prefix(format!("[From: {}]\n\n", self.incoming.name)));
        let text = (sent.is_empty() || !text.is_empty()).then(|| Block::text(text));
        Message::new(Role::User, from.into_iter().chain(sent).chain(text).collect())
    }

    /// Runs the turn, and shows drafts of the answer. Only `stop` stops it: what is unfinished when
    /// the process ends is continued by the next one.
    async fn turn(
        &self,
        session: SessionId,
        input: Incoming,
        stop: &CancellationToken,
        pending: &mut Pending,
    ) -> Result<Result<TurnAnswer, TurnError>, UpdateError> {
        let (events, mut incoming) = Events::channel();
        let options = TurnOptions::default();
        let target = Target::Session(session);
        // It runs while a draft is being sent.
        let started = match self.handle.start_turn(target, input, options, events).await {
            Ok(started) => started,
            Err(error) => return Ok(Err(error)),
        };
        let every = if self.incoming.chat.group { DRAFT_EVERY_IN_GROUP } else { DRAFT_EVERY };
        let mut writing = Writing::default();
        let mut next = Instant::now() + DRAFT_AFTER;
        let mut typing = interval(TYPING_EVERY);
        typing.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled(), if !started.stop.is_cancelled() => started.stop.cancel(),
                event = incoming.recv() => match event {
                    Some(event) => writing.follow(event),
                    None => break,
                },
                _ = typing.tick() => {
                    let (state, chat) = (self.state.clone(), self.addressed().chat);
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

    /// Shows a draft of the answer. Returns how long Telegram wants the bot to wait.
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
            Some(message) => self.state.post.draft(self.addressed().chat, *message, &part).await,
            None => match self.state.post.first_draft(&self.addressed(), &part).await {
                Draft::Shown(message) => {
                    self.state.inbox.sent(self.incoming.update, message).await?;
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

/// The id in the log of the question of this update.
fn question_id(update: u32) -> EntryId {
    EntryId::new(format!("tg:{update}")).expect("a valid id")
}

/// The last question since the last clear among the first `head` entries of a log, and whether it
/// was unanswered then.
fn last_question(
    sessions: &Sessions,
    session: SessionId,
    head: u64,
) -> Result<Option<(Entry, bool)>, sessions::Error> {
    let Some(seq) = head.checked_sub(1) else { return Ok(None) };
    let tally = sessions.entry_at(Place { session, seq })?.tally;
    let Some(asked) = tally.turn.filter(|asked| *asked >= tally.begins()) else { return Ok(None) };
    let entries: Vec<Entry> =
        sessions.entries(session, asked..head).collect::<Result<_, sessions::Error>>()?;
    let Some(turn) = turns(entries).into_iter().next() else { return Ok(None) };
    let open = !turn.is_over() && !turn.has_answer();
    Ok(turn.into_entries().into_iter().next().map(|question| (question, open)))
}

/// An answer that is being written.
#[derive(Default)]
struct Writing {
    text: String,
    /// The tool that is running.
    tool: Option<String>,
    /// The number of its changes, and how many of them a draft has shown.
    seen: u64,
    shown: u64,
    last: Option<String>,
}

impl Writing {
    fn follow(&mut self, event: Event) {
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

/// Why there is no answer, and what to do about it. The question may have been `stored` before.
pub(crate) fn refused(refusal: &Refusal, stored: bool) -> Reply {
    let kept = stored || matches!(refusal, Refusal::Abandoned);
    let next = match kept {
        true => "Your message is kept; /retry asks again.",
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
            true => ". Press a button, then write again to continue: your message is kept.",
            false => ". Press a button, then send your message again: it was not stored.",
        });
    let buttons = Buttons::default().rows([
        ("Continue here".to_owned(), Press::Accept(*session)),
        ("Leave it".to_owned(), Press::Nothing),
    ]);
    Reply { text, buttons }
}

/// Whether a retry may succeed soon: the disk is full, or locked by another program, or the
/// database cannot be reached.
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
        writing.follow(Event::Text("Let me see. ".into()));
        assert!(!writing.has_more(), "too short to say anything");
        writing.follow(Event::Text("That will take a moment.".into()));
        assert!(writing.has_more());
        writing.follow(Event::Retry { why: "broke off".into(), wait: Duration::ZERO });
        assert!(!writing.has_more());
        writing.follow(Event::Text("Let me look at all of it first.".into()));
        let call = rethread_core::message::Call {
            id: "1".into(),
            name: "grep".into(),
            input: rethread_core::Raw::of(&serde_json::json!({})),
        };
        writing.follow(Event::Call(call));
        let draft = writing.draft().parts().remove(0);
        assert_eq!(draft.plain, "Let me look at all of it first.\n\n🔎 grep …");
        writing.follow(Event::Text("Found".into()));
        assert_eq!(writing.draft().parts().remove(0).plain, "Found", "the next round starts again");
    }
}
