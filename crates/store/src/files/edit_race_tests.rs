//! Tests: another program, which takes no lock, changes files in the middle of a fold.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rethread_core::{Message, Name, New, Owner, SessionId, Sessions};

use super::disk::{Disk, Real};
use super::faults::{options, without_thread};

type Deed = Box<dyn FnOnce() + Send>;

/// A disk on which something happens once a new version of this file is written, or, if its name
/// follows an arrow, right before that replaces the old one.
#[derive(Default)]
struct Meddled(Mutex<Option<(&'static str, Deed)>>);

impl Disk for Meddled {
    fn create(&self, path: &Path) -> io::Result<File> {
        let file = Real.create(path)?;
        self.act(|name| path.to_string_lossy().contains(&format!("{name}.tmp.")));
        Ok(file)
    }

    fn swap(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.act(|name| name.strip_prefix("->").is_some_and(|name| other.ends_with(name)));
        Real.swap(one, other)
    }
}

impl Meddled {
    fn act(&self, is_it: impl Fn(&str) -> bool) {
        let deed = self.0.lock().expect("not poisoned").take_if(|(name, _)| is_it(name));
        if let Some((_, deed)) = deed {
            deed();
        }
    }
}

fn sessions(folder: &Path, disk: Arc<Meddled>) -> Sessions {
    let world = Arc::new(crate::System);
    let store = without_thread(options(disk, world.clone()), folder);
    Sessions::new(Arc::new(store.expect("a store")), Owner::local(), world)
}

/// A session with the message `one`, and with `two` added while another program did this to its
/// file.
fn meddled(
    folder: &Path,
    when: &'static str,
    deed: impl FnOnce(&Path) + Send + 'static,
) -> SessionId {
    let disk = Arc::new(Meddled::default());
    let first = sessions(folder, disk.clone());
    let new = New { name: Some(Name::new("plan").expect("a name")), ..New::default() };
    let id = first.create(&new, None).expect("created").id();
    first.append(id, vec![Message::user("one").into()]).expect("appended");
    drop(first);
    let again = sessions(folder, disk.clone());
    again.append(id, vec![Message::assistant("two").into()]).expect("appended");
    let file = folder.join("plan.json");
    *disk.0.lock().expect("one thread") = Some((when, Box::new(move || deed(&file))));
    drop(again);
    assert!(disk.0.lock().expect("one thread").is_none(), "it was done");
    id
}

#[test]
fn what_another_program_writes_while_we_fold_is_taken_in() {
    for when in ["plan.json", "->plan.json"] {
        if when.starts_with("->") && !cfg!(target_os = "linux") {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let id = meddled(folder.path(), when, |file| {
            let text = std::fs::read_to_string(file).expect("its file");
            let (all, theirs) = ("\n]", ",\n{\"role\":\"user\",\"content\":\"theirs\"}\n]");
            assert_eq!(text.matches(all).count(), 1, "{text}");
            std::fs::write(file, text.replace(all, theirs)).expect("written");
        });
        let after = sessions(folder.path(), Arc::default());
        let said = after.read(id, 0..9).expect("read");
        let said = said.iter().filter_map(|entry| entry.body.message()).map(Message::plain_text);
        assert_eq!(said.collect::<Vec<_>>(), ["one", "two", "theirs"], "{when}");
        let file = std::fs::read_to_string(folder.path().join("plan.json")).expect("its file");
        assert!(file.contains("two") && file.contains("theirs"), "{when}: {file}");
        let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert_eq!(names.len(), 4, "nothing is left behind: {names:?}");
    }
}

#[test]
fn what_another_program_deletes_while_we_fold_stays_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let id =
        meddled(folder.path(), "plan.json", |file| std::fs::remove_file(file).expect("deleted"));
    assert!(!folder.path().join("plan.json").exists());
    assert!(sessions(folder.path(), Arc::default()).get(id).is_err());
    assert!(!folder.path().join("plan.json").exists());
}

#[test]
fn a_turn_does_not_wait_for_its_own_file_to_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Arc::new(Meddled::default());
    let first = Arc::new(sessions(folder.path(), disk.clone()));
    let new = New { name: Some(Name::new("plan").expect("a name")), ..New::default() };
    let id = first.create(&new, None).expect("created").id();
    drop(first);
    let world = Arc::new(crate::System);
    let options = options(disk.clone(), world.clone());
    let store = without_thread(options, folder.path());
    let store = Arc::new(store.expect("a store"));
    let again = Sessions::new(store.clone(), Owner::local(), world);
    again.append(id, vec![Message::user("one").into()]).expect("appended");
    // The file has its new version, but the database does not know yet.
    let (told, heard) = std::sync::mpsc::channel();
    let asked = again.clone();
    let deed: Deed = Box::new(move || {
        let (answer, answered) = std::sync::mpsc::channel();
        std::thread::spawn(move || answer.send(asked.get(id).is_ok()));
        let waited = answered.recv_timeout(std::time::Duration::from_secs(10));
        told.send(waited).expect("the test waits");
    });
    *disk.0.lock().expect("not poisoned") = Some(("index.json", deed));
    store.mirror.fold_dirty();
    assert_eq!(heard.try_recv(), Ok(Ok(true)), "it was answered in the middle of the fold");
}
