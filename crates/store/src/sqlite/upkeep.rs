//! Maintenance: checks derived data against the entries.

use std::sync::atomic::Ordering;

use rethread_core::audit::Audit;
use rethread_core::store::{Finding, FindingState, Result};
use rethread_core::usage::Spent;
use rethread_core::{Header, Key, Owner, SessionId, StoreError, Tally};
use rusqlite::{Connection, params};

use super::column;
use super::error::OrStoreError;
use super::read::session_id;
use super::rebuild::{SEARCH, unless_damaged};
use super::row;
use super::schema::Access;
use super::{Db, FOLDED, INDEXED};
use crate::check::{LogCheck, check_blobs};
use crate::row::{number, tally_columns};

const WHAT: &str = "check the store";

pub(super) fn repairable(repair: bool) -> FindingState {
    match repair {
        true => FindingState::Repaired,
        false => FindingState::Repairable,
    }
}

/// The columns of a session that repeat its header and its log.
#[derive(PartialEq)]
struct ListColumns {
    name: String,
    first_message: String,
    archived: Option<i64>,
    workspace: Option<String>,
    parent: Vec<u8>,
    continues: Option<i64>,
    trashed: Option<i64>,
}

fn owner_of(stored: Vec<u8>) -> Option<Owner> {
    Owner::new(String::from_utf8(stored).ok()?).ok()
}

impl Db {
    pub(super) fn everything(&self, snapshot: &Connection) -> Result<Vec<(Owner, SessionId)>> {
        let read = |from: &str| -> Result<Vec<(Vec<u8>, SessionId)>> {
            let sql = format!("SELECT owner, id FROM {from} WHERE length(id) = 16 ORDER BY n");
            let mut statement = snapshot.prepare(&sql).or_store_error(self.place(), WHAT)?;
            let rows =
                statement.query_map([], |row| Ok((column::bytes(row, 0)?, session_id(row, 1)?)));
            rows.and_then(Iterator::collect).or_store_error(self.place(), WHAT)
        };
        let rows = match unless_damaged(read("sessions NOT INDEXED"))? {
            Some(rows) => rows,
            // The index has these columns, also for rows that cannot be read.
            None => read("sessions INDEXED BY sessions_recent")?,
        };
        Ok(rows.into_iter().filter_map(|(owner, id)| Some((owner_of(owner)?, id))).collect())
    }

    /// Checks the file itself, the search index, and what belongs to no session.
    pub(super) fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        let mut findings = self.check_trees(repair)?;
        // Nothing is derived from tables that lost rows: it would lack them too.
        let whole = findings.iter().all(|finding| finding.state != FindingState::Damaged);
        let (repair, repairable) = match whole {
            true => (repair, repairable(repair)),
            false => (false, FindingState::Damaged),
        };
        self.lacking.store(!whole, Ordering::Relaxed);
        let mut note = |what: String, state| {
            findings.push(Finding { session: None, seq: None, what, state });
        };
        // If something cannot be counted because of a damaged page, that was reported above.
        let count = |sql: &str| {
            let counted = self.read(|snapshot| {
                snapshot
                    .query_row(sql, [], |row| row.get::<_, i64>(0))
                    .or_store_error(self.place(), WHAT)
            });
            unless_damaged(counted).map(Option::unwrap_or_default)
        };
        let strays =
            count("SELECT count(*) FROM entries WHERE session NOT IN (SELECT n FROM sessions)")?;
        if strays > 0 {
            note(format!("{strays} entries belong to no session"), FindingState::Damaged);
        }
        let lost = "blobs WHERE session NOT IN (SELECT n FROM sessions)";
        let strays = count(&format!("SELECT count(*) FROM {lost}"))?;
        if strays > 0 {
            note(format!("{strays} attachments belong to no session"), FindingState::Damaged);
        }
        let dangling = "keys WHERE session NOT IN (SELECT n FROM sessions)";
        let keys = count(&format!("SELECT count(*) FROM {dangling}"))?;
        if keys > 0 {
            if repair {
                self.write(WHAT, |tx| {
                    tx.execute(&format!("DELETE FROM {dangling}"), [])
                        .or_store_error(self.place(), WHAT)
                })?;
            }
            note(format!("{keys} keys point at sessions that are gone"), repairable);
        }
        let ahead = "SELECT coalesce((SELECT max(rid) FROM progress), 0) > \
                     coalesce((SELECT max(rid) FROM entries), 0)";
        if count(ahead)? > 0 {
            if repair {
                self.write(WHAT, |tx| {
                    tx.execute("UPDATE progress SET rid = 0", []).or_store_error(self.place(), WHAT)
                })?;
                self.empty_or_remake_index()?;
            }
            note(
                "the progress marks of lists and search were past the last entry".into(),
                repairable,
            );
        }
        if self.access() == Access::All && !self.index_is_sound()? {
            if repair {
                self.empty_or_remake_index()?;
                // Entries on a damaged page are left out.
                unless_damaged(self.fill_search())?;
            }
            self.lacking.store(!repair, Ordering::Relaxed);
            note("the search index is damaged".into(), repairable);
        }
        let odd = self.sessions_without_an_id(repair)?;
        findings.extend(odd);
        let odd = self.sessions_without_an_owner(repair)?;
        findings.extend(odd);
        let all = count("SELECT count(*) FROM sessions WHERE length(id) = 16")?;
        let known = self.read(|snapshot| self.everything(snapshot));
        let known = unless_damaged(known)?.map_or(all, |known| known.len() as i64);
        if all > known {
            let what = format!("{} sessions have an invalid owner", all - known);
            let state = FindingState::Damaged;
            findings.push(Finding { session: None, seq: None, what, state });
        }
        // Last, because it examines everything that may have been rebuilt.
        findings.extend(self.check_pages()?);
        Ok(findings)
    }

    /// Sessions with an invalid id. The header has the original one.
    fn sessions_without_an_id(&self, repair: bool) -> Result<Vec<Finding>> {
        let rows = self.read(|snapshot| {
            let sql = "SELECT n, name, header FROM sessions NOT INDEXED WHERE length(id) <> 16";
            let mut statement = snapshot.prepare(sql).or_store_error(self.place(), WHAT)?;
            let rows = statement.query_map([], |row| {
                Ok((row.get::<_, i64>(0)?, column::lossy(row, 1)?, column::bytes(row, 2)?))
            });
            rows.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
                .or_store_error(self.place(), WHAT)
        });
        let mut findings = Vec::new();
        for (n, name, header) in unless_damaged(rows)?.unwrap_or_default() {
            let header: Option<Header> = serde_json::from_slice(&header).ok();
            let id = header.map(|header| header.id);
            let state = match id {
                Some(id) if repair => {
                    let sql = "UPDATE OR IGNORE sessions SET id = ?2 WHERE n = ?1";
                    let changed = self.write(WHAT, |tx| {
                        tx.execute(sql, params![n, id.0.as_bytes()])
                            .or_store_error(self.place(), WHAT)
                    })?;
                    if changed == 1 { FindingState::Repaired } else { FindingState::Damaged }
                }
                Some(_) => FindingState::Repairable,
                None => FindingState::Damaged,
            };
            let what = format!("the id of `{name}` is not valid");
            findings.push(Finding { session: id, seq: None, what, state });
        }
        Ok(findings)
    }

    /// Sessions with an invalid owner. The header has the original one.
    fn sessions_without_an_owner(&self, repair: bool) -> Result<Vec<Finding>> {
        let rows = self.read(|snapshot| {
            let sql = "SELECT n, owner, header FROM sessions NOT INDEXED WHERE length(id) = 16";
            let mut statement = snapshot.prepare(sql).or_store_error(self.place(), WHAT)?;
            let mut rows = statement.query([]).or_store_error(self.place(), WHAT)?;
            let mut odd = Vec::new();
            while let Some(row) = rows.next().or_store_error(self.place(), WHAT)? {
                let owner = column::bytes(row, 1).or_store_error(self.place(), WHAT)?;
                if owner_of(owner).is_none() {
                    let n: i64 = row.get(0).or_store_error(self.place(), WHAT)?;
                    odd.push((n, column::bytes(row, 2).or_store_error(self.place(), WHAT)?));
                }
            }
            Ok(odd)
        });
        let mut findings = Vec::new();
        for (n, header) in unless_damaged(rows)?.unwrap_or_default() {
            // Without a header, it is counted with those that nobody owns.
            let Ok(header) = serde_json::from_slice::<Header>(&header) else { continue };
            if repair {
                let sql = "UPDATE sessions SET owner = ?2 WHERE n = ?1";
                self.write(WHAT, |tx| {
                    tx.execute(sql, params![n, header.owner.as_str()])
                        .or_store_error(self.place(), WHAT)
                })?;
            }
            let (what, state) = ("its owner cannot be read".to_owned(), repairable(repair));
            findings.push(Finding { session: Some(header.id), seq: None, what, state });
        }
        Ok(findings)
    }

    fn index_is_sound(&self) -> Result<bool> {
        // SQLite's own check does not read all of its pages.
        for table in &SEARCH[1..] {
            if !self.can_be_read(&format!("{table} NOT INDEXED"))? {
                return Ok(false);
            }
        }
        let connection = self.writer();
        let sql = "INSERT INTO search (search, rank) VALUES ('integrity-check', 0)";
        match connection.execute(sql, []) {
            Ok(_) => {}
            Err(error) => {
                return match error.sqlite_error_code() {
                    Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::Unknown) => {
                        Ok(false)
                    }
                    _ => Err(super::error::store_error(self.place(), WHAT, error)),
                };
            }
        }
        Ok(true)
    }

    pub(super) fn empty_index(&self, tx: &Connection) -> Result<()> {
        let sql = "INSERT INTO search (search) VALUES ('delete-all')";
        tx.execute(sql, []).or_store_error(self.place(), WHAT)?;
        self.restart_index(tx)
    }

    /// Sets the mark of an empty index.
    pub(super) fn restart_index(&self, tx: &Connection) -> Result<()> {
        let sql = "INSERT INTO progress (what, rid) VALUES ('searched', 0) \
                   ON CONFLICT (what) DO UPDATE SET rid = 0";
        tx.execute(sql, []).or_store_error(self.place(), WHAT).map(drop)
    }

    /// Checks one session, entry by entry. An entry on a damaged page is reported, and the others
    /// are still checked.
    pub(super) fn check_session(
        &self,
        owner: &Owner,
        id: SessionId,
        repair: bool,
    ) -> Result<Vec<Finding>> {
        match self.check_rows(owner, id, repair) {
            Err(StoreError::Corrupt { .. }) => {}
            // It was deleted in the meantime.
            Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
            done => return done,
        }
        match unless_damaged(self.read(|snapshot| self.rows_left(snapshot, owner, id)))? {
            Some(findings) => Ok(findings),
            None => {
                let what = "it cannot be read: a page of the file is damaged".to_owned();
                // Perhaps only the index it was looked up in is damaged.
                let whole = self.can_be_read("sessions NOT INDEXED")?
                    && self.can_be_read("entries NOT INDEXED")?;
                let state = match whole && !repair {
                    true => FindingState::Repairable,
                    false => FindingState::Damaged,
                };
                Ok(vec![Finding { session: Some(id), seq: None, what, state }])
            }
        }
    }

    /// Reads a session with unreadable rows, and reports which they are. Nothing is repaired,
    /// because the totals of all entries are not known.
    fn rows_left(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        id: SessionId,
    ) -> Result<Vec<Finding>> {
        let n = self.session_row(snapshot, owner, id)?.n;
        let seqs = self.seqs(snapshot, n)?;
        let sql = format!("SELECT {} FROM entries WHERE session = ?1 AND seq = ?2", row::COLUMNS);
        let mut statement = snapshot.prepare(&sql).or_store_error(self.place(), WHAT)?;
        let mut log = LogCheck::new(id);
        for seq in seqs {
            let row = statement.query_row([n, seq], row::stored);
            match unless_damaged(row.or_store_error(self.place(), WHAT))? {
                Some(stored) => log.entry(stored)?,
                None => {
                    let what = "it cannot be read: its page of the file is damaged".to_owned();
                    let seq = u64::try_from(seq).ok();
                    log.audit.note(seq, what, FindingState::Damaged);
                    log.audit.skip();
                }
            }
        }
        Ok(log.audit.findings())
    }

    /// The positions of all rows of a log, according to their index.
    pub(super) fn seqs(&self, snapshot: &Connection, n: i64) -> Result<Vec<i64>> {
        let sql = "SELECT seq FROM entries INDEXED BY entries_seq WHERE session = ?1 ORDER BY seq";
        let mut statement = snapshot.prepare(sql).or_store_error(self.place(), WHAT)?;
        let seqs = statement.query_map([n], |row| row.get(0));
        seqs.and_then(Iterator::collect).or_store_error(self.place(), WHAT)
    }

    fn check_rows(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        let mut log = LogCheck::new(id);
        let (n, missing) = self.read(|snapshot| {
            let n = self.any_place_of(snapshot, owner, id)?.n;
            let sql = format!(
                "SELECT {}, rid <= {INDEXED} FROM entries WHERE session = ?1 ORDER BY seq",
                row::COLUMNS
            );
            let mut statement = snapshot.prepare(&sql).or_store_error(self.place(), WHAT)?;
            let rows =
                statement.query_map([n], |row| Ok((row::stored(row)?, row.get::<_, bool>(20)?)));
            let mut expected = 0;
            for row in rows.or_store_error(self.place(), WHAT)? {
                let (stored, indexed) = row.or_store_error(self.place(), WHAT)?;
                let before = log.searchable;
                log.entry(stored)?;
                expected += i64::from(indexed && log.searchable > before);
            }
            let sql = format!(
                "SELECT count(*) FROM search_docsize WHERE id IN \
                 (SELECT rid FROM entries WHERE session = ?1 AND rid <= {INDEXED})"
            );
            // A damaged index was reported before.
            let found =
                snapshot.query_row(&sql, [n], |row| row.get(0)).or_store_error(self.place(), WHAT);
            Ok((n, expected > unless_damaged(found)?.unwrap_or(expected)))
        })?;
        let LogCheck { mut audit, first_message, spent, named, .. } = log;
        if let Some(spent) = spent
            && self.read(|snapshot| self.usage(snapshot, n))? != spent.models
        {
            if repair {
                let right = Spent { anew: true, ..spent };
                self.write(WHAT, |tx| super::append::spend(self.place(), tx, n, &right))?;
            }
            audit.note(None, "the usage totals were wrong".into(), repairable(repair));
        }
        let n = self.read(|snapshot| self.any_place_of(snapshot, owner, id))?.n;
        self.check_keys(owner, n, &mut audit, repair)?;
        let kept = self.read(|snapshot| self.kept_blobs(snapshot, n))?;
        let read = |blob| self.read(|snapshot| self.kept_blob(snapshot, n, id, blob));
        check_blobs(&mut audit, &named, &kept, read)?;
        let lacks = missing && !self.lacking.swap(true, Ordering::Relaxed);
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
        let mut findings = audit.findings();
        if lacks {
            if repair {
                self.empty_or_remake_index()?;
                unless_damaged(self.fill_search())?;
            }
            let what = "the search index lacks entries".to_owned();
            findings.push(Finding { session: None, seq: None, what, state: repairable(repair) });
        }
        Ok(findings)
    }

    /// Checks the keys of a session. Their owner is that of the session; nothing else repeats them.
    fn check_keys(&self, owner: &Owner, n: i64, audit: &mut Audit, repair: bool) -> Result<()> {
        let keys: Vec<(Vec<u8>, Vec<u8>)> = self.read(|snapshot| {
            let sql = "SELECT owner, key FROM keys WHERE session = ?1";
            let mut statement = snapshot.prepare(sql).or_store_error(self.place(), WHAT)?;
            let keys = statement
                .query_map([n], |row| Ok((column::bytes(row, 0)?, column::bytes(row, 1)?)));
            keys.and_then(Iterator::collect).or_store_error(self.place(), WHAT)
        })?;
        if keys.iter().any(|(of, _)| of != owner.as_str().as_bytes()) {
            if repair {
                let sql = "UPDATE OR IGNORE keys SET owner = ?2 WHERE session = ?1 AND owner <> ?2";
                self.write(WHAT, |tx| {
                    tx.execute(sql, params![n, owner.as_str()]).or_store_error(self.place(), WHAT)
                })?;
            }
            audit.note(None, "one of its keys had another owner".into(), repairable(repair));
        }
        let valid = |key| String::from_utf8(key).is_ok_and(|key| Key::new(key).is_ok());
        if !keys.into_iter().all(|(_, key)| valid(key)) {
            audit.note(None, "one of its keys cannot be read".into(), FindingState::Damaged);
        }
        Ok(())
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
            let sql = format!(
                "SELECT name, first_message, archived, workspace, parent, continues, last_at, \
                       (SELECT e.at FROM entries e WHERE e.session = n ORDER BY seq DESC LIMIT 1), \
                       (SELECT coalesce(max(e.rid), 0) FROM entries e WHERE e.session = n) \
                       <= {FOLDED}, trashed FROM sessions WHERE n = ?1"
            );
            let read = snapshot.query_row(&sql, [row.n], |row| {
                let says = ListColumns {
                    name: column::lossy(row, 0)?,
                    first_message: column::lossy(row, 1)?,
                    archived: column::integer(row, 2)?,
                    workspace: column::lossy_or_null(row, 3)?,
                    parent: column::bytes(row, 4)?,
                    continues: column::integer(row, 5)?,
                    trashed: column::integer(row, 9)?,
                };
                let (at, last) = (column::integer(row, 6)?, column::integer(row, 7)?);
                let created = header.created_at.as_millisecond();
                let last = last.or(at).unwrap_or(created);
                Ok((says, (at, last), row.get::<_, bool>(8)?))
            });
            read.or_store_error(self.place(), WHAT)
        })?;
        let expected = ListColumns {
            name: header.name.folded().to_owned(),
            first_message: first_message.to_owned(),
            archived: Some(header.archived.into()),
            workspace: header.profile.workspace.clone(),
            parent: header
                .parent
                .map(|parent| parent.id.0.into_bytes().to_vec())
                .unwrap_or_default(),
            continues: Some(header.parent.is_some_and(|one| one.origin.continues()).into()),
            trashed: super::sessions::trashed(&header),
        };
        // The time of a session that was just written to is updated later.
        if says != expected || settled && last_at.0 != Some(last_at.1) {
            if repair {
                self.write(WHAT, |tx| {
                    self.write_header(tx, row.n, &header)?;
                    let sql = "UPDATE sessions SET first_message = ?2, last_at = ?3 WHERE n = ?1";
                    tx.execute(sql, params![row.n, first_message, last_at.1])
                        .or_store_error(self.place(), WHAT)
                })?;
            }
            audit.note(None, "its entry in the list was wrong".into(), repairable(repair));
        }
        Ok(())
    }

    fn write_tokens(&self, tx: &Connection, n: i64, wrong: &[(u64, u32)]) -> Result<()> {
        let sql = "UPDATE entries SET tokens = ?3 WHERE session = ?1 AND seq = ?2";
        let mut statement = tx.prepare(sql).or_store_error(self.place(), WHAT)?;
        for (seq, tokens) in wrong {
            let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
            statement.execute(params![n, seq, tokens]).or_store_error(self.place(), WHAT)?;
        }
        Ok(())
    }

    fn write_tallies(&self, tx: &Connection, n: i64, wrong: &[(u64, Tally)]) -> Result<()> {
        let sql = "UPDATE entries SET t_messages = ?3, t_queries = ?4, t_tokens = ?5, t_first = ?6, \
                   t_turn = ?7, t_system = ?8, t_started = ?9, t_summary = ?10, t_clear = ?11, \
                   t_clear_messages = ?12, t_clear_tokens = ?13 WHERE session = ?1 AND seq = ?2";
        let mut statement = tx.prepare(sql).or_store_error(self.place(), WHAT)?;
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
            done.or_store_error(self.place(), WHAT)?;
        }
        Ok(())
    }
}
