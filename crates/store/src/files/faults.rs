//! Tests: a crash at every disk operation, and what the next process finds.
//!
//! The disk here stops at its n-th call: nothing happens from then on, as if the process were gone.
//! In one variant the call it stops at is a write of which half arrives; in another the power
//! fails, and everything that was not synced is lost as well.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rethread_core::store::{At, Bind, Change, Filter, FindingState, Result, Upkeep};
use rethread_core::{
    Body, EntryId, Fixed, Header, Key, Message, Name, NewEntry, Owner, SessionId, Store,
    StoreError, World,
};

use super::disk::{Disk, Real};
use super::{FilesLimit, FilesStore, Mirror, OpenOptions};

/// The options of a store on such a disk.
pub(super) fn options(disk: Arc<dyn Disk>, world: Arc<dyn World>) -> OpenOptions {
    OpenOptions { disk, limit: FilesLimit::default(), world, tell: None }
}

/// A store that writes its files on request, and when it is closed.
pub(super) fn without_thread(options: OpenOptions, path: &Path) -> Result<FilesStore> {
    Ok(FilesStore { mirror: Arc::new(Mirror::open(options, path)?), thread: None })
}

/// The kind of crash.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    /// The process dies before the call.
    Before,
    /// Half of a write arrives.
    Torn,
    /// The power fails: what was not synced is lost, including names in folders.
    Power,
}

/// A disk that stops.
struct Faulty {
    crash: Crash,
    at: u64,
    calls: AtomicU64,
    /// Files with unsynced bytes, and their synced length.
    unsynced: Mutex<HashMap<u64, (File, u64)>>,
    names: Mutex<Names>,
}

/// Changes to names in folders that were not synced since.
#[derive(Default)]
struct Names {
    changes: Vec<Renamed>,
    /// Where files are kept that lost their name.
    attic: Option<tempfile::TempDir>,
    /// The number of those files.
    kept: u64,
}

/// A name that was changed.
struct Renamed {
    path: PathBuf,
    /// The file it named, kept under another name; `None` if there was none.
    before: Option<PathBuf>,
}

impl Names {
    /// Remembers what a name refers to, before that changes.
    fn note(&mut self, path: &Path) {
        let attic = self.attic.get_or_insert_with(a_folder).path();
        let kept = attic.join(self.kept.to_string());
        self.kept += 1;
        let before = std::fs::hard_link(path, &kept).is_ok().then_some(kept);
        self.changes.push(Renamed { path: path.into(), before });
    }

    /// Syncs the changes in this folder.
    fn keep(&mut self, folder: &Path) {
        self.changes.retain(|change| change.path.parent() != Some(folder));
    }

    /// Undoes all other changes.
    fn take_back(&mut self) {
        for Renamed { path, before } in self.changes.drain(..).rev() {
            drop(std::fs::remove_file(&path));
            if let Some(before) = before {
                std::fs::hard_link(before, path).expect("as it was");
            }
        }
    }
}

impl Faulty {
    fn new(crash: Crash, at: u64) -> Faulty {
        Faulty {
            crash,
            at,
            calls: AtomicU64::new(0),
            unsynced: Mutex::default(),
            names: Mutex::default(),
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("one thread")
    }

    fn crashed(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > self.at
    }

    fn step(&self, last_breath: impl FnOnce()) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if call == self.at {
            match self.crash {
                Crash::Before => {}
                Crash::Torn => last_breath(),
                Crash::Power => {
                    for (file, length) in self.unsynced.lock().expect("one thread").values() {
                        file.set_len(*length).expect("cut off");
                    }
                    self.names().take_back();
                }
            }
        }
        match call >= self.at {
            true => Err(io::Error::other("the process is gone")),
            false => Ok(()),
        }
    }
}

fn inode(file: &File) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&file.metadata().expect("an open file"))
}

impl Disk for Faulty {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.step(|| {})?;
        self.names().note(path);
        Real.create(path)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        self.step(|| Real.write(file, &bytes[..bytes.len() / 2]).expect("half a write"))?;
        let mut unsynced = self.unsynced.lock().expect("one thread");
        let length = file.metadata()?.len();
        unsynced.entry(inode(file)).or_insert((file.try_clone()?, length));
        Real.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step(|| {})?;
        self.unsynced.lock().expect("one thread").remove(&inode(file));
        Real.sync(file)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step(|| {})?;
        self.names().keep(folder);
        Real.sync_folder(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| {})?;
        self.names().note(from);
        self.names().note(to);
        Real.rename(from, to)
    }

    fn swap(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.step(|| {})?;
        self.names().note(one);
        self.names().note(other);
        Real.swap(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|| {})?;
        self.names().note(path);
        Real.remove(path)
    }

    fn folder(&self, path: &Path) -> io::Result<()> {
        self.step(|| {})?;
        Real.folder(path)
    }

    /// What SQLite commits is synced.
    fn commit(&self) -> io::Result<()> {
        self.step(|| {})
    }
}

fn said(world: &Fixed, text: &str) -> NewEntry {
    let body = Body::Message(Message::user(text));
    NewEntry::new(EntryId::new(text).expect("an id"), world.now(), body)
}

fn named(world: &Fixed, name: &str) -> Header {
    let header = Header::new(SessionId(world.uuid()), Owner::local(), world.now());
    Header { name: Name::new(name).expect("a name"), ..header }
}

/// What was acknowledged before the crash.
#[derive(Default)]
struct Acknowledged {
    plan: Option<SessionId>,
    said: Vec<String>,
    renamed: bool,
    archived: Option<bool>,
    deleted: Option<bool>,
    trashed: bool,
}

/// A sequence of operations in a directory, with the files written where the thread would write
/// them: created, appended to, a turn with its lease, renamed, one session archived, one erased, one
/// moved to the trash, and closed.
fn a_day(
    disk: Arc<dyn Disk>,
    path: &Path,
    world: &Arc<Fixed>,
    acknowledged: &mut Acknowledged,
) -> Result<()> {
    let owner = Owner::local();
    let store = without_thread(options(disk, world.clone()), path)?;
    let header = named(world, "plan");
    let bind = Bind { key: Key::new("file:plan").expect("a key"), seen: None };
    store.create(&header, &[said(world, "one")], &[bind])?;
    acknowledged.plan = Some(header.id);
    acknowledged.said.push("one".into());
    let append = |at, texts: &[&str], acknowledged: &mut Acknowledged| {
        world.advance(Duration::from_millis(5));
        let entries: Vec<NewEntry> = texts.iter().map(|text| said(world, text)).collect();
        store.append(&owner, header.id, at, &entries)?;
        acknowledged.said.extend(texts.iter().map(|text| (*text).to_owned()));
        Ok::<(), StoreError>(())
    };
    append(At::END, &["two", "three"], acknowledged)?;
    let ttl = Duration::from_secs(30);
    let lease = store.lease(&owner, header.id, "me", ttl)?;
    append(At { fence: Some(lease.fence), ..At::head(3) }, &["four"], acknowledged)?;
    store.lease(&owner, header.id, "me", Duration::ZERO)?;
    store.mirror.fold_dirty();
    append(At::END, &["five"], acknowledged)?;
    let change = Change { name: Some(Name::new("scheme").expect("a name")), ..Change::default() };
    store.update(&owner, header.id, &change)?;
    acknowledged.renamed = true;
    let [old, gone, trash] = ["old", "gone", "trash"].map(|name| named(world, name));
    for header in [&old, &gone, &trash] {
        store.create(header, &[said(world, "hello")], &[])?;
        let lease = store.lease(&owner, header.id, "me", ttl)?;
        assert_eq!(lease.fence, 1);
        store.lease(&owner, header.id, "me", Duration::ZERO)?;
        store.mirror.fold_dirty();
    }
    acknowledged.archived = Some(false);
    let away = Change { archived: Some(true), ..Change::default() };
    store.update(&owner, old.id, &away)?;
    acknowledged.archived = Some(true);
    acknowledged.deleted = Some(false);
    store.delete(&owner, gone.id, None)?;
    acknowledged.deleted = Some(true);
    let change = Change::to_trash(&store.get(&owner, trash.id)?, world.now());
    store.update(&owner, trash.id, &change)?;
    acknowledged.trashed = true;
    append(At::END, &["six"], acknowledged)
}

/// Checks everything that must hold after the directory was opened again.
fn sound(path: &Path, world: &Arc<Fixed>, acknowledged: &Acknowledged, when: &str) {
    let owner = Owner::local();
    let open = || FilesStore::open(path, FilesLimit::default(), world.clone()).expect(when);
    drop(open());
    files_match(path, world, when);
    let store = open();
    let names: Vec<String> = {
        let page = store.list(&owner, &Filter::default(), None, 99).expect(when);
        assert_eq!(page.damaged, [], "{when}");
        page.sessions.iter().map(|session| session.header.name.to_string()).collect()
    };
    if let Some(plan) = acknowledged.plan {
        let log = store.read(&owner, plan, 0..99).expect(when);
        let texts: Vec<&str> = log.iter().map(|entry| entry.id.as_str()).collect();
        let all = ["one", "two", "three", "four", "five", "six"];
        assert!(
            texts.starts_with(&acknowledged.said.iter().map(String::as_str).collect::<Vec<_>>())
        );
        assert_eq!(texts, all[..texts.len()], "{when}: nothing else, in order");
        assert_ne!(texts.len(), 2, "{when}: nobody sees half a batch");
        let key = Key::new("file:plan").expect("a key");
        assert_eq!(store.resolve(&owner, &key).expect(when), Some(plan), "{when}");
        assert!(
            names.contains(&if acknowledged.renamed { "scheme" } else { "plan" }.to_owned())
                || !acknowledged.renamed
        );
        assert_eq!(names.iter().filter(|n| ["plan", "scheme"].contains(&n.as_str())).count(), 1);
    }
    if acknowledged.deleted == Some(true) {
        assert!(!names.contains(&"gone".to_owned()), "{when}: what was deleted came back");
        assert!(!path.join("gone.json").exists(), "{when}");
    }
    if acknowledged.trashed {
        assert!(!names.contains(&"trash".to_owned()), "{when}: it came back from the trash");
        assert!(!path.join("trash.json").exists(), "{when}");
    }
    if acknowledged.archived.is_some() {
        assert!(names.contains(&"old".to_owned()), "{when}: a file that is moved is not deleted");
    }
    if acknowledged.archived == Some(true) {
        assert!(path.join("archive/old.json").exists(), "{when}");
        assert!(!path.join("old.json").exists(), "{when}");
    }
    for (_, id) in store.everything().expect(when) {
        let findings = store.check_session(&owner, id, false).expect(when);
        assert_eq!(findings, [], "{when}");
    }
    let findings = store.check(false).expect(when);
    assert!(findings.iter().all(|f| f.state != FindingState::Damaged), "{when}: {findings:?}");
    // The session can be written to, and the files are updated.
    if let Some(plan) = acknowledged.plan {
        let entries = [said(world, "afterwards")];
        let held = store.append(&owner, plan, At::END, &entries);
        assert!(matches!(held, Ok(_) | Err(StoreError::Held { .. })), "{when}: {held:?}");
    }
    drop(store);
    world.advance(Duration::from_secs(60));
    drop(open());
    files_match(path, world, when);
}

/// The visible files match the logs.
fn files_match(path: &Path, world: &Arc<Fixed>, when: &str) {
    let owner = Owner::local();
    let json = |path: &Path| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(path).expect(when)).expect(when)
    };
    let index = json(&path.join("index.json"));
    assert_eq!(index["version"], "1.0");
    let listed = index["sessions"].as_object().expect(when).clone();
    let store = FilesStore::open(path, FilesLimit::default(), world.clone()).expect(when);
    let page = store.list(&owner, &Filter::default(), None, 99).expect(when);
    for session in &page.sessions {
        let stem = session.header.name.as_str();
        let folder = if session.header.archived { "archive" } else { "." };
        let file = json(&path.join(folder).join(format!("{stem}.json")));
        assert_eq!(file["metadata"]["id"], stem, "{when}");
        assert_eq!(file["metadata"]["messageCount"], session.tally.messages, "{when}");
        assert_eq!(
            file["messages"].as_array().map(Vec::len),
            Some(session.tally.messages as usize)
        );
        match session.header.archived {
            true => assert!(!listed.contains_key(stem), "{when}"),
            false => assert_eq!(listed[stem], file["metadata"], "{when}"),
        }
    }
    let active = page.sessions.iter().filter(|session| !session.header.archived).count();
    assert_eq!(listed.len(), active, "{when}");
    let newest = page.sessions.iter().find(|session| !session.header.archived);
    let last = std::fs::read_to_string(path.join("last_session")).ok();
    assert_eq!(last.as_deref(), newest.map(|session| session.header.name.as_str()), "{when}");
    for folder in [path.to_owned(), path.join(".rethread")] {
        let left = super::disk::names(&folder).expect(when);
        assert!(!left.iter().any(|name| name.contains(".tmp.")), "{when}: {left:?}");
    }
}

/// A folder in memory, if there is one: hundreds of runs with dozens of syncs each would keep a
/// disk busy, and the simulated disk decides what is lost.
fn a_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

fn crash_everywhere(crash: Crash) {
    for at in 0.. {
        let folder = a_folder();
        let path = folder.path().join("sessions");
        let world = Arc::new(Fixed::default());
        let disk = Arc::new(Faulty::new(crash, at));
        let mut acknowledged = Acknowledged::default();
        let outcome = a_day(disk.clone(), &path, &world, &mut acknowledged);
        let when = format!("{crash:?} at call {at} ({})", acknowledged.said.join(" "));
        assert!(outcome.is_ok() || disk.crashed(), "{when}: {outcome:?}");
        // The lease of the dead process expires.
        world.advance(Duration::from_secs(60));
        sound(&path, &world, &acknowledged, &when);
        if !disk.crashed() {
            assert!(at > 100, "a day takes more than {at} calls");
            return;
        }
    }
}

#[test]
fn a_process_that_dies_before_any_call_loses_nothing_it_acknowledged() {
    crash_everywhere(Crash::Before);
}

#[test]
fn a_process_that_dies_in_the_middle_of_any_write_loses_nothing_it_acknowledged() {
    crash_everywhere(Crash::Torn);
}

#[test]
fn a_machine_that_loses_its_power_at_any_call_keeps_what_was_acknowledged() {
    crash_everywhere(Crash::Power);
}

#[test]
fn words_of_another_program_are_never_taken_for_ours_wherever_importing_them_ends() {
    let owner = Owner::local();
    for at in 0.. {
        let (folder, world) = (a_folder(), Arc::new(Fixed::default()));
        let store = without_thread(options(Arc::new(Real), world.clone()), folder.path());
        let (store, header) = (store.expect("a store"), named(&world, "plan"));
        store.create(&header, &[said(&world, "ours")], &[]).expect("created");
        drop(store);
        let file = folder.path().join("plan.json");
        let text = std::fs::read_to_string(&file).expect("its file");
        let theirs = ",\n{\"role\":\"user\",\"content\":\"theirs\"}\n]";
        std::fs::write(&file, text.replace("\n]", theirs)).expect("written");
        let disk = Arc::new(Faulty::new(Crash::Before, at));
        drop(without_thread(options(disk.clone(), world.clone()), folder.path()));
        for _ in 0..2 {
            let disk = Arc::new(Faulty::new(Crash::Before, u64::MAX));
            let store = without_thread(options(disk, world.clone()), folder.path());
            let session = store.expect("a store").get(&owner, header.id).expect("there");
            assert_eq!((session.tally.messages, at), (2, at));
            assert!(session.header.imported.is_some(), "after call {at}");
        }
        if !disk.crashed() {
            assert!(at > 3, "it was stopped where it counts");
            return;
        }
    }
}

/// A disk that is full for one call, and then has space again.
struct Full {
    at: u64,
    calls: AtomicU64,
}

impl Full {
    fn step(&self) -> io::Result<()> {
        match self.calls.fetch_add(1, Ordering::SeqCst) == self.at {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl Disk for Full {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.step()?;
        Real.create(path)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.step() {
            Real.write(file, &bytes[..bytes.len() / 3])?;
            return Err(error);
        }
        Real.write(file, bytes)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.step()?;
        Real.sync(file)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        Real.rename(from, to)
    }
}

#[test]
fn a_full_disk_is_reported_and_writing_continues_when_there_is_space() {
    for at in 0..60 {
        let folder = a_folder();
        let world = Arc::new(Fixed::default());
        let disk = Arc::new(Full { at, calls: AtomicU64::new(0) });
        let open = || without_thread(options(disk.clone(), world.clone()), folder.path());
        let store = open().or_else(|_| open()).expect("there is room again");
        let owner = Owner::local();
        let header = named(&world, "plan");
        let create = || store.create(&header, &[], &[]);
        create().or_else(|_| create()).expect("there is room again");
        for index in 0..5 {
            let entries = [said(&world, &format!("{index}"))];
            let append = || store.append(&owner, header.id, At::END, &entries);
            let seqs = append().or_else(|error| {
                assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
                assert_eq!(store.read(&owner, header.id, 0..9).expect("read").len(), index);
                append()
            });
            assert_eq!(seqs.expect("there is room again").seqs, [index as u64], "at call {at}");
        }
        drop(store);
        drop(FilesStore::open(folder.path(), FilesLimit::default(), world.clone()).expect("open"));
        files_match(folder.path(), &world, &format!("full at call {at}"));
    }
}
