//! What every door needs and none decides: whose sessions are meant, who answers and with which
//! tools, one turn at a time, stopping a turn, running blocking work, and whose lease counts.
//!
//! A door (terminal, HTTP, Telegram, …) makes one [`Host`] when it starts. Each person or program
//! that comes in gets a [`Handle`] for its owner; everything it does goes through that handle, so
//! it reaches nothing of anybody else's. What stays with the door is transport and wording.
//!
//! | file | what |
//! |---|---|
//! | `roster.rs` | the agents there are, and a [`Responder`] for each |
//! | `workspaces.rs` | the folders sessions may be about, with the tools that see them |
//! | `decision.rs` | who answers in a session, and with which tools: ready, ask first, or refused |
//! | `folder_trust.rs` | which files of a folder may speak to the model |
//! | `session_trust.rs` | which imported sessions have tools for good |
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
use rethread_core::{Backend, Owner, Session, SessionId, Sessions, StoreError, World, sessions};
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

/// What a host is made of.
pub struct HostSettings {
    /// Who can answer.
    pub roster: Roster,
    /// The folders sessions may be about.
    pub workspaces: Workspaces,
    /// How much may run at once.
    pub limits: HostLimits,
    /// The folder transcripts are saved to; none are without it.
    pub transcripts: Option<PathBuf>,
}

/// How much may run at once.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// Turns that run or wait, of all owners.
    pub turns: usize,
    /// Turns that run or wait, of one owner.
    pub owner_turns: usize,
    /// Turns that wait for one session.
    pub queue: usize,
    /// Bytes of the questions of turns that run or wait, of all owners.
    pub bytes: u32,
    /// Bytes of the questions of turns that run or wait, of one owner.
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

/// What doors share. Clones are the same host.
#[derive(Clone)]
pub struct Host(Arc<Shared>);

struct Shared {
    store: Arc<dyn Backend>,
    /// Of any owner: what handles share of it is not theirs.
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

    /// What one owner can do. Who the owner is comes from a credential, never from a request.
    pub fn handle(&self, owner: Owner) -> Handle {
        Handle { host: self.clone(), sessions: self.0.sessions.of_owner(owner) }
    }

    /// The agents that can answer.
    pub fn agents(&self) -> &Agents {
        self.0.roster.agents()
    }

    /// Who can answer.
    pub fn roster(&self) -> &Roster {
        &self.0.roster
    }

    /// The folders sessions may be about.
    pub fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    /// Where time and ids come from.
    pub fn world(&self) -> &Arc<dyn World> {
        &self.0.world
    }
}

/// What one owner can do at a host. Clones are the same owner's.
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

    /// Whose it is.
    pub fn owner(&self) -> &Owner {
        self.sessions.owner()
    }

    /// The owner's sessions, for reading. What a lease may forbid goes through
    /// [`call`](Handle::call) or [`run`](Handle::run).
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Does something with the owner's sessions. The lease of a dead process forbids nothing: then
    /// it is done a second time.
    ///
    /// # Errors
    ///
    /// The error of the work.
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
    /// The error of the work.
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
    /// I/O errors. What was done until then stays done.
    pub fn purge(&self, keep: usize, delete: bool) -> sessions::Result<Purged> {
        let mut purged = Purged::default();
        for id in self.sessions.beyond(keep, delete)? {
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

    /// Opens a session and takes its lease for as long as a program writes to it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] when someone else has it for longer than `wait`; otherwise I/O errors.
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

    /// What runs turns of new sessions, and shows any: this agent or the usual one, in this folder
    /// or the usual one.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where there is no such agent, or its model cannot be asked.
    pub fn runner(&self, agent: Option<&str>, workspace: Option<&str>) -> Result<Runner, Refusal> {
        let mut responder = self.host.0.roster.responder(agent)?;
        match self.host.0.workspaces.folder(workspace) {
            Ok(folder) => {
                responder.workspace = Some(folder.path.display().to_string());
                responder.project = Arc::new(ProjectInstructions::read(&folder.path));
                responder.tools = folder.tools;
            }
            // Without a folder there is nothing to look at.
            Err(_) => {
                responder.workspace = None;
                responder = responder.without_tools();
            }
        }
        Ok(self.runner_of(responder))
    }

    /// Runs turns by a responder that was made elsewhere.
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

    /// A runner to look at a session with: that of its own agent, or of the usual one where its own
    /// cannot answer.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where even the usual agent cannot answer.
    pub fn viewer(&self, session: &Session) -> Result<Runner, Refusal> {
        let profile = &session.header.profile;
        let own = self.runner(profile.agent.as_deref(), profile.workspace.as_deref());
        own.or_else(|_| self.runner(None, profile.workspace.as_deref()))
    }

    /// The person trusts the words of an imported session: its tools are on, in this process.
    pub fn trust(&self, id: SessionId) {
        self.host.0.grants.trust(self.owner(), id);
    }

    /// The same for good: other processes and later ones know it too.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; otherwise I/O errors.
    pub fn remember_trust(&self, id: SessionId) -> sessions::Result<()> {
        self.session_trust().remember(&self.sessions, id)
    }

    /// What continues a session that is trusted for good is trusted for good.
    ///
    /// # Errors
    ///
    /// I/O errors.
    pub fn remember_inherited_trust(&self, from: SessionId, to: SessionId) -> sessions::Result<()> {
        match self.session_trust().holds(&self.sessions, from)? {
            true => self.remember_trust(to),
            false => Ok(()),
        }
    }

    /// Whether a person trusts the words of this imported session, here or for good.
    fn trusts(&self, id: SessionId) -> bool {
        // Where what is remembered cannot be read, nobody has agreed.
        self.host.0.grants.trusts(self.owner(), id)
            || self.session_trust().holds(&self.sessions, id).unwrap_or(false)
    }

    fn session_trust(&self) -> SessionTrust {
        let Shared { store, world, .. } = &*self.host.0;
        SessionTrust::new(store.clone(), world.clone(), self.owner())
    }

    /// What a person changed about the permissions of a session, in the folder `runner` works in.
    pub fn session_permissions(&self, runner: &Runner, id: SessionId) -> SessionPermissions {
        self.host.0.grants.of(&runner.scope(id))
    }

    /// Changes it, for this process.
    pub fn change_permissions<T>(
        &self,
        runner: &Runner,
        id: SessionId,
        change: impl FnOnce(&mut SessionPermissions) -> T,
    ) -> T {
        self.host.0.grants.change(&runner.scope(id), change)
    }

    /// A conversation continues from its summary: what was allowed in it is still allowed. What is
    /// a copy, or came from elsewhere, starts without.
    pub fn keep_permissions(&self, runner: &Runner, from: SessionId, to: SessionId) {
        let permissions = self.session_permissions(runner, from);
        self.change_permissions(runner, to, |new| *new = permissions);
    }

    /// What continues a trusted session is trusted.
    pub fn inherit_trust(&self, from: SessionId, to: SessionId) {
        if self.trusts(from) {
            self.trust(to);
        }
    }
}
