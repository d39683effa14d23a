//! Handles one update, starting after the last completed step.
//!
//! Every step is recorded before the next one, and checks the records first. So handling can be
//! restarted at any time, by this process or a later one: completed steps are not repeated, and the
//! others are done.

use std::path::PathBuf;
use std::sync::Arc;

use rethread_agent::host::Refusal;
use rethread_agent::{Handle, Runner, TurnError, blocking};
use rethread_core::{Key, Session, Sessions, sessions};

use crate::allow_list::ChatOwner;
use crate::bot::BotState;
use crate::buttons::{Buttons, Press};
use crate::inbox::{Before, Pending, Reply};
use crate::markup::{Part, Rich};
use crate::send::Undelivered;
use crate::texts;
use crate::update::{IncomingUpdate, UpdateKind};

/// Why an update was not completely handled.
#[derive(Debug)]
pub(crate) enum UpdateError {
    /// The bot is stopping; the next process continues.
    Stopping,
    /// The store failed.
    Sessions(sessions::Error),
    /// There is no one to answer.
    Refused(Refusal),
}

impl From<Refusal> for UpdateError {
    fn from(refusal: Refusal) -> UpdateError {
        UpdateError::Refused(refusal)
    }
}

impl From<TurnError> for UpdateError {
    fn from(error: TurnError) -> UpdateError {
        match error {
            TurnError::Sessions(error) => UpdateError::Sessions(error),
            TurnError::Refused(refusal) => UpdateError::Refused(refusal),
            TurnError::Provider(failure) => UpdateError::Refused(Refusal::CannotAnswer {
                agent: "model".into(),
                why: failure.to_string(),
            }),
        }
    }
}

impl From<sessions::Error> for UpdateError {
    fn from(error: sessions::Error) -> UpdateError {
        UpdateError::Sessions(error)
    }
}

/// One update, and everything that handling it needs.
pub(crate) struct UpdateHandler {
    pub(crate) state: Arc<BotState>,
    pub(crate) incoming: IncomingUpdate,
    pub(crate) key: Key,
    /// The handle of the owner.
    pub(crate) handle: Handle,
}

impl UpdateHandler {
    /// `None` for a user who was removed from the allow list in the meantime.
    pub(crate) fn new(state: Arc<BotState>, incoming: IncomingUpdate) -> Option<UpdateHandler> {
        let ChatOwner { owner, key } = state.place(&incoming)?;
        let handle = state.host.handle(owner);
        Some(UpdateHandler { state, incoming, key, handle })
    }

    /// Handles it.
    pub(crate) async fn run(&self) -> Result<(), UpdateError> {
        let Some(pending) = self.state.inbox.get(self.incoming.update) else { return Ok(()) };
        let reply = match (&pending.reply, &self.incoming.what) {
            (Some(reply), _) => reply.clone(),
            (None, UpdateKind::Said(text)) => match text.strip_prefix('/') {
                Some(_) if self.incoming.asks() => return self.retry(pending).await,
                Some(command) => self.noted(self.command(command, &pending).await?).await?,
                None => return self.talk(text, None, pending).await,
            },
            (None, UpdateKind::Sent { text, file }) => {
                return self.talk(text, Some(file), pending).await;
            }
            (None, UpdateKind::Pressed { query, data }) => {
                self.state.post.pressed(query, None).await;
                self.noted(self.press(data, &pending).await?).await?
            }
            (None, UpdateKind::Wordless) => texts::wordless().into(),
            // It was recorded when the update arrived.
            (None, UpdateKind::Moved { .. }) => {
                return Ok(self.state.inbox.done(self.incoming.update).await?);
            }
        };
        self.deliver(&pending, &reply).await
    }

    async fn noted(&self, reply: Reply) -> Result<Reply, UpdateError> {
        self.state.inbox.reply(self.incoming.update, &reply).await?;
        Ok(reply)
    }

    /// Sends a reply, in as many messages as necessary, continuing after the last one that was
    /// sent; then the update is done.
    pub(crate) async fn deliver(
        &self,
        pending: &Pending,
        reply: &Reply,
    ) -> Result<(), UpdateError> {
        let mut parts = reply.text.parts();
        if parts.is_empty() {
            parts = Rich::plain("(nothing to show)").parts();
        }
        let last = parts.len() - 1;
        let none = Buttons::default();
        for (index, part) in parts.iter().enumerate() {
            let buttons = if index == last { &reply.buttons } else { &none };
            let known = match (&self.incoming.what, pending.sent.get(index)) {
                // The result of a button replaces the message with the button.
                (UpdateKind::Pressed { data, .. }, None) if last == 0 && in_place(data) => {
                    Some(self.incoming.message)
                }
                // Of the messages that were sent, only the first can be an unfinished one.
                (_, Some(_)) if index > 0 => continue,
                (_, Some(message)) => Some(*message),
                (_, None) => None,
            };
            let mut said = self.say(part, buttons, known).await;
            if let Err(Undelivered::Moved(to)) = said {
                self.state.moved(self.incoming.chat.id, to).await?;
                said = self.say(part, buttons, None).await;
            }
            match said {
                Ok(message) if index < last => {
                    self.state.inbox.sent(self.incoming.update, message).await?;
                }
                Ok(_) => {}
                // The rest could not be delivered either.
                Err(Undelivered::Never | Undelivered::Moved(_)) => break,
                Err(Undelivered::Stopping) => return Err(UpdateError::Stopping),
            }
        }
        Ok(self.state.inbox.done(self.incoming.update).await?)
    }

    /// Sends one part: by editing an existing message, or as a new one.
    async fn say(
        &self,
        part: &Part,
        buttons: &Buttons,
        known: Option<i32>,
    ) -> Result<i32, Undelivered> {
        let post = &self.state.post;
        let incoming = self.addressed();
        if let Some(message) = known {
            match post.edit(incoming.chat, message, part, buttons).await {
                Ok(()) => return Ok(message),
                Err(Undelivered::Stopping) => return Err(Undelivered::Stopping),
                // The person deleted it, or it is too old to be edited, or the group moved.
                Err(Undelivered::Never | Undelivered::Moved(_)) => {}
            }
        }
        post.send(&incoming, part, buttons).await
    }

    /// The update, with the current id of its chat.
    pub(crate) fn addressed(&self) -> IncomingUpdate {
        let mut incoming = self.incoming.clone();
        incoming.chat.id = self.state.inbox.address(incoming.chat.id);
        incoming
    }

    /// The state of the chat, recorded before something is changed; and whether an earlier attempt
    /// had already recorded it.
    pub(crate) async fn begin(&self, pending: &Pending) -> Result<(Before, bool), UpdateError> {
        if let Some(before) = pending.before {
            return Ok((before, true));
        }
        let before = self.chat_state().await?;
        self.state.inbox.begun(self.incoming.update, before).await?;
        Ok((before, false))
    }

    /// The current state of the chat.
    pub(crate) async fn chat_state(&self) -> Result<Before, sessions::Error> {
        Ok(match self.current().await? {
            Some(session) => Before {
                session: Some(session.id()),
                head: session.tally.entries,
                cleared: session.tally.boundary.map(|clear| clear.seq),
            },
            None => Before::default(),
        })
    }

    /// The session of this chat.
    pub(crate) async fn current(&self) -> Result<Option<Session>, sessions::Error> {
        let key = self.key.clone();
        self.with(move |sessions| match sessions.resolve(&key)? {
            Some(id) => sessions.get(id).map(Some),
            None => Ok(None),
        })
        .await
    }

    /// Runs blocking work on the sessions of the owner.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnMut(&Sessions) -> Result<T, sessions::Error> + Send + 'static,
    ) -> Result<T, sessions::Error> {
        self.handle.run(work).await
    }

    /// The runner that shows a session, or would run a new one after it: its agent, in its folder.
    pub(crate) async fn viewer(&self, session: Option<&Session>) -> Result<Runner, UpdateError> {
        let (handle, session) = (self.handle.clone(), session.cloned());
        let runner = blocking(move || match session {
            Some(session) => handle.viewer(&session),
            None => handle.runner(None, None),
        });
        Ok(runner.await?)
    }

    /// The folder of a runner, for display.
    pub(crate) fn folder(&self, runner: &Runner) -> String {
        match &runner.responder.workspace {
            Some(path) => self.state.host.workspaces().shown(&PathBuf::from(path)),
            None => "none".into(),
        }
    }
}

/// Whether the result of a button replaces the message with the button. A page of history does not:
/// both are there to be read.
fn in_place(data: &str) -> bool {
    !matches!(Press::read(data), Some(Press::History { .. }))
}
