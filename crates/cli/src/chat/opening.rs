//! Opens a session: which one, which agent answers, and what the user is asked first.
//!
//! The host decides which agent answers, and with which tools. If consent is needed (another agent
//! would continue, or an imported session wants tools), this asks.

use rethread_agent::host::Decision;
use rethread_core::store::Filter;
use rethread_core::{Block, Key, Session, SessionId, Sessions, Thread};

use super::Chat;
use crate::commands::{Cli, open};
use crate::errors::Error;
use crate::last_turns::{self, LastTurns, Shape};
use crate::out::{clean, plural};

/// The session in which this folder's last chat ended: the one the folder's key points at, which
/// every chat and `open` moves. If there is none, the newest session of this folder. Programs that
/// share a directory of files have no folders: there it is the newest of all, if it is theirs.
pub(super) fn last_chat(cli: &Cli) -> Result<Option<Session>, Error> {
    let key = Key::new(format!("project:{}", cli.workspace()?))?;
    if let Some(id) = cli.sessions.resolve(&key)? {
        let session = cli.sessions.get(id)?;
        if !session.header.archived {
            return Ok(Some(session));
        }
    }
    let filter = Filter { workspace: Some(cli.workspace()?), ..Sessions::default_filter() };
    let here = cli.sessions.list_with_messages(&filter, None, 1)?.sessions.pop();
    if here.is_some() || !cli.shares_its_directory() {
        return Ok(here);
    }
    let newest =
        cli.sessions.list_with_messages(&Sessions::default_filter(), None, 1)?.sessions.pop();
    Ok(newest.filter(|session| session.header.profile.workspace.is_none()))
}

impl Chat {
    /// Makes this the session of the chat, if the user agrees to its agent.
    pub(super) async fn enter(&mut self, id: SessionId) -> Result<(), Error> {
        let thread = self.handle.sessions().thread(id)?;
        self.enter_thread(thread).await
    }

    /// The same for a session that was read.
    pub(super) async fn enter_thread(&mut self, mut thread: Thread) -> Result<(), Error> {
        let mut session = thread.session().clone();
        match self.decide(&session) {
            Decision::Ready(runner) => self.runner = *runner,
            Decision::AskFirst(changed) => {
                if !self.agrees(&changed.theirs, &changed.ours).await {
                    self.session = None;
                    self.voice.notice("Your next message starts a new session.");
                    return Ok(());
                }
                self.runner = self.handle.accept(&changed)?;
                session = self.handle.sessions().get(session.id())?;
            }
            Decision::Refused(refusal) => return Err(refusal.into()),
        }
        if self.session != Some(session.id()) {
            self.leave_unused()?;
        }
        self.handle.sessions().bind(&self.key, session.id())?;
        if session.header.archived {
            self.handle.sessions().unarchive(session.id())?;
        }
        self.be_in(session.id());
        self.let_call_back(&thread);
        self.show_other_folder(&session);
        self.ask_for_trust(&session).await?;
        let responder = &self.runner.responder;
        let context = thread.context(&responder.policy, &responder.model)?;
        self.fullness = self.runner.fullness_of(&context);
        Ok(())
    }

    /// Warns if a session is about another folder than the one in which tools work.
    fn show_other_folder(&self, session: &Session) {
        let (Some(theirs), Some(ours)) =
            (&session.header.profile.workspace, &self.runner.responder.workspace)
        else {
            return;
        };
        let real = std::fs::canonicalize(theirs).unwrap_or_else(|_| theirs.into());
        if real != std::path::Path::new(ours) {
            self.voice.notice(format_args!(
                "This session is about {}; files and commands are those of {}.",
                clean(theirs),
                clean(ours)
            ));
        }
    }

    /// The agent of a session: the one the user chose, or its own.
    pub(super) fn decide(&self, session: &Session) -> Decision {
        match &self.agent {
            Some(agent) => self.handle.decide_as(session, agent),
            None => self.handle.decide(session),
        }
    }

    /// Whether the user agrees that another agent continues.
    pub(super) async fn agrees(&mut self, theirs: &str, ours: &str) -> bool {
        let question =
            format!("⚠️ Session created with {}, using {}. Continue?", clean(theirs), clean(ours));
        self.confirmed(&question).await
    }

    /// Asks whether an imported session may use tools. Without someone to ask they stay off.
    pub(super) async fn ask_for_trust(&mut self, session: &Session) -> Result<(), Error> {
        let Some(format) = self.runner.untrusted() else { return Ok(()) };
        let notice = format!(
            "This session was imported ({}): its text may come from anyone.",
            clean(format)
        );
        if !self.voice.typed {
            self.voice.notice(format_args!("{notice} Tools are off."));
            return Ok(());
        }
        let question = format!("⚠️ {notice} May the agent use tools in it?");
        match self.confirmed(&question).await {
            true => {
                self.handle.trust(session.id());
                if let Decision::Ready(runner) = self.decide(session) {
                    self.runner = *runner;
                }
            }
            false => self.voice.notice("Tools stay off in this session."),
        }
        Ok(())
    }

    /// Shows which session was opened, and its last turns. This is not sent to the model.
    pub(super) fn show_opened(&self, thread: &Thread) -> Result<(), Error> {
        if self.voice.quiet {
            return Ok(());
        }
        let session = thread.session();
        let style = self.voice.style();
        let last = LastTurns::read(self.handle.sessions(), session, last_turns::TURNS)?;
        let shape =
            Shape { style: &style, now: self.cli.now(), turn_lines: last_turns::TURN_LINES };
        self.voice.notice("");
        if self.cli.shares_its_directory() {
            let stats = self.handle.sessions().stats(session.id())?;
            self.voice.notice(open::summary(session, stats.user, stats.assistant));
            self.voice.notice("");
        } else {
            let heading = last_turns::heading(session, self.cli.now());
            self.voice.notice(format_args!("\x1b[1m{heading}\x1b[0m\n"));
        }
        self.voice.rendered(&last.lines(&shape));
        if last.earlier > 0 {
            let earlier = plural(last.earlier, "earlier turn");
            let all = if session.tally.boundary.is_some() { " all" } else { "" };
            let them = if last.earlier == 1 { "it" } else { "them" };
            let shows = format!("{earlier}: /history{all} shows {them}");
            self.voice.notice(format_args!("\n\x1b[2m{shows}\x1b[0m"));
        }
        self.voice.notice("");
        Ok(())
    }

    /// Sessions of this folder other than the one that is open.
    pub(super) fn others(&self) -> Result<u64, Error> {
        let workspace = self.runner.responder.workspace.clone();
        let filter = Filter { workspace, ..Sessions::default_filter() };
        let page = self.handle.sessions().list(&filter, None, 1_000)?;
        Ok((page.sessions.len() as u64).saturating_sub(1))
    }

    /// Makes the last questions of a session available to Up.
    fn let_call_back(&mut self, thread: &Thread) {
        if !self.input.edits() {
            return;
        }
        let messages = thread.log().entries().iter().filter_map(|entry| entry.body.message());
        let asked = messages.filter(|message| message.opens_turn());
        let texts = asked.map(|message| {
            let texts: Vec<&str> = message.content.iter().filter_map(Block::as_text).collect();
            texts.join("\n")
        });
        texts.for_each(|text| self.editor.past.add_logged(&text));
    }
}
