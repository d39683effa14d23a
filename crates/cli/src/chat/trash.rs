//! `/delete`, and the `/undo` that follows it.

use rethread_core::SessionId;
use rethread_core::sessions::trash_kept;

use super::Chat;
use crate::commands::change::shown;
use crate::commands::trash::taken;
use crate::errors::Error;

impl Chat {
    /// Moves a session to the trash: the current one, or another.
    pub(super) fn delete(&mut self, sel: Option<&str>) -> Result<(), Error> {
        let id = match sel {
            Some(sel) => self.select(sel)?,
            None => self.current()?,
        };
        let deleted = self.handle.call(|sessions| sessions.trash(id))?;
        let (name, selector) = (shown(&deleted), deleted.selector());
        self.deleted = Some(id);
        let mut next = "";
        if self.session == Some(id) {
            self.session = None;
            self.left = None;
            self.fullness = 0;
            next = " Your next message starts a new session.";
        }
        let kept = trash_kept();
        self.voice.notice(format_args!(
            "Moved {name} to the trash; /undo brings it back, `rethread undo {selector}` for {kept}.{next}"
        ));
        Ok(())
    }

    /// Restores the session that was just deleted. If the chat is in none, it continues in this
    /// one.
    pub(super) async fn undelete(&mut self, id: SessionId) -> Result<(), Error> {
        let trashed = self.handle.sessions().trashed()?;
        let restored = self.handle.call(|sessions| sessions.restore_from_trash(id))?;
        let name = shown(&restored);
        if self.session.is_none() {
            self.enter(id).await?;
        }
        self.voice.notice(format_args!("Undid the delete: {name} is back."));
        let before = trashed.iter().find(|session| session.id() == id);
        if let Some(taken) = before.and_then(|before| taken(before, &restored)) {
            self.voice.notice(taken);
        }
        Ok(())
    }
}
