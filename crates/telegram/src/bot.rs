//! The bot: its settings, how it starts, and how it polls for updates.

use std::sync::Arc;

use rethread_agent::Host;
use rethread_agent::agents::Agent;
use rethread_agent::fifo::{Fifo, Ticket};
use rethread_core::{Key, Owner, StoreError, sessions};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::allow_list::{AllowList, ChatOwner, Offered, Strangers};
use crate::api::{Api, ApiError};
use crate::handle_update::{UpdateError, UpdateHandler};
use crate::inbox::Inbox;
use crate::limits::{GRACE, PENDING_MAX, TURNS_MAX};
use crate::running::Running;
use crate::send::{Post, Waits};
use crate::texts;
use crate::token::BotToken;
use crate::update::{IncomingUpdate, Me, UpdateKind};
use crate::wire::{BotCommand, SetMyCommands, Update};

/// Receives error messages: one line each, without a line end. They never contain the token, nor
/// any text of a person or a model.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The settings of the bot.
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct BotSettings {
    /// The URL of the Bot API.
    pub url: String,
    pub token: BotToken,
    /// Who may use it.
    pub allow_list: AllowList,
    /// The host that runs its turns.
    pub host: Host,
    /// Receives error messages.
    pub warn: Warn,
}

/// Why the bot cannot start, or had to stop.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum BotError {
    /// Telegram does not know the bot, or the URL is invalid.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The store failed.
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    /// Another process runs this bot.
    #[error("another process is running this bot ({holder})")]
    Held { holder: String },
    /// It was stopped before it was ready.
    #[error("stopped before Telegram was reached")]
    Stopped,
}

/// A bot that is ready to answer.
pub struct Bot {
    state: Arc<BotState>,
}

/// The state shared by all handlers.
pub(crate) struct BotState {
    pub(crate) api: Arc<Api>,
    pub(crate) post: Post,
    pub(crate) inbox: Inbox,
    pub(crate) me: Me,
    pub(crate) allow_list: AllowList,
    pub(crate) strangers: Strangers,
    pub(crate) host: Host,
    /// The agents whose model is available.
    pub(crate) agents: Vec<Agent>,
    pub(crate) warn: Warn,
    /// The running turns, so that they can be stopped.
    pub(crate) running: Running,
    /// Imported sessions in which this process offered to turn tools on.
    pub(crate) offered: Offered,
    queues: Fifo<i64>,
    room: Semaphore,
    /// Notified when an update was handled.
    handled: Notify,
    tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// Another process took the inbox over.
    lost: CancellationToken,
}

impl BotSettings {
    /// Asks Telegram for the bot's identity, and takes its inbox. Waits for the network until
    /// `stop`.
    ///
    /// # Errors
    ///
    /// [`BotError`].
    pub async fn open(self, stop: &CancellationToken) -> Result<Bot, BotError> {
        let BotSettings { url, token, allow_list, host, warn } = self;
        let api = Arc::new(Api::new(&url, token)?);
        let me = who_am_i(&api, &warn, stop).await?;
        let inbox = match Inbox::open(&host, me.id, stop).await {
            Err(sessions::Error::Store(StoreError::Held { holder, .. })) => {
                return Err(BotError::Held { holder });
            }
            opened => opened?,
        };
        let stopping = CancellationToken::new();
        let state = BotState {
            post: Post::new(api.clone(), warn.clone(), stopping.clone()),
            api,
            inbox,
            me,
            allow_list,
            strangers: Strangers::default(),
            agents: host
                .agents()
                .iter()
                .filter(|agent| host.roster().connect(&agent.name).is_ok())
                .cloned()
                .collect(),
            host,
            warn,
            running: Running::default(),
            offered: Offered::default(),
            queues: Fifo::new(),
            room: Semaphore::new(TURNS_MAX),
            handled: Notify::new(),
            tasks: TaskTracker::new(),
            stopping,
            lost: CancellationToken::new(),
        };
        Ok(Bot { state: Arc::new(state) })
    }
}

/// Retries until there is a response. A permanent refusal by Telegram ends it.
async fn who_am_i(api: &Api, warn: &Warn, stop: &CancellationToken) -> Result<Me, BotError> {
    let mut waits = Waits::default();
    loop {
        let failed = match api.get_me().await {
            Ok(user) => {
                return Ok(Me { id: user.id, username: user.username.unwrap_or_default() });
            }
            Err(failed) => failed,
        };
        if matches!(failed.code(), Some(400..=428)) {
            return Err(failed.into());
        }
        warn(&format!("{failed}; retrying"));
        tokio::select! {
            () = stop.cancelled() => return Err(BotError::Stopped),
            () = tokio::time::sleep(waits.next(&failed)) => {}
        }
    }
}

impl Bot {
    /// Its user name, such as `@thread_bot`.
    pub fn name(&self) -> String {
        format!("@{}", self.state.me.username)
    }

    /// Answers until it is stopped; then gives running turns 25 seconds to finish. Anything
    /// unfinished continues after the next start.
    ///
    /// # Errors
    ///
    /// [`BotError::Held`] if another process took over.
    pub async fn serve(self, stop: &CancellationToken) -> Result<(), BotError> {
        let Bot { state } = self;
        let menu = state.clone();
        state.tasks.spawn(async move { menu.show_menu().await });
        // Updates that the last process left come first: they are older.
        for incoming in state.inbox.pending() {
            state.clone().dispatch(incoming);
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = state.lost.cancelled() => {}
            () = state.clone().listen() => {}
        }
        state.stopping.cancel();
        state.tasks.close();
        if tokio::time::timeout(GRACE, state.tasks.wait()).await.is_err() {
            (state.warn)("some turns did not finish in time; they continue after the next start");
        }
        if state.lost.is_cancelled() {
            return Err(BotError::Held { holder: "it took over".into() });
        }
        state.inbox.close().await?;
        Ok(())
    }
}

/// The id of an update, to identify one that cannot be parsed.
#[derive(Deserialize)]
struct Numbered {
    update_id: i64,
}

impl BotState {
    /// Polls for updates, forever. An update is confirmed, by asking for the ones after it, only
    /// when it is in the inbox.
    async fn listen(self: Arc<BotState>) {
        let mut offset = None;
        let mut waits = Waits::default();
        loop {
            while self.inbox.count() >= PENDING_MAX {
                self.handled.notified().await;
            }
            let updates = match self.api.updates(offset).await {
                Ok(updates) => updates,
                Err(failed) => {
                    (self.warn)(&format!("{}; retrying", described(&failed)));
                    tokio::time::sleep(waits.next(&failed)).await;
                    continue;
                }
            };
            waits.reset();
            // A response without updates confirms all before. After that, Telegram is asked without
            // an offset, because after a quiet week its update ids start somewhere else.
            let last = updates.iter().filter_map(|raw| number(raw)).max();
            let incoming: Vec<IncomingUpdate> =
                updates.iter().filter_map(|raw| self.parse_update(raw)).collect();
            self.add_updates(incoming).await;
            offset = last.map(|last| last + 1);
        }
    }

    /// The content of an update, if it is meant for the bot and the sender is allowed.
    fn parse_update(self: &Arc<BotState>, raw: &RawValue) -> Option<IncomingUpdate> {
        let update: Update = match serde_json::from_str(raw.get()) {
            Ok(update) => update,
            Err(_) => {
                // An unknown kind: it is confirmed with the others.
                (self.warn)(&format!("update {:?} cannot be read and is skipped", number(raw)));
                return None;
            }
        };
        let incoming = IncomingUpdate::of(update, &self.me)?;
        if matches!(incoming.what, UpdateKind::Moved { .. }) || self.place(&incoming).is_some() {
            return Some(incoming);
        }
        self.turn_away(incoming);
        None
    }

    /// The owner and key of a chat, if the sender is allowed.
    pub(crate) fn place(&self, incoming: &IncomingUpdate) -> Option<ChatOwner> {
        self.allow_list.place(incoming, self.inbox.home(incoming.chat.id))
    }

    /// Answers a stranger, once, in one line. Nothing is stored, now or later.
    fn turn_away(self: &Arc<BotState>, incoming: IncomingUpdate) {
        let state = self.clone();
        let answer_now = self.strangers.meet(incoming.user);
        if !answer_now && !matches!(incoming.what, UpdateKind::Pressed { .. }) {
            return;
        }
        self.tasks.spawn(async move {
            let text = texts::stranger(incoming.user);
            if let UpdateKind::Pressed { query, .. } = &incoming.what {
                return state.post.pressed(query, Some("This is a private bot.")).await;
            }
            for part in text.parts() {
                // A user who blocked the bot does not need an answer.
                state.post.send(&incoming, &part, &Default::default()).await.ok();
            }
        });
    }

    /// Writes updates to disk, retrying as long as necessary, and starts to handle them.
    async fn add_updates(self: &Arc<BotState>, incoming: Vec<IncomingUpdate>) {
        let mut waits = Waits::default();
        while let Err(error) = self.follow_moves(&incoming).await {
            self.pause(&error, &mut waits).await;
        }
        let incoming: Vec<IncomingUpdate> = incoming
            .into_iter()
            .filter(|incoming| !matches!(incoming.what, UpdateKind::Moved { .. }))
            .collect();
        loop {
            match self.inbox.add_updates(incoming.clone()).await {
                Ok(new) => {
                    return new.into_iter().for_each(|incoming| self.clone().dispatch(incoming));
                }
                Err(error) => self.pause(&error, &mut waits).await,
            }
        }
    }

    /// Groups that became supergroups keep their sessions: the first notification counts. For a
    /// group that never used the bot, nothing is recorded.
    async fn follow_moves(&self, incoming: &[IncomingUpdate]) -> Result<(), sessions::Error> {
        for moved in incoming {
            let UpdateKind::Moved { from, to } = moved.what else { continue };
            let home = self.inbox.home(from);
            let coming =
                incoming.iter().any(|one| one.chat.id == from && self.place(one).is_some());
            let known =
                coming || !self.inbox.pending_in(home).is_empty() || self.has_session(home).await?;
            if known {
                self.moved(from, to).await?;
            }
        }
        Ok(())
    }

    /// Records that a group became a supergroup, unless that has its own sessions.
    pub(crate) async fn moved(&self, from: i64, to: i64) -> Result<(), sessions::Error> {
        match self.has_session(to).await? {
            true => Ok(()),
            false => self.inbox.moved(from, to).await,
        }
    }

    /// Whether a group has a session.
    async fn has_session(&self, chat: i64) -> Result<bool, sessions::Error> {
        let name = format!("telegram:{chat}");
        let owner = Owner::new(name.clone()).expect("a number is visible");
        let key = Key::new(name).expect("a number is visible");
        self.host.handle(owner).run(move |sessions| Ok(sessions.resolve(&key)?.is_some())).await
    }

    /// Handles an update after earlier ones of the same chat, in parallel with other chats. Updates
    /// about a running turn do not wait for it.
    fn dispatch(self: Arc<BotState>, incoming: IncomingUpdate) {
        // The queue of all chats together is bounded.
        let home = self.inbox.home(incoming.chat.id);
        let ticket = match incoming.is_urgent() {
            true => None,
            false => self.queues.ticket(home, usize::MAX - 1),
        };
        let state = self.clone();
        self.tasks.spawn(async move {
            let update = incoming.update;
            state.handle(incoming, ticket.as_ref()).await;
            state.running.forget(update);
            drop(ticket);
            state.handled.notify_one();
        });
    }

    async fn handle(self: &Arc<BotState>, incoming: IncomingUpdate, ticket: Option<&Ticket<i64>>) {
        let turn = async {
            match ticket {
                Some(ticket) => {
                    ticket.wait().await;
                    self.room.acquire().await.ok()
                }
                None => None,
            }
        };
        let _room = tokio::select! {
            biased;
            () = self.stopping.cancelled() => return,
            room = turn => room,
        };
        let mut waits = Waits::default();
        loop {
            let handled = match UpdateHandler::new(self.clone(), incoming.clone()) {
                Some(visit) => visit.run().await,
                None => self.inbox.done(incoming.update).await.map_err(UpdateError::from),
            };
            match handled {
                Ok(()) | Err(UpdateError::Stopping) => return,
                // As after a restart, it continues after the last step that is on disk.
                Err(UpdateError::Sessions(error)) => self.pause(&error, &mut waits).await,
                Err(UpdateError::Refused(refusal)) => {
                    return (self.warn)(&format!("an update was not answered: {refusal}"));
                }
            }
            if self.stopping.is_cancelled() {
                return;
            }
        }
    }

    /// Reports an error of the store, and waits a little. If another process has taken over, the
    /// bot stops.
    async fn pause(&self, error: &sessions::Error, waits: &mut Waits) {
        (self.warn)(&format!("{error}; retrying"));
        if matches!(error, sessions::Error::Store(StoreError::StaleFence { .. })) {
            self.lost.cancel();
            self.stopping.cancel();
        }
        tokio::select! {
            () = self.stopping.cancelled() => {}
            () = tokio::time::sleep(waits.longer()) => {}
        }
    }

    /// Shows the commands in Telegram's menu. They work without it too.
    async fn show_menu(&self) {
        let command = |(name, what): &(&'static str, &'static str)| BotCommand {
            command: name,
            description: what,
        };
        let params = SetMyCommands { commands: texts::COMMANDS.iter().map(command).collect() };
        if let Err(failed) = self.api.set_commands(&params).await {
            (self.warn)(&format!("the menu of commands is not shown: {failed}"));
        }
    }
}

fn number(raw: &RawValue) -> Option<i64> {
    serde_json::from_str::<Numbered>(raw.get()).ok().map(|update| update.update_id)
}

/// What is wrong, and what to do about it, if a person can do anything.
fn described(failed: &ApiError) -> String {
    match failed.code() {
        Some(409) => format!("{failed} (another program asks for the updates of this bot)"),
        Some(401 | 404) => format!("{failed} (was the token revoked?)"),
        _ => failed.to_string(),
    }
}
