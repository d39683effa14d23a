//! Reading one session, a list of sessions, or a part of a log.

use std::ops::Range;

use rethread_core::store::{Cursor, Filter, Page, Result};
use rethread_core::usage::ModelUsage;
use rethread_core::{
    Entry, EntryId, Header, Key, Owner, Session, SessionId, StoreError, Tally, readable_id,
};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::append::{FOLD_SESSIONS, Statement};
use super::connection::{Answer, Link};
use super::error::Fail;
use super::{Db, sql};
use crate::row::{self, Hash, Stored, TALLY_COLUMNS, time};

type Read<T> = std::result::Result<T, Fail>;

/// The hash of a text that may be too long for an index.
pub(super) fn hash(text: &str) -> Vec<u8> {
    Sha256::digest(text).to_vec()
}

/// A row of [`sql::SESSION`] that is not decoded yet.
struct SessionRow {
    id: SessionId,
    /// Its position in a list.
    last_at: i64,
    header: String,
    first_message: Vec<u8>,
    keys: Vec<String>,
    tally: Tally,
    models: Vec<String>,
    sums: Vec<i64>,
}

impl SessionRow {
    fn new(row: &Row) -> Read<SessionRow> {
        let (seq, at): (Option<i64>, Option<i64>) = (row.try_get(6)?, row.try_get(5)?);
        let tally = match seq {
            Some(seq) => tally(row, seq, 7)?,
            None => Tally::default(),
        };
        Ok(SessionRow {
            id: SessionId(row.try_get(0)?),
            last_at: at.unwrap_or(row.try_get(2)?),
            header: row.try_get(1)?,
            first_message: row.try_get(3)?,
            keys: row.try_get(4)?,
            tally,
            models: row.try_get(7 + TALLY_COLUMNS)?,
            sums: row.try_get(8 + TALLY_COLUMNS)?,
        })
    }

    fn understood(self) -> Result<Session> {
        let keys = self.keys.into_iter().filter_map(|key| Key::new(key).ok());
        let (mut keys, readable_id) = readable_id::split(keys);
        keys.sort_unstable();
        let sums = self.sums.chunks_exact(5).map(|columns| {
            let sum = |index: usize| u64::try_from(columns[index]).unwrap_or_default();
            ModelUsage::of_columns([sum(0), sum(1), sum(2), sum(3), sum(4)])
        });
        let usage = self.models.into_iter().zip(sums).collect();
        Ok(Session {
            header: header_of(self.id, &self.header)?,
            shown_as: None,
            keys,
            readable_id,
            tally: self.tally,
            last_activity_at: time(self.last_at),
            first_message: String::from_utf8_lossy(&self.first_message).into_owned(),
            usage,
        })
    }
}

/// A header as it is stored.
pub(super) fn header_of(id: SessionId, json: &str) -> Result<Header> {
    serde_json::from_str(json).map_err(|error| StoreError::Damaged {
        id,
        seq: 0,
        what: format!("its header cannot be read: {error}"),
    })
}

/// The tally in the columns from `first` on.
pub(super) fn tally(row: &Row, seq: i64, first: usize) -> Read<Tally> {
    let mut columns = [None; TALLY_COLUMNS];
    for (index, column) in columns.iter_mut().enumerate() {
        *column = row.try_get(first + index)?;
    }
    Ok(row::tally_of(u64::try_from(seq).unwrap_or_default(), columns))
}

/// An entry in the columns from `first` on.
pub(super) fn stored(row: &Row, first: usize) -> Read<Stored> {
    let seq: i64 = row.try_get(first)?;
    let id: String = row.try_get(first + 2)?;
    Ok(Stored {
        seq: u64::try_from(seq).unwrap_or_default(),
        at: row.try_get(first + 1)?,
        id: EntryId::new(id).map_err(|error| error.to_string()),
        kind: row.try_get(first + 3)?,
        tokens: row::small(row.try_get(first + 4)?),
        thinking: row.try_get::<_, Option<i64>>(first + 5)?.map(row::small),
        size: row.try_get(first + 6)?,
        body: row.try_get(first + 7)?,
        tally: tally(row, seq, first + 8)?,
        hash: Hash::stored(row.try_get(first + 19)?),
    })
}

/// The session in an answer.
pub(super) fn session(answer: &Answer, id: SessionId) -> Read<Session> {
    let row = answer.rows.first().ok_or(StoreError::NotFound { id })?;
    Ok(SessionRow::new(row)?.understood()?)
}

/// The id in an answer.
pub(super) fn found(answer: &Answer) -> Read<Option<SessionId>> {
    Ok(match answer.rows.first() {
        Some(row) => Some(SessionId(row.try_get(0)?)),
        None => None,
    })
}

impl Db {
    pub(super) fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        self.pool.run("read a session", async |link, _| {
            session(&link.one(sql::SESSION, &[&owner.as_str(), &id.0]).await?, id)
        })
    }

    pub(super) fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        self.pool.run("find a name", async |link, _| {
            found(&link.one(sql::NAMED, &[&owner.as_str(), &name]).await?)
        })
    }

    pub(super) fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        let hash = hash(key.as_str());
        self.pool.run("resolve a key", async |link, _| {
            found(&link.one(sql::RESOLVE, &[&owner.as_str(), &hash]).await?)
        })
    }

    pub(super) fn with_prefix(
        &self,
        owner: &Owner,
        digits: &str,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let bound = |fill: char| -> Option<Uuid> {
            let digits: String = digits.chars().chain(std::iter::repeat(fill)).take(32).collect();
            Uuid::try_parse(&digits).ok()
        };
        let (Some(low), Some(high)) = (bound('0'), bound('f')) else { return Ok(Vec::new()) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.pool.run("find an id", async |link, _| {
            let answer =
                link.one(sql::WITH_PREFIX, &[&owner.as_str(), &low, &high, &limit]).await?;
            answer.rows.iter().map(|row| Ok(SessionId(row.try_get(0)?))).collect()
        })
    }

    pub(super) fn entries(
        &self,
        owner: &Owner,
        id: SessionId,
        range: Range<u64>,
    ) -> Result<Vec<Entry>> {
        let (name, session, now) = (owner.as_str(), id.0, self.now());
        let (start, end) = (row::number(range.start), row::number(range.end));
        self.pool.run("read entries", async |link, _| {
            let answers = link
                .all(&[
                    // Before the entries, so that writes in between are not missed.
                    (sql::END, &[&name, &session]),
                    (sql::ENTRIES, &[&name, &session, &start, &end]),
                    (sql::PLACE, &[&name, &session, &now]),
                ])
                .await?;
            if answers[2].rows.is_empty() {
                return Err(StoreError::NotFound { id }.into());
            }
            let last: Option<i64> =
                answers[0].rows.first().map(|row| row.try_get(0)).transpose()?;
            let head = last.and_then(|last| u64::try_from(last + 1).ok()).unwrap_or_default();
            let rows = answers[1].rows.iter().map(|row| stored(row, 0));
            let rows: Vec<Stored> = rows.collect::<Read<_>>()?;
            Ok(row::without_gaps(id, &range, rows.into_iter().map(Ok), || Ok(head))?)
        })
    }

    /// Lists sessions by their stored times, and merges in the few sessions written to since those
    /// were updated.
    pub(super) fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let (mut rows, fresh) = self
            .pool
            .run("list", async |link, _| self.listed(link, owner, filter, after, limit).await)?;
        if fresh > FOLD_SESSIONS {
            match self.fold(owner) {
                // A standby cannot do this; lists are still correct without it, only slower.
                Ok(()) | Err(StoreError::ReadOnly { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse((row.last_at, row.id)));
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more);
        let next = next.map(|row| Cursor { at: time(row.last_at), id: row.id });
        let mut page = Page { sessions: Vec::new(), next, damaged: Vec::new() };
        for row in rows {
            match row.understood() {
                Ok(session) => page.sessions.push(session),
                Err(StoreError::Damaged { id, .. }) => page.damaged.push(id),
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// The rows of a page, too many of them and in any order, and how many sessions are not up to
    /// date.
    async fn listed(
        &self,
        link: &mut Link,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Read<(Vec<SessionRow>, usize)> {
        let owner = owner.as_str();
        let workspace = filter.workspace.as_deref().map(hash);
        let before = after.map_or(i64::MAX, |cursor| cursor.at.as_millisecond());
        let below = after.map_or(Uuid::max(), |cursor| cursor.id.0);
        let (newest, trashed) = (filter.newest_of_chain, filter.trashed);
        let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let (no, yes) = (false, true);
        let everything = i64::MAX;
        let (kept, put_away): (Statement<'_>, Statement<'_>) = match &workspace {
            Some(hash) => (
                (
                    sql::PAGE_OF_WORKSPACE,
                    &[&owner, &no, &before, &below, &newest, &wanted, &trashed, hash],
                ),
                (
                    sql::PAGE_OF_WORKSPACE,
                    &[&owner, &yes, &before, &below, &newest, &wanted, &trashed, hash],
                ),
            ),
            None => (
                (sql::PAGE, &[&owner, &no, &before, &below, &newest, &wanted, &trashed]),
                (sql::PAGE, &[&owner, &yes, &before, &below, &newest, &wanted, &trashed]),
            ),
        };
        let fresh: Statement<'_> =
            (sql::FRESH, &[&owner, &filter.archived, &workspace, &newest, &everything, &trashed]);
        let mut statements: Vec<Statement<'_>> =
            vec![(sql::BEGIN_SNAPSHOT, &[]), (sql::PLAN_ANEW, &[]), fresh];
        if filter.archived != Some(true) {
            statements.push(kept);
        }
        if filter.archived != Some(false) {
            statements.push(put_away);
        }
        statements.push((sql::COMMIT, &[]));
        let answers = link.all(&statements).await?;
        let mut rows = Vec::new();
        for row in &answers[2].rows {
            let row = SessionRow::new(row)?;
            if (row.last_at, row.id.0) < (before, below) {
                rows.push(row);
            }
        }
        for row in answers[3..].iter().flat_map(|answer| &answer.rows) {
            rows.push(SessionRow::new(row)?);
        }
        Ok((rows, answers[2].rows.len()))
    }
}
