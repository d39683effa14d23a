//! Appending entries.
//!
//! The first attempt is a single statement that uses the cached end of the log: it writes only if
//! the log still ends there and the writer is allowed to, so it takes one round trip. If it writes
//! nothing, or the position or an id is taken, the session is locked and read, and the append is
//! decided as the contract says.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rethread_core::lease::LeaseRecord;
use rethread_core::limits::LEASE_MAX;
use rethread_core::store::{Appended, At, Lease, LeaseChange, Result};
use rethread_core::usage::{SUM_MAX, Spent};
use rethread_core::{EntryId, NewEntry, Owner, SessionId, StoreError, Tally};
use tokio_postgres::types::ToSql;

use super::connection::{Answer, Link};
use super::error::Fail;
use super::{Db, sql};
use crate::row::{self, Ready, number, time};

pub(super) const ACTION: &str = "append";

/// How many logs' ends are cached.
const ENDS_MAX: usize = 4_096;

/// How many sessions may be written to before lists are brought up to date again. A list looks up
/// each of them.
pub(super) const FOLD_SESSIONS: usize = 128;

/// A prepared append, before anything is sent.
pub(super) struct Request {
    pub(super) owner: Owner,
    pub(super) id: SessionId,
    pub(super) at: At,
    pub(super) entries: Vec<Ready>,
    pub(super) spent: Spent,
}

impl Request {
    pub(super) fn new(owner: &Owner, id: SessionId, at: At, entries: &[NewEntry]) -> Request {
        let spent = Spent::of(entries.iter().map(|entry| &entry.body));
        Request { owner: owner.clone(), id, at, entries: row::ready(entries), spent }
    }
}

/// The ends of logs, as this process last saw them. They may be out of date at any time; the
/// statement that uses one checks it.
#[derive(Default)]
pub(super) struct Ends(Mutex<HashMap<(Owner, SessionId), End>>);

/// Where a log ends.
#[derive(Clone, Default)]
pub(super) struct End {
    tally: Tally,
    /// The last entry, which shows whether it is still the same log.
    last: String,
}

impl Ends {
    fn known(&self) -> MutexGuard<'_, HashMap<(Owner, SessionId), End>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, request: &Request, end: End) {
        let mut known = self.known();
        if known.len() >= ENDS_MAX {
            known.clear();
        }
        known.insert((request.owner.clone(), request.id), end);
    }

    fn forget(&self, owner: &Owner, id: SessionId) {
        self.known().remove(&(owner.clone(), id));
    }
}

/// Sessions this process has written to since it last brought lists up to date.
#[derive(Default)]
pub(super) struct Touched(Mutex<HashMap<Owner, HashSet<SessionId>>>);

impl Touched {
    /// Whether there are so many that lists should be brought up to date.
    fn touch(&self, owner: &Owner, id: SessionId) -> bool {
        let mut touched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = match touched.get_mut(owner) {
            Some(sessions) => sessions,
            None => touched.entry(owner.clone()).or_default(),
        };
        sessions.insert(id);
        let many = sessions.len() >= FOLD_SESSIONS;
        if many {
            touched.remove(owner);
        }
        many
    }
}

/// The result of appending entries.
pub(super) struct Inserted {
    /// Their positions; empty if nothing was written.
    pub(super) seqs: Vec<u64>,
    lease: Option<Lease>,
    end: End,
    /// The results of all statements of the batch.
    pub(super) answers: Vec<Answer>,
}

/// A lease as the store sees it.
struct Place {
    lease: LeaseRecord,
    now: Timestamp,
}

/// The new holder of a session, as columns.
struct Held {
    changed: bool,
    fence: i64,
    holder: Option<String>,
    until: Option<i64>,
}

impl Held {
    fn new(record: Option<LeaseRecord>) -> Held {
        let changed = record.is_some();
        let LeaseRecord { fence, holder } = record.unwrap_or_default();
        let (holder, until) = holder.unzip();
        let until = until.map(|until: Timestamp| until.as_millisecond());
        Held { changed, fence: number(fence), holder, until }
    }

    /// The parameters of [`sql::SET_LEASE`].
    fn params<'a>(
        &'a self,
        owner: &'a &str,
        session: &'a uuid::Uuid,
    ) -> [&'a (dyn ToSql + Sync); 5] {
        [owner, session, &self.fence, &self.holder, &self.until]
    }
}

impl Db {
    pub(super) fn append(&self, request: &Request) -> Result<Appended> {
        let appended = self.pool.run(ACTION, async |link, doubt| {
            if !doubt && let Some(appended) = self.append_at_once(link, request).await? {
                return Ok(appended);
            }
            self.append_with_care(link, request).await
        });
        if appended.is_err() {
            self.ends.forget(&request.owner, request.id);
        }
        if appended.is_ok() && self.touched.touch(&request.owner, request.id) {
            // It is stored. A slower list is not an error.
            drop(self.fold(&request.owner));
        }
        appended
    }

    /// Appends at the cached end of the log; `None` if that did not work.
    async fn append_at_once(
        &self,
        link: &mut Link,
        request: &Request,
    ) -> std::result::Result<Option<Appended>, Fail> {
        let known = self.ends.known().get(&(request.owner.clone(), request.id)).cloned();
        let Some(end) = known else { return Ok(None) };
        let head = end.tally.entries;
        let asks_the_first = |ready: &Ready| ready.preview.is_some();
        if request.entries.is_empty()
            || request.spent.anew
            || request.at.head.is_some_and(|expected| expected != head)
            || (end.tally.first.is_none() && request.entries.iter().any(asks_the_first))
        {
            return Ok(None);
        }
        match self.insert(link, request, &request.at, &end, &[], &[]).await {
            Ok(Inserted { seqs, lease, end, .. }) if !seqs.is_empty() => {
                self.ends.remember(request, end);
                Ok(Some(Appended { seqs, lease, repeated: false }))
            }
            Ok(_) => Ok(None),
            Err(fail) if fail.taken().is_some() => Ok(None),
            Err(fail) => Err(fail),
        }
    }

    /// Locks the session, decides, and writes.
    async fn append_with_care(
        &self,
        link: &mut Link,
        request: &Request,
    ) -> std::result::Result<Appended, Fail> {
        let Request { owner, id, at, entries, spent } = request;
        let (name, session, now) = (owner.as_str(), id.0, self.now());
        let ids: Vec<&str> = entries.iter().map(|ready| ready.id.as_str()).collect();
        let answers = link
            .all(&[
                (sql::BEGIN, &[]),
                (sql::LOCK_PLACE, &[&name, &session, &now]),
                (sql::END, &[&name, &session]),
                (sql::IDS, &[&name, &session, &ids]),
            ])
            .await?;
        let place = place(&answers[1], *id)?;
        let end = end(&answers[2])?;
        if let Some(seqs) = repeated(&answers[3], *id, entries)? {
            let (record, lease) = place.lease.repeated(*id, at, place.now)?;
            let held = Held::new(record);
            // The lock is a write, so this commit waits for the standby as the first one should
            // have: an entry acknowledged now is as safe as a new one.
            let keep: Statement<'_> = (sql::SET_LEASE, &held.params(&name, &session));
            let commit: Statement<'_> = (sql::COMMIT, &[]);
            let statements = [keep, commit];
            link.all(&statements[usize::from(!held.changed)..]).await?;
            return Ok(Appended { seqs, lease, repeated: true });
        }
        let (record, lease) = allowed(*id, at, &place, &end.tally)?;
        let held = Held::new(record);
        let keep: Statement<'_> = (sql::SET_LEASE, &held.params(&name, &session));
        let preview = first_question(&end.tally, entries);
        let first: Statement<'_> = (sql::SET_FIRST, &[&name, &session, &preview]);
        let mut after: Vec<Statement<'_>> = Vec::new();
        after.extend(preview.is_some().then_some(first));
        after.extend(held.changed.then_some(keep));
        after.push((sql::COMMIT, &[]));
        if entries.is_empty() {
            link.all(&after).await?;
            return Ok(Appended { seqs: Vec::new(), lease, repeated: false });
        }
        let by_lock = At { head: None, fence: Some(place.lease.fence), lease: LeaseChange::Keep };
        let forget: Statement<'_> = (sql::FORGET_USAGE, &[&name, &session]);
        let before = [forget];
        let before = &before[usize::from(!spent.anew)..];
        match self.insert(link, request, &by_lock, &end, before, &after).await {
            Ok(Inserted { seqs, end, .. }) if !seqs.is_empty() => {
                self.ends.remember(request, end);
                Ok(Appended { seqs, lease, repeated: false })
            }
            // A snapshot from before the lock was granted may not have shown the end of the log.
            Ok(_) => Err(Fail::Again),
            Err(fail) if fail.taken().is_some() => Err(Fail::Again),
            Err(fail) => Err(fail),
        }
    }

    /// Writes entries after `end`, with other statements before and after them, in one round trip.
    /// No seqs are returned if nothing was written.
    pub(super) async fn insert(
        &self,
        link: &mut Link,
        request: &Request,
        at: &At,
        end: &End,
        before: &[Statement<'_>],
        after: &[Statement<'_>],
    ) -> std::result::Result<Inserted, Fail> {
        let Request { owner, id, entries, .. } = request;
        let (owner, session, fence, now) = (owner.as_str(), id.0, at.fence.map(number), self.now());
        let (head, last) = (number(end.tally.entries), end.last.as_str());
        let columns = Columns::new(*id, end.tally, entries);
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&owner, &session, &fence, &now, &head, &last];
        params.extend(columns.params());
        let charged = Charged::new(&request.spent);
        params.extend(charged.params());
        let (taker, ttl) = match &at.lease {
            LeaseChange::Take { holder, ttl } => (holder.as_str(), millis(*ttl)),
            _ => ("", 0),
        };
        let append = match (&at.lease, fence) {
            (LeaseChange::Take { .. }, _) => {
                params[2] = &None::<i64>;
                params.extend([&taker as &(dyn ToSql + Sync), &ttl]);
                sql::APPEND_TAKING
            }
            (LeaseChange::GiveBack, Some(_)) => sql::APPEND_GIVING_BACK,
            _ => sql::APPEND,
        };
        let mut statements = before.to_vec();
        statements.push((append, &params));
        statements.extend_from_slice(after);
        let answers = link.all(&statements).await?;
        let written = answers[before.len()].written;
        if written != entries.len() as u64 {
            return Ok(Inserted { seqs: Vec::new(), lease: None, end: end.clone(), answers });
        }
        let lease = match answers[before.len()].rows.first() {
            Some(row) => Some(lease(row)?),
            None => None,
        };
        let seqs = (end.tally.entries..columns.tally.entries).collect();
        let last = entries.last().map(|ready| ready.id.as_str().to_owned()).unwrap_or_default();
        Ok(Inserted { seqs, lease, end: End { tally: columns.tally, last }, answers })
    }

    /// Brings the times of an owner's sessions up to date.
    pub(super) fn fold(&self, owner: &Owner) -> Result<()> {
        const WHAT: &str = "bring lists up to date";
        let name = owner.as_str();
        loop {
            let more = self.pool.run(WHAT, async |link, _| {
                let limit = FOLD_SESSIONS as i64;
                let some = link.one(sql::SOME_FRESH, &[&name, &limit]).await?;
                let ids: Vec<uuid::Uuid> = some
                    .rows
                    .iter()
                    .map(|row| row.try_get(0))
                    .collect::<std::result::Result<_, _>>()?;
                if ids.is_empty() {
                    return Ok(false);
                }
                link.all(&[
                    (sql::BEGIN, &[]),
                    (sql::LOCK_SESSIONS, &[&name, &ids]),
                    (sql::FOLD, &[&name, &ids]),
                    (sql::FOLDED, &[&name, &ids]),
                    (sql::COMMIT, &[]),
                ])
                .await?;
                Ok(ids.len() == FOLD_SESSIONS)
            })?;
            if !more {
                return Ok(());
            }
        }
    }
}

/// A statement and its parameters.
pub(super) type Statement<'a> = (&'static str, super::connection::Params<'a>);

/// The preview of the session's first question, if it is among these.
pub(super) fn first_question<'a>(tally: &Tally, entries: &'a [Ready]) -> Option<&'a [u8]> {
    if tally.first.is_some() {
        return None;
    }
    entries.iter().find_map(|ready| ready.preview.as_deref()).map(str::as_bytes)
}

/// Whether a writer with this lease, who has seen this head, may write, and how the lease changes.
fn allowed(
    id: SessionId,
    at: &At,
    place: &Place,
    tally: &Tally,
) -> Result<(Option<LeaseRecord>, Option<Lease>)> {
    let decided = place.lease.appended(id, at, place.now)?;
    let actual = tally.entries;
    match at.head.filter(|head| *head != actual) {
        Some(expected) => Err(StoreError::Conflict { id, expected, actual }),
        None => Ok(decided),
    }
}

/// Whether the session is leased, so that it must not be deleted.
pub(super) fn free(answer: &Answer, id: SessionId) -> std::result::Result<(), Fail> {
    let Place { lease, now } = place(answer, id)?;
    Ok(lease.is_free(id, now)?)
}

/// The fence of a lease that was taken, and when it ends.
pub(super) fn lease(row: &tokio_postgres::Row) -> std::result::Result<Lease, Fail> {
    let fence: i64 = row.try_get(0)?;
    let until = time(row.try_get(1)?);
    Ok(Lease { fence: u64::try_from(fence).unwrap_or_default(), until })
}

/// The requested duration of a lease.
pub(super) fn millis(ttl: Duration) -> i64 {
    number(u64::try_from(ttl.min(LEASE_MAX).as_millis()).unwrap_or(u64::MAX))
}

fn place(answer: &Answer, id: SessionId) -> std::result::Result<Place, Fail> {
    let row = answer.rows.first().ok_or(StoreError::NotFound { id })?;
    let lease: (Option<String>, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
    let lease = LeaseRecord {
        fence: u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or_default(),
        holder: lease.0.zip(lease.1.map(time)),
    };
    Ok(Place { lease, now: time(row.try_get(3)?) })
}

fn end(answer: &Answer) -> std::result::Result<End, Fail> {
    let Some(row) = answer.rows.first() else { return Ok(End::default()) };
    let seq: i64 = row.try_get(0)?;
    let tally = super::read::tally(row, seq, 2)?;
    Ok(End { tally, last: row.try_get(1)? })
}

/// The positions of these entries, if the log already has all of them.
pub(super) fn repeated(
    answer: &Answer,
    id: SessionId,
    entries: &[Ready],
) -> std::result::Result<Option<Vec<u64>>, Fail> {
    let mut stored: HashMap<String, (u64, Vec<u8>)> = HashMap::new();
    for row in &answer.rows {
        let seq: i64 = row.try_get(1)?;
        stored.insert(row.try_get(0)?, (u64::try_from(seq).unwrap_or_default(), row.try_get(2)?));
    }
    let mut ids: HashSet<&EntryId> = HashSet::new();
    let (mut seqs, mut seen) = (Vec::new(), None);
    for ready in entries {
        let reused = || StoreError::IdReused { id, entry: ready.id.clone() };
        if !ids.insert(&ready.id) {
            return Err(reused().into());
        }
        match stored.get(ready.id.as_str()) {
            Some((_, hash)) if !ready.is_stored_as(hash) => return Err(reused().into()),
            Some((seq, _)) => {
                seqs.push(*seq);
                seen = seen.or(Some(&ready.id));
            }
            None => {}
        }
    }
    match seen {
        None => Ok(None),
        Some(_) if seqs.len() == entries.len() => Ok(Some(seqs)),
        Some(entry) => Err(StoreError::IdReused { id, entry: entry.clone() }.into()),
    }
}

/// What models were charged, as columns.
struct Charged<'a> {
    models: Vec<&'a str>,
    sums: [Vec<i64>; 5],
    most: i64,
}

impl<'a> Charged<'a> {
    fn new(spent: &'a Spent) -> Charged<'a> {
        let mut sums: [Vec<i64>; 5] = Default::default();
        for usage in spent.models.values() {
            for (column, sum) in sums.iter_mut().zip(usage.columns()) {
                column.push(number(sum));
            }
        }
        let models = spent.models.keys().map(String::as_str).collect();
        Charged { models, sums, most: number(SUM_MAX) }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.models];
        params.extend(self.sums.iter().map(|column| column as &(dyn ToSql + Sync)));
        params.push(&self.most);
        params
    }
}

/// Entries as columns, one value for each entry, and the tally after them.
struct Columns<'a> {
    tally: Tally,
    seq: Vec<i64>,
    at: Vec<i64>,
    id: Vec<&'a str>,
    kind: Vec<Option<&'a str>>,
    hash: Vec<Vec<u8>>,
    tokens: Vec<i64>,
    thinking: Vec<Option<i64>>,
    size: Vec<Option<i64>>,
    body: Vec<&'a [u8]>,
    tallies: [Vec<Option<i64>>; row::TALLY_COLUMNS],
}

impl<'a> Columns<'a> {
    fn new(id: SessionId, mut tally: Tally, entries: &'a [Ready]) -> Columns<'a> {
        let (mut seq, mut hash) = (Vec::new(), Vec::new());
        let mut tallies: [Vec<Option<i64>>; row::TALLY_COLUMNS] = Default::default();
        for ready in entries {
            seq.push(number(tally.entries));
            hash.push(ready.sealed(id, tally.entries).to_vec());
            tally = tally.with(ready.effect);
            for (column, value) in tallies.iter_mut().zip(row::tally_columns(&tally)) {
                column.push(value);
            }
        }
        Columns {
            tally,
            seq,
            at: entries.iter().map(|ready| ready.at).collect(),
            id: entries.iter().map(|ready| ready.id.as_str()).collect(),
            kind: entries.iter().map(|ready| ready.kind.as_deref()).collect(),
            hash,
            tokens: entries.iter().map(|ready| i64::from(ready.tokens)).collect(),
            thinking: entries.iter().map(|ready| ready.thinking().map(i64::from)).collect(),
            size: entries.iter().map(|ready| ready.size).collect(),
            body: entries.iter().map(|ready| ready.body.as_slice()).collect(),
            tallies,
        }
    }

    /// In the order of the statement's parameters.
    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &self.seq,
            &self.at,
            &self.id,
            &self.kind,
            &self.hash,
            &self.tokens,
            &self.thinking,
            &self.size,
            &self.body,
        ];
        params.extend(self.tallies.iter().map(|column| column as &(dyn ToSql + Sync)));
        params
    }
}
