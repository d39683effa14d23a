//! Asking a person whether a tool may change something, and remembering what they allowed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::message::Call;
use rethread_core::{Owner, SessionId};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::tool::FileChange;

/// A call that waits for a person. Dropping it means no.
#[derive(Debug)]
pub struct PermissionRequest {
    /// The call.
    pub call: Call,
    /// What it would do to a file, where it changes one.
    pub change: Option<FileChange>,
    answer: oneshot::Sender<PermissionAnswer>,
}

/// What a person says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// It may run this time.
    Once,
    /// It may run, and so may every call that fits this, in this session.
    Always(Pattern),
    /// It may not run.
    No,
    /// It may not run; the text is passed to the model as what to do instead.
    NoBecause(String),
}

impl PermissionRequest {
    pub(crate) fn new(
        call: Call,
        change: Option<FileChange>,
    ) -> (PermissionRequest, oneshot::Receiver<PermissionAnswer>) {
        let (answer, answered) = oneshot::channel();
        (PermissionRequest { call, change, answer }, answered)
    }

    /// Answers. A turn that was stopped meanwhile does not hear it.
    pub fn answer(self, answer: PermissionAnswer) {
        drop(self.answer.send(answer));
    }
}

/// Calls that are allowed without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every call of this tool.
    Tool(String),
    /// Commands that begin with these words. A command that does more than one thing (`;`, `&&`,
    /// a pipe, a redirection, a substitution) fits no pattern.
    Command(String),
}

/// The tool that runs commands.
const RUN: &str = "run";

#[derive(Deserialize)]
struct Command {
    command: String,
}

impl Pattern {
    /// The pattern for calls like this one: the first word of a simple command, or the tool.
    /// None for a command that is not simple.
    pub fn like(call: &Call) -> Option<Pattern> {
        if call.name != RUN {
            return Some(Pattern::Tool(call.name.clone()));
        }
        let words = simple_command(call)?;
        words.split_whitespace().next().map(|word| Pattern::Command(word.to_owned()))
    }

    /// Whether a call fits.
    pub fn fits(&self, call: &Call) -> bool {
        match self {
            Pattern::Tool(name) => *name == call.name,
            Pattern::Command(prefix) => simple_command(call).is_some_and(|command| {
                let mut words = command.split_whitespace();
                prefix.split_whitespace().all(|word| words.next() == Some(word))
            }),
        }
    }
}

/// The command of a call, where it is one simple command.
fn simple_command(call: &Call) -> Option<String> {
    if call.name != RUN {
        return None;
    }
    let Command { command } = serde_json::from_str(call.input.get()).ok()?;
    let special =
        |c: char| matches!(c, ';' | '&' | '|' | '$' | '`' | '<' | '>' | '(' | ')' | '\n' | '\r');
    (!command.contains(special)).then_some(command)
}

/// What was allowed for the rest of a session, in this process. It is not carried into forks.
#[derive(Clone, Default)]
pub(crate) struct Grants(Arc<Mutex<HashMap<(Owner, SessionId), SessionGrants>>>);

#[derive(Default)]
struct SessionGrants {
    /// The person trusts the words of this imported session.
    trusted: bool,
    always: Vec<Pattern>,
}

impl Grants {
    fn with<T>(&self, owner: &Owner, id: SessionId, f: impl FnOnce(&mut SessionGrants) -> T) -> T {
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f(grants.entry((owner.clone(), id)).or_default())
    }

    pub(crate) fn allow(&self, owner: &Owner, id: SessionId, pattern: Pattern) {
        self.with(owner, id, |grants| {
            if !grants.always.contains(&pattern) {
                grants.always.push(pattern);
            }
        });
    }

    pub(crate) fn allows(&self, owner: &Owner, id: SessionId, call: &Call) -> bool {
        let grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let grants = grants.get(&(owner.clone(), id));
        grants.is_some_and(|grants| grants.always.iter().any(|pattern| pattern.fits(call)))
    }

    pub(crate) fn trust(&self, owner: &Owner, id: SessionId) {
        self.with(owner, id, |grants| grants.trusted = true);
    }

    pub(crate) fn trusts(&self, owner: &Owner, id: SessionId) -> bool {
        let grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        grants.get(&(owner.clone(), id)).is_some_and(|grants| grants.trusted)
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::Raw;
    use serde_json::json;

    use super::*;

    fn run(command: &str) -> Call {
        let input = Raw::of(&json!({ "command": command }));
        Call { id: "1".into(), name: RUN.into(), input }
    }

    #[test]
    fn a_prefix_fits_one_simple_command_and_nothing_behind_it() {
        let cargo = Pattern::Command("cargo test".into());
        for command in ["cargo test", "cargo  test -p core", " cargo test"] {
            assert!(cargo.fits(&run(command)), "{command}");
        }
        for command in [
            "cargo",
            "cargo build",
            "cargo testing",
            "cargo test; rm -rf .",
            "cargo test && rm x",
            "cargo test | sh",
            "cargo test $(rm x)",
            "cargo test `rm x`",
            "cargo test > /etc/x",
            "cargo test\nrm x",
            "cargo test & rm x",
            "(cargo test)",
            "cargo test < x",
        ] {
            assert!(!cargo.fits(&run(command)), "{command}");
        }
    }

    #[test]
    fn a_pattern_for_a_command_is_its_first_word_and_for_a_tool_its_name() {
        assert_eq!(Pattern::like(&run("git status")), Some(Pattern::Command("git".into())));
        assert_eq!(Pattern::like(&run("git status; rm x")), None);
        let write = Call { name: "write_file".into(), ..run("x") };
        assert_eq!(Pattern::like(&write), Some(Pattern::Tool("write_file".into())));
        assert!(!Pattern::Tool("write_file".into()).fits(&run("x")));
    }

    #[test]
    fn what_is_allowed_in_one_session_is_not_allowed_in_another_nor_to_another_owner() {
        let grants = Grants::default();
        let id = |name| SessionId::of_source(&Owner::local(), name);
        let (here, there) = (id("here"), id("there"));
        let (owner, other) = (Owner::local(), Owner::new("other").expect("valid"));
        grants.allow(&owner, here, Pattern::Command("git".into()));
        grants.trust(&owner, here);
        assert!(grants.allows(&owner, here, &run("git status")) && grants.trusts(&owner, here));
        assert!(!grants.allows(&owner, there, &run("git status")) && !grants.trusts(&owner, there));
        assert!(!grants.allows(&other, here, &run("git status")) && !grants.trusts(&other, here));
    }
}
