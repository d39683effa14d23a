//! Rebuilds data that was on a damaged page of the file.
//!
//! SQLite refuses to empty or drop a B-tree with a damaged page. Derived data is therefore removed
//! from the schema table and rebuilt from the entries; its old pages stay in the file, unused.
//! Tables that are not derived (`sessions`, `entries`, `keys`, `blobs`) are not touched, with one
//! exception: if another copy of the log exists, [`Db::remake_entries`] makes room for it.

use rethread_core::StoreError;
use rethread_core::store::{Finding, FindingState, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

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
                note(format!("pages of `{table}` are damaged"), FindingState::Damaged);
            }
            let said = if whole {
                self.lines(&format!("integrity_check('{table}')"))?
            } else {
                Vec::new()
            };
            for (index, rows) in indexes {
                let named =
                    |line: &String| line.ends_with(index) || line.contains(&format!("{index} "));
                let read = self.can_be_read(&format!("{table} INDEXED BY {index} {rows}"))?;
                if read && !said.iter().any(named) {
                    continue;
                }
                // An index rebuilt from a table that lost rows would lack them too.
                let state = match (whole, repair) {
                    (false, _) => FindingState::Damaged,
                    (true, true) => match self.remake_index(table, index) {
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

    /// The lines that SQLite's check prints, up to the point where it fails itself.
    pub(super) fn lines(&self, pragma: &str) -> Result<Vec<String>> {
        self.read(|snapshot| {
            let mut said = Vec::new();
            let prepared =
                snapshot.prepare(&format!("PRAGMA {pragma}")).or_store_error(self.place(), WHAT);
            let Some(mut statement) = unless_damaged(prepared)? else { return Ok(said) };
            let rows = statement.query_map([], |row| column::lossy(row, 0));
            let Some(rows) = unless_damaged(rows.or_store_error(self.place(), WHAT))? else {
                return Ok(said);
            };
            for row in rows {
                let Some(text) = unless_damaged(row.or_store_error(self.place(), WHAT))? else {
                    break;
                };
                let lines = text.lines().filter(|line| *line != "ok" && !line.starts_with("***"));
                said.extend(lines.map(str::to_owned));
            }
            Ok(said)
        })
    }

    fn remake_index(&self, table: &str, index: &str) -> Result<()> {
        match index.starts_with("sqlite_") {
            false => self.remake(&[index]),
            // The index of a constraint is created with its table.
            true => self.remake_keys(table),
        }
    }

    /// Rebuilds `keys` from its own rows.
    fn remake_keys(&self, table: &str) -> Result<()> {
        let rows: Vec<(TextBytes, TextBytes, i64)> = self.read(|snapshot| {
            let sql = format!("SELECT owner, key, session FROM {table} NOT INDEXED");
            let mut statement = snapshot.prepare(&sql).or_store_error(self.place(), WHAT)?;
            let text = |row: &Row<'_>, at| column::bytes(row, at).map(TextBytes);
            let rows =
                statement.query_map([], |row| Ok((text(row, 0)?, text(row, 1)?, row.get(2)?)));
            rows.and_then(Iterator::collect).or_store_error(self.place(), WHAT)
        })?;
        self.remake_with(&[table], |tx| {
            let sql = format!("INSERT INTO {table} (owner, key, session) VALUES (?1, ?2, ?3)");
            let mut insert = tx.prepare(&sql).or_store_error(self.place(), WHAT)?;
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
        let all = "SELECT rid, session, seq FROM entries INDEXED BY entries_seq ORDER BY rid";
        let blank = "INSERT INTO entries (rid, session, seq, at, id, hash, tokens, t_messages, \
            t_queries, t_tokens, body) VALUES (?1, ?2, ?3, 0, 'lost-' || ?1, x'', 0, 0, 0, 0, x'')";
        let mut lost = 0;
        // This reads the file as it was before the transaction. SQLite writes nothing more on a
        // connection that encountered a damaged page.
        self.remake_with(&["entries"], |tx| {
            self.read(|before| {
                let mut rows = before.prepare(all).or_store_error(self.place(), WHAT)?;
                let mut row = before
                    .prepare("SELECT * FROM entries WHERE rid = ?1")
                    .or_store_error(self.place(), WHAT)?;
                let columns = row.column_count();
                let marks = vec!["?"; columns].join(", ");
                let copy = format!("INSERT INTO entries VALUES ({marks})");
                let mut copy = tx.prepare(&copy).or_store_error(self.place(), WHAT)?;
                let mut blank = tx.prepare(blank).or_store_error(self.place(), WHAT)?;
                let places = rows.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]));
                for place in places.or_store_error(self.place(), WHAT)? {
                    let place: [i64; 3] = place.or_store_error(self.place(), WHAT)?;
                    let values = row.query_row([place[0]], |row| {
                        (0..columns).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()
                    });
                    let values: Option<Vec<Value>> =
                        unless_damaged(values.or_store_error(self.place(), WHAT))?;
                    lost += u64::from(values.is_none());
                    let inserted = match values {
                        Some(values) => copy.execute(params_from_iter(values)),
                        None => blank.execute(place),
                    };
                    inserted.or_store_error(self.place(), WHAT)?;
                }
                Ok(())
            })
        })?;
        Ok(lost)
    }
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
