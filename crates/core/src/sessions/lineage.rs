//! Clear, fork and undo. None of these removes anything.

use serde::Serialize;
use serde_json::json;

use super::{Error, Result, Sessions};
use crate::entry::{Body, Entry, LeftOut, NewEntry, Origin, Started};
use crate::limits::{APPEND_TRIES_MAX, READ_ENTRIES};
use crate::message::{Message, Role};
use crate::name::{Key, Name, SessionId};
use crate::session::{ExtraFields, Header, Parent, Place, Session};
use crate::store::{At, Bind, StoreError};

/// Options of a fork.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fork {
    /// The last entry to copy; all of them if none is given.
    pub at: Option<u64>,
    /// The name of the copy; if none is given, the original's with `-fork` appended.
    pub name: Option<Name>,
    /// Whether the keys move to the copy.
    pub take_keys: bool,
}

/// What was undone. As JSON it is one object with `undone`: `delete`, `clear`, `new`, `fork`,
/// `compact` or `resume`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Undone {
    /// A delete: the session is back from the trash.
    Delete { session: SessionId },
    /// A clear: the session's context is complete again.
    Clear { session: SessionId },
    /// The start of a session: its keys point at the previous one again.
    Start {
        /// The session that was left.
        session: SessionId,
        /// How it was started.
        origin: Origin,
        /// The session its keys point at now.
        back_to: Option<SessionId>,
        /// Whether it was archived because it had no messages.
        archived: bool,
    },
}

/// What undoing consists of.
struct Undo {
    undone: Undone,
    /// The end of the log with the clear, and the boundary that is in effect again.
    clear: Option<(u64, Option<crate::entry::Boundary>)>,
    /// The keys that are moved back.
    keys: Vec<Key>,
}

impl Serialize for Undone {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        let shown = match self {
            Undone::Delete { session } => json!({ "undone": "delete", "session": session }),
            Undone::Clear { session } => json!({ "undone": "clear", "session": session }),
            Undone::Start { session, origin, back_to, archived } => json!({
                "undone": origin, "session": session, "back_to": back_to, "archived": archived,
            }),
        };
        shown.serialize(serializer)
    }
}

impl Sessions {
    /// Empties the context; the log, the keys and the counts stay.
    ///
    /// # Errors
    ///
    /// As [`append`](Sessions::append).
    pub fn clear(&self, id: SessionId) -> Result<u64> {
        self.append_seen(id, |session| Body::Cleared { before: session.tally.boundary })
    }

    /// Appends an entry that depends on the tally, and retries if another writer is first.
    fn append_seen(&self, id: SessionId, body: impl Fn(&Session) -> Body) -> Result<u64> {
        self.sweep_trash();
        let mut tries = 0;
        loop {
            let session = self.get(id)?;
            let entry = self.entry(body(&session));
            let at = At::head(session.tally.entries);
            match self.store.append(&self.owner, id, at, &[entry]) {
                Err(StoreError::Conflict { .. }) if tries < APPEND_TRIES_MAX => tries += 1,
                other => return Ok(other?.seqs.first().copied().unwrap_or_default()),
            }
        }
    }

    /// Leaves the latest turn out of contexts from now on, and returns its question, so that it can
    /// be asked again. `None` if there was no question since the last clear.
    ///
    /// # Errors
    ///
    /// As [`append`](Sessions::append).
    pub fn withdraw_turn(&self, id: SessionId) -> Result<Option<Message>> {
        let tally = self.get(id)?.tally;
        let Some(turn) = tally.turn.filter(|turn| *turn >= tally.begins()) else {
            return Ok(None);
        };
        let entry = self.entry_at(Place { session: id, seq: turn })?;
        let why = "it was asked again".into();
        let mark = self.entry(Body::LeftOut(LeftOut { turn, why }));
        self.store.append(&self.owner, id, At::head(tally.entries), &[mark])?;
        Ok(entry.body.message().cloned())
    }

    /// Copies a session up to an entry, in complete rounds, into a new one.
    ///
    /// # Errors
    ///
    /// [`Error::NoEntry`] if `at` is beyond the end; otherwise as [`create`](Sessions::create).
    pub fn fork(&self, id: SessionId, fork: &Fork) -> Result<Session> {
        let parent = self.get(id)?;
        let entries = parent.tally.entries;
        if let Some(seq) = fork.at.filter(|at| *at >= entries) {
            return Err(Error::NoEntry { id, seq, entries });
        }
        let end = fork.at.map_or(entries, |at| at + 1);
        let mut copied: Vec<Entry> = self.entries(id, 0..end).collect::<Result<_>>()?;
        copied.truncate(whole_rounds(&copied));
        let mut entries: Vec<NewEntry> = copied
            .into_iter()
            .map(|Entry { id, at, body, measure, .. }| NewEntry { id, at, body, measure })
            .collect();
        let keys = if fork.take_keys { parent.keys.clone() } else { Vec::new() };
        let binds: Vec<Bind> =
            keys.iter().map(|key| Bind { key: key.clone(), seen: Some(id) }).collect();
        entries.push(self.entry(Body::Started(Started {
            origin: Origin::Fork,
            from: Some(id),
            keys,
        })));
        let name = match &fork.name {
            Some(name) => name.clone(),
            None => {
                let base: String = parent.header.name.as_str().chars().take(59).collect();
                Name::new(&format!("{base}-fork"))?
            }
        };
        let header = Header {
            id: SessionId(self.world.uuid()),
            name,
            created_at: self.world.now(),
            archived: false,
            parent: Some(Parent { id, origin: Origin::Fork }),
            extra: ExtraFields::default(),
            trash: None,
            ..parent.header
        };
        let forked = self.create_named(header, None, &entries, &binds)?;
        self.copy_blobs(id, self, forked.id())?;
        Ok(forked)
    }

    /// Restores a session from the trash. Otherwise undoes its latest clear or, if there is none
    /// since, the fork, compact, resume or new that started it: its keys point at the previous
    /// session again, and if it has no messages, it is archived.
    ///
    /// # Errors
    ///
    /// [`Error::NothingToUndo`]; [`StoreError::Held`] while a turn runs; otherwise I/O errors.
    pub fn undo(&self, id: SessionId) -> Result<Undone> {
        let Undo { undone, clear, keys } = self.plan_undo(id)?;
        match &undone {
            Undone::Delete { .. } => drop(self.restore_from_trash(id)?),
            Undone::Clear { .. } => {
                let (head, before) = clear.expect("a clear is taken back by an entry");
                let undone = self.entry(Body::Undone { before });
                self.store.append(&self.owner, id, At::head(head), &[undone])?;
                self.sweep_trash();
            }
            Undone::Start { back_to, archived, .. } => {
                for key in keys {
                    self.store.bind(&self.owner, &Bind { key, seen: Some(id) }, *back_to)?;
                }
                if *archived {
                    self.archive(id)?;
                }
                if let Some(back_to) = *back_to
                    && self.get(back_to)?.header.archived
                {
                    self.unarchive(back_to)?;
                }
            }
        }
        Ok(undone)
    }

    /// What [`undo`](Sessions::undo) would undo. Nothing is changed.
    ///
    /// # Errors
    ///
    /// As [`undo`](Sessions::undo).
    pub fn would_undo(&self, id: SessionId) -> Result<Undone> {
        Ok(self.plan_undo(id)?.undone)
    }

    fn plan_undo(&self, id: SessionId) -> Result<Undo> {
        let session = self.store.get(&self.owner, id)?;
        let plan = |undone| Undo { undone, clear: None, keys: Vec::new() };
        if session.header.trash.is_some() {
            return Ok(plan(Undone::Delete { session: id }));
        }
        let tally = session.tally;
        let nothing = || Error::NothingToUndo { id };
        if let Some(clear) =
            tally.boundary.filter(|clear| tally.started.is_none_or(|s| s < clear.seq))
        {
            let entry = self.read(id, clear.seq..clear.seq + 1)?.pop();
            let Some(Body::Cleared { before }) = entry.map(|entry| entry.body) else {
                return Err(nothing());
            };
            let clear = Some((tally.entries, before));
            return Ok(Undo { clear, ..plan(Undone::Clear { session: id }) });
        }
        let seq = tally.started.ok_or_else(nothing)?;
        let entry = self.read(id, seq..seq + 1)?.pop();
        let Some(started) = entry.as_ref().and_then(|entry| entry.body.started()) else {
            return Err(nothing());
        };
        // A session whose original was deleted has nothing to go back to.
        let back_to = started.from.ok_or_else(nothing)?;
        match self.get(back_to) {
            Err(Error::Store(StoreError::NotFound { .. })) => return Err(nothing()),
            found => drop(found?),
        }
        let keys = started.keys.iter().filter(|key| session.keys.contains(key));
        let keys: Vec<Key> = keys.cloned().collect();
        let since = self.read(id, seq..tally.entries.min(seq + READ_ENTRIES))?;
        let unused = !since
            .iter()
            .any(|entry| entry.body.message().is_some_and(|message| message.role != Role::System));
        let archived = unused && tally.entries <= seq + READ_ENTRIES && !session.header.archived;
        if keys.is_empty() && !archived {
            return Err(if unused { nothing() } else { Error::ContinuedSince { id } });
        }
        let (origin, back_to) = (started.origin, Some(back_to));
        let undone = Undone::Start { session: id, origin, back_to, archived };
        Ok(Undo { undone, clear: None, keys })
    }
}

/// How many of these entries are complete rounds: a reply without all of its results is left out,
/// with everything after it.
fn whole_rounds(entries: &[Entry]) -> usize {
    let mut open: Vec<&str> = Vec::new();
    let mut opened_at = entries.len();
    for (index, entry) in entries.iter().enumerate() {
        let Some(message) = entry.body.message() else { continue };
        if message.role == Role::Assistant {
            open = message.calls().map(|call| call.id.as_str()).collect();
            opened_at = index;
        } else if message.opens_turn() {
            open.clear();
        } else {
            open.retain(|id| !message.results().any(|result| result.tool_use_id == *id));
        }
    }
    match open.is_empty() {
        true => entries.len(),
        false => opened_at,
    }
}
