//! Asks the user whether a tool may change something, and remembers what they allowed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::message::Call;
use rethread_core::{Owner, SessionId};
use tokio::sync::oneshot;

use crate::grant::{Grant, Permissions};
use crate::tool::FileChange;

/// A call that waits for consent. Dropping it means no.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct PermissionRequest {
    pub call: Call,
    /// Its change to a file, if it makes one.
    pub change: Option<FileChange>,
    /// Why the user is asked about this call even if they allowed others before.
    pub why: Option<String>,
    /// What [`Always`](PermissionAnswer::Always) would allow; `None` if that would allow anything,
    /// or would not help because each such call needs consent.
    pub always: Option<Grant>,
    answer: oneshot::Sender<PermissionAnswer>,
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// Run it this time.
    Once,
    /// Run it, and every call that matches this, in this session.
    Always(Grant),
    /// Do not run it.
    No,
    /// Do not run it; the text is passed to the model as what to do instead.
    NoBecause(String),
}

/// The result of a call that a person declined. Their comment follows it.
pub const DECLINED: &str = "the user declined this call";

/// The result of a call that was not started because the user stopped the turn.
pub const NOT_RUN: &str = "not run: the user stopped the turn";

impl PermissionRequest {
    pub(crate) fn new(
        call: Call,
        change: Option<FileChange>,
        why: Option<String>,
        always: Option<Grant>,
    ) -> (PermissionRequest, oneshot::Receiver<PermissionAnswer>) {
        let (answer, answered) = oneshot::channel();
        (PermissionRequest { call, change, why, always, answer }, answered)
    }

    /// Sends the answer. If the turn was stopped in the meantime, it is ignored.
    pub fn answer(self, answer: PermissionAnswer) {
        drop(self.answer.send(answer));
    }
}

/// What users allowed and trusted, in this process. None of it is stored: a new process asks again.
#[derive(Clone, Default)]
pub(crate) struct Grants(Arc<Mutex<Remembered>>);

#[derive(Default)]
struct Remembered {
    /// Imported sessions that the user trusts.
    trusted: Vec<(Owner, SessionId)>,
    sessions: HashMap<Scope, SessionPermissions>,
}

/// The scope of a permission: a session of an owner, in one folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) owner: Owner,
    pub(crate) session: SessionId,
    pub(crate) workspace: Option<String>,
}

/// The user's changes to the permissions of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPermissions {
    /// What they allowed.
    pub allow: Vec<Grant>,
    /// What flags and configuration allow, and the user revoked.
    pub revoked: Vec<Grant>,
    /// Whether changes are allowed at all; as the program was started if `None`.
    pub read_only: Option<bool>,
}

impl SessionPermissions {
    /// Allows something.
    pub fn allow(&mut self, grant: Grant) {
        self.revoked.retain(|revoked| *revoked != grant);
        if !self.allow.contains(&grant) {
            self.allow.push(grant);
        }
    }

    /// Revokes a permission, wherever it came from.
    pub fn revoke(&mut self, grant: Grant) {
        self.allow.retain(|allowed| *allowed != grant);
        if !self.revoked.contains(&grant) {
            self.revoked.push(grant);
        }
    }

    /// The resulting permissions, given those of flags and configuration.
    pub fn over(&self, allow: &[Grant], read_only: bool, can_ask: bool) -> Permissions {
        let usual = allow.iter().filter(|grant| !self.revoked.contains(grant));
        let own = self.allow.iter().filter(|grant| !allow.contains(grant));
        Permissions {
            allow: usual.chain(own).cloned().collect(),
            read_only: self.read_only.unwrap_or(read_only),
            can_ask,
        }
    }
}

impl Grants {
    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user's changes in a session.
    pub(crate) fn of(&self, scope: &Scope) -> SessionPermissions {
        self.lock().sessions.get(scope).cloned().unwrap_or_default()
    }

    /// Changes it.
    pub(crate) fn change<T>(
        &self,
        scope: &Scope,
        change: impl FnOnce(&mut SessionPermissions) -> T,
    ) -> T {
        change(self.lock().sessions.entry(scope.clone()).or_default())
    }

    pub(crate) fn trust(&self, owner: &Owner, id: SessionId) {
        let mut remembered = self.lock();
        if !remembered.trusted.iter().any(|(whose, which)| (whose, *which) == (owner, id)) {
            remembered.trusted.push((owner.clone(), id));
        }
    }

    pub(crate) fn trusts(&self, owner: &Owner, id: SessionId) -> bool {
        self.lock().trusted.iter().any(|(whose, which)| (whose, *which) == (owner, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_holds_for_one_session_of_one_owner_in_one_folder() {
        let grants = Grants::default();
        let id = |name| SessionId::of_source(&Owner::local(), name);
        let (here, there) = (id("here"), id("there"));
        let (owner, other) = (Owner::local(), Owner::new("other").expect("valid"));
        let scope = |owner: &Owner, session, folder: &str| Scope {
            owner: owner.clone(),
            session,
            workspace: Some(folder.to_owned()),
        };
        let mine = scope(&owner, here, "/a");
        grants.change(&mine, |permissions| permissions.allow(Grant::tool("run")));
        grants.trust(&owner, here);
        assert_eq!(grants.of(&mine).allow, [Grant::tool("run")]);
        for elsewhere in
            [scope(&owner, there, "/a"), scope(&other, here, "/a"), scope(&owner, here, "/b")]
        {
            assert_eq!(grants.of(&elsewhere), SessionPermissions::default(), "{elsewhere:?}");
        }
        assert!(grants.trusts(&owner, here));
        assert!(!grants.trusts(&owner, there) && !grants.trusts(&other, here));
    }

    #[test]
    fn what_a_person_says_goes_before_what_flags_and_configuration_say() {
        let (run, write) = (Grant::tool("run"), Grant::tool("write_file"));
        let mut changed = SessionPermissions::default();
        changed.revoke(run.clone());
        changed.allow(write.clone());
        let holds = changed.over(std::slice::from_ref(&run), true, false);
        assert_eq!((holds.allow, holds.read_only), (vec![write.clone()], true));
        changed.read_only = Some(false);
        changed.allow(run.clone());
        let holds = changed.over(std::slice::from_ref(&run), true, false);
        assert_eq!((holds.allow, holds.read_only), (vec![run, write], false));
    }
}
