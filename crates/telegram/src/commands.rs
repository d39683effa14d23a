//! Commands: the same verbs as in every interface.
//!
//! A verb that changes something first records the state of the chat
//! ([`Before`](crate::inbox::Before)). If it was started and not completed, comparing with the
//! current state shows whether it was done.

use rethread_agent::agents::Agent;
use rethread_agent::host::Decision;
use rethread_agent::numbers::full;
use rethread_agent::{CompactReceipt, Compacted, TurnError, blocking};
use rethread_core::entry::Origin;
use rethread_core::sessions::Undone;
use rethread_core::store::Cursor;
use rethread_core::{Name, Session, SessionId, Sessions, StoreError, sessions};

use crate::buttons::{Buttons, Press, Purpose, mark};
use crate::handle_update::{UpdateError, UpdateHandler};
use crate::inbox::{Pending, Reply};
use crate::limits::LIST_ROWS;
use crate::markup::Rich;
use crate::texts::{self, count};

/// The reply of a verb. Errors are part of the reply; only those of the inbox are errors here.
type Said = Result<Reply, UpdateError>;

impl UpdateHandler {
    /// Runs a command.
    pub(crate) async fn command(&self, text: &str, pending: &Pending) -> Said {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (name, rest) = (name.to_lowercase(), rest.trim());
        let done = match name.as_str() {
            "start" => self.start().await,
            "help" => return Ok(texts::help().into()),
            "new" => self.new_session(rest, pending).await,
            "sessions" => self.list(Purpose::Open, None).await,
            "open" if rest.is_empty() => self.list(Purpose::Open, None).await,
            "resume" if rest.is_empty() => self.list(Purpose::Resume, None).await,
            "open" => self.open(self.selected(rest), pending).await,
            "resume" => self.resume(self.selected(rest), pending).await,
            "compact" => self.compact(pending).await,
            "undo" => self.undo(pending).await,
            "clear" => self.clear(pending).await,
            "workspace" => self.workspace(rest, pending).await,
            "agent" => self.agent(rest, pending).await,
            "stats" => self.stats().await,
            "stop" => self.stop().await,
            "status" => self.status().await,
            "history" => self.history(rest).await,
            "delete" if rest.is_empty() => self.ask_delete_current().await,
            "delete" => self.ask_delete(self.selected(rest)).await,
            other => return Ok(texts::unknown(other).into()),
        };
        said(done)
    }

    /// Runs the action of a button.
    pub(crate) async fn press(&self, data: &str, pending: &Pending) -> Said {
        let done = match Press::read(data) {
            Some(Press::Open(id)) => self.open(async { Ok(id) }, pending).await,
            Some(Press::Resume(id)) => self.resume(async { Ok(id) }, pending).await,
            Some(Press::AskDelete(id)) => self.ask_delete(async { Ok(id) }).await,
            Some(Press::Delete(id)) => self.delete(id).await,
            Some(Press::Erase(id)) => self.erase(id).await,
            Some(Press::Undelete(id)) => self.undelete(id).await,
            Some(Press::More(purpose, cursor)) => self.list(purpose, Some(cursor)).await,
            Some(Press::History { session, before, all }) => {
                self.history_of(session, Some(before), all).await
            }
            Some(Press::Agent(chosen)) => {
                let agents = &self.state.agents;
                match agents.iter().find(|agent| mark(&agent.name) == chosen) {
                    Some(agent) => self.agent(&agent.name, pending).await,
                    None => Ok(texts::stale().into()),
                }
            }
            Some(Press::Workspace(chosen)) => {
                let folders = self.state.host.workspaces().choices(LIST_ROWS);
                let folders = folders.into_iter().map(|path| path.display().to_string());
                match folders.into_iter().find(|path| mark(path) == chosen) {
                    Some(path) => self.workspace(&path, pending).await,
                    None => Ok(texts::stale().into()),
                }
            }
            Some(Press::Accept(id)) => self.accept(id).await,
            Some(Press::Trust(id)) => self.trust(id).await,
            Some(Press::Nothing) => Ok(Rich::plain("Nothing was changed.").into()),
            None => Ok(texts::stale().into()),
        };
        said(done)
    }

    async fn start(&self) -> Said {
        let model = self.viewer(None).await?.responder.model.id();
        Ok(texts::start(&format!("@{}", self.state.me.username), &model).into())
    }

    /// The person agrees that the current agent continues a session.
    async fn accept(&self, id: SessionId) -> Said {
        let session = self.with(move |sessions| sessions.get(id)).await?;
        if let Decision::AskFirst(changed) = self.handle.decide(&session) {
            let handle = self.handle.clone();
            blocking(move || handle.accept(&changed)).await?;
        }
        let agent = self.viewer(Some(&session)).await?.responder.agent.name;
        Ok(Rich::default().bold(agent).and(" answers from now on. Send your message again.").into())
    }

    /// The selected session.
    async fn selected(&self, selector: &str) -> Result<SessionId, UpdateError> {
        let selector = selector.to_owned();
        Ok(self.with(move |sessions| sessions.select(&selector)).await?)
    }

    async fn new_session(&self, name: &str, pending: &Pending) -> Said {
        let name = match name.is_empty() {
            true => None,
            false => Some(Name::new(name).map_err(sessions::Error::from)?),
        };
        let (before, again) = self.begin(pending).await?;
        if !(again && self.chat_state().await?.session != before.session) {
            // The folder is kept.
            let current = self.current().await?;
            let mut new = self.viewer(current.as_ref()).await?.responder.new_session();
            new.name = name;
            let key = self.key.clone();
            self.with(move |sessions| sessions.create(&new, Some(&key))).await?;
        }
        let text = self
            .here()
            .await?
            .and(" It is new and empty. The previous session is kept; /undo goes back to it.");
        Ok(text.into())
    }

    async fn list(&self, purpose: Purpose, after: Option<Cursor>) -> Said {
        let filter = Sessions::default_filter();
        let page = self.with(move |sessions| sessions.list(&filter, after, LIST_ROWS)).await?;
        if page.sessions.is_empty() {
            return Ok(match after {
                None => texts::nothing_yet().into(),
                Some(_) => Rich::plain("No more.").into(),
            });
        }
        let current = self.current().await?.map(|session| session.id());
        let mut buttons = Buttons::default();
        for (index, session) in page.sessions.iter().enumerate() {
            let here = if Some(session.id()) == current { "● " } else { "" };
            let number = if after.is_none() { format!("{}. ", index + 1) } else { String::new() };
            let text = format!("{number}{here}{}", row(session));
            buttons = buttons.row(&text, purpose.press(session.id()));
        }
        if let Some(next) = page.next {
            buttons = buttons.row("more …", Press::More(purpose, next));
        }
        let text = match purpose {
            Purpose::Open => Rich::plain("Your sessions, newest first. Press one to continue it:"),
            Purpose::Resume => Rich::plain("Press a session to start a new one from its summary:"),
            Purpose::Delete => {
                Rich::plain("Press a session to delete it (you will be asked to confirm):")
            }
        };
        Ok(Reply { text, buttons })
    }

    async fn open(
        &self,
        found: impl Future<Output = Result<SessionId, UpdateError>>,
        pending: &Pending,
    ) -> Said {
        let (before, again) = self.begin(pending).await?;
        if !(again && self.chat_state().await?.session != before.session) {
            let (id, key) = (found.await?, self.key.clone());
            self.with(move |sessions| {
                // An archived session is unarchived.
                let id = sessions.thread(id)?.session().id();
                sessions.bind(&key, id)
            })
            .await?;
        }
        let Some(session) = self.current().await? else { return Ok(texts::nothing_yet().into()) };
        let runner = self.viewer(Some(&session)).await?;
        let text = texts::here(&session)
            .and(format!(
                " It has {}; {} answers, in {}.",
                count(session.tally.messages, "message"),
                runner.responder.agent.name,
                self.folder(&runner)
            ))
            .and(" /history shows the conversation.");
        self.with_offer(text, &session).await
    }

    async fn resume(
        &self,
        found: impl Future<Output = Result<SessionId, UpdateError>>,
        pending: &Pending,
    ) -> Said {
        let (before, again) = self.begin(pending).await?;
        if again && self.chat_state().await?.session != before.session {
            return Ok(self
                .here()
                .await?
                .and(" It continues from the summary; /undo goes back.")
                .into());
        }
        let id = found.await?;
        let (handle, key) = (self.handle.clone(), self.key.clone());
        let work = async move { handle.runner_for(id).await?.resume(id, vec![key]).await };
        let resumed = self.typing(self.handle.in_queue(id, work)).await;
        self.continued("Resumed", id, resumed).await
    }

    async fn compact(&self, pending: &Pending) -> Said {
        let (before, again) = self.begin(pending).await?;
        if again && self.chat_state().await?.session != before.session {
            return Ok(self
                .here()
                .await?
                .and(" It continues from the summary; /undo goes back.")
                .into());
        }
        let Some(session) = self.current().await? else { return Ok(texts::nothing_yet().into()) };
        let (id, handle) = (session.id(), self.handle.clone());
        let how = rethread_agent::SummaryMethod::Model;
        let work = async move { handle.runner_for(id).await?.compact(id, how, |_| {}).await };
        let compacted = self.typing(self.handle.in_queue(id, work)).await;
        self.continued("Compacted", id, compacted).await
    }

    /// The result of a compact or a resume.
    async fn continued(
        &self,
        verb: &str,
        from: SessionId,
        outcome: Result<Compacted, TurnError>,
    ) -> Said {
        Ok(match outcome {
            Ok(Compacted::Done(receipt)) => {
                let CompactReceipt { before, on, .. } = *receipt;
                let (handle, to) = (self.handle.clone(), on.session.id());
                blocking(move || handle.remember_inherited_trust(from, to)).await?;
                Rich::plain(format!(
                    "{verb}: about {} tokens before, {} now; {} carried over word for word. You are in ",
                    full(before),
                    full(on.tokens),
                    count(on.carried as u64, "turn"),
                ))
                .join(texts::called(&on.session))
                .and("; nothing is lost, and /undo goes back.")
                .into()
            }
            Ok(Compacted::Nothing) => texts::nothing_yet().into(),
            Err(TurnError::Sessions(error)) => return Err(error.into()),
            Err(TurnError::Provider(failure)) => {
                Rich::plain(format!("Nothing was changed: {failure}.")).into()
            }
            Err(TurnError::Refused(refusal)) => return Err(refusal.into()),
        })
    }

    async fn undo(&self, pending: &Pending) -> Said {
        let (before, again) = self.begin(pending).await?;
        let Some(session) = self.current().await? else {
            return match self.deleted_here().await? {
                Some(id) => self.undelete(id).await,
                None => Ok(texts::nothing_yet().into()),
            };
        };
        let now = self.chat_state().await?;
        if again && (now.session, now.cleared) != (before.session, before.cleared) {
            return Ok(Rich::plain("Undone. ").join(texts::here(&session)).into());
        }
        let id = session.id();
        let undone = self.with(move |sessions| sessions.undo(id)).await?;
        let Undone::Start { origin, .. } = undone else {
            let text = "Undid the clear: the model sees the earlier messages again.";
            return Ok(Rich::plain(text).into());
        };
        let undone = match origin {
            Origin::New => Rich::plain("Undid ").code("/new").and(". "),
            origin => Rich::plain(format!("Undid the {}. ", origin.as_str())),
        };
        Ok(undone.join(self.here().await?).into())
    }

    /// The session of this chat that was deleted last, as long as the chat has no other.
    async fn deleted_here(&self) -> Result<Option<SessionId>, UpdateError> {
        let key = self.key.clone();
        let trashed = self.with(|sessions| sessions.trashed()).await?;
        let found = trashed.into_iter().find(|session| session.keys.contains(&key));
        Ok(found.map(|session| session.id()))
    }

    /// Restores a session from the trash.
    async fn undelete(&self, id: SessionId) -> Said {
        let restored = self.with(move |sessions| sessions.restore_from_trash(id)).await;
        let session = match restored {
            Ok(session) => session,
            // The button may be pressed twice.
            Err(sessions::Error::Store(StoreError::NotFound { .. })) => {
                self.with(move |sessions| sessions.get(id)).await?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(texts::called(&session).and(" is back. ").join(self.here().await?).into())
    }

    async fn clear(&self, pending: &Pending) -> Said {
        let (before, again) = self.begin(pending).await?;
        let Some(session) = self.current().await? else { return Ok(texts::nothing_yet().into()) };
        let id = session.id();
        let done = again && self.chat_state().await?.cleared > before.cleared;
        if !done {
            self.with(move |sessions| sessions.clear(id)).await?;
        }
        Ok(Rich::plain("The context is empty; the session keeps its folder and its name. /undo brings the history back, ")
            .code("/history all")
            .and(" shows it.")
            .into())
    }

    async fn workspace(&self, typed: &str, pending: &Pending) -> Said {
        let current = self.current().await?;
        let spaces = self.state.host.workspaces();
        if typed.is_empty() {
            let runner = self.viewer(current.as_ref()).await?;
            let mut text = Rich::plain("The workspace is ").code(self.folder(&runner)).and(".");
            let remembered = current.as_ref().and_then(|s| s.header.profile.workspace.as_deref());
            if remembered.is_some() && remembered != runner.responder.workspace.as_deref() {
                text = text.and(" (The folder of this session is not allowed here.)");
            }
            let mut buttons = Buttons::default();
            let choices = spaces.choices(LIST_ROWS);
            if choices.len() > 1 {
                text = text.and(" Press another, or send ").code("/workspace PATH").and(".");
                for path in choices {
                    let press = Press::Workspace(mark(&path.display().to_string()));
                    buttons = buttons.row(&spaces.shown(&path), press);
                }
            }
            return Ok(Reply { text, buttons });
        }
        let Some(folder) = spaces.find(typed) else {
            return Ok(Rich::plain(
                "That folder is not allowed here. /workspace lists some that are.",
            )
            .into());
        };
        self.begin(pending).await?;
        let path = folder.path.display().to_string();
        let id = match current {
            Some(session) => session.id(),
            None => self.open_new(None, Some(&path)).await?,
        };
        let handle = self.handle.clone();
        let runner = blocking(move || handle.move_to(id, &path)).await?;
        Ok(Rich::plain("The workspace is ").code(self.folder(&runner)).and(" from now on.").into())
    }

    /// Starts the session of this chat, with this agent or in this folder.
    async fn open_new(
        &self,
        agent: Option<&str>,
        folder: Option<&str>,
    ) -> Result<SessionId, UpdateError> {
        let new = self.handle.runner(agent, folder)?.responder.new_session();
        let key = self.key.clone();
        Ok(self.with(move |sessions| Ok(sessions.open(&key, &new)?.session().id())).await?)
    }

    async fn agent(&self, name: &str, pending: &Pending) -> Said {
        let current = self.current().await?;
        let agents = &self.state.agents;
        if name.is_empty() {
            let answers = self.viewer(current.as_ref()).await?.responder.agent.name;
            let mut buttons = Buttons::default();
            for agent in agents {
                let here = if agent.name == answers { "● " } else { "" };
                let text = format!("{here}{}: {}", agent.name, agent.description);
                buttons = buttons.row(&text, Press::Agent(mark(&agent.name)));
            }
            let text = Rich::bold(Rich::default(), answers).and(" answers. Press another:");
            return Ok(Reply { text, buttons });
        }
        let known = agents.iter().find(|agent| agent.name.eq_ignore_ascii_case(name));
        let Some(Agent { name, .. }) = known.cloned() else {
            let known: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            return Ok(
                Rich::plain(format!("No such agent; the agents are {}.", known.join(", "))).into()
            );
        };
        self.begin(pending).await?;
        let id = match current {
            Some(session) => session.id(),
            None => self.open_new(Some(&name), None).await?,
        };
        let (handle, agent) = (self.handle.clone(), name.clone());
        blocking(move || handle.take_over(id, &agent)).await?;
        Ok(Rich::default().bold(name).and(" answers from now on.").into())
    }

    async fn stats(&self) -> Said {
        let Some(session) = self.current().await? else { return Ok(texts::nothing_yet().into()) };
        let id = session.id();
        let runner = self.viewer(Some(&session)).await?;
        let counted = runner.clone();
        let (stats, tokens) = self
            .with(move |sessions| Ok((sessions.stats(id)?, counted.context_tokens(id)?)))
            .await?;
        let mut text = Rich::default()
            .bold(session.title().unwrap_or_else(|| session.header.name.to_string()))
            .and(format!(
                "\nMessages: {} from you, {} from the assistant, {} from tools",
                full(stats.user),
                full(stats.assistant),
                full(stats.tool)
            ))
            .and(format!(
                "\nTokens: {} said, about {} in the next context (policy {})",
                full(stats.tokens),
                full(tokens),
                runner.responder.policy.name
            ));
        if stats.usage.total() > 0 {
            text = text.and(format!("\nCharged: {} tokens", full(stats.usage.total())));
        }
        let text = text
            .and(format!(
                "\nAgent: {}, {}",
                runner.responder.agent.name,
                runner.responder.model.id()
            ))
            .and("\nWorkspace: ")
            .code(self.folder(&runner));
        self.with_offer(text, &session).await
    }

    async fn ask_delete_current(&self) -> Said {
        match self.current().await? {
            Some(session) => self.ask_delete(async { Ok(session.id()) }).await,
            None => self.list(Purpose::Delete, None).await,
        }
    }

    async fn ask_delete(
        &self,
        found: impl Future<Output = Result<SessionId, UpdateError>>,
    ) -> Said {
        let id = found.await?;
        let session = self.with(move |sessions| sessions.get(id)).await?;
        let text = Rich::plain("Delete ").join(texts::called(&session)).and(format!(
            "? It has {}. It is moved to the trash; /undo brings it back for {}. To reset only the context, use /clear.",
            count(session.tally.messages, "message"),
            sessions::trash_kept(),
        ));
        let buttons = Buttons::default().rows([
            ("Delete it".to_owned(), Press::Delete(id)),
            ("Erase it for good".to_owned(), Press::Erase(id)),
            ("Keep it".to_owned(), Press::Nothing),
        ]);
        Ok(Reply { text, buttons })
    }

    async fn delete(&self, id: SessionId) -> Said {
        match self.with(move |sessions| sessions.trash(id).map(drop)).await {
            Ok(()) | Err(sessions::Error::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        // Its messages must not stay in the inbox either.
        self.state.inbox.rotate().await?;
        let buttons = Buttons::default().row("Undo", Press::Undelete(id));
        let text = Rich::plain("It is in the trash. /sessions shows the others.");
        Ok(Reply { text, buttons })
    }

    /// Erases a session with all of its text.
    async fn erase(&self, id: SessionId) -> Said {
        match self.with(move |sessions| sessions.erase(id)).await {
            Ok(()) | Err(sessions::Error::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        self.state.inbox.rotate().await?;
        Ok(Rich::plain("It is erased. /sessions shows the others.").into())
    }

    /// The current session of the chat.
    async fn here(&self) -> Result<Rich, UpdateError> {
        Ok(match self.current().await? {
            Some(session) => texts::here(&session),
            None => texts::nothing_yet(),
        })
    }

    /// Shows "typing" during a slow operation.
    pub(crate) async fn typing<T>(&self, work: impl Future<Output = T>) -> T {
        let typing = async {
            let mut tick = tokio::time::interval(crate::limits::TYPING_EVERY);
            loop {
                tick.tick().await;
                self.state.post.typing(self.addressed().chat).await;
            }
        };
        tokio::select! {
            done = work => done,
            () = typing => unreachable!("typing never ends"),
        }
    }
}

/// The text of a session's button.
fn row(session: &Session) -> String {
    let about = session.title().unwrap_or_else(|| session.header.name.to_string());
    let day = session.last_activity_at.strftime("%b %-d");
    format!("{day} · {} · {about}", session.tally.messages)
}

/// An error of a verb is reported to the person; one that affects the whole store is not, and is
/// retried.
fn said(done: Said) -> Said {
    match done {
        Err(UpdateError::Sessions(error)) if !crate::question::is_passing(&error) => {
            Ok(texts::trouble(&error).into())
        }
        Err(UpdateError::Refused(refusal)) => Ok(crate::question::refused(&refusal, false)),
        other => other,
    }
}
