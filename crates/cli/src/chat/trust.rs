//! Sessions that were written elsewhere.
//!
//! What an imported session says may be anyone's words. So its tools stay off until the person
//! says yes, and the instructions that hold in it are those of the agent that answers here, never
//! any that came with it.

use rethread_core::SessionId;

use super::Chat;
use crate::errors::Error;
use crate::out::clean;

impl Chat {
    /// Turns tools off in a session that was imported and that nobody trusts yet, and on in any
    /// other.
    pub(super) fn follow_trust(&mut self, id: SessionId) -> Result<(), Error> {
        let session = self.runner.sessions.get(id)?;
        let imported = session.header.imported.is_some();
        self.set_tools(!imported || self.trusted.contains(&id));
        if !imported {
            return Ok(());
        }
        Ok(self.runner.instruct(&session)?)
    }

    /// Asks whether an imported session may use tools. Without someone to ask they stay off.
    pub(super) async fn ask_for_trust(&mut self, id: SessionId) -> Result<(), Error> {
        let session = self.runner.sessions.get(id)?;
        let Some(format) = session.header.imported.filter(|_| !self.trusted.contains(&id)) else {
            return Ok(());
        };
        let told =
            format!("This session was imported ({}): its words may be anyone's.", clean(&format));
        if !self.voice.typed {
            self.voice.notice(format_args!("{told} Tools are off."));
            return Ok(());
        }
        let question = format!("⚠️ {told} May the agent use tools in it?");
        match self.confirmed(&question).await {
            true => self.trust(id),
            false => self.voice.notice("Tools stay off in this session."),
        }
        Ok(())
    }

    /// The person trusts this session.
    pub(super) fn trust(&mut self, id: SessionId) {
        self.trusted.insert(id);
        self.set_tools(true);
    }

    /// What goes on from a trusted session is trusted.
    pub(super) fn inherit_trust(&mut self, from: Option<SessionId>, to: SessionId) {
        if from.is_some_and(|from| self.trusted.contains(&from)) {
            self.trusted.insert(to);
        }
    }

    fn set_tools(&mut self, on: bool) {
        match (on, self.tools_kept.take()) {
            (true, Some(tools)) => self.runner.agent.tools = tools,
            (true, None) => {}
            (false, Some(tools)) => self.tools_kept = Some(tools),
            (false, None) => {
                self.tools_kept = Some(self.runner.agent.tools.replace(Vec::new()));
            }
        }
    }
}
