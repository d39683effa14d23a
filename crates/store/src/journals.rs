//! Migrates directories of earlier versions, which kept sessions in journals.
//!
//! Below `.rethread/` they had `state`, with the sessions and keys; `logs/<uuid>.log`, with the
//! entries of each; `blobs/<uuid>/`, with its attachments; and in `owners/` the same again for
//! every other owner. All of it is read into a new database in a folder of its own, which is moved
//! when it is complete and on disk. Only then are the old files removed. So a crash leaves either
//! all the old files or the complete new database; the next process that opens the directory starts
//! again, or removes what is left.
//!
//! A record of a journal is one line: `<16 hex digits> <length> <JSON>`, where the digits are the
//! beginning of the JSON's SHA-256. Damaged records are left out, and messages missing in a log are
//! taken from the session's file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_core::measure::Measure;
use rethread_core::session::ExtraFields;
use rethread_core::store::{Bind, Result};
use rethread_core::world::rfc3339;
use rethread_core::{
    Body, Entry, EntryId, Header, Key, Name, Owner, Raw, SessionId, Store, StoreError, Tally,
    readable_id,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::files::disk::{Disk, failed, names, sum};
use crate::files::import_edits::IMPORTED;
use crate::files::mirror::{DATABASE, OpenOptions, made_of};
use crate::files::repair::{read_own, rebuilt};
use crate::files::visible::{ACTIVE, METADATA, SUMMARY, set_called, stem_of};
use crate::io::with_suffix;
use crate::progress::Progress;
use crate::sqlite::{Location, Shown, SqliteStore, Stamp};

const ACTION: &str = "bring the directory up to date";

/// The entries of such a directory below `.rethread/`, apart from `state`.
const OLD: [&str; 5] = ["logs", "blobs", "owners", "search.db", PART];

/// What is in `state` instead: earlier versions would otherwise begin new journals, which the next
/// migration would take for old ones. They refuse a newer format.
const NEWER: &str = r#"{"ops":[{"format":3}]}"#;

/// The folder of a database that is not complete yet.
const PART: &str = "sessions.db.part";

/// One part of a change in the state. The last four are derived, or obsolete.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    Put(Box<Record>),
    Gone(SessionId),
    Key { key: Key, to: Option<SessionId> },
    Format(IgnoredAny),
    Lease(IgnoredAny),
    Index(IgnoredAny),
    Active,
}

#[derive(Deserialize)]
struct Ops {
    ops: Vec<Op>,
}

/// A session in the state.
#[derive(Deserialize)]
struct Record {
    header: Header,
    #[serde(default)]
    stem: String,
    display: Option<String>,
    folded: Option<Folded>,
    sig: Option<Sig>,
    #[serde(default)]
    stale: bool,
    pending: Option<Pending>,
    active_at: Option<Raw>,
    kept: Option<Raw>,
}

#[derive(Deserialize)]
struct Folded {
    tally: Tally,
}

#[derive(Deserialize)]
struct Sig {
    #[serde(flatten)]
    stamp: Stamp,
    sum: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Pending {
    Move(Location),
    Trash(Location),
    Delete,
}

impl Record {
    /// Where its file is.
    fn at(&self) -> Location {
        match &self.pending {
            Some(Pending::Move(at) | Pending::Trash(at)) => at.clone(),
            _ => Location { stem: self.stem.clone(), archived: self.header.archived },
        }
    }

    /// The header, with another program's fields.
    fn header(&self) -> Header {
        let mut header = Header { extra: ExtraFields::default(), ..self.header.clone() };
        header.extra.set("/active_at", self.active_at.clone());
        header.extra.set("/kept", self.kept.clone());
        let mut header = in_paths(header);
        let shown = self.display.clone().unwrap_or_else(|| header.own_name().to_string());
        set_called(&mut header, &self.stem, &shown);
        if !header.extra.is_empty() {
            header.imported.get_or_insert_with(|| IMPORTED.to_owned());
        }
        header
    }
}

/// An entry of a log.
#[derive(Deserialize)]
struct Line<'a> {
    seq: u64,
    #[serde(default)]
    more: u64,
    id: EntryId,
    at: Timestamp,
    kind: String,
    measure: Measure,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// The complete records of a journal, and whether others are damaged. The last one may be torn.
fn records(path: &Path) -> (Vec<String>, bool) {
    let bytes = std::fs::read(path).unwrap_or_default();
    let (mut records, mut damaged, mut rest) = (Vec::new(), false, bytes.as_slice());
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        if let Some((json, after)) = record(rest) {
            records.push(json);
            rest = after;
        } else {
            damaged = true;
            rest = &rest[end + 1..];
        }
    }
    (records, damaged)
}

/// The record at the beginning of some bytes, and what follows it. The JSON may have several lines:
/// that of another program is in it as it was.
fn record(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(16)?;
    let rest = rest.strip_prefix(b" ")?;
    let space = rest.iter().take(20).position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
    let (json, rest) = rest[space + 1..].split_at_checked(length)?;
    let is_sound = sum(json).as_bytes() == digits;
    let json = std::str::from_utf8(json).ok().filter(|_| is_sound)?;
    Some((json.to_owned(), rest.strip_prefix(b"\n")?))
}

/// The directory of one owner.
struct Old {
    root: PathBuf,
    records: BTreeMap<SessionId, Record>,
    keys: BTreeMap<Key, SessionId>,
}

impl Old {
    fn read(root: PathBuf) -> Old {
        let (records, mut damaged) = records(&root.join(".rethread/state"));
        let mut old = Old { root, records: BTreeMap::new(), keys: BTreeMap::new() };
        for json in &records {
            let Ok(Ops { ops }) = serde_json::from_str(json) else {
                damaged = true;
                continue;
            };
            for op in ops {
                match op {
                    Op::Put(record) => drop(old.records.insert(record.header.id, *record)),
                    Op::Gone(id) => {
                        old.records.remove(&id);
                        old.keys.retain(|_, to| *to != id);
                    }
                    Op::Key { key, to: Some(id) } => drop(old.keys.insert(key, id)),
                    Op::Key { key, to: None } => drop(old.keys.remove(&key)),
                    Op::Format(_) | Op::Lease(_) | Op::Index(_) | Op::Active => {}
                }
            }
        }
        if damaged || records.is_empty() {
            old.find_logs();
        }
        old
    }

    /// If the state was lost, the logs show which sessions there are.
    fn find_logs(&mut self) {
        for name in names(&self.root.join(".rethread/logs")).unwrap_or_default() {
            let id = name.strip_suffix(".log").and_then(|id| id.parse().ok()).map(SessionId);
            let Some(id) = id.filter(|id| !self.records.contains_key(id)) else { continue };
            // The first record has the header.
            let first = records(&self.log_path(id)).0.into_iter().next();
            let record = first.and_then(|json| serde_json::from_str::<Record>(&json).ok());
            let record = record.map(|it| Record { stem: stem_of(&it.header), ..it });
            self.records.extend(record.map(|record| (id, record)));
        }
    }

    fn log_path(&self, id: SessionId) -> PathBuf {
        self.root.join(format!(".rethread/logs/{id}.log"))
    }

    /// The entries of a log that can be read.
    fn entries(&self, id: SessionId) -> Vec<Entry> {
        let (mut entries, mut batch) = (Vec::new(), Vec::new());
        for json in records(&self.log_path(id)).0 {
            let Ok(line) = serde_json::from_str::<Line<'_>>(&json) else { continue };
            let Line { seq, more, id, at, kind, measure, body } = line;
            let tally = Tally::default();
            if let Ok(body) = Body::parse(&kind, body.get()) {
                batch.push(Entry { seq, at, id, body, measure, tally });
            }
            // An incomplete batch at the end was never acknowledged.
            if more == 0 {
                entries.append(&mut batch);
            }
        }
        entries
    }

    /// Migrates one session, and returns the state of its file.
    fn carry(&self, way: &OpenOptions, db: &SqliteStore, record: &Record) -> Result<Option<Shown>> {
        let (id, mut header) = (record.header.id, record.header());
        let known = record.folded.as_ref().map_or(0, |folded| folded.tally.entries);
        let visible = read_own(&record.at().path(&self.root), id);
        // Another program wrote it, and nothing of it was written here since.
        if visible.as_ref().is_some_and(|file| file.ours.is_none()) {
            header.imported.get_or_insert_with(|| IMPORTED.to_owned());
        }
        let metadata = visible.as_ref().map_or("{}".into(), |file| file.metadata.get().to_owned());
        let ours = self.entries(id);
        let end = known.max(ours.last().map_or(0, |entry| entry.seq + 1));
        let file = visible.filter(|_| ours.len() as u64 != end);
        let rebuilt = rebuilt(way.world.as_ref(), &header, ours, file, end);
        let entries = rebuilt.map(|rebuilt| rebuilt.entries).unwrap_or_default();
        // The id of a file is not a key any more.
        let is_stem = |key: &Key| readable_id::in_key(key) == Some(&record.stem);
        let keys = self.keys.iter().filter(|(key, to)| **to == id && !is_stem(key));
        let binds = keys.map(|(key, _)| Bind { key: key.clone(), seen: None });
        let binds: Vec<Bind> = binds.collect();
        if let Err(error) = db.create(&header, &entries, &binds) {
            // Each owner had a folder, and so their own session with this id.
            let StoreError::Exists { .. } = error else { return Err(error) };
            header.id = SessionId::of_source(&header.owner, &id.to_string());
            db.create(&header, &entries, &binds)?;
        }
        let blobs = self.root.join(format!(".rethread/blobs/{id}"));
        for path in names(&blobs).unwrap_or_default().iter().map(|name| blobs.join(name)) {
            let there = path.symlink_metadata().is_ok_and(|there| there.is_file());
            if let Some(bytes) = there.then(|| std::fs::read(&path).ok()).flatten() {
                db.put_blob(&header.owner, header.id, &bytes)?;
            }
        }
        Ok(record.sig.as_ref().map(|sig| Shown {
            at: record.at(),
            stamp: sig.stamp,
            sum: sig.sum.clone(),
            entries: known,
            made_of: if record.stale { String::new() } else { made_of(&header) },
            metadata,
        }))
    }
}

/// The fields of another program that earlier versions kept.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Kept {
    top: Vec<(String, Raw)>,
    metadata: Vec<(String, Raw)>,
    summary: Option<KeptSummary>,
}

#[derive(Deserialize)]
struct KeptSummary {
    text: Raw,
}

/// A header of any version, with each of another program's fields under its path. Earlier versions
/// had an object with what another program says about a session; [`ExtraFields`] has its fields
/// under `/` and their names.
pub(crate) fn in_paths(mut header: Header) -> Header {
    let old = std::mem::take(&mut header.extra);
    let kept = old.get("/kept").and_then(|raw| serde_json::from_str(raw.get()).ok());
    let [id, name, active_at] = ["/id", "/name", "/active_at"].map(|field| old.text(field));
    if kept.is_none() && id.is_none() && name.is_none() && active_at.is_none() {
        return Header { extra: old, ..header };
    }
    let Kept { top, metadata, summary } = kept.unwrap_or_default();
    let metadata = metadata.into_iter().map(|(name, raw)| (format!("{METADATA}{name}"), raw));
    let summary = summary.map(|summary| (SUMMARY.to_owned(), summary.text));
    header.extra.0.extend(metadata.chain(top).chain(summary));
    let active_at = active_at.and_then(|at| at.parse().ok()).map(|at| Raw::of(&rfc3339(at)));
    header.extra.set(ACTIVE, active_at);
    // Unless it was renamed since.
    let made = |text: &String| Name::new(text).ok().map(|made| made.folded().to_owned());
    let is_of = |text| made(text).is_some_and(|made| header.name.folded().starts_with(&made));
    if header.name.is_automatic() || [&id, &name].into_iter().flatten().any(is_of) {
        let id = id.unwrap_or_else(|| stem_of(&header));
        let name = name.unwrap_or_else(|| header.name.to_string());
        set_called(&mut header, &id, &name);
    }
    header
}

/// Creates the database of an old directory; does nothing for others.
pub(crate) fn migrate(way: &OpenOptions, root: &Path, database: &Path) -> Result<()> {
    let ours = root.join(".rethread");
    if !ours.join("state").exists() && names(&ours.join("logs")).unwrap_or_default().is_empty() {
        return Ok(());
    }
    let disk = way.disk.as_ref();
    let owners = names(&ours.join("owners")).unwrap_or_default().into_iter();
    let others = owners.map(|name| Old::read(ours.join("owners").join(name)));
    let all: Vec<Old> = std::iter::once(Old::read(root.to_owned())).chain(others).collect();
    let what = format!("bringing {} up to date", root.display());
    let mut progress = Progress::new(what, way.tell.as_ref());
    let folder = database.parent().unwrap_or(root);
    // A directory that cannot be written to is read into a database elsewhere.
    let in_place = database.starts_with(root);
    remove(disk, &folder.join(PART))?;
    let part = folder.join(PART).join(DATABASE);
    let db = SqliteStore::open(&part, way.world.clone())?;
    db.begin_mirror()?;
    let sessions = all.iter().map(|old| old.records.len() as u64).sum();
    let mut done = 0;
    for old in &all {
        for record in old.records.values() {
            progress.step(done, sessions, "sessions");
            done += 1;
            if matches!(record.pending, Some(Pending::Delete)) {
                // Its deletion had begun, and is completed with its file.
                let path = record.at().path(&old.root);
                if record.sig.is_some() && path.is_file() && in_place {
                    disk.remove(&path).map_err(failed(&path, ACTION))?;
                }
                continue;
            }
            disk.commit().map_err(failed(root, ACTION))?;
            let shown = old.carry(way, &db, record)?;
            if record.header.owner == Owner::local() && shown.is_some() {
                db.keep_shown(&[(record.header.id, shown)])?;
            }
        }
    }
    // Closing checkpoints its write-ahead log, and syncs the file.
    drop(db);
    let log = with_suffix(&part, "-wal");
    if std::fs::metadata(log).is_ok_and(|log| log.len() > 0) {
        let error = std::io::Error::other("SQLite left its log behind");
        return Err(failed(&part, ACTION)(error));
    }
    if in_place {
        disk.sync_folder(root).map_err(failed(root, ACTION))?;
    }
    disk.rename(&part, database).map_err(failed(database, ACTION))?;
    disk.sync_folder(folder).map_err(failed(folder, ACTION))?;
    progress.finish();
    Ok(())
}

/// Removes the files that the database has replaced, and keeps earlier versions from using the
/// directory.
pub(crate) fn remove_old(disk: &dyn Disk, ours: &Path) -> Result<()> {
    let state = ours.join("state");
    let newer = format!("{} {} {NEWER}\n", sum(NEWER.as_bytes()), NEWER.len());
    if std::fs::read(&state).ok().as_deref() != Some(newer.as_bytes()) {
        let part = with_suffix(&state, ".part");
        remove(disk, &part)?;
        let written = disk.create(&part).and_then(|file| {
            disk.write(&file, newer.as_bytes())?;
            disk.sync(&file)?;
            disk.rename(&part, &state)?;
            disk.sync_folder(ours)
        });
        written.map_err(failed(&state, ACTION))?;
    }
    OLD.iter().try_for_each(|name| remove(disk, &ours.join(name)))
}

/// Removes a file, or a folder with its contents, if it exists.
fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    let gone = match path.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(there) if there.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => disk.remove(path),
    };
    gone.map_err(failed(path, ACTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_with_all_its_lines_and_damage_ends_with_its_line() {
        let framed = |json: &str| format!("{} {} {json}\n", sum(json.as_bytes()), json.len());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            records(&path)
        };
        let (one, two) = ("{\n  \"a\": 1\n}", "{\"b\":\"ü\"}");
        let whole = format!("{}{}", framed(one), framed(two));
        let both = vec![one.to_owned(), two.to_owned()];
        assert_eq!(read(&whole), (both, false));
        assert_eq!(read(&whole[..whole.len() - 1]), (vec![one.to_owned()], false), "it is torn");
        let flipped = format!("{}{}", framed("{\"c\":3}").replace('3', "4"), framed(two));
        assert_eq!(read(&flipped), (vec![two.to_owned()], true));
        assert_eq!(read(""), (Vec::new(), false));
    }

    #[test]
    fn a_session_of_ours_in_the_trash_is_still_ours() {
        let id = SessionId::of_source(&Owner::local(), "mine");
        let json = serde_json::json!({
            "stem": "mine",
            "header": {
                "id": id, "owner": "local", "name": Name::in_trash(id),
                "created_at": "2026-01-01T00:00:00Z", "archived": false,
                "trash": {"at": "2026-01-02T00:00:00Z", "name": "mine", "keys": []},
            },
        });
        let record: Record = serde_json::from_value(json).expect("a record");
        let header = record.header();
        assert!(header.extra.is_empty(), "{:?}", header.extra);
        assert_eq!(header.imported, None);
    }
}
