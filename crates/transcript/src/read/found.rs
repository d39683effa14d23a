//! What readers hand over.

use jiff::Timestamp;
use rethread_core::entry::{Body, Origin};
use rethread_core::session::Foreign;
use rethread_core::store::BoxError;
use rethread_core::{Profile, SessionKind};

/// A session that was found in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundSession {
    /// Identifies it among all sessions of its format, wherever the file is.
    pub identity: String,
    /// Whose it is, where the file says so.
    pub owner: Option<String>,
    /// How clients find it.
    pub keys: Vec<String>,
    /// What people call it.
    pub name: Option<String>,
    /// The id under which its program and people know it.
    pub readable_id: Option<String>,
    /// What it is about, and who answered in it.
    pub profile: Profile,
    /// When it was started.
    pub created_at: Option<Timestamp>,
    /// The session it came from.
    pub parent: Option<Link>,
    /// Put away.
    pub archived: bool,
    /// The format it was imported from before it was exported.
    pub imported: Option<String>,
    /// What sort of conversation it is, where the file says so.
    pub kind: Option<SessionKind>,
    /// The program it was held with, where the file says so.
    pub source: Option<String>,
    /// What another program says about it, where the file carries that along.
    pub foreign: Foreign,
    /// Its messages have no ids, and the file may drop old ones as new ones come: what is new is
    /// found by where the stored log and the file overlap.
    pub windowed: bool,
    /// The source gives it no id, and `identity` only says how it begins. Two that begin alike and
    /// continue differently are two sessions. Only for what is `windowed`.
    pub nameless: bool,
    /// Identities it had in earlier versions. A session that was imported under one stays that one.
    pub formerly: Vec<String>,
}

/// A session another one came from, as its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The identity.
    pub identity: String,
    /// How.
    pub origin: Origin,
}

/// An entry that was found in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEntry {
    /// Its id, the same whenever the file is read. At most 128 visible bytes.
    pub id: String,
    /// When it happened, as far as the file says.
    pub at: Option<Timestamp>,
    /// What happened.
    pub body: Body,
}

/// Who takes what is found.
pub trait Sink {
    /// Takes a session. Its entries name it by the count of sessions before it.
    ///
    /// # Errors
    ///
    /// Any; reading stops.
    fn session(&mut self, found: FoundSession) -> Result<(), BoxError>;

    /// Takes an entry of a session.
    ///
    /// # Errors
    ///
    /// Any; reading stops.
    fn entry(&mut self, session: usize, entry: FoundEntry) -> Result<(), BoxError>;

    /// Takes an attachment of a session. Who only looks at what was said ignores it.
    ///
    /// # Errors
    ///
    /// Any; reading stops.
    fn blob(&mut self, _session: usize, _bytes: Vec<u8>) -> Result<(), BoxError> {
        Ok(())
    }
}
