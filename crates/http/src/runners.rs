//! Who answers in which session: its own agent, if it is still the one it was.
//!
//! Over HTTP nobody can be asked. So where the terminal would ask whether another agent may go on,
//! the turn is refused until someone says who answers; and in a session that was imported, whose
//! words may be anyone's, no tool is used and no instruction holds but those of the agent.

use std::collections::HashMap;

use rethread_agent::Runner;
use rethread_agent::agents::{Agent, Agents};
use rethread_core::{Header, Sessions};

use crate::problem::Problem;

/// A runner for each agent.
pub struct Runners {
    usual: Runner,
    agents: Agents,
    /// By name; where an agent cannot answer here, why.
    others: HashMap<String, Result<Runner, String>>,
}

impl Runners {
    /// The usual runner, for new sessions and those without an agent, and one for every other
    /// agent. One that cannot be made leaves the sessions of its agent without answers, and
    /// nothing else.
    pub fn new(
        usual: Runner,
        agents: Agents,
        make: impl Fn(&Agent) -> Result<Runner, String>,
    ) -> Runners {
        let other = |agent: &&Agent| agent.name != usual.agent.name;
        let made = agents.iter().filter(other).map(|agent| {
            let runner = make(agent).map(|runner| Runner { kept: usual.kept.clone(), ..runner });
            (agent.name.clone(), runner)
        });
        let others = made.collect();
        Runners { usual, agents, others }
    }

    /// Who can answer, as it is listed.
    pub(crate) fn agents(&self) -> &Agents {
        &self.agents
    }

    /// What runs the turns of new sessions.
    pub(crate) fn usual(&self, sessions: Sessions) -> Runner {
        Runner { sessions, ..self.usual.clone() }
    }

    /// The runner of the agent of this name.
    pub(crate) fn named(&self, name: &str, sessions: Sessions) -> Result<Runner, Problem> {
        let found = self.agents.find(name);
        let agent = found.map_err(|error| Problem::bad_request(error.to_string()))?;
        self.of_agent(&agent.name, sessions)
    }

    /// What runs the turns of a session.
    pub(crate) fn of(&self, header: &Header, sessions: Sessions) -> Result<Runner, Problem> {
        let runner = match &header.profile.agent {
            Some(name) => self.of_agent(name, sessions)?,
            None => self.usual(sessions),
        };
        match &header.profile.agent_path {
            Some(theirs) if *theirs != runner.agent.path => {
                return Err(Problem::other_agent(format!(
                    "the session was answered by {theirs}, and here it would be {}",
                    runner.agent.path
                )));
            }
            _ => {}
        }
        Ok(match header.imported {
            Some(_) => runner.without_tools(),
            None => runner,
        })
    }

    /// What shows the context of a session; that tells nobody anything, so there is always one.
    pub(crate) fn showing(&self, header: &Header, sessions: Sessions) -> Runner {
        let own = header.profile.agent.as_deref().map(|name| self.of_agent(name, sessions.clone()));
        own.and_then(Result::ok).unwrap_or_else(|| self.usual(sessions))
    }

    /// The runner of a known agent; the usual one where nobody here has that name.
    fn of_agent(&self, name: &str, sessions: Sessions) -> Result<Runner, Problem> {
        match self.others.get(name) {
            None => Ok(self.usual(sessions)),
            Some(Ok(runner)) => Ok(Runner { sessions, ..runner.clone() }),
            Some(Err(why)) => {
                Err(Problem::model(format!("the agent `{name}` cannot answer here: {why}")))
            }
        }
    }
}
