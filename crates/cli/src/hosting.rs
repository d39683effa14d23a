//! Creates a host from flags and configuration.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_agent::agents::{AgentFault, AgentSource, Agents};
use rethread_agent::host::{FolderFile, FolderTrust};
use rethread_agent::own_commands::{self, OwnCommand};
use rethread_agent::provider::Env;
use rethread_agent::tool::{Confinement, RunSettings, Spec, launcher};
use rethread_agent::{
    Grant, Host, HostLimits, HostSettings, Roster, RosterSettings, TurnLimits, TurnOptions,
    Workspaces,
};
use rethread_core::Session;
use rethread_core::context::Policy;
use rethread_store::System;
use serde::Serialize;

use crate::commands::Cli;
use crate::config::{env, home_folder_in};
use crate::errors::Error;
use crate::out::{answered, clean, columns, json_note, note, someone_is_there, wrapped};

/// Where a project keeps its agents, below its folder.
const PROJECT_AGENTS: &str = ".rethread/agents";

/// Where a project keeps commands of its own.
const PROJECT_COMMANDS: &str = ".rethread/commands";

/// The tool that runs commands.
const RUN: &str = "run";

/// The flags of a command about agents and models.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answering {
    /// The default agent; otherwise the configured one.
    pub(crate) agent: Option<String>,
    /// The model, even if the agent names another.
    pub(crate) model: Option<String>,
    /// The context window in tokens; otherwise as configured.
    pub(crate) window: Option<u64>,
    /// What runs without asking, in addition to the configuration.
    pub(crate) allow: Vec<Grant>,
    /// Nothing may be changed.
    pub(crate) read_only: bool,
    /// The default policy; otherwise as configured.
    pub(crate) policy: Option<Policy>,
    /// The `source` of new sessions.
    pub(crate) source: Option<&'static str>,
}

/// The async runtime.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

impl Cli {
    /// The trusted files of this owner.
    pub(crate) fn folder_trust(&self) -> FolderTrust {
        let store = self.configured_store.clone();
        FolderTrust::new(store, Arc::new(System), self.sessions.owner())
    }

    /// The agents, and the untrusted files of this folder. Files with errors are reported, and the
    /// rest are loaded.
    pub(crate) fn agents(&self) -> Result<(Agents, Vec<UntrustedAgent>), Error> {
        let project = Path::new(&self.workspace()?).join(PROJECT_AGENTS);
        // Most folders have no agents, and need no consent.
        let trusted = match project.exists() {
            true => self.folder_trust().files()?,
            false => HashSet::new(),
        };
        let known = |file: &FolderFile| trusted.contains(file);
        let (agents, problems) = Agents::load(Some(&self.config.agents), Some(&project), &known);
        let mut untrusted = Vec::new();
        for problem in problems {
            match problem.what {
                AgentFault::Untrusted { file, replaces } => {
                    untrusted.push(UntrustedAgent { file, replaces });
                }
                _ => warn(&problem.to_string()),
            }
        }
        Ok((agents, untrusted))
    }

    /// The same for a command that runs turns: the user is asked about the files of this folder, or
    /// a note says that they are not used.
    fn agents_agreed_to(&self) -> Result<Agents, Error> {
        let (agents, untrusted) = self.agents()?;
        if untrusted.is_empty() {
            return Ok(agents);
        }
        let files = untrusted.into_iter().map(|agent| (agent.shown(), agent.file)).collect();
        match self.agrees_to(files, "agents", "instruct the model")? {
            true => Ok(self.agents()?.0),
            false => Ok(agents),
        }
    }

    /// Whether the person agrees to files of this folder, each given as it is shown. They are asked
    /// until they have said yes or no; where nobody can be asked, a note says that the files are not used.
    fn agrees_to(
        &self,
        mut files: Vec<(String, FolderFile)>,
        what: &str,
        what_they_do: &str,
    ) -> Result<bool, Error> {
        let trust = self.folder_trust();
        let declined = trust.declined()?;
        files.retain(|(_, file)| !declined.contains(file));
        if files.is_empty() {
            return Ok(false);
        }
        let names: Vec<String> = files.iter().map(|(shown, _)| format!("  {shown}")).collect();
        let names = names.join("\n");
        if !someone_is_there() || self.global.json {
            warn(&format!(
                "this project has {what} that you have not trusted yet; they are not used:\n{names}"
            ));
            note("read them, then run `rethread agents --trust`");
            return Ok(false);
        }
        let question = format!(
            "⚠️ This project has its own {what}, which {what_they_do}:\n{names}\nUse them?"
        );
        let answer = answered(wrapped(&question, columns()).trim_end())?;
        let files: Vec<FolderFile> = files.into_iter().map(|(_, file)| file).collect();
        match answer {
            Some(true) => trust.trust(&files)?,
            Some(false) => {
                trust.decline(&files)?;
                note("They are not used. `rethread agents --trust` changes that.");
            }
            None => {}
        }
        Ok(answer == Some(true))
    }

    /// The custom commands, and the untrusted files of this folder.
    pub(crate) fn own_commands(&self) -> Result<(Vec<OwnCommand>, Vec<FolderFile>), Error> {
        let project = Path::new(&self.workspace()?).join(PROJECT_COMMANDS);
        let trusted = match project.exists() {
            true => self.folder_trust().files()?,
            false => HashSet::new(),
        };
        let known = |file: &FolderFile| trusted.contains(file);
        let (mut commands, problems) =
            own_commands::load(Some(&self.config.commands), Some(&project), &known);
        let mut untrusted = Vec::new();
        for problem in problems {
            match problem.what {
                AgentFault::Untrusted { file, .. } => untrusted.push(file),
                _ => warn(&problem.to_string()),
            }
        }
        commands.retain(|command| {
            let is_ours = crate::chat::is_command(&command.name);
            if is_ours {
                let (path, name) = (clean(&command.path), &command.name);
                warn(&format!("{path} is not used: `/{name}` is a command of the chat"));
            }
            !is_ours
        });
        Ok((commands, untrusted))
    }

    /// The same for the chat: the user is asked about the files of this folder, or a note says that
    /// they are not used.
    pub(crate) fn own_commands_agreed_to(&self) -> Result<Vec<OwnCommand>, Error> {
        let (commands, untrusted) = self.own_commands()?;
        if untrusted.is_empty() {
            return Ok(commands);
        }
        let shown = |file: &FolderFile| clean(&file.path.display().to_string());
        let files = untrusted.into_iter().map(|file| (shown(&file), file)).collect();
        match self.agrees_to(files, "commands", "are sent to the model when you type them")? {
            true => Ok(self.own_commands()?.0),
            false => Ok(commands),
        }
    }

    /// The roster, for showing sessions without running turns.
    pub(crate) fn roster(&self, answering: Answering) -> Result<Roster, Error> {
        self.roster_of(self.agents()?.0, answering)
    }

    fn roster_of(&self, agents: Agents, answering: Answering) -> Result<Roster, Error> {
        let Answering { agent, model, window, allow, read_only, policy, source } = answering;
        let usual = agents.find(agent.as_deref().unwrap_or(self.config.text("agent")));
        let agent = usual.map_err(|error| Error::NoAgent { what: error.to_string() })?.name.clone();
        let configured = Policy::preset(self.config.text("policy"));
        let rounds = self.config.number("rounds").and_then(|n| u32::try_from(n).ok());
        let configured_grants = self
            .config
            .list("allow")
            .iter()
            .map(|text| text.parse().expect("checked when it was read"));
        let roster = Roster::new(RosterSettings {
            agents,
            agent,
            model,
            default_model: self.config.given("model").map(str::to_owned),
            window: window.or(self.config.number("window")),
            policy: policy.or(configured).expect("checked when it was read"),
            allow: configured_grants.chain(allow).collect(),
            read_only,
            limits: TurnLimits { rounds, ..TurnLimits::default() },
            env: Env::from_vars(env),
            models: self.config.models.clone(),
            source: source.map(str::to_owned),
        });
        roster.warnings().iter().for_each(|warning| warn(warning));
        Ok(roster)
    }

    /// A host whose default agent is available, in this folder.
    pub(crate) fn host(&self, answering: Answering) -> Result<Host, Error> {
        let transcripts = self.config.given("transcripts").map(PathBuf::from);
        self.host_in(answering, self.workspaces()?, transcripts)
    }

    /// A host whose default agent is available, in these folders.
    pub(crate) fn host_in(
        &self,
        answering: Answering,
        workspaces: Workspaces,
        transcripts: Option<PathBuf>,
    ) -> Result<Host, Error> {
        let settings = self.settings(answering, workspaces, transcripts)?;
        Ok(Host::new(self.store.clone(), Arc::new(System), settings))
    }

    /// The tools that the agent of a session is offered if someone can be asked, as in a chat.
    pub(crate) fn tools_offered(&self, roster: Roster, session: &Session) -> Vec<Spec> {
        // Without a folder there are no tools.
        let workspaces = self.workspaces().unwrap_or_else(|_| Workspaces::none());
        let (limits, transcripts) = (HostLimits::default(), None);
        let settings = HostSettings { roster, workspaces, limits, transcripts };
        let host = Host::new(self.store.clone(), Arc::new(System), settings);
        let viewer = host.handle(self.sessions.owner().clone()).viewer(session);
        let options = TurnOptions { can_ask: true, ..TurnOptions::default() };
        viewer.map(|viewer| viewer.offered(session.id(), &options)).unwrap_or_default()
    }

    /// The settings of a host.
    pub(crate) fn settings(
        &self,
        answering: Answering,
        workspaces: Workspaces,
        transcripts: Option<PathBuf>,
    ) -> Result<HostSettings, Error> {
        let roster = self.roster_of(self.agents_agreed_to()?, answering)?;
        roster.connect(roster.default_agent())?;
        self.say_whose_instructions_apply(&roster);
        if roster.allows(RUN) {
            warn_if_not_confined();
        }
        Ok(HostSettings { roster, workspaces, limits: HostLimits::default(), transcripts })
    }

    /// This folder, for every session.
    pub(crate) fn workspaces(&self) -> Result<Workspaces, Error> {
        let folder = self.workspace()?;
        let only = Workspaces::only(Path::new(&folder)).map_err(|(_, error)| Error::Word {
            what: error.to_string(),
            hint: "--workspace needs a readable folder",
        })?;
        Ok(only.with_run_settings(self.run_settings()))
    }

    /// Warns if the agent is not the one its name suggests: a file of this folder has replaced
    /// another one.
    fn say_whose_instructions_apply(&self, roster: &Roster) {
        let usual = roster.agents().get(roster.default_agent());
        if let Some(agent) = usual.filter(|agent| agent.origin == AgentSource::Project) {
            let what = format!(
                "the agent `{}` follows this project's instructions, which you trusted: {}",
                agent.name, agent.path
            );
            match self.global.json {
                true => json_note(&serde_json::json!({ "note": what })),
                false => note(wrapped(&clean(&what), columns()).trim_end()),
            }
        }
    }

    /// The settings for commands.
    pub(crate) fn run_settings(&self) -> RunSettings {
        let writable = self.config.list("run.writable").iter();
        RunSettings {
            env: self.config.list("run.env").to_vec(),
            writable: writable.map(|path| home_folder_in(path)).collect(),
            network: self.config.is_on("run.network"),
            launcher: launcher::this_program(),
        }
    }
}

/// Warns once if the kernel cannot confine commands.
fn warn_if_not_confined() {
    match Confinement::here() {
        Confinement::Full => {}
        Confinement::Partial => warn(
            "this kernel confines the commands of `run` only in part (its Landlock is older than \
             6.12): they may reach the network and your other processes",
        ),
        Confinement::None => warn(
            "this kernel cannot confine the commands of `run` (it has no Landlock): they may write \
             wherever you may, and reach the network",
        ),
    }
}

/// An agent of this folder that is not trusted with its current content.
#[derive(Serialize)]
pub(crate) struct UntrustedAgent {
    #[serde(flatten)]
    pub(crate) file: FolderFile,
    /// The agent that it would replace.
    pub(crate) replaces: Option<String>,
}

impl UntrustedAgent {
    /// The file, and the agent that it would replace.
    pub(crate) fn shown(&self) -> String {
        let path = clean(&self.file.path.display().to_string());
        match &self.replaces {
            Some(name) => format!("{path} (in place of the agent `{}`)", clean(name)),
            None => path,
        }
    }
}

/// The files of these agents.
pub(crate) fn files_of(agents: &[UntrustedAgent]) -> Vec<FolderFile> {
    agents.iter().map(|agent| agent.file.clone()).collect()
}

fn warn(text: &str) {
    note(format_args!("\x1b[1;33mwarning:\x1b[0m {}", clean(text)));
}
