//! Appending entries.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rethread_core::lease::LeaseRecord;
use rethread_core::store::{Appended, At, BoxError, Lease, Result};
use rethread_core::usage::{SUM_MAX, Spent};
use rethread_core::{NewEntry, Owner, SessionId, StoreError, Tally};
use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Row, params};

use super::column;
use super::error::OrStoreError;
use super::row::{self, sql_id};
use super::{Db, FOLDED};
use crate::row::{Ready, number, ready, time};

/// The action reported in errors; other writes reset the cached ends of logs.
pub(super) const ACTION: &str = "append";

/// How many logs' ends are cached.
const ENDS_MAX: usize = 4_096;

/// Entries after the mark before the times of their sessions are brought up to date. The more there
/// are, the fewer updates each entry costs. A list reads them, at a fraction of a microsecond each.
const FOLD_ENTRIES: u64 = 1_024;

/// Sessions written to after the mark before the same is done. A list looks up each of them, which
/// costs far more than reading an entry.
const FOLD_SESSIONS: usize = 128;

const FOLD: &str = "bring lists up to date";

/// A prepared append, before any lock is taken.
pub(super) struct Request {
    owner: Owner,
    id: SessionId,
    at: At,
    pub(super) entries: Vec<Ready>,
    pub(super) spent: Spent,
}

impl Request {
    pub(super) fn new(owner: &Owner, id: SessionId, at: At, entries: &[NewEntry]) -> Request {
        let spent = Spent::of(entries.iter().map(|entry| &entry.body));
        Request { owner: owner.clone(), id, at, entries: ready(entries), spent }
    }
}

/// The ends of logs that were appended to recently, so that the next append need not look them up.
///
/// Valid as long as no other process writes to the file, which SQLite reports as a number.
#[derive(Default)]
pub(super) struct Ends {
    version: i64,
    known: HashMap<SessionId, End>,
}

/// Where a log ends.
#[derive(Clone)]
struct End {
    owner: Owner,
    place: AppendTarget,
    tally: Tally,
}

impl Ends {
    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    fn see(&mut self, version: i64) {
        if version != self.version || self.known.len() > ENDS_MAX {
            self.forget();
            self.version = version;
        }
    }
}

/// Entries and sessions after the mark up to which lists are current, counted by this process.
#[derive(Default)]
pub(super) struct Unfolded {
    entries: u64,
    sessions: HashSet<i64>,
}

/// A session, as an append needs it.
#[derive(Clone)]
pub(super) struct AppendTarget {
    pub(super) n: i64,
    pub(super) lease: LeaseRecord,
}

impl Db {
    /// Runs appends in one transaction. Each has its own result; if the transaction itself fails,
    /// all of them fail.
    pub(super) fn append_group(&self, requests: &[Request]) -> Vec<Result<Appended>> {
        let mut outcomes = Vec::with_capacity(requests.len());
        let committed = self.write(ACTION, |tx| {
            let mut statement =
                tx.prepare_cached("PRAGMA data_version").or_store_error(self.place(), ACTION)?;
            let version =
                statement.query_row([], |row| row.get(0)).or_store_error(self.place(), ACTION)?;
            let mut ends = self.ends();
            ends.see(version);
            let mut insert = tx.prepare_cached(row::INSERT).or_store_error(self.place(), ACTION)?;
            for request in requests {
                let outcome = self.append(tx, &mut insert, request, &mut ends);
                // Any other error may have come in the middle of a batch, whose first entries must
                // not stay.
                match outcome {
                    Err(error) if !wrote_nothing(&error) => return Err(error),
                    outcome => outcomes.push(outcome),
                }
            }
            self.fold(tx)
        });
        match committed {
            Ok(()) => outcomes,
            Err(StoreError::Corrupt { .. } | StoreError::Backend { .. }) if requests.len() > 1 => {
                // One of them may have caused it, by a damaged page for example. None was stored.
                self.ends().forget();
                requests
                    .iter()
                    .flat_map(|one| self.append_group(std::slice::from_ref(one)))
                    .collect()
            }
            Err(first) => {
                self.ends().forget();
                let place = self.place().display().to_string();
                let again = |error: &StoreError| match error {
                    StoreError::Full { .. } => StoreError::Full { place: place.clone() },
                    StoreError::ReadOnly { .. } => StoreError::ReadOnly { place: place.clone() },
                    StoreError::Busy { .. } => StoreError::Busy { place: place.clone() },
                    other => StoreError::Backend {
                        store: "sqlite",
                        action: ACTION,
                        source: other.to_string().into(),
                    },
                };
                let mut outcomes: Vec<_> =
                    requests.iter().skip(1).map(|_| Err(again(&first))).collect();
                outcomes.insert(0, Err(first));
                outcomes
            }
        }
    }

    /// Ids come first: a repeated append returns its first result, even if something else would
    /// refuse it. They are looked up only if something does refuse it, including the index of ids.
    fn append(
        &self,
        tx: &Connection,
        insert: &mut CachedStatement<'_>,
        request: &Request,
        ends: &mut Ends,
    ) -> Result<Appended> {
        let Request { owner, id, at, entries, spent } = request;
        let mut end = match ends.known.get(id).filter(|end| end.owner == *owner) {
            Some(end) => end.clone(),
            None => self.end_of(tx, owner, *id)?,
        };
        let n = end.place.n;
        let allowed = self.allowed(*id, at, &end);
        if (allowed.is_err() || entries.len() > 1)
            && let Some(seqs) = self.repeated(tx, n, *id, entries)?
        {
            return self.appended_before(tx, request, end, seqs, ends);
        }
        let (record, lease) = allowed?;
        match self.insert(tx, insert, (*id, n), end.tally, entries) {
            Ok((seqs, tally)) => {
                end.tally = tally;
                spend(self.place(), tx, n, spent)?;
                self.keep_lease(tx, &mut end.place, record)?;
                ends.known.insert(*id, end);
                Ok(Appended { seqs, lease, repeated: false })
            }
            Err(StoreError::Backend { source, .. }) if entries.len() == 1 && is_taken(&source) => {
                match self.repeated(tx, n, *id, entries)? {
                    Some(seqs) => self.appended_before(tx, request, end, seqs, ends),
                    None => Err(StoreError::Backend { store: "sqlite", action: ACTION, source }),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The log already has the entries, at these positions.
    fn appended_before(
        &self,
        tx: &Connection,
        request: &Request,
        mut end: End,
        seqs: Vec<u64>,
        ends: &mut Ends,
    ) -> Result<Appended> {
        let now = self.world.now();
        let (record, lease) = end.place.lease.repeated(request.id, &request.at, now)?;
        if record.is_some() {
            self.keep_lease(tx, &mut end.place, record)?;
            ends.known.insert(request.id, end);
        }
        Ok(Appended { seqs, lease, repeated: true })
    }

    /// Stores the new holder of a session, if it changed.
    pub(super) fn keep_lease(
        &self,
        tx: &Connection,
        place: &mut AppendTarget,
        record: Option<LeaseRecord>,
    ) -> Result<()> {
        let Some(record) = record else { return Ok(()) };
        let sql = "UPDATE sessions SET fence = ?2, holder = ?3, until = ?4 WHERE n = ?1";
        let mut statement = tx.prepare_cached(sql).or_store_error(self.place(), "take a lease")?;
        let (holder, until) = match &record.holder {
            Some((holder, until)) => (Some(holder), Some(until.as_millisecond())),
            None => (None, None),
        };
        let fence = i64::try_from(record.fence).unwrap_or(i64::MAX);
        let done = statement.execute(params![place.n, fence, holder, until]);
        done.or_store_error(self.place(), "take a lease")?;
        place.lease = record;
        Ok(())
    }

    /// Whether a writer with this lease, who has seen this head, may write, and how the lease
    /// changes.
    fn allowed(
        &self,
        id: SessionId,
        at: &At,
        end: &End,
    ) -> Result<(Option<LeaseRecord>, Option<Lease>)> {
        let decided = end.place.lease.appended(id, at, self.world.now())?;
        let actual = end.tally.entries;
        match at.head.filter(|head| *head != actual) {
            Some(expected) => Err(StoreError::Conflict { id, expected, actual }),
            None => Ok(decided),
        }
    }

    /// A session and its tally, in one query.
    fn end_of(&self, tx: &Connection, owner: &Owner, id: SessionId) -> Result<End> {
        let mut statement =
            tx.prepare_cached(row::END).or_store_error(self.place(), "find a session")?;
        let found = statement.query_row(params![id.0.as_bytes(), owner.as_str()], |row| {
            let place = place(row, 12)?;
            let tally = match column::integer(row, 0)? {
                Some(_) => row::tally(row)?.0,
                None => Tally::default(),
            };
            Ok(End { owner: owner.clone(), place, tally })
        });
        found
            .optional()
            .or_store_error(self.place(), "find a session")?
            .ok_or(StoreError::NotFound { id })
    }

    /// Writes entries after those that `tally` counts; `insert` is [`row::INSERT`].
    pub(super) fn insert(
        &self,
        tx: &Connection,
        insert: &mut CachedStatement<'_>,
        (id, n): (SessionId, i64),
        mut tally: Tally,
        entries: &[Ready],
    ) -> Result<(Vec<u64>, Tally)> {
        let mut seqs = Vec::with_capacity(entries.len());
        for ready in entries {
            let seq = tally.entries;
            tally = tally.with(ready.effect);
            row::insert(insert, (id, n), ready, &tally).or_store_error(self.place(), ACTION)?;
            if tally.first == Some(seq) {
                let sql = "UPDATE sessions SET first_message = ?2 WHERE n = ?1";
                let mut statement = tx.prepare_cached(sql).or_store_error(self.place(), ACTION)?;
                statement
                    .execute(params![n, ready.preview])
                    .or_store_error(self.place(), ACTION)?;
            }
            seqs.push(seq);
        }
        if !entries.is_empty() {
            let mut unfolded = self.unfolded();
            unfolded.entries += entries.len() as u64;
            unfolded.sessions.insert(n);
        }
        Ok((seqs, tally))
    }

    /// The positions of these entries, if the log already has all of them.
    pub(super) fn repeated(
        &self,
        tx: &Connection,
        n: i64,
        id: SessionId,
        entries: &[Ready],
    ) -> Result<Option<Vec<u64>>> {
        let sql = "SELECT seq, hash FROM entries WHERE session = ?1 AND id = ?2";
        let mut statement = tx.prepare_cached(sql).or_store_error(self.place(), ACTION)?;
        let mut ids = std::collections::HashSet::new();
        let mut seqs = Vec::new();
        let mut seen = None;
        for ready in entries {
            let reused = || StoreError::IdReused { id, entry: ready.id.clone() };
            if entries.len() > 1 && !ids.insert(&ready.id) {
                return Err(reused());
            }
            let found: Option<(i64, Vec<u8>)> = statement
                .query_row(params![n, sql_id(&ready.id)], |row| {
                    Ok((row.get(0)?, column::bytes(row, 1)?))
                })
                .optional()
                .or_store_error(self.place(), ACTION)?;
            match found {
                Some((_, hash)) if !ready.is_stored_as(&hash) => return Err(reused()),
                Some((seq, _)) => {
                    seqs.push(u64::try_from(seq).unwrap_or_default());
                    seen = seen.or(Some(ready.id.clone()));
                }
                None => {}
            }
        }
        match seen {
            None => Ok(None),
            Some(_) if seqs.len() == entries.len() => Ok(Some(seqs)),
            Some(entry) => Err(StoreError::IdReused { id, entry }),
        }
    }

    /// Finds a session that is not in the trash.
    pub(super) fn place_of(
        &self,
        tx: &Connection,
        owner: &Owner,
        id: SessionId,
    ) -> Result<AppendTarget> {
        let sql = "SELECT n, fence, holder, until FROM sessions \
                   WHERE id = ?1 AND owner = ?2 AND trashed IS NULL";
        self.find_place(tx, sql, owner, id)
    }

    /// Finds a session, in the trash or not.
    pub(super) fn any_place_of(
        &self,
        tx: &Connection,
        owner: &Owner,
        id: SessionId,
    ) -> Result<AppendTarget> {
        let sql = "SELECT n, fence, holder, until FROM sessions WHERE id = ?1 AND owner = ?2";
        self.find_place(tx, sql, owner, id)
    }

    fn find_place(
        &self,
        tx: &Connection,
        sql: &str,
        owner: &Owner,
        id: SessionId,
    ) -> Result<AppendTarget> {
        let mut statement =
            tx.prepare_cached(sql).or_store_error(self.place(), "find a session")?;
        let found =
            statement.query_row(params![id.0.as_bytes(), owner.as_str()], |row| place(row, 0));
        found
            .optional()
            .or_store_error(self.place(), "find a session")?
            .ok_or(StoreError::NotFound { id })
    }

    /// A session's tally, and when its last entry was written.
    pub(super) fn tally(&self, tx: &Connection, n: i64) -> Result<Option<(Tally, i64)>> {
        let mut statement =
            tx.prepare_cached(row::LAST_TALLY).or_store_error(self.place(), "read a tally")?;
        statement.query_row([n], row::tally).optional().or_store_error(self.place(), "read a tally")
    }

    /// What was written after the mark up to which lists are current.
    pub(super) fn lag(&self, snapshot: &Connection) -> Result<Unfolded> {
        let sql = format!("SELECT (SELECT coalesce(max(rid), 0) FROM entries) - {FOLDED}");
        let lag: i64 =
            snapshot.query_row(&sql, [], |row| row.get(0)).or_store_error(self.place(), FOLD)?;
        let sessions = self.written_since_the_mark(snapshot)?.into_iter().collect();
        Ok(Unfolded { entries: u64::try_from(lag).unwrap_or_default(), sessions })
    }

    /// Stores a mark.
    pub(super) fn mark_again(&self, tx: &Connection) -> Result<()> {
        let sql = "UPDATE progress SET rid = rid WHERE what = 'folded'";
        let mut statement = tx.prepare_cached(sql).or_store_error(self.place(), ACTION)?;
        statement.execute([]).or_store_error(self.place(), ACTION).map(drop)
    }

    /// Updates the times of sessions, once there are enough entries after the mark.
    pub(super) fn fold(&self, tx: &Connection) -> Result<()> {
        let mut unfolded = self.unfolded();
        if unfolded.entries < FOLD_ENTRIES && unfolded.sessions.len() < FOLD_SESSIONS {
            return Ok(());
        }
        *unfolded = Unfolded::default();
        drop(unfolded);
        let sql = format!("SELECT {FOLDED}, (SELECT coalesce(max(rid), 0) FROM entries)");
        let mut statement = tx.prepare_cached(&sql).or_store_error(self.place(), FOLD)?;
        let (mark, last): (i64, i64) = statement
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .or_store_error(self.place(), FOLD)?;
        let sql = "UPDATE sessions SET last_at = (SELECT at FROM entries WHERE session = n \
                   ORDER BY seq DESC LIMIT 1) \
                   WHERE n IN (SELECT session FROM entries NOT INDEXED WHERE rid > ?1)";
        let mut statement = tx.prepare_cached(sql).or_store_error(self.place(), FOLD)?;
        statement.execute([mark]).or_store_error(self.place(), FOLD)?;
        let sql = "INSERT INTO progress (what, rid) VALUES ('folded', ?1) \
                   ON CONFLICT (what) DO UPDATE SET rid = excluded.rid";
        let mut statement = tx.prepare_cached(sql).or_store_error(self.place(), FOLD)?;
        statement.execute([last]).or_store_error(self.place(), FOLD)?;
        Ok(())
    }
}

/// Adds to what each model was charged.
pub(super) fn spend(path: &Path, tx: &Connection, n: i64, spent: &Spent) -> Result<()> {
    const WHAT: &str = "count what was charged";
    if spent.anew {
        let mut statement =
            tx.prepare_cached("DELETE FROM usage WHERE session = ?1").or_store_error(path, WHAT)?;
        statement.execute([n]).or_store_error(path, WHAT)?;
    }
    for (model, usage) in &spent.models {
        let sql = "INSERT INTO usage (session, model, input, output, cache_read, cache_write, ms) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (session, model) DO UPDATE SET \
                   input = min(input + excluded.input, ?8), \
                   output = min(output + excluded.output, ?8), \
                   cache_read = min(cache_read + excluded.cache_read, ?8), \
                   cache_write = min(cache_write + excluded.cache_write, ?8), \
                   ms = min(ms + excluded.ms, ?8)";
        let mut statement = tx.prepare_cached(sql).or_store_error(path, WHAT)?;
        let [input, output, read, write, ms] = usage.columns().map(number);
        let most = number(SUM_MAX);
        statement
            .execute(params![n, model, input, output, read, write, ms, most])
            .or_store_error(path, WHAT)?;
    }
    Ok(())
}

fn place(row: &Row<'_>, first: usize) -> rusqlite::Result<AppendTarget> {
    let fence = column::integer(row, first + 1)?.unwrap_or_default();
    let holder = column::lossy_or_null(row, first + 2)?;
    let until = column::integer(row, first + 3)?;
    let lease = LeaseRecord {
        fence: u64::try_from(fence).unwrap_or_default(),
        holder: holder.zip(until.map(time)),
    };
    Ok(AppendTarget { n: row.get(first)?, lease })
}

/// Whether SQLite refused a row because another has its id.
fn is_taken(source: &BoxError) -> bool {
    let code =
        source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    code == Some(ErrorCode::ConstraintViolation)
}

/// Whether an append was refused for a reason of its own, which is detected before any of it is
/// written.
fn wrote_nothing(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotFound { .. }
            | StoreError::Conflict { .. }
            | StoreError::IdReused { .. }
            | StoreError::Held { .. }
            | StoreError::StaleFence { .. }
    )
}
