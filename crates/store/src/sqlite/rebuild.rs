//! Rebuilds data that was on a damaged page of the file.
//!
//! SQLite refuses to empty or drop a B-tree with a damaged page. Derived data is therefore removed
//! from the schema table and rebuilt from the entries; its old pages stay in the file, unused.
//! Tables that are not derived (`sessions`, `entries`, `keys`, `blobs`) are not touched, with two
//! exceptions: the indexes of `keys` have all of its columns; and if another copy of the log exists,
//! [`Db::remake_entries`] makes room for it.

use std::collections::{BTreeMap, HashMap};

use rethread_core::StoreError;
use rethread_core::store::{Finding, FindingState, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params, params_from_iter};

use super::Db;
use super::column::{self, TextBytes};
use super::error::OrStoreError;
use super::schema::SCHEMA;
use super::upkeep::repairable;

const WHAT: &str = "check the store";

/// Messages of a check to read. More would add nothing new.
const LINES_MAX: usize = 1_000;

/// The tables that are not derived, each with its indexes. A partial index is read where its rows
/// are.
const TABLES: [(&str, &[(&str, &str)]); 4] = [
    (
        "sessions",
        &[
            ("sessions_id", ""),
            ("sessions_name", ""),
            ("sessions_recent", ""),
            ("sessions_workspace", ""),
            ("sessions_parent", "WHERE parent IS NOT NULL"),
        ],
    ),
    ("entries", &[("entries_seq", ""), ("entries_id", "")]),
    ("keys", &[("sqlite_autoindex_keys_1", ""), ("keys_session", "")]),
    ("blobs", &[("blobs_hash", "")]),
];

/// A row of `keys`: owner, key and session.
type KeyRow = (TextBytes, TextBytes, i64);

/// The tables of the search index.
pub(super) const SEARCH: [&str; 5] =
    ["search", "search_data", "search_idx", "search_docsize", "search_config"];

/// The value; `None` if a damaged page makes it unreadable.
pub(super) fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Db {
    /// Checks every B-tree of the file except those of the search index.
    pub(super) fn check_trees(&self, repair: bool) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let mut note = |what: String, state| {
            findings.push(Finding { session: None, seq: None, what, state });
        };
        let marks = self.read(|snapshot| {
            let sql = "SELECT count(*) FROM progress WHERE what IN ('folded', 'searched')";
            snapshot
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .or_store_error(self.place(), WHAT)
        });
        let marks = unless_damaged(marks)?;
        if marks != Some(2) {
            if repair && marks.is_none() {
                self.remake(&["progress"])?;
            } else if repair {
                let sql = "INSERT OR IGNORE INTO progress VALUES ('folded', 0), ('searched', 0)";
                self.write(WHAT, |tx| tx.execute(sql, []).or_store_error(self.place(), WHAT))?;
            }
            if repair {
                self.empty_or_remake_index()?;
            }
            let what = "the progress of lists and search was lost".to_owned();
            note(what, repairable(repair));
        }
        if !self.can_be_read("usage")? {
            // It is filled again when the sessions are checked.
            if repair {
                self.remake(&["usage"])?;
            }
            note("the usage totals were lost".to_owned(), repairable(repair));
        }
        for (table, indexes) in TABLES {
            let whole = self.can_be_read(&format!("{table} NOT INDEXED"))?;
            if !whole {
                let saved = match table {
                    "keys" => unless_damaged(self.keys_in_indexes())?,
                    _ => None,
                };
                let state = saved.as_ref().map_or(FindingState::Damaged, |_| repairable(repair));
                note(format!("pages of `{table}` are damaged"), state);
                if let Some(keys) = saved {
                    if repair {
                        self.remake_keys(&keys)?;
                    }
                    continue;
                }
            }
            let said = if whole {
                self.lines(&format!("integrity_check('{table}')"))?
            } else {
                Vec::new()
            };
            let names = |line: &String, index: &str| {
                line.ends_with(index) || line.contains(&format!("{index} "))
            };
            // What is wrong inside a page is reported without a name.
            let unnamed = said.iter().any(|line| !indexes.iter().any(|(it, _)| names(line, it)));
            for (index, rows) in indexes {
                let read = self.can_be_read(&format!("{table} INDEXED BY {index} {rows}"))?;
                if read && !unnamed && !said.iter().any(|line| names(line, index)) {
                    continue;
                }
                // An index rebuilt from a table that lost rows would lack them too.
                let state = match (whole, repair) {
                    (false, _) => FindingState::Damaged,
                    (true, true) => match self.remake_index(index) {
                        Ok(()) => FindingState::Repaired,
                        Err(StoreError::Corrupt { .. } | StoreError::Backend { .. }) => {
                            FindingState::Damaged
                        }
                        Err(error) => return Err(error),
                    },
                    (true, false) => FindingState::Repairable,
                };
                note(format!("the index `{index}` is damaged"), state);
            }
        }
        Ok(findings)
    }

    /// SQLite's report about the whole file, after everything possible was rebuilt.
    pub(super) fn check_pages(&self) -> Result<Vec<Finding>> {
        let lines = self.lines(&format!("quick_check({LINES_MAX})"))?;
        let (unused, broken): (Vec<String>, Vec<String>) =
            lines.into_iter().partition(|line| line.contains("never used"));
        let finding = |what, state| Finding { session: None, seq: None, what, state };
        let mut findings: Vec<Finding> =
            broken.into_iter().map(|line| finding(line, FindingState::Damaged)).collect();
        if !unused.is_empty() {
            let what = "some pages of the file are unused; that is harmless".to_owned();
            findings.push(finding(what, FindingState::Noted));
        }
        Ok(findings)
    }

    /// Whether every page of a B-tree can be read.
    pub(super) fn can_be_read(&self, from: &str) -> Result<bool> {
        let read = self.read(|snapshot| {
            // SQLite would count in a B-tree of its own choice.
            let sql = format!("SELECT sum(1) FROM {from}");
            snapshot.query_row(&sql, [], |_| Ok(())).or_store_error(self.place(), WHAT)
        });
        Ok(unless_damaged(read)?.is_some())
    }

    /// The lines that SQLite's check prints. If it fails itself, the last one says so.
    pub(super) fn lines(&self, pragma: &str) -> Result<Vec<String>> {
        self.read(|snapshot| {
            let mut said = Vec::new();
            let mut check = || {
                let mut statement = snapshot.prepare(&format!("PRAGMA {pragma}"))?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let text = column::lossy(row, 0)?;
                    let lines = text.lines();
                    let lines = lines.filter(|line| *line != "ok" && !line.starts_with("***"));
                    said.extend(lines.map(str::to_owned));
                }
                Ok::<(), rusqlite::Error>(())
            };
            let checked = check().or_store_error(self.place(), WHAT);
            if unless_damaged(checked)?.is_none() {
                said.push("SQLite's check failed at a damaged page".to_owned());
            }
            Ok(said)
        })
    }

    fn remake_index(&self, index: &str) -> Result<()> {
        match index.starts_with("sqlite_") {
            false => self.remake(&[index]),
            // The index of a constraint is created with its table, which is `keys`.
            true => {
                self.remake_keys(&self.keys_from(
                    "SELECT rowid, owner, key, session FROM keys NOT INDEXED",
                    |row| Ok((text(row, 1)?, text(row, 2)?, row.get(3)?)),
                )?)
            }
        }
    }

    /// The keys, if pages of their table are damaged: its two indexes have all of its columns.
    fn keys_in_indexes(&self) -> Result<Vec<KeyRow>> {
        let sessions = self
            .keys_from("SELECT rowid, session FROM keys INDEXED BY keys_session", |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })?;
        let sessions: HashMap<i64, i64> = sessions.into_iter().collect();
        let named = "SELECT rowid, owner, key FROM keys INDEXED BY sqlite_autoindex_keys_1";
        let named =
            self.keys_from(named, |row| Ok((row.get::<_, i64>(0)?, text(row, 1)?, text(row, 2)?)))?;
        let whole = named.into_iter().filter_map(|(rowid, owner, key)| {
            sessions.get(&rowid).map(|session| (owner, key, *session))
        });
        Ok(whole.collect())
    }

    fn keys_from<T>(
        &self,
        sql: &str,
        each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.read(|snapshot| {
            let mut statement = snapshot.prepare(sql).or_store_error(self.place(), WHAT)?;
            let rows = statement.query_map([], each);
            rows.and_then(Iterator::collect).or_store_error(self.place(), WHAT)
        })
    }

    /// Rebuilds `keys` from these rows.
    fn remake_keys(&self, rows: &[KeyRow]) -> Result<()> {
        self.remake_with(&["keys"], |tx| {
            let sql = "INSERT OR IGNORE INTO keys (owner, key, session) VALUES (?1, ?2, ?3)";
            let mut insert = tx.prepare(sql).or_store_error(self.place(), WHAT)?;
            rows.iter().try_for_each(|(owner, key, session)| {
                let done = insert.execute(params![owner, key, session]);
                done.or_store_error(self.place(), WHAT).map(drop)
            })
        })
    }

    /// Empties the search index, or replaces it if it is too damaged for that.
    pub(super) fn empty_or_remake_index(&self) -> Result<()> {
        match self.write(WHAT, |tx| self.empty_index(tx)) {
            Err(StoreError::Corrupt { .. } | StoreError::Backend { .. }) => {
                self.remake_with(&SEARCH, |tx| self.restart_index(tx))
            }
            done => done,
        }
    }

    fn remake(&self, names: &[&str]) -> Result<()> {
        self.remake_with(names, |_| Ok(()))
    }

    /// Removes tables or indexes from the schema table and creates them again, empty or from their
    /// table; `fill` does the rest. All of it or nothing.
    fn remake_with(
        &self,
        names: &[&str],
        fill: impl FnOnce(&Connection) -> Result<()>,
    ) -> Result<()> {
        let done = self.write(WHAT, |tx| {
            let run = |sql: &str| tx.execute_batch(sql).or_store_error(self.place(), WHAT);
            run("PRAGMA writable_schema = ON")?;
            for name in names {
                let sql = "DELETE FROM sqlite_schema WHERE name = ?1 OR tbl_name = ?1";
                tx.execute(sql, [name]).or_store_error(self.place(), WHAT)?;
            }
            // SQLite reads the schema again.
            run("PRAGMA writable_schema = RESET")?;
            for statement in names.iter().flat_map(|name| statements(name)) {
                run(&statement)?;
            }
            fill(tx)
        });
        // A rolled-back transaction resets neither this permission nor the cached schema.
        let reset = self.writer().execute_batch("PRAGMA writable_schema = RESET");
        done.and(reset.or_store_error(self.place(), WHAT))
    }

    /// Rebuilds `entries` with every row that can be read. Each of the others is replaced by a row
    /// that fails its check, so that no log gets shorter unnoticed. Returns the number of those.
    pub(super) fn remake_entries(&self) -> Result<u64> {
        let blank = "INSERT OR IGNORE INTO entries (rid, session, seq, at, id, hash, tokens, \
            t_messages, t_queries, t_tokens, body) VALUES (?1, ?2, ?3, 0, 'lost-' || ?1, x'', 0, 0, 0, \
            0, x'')";
        let mut lost = 0;
        // This reads the file as it was before the transaction. SQLite writes nothing more on a
        // connection that encountered a damaged page.
        self.remake_with(&["entries"], |tx| {
            self.read(|before| {
                let mut unreadable = Vec::new();
                let mut row = before
                    .prepare("SELECT * FROM entries WHERE rid = ?1")
                    .or_store_error(self.place(), WHAT)?;
                let columns = row.column_count();
                let marks = vec!["?"; columns].join(", ");
                let copy = format!("INSERT INTO entries VALUES ({marks})");
                let mut copy = tx.prepare(&copy).or_store_error(self.place(), WHAT)?;
                for (rid, [session, seq]) in self.places(before)? {
                    let values = row.query_row([rid], |row| {
                        (0..columns).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()
                    });
                    let values = values.optional().or_store_error(self.place(), WHAT);
                    let values: Option<Vec<Value>> = unless_damaged(values)?.flatten();
                    match values.map(|values| copy.execute(params_from_iter(values))) {
                        Some(Ok(_)) => {}
                        // A row with flipped bits may be one that the table refuses.
                        Some(Err(error))
                            if error.sqlite_error_code()
                                != Some(ErrorCode::ConstraintViolation) =>
                        {
                            return Err(error).or_store_error(self.place(), WHAT);
                        }
                        _ => unreadable.push([rid, session, seq]),
                    }
                }
                let mut blank = tx.prepare(blank).or_store_error(self.place(), WHAT)?;
                for place in unreadable {
                    let inserted = blank.execute(place).or_store_error(self.place(), WHAT)?;
                    lost += inserted as u64;
                }
                Ok(())
            })
        })?;
        Ok(lost)
    }

    /// Session and seq of every row of `entries` that can be found, in the table or in its index.
    fn places(&self, snapshot: &Connection) -> Result<BTreeMap<i64, [i64; 2]>> {
        let mut places = BTreeMap::new();
        // What the table says is right, if it can be read.
        for from in ["INDEXED BY entries_seq", "NOT INDEXED"] {
            let sql = format!("SELECT rid, session, seq FROM entries {from}");
            let mut statement = snapshot.prepare(&sql).or_store_error(self.place(), WHAT)?;
            let mut rows = statement.query([]).or_store_error(self.place(), WHAT)?;
            while let Some(Some(row)) =
                unless_damaged(rows.next().or_store_error(self.place(), WHAT))?
            {
                let [rid, session, seq] =
                    [0, 1, 2].map(|at| column::integer(row, at).ok().flatten());
                if let (Some(rid), Some(session), Some(seq)) = (rid, session, seq) {
                    places.insert(rid, [session, seq]);
                }
            }
        }
        Ok(places)
    }
}

fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<TextBytes> {
    column::bytes(row, at).map(TextBytes)
}

/// The statements of the schema that create this, and what belongs to it.
pub(super) fn statements(name: &str) -> Vec<String> {
    let makes = [
        format!("CREATE TABLE {name} ("),
        format!("CREATE VIRTUAL TABLE {name} "),
        format!("INDEX {name} ON "),
        format!(" ON {name} ("),
        format!("INSERT INTO {name} "),
    ];
    let bare = |statement: &str| {
        let lines = statement.lines().filter(|line| !line.starts_with("--"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let all = SCHEMA.split(';').map(bare);
    all.filter(|statement| makes.iter().any(|make| statement.contains(make))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_derived_can_be_made_by_itself() {
        for (name, count) in [
            ("progress", 2),
            ("entries", 3),
            ("search", 4),
            ("keys", 2),
            ("entries_id", 1),
            ("usage", 1),
            ("blobs", 2),
        ] {
            assert_eq!(statements(name).len(), count, "{name}: {:?}", statements(name));
        }
    }
}
