//! Entries as rows.
//!
//! A row's `body` is two lines: the measures of the entry's tool results (an empty line when it
//! has none), and the body as JSON. Together they compress better, because a stub repeats the
//! beginning of its result. `size` is the length of both before compression, or NULL where
//! compressing them did not pay.

use std::borrow::Cow;
use std::cell::RefCell;

use jiff::Timestamp;
use rethread_core::entry::{Boundary, Effect, fingerprint};
use rethread_core::measure::{Measure, ResultMeasure};
use rethread_core::session::preview;
use rethread_core::{Body, Entry, EntryId, NewEntry, SessionId, StoreError, Tally};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Row, params};
use zstd::zstd_safe::CParameter;

/// Bodies shorter than this are stored as they are: compressing them saves less than it costs.
const COMPRESS_BYTES_MIN: usize = 256;

/// Texts up to this length are compressed with small tables.
const SHORT_BYTES_MAX: usize = 4 << 10;

/// The fastest level that still halves ordinary text.
const LEVEL: i32 = 1;

/// The columns of an entry, in the order [`stored`] reads them.
pub(super) const COLUMNS: &str = "seq, at, id, kind, tokens, thinking, size, body, \
    t_messages, t_queries, t_tokens, t_first, t_turn, t_system, t_started, t_summary, \
    t_clear, t_clear_messages, t_clear_tokens";

/// The tally of a session's last entry, in the order [`tally`] reads it.
pub(super) const LAST_TALLY: &str = "SELECT seq, t_messages, t_queries, t_tokens, t_first, \
    t_turn, t_system, t_started, t_summary, t_clear, t_clear_messages, t_clear_tokens, at \
    FROM entries WHERE session = ?1 ORDER BY seq DESC LIMIT 1";

/// A session and the tally of its last entry, in the order [`tally`] reads it, then its place.
pub(super) const END: &str = "SELECT e.seq, t_messages, t_queries, t_tokens, t_first, t_turn, \
    t_system, t_started, t_summary, t_clear, t_clear_messages, t_clear_tokens, \
    s.n, s.fence, s.holder, s.until FROM sessions s LEFT JOIN entries e ON e.session = s.n \
    AND e.seq = (SELECT max(seq) FROM entries WHERE session = s.n) \
    WHERE s.id = ?1 AND s.owner = ?2";

/// How an entry is inserted; [`insert`] binds it.
pub(super) const INSERT: &str = "INSERT INTO entries (session, seq, at, id, kind, hash, tokens, \
    thinking, size, body, t_messages, t_queries, t_tokens, t_first, t_turn, t_system, t_started, \
    t_summary, t_clear, t_clear_messages, t_clear_tokens) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
    ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";

/// An entry made ready for its row, before any lock is taken.
pub(super) struct Ready {
    pub(super) id: EntryId,
    pub(super) at: i64,
    pub(super) hash: [u8; 16],
    pub(super) effect: Effect,
    /// The preview, in case it is the session's first question.
    pub(super) preview: Option<String>,
    kind: Option<String>,
    tokens: u32,
    thinking: u32,
    size: Option<i64>,
    body: Vec<u8>,
}

/// Makes an entry ready: writes it as JSON, fingerprints and compresses it.
pub(super) fn ready(entry: &NewEntry) -> Ready {
    let json = entry.body.json();
    let kind = entry.body.kind();
    let message = entry.body.message();
    let (size, body) = pack(&entry.measure.results, &json);
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

fn pack(results: &[ResultMeasure], json: &str) -> (Option<i64>, Vec<u8>) {
    let mut plain = Vec::with_capacity(json.len() + 1);
    if !results.is_empty() {
        serde_json::to_writer(&mut plain, results).expect("measures are always valid JSON");
    }
    plain.push(b'\n');
    plain.extend_from_slice(json.as_bytes());
    if plain.len() < COMPRESS_BYTES_MIN {
        return (None, plain);
    }
    match compress(&plain) {
        Some(packed) if packed.len() < plain.len() => (i64::try_from(plain.len()).ok(), packed),
        _ => (None, plain),
    }
}

fn compress(plain: &[u8]) -> Option<Vec<u8>> {
    type Slot = RefCell<Option<zstd::bulk::Compressor<'static>>>;
    thread_local! {
        static SHORT: Slot = const { RefCell::new(None) };
        static LONG: Slot = const { RefCell::new(None) };
    }
    let short = plain.len() <= SHORT_BYTES_MAX;
    let slot = if short { &SHORT } else { &LONG };
    slot.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            let mut new = zstd::bulk::Compressor::new(LEVEL).ok()?;
            if short {
                // A table for a short text need not be larger than the text; clearing a large one
                // takes longer than compressing.
                new.set_parameter(CParameter::WindowLog(12)).ok()?;
                new.set_parameter(CParameter::HashLog(10)).ok()?;
            }
            *compressor = Some(new);
        }
        compressor.as_mut()?.compress(plain).ok()
    })
}

/// Inserts an entry with its place and tally.
pub(super) fn insert(
    statement: &mut CachedStatement<'_>,
    session: i64,
    ready: &Ready,
    tally: &Tally,
) -> rusqlite::Result<i64> {
    let boundary = tally.boundary;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let place = |value: Option<u64>| value.map(number);
    statement.insert(params![
        session,
        number(tally.entries - 1),
        ready.at,
        sql_id(&ready.id),
        ready.kind,
        ready.hash,
        ready.tokens,
        (ready.thinking > 0).then_some(ready.thinking),
        ready.size,
        ready.body,
        number(tally.messages),
        number(tally.queries),
        number(tally.tokens),
        place(tally.first),
        place(tally.turn),
        place(tally.system),
        place(tally.started),
        place(tally.summary),
        place(boundary.map(|b| b.seq)),
        place(boundary.map(|b| b.messages)),
        place(boundary.map(|b| b.tokens)),
    ])
}

/// An entry's id as SQLite holds it: 16 bytes where it is a UUID in its usual form, else text.
pub(super) fn sql_id(id: &EntryId) -> Value {
    match uuid::Uuid::try_parse(id.as_str()) {
        Ok(uuid) if uuid.hyphenated().to_string() == id.as_str() => {
            Value::Blob(uuid.as_bytes().to_vec())
        }
        _ => Value::Text(id.as_str().to_owned()),
    }
}

/// What an entry is stored as, read back and unpacked, but not yet understood.
pub(super) struct Stored {
    seq: u64,
    at: i64,
    id: Value,
    kind: Option<String>,
    tokens: u32,
    thinking: Option<u32>,
    size: Option<i64>,
    body: Vec<u8>,
    tally: Tally,
}

/// Reads a row of [`COLUMNS`].
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let seq: i64 = row.get(0)?;
    Ok(Stored {
        seq: u64::try_from(seq).unwrap_or_default(),
        at: row.get(1)?,
        id: row.get(2)?,
        kind: row.get(3)?,
        tokens: small(row.get(4)?),
        thinking: row.get::<_, Option<i64>>(5)?.map(small),
        size: row.get(6)?,
        body: row.get(7)?,
        tally: read_tally(row, seq, 8)?,
    })
}

/// Reads a row of [`LAST_TALLY`] or [`END`]: the tally, and the column behind it.
pub(super) fn tally(row: &Row<'_>) -> rusqlite::Result<(Tally, i64)> {
    Ok((read_tally(row, row.get(0)?, 1)?, row.get(12)?))
}

fn read_tally(row: &Row<'_>, seq: i64, first: usize) -> rusqlite::Result<Tally> {
    let number = |index: usize| -> rusqlite::Result<u64> {
        row.get::<_, i64>(first + index).map(|value| u64::try_from(value).unwrap_or_default())
    };
    let place = |index: usize| -> rusqlite::Result<Option<u64>> {
        let value: Option<i64> = row.get(first + index)?;
        Ok(value.and_then(|value| u64::try_from(value).ok()))
    };
    let boundary = match (place(8)?, place(9)?, place(10)?) {
        (Some(seq), Some(messages), Some(tokens)) => Some(Boundary { seq, messages, tokens }),
        _ => None,
    };
    Ok(Tally {
        entries: u64::try_from(seq).unwrap_or_default() + 1,
        messages: number(0)?,
        queries: number(1)?,
        tokens: number(2)?,
        first: place(3)?,
        turn: place(4)?,
        system: place(5)?,
        started: place(6)?,
        summary: place(7)?,
        boundary,
    })
}

impl Stored {
    /// Its place.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The fingerprint of what is stored now, if it can be unpacked.
    pub(super) fn fingerprint(&self) -> Result<[u8; 16], String> {
        let plain = self.plain()?;
        let (_, json) = split(&plain)?;
        Ok(fingerprint(self.kind.as_deref().unwrap_or("message"), json))
    }

    fn plain(&self) -> Result<Cow<'_, [u8]>, String> {
        let Some(size) = self.size else { return Ok(Cow::Borrowed(&self.body)) };
        let size = usize::try_from(size).map_err(|_| "its size makes no sense".to_owned())?;
        if size > rethread_core::limits::MESSAGE_BYTES_MAX * 4 {
            return Err("its size makes no sense".into());
        }
        let plain = decompress(&self.body, size).map_err(|e| e.to_string())?;
        match plain.len() == size {
            true => Ok(Cow::Owned(plain)),
            false => Err("it is shorter than it was".into()),
        }
    }

    fn understood(self) -> Result<Entry, String> {
        let plain = self.plain()?;
        let (results, json) = split(&plain)?;
        let results: Vec<ResultMeasure> = match results.is_empty() {
            true => Vec::new(),
            false => serde_json::from_str(results).map_err(|e| e.to_string())?,
        };
        let body = Body::parse(self.kind.as_deref().unwrap_or("message"), json)
            .map_err(|error| format!("{error}: {}", error.source))?;
        let id = match self.id {
            Value::Blob(bytes) => {
                uuid::Uuid::from_slice(&bytes).map(EntryId::from).map_err(|e| e.to_string())?
            }
            Value::Text(text) => EntryId::new(text).map_err(|e| e.to_string())?,
            _ => return Err("its id makes no sense".into()),
        };
        Ok(Entry {
            seq: self.seq,
            at: time(self.at),
            id,
            body,
            measure: Measure {
                tokens: self.tokens,
                thinking: self.thinking.unwrap_or_default(),
                results,
            },
            tally: self.tally,
        })
    }

    /// The entry.
    pub(super) fn entry(self, id: SessionId) -> Result<Entry, StoreError> {
        let seq = self.seq;
        self.understood().map_err(|what| StoreError::Damaged { id, seq, what })
    }
}

fn split(plain: &[u8]) -> Result<(&str, &str), String> {
    let text = std::str::from_utf8(plain).map_err(|error| error.to_string())?;
    text.split_once('\n').ok_or_else(|| "it has no body".to_owned())
}

/// A count that was written as one; a damaged one is none, and `doctor` counts anew.
fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// A time from SQLite's milliseconds.
pub(super) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}
/// Setting up a decompressor takes longer than reading a short text with it, so each thread keeps
/// one.
fn decompress(body: &[u8], size: usize) -> std::io::Result<Vec<u8>> {
    type Slot = RefCell<Option<zstd::bulk::Decompressor<'static>>>;
    thread_local! {
        static SLOT: Slot = const { RefCell::new(None) };
    }
    SLOT.with_borrow_mut(|slot| {
        let reader = match slot {
            Some(reader) => reader,
            None => slot.insert(zstd::bulk::Decompressor::new()?),
        };
        reader.decompress(body, size)
    })
}
