//! The commands of the chat.

use std::ops::Range;
use std::path::Path;

use rethread_agent::{NextCall, SessionPermissions, TurnOptions};
use rethread_core::context::{Model, Policy};
use rethread_core::entry::{Body, Origin};
use rethread_core::sessions::{self, Undone};
use rethread_core::turn::{Turn, TurnPart};
use rethread_core::{BlockKind, Entry, Name, Place, Session, SessionId};

use super::attach::in_home;
use super::output::{Look, print};
use super::replay::{self, OpenCalls, RecordedChanges};
use super::turn_view::CallRecord;
use super::{Chat, ChatCommand, clipboard, context_window, cost, help};
use crate::args::List;
use crate::commands::{change, context, list, next_call, search, show, stats};
use crate::errors::Error;
use crate::out::{clean, columns, count, line, note, plural};

impl Chat {
    /// Runs a command.
    pub(super) async fn run_command(&mut self, word: ChatCommand) -> Result<(), Error> {
        match word {
            // These need more than a verb.
            ChatCommand::Exit | ChatCommand::Retry => {}
            ChatCommand::Help => self.voice.notice(help::text(&self.completions.own)),
            ChatCommand::Compact => self.compact_on_request().await?,
            ChatCommand::Resume(Some(sel)) => self.resume(&sel).await?,
            ChatCommand::Resume(None) | ChatCommand::Sessions if self.can_pick() => {
                self.pick().await?;
            }
            ChatCommand::Resume(None) => self.list_to_resume()?,
            ChatCommand::Sessions => self.sessions()?,
            ChatCommand::New(name) => self.new_session(name.as_deref())?,
            ChatCommand::Open(Some(sel)) => self.open_session(&sel).await?,
            ChatCommand::Open(None) if self.can_pick() => self.pick().await?,
            ChatCommand::Open(None) => {
                self.sessions()?;
                let what = "/open needs a session".into();
                return Err(Error::Word { what, hint: "`/open 1` opens the first of these" });
            }
            ChatCommand::Agent(None) => self.list_agents()?,
            ChatCommand::Agent(Some(name)) => self.set_agent(&name)?,
            ChatCommand::Model(None) => self.list_models()?,
            ChatCommand::Model(Some(name)) => self.set_model(&name)?,
            ChatCommand::Permissions(change) => self.permissions(change.as_deref())?,
            ChatCommand::Search(words) => {
                search::print_in_chat(&self.cli, &words)?;
            }
            ChatCommand::Clear => {
                let id = self.current()?;
                self.handle.call(|sessions| sessions.clear(id))?;
                self.be_in(id);
                self.voice
                    .notice("The context is empty; the log is kept, and /undo brings it back.");
            }
            ChatCommand::History { all } => {
                let session = self.handle.sessions().get(self.current()?)?;
                let from = if all { 0 } else { session.tally.begins() };
                self.show_history(&session, from..session.tally.entries)?;
            }
            ChatCommand::Stats => {
                stats::print(&self.cli, self.current()?, self.shape())?;
            }
            ChatCommand::Context => self.show_context()?,
            ChatCommand::Cost => self.show_cost()?,
            ChatCommand::Thinking => self.show_thinking()?,
            ChatCommand::Undo => self.undo().await?,
            ChatCommand::Rewind(turn) => self.rewind(turn.as_deref()).await?,
            ChatCommand::Fork(name) => self.fork(name.as_deref()).await?,
            ChatCommand::Rename(name) => {
                let renamed = self.handle.sessions().rename_to(self.current()?, &name)?;
                self.voice
                    .notice(format_args!("This session is now called {}.", renamed.header.name));
            }
            ChatCommand::Delete(sel) => self.delete(sel.as_deref())?,
            ChatCommand::Export(path) => self.export(path.as_deref())?,
            ChatCommand::Copy => self.copy()?,
            ChatCommand::Archive => self.archive()?,
        }
        Ok(())
    }

    /// The calls of the last turn in full, in the pager.
    pub(super) async fn page_last_turn(&mut self) -> Result<(), Error> {
        let records = match self.last_turn()? {
            Some(turn) => records(&turn),
            None => Vec::new(),
        };
        self.page(records).await
    }

    /// Shows the model's thinking in the last turn.
    fn show_thinking(&mut self) -> Result<(), Error> {
        let turn = self.last_turn()?;
        let replies = turn.iter().flat_map(Turn::parts).filter_map(|part| match part {
            TurnPart::Reply(message) => Some(message),
            _ => None,
        });
        let thoughts = replies.flat_map(|message| &message.content);
        let thoughts: Vec<&str> = thoughts
            .filter_map(|block| match &block.kind {
                BlockKind::Thinking(thinking) => Some(thinking.text.trim()),
                _ => None,
            })
            .filter(|text| !text.is_empty())
            .collect();
        if thoughts.is_empty() {
            self.voice.notice("No thinking was shown in the last turn.");
            return Ok(());
        }
        for thought in thoughts {
            let lines = clean(thought);
            self.voice.notice(format_args!("\x1b[2m{lines}\x1b[0m\n"));
        }
        Ok(())
    }

    /// The conversation, rendered; into a pipe, one line for each entry.
    fn show_history(&self, session: &Session, range: Range<u64>) -> Result<(), Error> {
        if self.voice.look == Look::Raw {
            show::print(&self.cli, session, range)?;
            return Ok(());
        }
        let (agent, style) = (&self.runner.responder.agent.name, self.voice.style());
        if range.start > 0 {
            let before = plural(range.start, "entry");
            self.voice.notice(format_args!("({before} before the last clear: `/history all`)\n"));
        }
        let (sessions, id) = (self.handle.sessions(), session.id());
        let show = |turn: &Turn<Entry>, open: OpenCalls| {
            let changes = RecordedChanges::read(sessions, id, turn.entries());
            print(&replay::turn(turn, &changes, agent, &style, open))
        };
        let mut turn = Turn::default();
        for entry in sessions.entries(id, range).skip_damaged() {
            if let Err(next) = turn.push(entry?) {
                show(&std::mem::take(&mut turn), OpenCalls::Interrupted)?;
                turn.push(next).expect("an empty turn takes every entry");
            }
        }
        show(&turn, OpenCalls::of(&turn, sessions, id))
    }

    /// The last turn of this session.
    fn last_turn(&self) -> Result<Option<Turn<Entry>>, Error> {
        let Some(id) = self.session else { return Ok(None) };
        let sessions = self.handle.sessions();
        let Some(seq) = sessions.get(id)?.tally.turn else { return Ok(None) };
        Ok(Some(sessions.turn_at(Place { session: id, seq })?))
    }

    /// The session, for commands that need one.
    pub(super) fn current(&self) -> Result<SessionId, Error> {
        self.session.ok_or_else(|| Error::Word {
            what: "this chat has no messages yet".into(),
            hint: "say something first; `sessions` lists the earlier ones",
        })
    }

    /// The session that SEL selects; 1 is the newest of the others.
    pub(super) fn select(&self, sel: &str) -> Result<SessionId, sessions::Error> {
        self.handle.sessions().select_other(sel, self.session)
    }

    fn sessions(&self) -> Result<(), Error> {
        list::run_beside(&self.cli, &List::default(), self.session)?;
        Ok(())
    }

    fn new_session(&mut self, name: Option<&str>) -> Result<(), Error> {
        self.name = name.map(Name::new).transpose()?;
        self.leave_unused()?;
        self.left = self.session.take().or(self.left);
        self.unsaid_permissions = SessionPermissions::default();
        self.fullness = 0;
        self.suggested = false;
        self.voice.notice("Your next message starts a new session; this one is kept.");
        Ok(())
    }

    /// The list, for someone who wants to resume and cannot use the picker.
    pub(super) fn list_to_resume(&self) -> Result<(), Error> {
        self.sessions()?;
        note("`resume 1` starts from the summary of the first; so do names, ids and .md files");
        Ok(())
    }

    pub(super) async fn open_session(&mut self, sel: &str) -> Result<(), Error> {
        self.open_id(self.select(sel)?).await
    }

    /// Continues a session with its whole history.
    pub(super) async fn open_id(&mut self, id: SessionId) -> Result<(), Error> {
        let thread = self.handle.sessions().thread(id)?;
        // Its own agent answers, where it is here.
        self.agent = None;
        self.show_opened(&thread)?;
        self.enter_thread(thread).await
    }

    fn list_agents(&self) -> Result<(), Error> {
        for agent in self.handle.host().agents().iter().filter(|agent| !agent.is_internal()) {
            let mark = if agent.name == self.runner.responder.agent.name { "*" } else { " " };
            let text = format!("{mark} {:<12} {}", agent.name, clean(&agent.description));
            match self.voice.look {
                Look::Raw => line(text)?,
                _ => self.voice.notice(text),
            }
        }
        Ok(())
    }

    /// Switches to another agent, and records it in the session.
    fn set_agent(&mut self, name: &str) -> Result<(), Error> {
        // The usual error of a model that cannot be asked says what to do about it.
        self.handle.host().roster().connect(name)?;
        self.runner = match self.session {
            Some(id) => self.handle.take_over(id, name)?,
            None => self.handle.runner(Some(name), None)?,
        };
        self.agent = Some(name.to_owned());
        let name = &self.runner.responder.agent.name;
        self.voice.notice(format_args!("{name} answers from now on."));
        Ok(())
    }

    /// The policy and the model of contexts.
    fn shape(&self) -> (Policy, Model) {
        let responder = &self.runner.responder;
        (responder.policy.clone(), responder.model.clone())
    }

    /// What fills the context window; into a pipe, what the model would be sent, line by line.
    fn show_context(&self) -> Result<(), Error> {
        let session = self.handle.sessions().get(self.current()?)?;
        let options = TurnOptions { can_ask: self.can_ask(), ..TurnOptions::default() };
        let specs = self.runner.offered(session.id(), &options);
        if self.voice.look != Look::Raw {
            let (policy, model) = self.shape();
            let policy = policy.for_session(&session.header);
            let begins = session.tally.begins();
            let first = self.handle.sessions().read(session.id(), begins..begins + 2)?;
            let restored = first.iter().find_map(|entry| match &entry.body {
                Body::Restored(restored) => Some(&**restored),
                _ => None,
            });
            let project = context::project_line(self.handle.sessions(), &session)?;
            let context = self.handle.sessions().build(session.clone(), &policy, &model)?;
            let shape = (columns(), self.voice.look == Look::Plain);
            for line in context_window::lines(&context, (&model, &specs), restored, shape) {
                self.voice.notice(line);
            }
            let (models, now) = (&self.cli.config.models, self.cli.now());
            let shape = (&model, &context, &specs[..]);
            let next = NextCall::new(self.handle.sessions(), &session, shape, models, now);
            for line in next_call::lines(&next, now) {
                self.voice.notice(line);
            }
            if let Some(project) = project {
                self.voice.notice(format_args!("In system: {project}"));
            }
            return Ok(());
        }
        let (policy, model) = self.shape();
        context::print(&self.cli, session, (policy, model, specs), None, true)?;
        Ok(())
    }

    /// The cost of each turn.
    fn show_cost(&self) -> Result<(), Error> {
        let id = self.current()?;
        let entries = self.handle.sessions().get(id)?.tally.entries;
        let (mut turns, mut question) = (Vec::new(), String::new());
        for entry in self.handle.sessions().entries(id, 0..entries).skip_damaged() {
            match TurnPart::of(&entry?.body) {
                TurnPart::Question(message) => question = message.plain_text(),
                TurnPart::Finished(finished) => turns.push(cost::TurnCost {
                    question: std::mem::take(&mut question),
                    finished: finished.clone(),
                }),
                _ => {}
            }
        }
        for text in cost::lines(&turns, &self.cli.config.models, columns()) {
            match self.voice.look {
                Look::Raw => line(text)?,
                _ => self.voice.notice(text),
            }
        }
        Ok(())
    }

    async fn undo(&mut self) -> Result<(), Error> {
        if let Some(id) = self.deleted.take() {
            return self.undelete(id).await;
        }
        let archived = self.archived.take().map(|id| (id, "the archive"));
        let left = archived.or(self.left.map(|id| (id, "`new`")));
        if let (None, Some((id, what))) = (self.session, left) {
            self.enter(id).await?;
            if self.session != Some(id) {
                return Ok(());
            }
            let name = change::label(&self.cli, id)?;
            self.voice.notice(format_args!("Undid {what}: back in {name}."));
            return Ok(());
        }
        let id = self.current()?;
        // Another window of this folder may have moved its key: this one still goes back.
        if let Some(back) = self.new_after
            && let Err(sessions::Error::ContinuedSince { .. }) =
                self.handle.sessions().would_undo(id)
        {
            return self.undo_new(back).await;
        }
        if !self.may_leave(id).await? {
            self.voice.notice(NOTHING_UNDONE);
            return Ok(());
        }
        // Read while the session is still the one that restored them.
        let put_back = match self.handle.sessions().would_undo(id)? {
            Undone::Start { origin: Origin::Fork, archived: true, .. } => {
                self.runner.files_put_back(id)?
            }
            _ => Vec::new(),
        };
        let mut undone = self.handle.call(|sessions| sessions.undo(id))?;
        if let Undone::Start { back_to: Some(back), .. } = &mut undone
            && let Some((_, from)) = self.rewound.take_if(|(fork, _)| *fork == id)
        {
            *back = from;
        }
        let text = change::undone_text(&self.cli, &undone)?;
        if let Undone::Start { back_to: Some(back), .. } = undone {
            self.enter(back).await?;
            self.undo_put_back(back, &put_back);
        }
        self.voice.notice(text);
        Ok(())
    }

    /// Goes back to the session that `/new` left.
    async fn undo_new(&mut self, back: SessionId) -> Result<(), Error> {
        let name = change::label(&self.cli, back)?;
        if !self.confirmed(&leaves(Origin::New, &name)).await {
            self.voice.notice(NOTHING_UNDONE);
            return Ok(());
        }
        self.enter(back).await?;
        self.voice.notice(format_args!("Undid `new`: back in {name}."));
        Ok(())
    }

    /// Whether an undo may leave the current session: if it has messages, or the user never asked
    /// for the session that would be undone, they are asked.
    async fn may_leave(&mut self, id: SessionId) -> Result<bool, Error> {
        let Undone::Start { origin, back_to: Some(back), archived, .. } =
            self.handle.sessions().would_undo(id)?
        else {
            return Ok(true);
        };
        // A compact, resume or fork that nothing was said after is what the person just did.
        if archived && origin != Origin::New {
            return Ok(true);
        }
        let back = change::label(&self.cli, back)?;
        Ok(self.confirmed(&leaves(origin, &back)).await)
    }

    async fn fork(&mut self, name: Option<&str>) -> Result<(), Error> {
        let name = name.map(Name::new).transpose()?;
        let fork = sessions::Fork { at: None, name, take_keys: true };
        let from = self.current()?;
        let session = self.handle.sessions().fork(from, &fork)?;
        self.handle.inherit_trust(from, session.id());
        self.enter(session.id()).await?;
        self.voice.notice(format_args!(
            "You are now in {}. The original is unchanged; /undo goes back to it.",
            change::shown(&session)
        ));
        Ok(())
    }

    /// Copies the last answer to the clipboard, as it was written.
    fn copy(&mut self) -> Result<(), Error> {
        let answer = self.last_turn()?.map(|turn| turn.answer().0).unwrap_or_default();
        if answer.is_empty() || self.voice.look == Look::Raw {
            return Err(Error::Word {
                what: "no answer to copy, or no terminal to copy it with".into(),
                hint: "`/export FILE` writes the whole conversation",
            });
        }
        print(&clipboard::written(&answer)?)?;
        let chars = count(answer.chars().count() as u64);
        self.voice
            .notice(format_args!("Copied the last answer ({chars} characters) to the clipboard."));
        // It takes texts for the clipboard only if it is told to, and does not say.
        if std::env::var_os("TMUX").is_some() {
            self.voice.notice("\x1b[2m(tmux passes it on after `set -g set-clipboard on`)\x1b[0m");
        }
        Ok(())
    }

    /// Archives the session; the next message starts another.
    fn archive(&mut self) -> Result<(), Error> {
        let id = self.current()?;
        let archived = self.handle.sessions().archive(id)?;
        let (name, selector) = (change::shown(&archived), archived.selector());
        self.session = None;
        self.archived = Some(id);
        (self.fullness, self.suggested) = (0, false);
        self.voice.notice(format_args!(
            "Archived {name}; /undo or `/open {selector}` brings it back. Your next message starts a \
             new session."
        ));
        Ok(())
    }

    fn export(&mut self, path: Option<&str>) -> Result<(), Error> {
        let id = self.current()?;
        let wrong = |path: &Path, what: String| Error::Write { path: path.to_owned(), what };
        let written = match path {
            Some(path) => {
                let path = in_home(path);
                if path.exists() {
                    return Err(wrong(&path, "the file exists already".into()));
                }
                self.runner
                    .write_transcript(id, &path)
                    .map_err(|error| wrong(&path, error.to_string()))?;
                Some(path)
            }
            None => self.runner.save_transcript(id).map_err(|error| {
                let folder = self.runner.transcripts().cloned().unwrap_or_default();
                wrong(&folder, error.to_string())
            })?,
        };
        match written {
            Some(path) => self.voice.notice(format_args!("Written to {}", path.display())),
            None => self.voice.notice("No transcript folder is configured; use `/export FILE`."),
        }
        Ok(())
    }
}

/// The note if the user declines an undo.
const NOTHING_UNDONE: &str = "Nothing was undone.";

/// The question before an undo that leaves a conversation.
fn leaves(origin: Origin, back: &str) -> String {
    let what = change::undone_verb(origin);
    format!("This undoes {what} and goes back to {back}. Leave this conversation?")
}

/// The calls of a turn, each with its result.
fn records(turn: &Turn<Entry>) -> Vec<CallRecord> {
    let mut records: Vec<CallRecord> = Vec::new();
    for part in turn.parts() {
        match part {
            TurnPart::Reply(message) => {
                let calls = message.calls().cloned();
                records.extend(calls.map(CallRecord::new));
            }
            TurnPart::Results(message) => {
                for result in message.results() {
                    let called = |record: &&mut CallRecord| record.call.id == result.tool_use_id;
                    if let Some(record) = records.iter_mut().rev().find(called) {
                        record.finish(!result.is_error, result.text());
                    }
                }
            }
            _ => {}
        }
    }
    records
}
