//! `/permissions` and `/allow`: show and change what the agent may change without asking.
//!
//! Changes apply to this session, in this folder, as long as this program runs. Forks, imports and
//! other sessions start with flags and configuration.

use rethread_agent::tool::CHANGING;
use rethread_agent::{Grant, Permissions, SessionPermissions};

use super::Chat;
use crate::errors::Error;
use crate::out::{one_line, pad};

const HINT: &str = "`/permissions` shows the current settings, and how to change them";

const READ_ONLY_HINT: &str = "`/permissions ask` lets the agent ask again; then allow it";

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Allow(Grant),
    Revoke(Grant),
    /// Ask before anything is changed.
    Ask,
    /// Nothing may be changed.
    ReadOnly,
    /// As flags and configuration say.
    Reset,
}

impl Chat {
    /// Shows the permissions, or changes them.
    pub(super) fn permissions(&mut self, change: Option<&str>) -> Result<(), Error> {
        let Some(change) = change else {
            self.show_permissions();
            return Ok(());
        };
        let change = understood(change, &self.holding())?;
        let usual = self.runner.responder.allow.clone();
        self.change_permissions(|permissions| apply(&change, permissions, &usual));
        self.voice.notice(match &change {
            Change::Allow(grant) => {
                format!("{} runs without asking, in this session.", one_line(&grant.to_string()))
            }
            Change::Revoke(grant) => {
                format!("You will be asked about {} again.", one_line(&grant.to_string()))
            }
            Change::Ask => "You will be asked before anything is changed.".to_owned(),
            Change::ReadOnly => "This session is now read-only.".to_owned(),
            Change::Reset => "Reset to the flags and the configuration.".to_owned(),
        });
        Ok(())
    }

    /// The permissions of this session, or of the one that starts with the next message.
    fn holding(&self) -> Permissions {
        let responder = &self.runner.responder;
        self.changed_permissions().over(&responder.allow, responder.read_only, self.can_ask())
    }

    fn changed_permissions(&self) -> SessionPermissions {
        match self.session {
            Some(id) => self.handle.session_permissions(&self.runner, id),
            None => self.unsaid_permissions.clone(),
        }
    }

    fn change_permissions(&mut self, change: impl FnOnce(&mut SessionPermissions)) {
        match self.session {
            Some(id) => self.handle.change_permissions(&self.runner, id, change),
            None => change(&mut self.unsaid_permissions),
        }
    }

    fn show_permissions(&self) {
        let responder = &self.runner.responder;
        if self.runner.untrusted().is_some() {
            self.voice.notice(
                "Tools are off: this session was imported, and you have not trusted it yet.",
            );
            return;
        }
        if !CHANGING.iter().any(|tool| responder.agent.may_use(tool)) {
            self.voice.notice(format_args!(
                "The agent {} has no tool that changes anything; /agent chooses another.",
                responder.agent.name
            ));
            return;
        }
        let usual = &responder.allow;
        self.voice.notice(listed(&self.holding(), usual));
    }
}

/// The permissions, in words.
fn listed(holding: &Permissions, usual: &[Grant]) -> String {
    if holding.read_only {
        return "Read-only: no tool that changes anything is offered.\n\
                `/permissions ask` lets the agent ask."
            .to_owned();
    }
    let mut text = match holding.allow.is_empty() {
        true => "Nothing is allowed without asking.\n".to_owned(),
        false => "These run without asking:\n".to_owned(),
    };
    for (index, grant) in holding.allow.iter().enumerate() {
        let whence = if usual.contains(grant) {
            "by --allow or the configuration"
        } else {
            "in this session"
        };
        let grant = pad(&one_line(&grant.to_string()), 24);
        text += &format!("  {}  {grant}  {whence}\n", index + 1);
    }
    text += match holding.can_ask {
        true if holding.allow.is_empty() => "You are asked about every change.\n",
        true => {
            "You are asked about every other change. You are always asked about commands that need \
                 the network, and about files that other programs run on their own.\n"
        }
        false if holding.allow.is_empty() => {
            "No one can be asked here, so no tool that changes anything is offered.\n"
        }
        false => "No one can be asked here, so no other tool that changes anything is offered.\n",
    };
    text += "\n  /permissions allow TOOL  run it without asking: write_file, edit_file, run, run:cargo test\
             \n  /permissions revoke N    ask about it again\
             \n  /permissions ask         ask about everything\
             \n  /permissions read-only   change nothing\
             \n  /permissions reset       back to what flags and configuration say";
    text
}

fn understood(text: &str, holding: &Permissions) -> Result<Change, Error> {
    let wrong = |what: String| Error::Word { what, hint: HINT };
    let grant = |text: &str| text.parse::<Grant>().map_err(|error| wrong(error.to_string()));
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    Ok(match (verb, rest) {
        ("allow", _) if !rest.is_empty() => {
            let grant = grant(rest)?;
            // To forbid everything is not taken back in passing.
            if holding.read_only {
                let what = "this session is read-only, so nothing can be allowed".to_owned();
                return Err(Error::Word { what, hint: READ_ONLY_HINT });
            }
            Change::Allow(grant)
        }
        ("revoke", _) if !rest.is_empty() => {
            let held = match rest.parse::<usize>() {
                Ok(number) => number.checked_sub(1).and_then(|at| holding.allow.get(at)).cloned(),
                // As it is listed, or as it was typed.
                Err(_) => match holding.allow.iter().find(|held| held.to_string() == rest) {
                    Some(held) => Some(held.clone()),
                    None => Some(grant(rest)?).filter(|grant| holding.allow.contains(grant)),
                },
            };
            Change::Revoke(
                held.ok_or_else(|| wrong(format!("`{}` is not on the list", one_line(rest))))?,
            )
        }
        ("ask", "") => Change::Ask,
        ("read-only", "") => Change::ReadOnly,
        ("reset", "") => Change::Reset,
        _ => {
            let what = "/permissions takes nothing, or allow TOOL, revoke N, ask, read-only, reset";
            return Err(wrong(what.into()));
        }
    })
}

fn apply(change: &Change, permissions: &mut SessionPermissions, usual: &[Grant]) {
    match change {
        Change::Allow(grant) => permissions.allow(grant.clone()),
        Change::Revoke(grant) => permissions.revoke(grant.clone()),
        Change::Ask => {
            let revoked = usual.to_vec();
            *permissions =
                SessionPermissions { allow: Vec::new(), revoked, read_only: Some(false) };
        }
        Change::ReadOnly => permissions.read_only = Some(true),
        Change::Reset => *permissions = SessionPermissions::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_does_what_it_says() {
        let usual = [Grant::tool("run")];
        let mut changed = SessionPermissions::default();
        let mut after = |text: &str| {
            let holding = changed.over(&usual, false, true);
            let change =
                understood(text, &holding).unwrap_or_else(|error| panic!("{text}: {error}"));
            apply(&change, &mut changed, &usual);
            let holding = changed.over(&usual, false, true);
            let names: Vec<String> = holding.allow.iter().map(Grant::to_string).collect();
            (names.join(" "), holding.read_only)
        };
        assert_eq!(after("allow write_file"), ("run write_file".into(), false));
        assert_eq!(after("revoke 1"), ("write_file".into(), false));
        assert_eq!(after("allow run:ls"), ("write_file run:ls".into(), false));
        assert_eq!(after("revoke run:ls"), ("write_file".into(), false));
        assert_eq!(after("read-only"), ("write_file".into(), true));
        assert_eq!(after("ask"), (String::new(), false));
        assert_eq!(after("reset"), ("run".into(), false));
    }

    #[test]
    fn nothing_is_allowed_in_passing_while_everything_is_forbidden() {
        for changed in [
            SessionPermissions::default(),
            SessionPermissions { read_only: Some(true), ..SessionPermissions::default() },
        ] {
            let holding = changed.over(&[], true, true);
            let error = understood("allow run:ls", &holding).expect_err("refused").to_string();
            assert_eq!(error, "this session is read-only, so nothing can be allowed");
            assert_eq!(understood("ask", &holding).expect("it is said"), Change::Ask);
        }
    }

    #[test]
    fn what_cannot_be_done_is_an_error() {
        let holding = Permissions::default();
        for text in
            ["allow", "allow read_file", "allow run:sh", "revoke 1", "revoke 0", "more", "ask me"]
        {
            assert!(understood(text, &holding).is_err(), "{text}");
        }
    }
}
