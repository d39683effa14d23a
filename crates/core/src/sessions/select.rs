//! Which session a person means.

use super::{Result, Sessions};
use crate::limits::{NAME_INPUT_CHARS_MAX, PAGE_ROWS_MAX};
use crate::name::{Name, SessionId, is_invisible};
use crate::store::Filter;

/// Sessions shown when a selector fits several.
const CANDIDATES_MAX: usize = 10;

/// Digits of an id that are taken for one. Fewer are a position in the list, or a slip.
const ID_DIGITS_MIN: usize = 4;

/// Why a selector does not name one session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// Nothing fits.
    #[error("no session matches `{selector}`")]
    None {
        /// The selector, shortened.
        selector: String,
    },
    /// Several fit.
    #[error("`{selector}` matches several sessions:{}", .candidates.iter().map(|(id, name)| format!("\n  {id}  {name}")).collect::<String>())]
    Several {
        /// The selector.
        selector: String,
        /// Those it fits, ten at the most.
        candidates: Vec<(SessionId, String)>,
    },
    /// There is no session at all.
    #[error("there is no session yet")]
    Empty,
}

impl Sessions {
    /// The sessions shown by default: not archived, and of a chain only the newest.
    pub fn default_filter() -> Filter {
        Filter { archived: Some(false), newest_of_chain: true, ..Filter::default() }
    }

    /// The session that `selector` names: a position in the default list (1 is the newest), a
    /// name, the beginning of an id, or `last`, in this order. A session that another program
    /// named is found by that as well, spelt as there.
    ///
    /// # Errors
    ///
    /// [`SelectError`], and those of the store.
    pub fn select(&self, selector: &str) -> Result<SessionId> {
        let selector = selector.trim();
        let shown: String = selector.chars().take(80).collect();
        if selector.is_empty()
            || selector.chars().take(NAME_INPUT_CHARS_MAX + 1).count() > NAME_INPUT_CHARS_MAX
        {
            return Err(SelectError::None { selector: shown }.into());
        }
        if selector == "last" {
            let newest = self.list(&Sessions::default_filter(), None, 1)?.sessions.pop();
            return newest.map(|session| session.id()).ok_or(SelectError::Empty.into());
        }
        if let Some(position) =
            selector.parse::<usize>().ok().filter(|n| (1..=PAGE_ROWS_MAX).contains(n))
        {
            let mut page = self.list(&Sessions::default_filter(), None, position)?;
            if page.sessions.len() == position
                && let Some(session) = page.sessions.pop()
            {
                return Ok(session.id());
            }
        }
        if !selector.contains(is_invisible)
            && let Some(id) = self.store.named(&self.owner, selector)?
        {
            return Ok(id);
        }
        // Names are lowercase, but people type them as they please.
        if let Ok(name) = Name::new(selector)
            && name.as_str() == selector.to_lowercase()
            && let Some(id) = self.store.named(&self.owner, name.as_str())?
        {
            return Ok(id);
        }
        let digits: String = selector.to_lowercase().chars().filter(|c| *c != '-').collect();
        if digits.len() < ID_DIGITS_MIN
            || digits.len() > 32
            || !digits.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return Err(SelectError::None { selector: shown }.into());
        }
        let found = self.store.with_prefix(&self.owner, &digits, CANDIDATES_MAX)?;
        match found.as_slice() {
            [] => Err(SelectError::None { selector: shown }.into()),
            [id] => Ok(*id),
            several => {
                let mut candidates = Vec::new();
                for id in several {
                    candidates.push((*id, self.get(*id)?.header.name.to_string()));
                }
                Err(SelectError::Several { selector: shown, candidates }.into())
            }
        }
    }
}
