//! The chat: `rethread` without a command.
//!
//! `mod.rs` is the loop: a line in, a turn out. `parse_line.rs` interprets a line, `commands.rs`
//! implements commands, `exit_and_resume.rs` exits, compacts and resumes, `one_shot.rs` is `-p`.
//! The host decides which agent answers, and with which tools; `opening.rs` asks the user if
//! necessary. Every message is on disk before the model is asked, so there is nothing to save on
//! the way.
//!
//! `questions.rs` asks the user. Output: `output.rs` writes lines, at a terminal and elsewhere.
//! While a turn runs in a capable terminal, `watch.rs` shows it: `turn_view.rs` turns events into
//! lines, `tool_line.rs` each call into one, `screen.rs` draws them, `pager.rs` shows a call in
//! full. Input: `keyboard.rs` reads the terminal, `keys.rs` parses keys, `prompt.rs` turns keys
//! into a line with `line_editor.rs` and `prompt_view.rs`; `typed_ahead.rs` is for keys typed
//! during a turn, and `input.rs` puts all of it in order.

mod attach;
mod buffer;
mod clipboard;
mod command_output;
mod commands;
mod completions;
mod context_window;
mod cost;
mod editor_program;
pub(crate) mod exit_and_resume;
mod folder_history;
mod greeting;
mod help;
mod input;
mod keyboard;
pub(crate) mod keys;
mod line_editor;
mod menu;
mod model;
mod notify;
mod one_shot;
mod opening;
mod other_windows;
mod output;
mod pager;
pub(crate) mod paint;
mod parse_line;
mod past_questions;
mod permission_prompt;
mod permissions;
mod pick;
mod prompt;
mod prompt_view;
mod questions;
pub(crate) mod replay;
mod rewind;
mod screen;
mod shell;
mod status;
mod suspend;
mod title_when_idle;
pub(crate) mod tool_line;
mod trash;
mod turn_view;
mod typed_ahead;
mod watch;

use std::collections::HashSet;
use std::io::{IsTerminal, stderr, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rethread_agent::host::Refusal;
use rethread_agent::{
    End, Events, Handle, Runner, SessionPermissions, SummaryMethod, Target, TurnAnswer, TurnError,
    TurnOptions,
};
use rethread_core::{Incoming, Key, Name, SessionId, StoreError, sessions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::ChatFlags;
use crate::commands::{Cli, Done};
use crate::errors::{self, Error};
use crate::hosting::{Answering, runtime};
use crate::out::one_line;
use attach::Attached;
use buffer::Typed;
use completions::Completions;
pub(crate) use cost::{cached, money};
use input::{Input, Line};
use line_editor::LineEditor;
use output::{Look, Voice};
pub(crate) use pager::{arguments, edits};
use parse_line::{ChatCommand, TypedLine, understand};
pub(crate) use status::folder;
pub(crate) use tool_line::lasted;

/// How full the window is when `compact` is suggested, in percent.
const SUGGEST_AT: u64 = 70;

/// How full the window is when the next turn is preceded by a compaction, in percent.
const COMPACT_AT: u64 = 85;

/// The notes for a turn that someone stopped, with a partial reply and without one.
const STOPPED: &str = "\x1b[2m(stopped; the part that arrived is kept)\x1b[0m";
const STOPPED_EARLY: &str = "\x1b[2m(stopped before a reply arrived; your message is kept)\x1b[0m";

/// The note for a turn that was ended before the model was done.
const ANY_MESSAGE_CONTINUES: &str = "\x1b[2m(any message continues)\x1b[0m";

/// The note for an answer that was shown and is not in the log.
const ANSWER_NOT_STORED: &str =
    "\x1b[33m(the answer above was not stored; `/retry` asks again)\x1b[0m";

/// How long `/retry` waits for a lease that a turn could not release, which is longer than a lease is
/// valid, and how often it looks.
const LEASE_END_MAX: Duration = Duration::from_secs(20);
const LEASE_END_POLL: Duration = Duration::from_millis(100);

/// How a question ends.
const YES_OR_NO: &str = " (y/n) ";

/// The note for a question that cannot be answered.
const UNANSWERABLE: &str = "(too much input to read an answer from: taken as no)";

/// How often a turn reports that it is still running, if no line on the screen shows it.
const STILL_WORKING: Duration = Duration::from_secs(10);

/// Bytes of a line that a terminal keeps; anything beyond is lost before it gets here.
pub(super) const TERMINAL_LINE: usize = 4_095;

/// A chat.
pub(crate) struct Chat {
    cli: Cli,
    /// The owner's handle, with models.
    handle: Handle,
    /// The runner of the session, or of a new one.
    runner: Runner,
    /// The agent the user chose; otherwise the session's own.
    agent: Option<String>,
    /// The session; `None` before the first message.
    session: Option<SessionId>,
    /// The name the next session gets.
    name: Option<Name>,
    /// The key of this folder, which points at the session.
    key: Key,
    voice: Voice,
    input: Input,
    editor: LineEditor,
    completions: Completions,
    /// The questions of the other sessions of this folder, until they are read.
    older: Option<tokio::sync::oneshot::Receiver<Vec<String>>>,
    /// The output of the user's commands; it is sent with the next question.
    outputs: Vec<String>,
    /// Pictures that were pasted.
    pasted: attach::Clipboard,
    /// The terminal was asked for its background colour.
    asked_background: bool,
    /// Whether the window has the focus, if the terminal reports it.
    focused: bool,
    signals: Signals,
    /// The window has another size.
    window_change: Signal,
    /// How full the window was after the last turn, in percent.
    fullness: u64,
    suggested: bool,
    /// The cached share of the last request, if the provider reports it.
    last_usage: Option<rethread_core::message::Usage>,
    /// The status line that was shown last.
    status: String,
    /// Permissions for the session that the next message starts.
    unsaid_permissions: SessionPermissions,
    /// Entries of the session that the user has seen: those of other windows come after them.
    seen: u64,
    /// The last turn from elsewhere that was shown was not over.
    is_elsewhere_running: bool,
    /// The session that `/new` left, until a message is sent.
    left: Option<SessionId>,
    /// The session that this window left for the one it is in, with `/new`.
    new_after: Option<SessionId>,
    /// The fork that `/rewind` made, and the session to which `/undo` returns from it: not the
    /// fork's parent, if that session was compacted since.
    rewound: Option<(SessionId, SessionId)>,
    /// The session that was deleted last, until the next message.
    deleted: Option<SessionId>,
    /// The sessions in which something was said in this window; others were only looked at.
    spoken_in: HashSet<SessionId>,
    /// The sessions with an answer that was shown and could not be stored.
    unstored_in: HashSet<SessionId>,
    /// The session that was archived last, until something else is said.
    archived: Option<SessionId>,
    /// A signal asked the program to exit.
    terminated: bool,
}

/// The signals of a terminal or a supervisor.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Waits for the next signal. Whether it says that it is time to go.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.hang_up.recv() => true,
        }
    }
}

/// Why the chat ends.
enum Leaving {
    /// The user wants to.
    Asked,
    /// The user wants to, without waiting for a summary.
    AtOnce,
    /// A signal.
    Told,
}

impl Leaving {
    /// How to write the summary. Only someone who typed `exit` waits for a model.
    fn how(&self) -> SummaryMethod {
        match self {
            Leaving::Asked => SummaryMethod::Model,
            Leaving::AtOnce | Leaving::Told => SummaryMethod::Extract,
        }
    }
}

/// Opens the chat, or asks once.
pub(crate) fn run(cli: Cli, talk: ChatFlags) -> Done {
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let mut chat = Chat::open(cli, &talk)?;
        match &talk.prompt {
            Some(prompt) => chat.ask_once(&talk, prompt).await,
            None => chat.talk(&talk).await,
        }
    });
    // A tool or a read that hangs must not keep the process alive.
    runtime.shutdown_background();
    done
}

impl Chat {
    fn open(mut cli: Cli, talk: &ChatFlags) -> Result<Chat, Error> {
        let keeps = cli.config.is_on("session.auto_save");
        if !keeps {
            cli.forget_everything();
        }
        let newest = match talk.continue_last {
            true => opening::last_chat(&cli)?,
            false => None,
        };
        let answering = Answering {
            agent: talk.agent.clone(),
            model: talk.model.clone(),
            allow: talk.allow.clone(),
            read_only: talk.read_only,
            source: Some("terminal"),
            ..Answering::default()
        };
        let transcripts = cli.config.given("transcripts").map(PathBuf::from).filter(|_| keeps);
        let host = cli.host_in(answering, cli.workspaces()?, transcripts)?;
        let handle = host.handle(cli.sessions.owner().clone());
        // Who answered before answers again.
        let before = match talk.resume.as_ref().or(talk.open.as_ref()).and_then(Option::as_ref) {
            Some(sel) => {
                cli.sessions.select(sel).ok().map(|id| cli.sessions.get(id)).transpose()?
            }
            None => newest.clone(),
        };
        let runner = match &before {
            Some(session) if talk.agent.is_none() => handle.viewer(session)?,
            _ => handle.runner(None, None)?,
        };
        let key = Key::new(format!("project:{}", cli.workspace()?))?;
        let signals = Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        };
        let window_change = signal(SignalKind::window_change())?;
        let voice = Voice::new(cli.global.json, talk.plain);
        let edits = voice.look == Look::Rich && talk.prompt.is_none();
        // `-p` never sends a command.
        let own = if talk.prompt.is_none() { cli.own_commands_agreed_to()? } else { Vec::new() };
        let agents = handle.host().agents().iter();
        let agents = agents.map(|agent| (agent.name.clone(), agent.description.clone())).collect();
        let models = handle.host().roster().known_models();
        let models = models.iter().map(|model| (model.id(), model.window)).collect();
        let input = Input::start(voice.typed, edits);
        input.catch_stop_signal()?;
        Ok(Chat {
            handle,
            runner,
            agent: talk.agent.clone(),
            session: newest.map(|session| session.id()),
            name: talk.name.as_deref().map(Name::new).transpose()?,
            key,
            input,
            editor: LineEditor::default(),
            completions: Completions::new(own, agents, models),
            older: None,
            outputs: Vec::new(),
            pasted: attach::Clipboard::default(),
            asked_background: false,
            focused: true,
            voice,
            signals,
            window_change,
            fullness: 0,
            suggested: false,
            last_usage: None,
            status: String::new(),
            unsaid_permissions: SessionPermissions::default(),
            seen: 0,
            is_elsewhere_running: false,
            left: None,
            new_after: None,
            rewound: None,
            deleted: None,
            spoken_in: HashSet::new(),
            unstored_in: HashSet::new(),
            archived: None,
            terminated: false,
            cli,
        })
    }

    /// Lines in, turns out, until the user leaves.
    async fn talk(&mut self, talk: &ChatFlags) -> Done {
        if !self.greet(talk).await? {
            self.input.give_back_terminal();
            return Ok(ExitCode::SUCCESS);
        }
        loop {
            let line = match self.next_line().await {
                Ok(line) => line,
                Err(leaving) => {
                    self.leave(leaving.how()).await?;
                    return Ok(ExitCode::SUCCESS);
                }
            };
            let done = match self.meaning(&line) {
                Ok(TypedLine::Nothing) => Ok(None),
                Ok(TypedLine::Do(ChatCommand::Exit)) => Ok(Some(Leaving::Asked)),
                Ok(TypedLine::Do(ChatCommand::Retry)) => self.retry().await,
                Ok(TypedLine::Do(word)) => self.run_command(word).await.map(|()| None),
                Ok(TypedLine::Text(text)) => self.say(&line.saying(text)).await,
                Ok(TypedLine::Run(command)) => self.run_agreed(&command).await.map(|()| None),
                Err(error) => Err(error),
            };
            match done {
                _ if self.terminated => {
                    self.leave(SummaryMethod::Extract).await?;
                    return Ok(ExitCode::SUCCESS);
                }
                Ok(None) => {}
                Ok(Some(leaving)) => {
                    self.leave(leaving.how()).await?;
                    return Ok(ExitCode::SUCCESS);
                }
                // Nobody reads any more.
                Err(Error::Io(error)) => {
                    self.leave(SummaryMethod::Extract).await?;
                    return Err(Error::Io(error));
                }
                Err(error) => self.report(&error),
            }
        }
    }

    /// Interprets a line: a message, a command, or a custom command.
    fn meaning(&self, typed: &Typed) -> Result<TypedLine, Error> {
        if let Some(command) = typed.text.strip_prefix('!')
            && typed.begins_by_hand()
        {
            return match command.trim() {
                "" => Err(Error::Word {
                    what: "`!` needs a command".into(),
                    hint: "for example `!git status`; start a line with a space to send it as a message",
                }),
                command => Ok(TypedLine::Run(command.to_owned())),
            };
        }
        let own = typed.text.strip_prefix('/').and_then(|rest| {
            let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let command = self.completions.own.iter().find(|command| command.name == name)?;
            Some(command.with(arguments))
        });
        match own {
            Some(Ok(text)) => Ok(TypedLine::Text(text)),
            Some(Err(missing)) => Err(Error::Word {
                what: one_line(&missing.to_string()),
                hint: "quotes keep words together: \"two words\"",
            }),
            None => understand(&typed.text),
        }
    }

    /// Runs a shell command of the user. If lines are not edited, pasted text cannot be
    /// distinguished from typed text, so they are asked.
    async fn run_agreed(&mut self, command: &str) -> Result<(), Error> {
        let question = format!("Run `{}`?", one_line(command));
        match self.input.edits() || self.confirmed(&question).await {
            true => self.run_own(command).await,
            false => Ok(()),
        }
    }

    /// The next line, or why there is none.
    async fn next_line(&mut self) -> Result<Typed, Leaving> {
        self.show_status();
        let _titling = self.title_when_idle();
        if self.input.edits() {
            return self.edited_line().await;
        }
        let mut warned = false;
        loop {
            self.voice.prompt();
            tokio::select! {
                line = self.input.next() => match line {
                    Some(Line::Text(text)) if self.voice.typed && text.len() >= TERMINAL_LINE => {
                        self.report(&cut_line());
                    }
                    Some(Line::Text(text)) if self.voice.typed => return Ok(Typed::by_hand(text)),
                    Some(Line::Text(text)) => return Ok(Typed::data(text)),
                    Some(Line::Ahead(typed)) => return Ok(typed),
                    Some(Line::Key(_)) => {}
                    Some(Line::NotText) => self.report(&Error::Word {
                        what: "this line is not valid UTF-8; it was not sent".into(),
                        hint: "check the encoding of the input",
                    }),
                    Some(Line::TooLong) => self.report(&Error::Word {
                        what: "this line is longer than 4 MiB; it was not sent".into(),
                        hint: "save it to a file in the workspace and ask about the file",
                    }),
                    // The terminal is gone, and the signal that says so may be late.
                    Some(Line::Failed(_)) | None if self.voice.typed && !stdin().is_terminal() => {
                        return Err(Leaving::Told);
                    }
                    Some(Line::Failed(what)) => {
                        self.report(&Error::Io(std::io::Error::other(what)));
                        return Err(Leaving::Asked);
                    }
                    None => {
                        if self.voice.typed {
                            self.voice.notice("");
                        }
                        return Err(Leaving::Asked);
                    }
                },
                _ = self.signals.interrupt.recv() => {
                    if std::mem::replace(&mut warned, true) {
                        self.voice.notice("");
                        return Err(Leaving::AtOnce);
                    }
                    self.voice.notice("\n(`exit` or Ctrl-C again leaves)");
                }
                _ = self.signals.terminate.recv() => return Err(Leaving::Told),
                _ = self.signals.hang_up.recv() => return Err(Leaving::Told),
            }
        }
    }

    /// Waits for something, unless a signal arrives first.
    async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            terminated = self.signals.next() => {
                self.terminated |= terminated;
                None
            }
            done = work => Some(done),
        }
    }

    /// Runs a turn, in a new session if there is none. What could not be stored is in the prompt
    /// again, and what commands wrote waits for the next question.
    async fn say(&mut self, typed: &Typed) -> Result<Option<Leaving>, Error> {
        self.show_other_windows()?;
        let (before, outputs) = (self.questions(), self.outputs.clone());
        let done = self.send_question(typed).await;
        if done.is_err() && !self.is_asked(before) {
            self.input.give_back_typed(typed);
            self.outputs = outputs;
        }
        match done {
            Err(Error::NotSent) => {
                self.voice.notice("\x1b[2m(stopped waiting; your message was not sent)\x1b[0m");
                Ok(None)
            }
            done => done,
        }
    }

    async fn send_question(&mut self, typed: &Typed) -> Result<Option<Leaving>, Error> {
        let workspace = self.runner.responder.workspace.as_deref().map(std::path::Path::new);
        let (outputs, model) = (std::mem::take(&mut self.outputs), &self.runner.responder.model);
        let attached = Attached::new(typed, outputs, (workspace, &self.pasted), model);
        for note in &attached.notes {
            self.voice.notice(format_args!("\x1b[2m({note})\x1b[0m"));
        }
        let mut id = None;
        if self.fullness >= COMPACT_AT && self.cli.config.is_on("compact.auto") {
            self.voice.notice(format_args!(
                "The conversation fills {} % of the window; it is compacted first.",
                self.fullness
            ));
            self.fullness = 0;
            // A summary takes a while, so the question is stored before it is requested. The turn
            // repeats it under the same id, wherever the conversation continues.
            if let Some(session) = self.session {
                let sessions = self.handle.sessions();
                let question = Incoming::from(attached.message(sessions, session)?);
                let seq = sessions.append(session, vec![question])?[0];
                id = sessions.read(session, seq..seq + 1)?.pop().map(|entry| entry.id);
            }
            // If it fails, what was typed is still sent.
            let stopped = match self.compact().await {
                Ok(stopped) => stopped,
                Err(error) => {
                    self.report(&error);
                    false
                }
            };
            if stopped {
                self.voice.notice("(your message is kept, and has no answer)");
                self.editor.past.add(typed);
                return Ok(None);
            }
        }
        let session = self.session_for_turn()?;
        let message = attached.message(self.handle.sessions(), session)?;
        self.converse(session, Incoming { id, message }).await
    }

    /// The session, and how many questions are in it; none where that cannot be read.
    fn questions(&self) -> Option<(Option<SessionId>, u64)> {
        let Some(id) = self.session else { return Some((None, 0)) };
        let session = self.handle.sessions().get(id).ok()?;
        Some((Some(id), session.tally.queries))
    }

    /// Whether a question was added since, or may have been.
    fn is_asked(&self, before: Option<(Option<SessionId>, u64)>) -> bool {
        let (Some((was_in, were)), Some((is_in, are))) = (before, self.questions()) else {
            return true;
        };
        are != were || was_in.is_some() && was_in != is_in
    }

    /// Asks the last question again; its earlier turn is left out of the context.
    async fn retry(&mut self) -> Result<Option<Leaving>, Error> {
        let nothing =
            || Error::Word { what: "no question to ask again".into(), hint: "say something first" };
        self.show_other_windows()?;
        let id = self.session.ok_or_else(nothing)?;
        let mut withdrawn = self.handle.call(|sessions| sessions.withdraw_turn(id));
        // A turn that could not store its answer could not release the session either: the lease ends
        // by itself.
        let began = std::time::Instant::now();
        while self.unstored_in.contains(&id)
            && matches!(withdrawn, Err(sessions::Error::Store(StoreError::Held { .. })))
            && began.elapsed() < LEASE_END_MAX
            && self.unless_stopped(tokio::time::sleep(LEASE_END_POLL)).await.is_some()
        {
            withdrawn = self.handle.call(|sessions| sessions.withdraw_turn(id));
        }
        let question = withdrawn?.ok_or_else(nothing)?;
        self.voice.notice(format_args!("\x1b[2m> {}\x1b[0m", one_line(&question.plain_text())));
        self.unstored_in.remove(&id);
        self.converse(id, question).await
    }

    /// Runs a turn, and shows how it ended.
    async fn converse(
        &mut self,
        id: SessionId,
        question: impl Into<Incoming>,
    ) -> Result<Option<Leaving>, Error> {
        self.status.clear();
        self.deleted = None;
        self.spoken_in.insert(id);
        let before = self.questions();
        let outcome = self.turn(id, question).await;
        // The store failed after the question was stored.
        if let Err(error @ Error::Verb(_)) = &outcome
            && let (Some(before), Some(after)) = (before, self.questions())
            && before != after
        {
            self.report(error);
            self.voice.notice(ANSWER_NOT_STORED);
            self.unstored_in.insert(id);
            self.have_seen_all();
            return Ok(None);
        }
        if let Ok(answer) = &outcome {
            self.show_added(id, answer.seq)?;
        }
        self.have_seen_all();
        let answer = outcome?;
        match answer.end {
            End::Stopped => {
                let has_part = answer.rounds > 0 || answer.cut_off;
                self.voice.notice(if has_part { STOPPED } else { STOPPED_EARLY });
            }
            End::RoundLimit | End::Repeated => self.voice.notice(ANY_MESSAGE_CONTINUES),
            _ if answer.cut_off => self.voice.notice(
                "\x1b[33m(the reply reached the model's length limit; say `continue` for the rest)\x1b[0m",
            ),
            _ => {}
        }
        self.watch_the_window(&answer);
        Ok(None)
    }

    /// The session of the next turn; a new one if there is none.
    fn session_for_turn(&mut self) -> Result<SessionId, Error> {
        if let Some(id) = self.session {
            return Ok(id);
        }
        let mut new = self.runner.responder.new_session();
        new.name = self.name.take();
        // Other windows of this folder move its key too: `/undo` goes back to where this one was.
        let from = self.left;
        let session = self.handle.sessions().create_after(&new, &self.key, from)?;
        let permissions = std::mem::take(&mut self.unsaid_permissions);
        self.be_in(session.id());
        self.new_after = from;
        self.handle.change_permissions(&self.runner, session.id(), |new| *new = permissions);
        Ok(session.id())
    }

    /// Makes this the session of the chat.
    fn be_in(&mut self, id: SessionId) {
        self.session = Some(id);
        errors::call_it(id, "this session".to_owned());
        self.unsaid_permissions = SessionPermissions::default();
        self.left = None;
        self.archived = None;
        self.new_after = None;
        self.fullness = 0;
        self.last_usage = None;
        self.suggested = false;
        self.have_seen_all();
    }

    /// Shows the agent, how full the window is and the cost, if they have changed.
    fn show_status(&mut self) {
        if self.voice.look != Look::Rich {
            return;
        }
        let responder = &self.runner.responder;
        // An error about the cost is not shown here; `/cost` shows it.
        let session = self.session.and_then(|id| self.handle.sessions().get(id).ok());
        let workspace = responder.workspace.as_deref().map(std::path::Path::new);
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let status = status::Status {
            agent: responder.agent.name.clone(),
            model: responder.model.name.clone(),
            full: self.fullness,
            window: responder.model.window,
            last: self.last_usage,
            dollars: session.and_then(|s| status::dollars(&s.usage, &self.cli.config.models)),
            folder: workspace.map(|path| status::folder(path, home.as_deref())),
            branch: workspace.and_then(status::branch),
        };
        let line = status.line(crate::out::columns());
        if line != self.status {
            self.voice.notice(format_args!("\x1b[2m{line}\x1b[0m"));
            self.status = line;
        }
    }

    /// Whether someone can be asked for permission.
    fn can_ask(&self) -> bool {
        let seen = match self.voice.shown {
            true => stdout().is_terminal(),
            false => stderr().is_terminal(),
        };
        !self.voice.quiet && stdin().is_terminal() && seen
    }

    /// Runs a turn and shows it.
    async fn turn(
        &mut self,
        id: SessionId,
        input: impl Into<Incoming>,
    ) -> Result<TurnAnswer, Error> {
        let (events, mut receiver) = Events::channel();
        let options = TurnOptions { can_ask: self.can_ask(), ..TurnOptions::default() };
        let target = Target::Session(id);
        let started = self.handle.start_turn(target, input.into(), options, events).await?;
        let stop = started.stop.clone();
        let agent = self.runner.responder.agent.name.clone();
        if self.voice.look == Look::Rich && self.input.edits() {
            let outcome = self.watch_turn(&agent, started, receiver).await?;
            return outcome.map_err(|error| not_sent(error, &stop));
        }
        let shown = self.follow(&agent, &mut receiver, &started.stop).await;
        if shown.is_err() {
            // Nobody reads any more.
            started.stop.cancel();
        }
        drop(receiver);
        let outcome = started.ended().await.outcome;
        shown?;
        let limit = outcome.as_ref().ok().and_then(|answer| answer.limit.as_ref());
        if let Some(limit) = limit {
            self.voice.answer(&agent, &format!("\n\n{}", limit.notice()))?;
        }
        self.voice.close()?;
        outcome.map_err(|error| not_sent(error, &stop))
    }

    /// Suggests `compact` when the window fills.
    fn watch_the_window(&mut self, answer: &TurnAnswer) {
        self.fullness = answer.fullness;
        let suggest = self.cli.config.is_on("compact.suggest") && !self.suggested;
        if self.fullness >= SUGGEST_AT && suggest {
            self.suggested = true;
            self.voice.notice(format_args!(
                "The conversation fills {} % of the model's window: `compact` makes room, and `/undo` takes it back.",
                self.fullness
            ));
        }
    }

    /// Shows an error; the chat continues.
    fn report(&self, error: &Error) {
        let _code: ExitCode = errors::report_in_chat(error, self.cli.global.json);
    }
}

/// Whether this is a command of the chat.
pub(crate) fn is_command(name: &str) -> bool {
    name == "quit" || help::COMMANDS.iter().any(|command| command.name == name)
}

/// Why a turn failed. A message that was cancelled while it waited for another turn was never sent.
fn not_sent(error: TurnError, stop: &CancellationToken) -> Error {
    let waited = matches!(
        &error,
        TurnError::Sessions(sessions::Error::Store(StoreError::Held { .. }))
            | TurnError::Refused(Refusal::Stopped | Refusal::Closing)
    );
    if waited && stop.is_cancelled() { Error::NotSent } else { error.into() }
}

/// A line may have been longer than it is.
fn cut_line() -> Error {
    Error::Word {
        what: format!(
            "a terminal keeps only {TERMINAL_LINE} bytes of a line; this one was not sent"
        ),
        hint: "put it in a file and ask about the file, or pipe it into `rethread -p -`",
    }
}
