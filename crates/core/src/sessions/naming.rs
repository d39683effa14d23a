//! Names and titles of sessions.

use super::{Error, Result, Sessions};
use crate::name::{Name, SessionId};
use crate::session::{ProfileChange, Session};
use crate::store::{Change, StoreError};

impl Sessions {
    /// Renames a session; a number is added if the name is taken. Its title is removed: the name
    /// says what it is about.
    ///
    /// # Errors
    ///
    /// [`Error::NoFreeName`], [`StoreError::NotFound`], and I/O errors.
    pub fn rename(&self, id: SessionId, name: &Name) -> Result<Session> {
        for tried in name.candidates() {
            let profile = ProfileChange { title: Some(None), ..ProfileChange::default() };
            match self.update(id, &Change { name: Some(tried), ..profile.into() }) {
                Err(Error::Store(StoreError::NameTaken { .. })) => {}
                other => return other,
            }
        }
        Err(Error::NoFreeName { name: name.clone() })
    }

    /// Names a session with text that a user typed: it becomes the name and, if it is longer than a
    /// name can be, the title.
    ///
    /// # Errors
    ///
    /// [`Error::Name`] if it cannot be turned into a name; otherwise as
    /// [`rename`](Sessions::rename).
    pub fn rename_to(&self, id: SessionId, text: &str) -> Result<Session> {
        let name = Name::new(text)?;
        let renamed = self.rename(id, &name)?;
        match crate::title::of_text(text).filter(|title| title != name.as_str()) {
            Some(title) => self.set_title(id, Some(title)),
            None => Ok(renamed),
        }
    }

    /// Sets the title of a session, or removes it.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`StoreError::NotFound`], and I/O errors.
    pub fn set_title(&self, id: SessionId, title: Option<String>) -> Result<Session> {
        self.update(id, &ProfileChange { title: Some(title), ..ProfileChange::default() }.into())
    }
}
