//! Background tasks of the picker: pages of the list, searches, previews, chains.
//!
//! Each function blocks and is called where that is allowed. Nothing here changes a session.

use std::collections::HashMap;

use jiff::Timestamp;
use rethread_core::search::{Query, Scope};
use rethread_core::store::{Cursor, StoreError};
use rethread_core::{Session, SessionId, Sessions, sessions};
use rethread_render::terminal::{Style, fit_line};

use crate::chat::paint::Paint;
use crate::last_turns::{LastTurns, Shape};
use crate::out::{fit, plural, short_count};

/// Sessions of one page of the list. The first page fills the screen; the others follow.
const PAGE_ROWS: usize = 1_000;

/// Sessions that a search finds: beyond that, people type another word.
pub(super) const FOUND_MAX: usize = 500;

/// Words of a filter that are also searched one by one.
const WORDS_MAX: usize = 8;

/// Turns in a preview.
const PREVIEW_TURNS: usize = 2;

/// Members of a chain that are read, from the newest on.
const CHAIN_MAX: usize = 100;

/// Something to read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// The next page of the list.
    List(Option<Cursor>),
    /// The sessions that contain this text; its last word may be incomplete.
    Search(String),
    /// The last turns of a session.
    Preview { id: SessionId, size: PreviewSize },
    /// The sessions this one continues or was forked from.
    Chain(SessionId),
}

/// How much of a session a preview has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreviewSize {
    pub(crate) columns: usize,
    /// Lines of one turn; the middle of a longer one is left out.
    pub(crate) turn_lines: usize,
}

/// The result of a task.
#[derive(Debug)]
pub(crate) enum TaskResult {
    List {
        sessions: Vec<Session>,
        next: Option<Cursor>,
    },
    Said {
        query: String,
        hits: Vec<(Session, Said)>,
        /// There are more.
        is_capped: bool,
    },
    Preview {
        id: SessionId,
        size: PreviewSize,
        lines: Vec<String>,
    },
    Chain {
        of: SessionId,
        sessions: Vec<Session>,
    },
    /// It failed, for this reason.
    Failed {
        task: Task,
        what: String,
    },
}

/// What was found in the messages of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(super) snippet: String,
    /// A bit for each word of the filter.
    words: u128,
}

impl Said {
    /// Whether this word of the filter was found.
    pub(super) fn has(&self, word: usize) -> bool {
        u32::try_from(word).ok().and_then(|word| self.words.checked_shr(word)).unwrap_or(0) & 1 == 1
    }
}

/// Runs a task.
pub(crate) fn run(sessions: &Sessions, task: Task, style: Style, now: Timestamp) -> TaskResult {
    let found = match &task {
        Task::List(after) => sessions
            .list(&Sessions::default_filter(), *after, PAGE_ROWS)
            .map(|page| TaskResult::List { sessions: page.sessions, next: page.next }),
        Task::Search(query) => search(sessions, query),
        Task::Preview { id, size } => preview(sessions, *id, *size, style, now),
        Task::Chain(id) => chain(sessions, *id),
    };
    found.unwrap_or_else(|error| TaskResult::Failed { task, what: error.to_string() })
}

/// Searches for messages with all words, and then for each word, because another one may be in the
/// title or the folder of the session.
fn search(sessions: &Sessions, typed: &str) -> sessions::Result<TaskResult> {
    let words: Vec<&str> = typed.split_whitespace().collect();
    let mut queries = vec![(Query::typed(typed), u128::MAX)];
    // Words in quotes belong together.
    if (2..=WORDS_MAX).contains(&words.len()) && !typed.contains('"') {
        for (at, word) in words.iter().enumerate() {
            let is_begun = at + 1 == words.len() && typed.ends_with(word);
            let query = if is_begun { Query::typed(word) } else { Query::new(word) };
            queries.push((query, 1 << at));
        }
    }
    let scope = Scope { once_per_session: true, ..Scope::default() };
    let (mut found, mut places) = (Vec::<(Session, Said)>::new(), HashMap::new());
    let mut is_capped = false;
    for (query, bits) in queries {
        let hits = match query {
            Ok(query) => sessions.find(&query.within(scope.clone()), 0, FOUND_MAX + 1)?,
            // It has nothing to search for: a lone dash.
            Err(StoreError::BadQuery { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        is_capped |= hits.len() > FOUND_MAX;
        for hit in hits.into_iter().take(FOUND_MAX) {
            if let Some(at) = places.get(&hit.place.session) {
                let (_, said): &mut (Session, Said) = &mut found[*at];
                said.words |= bits;
                continue;
            }
            match sessions.get(hit.place.session) {
                Ok(session) => {
                    places.insert(session.id(), found.len());
                    found.push((session, Said { snippet: fit(&hit.snippet, 400), words: bits }));
                }
                // It was deleted in the meantime, or `doctor` is needed.
                Err(sessions::Error::Store(
                    StoreError::NotFound { .. } | StoreError::Damaged { .. },
                )) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(TaskResult::Said { query: typed.to_owned(), hits: found, is_capped })
}

fn preview(
    sessions: &Sessions,
    id: SessionId,
    size: PreviewSize,
    style: Style,
    now: Timestamp,
) -> sessions::Result<TaskResult> {
    let session = sessions.get(id)?;
    let style = Style { width: size.columns, ..style };
    let shape = Shape { style: &style, now, turn_lines: size.turn_lines };
    let last = LastTurns::read(sessions, &session, PREVIEW_TURNS)?;
    let mut lines = head(&session, &style);
    lines.push(String::new());
    lines.extend(last.lines(&shape));
    if last.is_empty() {
        lines.push("(no messages since it was cleared or started)".into());
    }
    Ok(TaskResult::Preview { id, size, lines })
}

/// What a preview begins with.
fn head(session: &Session, style: &Style) -> Vec<String> {
    let paint = Paint::of(style);
    let (header, tally) = (&session.header, &session.tally);
    let counts = [
        fit(&session.label(), style.width),
        plural(tally.messages, "message"),
        format!("{} tokens", short_count(tally.tokens)),
        header.created_at.strftime("since %Y-%m-%d").to_string(),
    ];
    let profile = &header.profile;
    let about = [&profile.workspace, &profile.agent, &profile.model].into_iter().flatten();
    let about: Vec<String> = about.map(|text| fit(text, style.width)).collect();
    let mut lines = vec![paint.bold(&fit_line(&counts.join(" · "), style.width))];
    if !about.is_empty() {
        lines.push(paint.dim(&fit_line(&about.join(" · "), style.width)));
    }
    lines
}

fn chain(sessions: &Sessions, id: SessionId) -> sessions::Result<TaskResult> {
    let mut chain = vec![sessions.get(id)?];
    while let Some(parent) = chain.last().and_then(|session| session.header.parent) {
        match sessions.get(parent.id) {
            // An imported file may name one of its own descendants as its parent.
            Ok(session) if chain.iter().any(|known| known.id() == session.id()) => break,
            Ok(session) => chain.push(session),
            Err(sessions::Error::Store(
                StoreError::NotFound { .. } | StoreError::Damaged { .. },
            )) => break,
            Err(error) => return Err(error),
        }
        if chain.len() == CHAIN_MAX {
            break;
        }
    }
    Ok(TaskResult::Chain { of: id, sessions: chain })
}
