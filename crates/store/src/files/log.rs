//! The log of one session: `.rethread/logs/<uuid>.log`.
//!
//! The first record is the header the session was created with; then one record for each entry,
//! with its tally. The entries of one append are written and synced as one: each says how many of
//! its batch follow, so that half a batch at the end is told from a whole one.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use rethread_core::measure::Measure;
use rethread_core::session::preview;
use rethread_core::usage::{Spent, UsageByModel};
use rethread_core::{Body, Entry, EntryId, Header, NewEntry, SessionId, StoreError, Tally};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::disk::Disk;
use super::frame::{self, Walk};
use super::visible;

/// The first record of a log.
#[derive(Serialize, Deserialize)]
struct Head {
    header: Header,
}

/// An entry as it is written.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<'a> {
    pub(super) seq: u64,
    /// Entries of the same batch that follow.
    #[serde(default, skip_serializing_if = "is_zero")]
    more: u64,
    id: EntryId,
    at: Timestamp,
    kind: String,
    measure: Measure,
    tally: Tally,
    #[serde(borrow)]
    body: &'a RawValue,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Where a log ends and what it adds up to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tail {
    /// Bytes of the log up to here.
    pub(super) bytes: u64,
    /// What it adds up to.
    pub(super) tally: Tally,
    /// When something last happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_at: Option<Timestamp>,
    /// The first characters the user wrote.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) first_message: String,
    /// Entries that other programs see as messages.
    #[serde(default)]
    pub(super) shown: u64,
    /// What each model was charged.
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(super) usage: UsageByModel,
}

impl Tail {
    /// The tail before the first record.
    pub(super) const EMPTY: Tail = Tail {
        bytes: 0,
        tally: Tally {
            entries: 0,
            messages: 0,
            queries: 0,
            tokens: 0,
            boundary: None,
            system: None,
            started: None,
            summary: None,
            first: None,
            turn: None,
        },
        last_at: None,
        first_message: String::new(),
        shown: 0,
        usage: UsageByModel::new(),
    };

    /// Whether a log that was known to go this far no longer does.
    pub(super) fn is_less_than(&self, known: &Tail) -> bool {
        self.bytes < known.bytes || self.tally.entries < known.tally.entries
    }

    /// That a log ends here though it was known to go further.
    pub(super) fn cut_off(&self, id: SessionId) -> StoreError {
        let what = "the end of its log is not what was written".into();
        StoreError::Damaged { id, seq: self.tally.entries, what }
    }

    /// Follows a log from here to the end of its last whole batch, and tells of every entry. What
    /// stands before `believed` was seen whole once.
    pub(super) fn follow(
        &mut self,
        file: &File,
        believed: u64,
        mut tell: impl FnMut(u64, Line<'_>),
    ) -> io::Result<()> {
        let mut walk = Walk::new(file, self.bytes)?.believing(believed);
        // What was read of a batch whose end was not seen yet.
        let mut half: Vec<(u64, u64, String)> = Vec::new();
        while let Some(record) = walk.next()? {
            let Ok(line) = serde_json::from_str::<Line<'_>>(record.json) else {
                // The header, or a record of another version. It is no entry.
                if half.is_empty() {
                    self.bytes = record.end;
                }
                continue;
            };
            if line.more > 0 {
                half.push((record.at, record.end, record.json.to_owned()));
                continue;
            }
            for (at, end, json) in half.drain(..) {
                if let Ok(line) = serde_json::from_str::<Line<'_>>(&json) {
                    self.take(at, end, line, &mut tell);
                }
            }
            self.take(record.at, record.end, line, &mut tell);
        }
        Ok(())
    }

    fn take(&mut self, at: u64, end: u64, line: Line<'_>, tell: &mut impl FnMut(u64, Line<'_>)) {
        self.bytes = end;
        self.tally = line.tally;
        self.last_at = Some(line.at);
        self.shown += u64::from(visible::is_shown(&line.kind));
        // Few bodies say what was charged, and those need not be understood to be told.
        let charges = match line.kind.as_str() {
            "message" => line.body.get().contains("\"usage\""),
            "finished" | "summary" | "restored" | "started" => true,
            _ => false,
        };
        if charges && let Ok(body) = Body::parse(&line.kind, line.body.get()) {
            Spent::of([&body]).add_to(&mut self.usage);
        }
        if line.tally.first == Some(line.seq)
            && let Ok(Body::Message(message)) = Body::parse(&line.kind, line.body.get())
        {
            self.first_message = preview(&message);
        }
        tell(at, line);
    }
}

/// An entry's place in the file.
#[derive(Clone, Copy)]
struct Spot {
    seq: u64,
    at: u64,
}

/// A log that is open.
pub(super) struct Log {
    pub(super) file: File,
    pub(super) tail: Tail,
    /// Where the entries begin, in order. Damaged ones are missing.
    spots: Vec<Spot>,
    ids: HashMap<EntryId, u64>,
}

/// Why an entry cannot be read.
pub(super) struct Unreadable {
    pub(super) seq: u64,
    pub(super) what: String,
}

impl Log {
    /// Writes a new log. It counts once somebody says in the state that the session exists.
    pub(super) fn create(
        disk: &dyn Disk,
        path: &Path,
        header: &Header,
        entries: &[NewEntry],
    ) -> io::Result<Log> {
        let file = disk.open(path)?;
        // What stands there belongs to a session that never came to be.
        disk.truncate(&file, 0)?;
        let mut log = Log { file, tail: Tail::EMPTY, spots: Vec::new(), ids: HashMap::new() };
        log.write(disk, head(header)?, entries)?;
        Ok(log)
    }

    /// Opens a log and looks at all of it; up to `believed` only at what there is.
    pub(super) fn open(disk: &dyn Disk, path: &Path, believed: u64) -> io::Result<Log> {
        let file = disk.open(path)?;
        let mut log = Log { file, tail: Tail::EMPTY, spots: Vec::new(), ids: HashMap::new() };
        log.follow(believed)?;
        Ok(log)
    }

    /// Takes in what others appended.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        self.follow(0)
    }

    fn follow(&mut self, believed: u64) -> io::Result<()> {
        let Log { file, tail, spots, ids } = self;
        tail.follow(file, believed, |at, line| {
            spots.push(Spot { seq: line.seq, at });
            ids.insert(line.id, line.seq);
        })
    }

    /// Where an id stands.
    pub(super) fn place_of(&self, id: &EntryId) -> Option<u64> {
        self.ids.get(id).copied()
    }

    /// Appends entries as one batch: they are on disk when this returns. What a write before this
    /// one left torn is cut off.
    pub(super) fn append(&mut self, disk: &dyn Disk, entries: &[NewEntry]) -> io::Result<Vec<u64>> {
        if self.file.metadata()?.len() > self.tail.bytes {
            disk.truncate(&self.file, self.tail.bytes)?;
        }
        self.write(disk, String::new(), entries)
    }

    fn write(
        &mut self,
        disk: &dyn Disk,
        mut text: String,
        entries: &[NewEntry],
    ) -> io::Result<Vec<u64>> {
        let mut tail = self.tail.clone();
        let mut spots = Vec::with_capacity(entries.len());
        for (index, new) in entries.iter().enumerate() {
            let entry = new.placed(&tail.tally);
            spots.push(Spot { seq: entry.seq, at: tail.bytes + text.len() as u64 });
            text.push_str(&line(&entry, (entries.len() - 1 - index) as u64)?);
            if entry.tally.first == Some(entry.seq) {
                tail.first_message = entry.body.message().map(preview).unwrap_or_default();
            }
            tail.tally = entry.tally;
            tail.last_at = Some(entry.at);
            tail.shown += u64::from(visible::is_shown(entry.body.kind()));
            Spent::of([&entry.body]).add_to(&mut tail.usage);
        }
        let written = disk
            .write(&self.file, self.tail.bytes, text.as_bytes())
            .and_then(|()| disk.sync(&self.file));
        if let Err(error) = written {
            // It was not acknowledged, so it must not turn up later. If this fails as well, the
            // next append does it.
            drop(disk.truncate(&self.file, self.tail.bytes));
            return Err(error);
        }
        tail.bytes += text.len() as u64;
        self.tail = tail;
        let seqs: Vec<u64> = spots.iter().map(|spot| spot.seq).collect();
        self.spots.extend(spots);
        self.ids.extend(entries.iter().map(|new| new.id.clone()).zip(seqs.iter().copied()));
        Ok(seqs)
    }

    /// Whether its last record was whole once, and is damaged. It was acknowledged, so it must not be
    /// cut off as if its write had been torn.
    pub(super) fn has_damaged_end(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() > self.tail.bytes
            && frame::damaged_end(&self.file, self.tail.bytes)? > 0)
    }

    /// The entries of a range, those that can be read, and the first that cannot.
    pub(super) fn read(
        &self,
        range: std::ops::Range<u64>,
    ) -> io::Result<(Vec<Entry>, Option<Unreadable>)> {
        let mut entries = Vec::new();
        let mut bad = None;
        let range = range.start..range.end.min(self.tail.tally.entries);
        let first = self.spots.partition_point(|spot| spot.seq < range.start);
        let mut expected = range.start;
        let Some(spot) = self.spots.get(first).filter(|_| !range.is_empty()) else {
            let gone = (!range.is_empty()).then(|| missing(range.start));
            return Ok((entries, gone));
        };
        let mut walk = Walk::new(&self.file, spot.at)?;
        while expected < range.end {
            let Some(record) = walk.next()? else {
                bad = bad.or_else(|| Some(missing(expected)));
                break;
            };
            match read_line(record.json) {
                Ok(entry) if entry.seq >= range.end => {
                    bad = bad.or_else(|| Some(missing(expected)));
                    break;
                }
                Ok(entry) => {
                    if entry.seq != expected {
                        bad = bad.or_else(|| Some(missing(expected)));
                    }
                    expected = entry.seq + 1;
                    entries.push(entry);
                }
                Err(what) => {
                    bad = bad.or(Some(Unreadable { seq: expected, what }));
                    expected += 1;
                }
            }
        }
        Ok((entries, bad))
    }
}

fn missing(seq: u64) -> Unreadable {
    Unreadable { seq, what: "its record is not what was written".into() }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data is always valid JSON")
}

/// The record of an entry.
pub(super) fn line(entry: &Entry, more: u64) -> io::Result<String> {
    let body = RawValue::from_string(entry.body.json()).expect("a body is valid JSON");
    let line = Line {
        seq: entry.seq,
        more,
        id: entry.id.clone(),
        at: entry.at,
        kind: entry.body.kind().to_owned(),
        measure: entry.measure.clone(),
        tally: entry.tally,
        body: &body,
    };
    frame::framed(&json(&line))
}

/// The record that opens a log.
pub(super) fn head(header: &Header) -> io::Result<String> {
    frame::framed(&json(&Head { header: header.clone() }))
}

/// The entry a record holds.
pub(super) fn read_line(json: &str) -> Result<Entry, String> {
    let line: Line<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    line.entry()
}

impl Line<'_> {
    /// The entry.
    pub(super) fn entry(self) -> Result<Entry, String> {
        let Line { seq, id, at, kind, measure, tally, body, .. } = self;
        let body = Body::parse(&kind, body.get()).map_err(|error| match &error.source {
            source if source.to_string().is_empty() => error.to_string(),
            source => format!("{error}: {source}"),
        })?;
        Ok(Entry { seq, at, id, body, measure, tally })
    }
}

/// The header a log was begun with.
pub(super) fn header_of(path: &Path) -> io::Result<Option<Header>> {
    let file = File::open(path)?;
    let first = frame::read_at(&file, 0)?;
    Ok(first.and_then(|json| serde_json::from_str::<Head>(&json).ok()).map(|head| head.header))
}
