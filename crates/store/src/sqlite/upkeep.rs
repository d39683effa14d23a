//! Looking after the file: what can be worked out from the entries is checked against them.

use rethread_core::audit::Audit;
use rethread_core::store::{Finding, FindingState, Result};
use rethread_core::{Owner, SessionId, StoreError, Tally};
use rusqlite::{Connection, params};

use super::Db;
use super::error::Told;
use super::read::session_id;
use super::row;
use crate::check::LogCheck;
use crate::row::{number, tally_columns};

const WHAT: &str = "check the store";

fn repairable(repair: bool) -> FindingState {
    match repair {
        true => FindingState::Repaired,
        false => FindingState::Repairable,
    }
}

/// What the columns of a session say that its header and its log say too.
#[derive(PartialEq)]
struct Says {
    name: String,
    first_message: String,
    archived: bool,
    workspace: Option<String>,
    parent: Option<Vec<u8>>,
    continues: bool,
}

impl Db {
    pub(super) fn everything(&self, snapshot: &Connection) -> Result<Vec<(Owner, SessionId)>> {
        let sql = "SELECT owner, id FROM sessions ORDER BY n";
        let mut statement = snapshot.prepare(sql).told(self.place(), WHAT)?;
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?, session_id(row, 1)?)));
        let rows: Vec<(String, SessionId)> =
            rows.and_then(Iterator::collect).told(self.place(), WHAT)?;
        Ok(rows.into_iter().filter_map(|(o, id)| Owner::new(o).ok().map(|o| (o, id))).collect())
    }

    /// Checks the file itself, the search index, and what belongs to no session.
    pub(super) fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let repairable = repairable(repair);
        let mut note = |what: String, state| {
            findings.push(Finding { session: None, seq: None, what, state });
        };
        let strays: i64 = self.read(|snapshot| {
            let sql = "SELECT count(*) FROM entries WHERE session NOT IN (SELECT n FROM sessions)";
            snapshot.query_row(sql, [], |row| row.get(0)).told(self.place(), WHAT)
        })?;
        if strays > 0 {
            note(format!("{strays} entries belong to no session"), FindingState::Damaged);
        }
        let dangling = "keys WHERE session NOT IN (SELECT n FROM sessions)";
        let keys: i64 = self.read(|snapshot| {
            let sql = format!("SELECT count(*) FROM {dangling}");
            snapshot.query_row(&sql, [], |row| row.get(0)).told(self.place(), WHAT)
        })?;
        if keys > 0 {
            if repair {
                self.write(WHAT, |tx| {
                    tx.execute(&format!("DELETE FROM {dangling}"), []).told(self.place(), WHAT)
                })?;
            }
            note(format!("{keys} keys point at sessions that are gone"), repairable);
        }
        if self.marks_are_ahead()? {
            if repair {
                self.write(WHAT, |tx| {
                    let sql = "UPDATE progress SET rid = 0";
                    tx.execute(sql, []).told(self.place(), WHAT)?;
                    self.empty_index(tx)
                })?;
            }
            note("lists and search believed to be ahead of the entries".into(), repairable);
        }
        if !self.file.read_only && !self.index_is_sound()? {
            if repair {
                self.write(WHAT, |tx| self.empty_index(tx))?;
                self.fill_search()?;
            }
            note("the search index is damaged".into(), repairable);
        }
        // Last, because it looks at the search index too, which may have been made anew.
        let broken: Vec<String> = self.read(|snapshot| {
            let mut statement = snapshot.prepare("PRAGMA quick_check").told(self.place(), WHAT)?;
            let rows = statement.query_map([], |row| row.get::<_, String>(0));
            rows.and_then(Iterator::collect).told(self.place(), WHAT)
        })?;
        broken
            .into_iter()
            .filter(|line| line != "ok")
            .for_each(|line| note(line, FindingState::Damaged));
        let (all, known): (i64, usize) = self.read(|snapshot| {
            let all = snapshot.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0));
            Ok((all.told(self.place(), WHAT)?, self.everything(snapshot)?.len()))
        })?;
        if all != known as i64 {
            let what = format!("{} sessions have an owner that cannot be", all - known as i64);
            note(what, FindingState::Damaged);
        }
        Ok(findings)
    }

    fn index_is_sound(&self) -> Result<bool> {
        let connection = self.writer();
        let sql = "INSERT INTO search (search, rank) VALUES ('integrity-check', 0)";
        match connection.execute(sql, []) {
            Ok(_) => {}
            Err(error) => {
                return match error.sqlite_error_code() {
                    Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::Unknown) => {
                        Ok(false)
                    }
                    _ => Err(super::error::told(self.place(), WHAT, error)),
                };
            }
        }
        Ok(true)
    }

    /// Whether the marks claim more than there are entries.
    fn marks_are_ahead(&self) -> Result<bool> {
        self.read(|snapshot| {
            let sql = "SELECT (SELECT max(rid) FROM progress) > \
                       (SELECT coalesce(max(rid), 0) FROM entries)";
            snapshot.query_row(sql, [], |row| row.get(0)).told(self.place(), WHAT)
        })
    }

    pub(super) fn empty_index(&self, tx: &Connection) -> Result<()> {
        let sql = "INSERT INTO search (search) VALUES ('delete-all'); \
                   UPDATE progress SET rid = 0 WHERE what = 'indexed';";
        tx.execute_batch(sql).told(self.place(), WHAT)
    }

    /// Checks one session, entry by entry.
    pub(super) fn check_session(
        &self,
        owner: &Owner,
        id: SessionId,
        repair: bool,
    ) -> Result<Vec<Finding>> {
        let mut log = LogCheck::new(id);
        let n = self.read(|snapshot| {
            let n = self.place_of(snapshot, owner, id)?.n;
            let sql = format!(
                "SELECT {}, hash FROM entries WHERE session = ?1 ORDER BY seq",
                row::COLUMNS
            );
            let mut statement = snapshot.prepare(&sql).told(self.place(), WHAT)?;
            let rows =
                statement.query_map([n], |row| Ok((row::stored(row)?, row.get::<_, Vec<u8>>(19)?)));
            for row in rows.told(self.place(), WHAT)? {
                let (stored, hash) = row.told(self.place(), WHAT)?;
                log.entry(stored, &hash)?;
            }
            Ok(n)
        })?;
        let LogCheck { mut audit, first_message, .. } = log;
        let tokens = std::mem::take(&mut audit.wrong_tokens);
        if !tokens.is_empty() {
            if repair {
                self.write(WHAT, |tx| self.write_tokens(tx, n, &tokens))?;
            }
            let what = format!("{} entries had wrong token counts", tokens.len());
            audit.note(None, what, repairable(repair));
        }
        let wrong = std::mem::take(&mut audit.wrong_tallies);
        if !wrong.is_empty() {
            if repair {
                self.write(WHAT, |tx| self.write_tallies(tx, n, &wrong))?;
            }
            audit.note(
                None,
                format!("{} entries had wrong counts", wrong.len()),
                repairable(repair),
            );
        }
        self.check_header(owner, id, &mut audit, &first_message, repair)?;
        Ok(audit.findings())
    }

    fn check_header(
        &self,
        owner: &Owner,
        id: SessionId,
        audit: &mut Audit,
        first_message: &str,
        repair: bool,
    ) -> Result<()> {
        let row = self.read(|snapshot| self.session_row(snapshot, owner, id))?;
        let header = match row.header() {
            Ok(header) => header,
            Err(StoreError::Damaged { what, .. }) => {
                audit.note(None, what, FindingState::Damaged);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (says, last_at, settled) = self.read(|snapshot| {
            let sql = "SELECT name, first_message, archived, workspace, parent, continues, last_at, \
                       (SELECT e.at FROM entries e WHERE e.session = n ORDER BY seq DESC LIMIT 1), \
                       (SELECT coalesce(max(e.rid), 0) FROM entries e WHERE e.session = n) \
                       <= (SELECT rid FROM progress WHERE what = 'folded') \
                       FROM sessions WHERE n = ?1";
            let read = snapshot.query_row(sql, [row.n], |row| {
                let says = Says {
                    name: row.get(0)?,
                    first_message: row.get(1)?,
                    archived: row.get(2)?,
                    workspace: row.get(3)?,
                    parent: row.get(4)?,
                    continues: row.get(5)?,
                };
                let last: Option<i64> = row.get(7)?;
                let at: i64 = row.get(6)?;
                Ok((says, (at, last.unwrap_or(at)), row.get::<_, bool>(8)?))
            });
            read.told(self.place(), WHAT)
        })?;
        let expected = Says {
            name: header.name.to_string(),
            first_message: first_message.to_owned(),
            archived: header.archived,
            workspace: header.workspace.clone(),
            parent: header.parent.map(|parent| parent.id.0.into_bytes().to_vec()),
            continues: header.parent.is_some_and(|parent| parent.origin.continues()),
        };
        // The time of a session that was written to just now follows later.
        if says != expected || settled && last_at.0 != last_at.1 {
            if repair {
                self.write(WHAT, |tx| {
                    self.write_header(tx, row.n, &header)?;
                    let sql = "UPDATE sessions SET first_message = ?2, last_at = ?3 WHERE n = ?1";
                    tx.execute(sql, params![row.n, first_message, last_at.1])
                        .told(self.place(), WHAT)
                })?;
            }
            audit.note(None, "the list showed it wrongly".into(), repairable(repair));
        }
        Ok(())
    }

    fn write_tokens(&self, tx: &Connection, n: i64, wrong: &[(u64, u32)]) -> Result<()> {
        let sql = "UPDATE entries SET tokens = ?3 WHERE session = ?1 AND seq = ?2";
        let mut statement = tx.prepare(sql).told(self.place(), WHAT)?;
        for (seq, tokens) in wrong {
            let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
            statement.execute(params![n, seq, tokens]).told(self.place(), WHAT)?;
        }
        Ok(())
    }

    fn write_tallies(&self, tx: &Connection, n: i64, wrong: &[(u64, Tally)]) -> Result<()> {
        let sql = "UPDATE entries SET t_messages = ?3, t_queries = ?4, t_tokens = ?5, t_first = ?6, \
                   t_turn = ?7, t_system = ?8, t_started = ?9, t_summary = ?10, t_clear = ?11, \
                   t_clear_messages = ?12, t_clear_tokens = ?13 WHERE session = ?1 AND seq = ?2";
        let mut statement = tx.prepare(sql).told(self.place(), WHAT)?;
        for (seq, tally) in wrong {
            let [
                messages,
                queries,
                tokens,
                first,
                turn,
                system,
                started,
                summary,
                clear,
                before,
                spent,
            ] = tally_columns(tally);
            let done = statement.execute(params![
                n,
                number(*seq),
                messages,
                queries,
                tokens,
                first,
                turn,
                system,
                started,
                summary,
                clear,
                before,
                spent,
            ]);
            done.told(self.place(), WHAT)?;
        }
        Ok(())
    }
}
