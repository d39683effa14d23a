//! From flags and configuration to what runs turns.

use std::io::{IsTerminal, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_agent::agents::{Agent, Agents, Origin};
use rethread_agent::provider::{self, Env, Provider};
use rethread_agent::tool::{Toolbox, Workspace};
use rethread_agent::{Bounds, Runner, Scribe};
use rethread_core::Session;
use rethread_core::context::{Model, Policy};

use crate::args::Talk;
use crate::commands::{Desk, model_named};
use crate::config::env;
use crate::errors::Error;
use crate::out::{clean, note};

/// Where a project keeps its agents, below its folder.
const PROJECT_AGENTS: &str = ".rethread/agents";

/// The agent that writes summaries.
const COMPACTION: &str = "compaction";

/// What waits for models, tools and people.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// The agents there are. Files that are wrong are named, and the rest is loaded.
pub(crate) fn agents(desk: &Desk) -> Result<Agents, Error> {
    let project = Path::new(&desk.workspace()?).join(PROJECT_AGENTS);
    let (agents, problems) = Agents::load(Some(&desk.config.agents), Some(&project));
    for problem in problems {
        note(format_args!("\x1b[1;33mwarning:\x1b[0m {}", clean(&problem.to_string())));
    }
    Ok(agents)
}

/// Who answers: as the flag says, or who answered in this session before, or the configured one.
pub(crate) fn agent(
    desk: &Desk,
    talk: &Talk,
    agents: &Agents,
    session: Option<&Session>,
) -> Result<Agent, Error> {
    let named = |name: &str| {
        agents.find(name).cloned().map_err(|error| Error::NoAgent { what: error.to_string() })
    };
    if let Some(name) = &talk.agent {
        return named(name);
    }
    let before = session.and_then(|session| session.header.profile.agent.as_deref());
    match before.and_then(|name| agents.get(name)) {
        Some(agent) => Ok(agent.clone()),
        None => named(desk.config.text("agent")),
    }
}

/// What runs turns with this agent.
pub(crate) fn runner(
    desk: &Desk,
    talk: &Talk,
    agents: &Agents,
    agent: Agent,
) -> Result<Runner, Error> {
    let workspace = desk.workspace()?;
    let model = model(desk, talk, wanted(desk, talk, &agent)?)?;
    let provider = connect(&model)?;
    let scribe = scribe(desk, agents, &model, &provider)?;
    let policy = agent.policy.as_deref().unwrap_or(desk.config.text("policy"));
    let tools = Workspace::open(&workspace).map(Toolbox::new).map_err(|error| Error::Word {
        what: error.to_string(),
        hint: "--workspace takes a folder that can be read",
    })?;
    let mut allow = desk.config.list("allow");
    allow.extend(talk.allow.iter().cloned());
    Ok(Runner {
        sessions: desk.sessions.clone(),
        agent: agent.clone(),
        model,
        provider,
        scribe,
        policy: Policy::preset(policy).expect("checked when it was read"),
        tools: Arc::new(tools),
        allow,
        ask_first: stdin().is_terminal() && (stdout().is_terminal() || stderr().is_terminal()),
        transcripts: desk.config.given("transcripts").map(PathBuf::from),
        workspace: Some(workspace),
        bounds: Bounds {
            rounds: desk.config.number("rounds").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            ..Bounds::default()
        },
        kept: Default::default(),
    })
}

/// The model an agent wants. A folder's own agent may choose among the models of the provider that
/// is used anyway, and no other: what is said here is not sent elsewhere because a file says so.
fn wanted<'a>(desk: &Desk, talk: &Talk, agent: &'a Agent) -> Result<Option<&'a str>, Error> {
    let Some(name) = agent.model.as_deref() else { return Ok(None) };
    let usual = model(desk, talk, None)?;
    let same = name.split_once('/').is_some_and(|(provider, _)| provider == usual.provider);
    if agent.origin == Origin::Project && !same {
        note(format_args!(
            "\x1b[1;33mwarning:\x1b[0m {} wants {}; {} is used, `--model` chooses another",
            clean(&agent.path),
            clean(name),
            usual.id()
        ));
        return Ok(None);
    }
    Ok(Some(name))
}

/// The model: as the flag says, or as the agent wants, or the configured one, or the one a key
/// is there for, or none that needs a key.
fn model(desk: &Desk, talk: &Talk, wanted: Option<&str>) -> Result<Model, Error> {
    let named = talk.model.as_deref().or(wanted).or(desk.config.given("model"));
    let mut model = match named {
        Some(name) => model_named(name)?,
        None => match provider::default_model(&environment()) {
            Some((provider, name)) => provider::describe(provider, name),
            None => provider::describe(provider::OFFLINE, provider::OFFLINE),
        },
    };
    if let Some(window) = desk.config.number("window") {
        model.window = window;
        model.reply = model.reply.min(window / 4);
    }
    Ok(model)
}

fn environment() -> Env {
    Env::from_vars(env)
}

fn connect(model: &Model) -> Result<Arc<dyn Provider>, Error> {
    Ok(provider::connect(model, &environment())?)
}

/// Who writes summaries: the same model, unless the compaction agent names another.
fn scribe(
    desk: &Desk,
    agents: &Agents,
    model: &Model,
    provider: &Arc<dyn Provider>,
) -> Result<Scribe, Error> {
    let agent =
        agents.find(COMPACTION).map_err(|error| Error::NoAgent { what: error.to_string() })?;
    let prompt = agent.prompt.clone();
    match wanted(desk, &Talk::default(), agent)? {
        None => Ok(Scribe { model: model.clone(), provider: provider.clone(), prompt }),
        Some(name) => {
            let model = self::model(desk, &Talk::default(), Some(name))?;
            Ok(Scribe { provider: connect(&model)?, model, prompt })
        }
    }
}
