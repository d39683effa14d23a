//! Maintenance: checks derived data against the entries.

use rethread_core::search::SearchText;
use rethread_core::store::{Finding, FindingState, Result};
use rethread_core::usage::UsageByModel;
use rethread_core::{Owner, SessionId, StoreError, Tally};
use tokio_postgres::types::ToSql;

use super::append::Statement;
use super::connection::Link;
use super::error::Fail;
use super::read::{hash, header_of, stored};
use super::sessions::{Columns, write_header};
use super::{Db, search, sql};
use crate::check::{LogCheck, check_blobs};
use crate::row::{number, tally_columns};

const WHAT: &str = "check the store";

/// Entries read by one statement.
const CHECK_ENTRIES: i64 = 1_000;

fn repairable(repair: bool) -> FindingState {
    match repair {
        true => FindingState::Repaired,
        false => FindingState::Repairable,
    }
}

/// The result of checking a log.
pub(super) struct CheckedLog {
    pub(super) log: LogCheck,
    last_at: Option<i64>,
    /// For the entries that should be in the search index: how many are missing.
    searchable: Vec<u64>,
}

impl Db {
    pub(super) fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        let rows: Vec<(String, uuid::Uuid)> = self.pool.run(WHAT, async |link, _| {
            let answer = link.one(sql::EVERYTHING, &[]).await?;
            answer.rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })?;
        let known = |(owner, id)| Some((Owner::new(owner).ok()?, SessionId(id)));
        Ok(rows.into_iter().filter_map(known).collect())
    }

    /// Writes the format.
    pub(super) fn can_write(&self) -> Result<()> {
        self.pool.run("write", async |link, _| link.one(sql::SAME_FORMAT, &[]).await.map(drop))
    }

    /// Checks what belongs to no session, and how many sessions are pending for lists and search.
    pub(super) fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        let (strays, dangling, unsearched) = self.pool.run(WHAT, async |link, _| {
            let answers = link
                .all(&[
                    (sql::BEGIN, &[]),
                    (sql::NO_TIMEOUT, &[]),
                    (sql::STRAYS, &[]),
                    (sql::DANGLING, &[]),
                    (sql::LAG, &[]),
                    (sql::COMMIT, &[]),
                ])
                .await?;
            let count = |answer: usize, column: usize| -> std::result::Result<i64, _> {
                answers[answer].rows.first().map_or(Ok(0), |row| row.try_get(column))
            };
            Ok((count(2, 0)?, count(3, 0)?, count(4, 1)?))
        })?;
        let mut findings = Vec::new();
        let mut note = |what: String, state| {
            findings.push(Finding { session: None, seq: None, what, state });
        };
        if strays > 0 {
            note(format!("{strays} entries belong to no session"), FindingState::Damaged);
        }
        if dangling > 0 {
            if repair {
                self.pool.run(WHAT, async |link, _| {
                    link.one(sql::DROP_DANGLING, &[]).await?;
                    Ok(())
                })?;
            }
            note(format!("{dangling} keys point at sessions that are gone"), repairable(repair));
        }
        if unsearched > 0 {
            let sessions = if unsearched == 1 { "session" } else { "sessions" };
            let what =
                format!("search has not indexed {unsearched} {sessions} yet; the next search does");
            note(what, FindingState::Noted);
        }
        Ok(findings)
    }

    /// Checks one session, entry by entry.
    pub(super) fn check_session(
        &self,
        owner: &Owner,
        id: SessionId,
        repair: bool,
    ) -> Result<Vec<Finding>> {
        let CheckedLog { log, last_at, searchable } = self.walk(owner, id)?;
        let LogCheck { mut audit, first_message, spent, named, .. } = log;
        if let Some(spent) = spent
            && self.get(owner, id)?.usage != spent.models
        {
            if repair {
                self.set_usage(owner, id, &spent.models)?;
            }
            audit.note(None, "the usage totals were wrong".into(), repairable(repair));
        }
        let kept = self.kept_blobs(sql::SAYS, owner, id)?;
        let read = |blob| self.kept_blob(sql::SAYS, owner, id, blob);
        check_blobs(&mut audit, &named, &kept, read)?;
        let tokens = std::mem::take(&mut audit.wrong_tokens);
        if !tokens.is_empty() {
            if repair {
                self.write_tokens(owner, id, &tokens)?;
            }
            let what = format!("{} entries had wrong token counts", tokens.len());
            audit.note(None, what, repairable(repair));
        }
        let wrong = std::mem::take(&mut audit.wrong_tallies);
        if !wrong.is_empty() {
            if repair {
                self.write_tallies(owner, id, &wrong)?;
            }
            let what = format!("{} entries had wrong counts", wrong.len());
            audit.note(None, what, repairable(repair));
        }
        match self.check_header(owner, id, &first_message, last_at, repair) {
            Ok(true) => {}
            Ok(false) => {
                audit.note(None, "its entry in the list was wrong".into(), repairable(repair))
            }
            Err(StoreError::Damaged { what, .. }) => audit.note(None, what, FindingState::Damaged),
            Err(error) => return Err(error),
        }
        if !self.check_search(owner, id, &searchable, repair)? {
            audit.note(None, "search did not have all of it".into(), repairable(repair));
        }
        Ok(audit.findings())
    }

    pub(super) fn walk(&self, owner: &Owner, id: SessionId) -> Result<CheckedLog> {
        let (name, session) = (owner.as_str(), id.0);
        let mut log = LogCheck::new(id);
        let (mut last_at, mut texts) = (None, Vec::new());
        let mut from: i64 = 0;
        loop {
            let to = from.saturating_add(CHECK_ENTRIES);
            let rows = self.pool.run(WHAT, async |link, _| {
                let answers = link
                    .all(&[
                        (sql::SAYS, &[&name, &session]),
                        (sql::ENTRIES, &[&name, &session, &from, &to]),
                        (sql::END, &[&name, &session]),
                    ])
                    .await?;
                if answers[0].rows.is_empty() {
                    return Err(StoreError::NotFound { id }.into());
                }
                let end: i64 = match answers[2].rows.first() {
                    Some(row) => row.try_get::<_, i64>(0)? + 1,
                    None => 0,
                };
                let mut rows = Vec::new();
                for row in &answers[1].rows {
                    rows.push(stored(row, 0)?);
                }
                Ok((rows, end))
            })?;
            let (rows, end) = rows;
            for stored in rows {
                last_at = Some(stored.at);
                let seq = stored.seq;
                let text = stored.clone().entry(id).ok();
                if text.and_then(|entry| SearchText::of(&entry.body)).is_some() {
                    texts.push(seq);
                }
                log.entry(stored)?;
            }
            from = to;
            if from >= end {
                return Ok(CheckedLog { log, last_at, searchable: texts });
            }
        }
    }

    /// Whether lists show what the header and the log contain.
    fn check_header(
        &self,
        owner: &Owner,
        id: SessionId,
        first_message: &str,
        last_at: Option<i64>,
        repair: bool,
    ) -> Result<bool> {
        let name = owner.as_str();
        self.pool.run(WHAT, async |link, _| {
            let answer = link.one(sql::SAYS, &[&name, &id.0]).await?;
            let row = answer.rows.first().ok_or(StoreError::NotFound { id })?;
            let header = header_of(id, row.try_get(1)?)?;
            let stored_at: i64 = row.try_get(7)?;
            // The time of a session that was just written to is updated later.
            let fresh: bool = row.try_get(8)?;
            let last_at = last_at.unwrap_or(stored_at);
            let right = row.try_get::<_, &str>(0)? == header.name.folded()
                && row.try_get::<_, bool>(2)? == header.archived
                && row.try_get::<_, Option<Vec<u8>>>(3)?
                    == header.profile.workspace.as_deref().map(hash)
                && row.try_get::<_, Option<uuid::Uuid>>(4)? == header.parent.map(|p| p.id.0)
                && row.try_get::<_, bool>(5)?
                    == header.parent.is_some_and(|parent| parent.origin.continues())
                && row.try_get::<_, &[u8]>(6)? == first_message.as_bytes()
                && (fresh || stored_at == last_at)
                && row.try_get::<_, Option<i64>>(10)? == Columns::new(&header).trashed;
            if !right && repair {
                let first = first_message.as_bytes();
                link.one(sql::BEGIN, &[]).await?;
                let after: [Statement<'_>; 2] =
                    [(sql::SET_TIMES, &[&name, &id.0, &first, &last_at]), (sql::COMMIT, &[])];
                write_header(link, owner, &header, &after).await?;
            }
            Ok(right)
        })
    }

    /// Whether the search index has every entry it should have; with `repair`, all of them are
    /// indexed again.
    fn check_search(
        &self,
        owner: &Owner,
        id: SessionId,
        searchable: &[u64],
        repair: bool,
    ) -> Result<bool> {
        let (name, session) = (owner.as_str(), id.0);
        self.pool.run(WHAT, async |link, _| {
            let answers = link
                .all(&[(sql::SAYS, &[&name, &session]), (search::COUNT, &[&name, &session])])
                .await?;
            let row = answers[0].rows.first().ok_or(StoreError::NotFound { id })?;
            let indexed: i64 = row.try_get(9)?;
            let has: i64 = answers[1].rows.first().map_or(Ok(0), |row| row.try_get(0))?;
            let should = searchable.iter().filter(|seq| number(**seq) < indexed).count();
            let right = usize::try_from(has).ok() == Some(should);
            if !right && repair {
                search_again(link, owner, id).await?;
            }
            Ok(right)
        })
    }

    /// Stores what each model was charged.
    pub(super) fn set_usage(
        &self,
        owner: &Owner,
        id: SessionId,
        usage: &UsageByModel,
    ) -> Result<()> {
        let name = owner.as_str();
        self.pool.run(WHAT, async |link, _| {
            link.all(&[
                (sql::BEGIN, &[]),
                (sql::LOCK_HEADER, &[&name, &id.0]),
                (sql::FORGET_USAGE, &[&name, &id.0]),
            ])
            .await?;
            for (model, usage) in usage {
                let [input, output, read, write, ms] = usage.columns().map(number);
                let row: Statement<'_> =
                    (sql::SET_USAGE, &[&name, &id.0, model, &input, &output, &read, &write, &ms]);
                link.all(&[row]).await?;
            }
            link.one(sql::COMMIT, &[]).await?;
            Ok(())
        })
    }

    fn write_tokens(&self, owner: &Owner, id: SessionId, wrong: &[(u64, u32)]) -> Result<()> {
        let name = owner.as_str();
        self.pool.run(WHAT, async |link, _| {
            link.one(sql::BEGIN, &[]).await?;
            for (seq, tokens) in wrong {
                let (seq, tokens) = (number(*seq), i64::from(*tokens));
                link.one(sql::SET_TOKENS, &[&name, &id.0, &seq, &tokens]).await?;
            }
            link.one(sql::COMMIT, &[]).await?;
            Ok(())
        })
    }

    fn write_tallies(&self, owner: &Owner, id: SessionId, wrong: &[(u64, Tally)]) -> Result<()> {
        let name = owner.as_str();
        self.pool.run(WHAT, async |link, _| {
            link.one(sql::BEGIN, &[]).await?;
            for (seq, tally) in wrong {
                let (seq, columns) = (number(*seq), tally_columns(tally));
                let mut params: Vec<&(dyn ToSql + Sync)> = vec![&name, &id.0, &seq];
                params.extend(columns.iter().map(|column| column as &(dyn ToSql + Sync)));
                link.one(sql::SET_TALLY, &params).await?;
            }
            link.one(sql::COMMIT, &[]).await?;
            Ok(())
        })
    }
}

/// Removes a session from the search index; the next search adds it again.
pub(super) async fn search_again(
    link: &mut Link,
    owner: &Owner,
    id: SessionId,
) -> std::result::Result<(), Fail> {
    let (name, session) = (owner.as_str(), id.0);
    link.all(&[
        (sql::BEGIN, &[]),
        (sql::LOCK_INDEXED, &[&name, &session]),
        (search::FORGET, &[&name, &session]),
        (sql::SET_INDEXED, &[&name, &session, &0i64]),
        (sql::UNSEARCHED, &[&name, &session]),
        (sql::COMMIT, &[]),
    ])
    .await?;
    Ok(())
}
