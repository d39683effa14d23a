//! What can be done in a chat beside talking.

use std::path::Path;

use rethread_agent::past_the_dead;
use rethread_core::sessions::{self, Undone};
use rethread_core::{Name, SessionId};

use super::{Chat, HELP, Word};
use crate::args;
use crate::commands::{change, context, list, search, show, stats};
use crate::errors::Error;
use crate::out::{clean, line, note};

impl Chat {
    /// Does what was typed.
    pub(super) async fn do_word(&mut self, word: Word) -> Result<(), Error> {
        match word {
            Word::Exit => {}
            Word::Help => self.voice.notice(HELP),
            Word::Compact => drop(self.compact().await?),
            Word::Resume(Some(sel)) => self.resume(&sel).await?,
            Word::Resume(None) => {
                self.sessions()?;
                note(
                    "`resume 1` starts from the summary of the first; so do names, ids and .md files",
                );
            }
            Word::Sessions => self.sessions()?,
            Word::New(name) => self.new_session(name.as_deref())?,
            Word::Open(sel) => self.open_session(&sel).await?,
            Word::Agent(None) => self.list_agents()?,
            Word::Agent(Some(name)) => self.set_agent(&name)?,
            Word::Search(words) => {
                let words = words.split_whitespace().map(str::to_owned).collect();
                search::run(&self.desk, &args::Search { words, limit: 20, skip: 0 })?;
            }
            Word::Clear => {
                let id = self.current()?;
                past_the_dead(&self.runner.sessions, |sessions| sessions.clear(id))?;
                self.enter(self.current()?)?;
                self.voice
                    .notice("The context is empty; the log is kept, and /undo brings it back.");
            }
            Word::History { all } => {
                let sel = self.current()?.to_string();
                let args = args::Show { sel, all, last: None, from: None, to: None };
                show::run(&self.desk, &args)?;
            }
            Word::Stats => {
                stats::run(&self.desk, &args::One { sel: self.current()?.to_string() })?;
            }
            Word::Context => self.show_context()?,
            Word::Undo => self.undo()?,
            Word::Fork(name) => self.fork(name.as_deref())?,
            Word::Rename(name) => {
                let name = Name::new(&name)?;
                let renamed = self.runner.sessions.rename(self.current()?, &name)?;
                self.voice.notice(format_args!("This session is {} now.", renamed.header.name));
            }
            Word::Export(path) => self.export(path.as_deref())?,
        }
        Ok(())
    }

    /// The session, for what needs one.
    fn current(&self) -> Result<SessionId, Error> {
        self.session.ok_or_else(|| Error::Word {
            what: "nothing was said in this chat yet".into(),
            hint: "say something first; `sessions` lists the earlier ones",
        })
    }

    fn sessions(&self) -> Result<(), Error> {
        let all = args::List { all: false, archived: false, limit: 20, after: None };
        list::run(&self.desk, &all)?;
        Ok(())
    }

    fn new_session(&mut self, name: Option<&str>) -> Result<(), Error> {
        self.name = name.map(Name::new).transpose()?;
        self.left = self.session.take().or(self.left);
        self.fullness = 0;
        self.suggested = false;
        self.voice.notice("A new session starts with your next message; the last one is kept.");
        Ok(())
    }

    async fn open_session(&mut self, sel: &str) -> Result<(), Error> {
        let id = self.desk.select(sel)?;
        let session = self.runner.sessions.get(id)?;
        if let Some(name) = &session.header.profile.agent
            && *name != self.runner.agent.name
            && let Some(agent) = self.agents.get(name)
        {
            let agent = agent.clone();
            self.use_agent(agent)?;
        }
        self.enter(id)?;
        self.fullness = self.runner.fullness(id)?;
        self.show_opened(id)?;
        self.agent_still_the_same(id).await?;
        self.ask_for_trust(id).await
    }

    fn list_agents(&self) -> Result<(), Error> {
        for agent in self.agents.iter() {
            let mark = if agent.name == self.runner.agent.name { "*" } else { " " };
            line(format_args!("{mark} {:<12} {}", agent.name, clean(&agent.description)))?;
        }
        Ok(())
    }

    /// Another agent answers from now on; the session says so.
    fn set_agent(&mut self, name: &str) -> Result<(), Error> {
        let agent = self
            .agents
            .find(name)
            .cloned()
            .map_err(|error| Error::NoAgent { what: error.to_string() })?;
        self.use_agent(agent)?;
        if let Some(id) = self.session {
            self.announce_agent(id)?;
        }
        self.voice.notice(format_args!("{} answers from now on.", self.runner.agent.name));
        Ok(())
    }

    /// Writes down that another agent answers in a session from here on.
    pub(super) fn announce_agent(&mut self, id: SessionId) -> Result<(), Error> {
        self.runner.take_over(id)?;
        Ok(())
    }

    /// Makes a runner for this agent; the model stays unless the agent wants another.
    fn use_agent(&mut self, agent: rethread_agent::agents::Agent) -> Result<(), Error> {
        let talk = args::Talk {
            model: agent.model.is_none().then(|| self.runner.model.id()),
            allow: self.runner.allow.clone(),
            ..args::Talk::default()
        };
        let transcripts = self.runner.transcripts.clone();
        self.runner = super::setup::runner(&self.desk, &talk, &self.agents, agent)?;
        self.runner.transcripts = transcripts;
        self.tools_kept = None;
        match self.session {
            Some(id) => self.follow_trust(id),
            None => Ok(()),
        }
    }

    fn show_context(&self) -> Result<(), Error> {
        let args = args::Context {
            sel: self.current()?.to_string(),
            policy: Some(self.runner.policy.name.clone()),
            max_history: None,
            model: Some(self.runner.model.id()),
            window: Some(self.runner.model.window),
            at: None,
            explain: true,
        };
        context::run(&self.desk, &args)?;
        Ok(())
    }

    fn undo(&mut self) -> Result<(), Error> {
        if let (None, Some(id)) = (self.session, self.left) {
            self.enter(id)?;
            let name = self.runner.sessions.get(id)?.header.name;
            self.voice.notice(format_args!("The new is undone: you are in {name} again."));
            return Ok(());
        }
        let id = self.current()?;
        let undone = past_the_dead(&self.runner.sessions, |sessions| sessions.undo(id))?;
        let told = change::told(&self.desk, &undone)?;
        if let Undone::Start { back_to: Some(back), .. } = undone {
            self.enter(back)?;
        }
        self.voice.notice(told);
        Ok(())
    }

    fn fork(&mut self, name: Option<&str>) -> Result<(), Error> {
        let name = name.map(Name::new).transpose()?;
        let fork = sessions::Fork { at: None, name, take_keys: true };
        let from = self.current()?;
        let session = self.runner.sessions.fork(from, &fork)?;
        self.inherit_trust(Some(from), session.id());
        self.enter(session.id())?;
        self.voice.notice(format_args!(
            "You are in {} now; the session you came from stays as it is, and /undo goes back.",
            session.header.name
        ));
        Ok(())
    }

    fn export(&mut self, path: Option<&str>) -> Result<(), Error> {
        let id = self.current()?;
        let wrong = |path: &Path, what: String| Error::Write { path: path.to_owned(), what };
        let written = match path {
            Some(path) => {
                let path = Path::new(path);
                if path.exists() {
                    return Err(wrong(path, "there is such a file already".into()));
                }
                self.runner
                    .write_transcript(id, path)
                    .map_err(|error| wrong(path, error.to_string()))?;
                Some(path.to_owned())
            }
            None => self.runner.save_transcript(id).map_err(|error| {
                let folder = self.runner.transcripts.clone().unwrap_or_default();
                wrong(&folder, error.to_string())
            })?,
        };
        match written {
            Some(path) => self.voice.notice(format_args!("Written to {}", path.display())),
            None => {
                self.voice.notice("No folder for transcripts is set; `/export FILE` names a file.")
            }
        }
        Ok(())
    }
}
