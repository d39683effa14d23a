//! Selectors: finds the session that a user refers to.

use unicode_normalization::UnicodeNormalization;

use super::{Result, Sessions};
use crate::limits::{NAME_INPUT_CHARS_MAX, PAGE_ROWS_MAX};
use crate::name::{Name, SessionId, is_invisible};
use crate::readable_id;
use crate::session::Session;
use crate::store::Filter;

/// Candidates shown if a selector is ambiguous.
const CANDIDATES_MAX: usize = 10;

/// Candidates counted beyond those: with a number like this, the user has to give more digits
/// anyway.
const MORE_MAX: usize = 1_000;

/// Pages of the list that are searched for a title.
const TITLE_PAGES_MAX: usize = 100;

/// Digits from which a selector is treated as an id. Fewer are a position in the list, or a typing
/// error.
pub(super) const ID_DIGITS_MIN: usize = 4;

/// Why a selector does not match exactly one session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum SelectError {
    /// Nothing matches.
    #[error("no session matches `{selector}`")]
    None {
        /// The selector, shortened.
        selector: String,
    },
    /// Several match.
    #[error("`{selector}` matches several sessions:{}{}", .candidates.iter().map(|(id, name)| format!("\n  {id}  {name}")).collect::<String>(), and_more(*.more))]
    Several {
        selector: String,
        /// The matches, at most ten.
        candidates: Vec<(SessionId, String)>,
        /// How many more match; a thousand means that many or more.
        more: usize,
    },
    /// There are no sessions.
    #[error("no sessions yet")]
    Empty,
}

impl SelectError {
    /// An ambiguous selector.
    pub(super) fn of(selector: String, sessions: &[&Session]) -> SelectError {
        let shown = sessions.iter().take(CANDIDATES_MAX);
        let candidates: Vec<_> = shown.map(|s| (s.id(), called(s))).collect();
        let more = (sessions.len() - candidates.len()).min(MORE_MAX);
        SelectError::Several { selector, candidates, more }
    }
}

/// What lists show for a session.
fn called(session: &Session) -> String {
    session.title().unwrap_or_else(|| session.header.name.to_string())
}

/// A text folded for comparison: people type titles in any case.
fn folded(text: &str) -> String {
    text.trim().to_lowercase().nfc().collect()
}

/// What a list of candidates leaves out.
fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        MORE_MAX => format!("\n  and at least {more} more"),
        _ => format!("\n  and {more} more"),
    }
}

impl Sessions {
    /// The sessions shown by default: not archived, and only the newest of a chain. Lists for
    /// people leave out those without messages: see [`list_with_messages`](Sessions::list_with_messages).
    pub fn default_filter() -> Filter {
        Filter { archived: Some(false), newest_of_chain: true, ..Filter::default() }
    }

    /// The session that `selector` refers to: a position in the default list (1 is the newest), a
    /// readable id, a name, the beginning of a UUID, `last`, or a title as lists show it, in any
    /// case. A title that several sessions have matches none of them. A session that the store
    /// shows under another name is also found by that name, spelt as it is shown. A number that is
    /// the position of one session and the name of another matches neither: it could be a mistake,
    /// and the next step may be a delete.
    ///
    /// # Errors
    ///
    /// [`SelectError`], and I/O errors.
    pub fn select(&self, selector: &str) -> Result<SessionId> {
        self.select_other(selector, None)
    }

    /// The same for someone who is in a session: that one is left out of the list, so 1 and `last`
    /// are the newest of the others.
    ///
    /// # Errors
    ///
    /// As [`select`](Sessions::select).
    pub fn select_other(&self, selector: &str, current: Option<SessionId>) -> Result<SessionId> {
        let selector = selector.trim();
        let shown: String = selector.chars().take(80).collect();
        // Invisible characters must not make one text pass for another.
        if selector.is_empty()
            || selector.contains(is_invisible)
            || selector.chars().take(NAME_INPUT_CHARS_MAX + 1).count() > NAME_INPUT_CHARS_MAX
        {
            return Err(SelectError::None { selector: shown }.into());
        }
        if selector == "last" {
            return self.nth(1, current)?.ok_or(SelectError::Empty.into());
        }
        if let Some(position) =
            selector.parse::<usize>().ok().filter(|n| (1..=PAGE_ROWS_MAX).contains(n))
            && let Some(id) = self.nth(position, current)?
        {
            return match self.store.named(&self.owner, selector)? {
                Some(named) if named != id => Err(self.several(shown, &[id, named])?.into()),
                _ => Ok(id),
            };
        }
        if let Some(id) = self.with_readable_id(selector)? {
            return Ok(id);
        }
        if let Some(id) = self.store.named(&self.owner, selector)? {
            return Ok(id);
        }
        if let Ok(name) = Name::new(selector)
            && let Some(id) = self.store.named(&self.owner, name.folded())?
            && self.get(id)?.header.name.matches_typed(selector)
        {
            return Ok(id);
        }
        let digits: String = selector.to_lowercase().chars().filter(|c| *c != '-').collect();
        if digits.len() < ID_DIGITS_MIN
            || digits.len() > 32
            || !digits.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return self.titled(selector, shown);
        }
        let found = self.store.with_prefix(&self.owner, &digits, CANDIDATES_MAX + MORE_MAX)?;
        match found.as_slice() {
            [] => self.titled(selector, shown),
            [id] => Ok(*id),
            several => Err(self.several(shown, several)?.into()),
        }
    }

    /// The session with this title. Those in the default list come first; for a chain, that is the
    /// newest.
    fn titled(&self, selector: &str, shown: String) -> Result<SessionId> {
        let typed = folded(selector);
        let cut = crate::title::of_text(selector).map(|title| folded(&title));
        let is_meant = |session: &Session| {
            let Some(title) = session.title().map(|title| folded(&title)) else { return false };
            title == typed || Some(&title) == cut.as_ref()
        };
        for filter in [Sessions::default_filter(), Filter::default()] {
            let (mut found, mut after) = (Vec::new(), None);
            for _ in 0..TITLE_PAGES_MAX {
                let page = self.list(&filter, after, PAGE_ROWS_MAX)?;
                found.extend(page.sessions.into_iter().filter(is_meant));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            match found.as_slice() {
                [] => {}
                [session] => return Ok(session.id()),
                several => {
                    let several: Vec<&Session> = several.iter().collect();
                    return Err(SelectError::of(shown, &several).into());
                }
            }
        }
        Err(SelectError::None { selector: shown }.into())
    }

    /// The session at this position of the default list, without the current one.
    fn nth(&self, position: usize, current: Option<SessionId>) -> Result<Option<SessionId>> {
        let rows = (position + usize::from(current.is_some())).min(PAGE_ROWS_MAX);
        let page = self.list_with_messages(&Sessions::default_filter(), None, rows)?;
        let ids = page.sessions.iter().map(|session| session.id());
        Ok(ids.filter(|id| Some(*id) != current).nth(position - 1))
    }

    /// The session with this readable id. Case is ignored.
    fn with_readable_id(&self, selector: &str) -> Result<Option<SessionId>> {
        for spelling in [selector, &selector.to_lowercase()] {
            if let Ok(key) = readable_id::key(spelling)
                && let Some(id) = self.resolve(&key)?
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn several(&self, selector: String, ids: &[SessionId]) -> Result<SelectError> {
        let mut candidates = Vec::new();
        for id in ids.iter().take(CANDIDATES_MAX) {
            candidates.push((*id, called(&self.get(*id)?)));
        }
        let more = ids.len() - candidates.len();
        Ok(SelectError::Several { selector, candidates, more })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sessions::{Error, New};
    use crate::{Fixed, MemoryStore, Owner};

    fn sessions(names: &[&str]) -> Sessions {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        for name in names {
            let name = Some(Name::new(name).expect("valid"));
            let said = vec![crate::message::Message::user("hello").into()];
            let new = New { name, ..New::default() };
            sessions.create_with(&new, None, said).expect("created");
        }
        sessions
    }

    #[test]
    fn the_session_someone_is_in_is_not_in_their_list() {
        let sessions = sessions(&["alpha", "beta", "gamma"]);
        let id = |name: &str| sessions.select(name).expect("there");
        let newest = sessions.list(&Sessions::default_filter(), None, 9).expect("a page").sessions;
        let newest: Vec<SessionId> = newest.iter().map(|session| session.id()).collect();
        let select_other = |selector: &str, current| sessions.select_other(selector, Some(current));
        assert_eq!(select_other("1", newest[0]).expect("there"), newest[1]);
        assert_eq!(select_other("last", newest[0]).expect("there"), newest[1]);
        assert_eq!(select_other("1", newest[2]).expect("there"), newest[0]);
        assert_eq!(select_other("2", newest[1]).expect("there"), newest[2]);
        assert!(select_other("3", newest[1]).is_err());
        assert_eq!(select_other("beta", id("beta")).expect("its name still names it"), id("beta"));
    }

    #[test]
    fn a_session_in_which_nothing_was_said_has_no_position() {
        let sessions = sessions(&["alpha", "beta"]);
        let select = |selector: &str| sessions.select(selector).expect("there");
        let (last, second) = (select("last"), select("2"));
        let empty = sessions.create(&New::default(), None).expect("created").id();
        assert_eq!((select("last"), select("1"), select("2")), (last, last, second));
        assert_eq!(select(&empty.to_string()), empty, "its id still names it");
        let filter = Filter::default();
        assert_eq!(sessions.list(&filter, None, 9).expect("a page").sessions.len(), 3);
        // One row at a time, so that what is left out does not shorten a page.
        let page = sessions.list_with_messages(&filter, None, 1).expect("a page");
        assert_eq!(page.sessions[0].id(), last);
        let page = sessions.list_with_messages(&filter, page.next, 1).expect("a page");
        assert_eq!((page.sessions[0].id(), page.next), (second, None));
    }

    #[test]
    fn a_number_that_is_a_position_and_another_ones_name_means_neither() {
        let sessions = sessions(&["alpha", "beta", "gamma", "2"]);
        let newest = sessions.list(&Sessions::default_filter(), None, 9).expect("a page").sessions;
        let place = newest.iter().position(|s| s.header.name.as_str() == "2").expect("it is there");
        assert_ne!(place, 1, "the session `2` is not the second");
        match sessions.select("2") {
            Err(Error::Select(SelectError::Several { candidates, more: 0, .. })) => {
                assert_eq!(candidates[0].0, newest[1].id());
                assert_eq!(candidates[1], (newest[place].id(), "2".into()));
            }
            other => panic!("{other:?}"),
        }
        for session in &newest {
            let id = session.id();
            assert_eq!(sessions.select(&id.to_string()).expect("an id is one session's"), id);
        }
        assert_eq!(sessions.select("3").expect("no name"), newest[2].id());
    }

    #[test]
    fn a_title_names_a_session_in_any_case_if_no_other_has_it() {
        let sessions = sessions(&["alpha", "beta", "gamma"]);
        let id = |name: &str| sessions.select(name).expect("there");
        let title = |name: &str, title: &str| {
            sessions.set_title(id(name), Some(title.into())).expect("titled")
        };
        title("alpha", "Release plan: v2 🎉");
        title("beta", "Twins");
        assert_eq!(id("release PLAN: v2 🎉"), id("alpha"));
        title("gamma", "twins");
        match sessions.select("Twins") {
            Err(Error::Select(SelectError::Several { candidates, more: 0, .. })) => {
                let titles: Vec<&str> =
                    candidates.iter().map(|(_, title)| title.as_str()).collect();
                assert_eq!(titles, ["twins", "Twins"]);
            }
            other => panic!("{other:?}"),
        }
        // The name has not changed.
        title("gamma", "beta");
        assert_eq!(id("beta"), id("Twins"));
        assert!(sessions.select("Release").is_err(), "only all of it");
        assert!(sessions.select("\u{202e}Twins").is_err(), "as it is seen");
    }

    #[test]
    fn a_list_of_candidates_says_how_many_it_leaves_out() {
        for (count, said) in [(10, None), (11, Some("\n  and 1 more")), (14, Some("and 4 more"))] {
            let names: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
            let sessions = sessions(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let any = sessions.list(&Filter::default(), None, 1).expect("a page").sessions;
            let error = sessions.select(&any[0].id().to_string()[..4]).expect_err("several");
            let text = error.to_string();
            assert_eq!(text.lines().count(), 11 + usize::from(said.is_some()), "{text}");
            assert!(text.ends_with(said.unwrap_or("")), "{text}");
        }
        let many = |more| SelectError::Several { selector: "0".into(), candidates: vec![], more };
        assert!(many(999).to_string().ends_with("\n  and 999 more"));
        assert!(many(1_000).to_string().ends_with("\n  and at least 1000 more"));
    }
}
