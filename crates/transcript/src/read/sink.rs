//! What readers find, and the trait `Sink` that receives it: sessions, entries and attachments.

use jiff::Timestamp;
use rethread_core::entry::{Body, Origin};
use rethread_core::session::ExtraFields;
use rethread_core::store::BoxError;
use rethread_core::{Profile, SessionKind};

/// A session that was found in a file.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct FoundSession {
    /// Identifies it among all sessions of its format, independent of the path of the file.
    pub identity: String,
    /// Its owner, if the file names one.
    pub owner: Option<String>,
    /// How clients find it.
    pub keys: Vec<String>,
    pub name: Option<String>,
    /// The id by which its program and its users know it.
    pub readable_id: Option<String>,
    /// What it is about, and which agent and model answered.
    pub profile: Profile,
    /// When it was started.
    pub created_at: Option<Timestamp>,
    /// The session it came from.
    pub parent: Option<Link>,
    pub archived: bool,
    /// The format it was imported from before it was exported.
    pub imported: Option<String>,
    /// The kind of conversation, if the file says so.
    pub kind: Option<SessionKind>,
    /// The program it comes from, if the file says so.
    pub source: Option<String>,
    /// Extra fields of a header that the file carries along.
    pub extra: ExtraFields,
    /// Its messages have no ids, and the file may drop old ones as new ones arrive: what is new is
    /// found by aligning the file with the stored log.
    pub windowed: bool,
    /// The source gives it no id, and `identity` only says how it begins. Two that begin alike and
    /// continue differently are different sessions. Only for `windowed` ones.
    pub nameless: bool,
    /// Identities it had in earlier versions. A session that was imported under one of them keeps
    /// it.
    pub formerly: Vec<String>,
}

/// A session that another one came from, by its identity.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Link {
    pub identity: String,
    /// How the other came from it.
    pub origin: Origin,
}

/// An entry that was found in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEntry {
    /// Its id, the same each time the file is read. At most 128 visible bytes.
    pub id: String,
    /// When it happened, if the file says so.
    pub at: Option<Timestamp>,
    /// What happened.
    pub body: Body,
}

/// Receives what a reader finds.
pub trait Sink {
    /// Receives a session. Its entries refer to it by its index.
    ///
    /// # Errors
    ///
    /// Any error stops the reader.
    fn session(&mut self, found: FoundSession) -> Result<(), BoxError>;

    /// Receives an entry of a session.
    ///
    /// # Errors
    ///
    /// Any error stops the reader.
    fn entry(&mut self, session: usize, entry: FoundEntry) -> Result<(), BoxError>;

    /// Receives an attachment of a session. Implementations that only need messages can ignore it.
    ///
    /// # Errors
    ///
    /// Any error stops the reader.
    fn blob(&mut self, _session: usize, _bytes: Vec<u8>) -> Result<(), BoxError> {
        Ok(())
    }
}
