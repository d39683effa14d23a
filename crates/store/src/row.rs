//! Entries as rows, for every database.
//!
//! A row's `body` is two lines: the measures of the entry's tool results (an empty line when it
//! has none), and the body as JSON. Together they compress better, because a stub repeats the
//! beginning of its result. `size` is the length of both before compression, or NULL where
//! compressing them did not pay.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;
use rethread_core::entry::{Boundary, Effect, fingerprint};
use rethread_core::limits::BLOB_BYTES_MAX;
use rethread_core::measure::{Measure, ResultMeasure};
use rethread_core::parallel;
use rethread_core::session::preview;
use rethread_core::{BlobId, Body, Entry, EntryId, NewEntry, SessionId, StoreError, Tally};
use sha2::{Digest, Sha256};

use crate::compress;

/// An entry prepared for its row, before any lock is taken.
pub(crate) struct Ready {
    pub(crate) id: EntryId,
    pub(crate) at: i64,
    /// The fingerprint.
    pub(crate) hash: [u8; 16],
    pub(crate) effect: Effect,
    /// The preview, in case it is the session's first question.
    pub(crate) preview: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) tokens: u32,
    thinking: u32,
    pub(crate) size: Option<i64>,
    pub(crate) body: Vec<u8>,
}

impl Ready {
    /// The value of `hash`, once the position is known.
    pub(crate) fn sealed(&self, session: SessionId, seq: u64) -> [u8; 24] {
        let mut hash = [0; 24];
        hash[..16].copy_from_slice(&self.hash);
        hash[16..].copy_from_slice(&seal_of(session, seq, self.at, &self.id));
        hash
    }

    /// Whether an entry with this `hash` has the same content.
    pub(crate) fn is_stored_as(&self, hash: &[u8]) -> bool {
        Hash::stored(hash).is_some_and(|hash| hash.fingerprint == self.hash)
    }

    /// Tokens of thinking, if there are any.
    pub(crate) fn thinking(&self) -> Option<u32> {
        (self.thinking > 0).then_some(self.thinking)
    }
}

/// Prepares entries: serialises each as JSON, fingerprints and compresses it.
pub(crate) fn ready(entries: &[NewEntry]) -> Vec<Ready> {
    parallel::each(entries, ready_one)
}

fn ready_one(entry: &NewEntry) -> Ready {
    let json = entry.body.json();
    let kind = entry.body.kind();
    let message = entry.body.message();
    let (size, body) = packed(&entry.measure.results, &json);
    Ready {
        id: entry.id.clone(),
        at: entry.at.as_millisecond(),
        hash: fingerprint(kind, &json),
        effect: Effect::of(&entry.body, &entry.measure),
        preview: message.filter(|message| message.opens_turn()).map(preview),
        kind: (kind != "message").then(|| kind.to_owned()),
        tokens: entry.measure.tokens,
        thinking: entry.measure.thinking,
        size,
        body,
    }
}

fn packed(results: &[ResultMeasure], json: &str) -> (Option<i64>, Vec<u8>) {
    let mut plain = Vec::with_capacity(json.len() + 1);
    if !results.is_empty() {
        serde_json::to_writer(&mut plain, results).expect("measures are always valid JSON");
    }
    plain.push(b'\n');
    plain.extend_from_slice(json.as_bytes());
    match compress::compress(&plain) {
        Some(packed) => (i64::try_from(plain.len()).ok(), packed),
        None => (None, plain),
    }
}

/// The columns of a tally after `entries`, which follows from the seq.
pub(crate) const TALLY_COLUMNS: usize = 11;

/// A tally as columns: `t_messages`, `t_queries`, `t_tokens`, `t_first`, `t_turn`, `t_system`,
/// `t_started`, `t_summary`, `t_clear`, `t_clear_messages`, `t_clear_tokens`.
pub(crate) fn tally_columns(tally: &Tally) -> [Option<i64>; TALLY_COLUMNS] {
    let boundary = tally.boundary;
    [
        Some(tally.messages),
        Some(tally.queries),
        Some(tally.tokens),
        tally.first,
        tally.turn,
        tally.system,
        tally.started,
        tally.summary,
        boundary.map(|b| b.seq),
        boundary.map(|b| b.messages),
        boundary.map(|b| b.tokens),
    ]
    .map(|value| value.map(number))
}

/// The tally in the columns, for the entry at `seq`.
pub(crate) fn tally_of(seq: u64, columns: [Option<i64>; TALLY_COLUMNS]) -> Tally {
    let [messages, queries, tokens, first, turn, system, started, summary, clear, before, spent] =
        columns.map(|value| value.and_then(|value| u64::try_from(value).ok()));
    let boundary = match (clear, before, spent) {
        (Some(seq), Some(messages), Some(tokens)) => Some(Boundary { seq, messages, tokens }),
        _ => None,
    };
    Tally {
        entries: seq + 1,
        messages: messages.unwrap_or_default(),
        queries: queries.unwrap_or_default(),
        tokens: tokens.unwrap_or_default(),
        first,
        turn,
        system,
        started,
        summary,
        boundary,
    }
}

/// A count or a position, as stored in a database.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A stored entry, read and decompressed, but not yet decoded.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) seq: u64,
    pub(crate) at: i64,
    /// Its id, or why it is not valid.
    pub(crate) id: Result<EntryId, String>,
    pub(crate) kind: Option<String>,
    pub(crate) tokens: u32,
    pub(crate) thinking: Option<u32>,
    pub(crate) size: Option<i64>,
    pub(crate) body: Vec<u8>,
    pub(crate) tally: Tally,
    /// The fingerprint that was stored with it, if it is valid.
    pub(crate) hash: Option<Hash>,
}

impl Stored {
    /// Its stored size before compression.
    pub(crate) fn bytes(&self) -> usize {
        self.size.and_then(|size| usize::try_from(size).ok()).unwrap_or(self.body.len())
    }

    fn plain(&self) -> Result<Cow<'_, [u8]>, String> {
        let Some(size) = self.size else { return Ok(Cow::Borrowed(&self.body)) };
        let size = usize::try_from(size).map_err(|_| "its size is not valid".to_owned())?;
        if size > rethread_core::limits::MESSAGE_BYTES_MAX * 4 {
            return Err("its size is not valid".into());
        }
        let plain = compress::decompress(&self.body, size).map_err(|e| e.to_string())?;
        match plain.len() == size {
            true => Ok(Cow::Owned(plain)),
            false => Err("it is shorter than it was".into()),
        }
    }

    fn understood(self, session: SessionId) -> Result<Entry, String> {
        let plain = self.plain()?;
        let (results, json) = split(&plain)?;
        let kind = self.kind.as_deref().unwrap_or("message");
        let hash = self.hash.filter(|hash| hash.fingerprint == fingerprint(kind, json));
        let hash = hash.ok_or("its text is not what was written")?;
        let id = self.id.as_ref().map_err(Clone::clone)?;
        if hash.seal.is_some_and(|seal| seal != seal_of(session, self.seq, self.at, id)) {
            return Err("its place, its time or its id is not what was written".into());
        }
        let results: Vec<ResultMeasure> = match results.is_empty() {
            true => Vec::new(),
            false => serde_json::from_str(results).map_err(|e| e.to_string())?,
        };
        let body = Body::parse(kind, json).map_err(|error| format!("{error}: {}", error.source))?;
        Ok(Entry {
            seq: self.seq,
            at: time(self.at),
            id: self.id?,
            body,
            measure: Measure {
                tokens: self.tokens,
                thinking: self.thinking.unwrap_or_default(),
                results,
            },
            tally: self.tally,
        })
    }

    /// The entry of this session, if it is unchanged.
    pub(crate) fn entry(self, id: SessionId) -> Result<Entry, StoreError> {
        let seq = self.seq;
        self.understood(id).map_err(|what| StoreError::Damaged { id, seq, what })
    }
}

fn split(plain: &[u8]) -> Result<(&str, &str), String> {
    let text = std::str::from_utf8(plain).map_err(|error| error.to_string())?;
    text.split_once('\n').ok_or_else(|| "it has no body".to_owned())
}

/// The value of the column `hash`: the fingerprint of an entry's content, and a seal that covers
/// its session, position, time and id. Entries from before seals existed have none.
#[derive(Clone, Copy)]
pub(crate) struct Hash {
    fingerprint: [u8; 16],
    seal: Option<[u8; 8]>,
}

impl Hash {
    /// The stored value; `None` if it has another length.
    pub(crate) fn stored(bytes: &[u8]) -> Option<Hash> {
        let (fingerprint, seal) = bytes.split_first_chunk()?;
        let seal = match seal {
            [] => None,
            seal => Some(seal.try_into().ok()?),
        };
        Some(Hash { fingerprint: *fingerprint, seal })
    }
}

/// The seal of an entry: 8 bytes of the SHA-256 of its session, place, time and id.
fn seal_of(session: SessionId, seq: u64, at: i64, id: &EntryId) -> [u8; 8] {
    let mut hasher = Sha256::new();
    hasher.update(session.0.as_bytes());
    hasher.update(seq.to_be_bytes());
    hasher.update(at.to_be_bytes());
    hasher.update(id.as_str());
    let mut short = [0; 8];
    short.copy_from_slice(&hasher.finalize()[..8]);
    short
}

/// The entries of a range, from the rows that were found. A missing row is damage, and so is one
/// that cannot be read; `end`, the length of the log, is queried only if rows are missing at the
/// end of the range.
pub(crate) fn without_gaps(
    id: SessionId,
    range: &Range<u64>,
    rows: impl Iterator<Item = Result<Stored, StoreError>>,
    end: impl FnOnce() -> Result<u64, StoreError>,
) -> Result<Vec<Entry>, StoreError> {
    let missing = |seq| StoreError::Damaged { id, seq, what: "it is missing".into() };
    let mut next = range.start;
    let mut entries = Vec::new();
    for stored in rows {
        let stored = match stored {
            // SQLite does not read beyond a damaged page.
            Err(StoreError::Corrupt { .. }) => {
                let what = "its page of the file is damaged".into();
                return Err(StoreError::Damaged { id, seq: next, what });
            }
            stored => stored?,
        };
        if stored.seq != next {
            return Err(missing(next));
        }
        next += 1;
        entries.push(stored.entry(id)?);
    }
    match next < range.end && next < end()? {
        true => Err(missing(next)),
        false => Ok(entries),
    }
}

/// A stored count; a damaged one counts as 0, and `doctor` recomputes it.
pub(crate) fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// A time from milliseconds.
pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The bytes of a blob as they were given. If the stored ones are fewer than its size, they are
/// compressed.
pub(crate) fn blob(
    id: SessionId,
    blob: BlobId,
    size: i64,
    body: Vec<u8>,
) -> Result<Vec<u8>, StoreError> {
    let bad = || StoreError::BadBlob { id, blob };
    let size = usize::try_from(size).ok().filter(|size| *size <= BLOB_BYTES_MAX).ok_or_else(bad)?;
    let plain = match body.len() < size {
        true => compress::decompress(&body, size).map_err(|_| bad())?,
        false => body,
    };
    match BlobId::of(&plain) == blob {
        true => Ok(plain),
        false => Err(bad()),
    }
}
