//! The files people see: names, modes, the archive and the limit.

use std::sync::Arc;

use rethread_core::{Fixed, Name, Owner, Sessions};
use rethread_store::{System, connect};

use crate::fixture::{Fixture, add, all, named, say, texts};

fn names(fixture: &Fixture, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(fixture.path().join(folder)).into_iter().flatten();
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_name_is_the_name_of_a_file() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "My Plan!", &["one"]);
    drop(sessions);
    assert_eq!(names(&fixture, "."), [".rethread", "index.json", "last_session", "my-plan.json"]);
    let file = fixture.json("my-plan.json");
    assert_eq!(
        (&file["metadata"]["id"], &file["metadata"]["name"]),
        (&"my-plan".into(), &"My Plan!".into())
    );
    let created = file["metadata"]["createdAt"].clone();
    let sessions = fixture.sessions();
    sessions.rename(id, &Name::new("Scheme").expect("a name")).expect("renamed");
    add(&sessions, id, &["two"]);
    drop(sessions);
    assert_eq!(names(&fixture, "."), [".rethread", "index.json", "last_session", "scheme.json"]);
    let file = fixture.json("scheme.json");
    assert_eq!(file["metadata"]["createdAt"], created, "kept when it is written again");
    assert_eq!(file["metadata"]["name"], "Scheme");
    assert_eq!(fixture.seed2(&["last"]), "scheme");
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[test]
fn a_name_in_any_script_has_a_file_that_other_programs_can_name() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let doctors = say(&sessions, "Café für Ärzte", &["one"]);
    let japanese = say(&sessions, "日本語", &["two"]);
    drop(sessions);
    let file = fixture.json("caf-f-r-rzte.json");
    assert_eq!(file["metadata"]["id"], "caf-f-r-rzte");
    assert_eq!(file["metadata"]["name"], "Café für Ärzte");
    let index = fixture.json("index.json");
    let stems: Vec<&String> = index["sessions"].as_object().expect("an object").keys().collect();
    let timed = stems.iter().find(|stem| stem.starts_with("20")).expect("one named by its time");
    assert_eq!(fixture.json(&format!("{timed}.json"))["metadata"]["name"], "日本語");
    assert_eq!(fixture.seed2(&["check"]), "");
    let sessions = fixture.sessions();
    for (selector, id) in
        [("Café für Ärzte", doctors), ("café-für-ärzte", doctors), ("日本語", japanese)]
    {
        assert_eq!(sessions.select(selector).expect("one"), id);
        assert!(sessions.get(id).expect("there").header.extra.is_empty());
    }
    sessions.rename(doctors, &Name::new("ärzte").expect("a name")).expect("renamed");
    drop(sessions);
    assert_eq!(fixture.json("rzte.json")["metadata"]["name"], "ärzte");
}

#[test]
fn a_session_without_a_name_is_named_by_its_time() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    sessions.create(&rethread_core::New::default(), None).expect("created");
    drop(sessions);
    let index = fixture.json("index.json");
    let stems: Vec<&String> = index["sessions"].as_object().expect("an object").keys().collect();
    let parts: Vec<usize> = stems[0].split('-').map(str::len).collect();
    assert_eq!(parts, [4, 2, 2, 2, 2, 2, 3, 4], "{stems:?}");
}

#[test]
fn the_archive_is_a_folder_beside_the_sessions() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let (old, new) = (say(&sessions, "old", &["one"]), say(&sessions, "new", &["two"]));
    drop(sessions);
    let sessions = fixture.sessions();
    sessions.archive(new).expect("archived");
    assert_eq!(names(&fixture, "archive"), ["new.json"]);
    assert_eq!(fixture.seed2(&["check"]), "", "the index follows at once");
    assert_eq!(fixture.seed2(&["last"]), "old", "the next newest is the last one now");
    assert_eq!(sessions.search("two", 0, 9).expect("searched").len(), 1);
    sessions.unarchive(new).expect("brought back");
    sessions.trash(old).expect("deleted");
    drop(sessions);
    assert_eq!(
        names(&fixture, "."),
        [".rethread", "archive", "index.json", "last_session", "new.json"]
    );
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[test]
fn fifty_sessions_are_kept_and_the_others_archived_or_deleted() {
    let fixture = Fixture::new();
    let world = Arc::new(Fixed::default());
    let store = connect(&fixture.url(), world.clone()).expect("a store");
    let sessions = Sessions::new(store, Owner::local(), world.clone());
    for number in 0..52 {
        say(&sessions, &format!("s{number}"), &["hello"]);
        world.advance(std::time::Duration::from_millis(2));
    }
    drop(sessions);
    assert_eq!(names(&fixture, "archive"), ["s0.json", "s1.json"]);
    assert_eq!(fixture.seed2(&["check"]), "");
    let open = |options: &str| {
        let store =
            connect(&format!("{}{options}", fixture.url()), Arc::new(System)).expect("a store");
        Sessions::new(store, Owner::local(), Arc::new(System))
    };
    let sessions = open("?max_sessions=0");
    say(&sessions, "one-more", &[]);
    assert_eq!(all(&sessions).iter().filter(|s| !s.header.archived).count(), 51);
    drop(sessions);
    let sessions = open("?max_sessions=10&purge=delete");
    say(&sessions, "and-more", &[]);
    assert_eq!(all(&sessions).len(), 12, "ten, and the two in the archive");
    drop(sessions);
    assert_eq!(fixture.seed2(&["check"]), "");
    let sessions = fixture.sessions();
    let s0 = named(&sessions, "s0");
    sessions.thread(s0).expect("opening brings it back");
    drop(sessions);
    assert_eq!(names(&fixture, "archive"), ["s1.json"]);
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    fn look(path: &std::path::Path, seen: &mut usize) {
        let mode = path.symlink_metadata().expect("there").permissions().mode() & 0o777;
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}", path.display());
        *seen += 1;
        for entry in std::fs::read_dir(path).into_iter().flatten() {
            look(&entry.expect("an entry").path(), seen);
        }
    }
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one"]);
    say(&sessions, "other", &["one"]);
    sessions.archive(id).expect("archived");
    drop(sessions);
    let mut seen = 0;
    look(&fixture.path(), &mut seen);
    assert!(seen >= 9, "{seen}");
}

#[test]
fn a_file_with_the_id_of_another_owners_session_is_a_session_of_its_own() {
    let (fixture, elsewhere) = (Fixture::new(), Fixture::new());
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one"]);
    let stranger = Owner::new("telegram:42").expect("an owner");
    let theirs = || elsewhere.sessions().of_owner(stranger.clone());
    sessions.copy_to(id, &theirs(), |_| {}).expect("copied");
    drop(sessions);
    let [from, to] = [&fixture, &elsewhere].map(|fixture| fixture.path().join("plan.json"));
    std::fs::copy(from, to).expect("copied");
    for _ in 0..2 {
        let sessions = elsewhere.sessions();
        let ours = named(&sessions, "plan");
        assert_ne!(ours, id);
        assert_eq!(texts(&sessions, ours), ["one"]);
        assert_eq!(all(&sessions).len(), 1);
        assert_eq!(texts(&theirs(), id), ["one"]);
    }
    assert_eq!(elsewhere.seed2(&["check"]), "");
}

#[test]
fn other_programs_see_nothing_of_another_owner() {
    let fixture = Fixture::new();
    say(&fixture.sessions(), "plan", &["one"]);
    let before = names(&fixture, ".");
    let stranger = Owner::new("telegram:42").expect("an owner");
    let open = || Sessions::new(fixture.store(), stranger.clone(), Arc::new(System));
    assert_eq!(all(&open()), []);
    let theirs = say(&open(), "plan", &["mine alone"]);
    assert_eq!(names(&fixture, "."), before);
    assert_eq!(all(&open())[0].id(), theirs);
    assert_eq!(all(&fixture.sessions()).len(), 1);
    assert_eq!(fixture.seed2(&["check"]), "");
    for name in names(&fixture, ".").iter().filter(|name| *name != ".rethread") {
        let text = std::fs::read_to_string(fixture.path().join(name)).expect("a file");
        assert!(!text.contains("mine alone"), "{name}: {text}");
    }
    // A database that leads elsewhere is not followed.
    let database = fixture.path().join(".rethread/sessions.db");
    std::fs::rename(&database, fixture.path().join("elsewhere")).expect("moved");
    std::os::unix::fs::symlink(fixture.path().join("elsewhere"), &database).expect("a link");
    let refused = connect(&fixture.url(), Arc::new(System)).err().expect("refused");
    assert!(refused.to_string().ends_with("is not a Rethread store"), "{refused}");
}
