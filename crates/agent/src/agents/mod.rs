//! Agents: named system prompts, each with an optional model, tools and policy.
//!
//! Five are built in. More come from Markdown files with front matter, in the user's own folder and
//! in the project's; a later one replaces an earlier one with the same name, in the order built-in,
//! user, project.
//!
//! An agent never grants a permission. A tool that changes something is used only if the user
//! allows it, even if an agent lists it; the `tools` of an agent only remove tools. A project's
//! files come with the code, from people the user may not know, so one more rule applies to them: a
//! project's agent that replaces another one has at most the tools of that one. A project cannot
//! turn `plan` into something that writes.

pub(crate) mod front_matter;
pub(crate) mod load;

pub use load::{AgentFault, AgentProblem, FILE_BYTES_MAX, FILES_MAX, NAME_CHARS_MAX};

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::host::FolderFile;

/// The read-only tools.
pub const READ_TOOLS: [&str; 6] = crate::tool::LOOKING;

/// The tools that change something. Each is used only if the user allows it.
pub const CHANGE_TOOLS: [&str; 3] = crate::tool::CHANGING;

/// The tools that are about the work itself.
pub const WORK_TOOLS: [&str; 3] = crate::tool::WORKING;

/// The built-in agents, by name, with their files.
const BUILTIN: [(&str, &str); 5] = [
    ("build", include_str!("builtin/build.md")),
    ("plan", include_str!("builtin/plan.md")),
    ("explore", include_str!("builtin/explore.md")),
    ("general", include_str!("builtin/general.md")),
    ("compaction", include_str!("builtin/compaction.md")),
];

/// Where an agent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentSource {
    /// It is built in.
    Builtin,
    /// A file in the user's folder.
    User,
    /// A file in the project's folder.
    Project,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Agent {
    pub name: String,
    /// Its purpose, in one line.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// Its model, as `provider/model`; the user's choice if it names none.
    pub model: Option<String>,
    /// The tools it may be offered; all if it lists none. Tools that change something also need the
    /// user's permission.
    pub tools: Option<Vec<String>>,
    /// The preset for its context.
    pub policy: Option<String>,
    /// Its origin: `builtin:build`, or the absolute path of its file.
    pub path: String,
    /// Where it comes from.
    pub origin: AgentSource,
}

impl Agent {
    /// Whether it may be offered this tool. Whether the user allows it is decided elsewhere.
    pub fn may_use(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool))
    }

    /// Whether it is used only by the program itself and cannot be chosen: it writes summaries.
    pub fn is_internal(&self) -> bool {
        self.path == "builtin:compaction"
    }
}

impl Serialize for Agent {
    /// The JSON of an agent. The prompt is left out because it is long.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "name": self.name, "description": self.description, "path": self.path,
            "model": self.model, "tools": self.tools, "policy": self.policy,
        })
        .serialize(serializer)
    }
}

/// All agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agents(Vec<Agent>);

/// No agent has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no agent `{name}`{}; the agents are {}", suggestion(.nearest), .known.join(", "))]
pub struct NotFound {
    /// The requested name.
    pub name: String,
    /// The available names.
    pub known: Vec<String>,
    /// The most similar name.
    pub nearest: Option<String>,
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

impl Agents {
    /// The built-in agents.
    pub fn builtin() -> Agents {
        let agents = BUILTIN.iter().map(|(name, text)| {
            load::agent(text, name, format!("builtin:{name}"), AgentSource::Builtin)
                .expect("a test reads every built-in agent")
        });
        Agents(agents.collect())
    }

    /// The built-in agents and those in the files of these two folders, if they exist. A project's
    /// agents are loaded only if their current content is `trusted`.
    ///
    /// A file with an error is skipped and becomes an [`AgentProblem`]; the rest are loaded.
    pub fn load(
        user: Option<&Path>,
        project: Option<&Path>,
        trusted: &dyn Fn(&FolderFile) -> bool,
    ) -> (Agents, Vec<AgentProblem>) {
        let mut agents = Agents::builtin();
        let mut problems = Vec::new();
        for (folder, origin) in [(user, AgentSource::User), (project, AgentSource::Project)] {
            if let Some(folder) = folder {
                load::folder(&mut agents, folder, origin, trusted, &mut problems);
            }
        }
        (agents, problems)
    }

    /// The agent with this name.
    pub fn get(&self, name: &str) -> Option<&Agent> {
        self.0.iter().find(|agent| agent.name == name)
    }

    /// The agent with this name, or an error with suggestions.
    ///
    /// # Errors
    ///
    /// [`NotFound`] with the available names.
    pub fn find(&self, name: &str) -> Result<&Agent, NotFound> {
        self.get(name).ok_or_else(|| {
            let known: Vec<String> = self.iter().map(|agent| agent.name.clone()).collect();
            NotFound { name: name.into(), nearest: nearest(name, &known), known }
        })
    }

    /// All of them: the built-in ones first, then the others in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.0.iter()
    }

    /// Adds an agent, or replaces the one with the same name. Returns the tools that were removed
    /// from it.
    fn put(&mut self, mut agent: Agent) -> Vec<String> {
        let Some(place) = self.0.iter_mut().find(|other| other.name == agent.name) else {
            self.0.push(agent);
            return Vec::new();
        };
        let mut refused = Vec::new();
        if let (AgentSource::Project, Some(limit)) = (agent.origin, &place.tools) {
            let mut asked = agent.tools.take().unwrap_or_else(|| limit.clone());
            refused = asked.extract_if(.., |tool| !limit.contains(tool)).collect();
            agent.tools = Some(asked);
        }
        *place = agent;
        refused
    }
}

/// The most similar name, if the difference looks like a typing error.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    // A name that differs by more than this is probably not a typo.
    const SLIPS_MAX: usize = 2;
    if name.chars().count() > NAME_CHARS_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let begun = known.iter().find(|other| !name.is_empty() && other.starts_with(&name));
    let slips = known.iter().map(|other| (distance(&name, &other.to_lowercase()), other));
    let close = slips.filter(|(slips, _)| *slips <= SLIPS_MAX).min_by_key(|(slips, _)| *slips);
    close.map(|(_, other)| other).or(begun).cloned()
}

/// The edit distance.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_agent_can_be_read_and_has_the_tools_it_speaks_of() {
        let agents = Agents::builtin();
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["build", "plan", "explore", "general", "compaction"]);
        for agent in agents.iter() {
            assert_eq!(agent.path, format!("builtin:{}", agent.name));
            assert!(!agent.description.is_empty());
            let lines = agent.prompt.lines().count();
            assert!((10..=25).contains(&lines), "{} has {lines} lines", agent.name);
            let named = |tool: &&&str| agent.prompt.contains(&format!("`{tool}`"));
            for tool in READ_TOOLS.iter().chain(&CHANGE_TOOLS).filter(named) {
                assert!(agent.may_use(tool), "{} speaks of {tool}", agent.name);
            }
            let reads = READ_TOOLS.iter().all(|tool| agent.may_use(tool));
            let changes = CHANGE_TOOLS.iter().any(|tool| agent.may_use(tool));
            let expected = (agent.name != "compaction", agent.name == "build");
            assert_eq!((reads, changes), expected, "{}", agent.name);
            assert_eq!(agent.prompt.contains("`recall`"), reads, "{}", agent.name);
        }
    }

    #[test]
    fn a_name_that_is_not_there_brings_the_nearest_and_all_others() {
        let agents = Agents::builtin();
        let error = agents.find("biuld").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no agent `biuld` (did you mean `build`?); \
             the agents are build, plan, explore, general, compaction"
        );
        let nearest = |name: &str| agents.find(name).unwrap_err().nearest;
        assert_eq!(nearest("PLAN").as_deref(), Some("plan"));
        assert_eq!(nearest("comp").as_deref(), Some("compaction"));
        for far in ["", "gardener", &"b".repeat(65)] {
            assert_eq!(nearest(far), None, "{far}");
        }
        assert_eq!(agents.find("plan").map(|agent| agent.name.as_str()), Ok("plan"));
    }

    #[test]
    fn a_distance_counts_changed_added_and_missing_characters() {
        for (from, to, slips) in [("", "", 0), ("", "ab", 2), ("plan", "plna", 2), ("é", "e", 1)] {
            assert_eq!((distance(from, to), distance(to, from)), (slips, slips), "{from} {to}");
        }
    }
}
