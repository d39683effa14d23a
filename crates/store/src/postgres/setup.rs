//! Sets a database up, once, even if several processes start at the same time.

use rethread_core::StoreError;
use rethread_core::store::Result;
use tokio_postgres::error::SqlState;

use super::connection::Link;
use super::error::Fail;
use super::upkeep::search_again;
use super::{Db, search, sql};
use crate::progress::{Progress, ProgressSink};

/// The format this version writes, and the newest it reads.
const FORMAT: i64 = 3;

const WHAT: &str = "set up the database";

impl Db {
    /// Checks that the database has a store of this format, and creates one if it has none.
    pub(super) fn set_up(&self, tell: Option<&ProgressSink>) -> Result<()> {
        let found = self.pool.run(WHAT, async |link, _| match self.format(link).await? {
            Some(found @ 1..=FORMAT) => Ok(found),
            Some(0) | None => self.make(link).await,
            Some(found) => Err(self.unknown(found).into()),
        })?;
        match found {
            FORMAT => Ok(()),
            found => self.migrate(found, tell),
        }
    }

    /// Migrates a database of an earlier format while others continue to use it: tables and columns
    /// are added, and no existing data is rewritten. After a crash in the middle, the database
    /// still has the earlier format, and the next process starts again.
    fn migrate(&self, found: i64, tell: Option<&ProgressSink>) -> Result<()> {
        const WHAT: &str = "bring the database up to date";
        let what = format!("bringing {} from format {found} to {FORMAT}", self.place());
        let mut progress = Progress::new(what, tell);
        self.pool.run(WHAT, async |link, _| {
            replace_index(link).await?;
            for script in [sql::SCHEMA_2, sql::ADD_TRASHED] {
                match link.script(script).await {
                    // `IF NOT EXISTS` does not wait for another session that is creating it.
                    Err(fail) if fail.taken().is_some() || is_there(&fail) => {
                        return Err(Fail::Again);
                    }
                    done => done?,
                }
            }
            Ok(())
        })?;
        let sessions = self.everything()?;
        let all = sessions.len() as u64;
        for (done, (owner, id)) in (0..).zip(sessions) {
            progress.step(done, all, "sessions");
            self.pool.run(WHAT, async |link, _| search_again(link, &owner, id).await)?;
            if found >= 2 {
                continue;
            }
            match self.walk(&owner, id) {
                Ok(walked) => {
                    let spent = walked.log.spent.unwrap_or_default();
                    if !spent.models.is_empty() {
                        self.set_usage(&owner, id, &spent.models)?;
                    }
                }
                // It was deleted in the meantime.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.pool.run(WHAT, async |link, _| {
            link.one(sql::SET_FORMAT, &[&FORMAT]).await?;
            Ok(())
        })?;
        progress.finish();
        Ok(())
    }

    /// The format; `None` if there is no store.
    async fn format(&self, link: &mut Link) -> std::result::Result<Option<i64>, Fail> {
        match link.one(sql::FORMAT, &[]).await {
            Ok(answer) => match answer.rows.first() {
                Some(row) => Ok(Some(row.try_get(0)?)),
                None => Ok(None),
            },
            Err(Fail::Server(error)) => match error.code() {
                Some(code) if *code == SqlState::UNDEFINED_TABLE => Ok(None),
                // A table with this name that belongs to another program.
                Some(code) if *code == SqlState::UNDEFINED_COLUMN => Err(self.not_ours().into()),
                _ => Err(error.into()),
            },
            Err(fail) => Err(fail),
        }
    }

    /// Processes that start at the same time wait for a row lock; the first one creates the tables.
    async fn make(&self, link: &mut Link) -> std::result::Result<i64, Fail> {
        for statement in [sql::CREATE_STORE, sql::BEGIN_STORE] {
            match link.script(statement).await {
                Ok(()) => {}
                // `IF NOT EXISTS` does not wait for another session that is creating it.
                Err(fail) if fail.taken().is_some() || is_there(&fail) => return Err(Fail::Again),
                Err(fail) => return Err(fail),
            }
        }
        let answers = link.all(&[(sql::BEGIN, &[]), (sql::LOCK_FORMAT, &[])]).await?;
        let row = answers[1].rows.first().ok_or(Fail::Again)?;
        match row.try_get(0)? {
            found @ 1..=FORMAT => {
                link.one(sql::COMMIT, &[]).await?;
                return Ok(found);
            }
            0 => {}
            found => return Err(self.unknown(found).into()),
        }
        for script in [sql::SCHEMA, sql::SCHEMA_2, search::SCHEMA] {
            if let Err(fail) = link.script(script).await {
                // Tables with our names, but without the one that identifies them.
                return Err(if is_there(&fail) { self.not_ours().into() } else { fail });
            }
        }
        link.all(&[(sql::SET_FORMAT, &[&FORMAT]), (sql::COMMIT, &[])]).await?;
        Ok(FORMAT)
    }

    fn unknown(&self, found: i64) -> StoreError {
        match found > FORMAT {
            true => StoreError::Newer { place: self.place().into(), found, known: FORMAT },
            false => self.not_ours(),
        }
    }

    fn not_ours(&self) -> StoreError {
        StoreError::NotAStore { place: self.place().into() }
    }
}

/// Replaces an earlier search index by an empty one. Older versions can no longer fill theirs;
/// everything else still works for them.
async fn replace_index(link: &mut Link) -> std::result::Result<(), Fail> {
    let answers = link.all(&[(sql::BEGIN, &[]), (sql::LOCK_FORMAT, &[])]).await?;
    let found: i64 = answers[1].rows.first().ok_or(Fail::Again)?.try_get(0)?;
    // Another process may have been faster, and filled it already.
    if found < FORMAT {
        link.script(search::DROP).await?;
        link.script(search::SCHEMA).await?;
    }
    link.one(sql::COMMIT, &[]).await?;
    Ok(())
}

/// Whether creating something failed because it already exists.
fn is_there(fail: &Fail) -> bool {
    let there = [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    matches!(fail, Fail::Server(error) if error.code().is_some_and(|code| there.contains(code)))
}
