//! `/status` and `/stop`, and turning tools on in an imported session.

use rethread_agent::blocking;
use rethread_agent::host::{Decision, Stop};
use rethread_agent::numbers::full;
use rethread_core::{Session, SessionId, StoreError, sessions};

use crate::buttons::{Buttons, Press};
use crate::handle_update::{UpdateError, UpdateHandler};
use crate::inbox::Reply;
use crate::limits::STATUS_QUESTION_CHARS;
use crate::markup::Rich;
use crate::texts::{self, count};
use crate::update::{IncomingUpdate, UpdateKind};

impl UpdateHandler {
    /// Stops the current answer. Queued messages are answered next.
    pub(crate) async fn stop(&self) -> Result<Reply, UpdateError> {
        let waiting = self.before_this();
        let Some(first) = waiting.first() else { return self.stop_elsewhere().await };
        if !first.asks() {
            let text = "Only an answer can be stopped; the current command finishes on its own.";
            return Ok(Rich::plain(text).into());
        }
        let running = &self.state.running;
        running.stop(first.update).cancel();
        if self.state.inbox.get(first.update).is_none() {
            // It ended while it was being stopped.
            running.forget(first.update);
        }
        let text = Rich::plain("Stopped; the part that arrived is kept. /retry asks again.");
        Ok(match waiting.len() - 1 {
            0 => text,
            more => text.and(format!(" {} still to be answered.", count(more as u64, "message"))),
        }
        .into())
    }

    /// Stops a turn in this chat's session that was started elsewhere.
    async fn stop_elsewhere(&self) -> Result<Reply, UpdateError> {
        let Some(session) = self.current().await? else { return Ok(texts::nothing_yet().into()) };
        Ok(match self.handle.stop_turn(session.id(), None).await? {
            Stop::Stopped => Rich::plain("Stopped; the part that arrived is kept."),
            Stop::Nothing => Rich::plain("Nothing is running here."),
            Stop::Several { waiting } => Rich::plain(format!(
                "Another client is running a turn, and {} queued after it; it can only be stopped \
                 there.",
                if waiting == 1 { "one is".into() } else { format!("{waiting} are") }
            )),
            Stop::Elsewhere { .. } => Rich::plain(
                "Another program is answering in this session; it can only be stopped there.",
            ),
        }
        .into())
    }

    /// What is running and queued, the agent, the folder, and how full the context is.
    pub(crate) async fn status(&self) -> Result<Reply, UpdateError> {
        let session = self.current().await?;
        let runner = self.viewer(session.as_ref()).await?;
        let waiting = self.before_this();
        let mut text = match waiting.first() {
            Some(first) => Rich::default().bold("Running").and(format!(": {}", shown(first))),
            None => match self.held(session.as_ref()).await? {
                true => Rich::default().bold("Running").and(": a turn in another program"),
                false => Rich::plain("Nothing is running."),
            },
        };
        let queue = waiting.len().saturating_sub(1) as u64;
        text = text.and(format!("\nWaiting: {}", count(queue, "message")));
        let (agent, model) = (&runner.responder.agent.name, runner.responder.model.id());
        text = text
            .and(format!("\nModel: {model} (agent {agent})\nFolder: "))
            .code(self.folder(&runner));
        let Some(session) = session else {
            return Ok(text.and("\nContext: empty; no messages yet.").into());
        };
        let (id, viewer) = (session.id(), runner.clone());
        let context = self.with(move |sessions| {
            let responder = &viewer.responder;
            sessions.context(id, &responder.policy, &responder.model)
        });
        let context = context.await?;
        text = text
            .and(format!(
                "\nContext: about {} of {} tokens ({} %)",
                full(context.tokens),
                full(runner.responder.model.budget()),
                runner.fullness_of(&context),
            ))
            .and("\nSession: ")
            .join(texts::called(&session));
        self.with_offer(text, &session).await
    }

    /// Earlier updates of this chat that are not handled yet: the first is being handled, the
    /// others are queued.
    fn before_this(&self) -> Vec<IncomingUpdate> {
        let home = self.state.inbox.home(self.incoming.chat.id);
        let pending = self.state.inbox.pending_in(home);
        let before =
            pending.into_iter().take_while(|incoming| incoming.update != self.incoming.update);
        before.filter(|incoming| !incoming.is_urgent()).collect()
    }

    /// Whether another program is running a turn in a session.
    async fn held(&self, session: Option<&Session>) -> Result<bool, UpdateError> {
        let Some(id) = session.map(Session::id) else { return Ok(false) };
        match self.with(move |sessions| sessions.is_free(id)).await {
            Ok(()) => Ok(false),
            Err(sessions::Error::Store(StoreError::Held { .. })) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a note that tools are off in an imported session, with a button that turns them on.
    pub(crate) async fn with_offer(
        &self,
        text: Rich,
        session: &Session,
    ) -> Result<Reply, UpdateError> {
        let Some(format) = self.untrusted(session).await else { return Ok(text.into()) };
        let text = text.and("\n\n").italic(format!(
            "Tools are off here: this session was imported ({format}), and its text may come from anyone."
        ));
        Ok(Reply { text, buttons: offer(session.id()) })
    }

    /// The format a session was imported from, if its tools are off because of that.
    pub(crate) async fn untrusted(&self, session: &Session) -> Option<String> {
        session.header.imported.as_ref()?;
        let (handle, session) = (self.handle.clone(), session.clone());
        blocking(move || match handle.decide(&session) {
            Decision::Ready(runner) => runner.untrusted().map(str::to_owned),
            Decision::AskFirst(_) | Decision::Refused(_) => None,
        })
        .await
    }

    /// Turns tools on in an imported session, permanently.
    pub(crate) async fn trust(&self, id: SessionId) -> Result<Reply, UpdateError> {
        let session = self.with(move |sessions| sessions.get(id)).await?;
        if session.header.imported.is_none() {
            return Ok(texts::stale().into());
        }
        let handle = self.handle.clone();
        blocking(move || handle.remember_trust(id)).await?;
        let runner = self.viewer(Some(&session)).await?;
        Ok(Rich::plain("Tools are on in ")
            .join(texts::called(&session))
            .and(", also after a restart. They see the folder ")
            .code(self.folder(&runner))
            .and(".")
            .into())
    }
}

/// The button that turns tools on.
pub(crate) fn offer(id: SessionId) -> Buttons {
    Buttons::default().row("Turn tools on", Press::Trust(id))
}

/// One update, on a line.
fn shown(incoming: &IncomingUpdate) -> String {
    let text = match &incoming.what {
        UpdateKind::Said(text) => text,
        UpdateKind::Sent { text, .. } if text.is_empty() => "a file",
        UpdateKind::Sent { text, .. } => text,
        UpdateKind::Pressed { .. } | UpdateKind::Wordless | UpdateKind::Moved { .. } => "a button",
    };
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.chars().count() > STATUS_QUESTION_CHARS {
        true => line.chars().take(STATUS_QUESTION_CHARS - 1).chain(['…']).collect(),
        false => line,
    }
}
