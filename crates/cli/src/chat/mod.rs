//! The chat: `rethread` without a command.
//!
//! `mod.rs` is the loop: a line in, a turn out. `words.rs` says what a line means, `verbs.rs` does
//! what is not a turn, `past.rs` leaves, compacts and comes back, `once.rs` is `-p`, `say.rs` is
//! what a person sees, `input.rs` and `keyboard.rs` are what they type, `setup.rs` makes the runner.
//! Every message is on disk before the model is
//! asked, so there is nothing to save on the way.

mod input;
mod keyboard;
mod once;
pub(crate) mod past;
mod say;
pub(crate) mod setup;
mod trust;
mod verbs;
mod words;

use std::collections::HashSet;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;
use std::time::Instant;

use rethread_agent::agents::{Agents, Origin};
use rethread_agent::{Answer, End, Event, Events, How, Runner};
use rethread_core::limits::READ_ENTRIES;
use rethread_core::store::Filter;
use rethread_core::{Block, Key, Message, Name, Session, SessionId, Sessions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::args::Talk;
use crate::commands::{Desk, Done};
use crate::errors::{self, Error};
use crate::out::{clean, plural};
use input::{Input, Line};
use say::Voice;
use words::{HELP, Said, Word, understand};

/// How full the window is when `compact` is suggested, in percent.
const SUGGEST_AT: u64 = 70;

/// How full the window is when the next turn is preceded by a compaction, in percent.
const COMPACT_AT: u64 = 85;

/// Bytes of a message that can be called back to be edited.
const CALL_BACK_BYTES_MAX: usize = 16 << 10;

/// How a question ends.
const YES_OR_NO: &str = " (y/n) ";

/// What is said to a question that nobody can be heard on.
const UNHEARD: &str = "(so much is being typed that no answer can be told from it: no)";

/// Bytes of a line a terminal keeps; what is typed beyond is lost before it gets here.
pub(super) const TERMINAL_LINE: usize = 4_095;

/// A chat.
pub(crate) struct Chat {
    desk: Desk,
    runner: Runner,
    agents: Agents,
    /// The session; none before the first message.
    session: Option<SessionId>,
    /// The name the next session gets.
    name: Option<Name>,
    /// The key that points at the session: this folder's.
    key: Key,
    voice: Voice,
    input: Input,
    signals: Signals,
    /// How full the window was after the last turn, in percent.
    fullness: u64,
    suggested: bool,
    /// The session that `/new` left, until something is said.
    left: Option<SessionId>,
    /// A signal said that it is time to go.
    told: bool,
    /// Imported sessions that the person trusts with tools.
    trusted: HashSet<SessionId>,
    /// The agent's own tools, while they are off.
    tools_kept: Option<Option<Vec<String>>>,
}

/// What a terminal or a supervisor may tell us.
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
    /// The person wants to.
    Asked,
    /// The machine wants us to.
    Told,
}

/// Opens the chat, or asks once.
pub(crate) fn run(desk: Desk, talk: Talk) -> Done {
    let runtime = setup::runtime()?;
    let done = runtime.block_on(async {
        let mut chat = Chat::open(desk, &talk)?;
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
    fn open(mut desk: Desk, talk: &Talk) -> Result<Chat, Error> {
        if !desk.config.is_on("session.auto_save") {
            desk.forget_everything();
        }
        let agents = setup::agents(&desk)?;
        let newest = match talk.go_on {
            true => newest(&desk)?,
            false => None,
        };
        // Who answered before answers again.
        let before = match &talk.resume {
            Some(sel) => {
                desk.sessions.select(sel).ok().map(|id| desk.sessions.get(id)).transpose()?
            }
            None => newest.clone(),
        };
        let agent = setup::agent(&desk, talk, &agents, before.as_ref())?;
        let mut runner = setup::runner(&desk, talk, &agents, agent)?;
        if !desk.config.is_on("session.auto_save") {
            runner.transcripts = None;
        }
        let key = Key::new(format!("project:{}", desk.workspace()?))?;
        let signals = Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        };
        let voice = Voice::new(desk.global.json);
        let edits = voice.shown && !voice.quiet && talk.prompt.is_none();
        let mut chat = Chat {
            runner,
            agents,
            session: newest.map(|session| session.id()),
            name: talk.name.as_deref().map(Name::new).transpose()?,
            key,
            input: Input::start(voice.typed, edits),
            voice,
            signals,
            fullness: 0,
            suggested: false,
            left: None,
            told: false,
            trusted: HashSet::new(),
            tools_kept: None,
            desk,
        };
        if let Some(id) = chat.session {
            chat.follow_trust(id)?;
            chat.let_call_back(id)?;
        }
        Ok(chat)
    }

    /// Lines in, turns out, until someone leaves.
    async fn talk(&mut self, talk: &Talk) -> Done {
        self.greet(talk).await?;
        loop {
            let line = match self.next_line().await {
                Ok(line) => line,
                Err(leaving) => {
                    let how = match leaving {
                        Leaving::Asked => How::Model,
                        Leaving::Told => How::Extract,
                    };
                    self.leave(how).await?;
                    return Ok(ExitCode::SUCCESS);
                }
            };
            let done = match understand(&line) {
                Ok(Said::Nothing) => Ok(None),
                Ok(Said::Do(Word::Exit)) => Ok(Some(Leaving::Asked)),
                Ok(Said::Do(word)) => self.do_word(word).await.map(|()| None),
                Ok(Said::Text(text)) => self.say(text).await,
                Err(error) => Err(error),
            };
            match done {
                _ if self.told => {
                    self.leave(How::Extract).await?;
                    return Ok(ExitCode::SUCCESS);
                }
                Ok(None) => {}
                Ok(Some(Leaving::Asked)) => {
                    self.leave(How::Model).await?;
                    return Ok(ExitCode::SUCCESS);
                }
                Ok(Some(Leaving::Told)) => {
                    self.leave(How::Extract).await?;
                    return Ok(ExitCode::SUCCESS);
                }
                // Nobody reads any more.
                Err(Error::Io(error)) => {
                    self.leave(How::Extract).await?;
                    return Err(Error::Io(error));
                }
                Err(error) => self.tell(&error),
            }
        }
    }

    /// What a person is told first.
    async fn greet(&mut self, talk: &Talk) -> Result<(), Error> {
        let model = self.runner.model.id();
        self.voice.notice(format_args!(
            "\x1b[1mrethread\x1b[0m · agent {}{} · {model} · `help` says what can be typed",
            self.runner.agent.name,
            match self.runner.agent.origin {
                Origin::Project => " (this folder's own, see `rethread agents`)",
                _ => "",
            }
        ));
        if self.runner.model.provider == rethread_agent::provider::OFFLINE {
            self.voice.notice(
                "\x1b[2mNo key is set, so the offline model answers: it searches this folder and your \
                 earlier sessions. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or OLLAMA_HOST for a real one.\x1b[0m",
            );
        }
        if !self.desk.config.is_on("session.auto_save") {
            self.voice.notice(
                "session.auto_save is off: nothing of this chat is kept. `/export FILE` writes it to a file.",
            );
        }
        if let Some(sel) = &talk.resume {
            return self.resume(sel).await;
        }
        match self.session {
            Some(id) => {
                self.fullness = self.runner.fullness(id)?;
                self.show_opened(id)?;
                let others = self.others()?;
                if others > 0 {
                    self.voice.notice(format_args!(
                        "\n{} of this folder: `sessions` lists all, `/open SEL` goes on with another.",
                        plural(others, "other session")
                    ));
                }
                self.agent_still_the_same(id).await?;
                self.ask_for_trust(id).await
            }
            None if talk.go_on => {
                self.voice.notice("There is no session of this folder yet; this starts one.");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Tells which session goes on. The model is not sent this.
    fn show_opened(&self, id: SessionId) -> Result<(), Error> {
        let sessions = &self.runner.sessions;
        let session = sessions.thread(id)?.session().clone();
        sessions.bind(&self.key, id)?;
        let stats = sessions.stats(id)?;
        let text = crate::commands::open::summary(&session, stats.user, stats.assistant);
        self.voice.notice(text);
        Ok(())
    }

    /// Sessions of this folder beside the one that is open.
    fn others(&self) -> Result<u64, Error> {
        let filter =
            Filter { workspace: self.runner.workspace.clone(), ..Sessions::default_filter() };
        let page = self.runner.sessions.list(&filter, None, 1_000)?;
        Ok((page.sessions.len() as u64).saturating_sub(1))
    }

    /// A session whose agent came from another file than the one that answers now is asked about.
    async fn agent_still_the_same(&mut self, id: SessionId) -> Result<(), Error> {
        let session = self.runner.sessions.get(id)?;
        let mine = self.runner.agent.path.clone();
        match session.header.profile.agent_path {
            Some(theirs) if theirs != mine => {
                let question = format!(
                    "⚠️ Session created with {}, using {}. Continue?",
                    clean(&theirs),
                    clean(&mine)
                );
                match self.confirmed(&question).await {
                    true => self.announce_agent(id)?,
                    false => {
                        self.session = None;
                        self.voice.notice("A new session starts with your next message.");
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The next line, or why there is none.
    async fn next_line(&mut self) -> Result<String, Leaving> {
        let mut warned = false;
        loop {
            if !self.input.ask() {
                self.voice.prompt();
            }
            tokio::select! {
                line = self.input.next() => match line {
                    Some(Line::Edited(text)) => return Ok(text),
                    Some(Line::Interrupted) => {
                        if std::mem::replace(&mut warned, true) {
                            return Err(Leaving::Asked);
                        }
                        self.voice.notice("(`exit` or Ctrl-C again leaves)");
                    }
                    Some(Line::Suspend) => {
                        // This thread stops here, with all others, and goes on when it is told to.
                        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).ok();
                    }
                    Some(Line::TooManyRows) => self.tell(&Error::Word {
                        what: "this has more rows than can be edited; it was not sent".into(),
                        hint: "put it in a file of the workspace and ask about the file",
                    }),
                    Some(Line::Text(text)) if self.voice.typed && text.len() >= TERMINAL_LINE => {
                        self.tell(&cut_line());
                    }
                    Some(Line::Text(text)) => return Ok(text),
                    Some(Line::NotText) => self.tell(&Error::Word {
                        what: "this line is not valid UTF-8; it was not sent".into(),
                        hint: "check the encoding of the input",
                    }),
                    Some(Line::TooLong) => self.tell(&Error::Word {
                        what: "this line is longer than 4 MiB; it was not sent".into(),
                        hint: "put it in a file of the workspace and ask about the file",
                    }),
                    // The terminal is gone, and the signal that says so may be late.
                    Some(Line::Failed(_)) | None if self.voice.typed && !stdin().is_terminal() => {
                        return Err(Leaving::Told);
                    }
                    Some(Line::Failed(what)) => {
                        self.tell(&Error::Io(std::io::Error::other(what)));
                        return Err(Leaving::Asked);
                    }
                    None => {
                        if self.voice.typed && !self.input.edits() {
                            self.voice.notice("");
                        }
                        return Err(Leaving::Asked);
                    }
                },
                _ = self.signals.interrupt.recv() => {
                    if std::mem::replace(&mut warned, true) {
                        self.voice.notice("");
                        return Err(Leaving::Asked);
                    }
                    self.voice.notice("\n(`exit` or Ctrl-C again leaves)");
                }
                _ = self.signals.terminate.recv() => return Err(Leaving::Told),
                _ = self.signals.hang_up.recv() => return Err(Leaving::Told),
            }
        }
    }

    /// Ends a question that is on the line. Returns the moment from which on an answer can have
    /// been typed, however quick whoever reads it is; none where it cannot be told from the rest.
    fn ask(&mut self) -> Option<Instant> {
        self.voice.drain();
        if !self.input.settle() {
            self.voice.notice(UNHEARD);
            return None;
        }
        let asked = Instant::now();
        self.voice.begin(YES_OR_NO);
        Some(asked)
    }

    /// Asks a yes-or-no question; the next line answers it.
    async fn confirmed(&mut self, question: &str) -> bool {
        self.voice.begin(question);
        let Some(asked) = self.ask() else { return false };
        let line = tokio::select! {
            line = async {
                match self.input.is_typed() {
                    true => self.input.next_since(asked).await,
                    false => self.input.next().await,
                }
            } => line,
            told = self.signals.next() => {
                self.told |= told;
                None
            }
        };
        if !self.voice.typed {
            self.voice.notice("");
        }
        match line {
            Some(Line::Text(text)) if is_yes(&text) => true,
            Some(Line::Text(text)) if is_no(&text) || self.voice.typed => false,
            // Piped in, and no answer to this: it is the next thing to be said.
            Some(line) => {
                self.input.give_back(line);
                false
            }
            None => false,
        }
    }

    /// Waits for something, unless a signal comes first.
    async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            told = self.signals.next() => {
                self.told |= told;
                None
            }
            done = work => Some(done),
        }
    }

    /// Runs a turn, in a new session if there is none.
    async fn say(&mut self, text: String) -> Result<Option<Leaving>, Error> {
        if self.fullness >= COMPACT_AT && self.desk.config.is_on("compact.auto") {
            self.voice.notice(format_args!(
                "The conversation fills {} % of the window; it is compacted first.",
                self.fullness
            ));
            self.fullness = 0;
            // That it fails is no reason not to send what was typed.
            let stopped = match self.compact().await {
                Ok(stopped) => stopped,
                Err(error) => {
                    self.tell(&error);
                    false
                }
            };
            if stopped {
                self.voice.notice("(your message was not sent)");
                self.input.remember([text]);
                return Ok(None);
            }
        }
        let id = self.session_for_turn()?;
        let answer = self.turn(id, Message::user(text)).await?;
        match answer.end {
            End::Stopped => self.voice.notice("\x1b[2m(stopped; what was said is kept)\x1b[0m"),
            _ if answer.cut_off => self.voice.notice(
                "\x1b[33m(the model's limit for one reply was reached; say `go on` for the rest)\x1b[0m",
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
        let mut new = self.runner.new_session();
        new.name = self.name.take();
        let session = self.runner.sessions.create(&new, Some(&self.key))?;
        self.enter(session.id())?;
        Ok(session.id())
    }

    /// The chat is in this session from now on.
    fn enter(&mut self, id: SessionId) -> Result<(), Error> {
        if self.session != Some(id) {
            self.let_call_back(id)?;
        }
        self.session = Some(id);
        self.left = None;
        self.fullness = 0;
        self.suggested = false;
        self.follow_trust(id)
    }

    /// Lets what was asked last in a session be called back with the arrow up.
    fn let_call_back(&self, id: SessionId) -> Result<(), Error> {
        if !self.input.edits() {
            return Ok(());
        }
        let sessions = &self.runner.sessions;
        let head = sessions.get(id)?.tally.entries;
        let entries = sessions.read(id, head.saturating_sub(READ_ENTRIES)..head)?;
        let messages = entries.iter().filter_map(|entry| entry.body.message());
        let asked = messages.filter(|message| message.opens_turn());
        let texts = asked.map(|message| {
            let texts: Vec<&str> = message.content.iter().filter_map(Block::as_text).collect();
            texts.join("\n")
        });
        // What cannot be shown as it is would come back as something else.
        let texts = texts.filter(|text| text.len() <= CALL_BACK_BYTES_MAX && clean(text) == *text);
        self.input.remember(texts);
        Ok(())
    }

    /// Runs a turn and shows it.
    async fn turn(&mut self, id: SessionId, input: Message) -> Result<Answer, Error> {
        let (events, mut heard) = Events::channel();
        let stop = CancellationToken::new();
        let runner = self.runner.clone();
        let agent = runner.agent.name.clone();
        let turn = runner.run_turn(id, input, &events, &stop);
        tokio::pin!(turn);
        let mut question: Option<(Instant, oneshot::Sender<bool>)> = None;
        let outcome = loop {
            tokio::select! {
                biased;
                event = heard.recv() => {
                    let Some(event) = event else { continue };
                    self.voice.event(&agent, &event)?;
                    if let Event::Ask { answer, .. } = event {
                        match self.ask() {
                            Some(asked) => question = Some((asked, answer)),
                            // A turn that was stopped meanwhile does not hear it.
                            None => drop(answer.send(false)),
                        }
                    }
                }
                told = self.signals.next() => {
                    self.told |= told;
                    stop.cancel();
                }
                line = self.input.next_since(since(&question)), if question.is_some() => {
                    let yes = matches!(line, Some(Line::Text(text)) if is_yes(&text));
                    if let Some((_, answer)) = question.take() {
                        // A turn that was stopped meanwhile does not hear it.
                        answer.send(yes).ok();
                    }
                }
                outcome = &mut turn => break outcome,
            }
        };
        while let Ok(event) = heard.try_recv() {
            self.voice.event(&agent, &event)?;
        }
        let limit = outcome.as_ref().is_ok_and(|answer| answer.end == End::RoundLimit);
        if limit {
            self.voice
                .answer(&agent, &format!("\n\n{}", rethread_agent::limits::ROUND_LIMIT_MARK))?;
        }
        self.voice.close()?;
        Ok(outcome?)
    }

    /// Suggests `compact` when the window fills.
    fn watch_the_window(&mut self, answer: &Answer) {
        self.fullness = answer.fullness;
        let suggest = self.desk.config.is_on("compact.suggest") && !self.suggested;
        if self.fullness >= SUGGEST_AT && suggest {
            self.suggested = true;
            self.voice.notice(format_args!(
                "The conversation fills {} % of the model's window: `compact` makes room, and `/undo` takes it back.",
                self.fullness
            ));
        }
    }

    /// Tells an error; the chat goes on.
    fn tell(&self, error: &Error) {
        let _code: ExitCode = errors::tell(error, self.desk.global.json);
    }
}

/// The newest session of this folder. Programs that share a directory of files know no folders:
/// there it is the newest of all, where it is theirs.
fn newest(desk: &Desk) -> Result<Option<Session>, Error> {
    let filter = Filter { workspace: Some(desk.workspace()?), ..Sessions::default_filter() };
    let here = desk.sessions.list(&filter, None, 1)?.sessions.pop();
    if here.is_some() || !desk.config.text("store").starts_with("files:") {
        return Ok(here);
    }
    let newest = desk.sessions.list(&Sessions::default_filter(), None, 1)?.sessions.pop();
    Ok(newest.filter(|session| session.header.profile.workspace.is_none()))
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

/// When the question was asked.
fn since(question: &Option<(Instant, oneshot::Sender<bool>)>) -> Instant {
    question.as_ref().map_or_else(Instant::now, |(asked, _)| *asked)
}

fn is_no(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "n" | "no")
}

fn is_yes(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "y" | "yes")
}
