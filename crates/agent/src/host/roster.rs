//! The roster: the agents, and the responder of each with its model, provider and rules.
//!
//! A responder is created when it is first needed, so a program that never asks a model connects to
//! none. If the model of an agent is not available, only its own sessions are affected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::Header;
use rethread_core::context::{Model, Policy};

use super::Refusal;
use crate::agents::{Agent, AgentSource, Agents, NotFound};
use crate::grant::Grant;
use crate::provider::{self, BadModel, Env, Failure, Models, Provider};
use crate::responder::{Responder, Summarizer, TurnLimits};
use crate::tool::Toolbox;

/// The agent that writes summaries.
const COMPACTION: &str = "compaction";

/// Flags and configuration about agents and models.
#[derive(Clone)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct RosterSettings {
    pub agents: Agents,
    /// The default agent.
    pub agent: String,
    /// The model, even if the agent names another.
    pub model: Option<String>,
    /// The default model, if the agent names none; without it, the one for which there is an API
    /// key, or the offline model.
    pub default_model: Option<String>,
    /// The context window in tokens, if it differs from the table of models.
    pub window: Option<u64>,
    /// The default policy, if an agent names none.
    pub policy: Policy,
    /// Which tools that change something run without asking.
    pub allow: Vec<Grant>,
    /// Nothing may be changed.
    pub read_only: bool,
    /// The limits of a turn.
    pub limits: TurnLimits,
    /// The addresses and keys of the providers.
    pub env: Env,
    /// The table of models.
    pub models: Models,
    /// The `source` of new sessions.
    pub source: Option<String>,
}

impl Default for RosterSettings {
    /// The built-in agents, and the offline model.
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
            limits: TurnLimits::default(),
            env: Env::default(),
            models: Models::default(),
            source: None,
        }
    }
}

/// Why an agent is not available.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// The agent does not exist.
    #[error(transparent)]
    NoAgent(#[from] NotFound),
    /// The name of a model is invalid.
    #[error(transparent)]
    BadModel(#[from] BadModel),
    /// The provider is not available.
    #[error(transparent)]
    Provider(#[from] Failure),
}

/// The agents, and a responder for each.
pub struct Roster {
    settings: RosterSettings,
    /// A model and a provider that were made elsewhere, for every agent.
    given: Option<(Model, Arc<dyn Provider>)>,
    /// The model that was chosen since; it overrides the settings.
    chosen: Mutex<Option<String>>,
    made: Mutex<HashMap<String, Responder>>,
}

impl Roster {
    /// A roster with these settings. Nothing is connected yet.
    pub fn new(settings: RosterSettings) -> Roster {
        Roster { settings, given: None, chosen: Mutex::default(), made: Mutex::default() }
    }

    /// A roster in which every agent uses this model, run by a provider of your own.
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

    /// The default agent.
    pub fn default_agent(&self) -> &str {
        &self.settings.agent
    }

    /// Whether this tool, which changes something, may be used without asking.
    pub fn allows(&self, tool: &str) -> bool {
        let named = self.settings.allow.iter().any(|grant| grant.tool_name() == tool);
        named && !self.settings.read_only
    }

    /// Whether there is an API key, or the address of a server.
    pub fn has_key(&self) -> bool {
        let env = &self.settings.env;
        let has_key = env.anthropic_key.is_some() || env.openai_key.is_some();
        has_key || env.openai_base.is_some() || env.ollama_host.is_some()
    }

    /// The models that can be chosen by name: those in the configuration, and the known ones of
    /// providers with an API key. Others may work, too.
    pub fn known_models(&self) -> Vec<Model> {
        let RosterSettings { env, models, .. } = &self.settings;
        models.known(|provider| match provider {
            "anthropic" => env.anthropic_key.is_some(),
            "openai" => env.openai_key.is_some() || env.openai_base.is_some(),
            "ollama" => env.ollama_host.is_some(),
            provider => provider == provider::OFFLINE,
        })
    }

    /// Makes every agent use this model from now on. Nothing changes if it is not available.
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

    /// The responder of an agent, without a folder.
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

    /// The responder of this agent, or of the default one.
    pub(super) fn responder(&self, agent: Option<&str>) -> Result<Responder, Refusal> {
        let name = agent.unwrap_or(&self.settings.agent);
        self.connect(name).map_err(|error| match error {
            RosterError::NoAgent(error) => Refusal::NoAgent(error),
            error => Refusal::CannotAnswer { agent: name.to_owned(), why: error.to_string() },
        })
    }

    /// The agent of a session: its own if it exists here, otherwise the default one.
    pub(super) fn agent_of<'a>(&'a self, header: &'a Header) -> &'a str {
        let own = header.profile.agent.as_deref();
        own.filter(|name| self.settings.agents.get(name).is_some()).unwrap_or(&self.settings.agent)
    }

    /// The policy and the model of a session's context. No provider is needed for it.
    ///
    /// # Errors
    ///
    /// [`RosterError`] if the agent or the model does not exist.
    pub fn shape(&self, header: &Header) -> Result<(Policy, Model), RosterError> {
        let agent = self.settings.agents.find(self.agent_of(header))?;
        let model = match &self.given {
            Some((model, _)) => model.clone(),
            None => self.model(self.wanted(agent)?)?,
        };
        Ok((self.policy(agent), model))
    }

    /// What an agent asks for and does not get, in words.
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
        let summarizer = self.summarizer(&model, &provider)?;
        Ok(Responder {
            agent: agent.clone(),
            model,
            provider,
            summarizer,
            policy: self.policy(agent),
            tools: Arc::new(Toolbox::empty()),
            allow: self.settings.allow.clone(),
            read_only: self.settings.read_only,
            workspace: None,
            project: Arc::default(),
            limits: self.settings.limits,
            source: self.settings.source.clone(),
        })
    }

    /// The model an agent asks for. A project's agent may choose only among the models of the
    /// provider that is used anyway: a file must not be able to send the conversation elsewhere.
    fn wanted<'a>(&self, agent: &'a Agent) -> Result<Option<&'a str>, RosterError> {
        let Some(name) = agent.model.as_deref() else { return Ok(None) };
        Ok(self.may_choose(agent, name, &self.model(None)?).then_some(name))
    }

    fn may_choose(&self, agent: &Agent, name: &str, usual: &Model) -> bool {
        let same = name.split_once('/').is_some_and(|(provider, _)| provider == usual.provider);
        agent.origin != AgentSource::Project || same
    }

    /// The model: the one chosen for this process, the agent's, the configured one, the one for
    /// which there is an API key, or the offline model.
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

    /// The model for summaries: the same one, unless the compaction agent names another.
    fn summarizer(
        &self,
        model: &Model,
        provider: &Arc<dyn Provider>,
    ) -> Result<Summarizer, RosterError> {
        let agent = self.settings.agents.find(COMPACTION)?;
        let prompt = agent.prompt.clone();
        match self.wanted(agent)?.filter(|_| self.given.is_none()) {
            None => Ok(Summarizer { model: model.clone(), provider: provider.clone(), prompt }),
            Some(name) => {
                let model = self.model_named(Some(name))?;
                Ok(Summarizer { provider: self.provider(&model)?, model, prompt })
            }
        }
    }
}
