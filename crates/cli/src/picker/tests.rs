//! The picker without a terminal or a store: keys and results go in.

use std::sync::Arc;

use rethread_core::{Fixed, Incoming, MemoryStore, Message, Name, New, Owner, Profile};
use rethread_core::{ProfileChange, Sessions};

use super::*;
use crate::chat::keys::Key;

struct Table {
    picker: Picker,
    sessions: Sessions,
}

impl Table {
    /// A picker over sessions with these names and first messages, the last of them the newest.
    fn of<'a>(told: impl IntoIterator<Item = (&'a str, &'a str)>) -> Table {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world.clone());
        for (name, first) in told {
            world.advance(std::time::Duration::from_secs(60));
            let workspace = Some(format!("/home/you/{name}"));
            let profile = Profile { workspace, ..Profile::default() };
            let new = New {
                name: Some(Name::new(name).expect("a name")),
                profile,
                source: Some("claude-code".into()),
                ..New::default()
            };
            let said = vec![Incoming::from(Message::user(first))];
            sessions.create_with(&new, None, said).expect("created");
        }
        let around = Surroundings {
            columns: 80,
            rows: 24,
            style: Style::plain(80),
            home: "/home/you".into(),
            now: rethread_core::World::now(&*world),
        };
        Table { picker: Picker::new(None, around), sessions }
    }

    /// Runs all pending tasks.
    fn settle(&mut self) {
        loop {
            let tasks = self.picker.take_tasks();
            if tasks.is_empty() {
                return;
            }
            for task in tasks {
                let found = run(&self.sessions, task, self.picker.style(), self.picker.now);
                self.picker.found(found);
            }
        }
    }

    fn types(&mut self, text: &str) -> PickerAction {
        self.picker.key(&Key::Text(text.into()))
    }

    fn names(&self) -> Vec<String> {
        let rows = self.picker.visible_rows();
        let name = |at: &usize| self.sessions.get(rows[*at].id).expect("it is there").header.name;
        self.picker.shown.iter().map(|at| name(at).to_string()).collect()
    }

    fn id(&self, name: &str) -> SessionId {
        self.sessions.select(name).expect("it is there")
    }

    fn screen(&self) -> String {
        self.picker.draw().lines.join("\n")
    }
}

fn three() -> Table {
    let mut table = Table::of([
        ("caching", "How should we cache sessions in Redis?"),
        ("limits", "Write a rate limiter"),
        ("garden", "Which roses grow in the shade? They must not mind limits."),
    ]);
    let title = ProfileChange { title: Some(Some("Roses".into())), ..ProfileChange::default() };
    table.sessions.update(table.id("garden"), &title.into()).expect("a title");
    table.settle();
    table
}

#[test]
fn sessions_are_found_by_title_first_message_folder_and_source() {
    let mut table = three();
    assert_eq!(table.names(), ["garden", "limits", "caching"]);
    for (typed, found) in [
        ("roses shade", vec!["garden"]),
        ("REDIS", vec!["caching"]),
        ("~/cach", vec!["caching"]),
        ("claude", vec!["garden", "limits", "caching"]),
        // The one with this name comes first, although it is older.
        ("limits", vec!["limits", "garden"]),
        // The letters in this order.
        ("cchng", vec!["caching"]),
        ("zebra", vec![]),
        // Rows that are not shown are found only by their complete text.
        ("_20", vec![]),
    ] {
        table.picker.key(&Key::EraseLine);
        table.types(typed);
        table.settle();
        assert_eq!(table.names(), found, "{typed}");
    }
}

#[test]
fn what_was_said_later_is_found_in_the_store_while_the_person_types() {
    let mut table = three();
    let id = table.id("caching");
    let said = Incoming::from(Message::assistant("Use an umbrella."));
    table.sessions.append(id, vec![said]).expect("appended");
    table.types("umbrel");
    assert_eq!(table.names(), [""; 0], "the header does not say it");
    table.settle();
    assert_eq!(table.names(), ["caching"]);
    assert!(table.screen().contains("found: Use an umbrella."), "{}", table.screen());
}

#[test]
fn many_hits_in_one_session_hide_no_other() {
    let mut table = three();
    let said = |text: &str| Incoming::from(Message::assistant(text));
    table.sessions.append(table.id("caching"), vec![said("An umbrella.")]).expect("appended");
    let loud = (0..tasks::FOUND_MAX + 100).map(|_| said("An umbrella again.")).collect();
    table.sessions.append(table.id("limits"), loud).expect("appended");
    table.types("umbrella");
    table.settle();
    assert_eq!(table.names(), ["limits", "caching"]);
    assert!(table.screen().contains(" 2 of 3 "), "{}", table.screen());
}

#[test]
fn more_sessions_than_are_listed_are_counted_with_a_plus() {
    let names: Vec<String> = (0..=tasks::FOUND_MAX).map(|n| format!("s{n}")).collect();
    for (sessions, counted) in
        [(tasks::FOUND_MAX, "500 of 500 "), (tasks::FOUND_MAX + 1, "500+ of 501 ")]
    {
        let mut table = Table::of(names[..sessions].iter().map(|name| (name.as_str(), "hello")));
        for name in &names[..sessions] {
            let said = Incoming::from(Message::assistant("An umbrella."));
            table.sessions.append(table.id(name), vec![said]).expect("appended");
        }
        table.settle();
        table.types("umbrella");
        table.settle();
        assert!(table.screen().contains(&format!(" {counted}")), "{}", table.screen());
        table.types("x");
        assert!(!table.screen().contains('+'), "{}", table.screen());
    }
}

#[test]
fn each_word_may_be_in_the_row_or_in_any_message_of_the_session() {
    let mut table = three();
    for (name, text) in [("caching", "Use an umbrella."), ("caching", "And a raincoat.")] {
        let said = Incoming::from(Message::assistant(text));
        table.sessions.append(table.id(name), vec![said]).expect("appended");
    }
    let said = Incoming::from(Message::assistant("No umbrella here."));
    table.sessions.append(table.id("limits"), vec![said]).expect("appended");
    for (typed, found) in [
        ("umbrella", vec!["limits", "caching"]),
        ("~/cach umbrel", vec!["caching"]),
        ("umbrella redis", vec!["caching"]),
        ("raincoat umbrella", vec!["caching"]),
        ("umbrel redis", vec![]),
        ("umbrella roses", vec![]),
        ("\"umbrella redis\"", vec![]),
        ("\"an umbrella\"", vec!["caching"]),
    ] {
        table.picker.key(&Key::EraseLine);
        table.types(typed);
        table.settle();
        assert_eq!(table.names(), found, "{typed}");
    }
    // One that is not listed is found the same way.
    table.sessions.archive(table.id("caching")).expect("archived");
    table.picker = Picker::new(None, around(&table));
    table.settle();
    table.types("redis umbrella");
    table.settle();
    assert_eq!(table.names(), ["caching"]);
}

#[test]
fn a_session_that_is_not_listed_is_found_by_what_was_said_in_it() {
    let mut table = three();
    table.sessions.archive(table.id("caching")).expect("archived");
    let mut picker = Picker::new(None, around(&table));
    std::mem::swap(&mut picker, &mut table.picker);
    table.settle();
    assert_eq!(table.names(), ["garden", "limits"]);
    table.types("redis");
    table.settle();
    assert_eq!(table.names(), ["caching"]);
    assert!(table.screen().contains("›   ·  (archived) caching"), "{}", table.screen());
    // It is counted next to the list, and not as part of it.
    assert!(table.screen().contains(" 0 of 2 + 1 more"), "{}", table.screen());
    assert_eq!(table.types("\ta"), PickerAction::Do(table.id("caching"), Verb::Unarchive));
}

fn around(table: &Table) -> Surroundings {
    Surroundings {
        columns: 80,
        rows: 24,
        style: Style::plain(80),
        home: "/home/you".into(),
        now: table.picker.now,
    }
}

#[test]
fn one_search_runs_at_a_time_and_the_last_word_typed_is_looked_for_next() {
    let mut table = three();
    let searches = |picker: &mut Picker| {
        let tasks = picker.take_tasks().into_iter();
        let query = |task| match task {
            Task::Search(query) => Some(query),
            _ => None,
        };
        tasks.filter_map(query).collect::<Vec<String>>()
    };
    table.types("r");
    assert_eq!(searches(&mut table.picker), ["r"]);
    for letter in ["e", "d", "i", "s"] {
        table.types(letter);
        assert_eq!(searches(&mut table.picker), [""; 0], "{letter}");
    }
    let late = TaskResult::Said { query: "r".into(), hits: Vec::new(), is_capped: false };
    table.picker.found(late);
    assert_eq!(searches(&mut table.picker), ["redis"]);
    table.picker.found(TaskResult::Said {
        query: "redis".into(),
        hits: Vec::new(),
        is_capped: false,
    });
    assert_eq!(searches(&mut table.picker), [""; 0]);
    // The same word again, after it was deleted: its hits were discarded.
    table.picker.key(&Key::EraseLine);
    table.types("redis");
    assert_eq!(searches(&mut table.picker), ["redis"]);
}

#[test]
fn letters_filter_until_tab_moves_to_the_keys() {
    let mut table = three();
    assert_eq!(table.types("s"), PickerAction::Nothing);
    assert_eq!(table.picker.filter, "s");
    assert_eq!(table.picker.key(&Key::EraseLine), PickerAction::Nothing);
    assert_eq!(
        table.picker.key(&Key::Enter),
        PickerAction::Choice(Choice::Open(table.id("garden"))),
        "Enter opens the session whole"
    );
    table.picker.key(&Key::Down);
    assert_eq!(table.types("\ts"), PickerAction::Choice(Choice::Summary(table.id("limits"))));
    let screen = table.screen();
    for text in ["Enter continues it", "s starts from its summary"] {
        assert!(screen.contains(text), "{screen}");
    }
    assert_eq!(table.picker.key(&Key::Escape), PickerAction::Nothing, "back to the filter");
    assert_eq!(table.picker.key(&Key::Escape), PickerAction::Choice(Choice::Close));
}

#[test]
fn what_was_archived_or_deleted_last_comes_back_where_it_was() {
    let mut table = three();
    let id = table.id("limits");
    table.picker.key(&Key::Down);
    assert_eq!(table.types("\td"), PickerAction::Do(id, Verb::Delete));
    let trashed = table.sessions.trash(id).expect("deleted");
    table.picker.done(id, &Verb::Delete, &trashed);
    // Its preview was requested before, and is not there any more.
    table.settle();
    assert_eq!(table.names(), ["garden", "caching"]);
    assert!(table.screen().contains("Moved limits to the trash; u brings it back."));
    assert_eq!(table.types("u"), PickerAction::Do(id, Verb::Restore));
    let restored = table.sessions.restore_from_trash(id).expect("restored");
    table.picker.done(id, &Verb::Restore, &restored);
    assert_eq!(table.names(), ["garden", "limits", "caching"]);
    assert_eq!(table.picker.selected_id(), Some(id));
    assert_eq!(table.types("u"), PickerAction::Nothing, "once");
}

#[test]
fn each_archive_and_delete_can_be_undone_the_last_one_first() {
    let mut table = three();
    let (garden, limits) = (table.id("garden"), table.id("limits"));
    assert_eq!(table.types("\ta"), PickerAction::Do(garden, Verb::Archive));
    let archived = table.sessions.archive(garden).expect("archived");
    table.picker.done(garden, &Verb::Archive, &archived);
    assert_eq!(table.types("d"), PickerAction::Do(limits, Verb::Delete));
    let trashed = table.sessions.trash(limits).expect("deleted");
    table.picker.done(limits, &Verb::Delete, &trashed);
    assert_eq!(table.types("u"), PickerAction::Do(limits, Verb::Restore));
    let restored = table.sessions.restore_from_trash(limits).expect("restored");
    table.picker.done(limits, &Verb::Restore, &restored);
    assert_eq!(table.types("u"), PickerAction::Do(garden, Verb::Unarchive));
    table.picker.failed("it is gone");
    assert_eq!(table.types("u"), PickerAction::Nothing, "that was the first");
}

#[test]
fn a_name_is_typed_and_a_bad_one_is_refused_at_once() {
    let mut table = three();
    let id = table.id("garden");
    table.types("\tr");
    table.picker.key(&Key::EraseLine);
    table.types("..");
    assert_eq!(table.picker.key(&Key::Enter), PickerAction::Nothing);
    assert!(table.screen().contains("the name may not contain `..`"), "{}", table.screen());
    table.picker.key(&Key::EraseLine);
    table.types("Roses: in the shade");
    assert!(table.screen().contains("New name: Roses: in the shade"), "{}", table.screen());
    let rename = Verb::Rename("Roses: in the shade".into());
    assert_eq!(table.picker.key(&Key::Enter), PickerAction::Do(id, rename.clone()));
    let renamed = table.sessions.rename_to(id, "Roses: in the shade").expect("renamed");
    table.picker.done(id, &rename, &renamed);
    assert!(table.screen().contains("Roses: in the shade"), "{}", table.screen());
}

#[test]
fn a_name_that_is_not_shown_is_neither_found_nor_offered() {
    let mut table = three();
    let said = vec![Incoming::from(Message::user("How do tides work?"))];
    let (new, _) = table.sessions.create_with(&New::default(), None, said).expect("created");
    let silent = table.sessions.create(&New::default(), None).expect("created");
    table.picker = Picker::new(None, around(&table));
    table.settle();
    for session in [&new, &silent] {
        let name = session.header.name.as_str();
        for typed in [name, &name[..4]] {
            table.picker.key(&Key::EraseLine);
            table.types(typed);
            table.settle();
            assert_eq!(table.names(), [""; 0], "{typed}");
        }
    }
    table.picker.key(&Key::EraseLine);
    for (id, offered) in
        [(new.id(), "How do tides work?"), (table.id("garden"), "Roses"), (silent.id(), "")]
    {
        table.picker.select_id(Some(id));
        table.types("\tr");
        assert_eq!(table.picker.focus, Focus::Name(offered.into()));
        table.picker.key(&Key::Escape);
        table.picker.key(&Key::Escape);
    }
}

#[test]
fn nothing_a_session_says_drives_the_terminal() {
    let table = Table::of([("hostile", "a\x1b[2Jb\u{202e}c\rd")]);
    let mut table = Table { ..table };
    table.settle();
    let screen = table.screen();
    assert!(!screen.chars().any(|c| c.is_control() && c != '\n'), "{screen:?}");
    assert!(!screen.contains('\u{202e}'), "{screen:?}");
}

#[test]
fn every_line_fits_every_window() {
    let mut table = three();
    table.types("r");
    for (columns, rows) in [(20, 5), (40, 10), (80, 24), (119, 30), (120, 30), (200, 50), (10, 2)] {
        table.picker.resize(columns, rows);
        table.settle();
        for keys in ["\t", "r", ""] {
            table.types(keys);
            let frame = table.picker.draw();
            assert!(frame.lines.len() <= rows, "{columns}x{rows}: {frame:?}");
            for line in &frame.lines {
                let width = rethread_render::terminal::line_width(line);
                assert!(width <= columns, "{columns}x{rows}: {line}");
            }
            table.picker.key(&Key::Escape);
        }
        table.picker.focus = Focus::Filter;
    }
}

#[test]
fn the_selected_session_stays_selected_while_the_list_is_read() {
    let mut table = three();
    table.picker.key(&Key::End);
    let selected = table.picker.selected_id();
    let all = table.sessions.list(&Sessions::default_filter(), None, 9).expect("a page").sessions;
    table.picker.found(TaskResult::List { sessions: all, next: None });
    assert_eq!(table.picker.selected_id(), selected);
    assert_eq!(table.names().len(), 3, "a session is listed once");
}

#[test]
fn a_preview_has_the_last_question_however_long_the_answer_is() {
    let mut table = three();
    let id = table.id("garden");
    let long: Vec<String> = (1..=60).map(|n| format!("line {n}  ")).collect();
    let said = [Message::user("And which of them smell?"), Message::assistant(long.join("\n"))];
    table.sessions.append(id, said.map(Incoming::from).to_vec()).expect("appended");
    for (columns, rows) in [(80, 24), (40, 24), (130, 24)] {
        table.picker.resize(columns, rows);
        table.picker.previews.clear();
        table.picker.select_id(Some(id));
        table.settle();
        let screen = table.screen();
        for text in ["You: And which of them smell?", "more lines", "line 60"] {
            assert!(screen.contains(text), "{columns}x{rows}, without {text}:\n{screen}");
        }
    }
}
