//! Lets a model write a better title while the user is idle.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::Chat;

/// How long nobody must have typed anything before a model is asked for a title.
const IDLE: Duration = Duration::from_secs(10);

/// A title that is being written. Dropping this cancels it.
pub(super) struct Titling(Option<JoinHandle<()>>);

impl Drop for Titling {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

impl Chat {
    /// Asks the model for a title once the chat is idle, if the session needs one. Nothing waits
    /// for it, and errors are ignored: the session has a title without it.
    pub(super) fn title_when_idle(&self) -> Titling {
        let wanted = self.cli.config.is_on("session.titles") && self.voice.typed;
        let Some(id) = self.session.filter(|_| wanted) else { return Titling(None) };
        let runner = self.runner.clone();
        Titling(Some(tokio::spawn(async move {
            tokio::time::sleep(IDLE).await;
            runner.write_title(id).await.ok();
        })))
    }
}
