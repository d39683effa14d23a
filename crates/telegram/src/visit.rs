//! Dealing with one thing that was heard, from wherever the last try ended.
//!
//! Every step is noted before the next one, and looks at the notes first. So this may be begun
//! again at any time, by this process or by one that comes after it: what is done is not done
//! twice, and what is not done is done.

use std::path::PathBuf;
use std::sync::Arc;

use rethread_agent::{Runner, past_the_dead};
use rethread_core::{Key, Message, ProfileChange, Session, SessionId, Sessions, sessions};

use crate::buttons::{Buttons, Press};
use crate::door::Desk;
use crate::heard::{Heard, What};
use crate::inbox::{Before, Pending, Reply, blocking};
use crate::markup::{Part, Rich};
use crate::people::Place;
use crate::post::Undelivered;
use crate::words;
use crate::workspaces::Folder;

/// Why something was not dealt with to its end.
#[derive(Debug)]
pub(crate) enum VisitError {
    /// The bot is stopping; the next process goes on.
    Stopping,
    /// The store refused.
    Sessions(sessions::Error),
}

impl From<sessions::Error> for VisitError {
    fn from(error: sessions::Error) -> VisitError {
        VisitError::Sessions(error)
    }
}

/// One thing that was heard, and everything it takes to deal with it.
pub(crate) struct Visit {
    pub(crate) desk: Arc<Desk>,
    pub(crate) heard: Heard,
    pub(crate) key: Key,
    /// Those of whoever is meant.
    pub(crate) sessions: Sessions,
}

impl Visit {
    /// Nothing, for someone who was taken off the list since it was heard.
    pub(crate) fn new(desk: Arc<Desk>, heard: Heard) -> Option<Visit> {
        let Place { owner, key } = desk.people.place(&heard)?;
        let sessions = desk.sessions.of_owner(owner);
        Some(Visit { desk, heard, key, sessions })
    }

    /// Deals with it.
    pub(crate) async fn run(&self) -> Result<(), VisitError> {
        let Some(pending) = self.desk.inbox.get(self.heard.update) else { return Ok(()) };
        let reply = match (&pending.reply, &self.heard.what) {
            (Some(reply), _) => reply.clone(),
            (None, What::Said(text)) => match text.strip_prefix('/') {
                Some(command) => self.noted(self.command(command, &pending).await?).await?,
                None => return self.talk(text, pending).await,
            },
            (None, What::Pressed { query, data }) => {
                self.desk.post.pressed(query, None).await;
                self.noted(self.press(data, &pending).await?).await?
            }
            (None, What::Wordless) => words::wordless().into(),
        };
        self.deliver(&pending, &reply).await
    }

    async fn noted(&self, reply: Reply) -> Result<Reply, VisitError> {
        self.desk.inbox.reply(self.heard.update, &reply).await?;
        Ok(reply)
    }

    /// Says it, in as many messages as it takes, going on where the last try ended; and then it is
    /// done.
    pub(crate) async fn deliver(&self, pending: &Pending, reply: &Reply) -> Result<(), VisitError> {
        let mut parts = reply.text.parts();
        if parts.is_empty() {
            parts = Rich::plain("(nothing to show)").parts();
        }
        let last = parts.len() - 1;
        let none = Buttons::default();
        for (index, part) in parts.iter().enumerate() {
            let buttons = if index == last { &reply.buttons } else { &none };
            let known = match (&self.heard.what, pending.sent.get(index)) {
                // What a button does is shown where the button was.
                (What::Pressed { data, .. }, None) if last == 0 && in_place(data) => {
                    Some(self.heard.message)
                }
                // Of messages that were sent only the first can be an unfinished one.
                (_, Some(_)) if index > 0 => continue,
                (_, Some(message)) => Some(*message),
                (_, None) => None,
            };
            match self.say(part, buttons, known).await {
                Ok(message) if index < last => {
                    self.desk.inbox.sent(self.heard.update, message).await?;
                }
                Ok(_) => {}
                // Nobody is there to hear the rest either.
                Err(Undelivered::Never) => break,
                Err(Undelivered::Stopping) => return Err(VisitError::Stopping),
            }
        }
        Ok(self.desk.inbox.done(self.heard.update).await?)
    }

    /// Says one part: in place of a message that is there, or in a new one.
    async fn say(
        &self,
        part: &Part,
        buttons: &Buttons,
        known: Option<i32>,
    ) -> Result<i32, Undelivered> {
        let post = &self.desk.post;
        if let Some(message) = known {
            match post.edit(self.heard.chat, message, part, buttons).await {
                Ok(()) => return Ok(message),
                Err(Undelivered::Stopping) => return Err(Undelivered::Stopping),
                // The person removed it, or it is too old to be changed.
                Err(Undelivered::Never) => {}
            }
        }
        post.send(&self.heard, part, buttons).await
    }

    /// How the chat stands, noted before something is done in it; and whether that had been noted
    /// already, by someone who did not come to the end.
    pub(crate) async fn begin(&self, pending: &Pending) -> Result<(Before, bool), VisitError> {
        if let Some(before) = pending.before {
            return Ok((before, true));
        }
        let before = self.stands().await?;
        self.desk.inbox.begun(self.heard.update, before).await?;
        Ok((before, false))
    }

    /// How the chat stands now.
    pub(crate) async fn stands(&self) -> Result<Before, sessions::Error> {
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

    /// Does something with the sessions of whoever is meant, where it may block.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl Fn(&Sessions) -> Result<T, sessions::Error> + Send + 'static,
    ) -> Result<T, sessions::Error> {
        let sessions = self.sessions.clone();
        blocking(move || past_the_dead(&sessions, work)).await
    }

    /// What runs turns in a session: its own agent, in its own folder. In one that was imported
    /// tools are off, because its words may be anyone's and nobody is here to be asked.
    pub(crate) fn runner(&self, session: Option<&Session>) -> Runner {
        let header = session.map(|session| &session.header);
        let named = header.and_then(|header| header.profile.agent.as_deref());
        let remembered = header.and_then(|header| header.profile.workspace.as_deref());
        let mut runner = self.runner_of(named, remembered);
        if header.is_some_and(|header| header.imported.is_some()) {
            runner.agent.tools = Some(Vec::new());
        }
        runner
    }

    /// What runs turns with this agent in this folder, as far as there are such.
    pub(crate) fn runner_of(&self, agent: Option<&str>, workspace: Option<&str>) -> Runner {
        let desk = &self.desk;
        let runner = agent.and_then(|agent| desk.runners.get(agent));
        let runner = runner.or_else(|| desk.runners.get(&desk.agent));
        let mut runner = runner.expect("the usual agent has a runner").clone();
        runner.sessions = self.sessions.clone();
        match desk.workspaces.folder(workspace) {
            Ok(Folder { path, tools }) => {
                runner.workspace = Some(path.display().to_string());
                runner.tools = tools;
            }
            // Without a folder there is nothing to look at.
            Err(_) => {
                runner.workspace = None;
                runner.agent.tools = Some(Vec::new());
            }
        }
        runner
    }

    /// Has a session say who answers in it and where, as a system message, unless it says so.
    pub(crate) async fn announce(
        &self,
        runner: &Runner,
        id: SessionId,
    ) -> Result<(), sessions::Error> {
        let new = runner.new_session();
        self.with(move |sessions| {
            let session = sessions.get(id)?;
            let system = new.system.clone().unwrap_or_default();
            let held = match session.tally.system {
                Some(seq) => sessions.read(id, seq..seq + 1)?.pop(),
                None => None,
            };
            let held = held.and_then(|entry| entry.body.message().map(Message::plain_text));
            if held.as_deref() != Some(system.as_str()) {
                sessions.append(id, vec![Message::system(system).into()])?;
            }
            let (was, is) = (&session.header.profile, &new.profile);
            if (&was.agent, &was.agent_path, &was.workspace)
                != (&is.agent, &is.agent_path, &is.workspace)
            {
                let change = ProfileChange {
                    agent: Some(is.agent.clone()),
                    agent_path: Some(is.agent_path.clone()),
                    workspace: Some(is.workspace.clone()),
                    ..ProfileChange::default()
                };
                sessions.update(id, &change.into())?;
            }
            Ok(())
        })
        .await
    }

    /// The folder of a runner, as people see it.
    pub(crate) fn folder(&self, runner: &Runner) -> String {
        match &runner.workspace {
            Some(path) => self.desk.workspaces.shown(&PathBuf::from(path)),
            None => "none".into(),
        }
    }
}

/// Whether what a button does stands in place of the message it was below. What was said earlier
/// does not: both are there to be read.
fn in_place(data: &str) -> bool {
    !matches!(Press::read(data), Some(Press::History { .. }))
}
