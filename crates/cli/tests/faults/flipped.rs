//! Every byte of a store flipped, one at a time.
//!
//! A disk that changes a bit does not report it. For each byte of a store, one bit is changed, the
//! store is opened, and everything in it is read. What is read must be what was written, or an
//! error. The control reads the rows of the same files without checking fingerprints.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::store::Filter;
use rethread_core::{
    Block, Entry, Fixed, Key, Message, Name, New, Owner, Profile, Raw, Role, Session, SessionId,
    Sessions,
};
use rusqlite::Connection;

/// Sessions in the store.
const SESSIONS: usize = 4;

/// Bytes at the start of a database that say what it is. If they are wrong, it is refused.
const FILE_HEADER_BYTES: usize = 100;

/// The effect of one flipped bit, from harmless to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Everything is read as it was written: the byte is unused.
    Same,
    /// Something is reported as an error, and everything else is as it was written.
    Told,
    /// A header, a key or a count is not what was written, and no error says so.
    Header,
    /// Entries are missing at the end of a log, and no error says so.
    Short,
    /// An entry is not what was written, and no error says so.
    Changed,
    /// The program panicked.
    Panicked,
}

const OUTCOMES: [(Outcome, &str); 6] = [
    (Outcome::Same, "without effect"),
    (Outcome::Told, "told"),
    (Outcome::Header, "changed a header or a count in silence"),
    (Outcome::Short, "hid the end of a log in silence"),
    (Outcome::Changed, "changed an entry in silence"),
    (Outcome::Panicked, "panicked"),
];

/// What was written.
struct Written {
    sessions: BTreeMap<SessionId, Session>,
    entries: BTreeMap<SessionId, Vec<Entry>>,
}

pub(crate) fn sqlite(seed: u64, step: usize) -> Result<String, String> {
    flip(Place::Sqlite, seed, step)
}

pub(crate) fn files(seed: u64, step: usize) -> Result<String, String> {
    flip(Place::Files, seed, step)
}

/// The same files, read without checking fingerprints.
pub(crate) fn control(seed: u64, step: usize) -> Result<String, String> {
    let store = Store::make(Place::Sqlite);
    let right = store.bodies().expect("the rows can be read");
    let (mut tried, mut changed) = (0, 0);
    store.each_flip(seed, step, |_, _| {
        tried += 1;
        let read = store.bodies().is_some_and(|read| read.len() == right.len() && read != right);
        changed += usize::from(read);
    });
    match changed {
        0 => Ok(format!("{tried} flips, none was read")),
        changed => Err(format!("{changed} of {tried} flips were read as what nobody wrote")),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Sqlite,
    Files,
}

/// A store whose files are known byte for byte.
struct Store {
    folder: tempfile::TempDir,
    place: Place,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

fn flip(place: Place, seed: u64, step: usize) -> Result<String, String> {
    let store = Store::make(place);
    let written = store.written();
    let schema = store.intact_schema().expect("nothing is flipped yet");
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    let (mut tried, mut unseen, mut worst) = (0, 0, Vec::new());
    let (mut hidden, mut unlisted) = (0, 0);
    // Panics are counted, and not printed each time.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    store.each_flip(seed, step, |file, at| {
        tried += 1;
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| store.outcome(&written)));
        let (outcome, lists_the_others) = outcome.unwrap_or((Outcome::Panicked, false));
        *counts.entry(outcome).or_default() += 1;
        if outcome > Outcome::Told {
            let seen = std::panic::catch_unwind(AssertUnwindSafe(|| store.doctor_sees()));
            unseen += usize::from(!seen.unwrap_or(false));
        }
        if !lists_the_others {
            unlisted += 1;
            // A list needs what leads to its rows, but not every row.
            if at >= FILE_HEADER_BYTES && store.intact_schema().as_ref() == Some(&schema) {
                hidden += 1;
                worst.push(format!("{} at {at}: other sessions are not listed", file.display()));
            }
        }
        if outcome >= Outcome::Changed {
            worst.push(format!("{} at {at}: {outcome:?}", file.display()));
        }
    });
    std::panic::set_hook(hook);
    let told: Vec<String> = OUTCOMES
        .iter()
        .filter_map(|(outcome, name)| Some(format!("{} {name}", counts.get(outcome)?)))
        .collect();
    let said = format!(
        "{tried} flips: {}; doctor missed {unseen} of the silent; {unlisted} hid other sessions from \
         the list, {hidden} of them with intact pages",
        told.join(", ")
    );
    match worst.is_empty() {
        true => Ok(said),
        false => Err(format!("{said}; {}", worst[..worst.len().min(9)].join("; "))),
    }
}

impl Store {
    fn make(place: Place) -> Store {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store { folder, place, files: BTreeMap::new() };
        store.fill();
        store.files = store.there().into_iter().map(|path| (path.clone(), read(&path))).collect();
        store
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn open(&self) -> Option<Sessions> {
        let world = Arc::new(Fixed::default());
        let url = match self.place {
            Place::Sqlite => format!("sqlite:{}", self.database().display()),
            Place::Files => format!("files:{}", self.root().display()),
        };
        let store = rethread_store::connect(&url, world.clone()).ok()?;
        Some(Sessions::new(store, Owner::local(), world))
    }

    /// Conversations with tools, some short and some long, a key and a search index.
    fn fill(&self) {
        let sessions = self.open().expect("a store");
        for n in 0..SESSIONS {
            let key = Key::new(format!("file:notes-{n}.md")).expect("valid");
            let profile = Profile { description: Some(format!("plan {n}")), ..Profile::default() };
            let name = Some(Name::new(&format!("session-{n}")).expect("valid"));
            let new = New { name, profile, system: Some("Be brief.".into()), ..New::default() };
            let id = sessions.create(&new, Some(&key)).expect("created").id();
            let input = Raw::of(&serde_json::json!({ "pattern": format!("word{n}") }));
            let call = Block::tool_use(format!("call_{n}"), "grep", input);
            let said = [
                Message::user(format!("Where is {n}?")),
                Message::new(Role::Assistant, vec![Block::text("Let me look."), call]),
                Message::tool_result(format!("call_{n}"), "src/limit.rs: a bucket\n".repeat(40)),
                Message::assistant(format!("In src/limit.rs, number {n}, see there.")),
                Message::user(format!("Thanks {n}")),
            ];
            sessions.append(id, said.map(Into::into).to_vec()).expect("appended");
        }
        assert_eq!(sessions.search("bucket", 0, 99).expect("searched").len(), SESSIONS);
    }

    fn there(&self) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.root()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push(path),
                }
            }
        }
        files
    }

    /// Restores every file, and removes new ones.
    fn restore(&self) {
        for path in self.there() {
            if !self.files.contains_key(&path) {
                std::fs::remove_file(path).expect("removed");
            }
        }
        for (path, bytes) in &self.files {
            if std::fs::read(path).ok().as_ref() != Some(bytes) {
                std::fs::write(path, bytes).expect("written");
            }
        }
    }

    /// Flips one bit of every `step`-th byte, and does something with each such store.
    fn each_flip(&self, seed: u64, step: usize, mut work: impl FnMut(&Path, usize)) {
        let mut skip = usize::try_from(mixed(seed) % step as u64).expect("small");
        for (path, bytes) in &self.files {
            // Files that other programs may change are not protected, and the search index is
            // discarded if it does not match the logs.
            let ours =
                path.strip_prefix(self.root()).is_ok_and(|path| path.starts_with(".rethread"));
            if self.place == Place::Files && (!ours || path.ends_with("search.db")) {
                continue;
            }
            for at in 0..bytes.len() {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                skip = step - 1;
                self.restore();
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (mixed(seed ^ at as u64) % 8);
                std::fs::write(path, flipped).expect("written");
                work(path, at);
            }
        }
        self.restore();
    }

    fn written(&self) -> Written {
        let sessions = self.open().expect("a store");
        let page = sessions.list(&Filter::default(), None, 99).expect("a list");
        let all: BTreeMap<_, _> = page.sessions.into_iter().map(|one| (one.id(), one)).collect();
        assert_eq!(all.len(), SESSIONS);
        let read = |id: &SessionId| (*id, sessions.read(*id, 0..99).expect("read"));
        Written { entries: all.keys().map(read).collect(), sessions: all }
    }

    /// Reads everything, and compares it with what was written. Also tells whether a list shows every
    /// session but the one that was hit.
    fn outcome(&self, written: &Written) -> (Outcome, bool) {
        let Some(sessions) = self.open() else { return (Outcome::Told, false) };
        let mut lists_the_others = false;
        let mut told = false;
        let mut worst = Outcome::Same;
        let mut header = false;
        match sessions.list(&Filter::default(), None, 99) {
            Err(_) => told = true,
            Ok(page) => {
                told |= !page.damaged.is_empty();
                lists_the_others = page.sessions.len() + 1 >= SESSIONS;
                let listed: BTreeMap<_, _> =
                    page.sessions.into_iter().map(|one| (one.id(), one)).collect();
                header |= written.sessions.iter().any(|(id, one)| listed.get(id) != Some(one));
            }
        }
        for (id, right) in &written.entries {
            match sessions.read(*id, 0..99) {
                Err(_) => told = true,
                Ok(read) => {
                    let differs = right.iter().zip(&read).any(|(right, read)| says(right, read));
                    if differs || read.len() > right.len() {
                        worst = worst.max(Outcome::Changed);
                    } else if read.len() < right.len() {
                        worst = worst.max(Outcome::Short);
                    }
                    // Counts are computed from the messages.
                    header |= right.iter().zip(&read).any(|(right, read)| right != read);
                }
            }
            let session = &written.sessions[id];
            header |= sessions.get(*id).is_ok_and(|found| found != *session);
            for key in &session.keys {
                header |= sessions.resolve(key).is_ok_and(|found| found != Some(*id));
            }
        }
        let outcome = match worst {
            Outcome::Same if told => Outcome::Told,
            Outcome::Same if header => Outcome::Header,
            worst => worst,
        };
        (outcome, lists_the_others)
    }

    /// The schema, if SQLite can follow every B-tree to every row, and every index has the values of
    /// its rows: lists are read from an index. What else is in the rows does not matter.
    fn intact_schema(&self) -> Option<Vec<String>> {
        let read = |sql: &str| -> rusqlite::Result<Vec<String>> {
            let database = Connection::open(self.database())?;
            let mut statement = database.prepare(sql)?;
            let rows = statement.query_map([], |row| row.get(0))?;
            rows.collect()
        };
        let lines = read("PRAGMA integrity_check").ok()?.join("\n");
        let values = ["ok", " value in "];
        let intact = lines.lines().all(|line| values.iter().any(|value| line.contains(value)));
        let sql = "SELECT concat_ws(' ', type, name, tbl_name, rootpage, sql) FROM sqlite_schema";
        read(sql).ok().filter(|_| intact)
    }

    fn database(&self) -> PathBuf {
        match self.place {
            Place::Sqlite => self.root().join("rethread.db"),
            Place::Files => self.root().join(".rethread/sessions.db"),
        }
    }

    /// Whether `doctor` finds something wrong, or cannot open the store at all.
    fn doctor_sees(&self) -> bool {
        let Some(sessions) = self.open() else { return true };
        sessions.doctor(false, |_, _| {}).map_or(true, |(_, findings)| !findings.is_empty())
    }

    /// The bodies that are stored as they are, of all rows.
    fn bodies(&self) -> Option<Vec<Vec<u8>>> {
        let database = Connection::open(self.database()).ok()?;
        let sql = "SELECT body FROM entries WHERE size IS NULL ORDER BY session, seq";
        let mut statement = database.prepare(sql).ok()?;
        let rows = statement.query_map([], |row| row.get(0)).ok()?;
        rows.collect::<Result<_, _>>().ok()
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("read")
}

/// Whether two entries at one place differ in what was said, by whom, when, or under which id.
fn says(right: &Entry, read: &Entry) -> bool {
    let said = |entry: &Entry| (entry.seq, entry.at, entry.id.clone(), entry.body.clone());
    said(right) != said(read)
}

/// A pseudo-random number.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
