//! Completion with Tab, and the menu below the line: commands, agents, sessions, and files after
//! `@`.
//!
//! Files are listed on a separate thread, once someone types an `@`: a large folder must not delay
//! a key.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rethread_agent::own_commands::OwnCommand;
use rethread_agent::tool::Workspace;
use rethread_core::store::Cursor;
use rethread_core::{SessionId, Sessions};
use tokio::sync::Notify;
use unicode_segmentation::UnicodeSegmentation;

use super::attach::mention;
use super::help::{COMMANDS, Takes};
use super::line_editor::{Candidates, Completion};
use super::menu::Choice;
use crate::out::{ago, fit, one_line, plural};

/// Files that are listed. More would take longer than anyone waits.
const FILES_MAX: usize = 50_000;

/// Choices that are offered.
const CHOICES_MAX: usize = 100;

/// Sessions that are there at once: the newest. The others are read on a separate thread, in pages of
/// so many, up to a bound.
const SESSIONS_FIRST: usize = 50;
const SESSIONS_PAGE: usize = 1_000;
const SESSIONS_MAX: usize = 50_000;

/// Columns of a session's first question.
const FIRST_COLUMNS: usize = 60;

/// What can be completed.
#[derive(Default)]
pub(super) struct Completions {
    /// The custom commands.
    pub(super) own: Vec<OwnCommand>,
    /// The agents, and their descriptions.
    agents: Vec<(String, String)>,
    /// The models, and their context windows.
    models: Vec<(String, String)>,
    sessions: SessionNames,
    files: FileNames,
}

impl Completions {
    /// With these custom commands, agents and models.
    pub(super) fn new(
        own: Vec<OwnCommand>,
        agents: Vec<(String, String)>,
        models: Vec<(String, u64)>,
    ) -> Completions {
        let models = models.into_iter().map(|(id, window)| (id, plural(window, "token")));
        Completions { own, agents, models: models.collect(), ..Completions::default() }
    }

    /// Starts again, for a prompt in this session and folder: the files may have changed.
    pub(super) fn renew(
        &mut self,
        sessions: &Sessions,
        id: Option<SessionId>,
        folder: Option<&str>,
    ) {
        self.sessions = SessionNames { of: Some((sessions.clone(), id)), ..Default::default() };
        self.files.renew(folder.map(PathBuf::from));
    }

    /// Waits until there is more to complete.
    pub(super) fn more(&self) -> impl Future<Output = ()> + use<> {
        let (files, sessions) = (self.files.names.clone(), self.sessions.list.clone());
        async move {
            tokio::select! {
                () = files.are_there.notified() => {}
                () = sessions.are_there.notified() => {}
            }
        }
    }

    fn commands(&self, begun: &str) -> Vec<Choice> {
        let ours = COMMANDS.iter().map(|command| {
            (command.name.to_owned(), command.takes.shown().to_owned(), command.about.to_owned())
        });
        let own = self.own.iter().map(|command| {
            let about = fit(&command.description, FIRST_COLUMNS);
            (command.name.clone(), one_line(&command.takes), about)
        });
        let choice = |(name, takes, about): (String, String, String)| {
            let label = format!("/{name}");
            Choice {
                text: if takes.is_empty() { label.clone() } else { format!("{label} ") },
                label: format!("{label} {takes}").trim_end().to_owned(),
                is_whole: takes.is_empty(),
                about,
            }
        };
        let all = ours.chain(own).filter(|(name, ..)| name.starts_with(begun));
        all.map(choice).collect()
    }

    fn named(names: &[(String, String)]) -> Vec<Choice> {
        let choice = |(name, about): &(String, String)| Choice {
            text: name.clone(),
            label: one_line(name),
            about: fit(about, FIRST_COLUMNS),
            is_whole: true,
        };
        names.iter().map(choice).collect()
    }
}

impl Candidates for Completions {
    fn complete(&self, line: &str) -> Option<Completion> {
        if let Some(query) = file_query(line) {
            let found = self.files.find(query.trim_start_matches('"'));
            return Some(completion(query.graphemes(true).count() + 1, found.into_iter()));
        }
        // `resume` is a command without the slash too.
        let bare = line.starts_with("resume ").then_some(line);
        let command = line.strip_prefix('/').or(bare)?;
        let Some((name, begun)) = command.split_once(' ') else {
            let found = self.commands(command).into_iter();
            return Some(completion(line.graphemes(true).count(), found));
        };
        let known = COMMANDS.iter().find(|command| command.name == name)?;
        let (lower, replaces) = (begun.to_lowercase(), begun.graphemes(true).count());
        let all = match known.takes {
            Takes::Agent => Completions::named(&self.agents),
            Takes::Model => Completions::named(&self.models),
            Takes::Session(_) => return Some(self.sessions.complete(&lower, replaces)),
            _ => return None,
        };
        let found = all.into_iter().filter(|choice| matches(choice, &lower));
        Some(completion(replaces, found))
    }
}

fn completion(replaces: usize, mut found: impl Iterator<Item = Choice>) -> Completion {
    let choices = found.by_ref().take(CHOICES_MAX).collect();
    Completion { replaces, choices, has_more: found.next().is_some() }
}

/// Whether a choice has this text, in lower case, in its label or its description.
fn matches(choice: &Choice, lower: &str) -> bool {
    choice.label.to_lowercase().contains(lower) || choice.about.to_lowercase().contains(lower)
}

/// The text after the `@` at the cursor; `None` if there is none.
fn file_query(line: &str) -> Option<&str> {
    let at = line.rfind('@')?;
    let (before, query) = (&line[..at], &line[at + 1..]);
    let begins = before.chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(');
    let is_open = match query.strip_prefix('"') {
        Some(quoted) => !quoted.contains('"'),
        None => !query.contains(char::is_whitespace),
    };
    (begins && is_open).then_some(query)
}

/// The sessions, without the one that is open.
#[derive(Default)]
struct SessionNames {
    of: Option<(Sessions, Option<SessionId>)>,
    list: Arc<SessionList>,
    is_asked: Cell<bool>,
}

#[derive(Default)]
struct SessionList {
    all: Mutex<Vec<Choice>>,
    /// There are sessions that were not read, or not yet.
    is_partial: AtomicBool,
    are_there: Notify,
}

impl SessionNames {
    fn complete(&self, lower: &str, replaces: usize) -> Completion {
        if let Some((sessions, id)) = self.of.clone()
            && !self.is_asked.replace(true)
            && let Some(next) = self.list.read(&sessions, id, None, SESSIONS_FIRST)
        {
            let list = self.list.clone();
            list.is_partial.store(true, Ordering::Relaxed);
            std::thread::spawn(move || list.read_on(&sessions, id, next));
        }
        let is_partial = self.list.is_partial.load(Ordering::Relaxed);
        let all = self.list.all.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().filter(|choice| matches(choice, lower)).cloned();
        let found = completion(replaces, found);
        Completion { has_more: found.has_more || is_partial, ..found }
    }
}

impl SessionList {
    /// Adds a page, and returns where the next one begins. A menu does not report errors; the
    /// command itself does.
    fn read(
        &self,
        sessions: &Sessions,
        id: Option<SessionId>,
        after: Option<Cursor>,
        rows: usize,
    ) -> Option<Cursor> {
        let page = sessions.list(&Sessions::default_filter(), after, rows).ok()?;
        let now = rethread_core::World::now(&rethread_store::System);
        let others = page.sessions.iter().filter(|session| Some(session.id()) != id);
        let choices = others.map(|session| Choice {
            text: session.selector().to_owned(),
            label: one_line(&session.label()),
            about: format!(
                "{} · {}",
                ago(session.last_activity_at, now),
                fit(&session.first_message, FIRST_COLUMNS)
            ),
            is_whole: true,
        });
        self.all.lock().unwrap_or_else(PoisonError::into_inner).extend(choices);
        page.next
    }

    fn read_on(&self, sessions: &Sessions, id: Option<SessionId>, next: Cursor) {
        let mut next = Some(next);
        for _ in 0..SESSIONS_MAX / SESSIONS_PAGE {
            next = match next {
                Some(after) => self.read(sessions, id, Some(after), SESSIONS_PAGE),
                None => break,
            };
        }
        self.is_partial.store(next.is_some(), Ordering::Relaxed);
        self.are_there.notify_one();
    }
}

/// The names of the files in the workspace.
#[derive(Default)]
struct FileNames {
    folder: Option<PathBuf>,
    names: Arc<Names>,
    is_asked: Cell<bool>,
}

#[derive(Default)]
struct Names {
    /// Files and folders, once they are listed. A folder ends with a slash.
    all: Mutex<Option<Vec<String>>>,
    are_there: Notify,
}

impl FileNames {
    fn renew(&mut self, folder: Option<PathBuf>) {
        (self.folder, self.is_asked) = (folder, Cell::new(false));
        self.names = Arc::default();
    }

    fn find(&self, query: &str) -> Vec<Choice> {
        if !self.is_asked.replace(true)
            && let Some(folder) = self.folder.clone()
        {
            let names = self.names.clone();
            std::thread::spawn(move || names.list(&folder));
        }
        let names = self.names.all.lock().unwrap_or_else(PoisonError::into_inner);
        let found = best(names.as_deref().unwrap_or_default(), query);
        found
            .into_iter()
            .map(|path| Choice {
                text: match path.ends_with('/') {
                    true => mention(path).trim_end_matches('"').to_owned(),
                    false => mention(path) + " ",
                },
                label: one_line(path),
                about: String::new(),
                is_whole: false,
            })
            .collect()
    }
}

impl Names {
    fn list(&self, folder: &std::path::Path) {
        let files = Workspace::open(folder).map(|it| it.files(FILES_MAX)).unwrap_or_default();
        let mut all: Vec<String> = Vec::with_capacity(files.len());
        for file in files {
            // The folders above it, where they are new: files come in order.
            let folders = file.match_indices('/').map(|(at, _)| &file[..=at]);
            let new: Vec<String> = folders
                .filter(|folder| !all.iter().rev().take(64).any(|known| known.starts_with(*folder)))
                .map(str::to_owned)
                .collect();
            all.extend(new);
            all.push(file);
        }
        *self.all.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
        self.are_there.notify_one();
    }
}

/// The names that match best, one more than are offered. Without a query, the top level.
fn best<'n>(names: &'n [String], query: &str) -> Vec<&'n String> {
    if query.is_empty() {
        let is_top = |name: &&String| !name.trim_end_matches('/').contains('/');
        return names.iter().filter(is_top).take(CHOICES_MAX + 1).collect();
    }
    let query = query.to_lowercase();
    let scored = names.iter().filter_map(|name| Some((score(name, &query)?, name)));
    let mut scored: Vec<(usize, &String)> = scored.collect();
    scored.sort();
    // A folder that is typed whole is chosen already; Tab leads to what is in it.
    scored.retain(|(_, name)| !name.ends_with('/') || name.to_lowercase() != query);
    scored.into_iter().take(CHOICES_MAX + 1).map(|(_, name)| name).collect()
}

/// The distance of a name from the query; `None` if it does not match. Smaller is better.
fn score(name: &str, query: &str) -> Option<usize> {
    let name = name.to_lowercase();
    let base = name.trim_end_matches('/').rsplit('/').next().unwrap_or(&name);
    let far = match name.find(query) {
        // The contents of a folder that was typed, its own files first.
        Some(0) => 1_000 * name[query.len()..].trim_end_matches('/').matches('/').count(),
        _ if base.starts_with(query) => 10_000,
        _ if base.contains(query) => 20_000,
        Some(_) => 30_000,
        None => {
            let mut rest = name.chars();
            let is_part = query.chars().all(|wanted| rest.any(|c| c == wanted));
            is_part.then_some(40_000)?
        }
    };
    Some(far + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_looked_for_after_an_at_sign_that_begins_a_word() {
        assert_eq!(file_query("see @src/a"), Some("src/a"));
        assert_eq!(file_query("@"), Some(""));
        assert_eq!(file_query("(@\"a b"), Some("\"a b"));
        for line in ["me@example", "@a.rs now", "@\"a b\" c", "nothing"] {
            assert_eq!(file_query(line), None, "{line}");
        }
    }

    #[test]
    fn what_begins_like_the_query_comes_first_then_names_then_parts() {
        let names: Vec<String> = [
            "docs/",
            "docs/limit.md",
            "src/",
            "src/limit.rs",
            "src/deep/",
            "src/deep/x.rs",
            "tests/l_i_m.rs",
        ]
        .map(String::from)
        .to_vec();
        let found =
            |query: &str| best(&names, query).into_iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(found(""), "docs/ src/");
        assert_eq!(found("src/"), "src/deep/ src/limit.rs src/deep/x.rs");
        assert_eq!(found("limit"), "src/limit.rs docs/limit.md");
        assert_eq!(found("LIM"), "src/limit.rs docs/limit.md tests/l_i_m.rs");
        assert_eq!(found("zzz"), "");
    }

    #[test]
    fn commands_and_agents_are_offered_with_what_they_are() {
        let agents = vec![("build".into(), "Builds".into()), ("plan".into(), "Plans".into())];
        let models = vec![("openai/gpt-5".into(), 400_000)];
        let completions = Completions::new(Vec::new(), agents, models);
        let labels = |line: &str| -> Vec<String> {
            let found = completions.complete(line).map(|found| found.choices).unwrap_or_default();
            found.into_iter().map(|choice| choice.label).collect()
        };
        assert_eq!(labels("/co"), ["/compact", "/context", "/cost", "/copy"]);
        assert_eq!(labels("/agent pl"), ["plan"]);
        assert_eq!(labels("/agent builds"), ["build"], "by what it is for");
        assert_eq!(labels("/model gpt"), ["openai/gpt-5"]);
        assert_eq!(labels("/search x"), Vec::<String>::new());
        assert!(completions.complete("hello").is_none());
        assert_eq!(completions.complete("/new x"), None);
    }

    #[test]
    fn every_session_is_found_by_what_is_typed_however_old_it_is() {
        let world = Arc::new(rethread_core::Fixed::default());
        let store = Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, rethread_core::Owner::local(), world.clone());
        let mut ids = Vec::new();
        for number in 0..SESSIONS_FIRST + CHOICES_MAX + 1 {
            world.advance(std::time::Duration::from_secs(60));
            let name = rethread_core::Name::new(&format!("number-{number}")).expect("a name");
            let new = rethread_core::New { name: Some(name), ..Default::default() };
            let said = vec![rethread_core::Message::user("hello").into()];
            ids.push(sessions.create_with(&new, None, said).expect("created").0.id());
        }
        let mut completions = Completions::default();
        completions.renew(&sessions, ids.last().copied(), None);
        let found = |line: &str| completions.complete(line).expect("sessions");
        let newest = found("/open ");
        assert!(newest.has_more && newest.choices[0].text == "number-149", "{newest:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(completions.more());
        assert_eq!(found("/open NUMBER-7").choices.len(), 11);
        assert_eq!(found("/open number-0").choices[0].text, "number-0");
        assert!(!found("/open number-0").has_more);
        let all = found("/open number");
        assert!(all.has_more && all.choices.len() == CHOICES_MAX);
    }

    #[test]
    fn names_with_spaces_are_put_in_quotes_and_folders_stay_open() {
        let names = FileNames::default();
        names.is_asked.set(true);
        *names.names.all.lock().expect("whole") = Some(vec!["a b/".into(), "a b/c.rs".into()]);
        let texts: Vec<String> = names.find("a").into_iter().map(|choice| choice.text).collect();
        assert_eq!(texts, ["@\"a b/", "@\"a b/c.rs\" "]);
    }
}
