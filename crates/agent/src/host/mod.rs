//! The host: what all interfaces share. It decides whose sessions a request can reach, which agent
//! answers and with which tools; it orders and stops turns, runs blocking work, and ignores leases
//! of dead processes.
//!
//! An interface (terminal, HTTP, Telegram, …) creates one [`Host`] when it starts. Each user or
//! program gets a [`Handle`] for its owner; everything it does goes through that handle, so it
//! cannot reach anything of another owner. The interface itself handles only transport and wording.
//!
//! | file | what |
//! |---|---|
//! | `roster.rs` | the agents, and a [`Responder`] for each |
//! | `workspaces.rs` | the allowed folders, with their tools |
//! | `decision.rs` | which agent answers in a session, and with which tools: ready, ask first, or
//! refused |
//! | `folder_trust.rs` | which files of a folder are trusted |
//! | `session_trust.rs` | which imported sessions have tools permanently |
//! | `turns.rs` | running turns in order, stopping them, and ending in time |

mod decision;
mod folder_trust;
mod roster;
mod session_trust;
mod turns;
mod workspaces;

pub use decision::{AgentChanged, Decision, Refusal};
pub use folder_trust::{FolderFile, FolderTrust, TRUST_OWNER};
pub use roster::{Roster, RosterError, RosterSettings};
pub use turns::{EndedTurn, StartedTurn, Stop, Target};
pub use workspaces::{Folder, Workspaces};

use std::path::PathBuf;
use std::sync::Arc;

use rethread_core::sessions::Purged;
use rethread_core::{
    Backend, Header, Owner, Session, SessionId, Sessions, StoreError, World, sessions,
};
use tokio_util::sync::CancellationToken;

use crate::Responder;
use crate::agents::Agents;
use crate::blocking::blocking;
use crate::events::Events;
use crate::holder::ignoring_dead_holders;
use crate::leased_thread::{LeasedThread, Wanted};
use crate::limits::{
    HOST_QUESTION_BYTES_MAX, HOST_TURNS_MAX, OWNER_QUESTION_BYTES_MAX, OWNER_TURNS_MAX, QUEUE_MAX,
};
use crate::permission::{Grants, SessionPermissions};
use crate::project_instructions::ProjectInstructions;
use crate::runner::{Instructions, Runner};
use crate::thread_cache::ThreadCache;
use session_trust::SessionTrust;
use turns::Turns;

/// The settings of a host.
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct HostSettings {
    /// The agents and models.
    pub roster: Roster,
    /// The allowed folders.
    pub workspaces: Workspaces,
    pub limits: HostLimits,
    /// The folder for transcripts; without it, none are saved.
    pub transcripts: Option<PathBuf>,
}

/// The limits of a host.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// Running and queued turns of all owners.
    pub turns: usize,
    /// Running and queued turns of one owner.
    pub owner_turns: usize,
    /// Turns queued for one session.
    pub queue: usize,
    /// Bytes of the questions of running and queued turns, of all owners.
    pub bytes: u32,
    /// Bytes of the questions of running and queued turns, of one owner.
    pub owner_bytes: u32,
}

impl Default for HostLimits {
    fn default() -> HostLimits {
        HostLimits {
            turns: HOST_TURNS_MAX,
            owner_turns: OWNER_TURNS_MAX,
            queue: QUEUE_MAX,
            bytes: HOST_QUESTION_BYTES_MAX,
            owner_bytes: OWNER_QUESTION_BYTES_MAX,
        }
    }
}

/// What all interfaces share. Clones are the same host.
#[derive(Clone)]
pub struct Host(Arc<Shared>);

struct Shared {
    store: Arc<dyn Backend>,
    /// Its owner is arbitrary: only the shared parts are used.
    sessions: Sessions,
    world: Arc<dyn World>,
    roster: Roster,
    workspaces: Workspaces,
    transcripts: Option<PathBuf>,
    threads: ThreadCache,
    grants: Grants,
    turns: Turns,
}

impl Host {
    /// A host over a store.
    pub fn new(store: Arc<dyn Backend>, world: Arc<dyn World>, settings: HostSettings) -> Host {
        let HostSettings { roster, workspaces, limits, transcripts } = settings;
        let sessions = Sessions::new(store.clone(), Owner::local(), world.clone());
        Host(Arc::new(Shared {
            store,
            sessions,
            world,
            roster,
            workspaces,
            transcripts,
            threads: ThreadCache::default(),
            grants: Grants::default(),
            turns: Turns::new(limits),
        }))
    }

    /// The handle of an owner. The owner comes from a credential, never from a request.
    pub fn handle(&self, owner: Owner) -> Handle {
        Handle { host: self.clone(), sessions: self.0.sessions.of_owner(owner) }
    }

    /// The agents.
    pub fn agents(&self) -> &Agents {
        self.0.roster.agents()
    }

    /// The roster.
    pub fn roster(&self) -> &Roster {
        &self.0.roster
    }

    /// The allowed folders.
    pub fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    /// Where time and ids come from.
    pub fn world(&self) -> &Arc<dyn World> {
        &self.0.world
    }
}

/// An owner's access to a host. Clones have the same owner.
#[derive(Clone)]
pub struct Handle {
    host: Host,
    sessions: Sessions,
}

impl Handle {
    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The owner.
    pub fn owner(&self) -> &Owner {
        self.sessions.owner()
    }

    /// The owner's sessions, for reading. Operations that a lease may forbid go through
    /// [`call`](Handle::call) or [`run`](Handle::run).
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Runs an operation on the owner's sessions. If a lease of a dead process forbids it, it is
    /// repeated without that lease.
    ///
    /// # Errors
    ///
    /// The error of the operation.
    pub fn call<T>(
        &self,
        work: impl FnMut(&Sessions) -> sessions::Result<T>,
    ) -> sessions::Result<T> {
        ignoring_dead_holders(&self.sessions, work)
    }

    /// The same on a thread for blocking work.
    ///
    /// # Errors
    ///
    /// The error of the operation.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnMut(&Sessions) -> sessions::Result<T> + Send + 'static,
    ) -> sessions::Result<T> {
        let handle = self.clone();
        blocking(move || handle.call(work)).await
    }

    /// Archives all sessions but the `keep` newest, or moves them to the trash.
    ///
    /// # Errors
    ///
    /// I/O errors. What was done before the error stays done.
    pub fn purge(&self, keep: usize, delete: bool) -> sessions::Result<Purged> {
        self.put_away(self.sessions.all_but_newest(keep, delete, |_| true)?, delete)
    }

    /// Archives all chats that began here but the `keep` newest.
    ///
    /// # Errors
    ///
    /// I/O errors. What was done before the error stays done.
    pub fn limit_chats(&self, keep: usize) -> sessions::Result<Purged> {
        self.put_away(self.sessions.all_but_newest(keep, false, Header::is_own_chat)?, false)
    }

    fn put_away(&self, ids: Vec<SessionId>, delete: bool) -> sessions::Result<Purged> {
        let mut purged = Purged::default();
        for id in ids {
            let gone = self.call(|sessions| match delete {
                true => sessions.trash(id).map(drop),
                false => sessions.archive(id).map(drop),
            });
            match gone {
                Ok(()) => purged.done += 1,
                Err(sessions::Error::Store(StoreError::Held { .. })) => purged.in_use += 1,
                Err(sessions::Error::Store(StoreError::NotFound { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(purged)
    }

    /// Opens a session and takes its lease, for as long as a program writes to it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] if someone else has it for longer than `wait`; otherwise I/O errors.
    pub async fn lease(
        &self,
        id: SessionId,
        wait: std::time::Duration,
        stop: &CancellationToken,
    ) -> sessions::Result<LeasedThread> {
        let (cache, nobody) = (ThreadCache::default(), Events::none());
        let sessions = &self.sessions;
        Wanted { sessions, cache: &cache, id, wait, events: &nobody, stop }.take().await
    }

    /// The runner for new sessions, which can also show any session: with this agent or the default
    /// one, in this folder or the default one.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the agent does not exist, or its model is not available.
    pub fn runner(&self, agent: Option<&str>, workspace: Option<&str>) -> Result<Runner, Refusal> {
        let mut responder = self.host.0.roster.responder(agent)?;
        match self.host.0.workspaces.folder(workspace) {
            Ok(folder) => {
                responder.workspace = Some(folder.path.display().to_string());
                responder.project = Arc::new(ProjectInstructions::read(&folder.path));
                responder.tools = folder.tools;
            }
            // Without a folder there is nothing to read.
            Err(_) => {
                responder.workspace = None;
                responder = responder.without_tools();
            }
        }
        Ok(self.runner_of(responder))
    }

    /// A runner with a responder that was made elsewhere.
    pub fn runner_of(&self, responder: Responder) -> Runner {
        Runner {
            responder,
            sessions: self.sessions.clone(),
            threads: self.host.0.threads.clone(),
            grants: self.host.0.grants.clone(),
            transcripts: self.host.0.transcripts.clone(),
            untrusted: None,
            instructions: Instructions::Own,
            handle: self.clone(),
            depth: 0,
            above: Vec::new(),
            asks_for: None,
        }
    }

    /// A runner to show a session with: that of its own agent, or of the default one if its own is
    /// not available.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if not even the default agent is available.
    pub fn viewer(&self, session: &Session) -> Result<Runner, Refusal> {
        let profile = &session.header.profile;
        let own = self.runner(profile.agent.as_deref(), profile.workspace.as_deref());
        own.or_else(|_| self.runner(None, profile.workspace.as_deref()))
    }

    /// The user trusts an imported session: its tools are on, in this process.
    pub fn trust(&self, id: SessionId) {
        self.host.0.grants.trust(self.owner(), id);
    }

    /// The same permanently: for other processes and later ones too.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; otherwise I/O errors.
    pub fn remember_trust(&self, id: SessionId) -> sessions::Result<()> {
        self.session_trust().remember(&self.sessions, id)
    }

    /// If the original is trusted permanently, so is the session that continues it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if `to` does not exist.
    pub fn remember_inherited_trust(&self, from: SessionId, to: SessionId) -> sessions::Result<()> {
        match self.session_trust().holds(&self.sessions, from)? {
            true => self.remember_trust(to),
            false => Ok(()),
        }
    }

    /// Whether the user trusts this imported session, in this process or permanently.
    fn trusts(&self, id: SessionId) -> bool {
        // If the record cannot be read, nobody has agreed.
        self.host.0.grants.trusts(self.owner(), id)
            || self.session_trust().holds(&self.sessions, id).unwrap_or(false)
    }

    fn session_trust(&self) -> SessionTrust {
        let Shared { store, world, .. } = &*self.host.0;
        SessionTrust::new(store.clone(), world.clone(), self.owner())
    }

    /// The user's changes to the permissions of a session, in the folder of `runner`.
    pub fn session_permissions(&self, runner: &Runner, id: SessionId) -> SessionPermissions {
        self.host.0.grants.of(&runner.scope(id))
    }

    /// Changes them, for this process.
    pub fn change_permissions<T>(
        &self,
        runner: &Runner,
        id: SessionId,
        change: impl FnOnce(&mut SessionPermissions) -> T,
    ) -> T {
        self.host.0.grants.change(&runner.scope(id), change)
    }

    /// A conversation continues from its summary: its permissions still apply. A copy or an import
    /// starts without them.
    pub fn keep_permissions(&self, runner: &Runner, from: SessionId, to: SessionId) {
        let permissions = self.session_permissions(runner, from);
        self.change_permissions(runner, to, |new| *new = permissions);
    }

    /// A session that continues a trusted one is trusted.
    pub fn inherit_trust(&self, from: SessionId, to: SessionId) {
        if self.trusts(from) {
            self.trust(to);
        }
    }
}
