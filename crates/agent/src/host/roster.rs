//! The agents there are, and who answers for each: its model, its provider, its rules.
//!
//! A responder is made when it is first needed, so a program that never asks a model connects to
//! none. An agent whose model cannot be asked leaves its own sessions without answers, and nothing
//! else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::Header;
use rethread_core::context::{Model, Policy};

use super::Refusal;
use crate::agents::{Agent, AgentSource, Agents, NotFound};
use crate::grant::Grant;
use crate::provider::{self, BadModel, Env, Failure, Models, Provider};
use crate::responder::{Bounds, Responder, Scribe};
use crate::tool::Toolbox;

/// The agent that writes summaries.
const COMPACTION: &str = "compaction";

/// What flags and configuration say about who answers.
#[derive(Clone)]
pub struct RosterSettings {
    /// The agents there are.
    pub agents: Agents,
    /// The one that answers where none is named.
    pub agent: String,
    /// The model that answers, even if the agent names another.
    pub model: Option<String>,
    /// The model that answers where no agent wants another; without it, the one a key is there
    /// for, or the offline one.
    pub default_model: Option<String>,
    /// Tokens a model sees at once, where it is not what the table of models says.
    pub window: Option<u64>,
    /// How contexts are shaped where an agent does not say.
    pub policy: Policy,
    /// What runs without a question, of the tools that change something.
    pub allow: Vec<Grant>,
    /// Nothing may be changed.
    pub read_only: bool,
    /// How far a turn may go.
    pub bounds: Bounds,
    /// Where the providers are, and the keys to them.
    pub env: Env,
    /// What is known of models.
    pub models: Models,
    /// The program new sessions are held with, as they say themselves.
    pub source: Option<String>,
}

impl Default for RosterSettings {
    /// The built-in agents, and the model that needs no key.
    fn default() -> RosterSettings {
        RosterSettings {
            agents: Agents::builtin(),
            agent: "build".into(),
            model: None,
            default_model: None,
            window: None,
            policy: Policy::chat(),
            allow: Vec::new(),
            read_only: false,
            bounds: Bounds::default(),
            env: Env::default(),
            models: Models::default(),
            source: None,
        }
    }
}

/// Why nobody can answer as this agent.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// There is no such agent.
    #[error(transparent)]
    NoAgent(#[from] NotFound),
    /// The name of a model is not one.
    #[error(transparent)]
    BadModel(#[from] BadModel),
    /// The provider cannot be asked.
    #[error(transparent)]
    Provider(#[from] Failure),
}

/// The agents there are, and who answers for each.
pub struct Roster {
    settings: RosterSettings,
    /// A model and a provider that were made elsewhere, for every agent.
    given: Option<(Model, Arc<dyn Provider>)>,
    /// The model that was chosen since; it overrides the settings.
    chosen: Mutex<Option<String>>,
    made: Mutex<HashMap<String, Responder>>,
}

impl Roster {
    /// A roster by these settings. Nothing is connected yet.
    pub fn new(settings: RosterSettings) -> Roster {
        Roster { settings, given: None, chosen: Mutex::default(), made: Mutex::default() }
    }

    /// A roster in which every agent answers with this model, run by a provider of your own.
    pub fn with_provider(
        settings: RosterSettings,
        model: Model,
        provider: Arc<dyn Provider>,
    ) -> Roster {
        let (chosen, made) = (Mutex::default(), Mutex::default());
        Roster { settings, given: Some((model, provider)), chosen, made }
    }

    /// The agents there are.
    pub fn agents(&self) -> &Agents {
        &self.settings.agents
    }

    /// What is known of models.
    pub fn models(&self) -> &Models {
        &self.settings.models
    }

    /// The agent that answers where none is named.
    pub fn usual(&self) -> &str {
        &self.settings.agent
    }

    /// Whether this tool, which changes something, may be used without a question.
    pub fn allows(&self, tool: &str) -> bool {
        let named = self.settings.allow.iter().any(|grant| grant.tool_name() == tool);
        named && !self.settings.read_only
    }

    /// The models that can be asked by name here: those the configuration describes, and those that
    /// are known of the providers there is a key for. Others may work, too.
    pub fn known_models(&self) -> Vec<Model> {
        let RosterSettings { env, models, .. } = &self.settings;
        models.known(|provider| match provider {
            "anthropic" => env.anthropic_key.is_some(),
            "openai" => env.openai_key.is_some() || env.openai_base.is_some(),
            "ollama" => env.ollama_host.is_some(),
            provider => provider == provider::OFFLINE,
        })
    }

    /// Has every agent answer with this model from now on. Nothing changes where it cannot be asked.
    ///
    /// # Errors
    ///
    /// [`RosterError`].
    pub fn choose_model(&self, name: &str) -> Result<(), RosterError> {
        let model = self.model_named(Some(name))?;
        self.provider(&model)?;
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    /// The responder of an agent, which works in no folder yet.
    ///
    /// # Errors
    ///
    /// [`RosterError`].
    pub fn connect(&self, agent: &str) -> Result<Responder, RosterError> {
        let agent = self.settings.agents.find(agent)?;
        let known = |made: &HashMap<String, Responder>| made.get(&agent.name).cloned();
        let lock = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(responder) = known(&lock()) {
            return Ok(responder);
        }
        let responder = self.make(agent)?;
        lock().insert(agent.name.clone(), responder.clone());
        Ok(responder)
    }

    /// The responder of this agent. The usual one answers where none is named.
    pub(super) fn responder(&self, agent: Option<&str>) -> Result<Responder, Refusal> {
        let name = agent.unwrap_or(&self.settings.agent);
        self.connect(name).map_err(|error| match error {
            RosterError::NoAgent(error) => Refusal::NoAgent(error),
            error => Refusal::CannotAnswer { agent: name.to_owned(), why: error.to_string() },
        })
    }

    /// The agent of a session: its own where there is one of that name here, else the usual one.
    pub(super) fn agent_of<'a>(&'a self, header: &'a Header) -> &'a str {
        let own = header.profile.agent.as_deref();
        own.filter(|name| self.settings.agents.get(name).is_some()).unwrap_or(&self.settings.agent)
    }

    /// How a session's context is shaped, and for which model. Nobody is asked for it.
    ///
    /// # Errors
    ///
    /// [`RosterError`] where there is no such agent or model.
    pub fn shape(&self, header: &Header) -> Result<(Policy, Model), RosterError> {
        let agent = self.settings.agents.find(self.agent_of(header))?;
        let model = match &self.given {
            Some((model, _)) => model.clone(),
            None => self.model(self.wanted(agent)?)?,
        };
        Ok((self.policy(agent), model))
    }

    /// What an agent wants and does not get, in words.
    pub fn warnings(&self) -> Vec<String> {
        let Ok(usual) = self.model(None) else { return Vec::new() };
        let refused = self.settings.agents.iter().filter(|agent| {
            agent.model.as_deref().is_some_and(|name| !self.may_choose(agent, name, &usual))
        });
        refused
            .map(|agent| {
                let wanted = agent.model.as_deref().unwrap_or_default();
                format!(
                    "the agent {} asks for {wanted}, but {} is used; `--model` chooses another model",
                    agent.path,
                    usual.id()
                )
            })
            .collect()
    }

    fn policy(&self, agent: &Agent) -> Policy {
        let own = agent.policy.as_deref().and_then(Policy::preset);
        own.unwrap_or_else(|| self.settings.policy.clone())
    }

    fn make(&self, agent: &Agent) -> Result<Responder, RosterError> {
        let (model, provider) = match &self.given {
            Some(given) => given.clone(),
            None => {
                let model = self.model(self.wanted(agent)?)?;
                let provider = self.provider(&model)?;
                (model, provider)
            }
        };
        let scribe = self.scribe(&model, &provider)?;
        Ok(Responder {
            agent: agent.clone(),
            model,
            provider,
            scribe,
            policy: self.policy(agent),
            tools: Arc::new(Toolbox::empty()),
            allow: self.settings.allow.clone(),
            read_only: self.settings.read_only,
            workspace: None,
            project: Arc::default(),
            bounds: self.settings.bounds,
            source: self.settings.source.clone(),
        })
    }

    /// The model an agent wants. A folder's own agent may choose among the models of the provider
    /// that is used anyway, and no other: what is said here is not sent elsewhere because a file
    /// says so.
    fn wanted<'a>(&self, agent: &'a Agent) -> Result<Option<&'a str>, RosterError> {
        let Some(name) = agent.model.as_deref() else { return Ok(None) };
        Ok(self.may_choose(agent, name, &self.model(None)?).then_some(name))
    }

    fn may_choose(&self, agent: &Agent, name: &str, usual: &Model) -> bool {
        let same = name.split_once('/').is_some_and(|(provider, _)| provider == usual.provider);
        agent.origin != AgentSource::Project || same
    }

    /// The model: the one chosen for this process, or what the agent wants, or the configured one,
    /// or the one a key is there for, or the one that needs no key.
    fn model(&self, wanted: Option<&str>) -> Result<Model, RosterError> {
        let RosterSettings { model, default_model, .. } = &self.settings;
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let chosen = chosen.as_deref().or(model.as_deref());
        self.model_named(chosen.or(wanted).or(default_model.as_deref()))
    }

    fn model_named(&self, name: Option<&str>) -> Result<Model, RosterError> {
        let RosterSettings { window, env, models, .. } = &self.settings;
        let mut model = match name {
            Some(name) => models.named(name)?,
            None => match provider::default_model(env) {
                Some((provider, name)) => models.describe(provider, name),
                None => models.describe(provider::OFFLINE, provider::OFFLINE),
            },
        };
        if let Some(window) = *window {
            model.window = window;
            model.reply = model.reply.min(window / 4);
        }
        Ok(model)
    }

    fn provider(&self, model: &Model) -> Result<Arc<dyn Provider>, RosterError> {
        Ok(provider::connect(model, &self.settings.env)?)
    }

    /// Who writes summaries: the same model, unless the compaction agent names another.
    fn scribe(&self, model: &Model, provider: &Arc<dyn Provider>) -> Result<Scribe, RosterError> {
        let agent = self.settings.agents.find(COMPACTION)?;
        let prompt = agent.prompt.clone();
        match self.wanted(agent)?.filter(|_| self.given.is_none()) {
            None => Ok(Scribe { model: model.clone(), provider: provider.clone(), prompt }),
            Some(name) => {
                let model = self.model_named(Some(name))?;
                Ok(Scribe { provider: self.provider(&model)?, model, prompt })
            }
        }
    }
}
