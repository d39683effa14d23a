//! What sessions are called.

use super::{Error, Result, Sessions};
use crate::limits::NAME_TRIES_MAX;
use crate::name::{Name, SessionId};
use crate::session::{ProfileChange, Session};
use crate::store::{Change, StoreError};

impl Sessions {
    /// Gives a session another name; a number is added if it is taken. A title it had goes: the
    /// name says what it is about.
    ///
    /// # Errors
    ///
    /// [`Error::NoFreeName`] and those of the store.
    pub fn rename(&self, id: SessionId, name: &Name) -> Result<Session> {
        for number in 1..1 + NAME_TRIES_MAX {
            let tried = if number == 1 { name.clone() } else { name.numbered(number) };
            let profile = ProfileChange { title: Some(None), ..ProfileChange::default() };
            match self.update(id, &Change { name: Some(tried), ..profile.into() }) {
                Err(Error::Store(StoreError::NameTaken { .. })) => {}
                other => return other,
            }
        }
        Err(Error::NoFreeName { name: name.clone() })
    }

    /// Calls a session what a person typed: that is its name, and its title where it is longer than
    /// a name.
    ///
    /// # Errors
    ///
    /// [`Error::Name`] if no name can be made of it; otherwise as [`rename`](Sessions::rename).
    pub fn rename_to(&self, id: SessionId, text: &str) -> Result<Session> {
        let name = Name::new(text)?;
        let renamed = self.rename(id, &name)?;
        match crate::title::of_text(text).filter(|title| title != name.as_str()) {
            Some(title) => self.set_title(id, Some(title)),
            None => Ok(renamed),
        }
    }

    /// Gives a session a title, or takes it away.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] and those of the store.
    pub fn set_title(&self, id: SessionId, title: Option<String>) -> Result<Session> {
        self.update(id, &ProfileChange { title: Some(title), ..ProfileChange::default() }.into())
    }
}
