//! What a chat shows when it begins.

use rethread_agent::agents::AgentSource;

use super::Chat;
use crate::args::ChatFlags;
use crate::errors::Error;
use crate::out::plural;
use crate::picker::Choice;

impl Chat {
    /// The opening lines. False if a session was to be picked and none was.
    pub(super) async fn greet(&mut self, talk: &ChatFlags) -> Result<bool, Error> {
        let is_picked = matches!((&talk.resume, &talk.open), (Some(None), _) | (_, Some(None)));
        let mut chosen = None;
        if is_picked && self.can_pick() {
            // Someone who picks nothing wants no chat.
            chosen = match self.choose().await? {
                Choice::Close => return Ok(false),
                choice => Some(choice),
            };
        }
        self.introduce();
        match (&talk.resume, &talk.open, chosen) {
            (.., Some(choice)) => self.open_choice(choice).await?,
            (Some(Some(sel)), ..) => self.resume(sel).await?,
            (_, Some(Some(sel)), _) => self.open_session(sel).await?,
            (Some(None), ..) | (_, Some(None), _) => {
                self.list_to_resume()?;
                return Ok(self.voice.typed);
            }
            (None, None, _) => self.greet_session(talk).await?,
        }
        Ok(true)
    }

    /// Who answers, and what there is to know about that.
    fn introduce(&self) {
        let responder = &self.runner.responder;
        self.voice.notice(format_args!(
            "\x1b[1mrethread\x1b[0m · agent {}{} · {} · type `help` for commands",
            responder.agent.name,
            match responder.agent.origin {
                AgentSource::Project => " (this folder's own, see `rethread agents`)",
                _ => "",
            },
            responder.model.id()
        ));
        if responder.model.provider == rethread_agent::provider::OFFLINE {
            self.voice.notice(match self.handle.host().roster().has_key() {
                false => {
                    "\x1b[2mNo key is set, so the offline model answers: it searches this folder and your \
                     earlier sessions. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or OLLAMA_HOST for a real one.\x1b[0m"
                }
                true => {
                    "\x1b[2mThe offline model answers: it searches this folder and your earlier sessions. \
                     `/model` lists the others.\x1b[0m"
                }
            });
        }
        if !self.cli.config.is_on("session.auto_save") {
            self.voice.notice(
                "session.auto_save is off: this chat is not saved. `/export FILE` writes it to a file.",
            );
        }
    }

    /// Shows the session the chat begins in.
    async fn greet_session(&mut self, talk: &ChatFlags) -> Result<(), Error> {
        match self.session {
            Some(id) => {
                let thread = self.handle.sessions().thread(id)?;
                self.show_opened(&thread)?;
                let others = self.others()?;
                if others > 0 {
                    self.voice.notice(format_args!(
                        "\n{} in this folder: see `sessions`.",
                        plural(others, "other session")
                    ));
                }
                self.enter_thread(thread).await
            }
            None if talk.continue_last => {
                self.voice.notice("No session in this folder yet; starting a new one.");
                Ok(())
            }
            None => Ok(()),
        }
    }
}
