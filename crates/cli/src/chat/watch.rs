//! Shows a turn at a terminal: events, keys, the clock and the window, in one loop.
//!
//! `turn_view` decides what is shown, `screen` draws it, `keyboard` reads the keys. This module
//! connects them: Esc and Ctrl-C stop the turn, Ctrl-O opens the pager, a question is answered, and
//! text typed in the meantime is kept for the next prompt.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rethread_agent::host::StartedTurn;
use rethread_agent::{Event, PermissionAnswer, PermissionRequest, TurnAnswer, TurnError};
use rethread_render::terminal::wrap_line;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::buffer::Buffer;
use super::keys::Key;
use super::notify;
use super::output::{Look, print};
use super::pager::{Pager, Paging};
use super::paint::Paint;
use super::permission_prompt::{PermissionPrompt, PromptAnswer};
use super::questions::asked_in;
use super::screen::Screen;
use super::turn_view::{CallRecord, TurnView, happening};
use super::typed_ahead::TypedAhead;
use super::{Chat, UNANSWERABLE, suspend};
use crate::errors::Error;
use crate::out::{one_line, wrapped};

/// How often the clock is read. The screen is drawn only if something has changed.
const TICK: Duration = Duration::from_millis(250);

/// The shortest interval between two draws: more cannot be seen, and each time the open block is
/// rendered again.
const FRAME: Duration = Duration::from_millis(33);

/// The share of the window that the open block gets at most: a third. Where the window becomes half as
/// wide, a terminal makes two rows of each, and they are still in the window, to be drawn again; what
/// has scrolled away cannot be.
const OPEN_SHARE: usize = 3;

/// Rows it gets in a low window, all the same.
const OPEN_ROWS_MIN: usize = 4;

/// A turn that is watched.
struct Watch {
    view: TurnView,
    screen: Screen,
    paint: Paint,
    typed: TypedAhead,
    question: Option<Question>,
    /// Queued questions, and whether a subagent asks.
    questions: VecDeque<(PermissionRequest, bool)>,
    pager: Option<Pager>,
    /// Finished lines that are not on the screen yet.
    done: String,
    /// The user stopped it.
    stopped: bool,
}

/// What Esc does while something is waited for that is not a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnEscape {
    /// It is stopped. What is typed meanwhile is for the next prompt.
    Stops,
    /// It is skipped, on the way out. There is no next prompt, so what is typed is not shown.
    Skips,
}

impl OnEscape {
    fn text(self) -> &'static str {
        match self {
            OnEscape::Stops => " · Esc stops",
            OnEscape::Skips => " · Esc skips it",
        }
    }
}

/// A question that is on the screen.
struct Question {
    /// What was typed before this moment is not an answer.
    asked: Instant,
    prompt: PermissionPrompt,
    answer: String,
}

impl Chat {
    /// Shows a turn until it is over.
    pub(super) async fn watch_turn(
        &mut self,
        agent: &str,
        started: StartedTurn,
        mut receiver: Receiver<Event>,
    ) -> Result<Result<TurnAnswer, TurnError>, Error> {
        let (style, began) = (self.voice.style(), Instant::now());
        let model = self.runner.responder.model.name.clone();
        let mut watch = Watch {
            paint: Paint::of(&style),
            view: TurnView::new(agent, &model, style, began),
            screen: Screen::new(),
            typed: TypedAhead::default(),
            question: None,
            questions: VecDeque::new(),
            pager: None,
            done: String::new(),
            stopped: false,
        };
        self.input.watch();
        let shown = self.follow_watched(&mut watch, &mut receiver, &started.stop).await;
        if shown.is_err() {
            // Nobody reads any more.
            started.stop.cancel();
        }
        drop(receiver);
        let outcome = started.ended().await.outcome;
        let took = began.elapsed();
        let closed = match shown {
            Ok(()) => self.until_pager_closes(&mut watch).await,
            Err(_) => watch.close_pager(),
        };
        if let Some(limit) = outcome.as_ref().ok().and_then(|answer| answer.limit.as_ref()) {
            let mark = Event::Text(format!("\n\n{}", limit.notice()));
            watch.done += &watch.view.event(&mark, Instant::now());
        }
        watch.screen.settled().await;
        watch.view.resize(watch.screen.columns);
        watch.done += &watch.view.finish(Instant::now());
        let ended = watch.screen.end(&watch.done);
        self.input.end_watch(watch.typed, watch.stopped);
        shown?;
        closed?;
        ended?;
        if let Some(sequence) = notify::notification(self.focused, took) {
            print(&sequence)?;
        }
        Ok(outcome)
    }

    /// A turn may end while someone reads one of its results: the pager stays open.
    async fn until_pager_closes(&mut self, watch: &mut Watch) -> Result<(), Error> {
        let nothing_to_stop = CancellationToken::new();
        while watch.pager.is_some() {
            watch.draw()?;
            tokio::select! {
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    watch.close_pager()?;
                }
                _ = self.window_change.recv() => watch.resize(),
                key = self.input.next_key() => match key {
                    Some((at, key)) => self.watched_key(watch, at, &key, &nothing_to_stop)?,
                    None => watch.close_pager()?,
                },
            }
        }
        Ok(())
    }

    async fn follow_watched(
        &mut self,
        watch: &mut Watch,
        receiver: &mut Receiver<Event>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut clock = tokio::time::interval(TICK);
        let mut drawn: Option<Instant> = None;
        let (mut keys_end, mut is_due) = (false, true);
        loop {
            let wait = drawn.map_or(Duration::ZERO, |at| FRAME.saturating_sub(at.elapsed()));
            let wait = wait.max(watch.screen.settles_in());
            tokio::select! {
                biased;
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    if watch.pager.is_some() && !terminated {
                        watch.close_pager()?;
                    } else {
                        watch.stop(stop);
                    }
                }
                _ = self.window_change.recv() => watch.resize(),
                key = self.input.next_key(), if !keys_end => match key {
                    Some((at, key)) => self.watched_key(watch, at, &key, stop)?,
                    None => keys_end = true,
                },
                () = tokio::time::sleep(wait), if is_due => {}
                // What comes while the window is changing is rendered for the size it gets.
                event = receiver.recv(), if watch.screen.settles_in().is_zero() => {
                    let Some(event) = event else { return Ok(()) };
                    self.watched_event(watch, event)?;
                    // What came with it is shown with it.
                    while let Ok(event) = receiver.try_recv() {
                        self.watched_event(watch, event)?;
                    }
                }
                _ = clock.tick() => {}
            }
            watch.resize();
            is_due = drawn.is_some_and(|at| at.elapsed() < FRAME)
                || !watch.screen.settles_in().is_zero();
            if !is_due {
                watch.draw()?;
                drawn = Some(Instant::now());
            }
        }
    }

    fn watched_event(&mut self, watch: &mut Watch, event: Event) -> Result<(), Error> {
        watch.done += &watch.view.event(&event, Instant::now());
        if let Event::Usage(usage) = &event {
            self.last_usage = Some(*usage);
        }
        if let Some(asked) = asked_in(event) {
            watch.questions.push_back(asked);
        }
        self.ask_next(watch)
    }

    /// Shows the next question, unless one is on the screen.
    fn ask_next(&mut self, watch: &mut Watch) -> Result<(), Error> {
        while watch.question.is_none() {
            let Some((request, by_subagent)) = watch.questions.pop_front() else { return Ok(()) };
            let mut prompt = PermissionPrompt::new(request, by_subagent);
            watch.close_pager()?;
            watch.done += &watch.view.ask(&mut prompt, watch.screen.rows, Instant::now());
            watch.draw()?;
            // What was typed until now is read, so that it cannot be taken for an answer.
            self.voice.drain();
            if !self.input.settle() {
                watch.done += &format!("{UNANSWERABLE}\n");
                prompt.answer(PermissionAnswer::No);
                continue;
            }
            let (asked, answer) = (Instant::now(), String::new());
            watch.question = Some(Question { asked, prompt, answer });
            watch.draw()?;
        }
        Ok(())
    }

    fn watched_key(
        &mut self,
        watch: &mut Watch,
        at: Instant,
        key: &Key,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        if self.take_report(key) {
            return Ok(());
        }
        if *key == Key::Suspend {
            self.suspend(&mut watch.screen);
            watch.view.resize(watch.screen.columns);
            return Ok(());
        }
        if let Some(pager) = &mut watch.pager {
            return match pager.key(key) {
                Paging::Goes => Ok(()),
                Paging::Over => watch.close_pager(),
            };
        }
        match (key, &mut watch.question) {
            (Key::Escape | Key::Interrupt, _) => watch.stop(stop),
            (Key::Open, _) => watch.open_pager()?,
            (Key::Enter, Some(question)) if at > question.asked => {
                watch.answer()?;
                self.ask_next(watch)?;
            }
            (key, Some(question)) if at > question.asked => {
                let part = Buffer::of(&question.answer);
                let mut line = TypedAhead { part, lines: Vec::new() };
                line.key(key);
                question.answer = line.part.text();
            }
            (key, _) => drop(watch.typed.key(key)),
        }
        Ok(())
    }

    /// Waits for something that is not a turn, unless the user stops it. `notes` are shown in the
    /// meantime; if the screen allows it, so is a progress line.
    pub(super) async fn busy<T>(
        &mut self,
        what: &str,
        notes: &mut Receiver<String>,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, Error> {
        self.busy_until(what, OnEscape::Stops, notes, work).await
    }

    /// The same with something else that Esc does.
    pub(super) async fn busy_until<T>(
        &mut self,
        what: &str,
        on_escape: OnEscape,
        notes: &mut Receiver<String>,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, Error> {
        tokio::pin!(work);
        let began = Instant::now();
        let is_rich = self.voice.look == Look::Rich && self.input.edits();
        let paint = Paint::of(&self.voice.style());
        let (mut screen, mut typed) = (Screen::new(), TypedAhead::default());
        let mut clock = tokio::time::interval(TICK);
        let mut keys_end = !is_rich;
        let mut done = String::new();
        if is_rich {
            self.input.watch();
        }
        let outcome = loop {
            let mut note = String::new();
            tokio::select! {
                biased;
                Some(text) = notes.recv() => note = text,
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    break None;
                }
                _ = self.window_change.recv(), if is_rich => {}
                key = self.input.next_key(), if !keys_end => match key {
                    Some((_, Key::Escape | Key::Interrupt)) => break None,
                    Some((_, Key::Suspend)) => self.suspend(&mut screen),
                    Some((_, key)) if self.take_report(&key) => {}
                    Some((_, key)) => drop(typed.key(&key)),
                    None => keys_end = true,
                },
                done = &mut work => break Some(done),
                _ = clock.tick() => {}
            }
            if is_rich {
                if !note.is_empty() {
                    done += &wrapped(&note, screen.columns);
                }
                let stop = on_escape.text();
                let line = happening(what, began.elapsed(), stop, screen.columns, paint);
                let typed = match on_escape {
                    OnEscape::Stops => typed.shown(screen.columns, paint),
                    OnEscape::Skips => Vec::new(),
                };
                screen.draw_if_settled(&mut done, std::iter::once(line).chain(typed).collect())?;
            } else if !note.is_empty() {
                self.voice.notice(note);
            }
        };
        let rest: Vec<String> = std::iter::from_fn(|| notes.try_recv().ok()).collect();
        if is_rich {
            screen.settled().await;
            screen.end(&done)?;
            self.input.end_watch(typed, outcome.is_none());
        }
        rest.iter().for_each(|note| self.voice.notice(note));
        Ok(outcome)
    }

    /// Suspends the program, with the terminal restored.
    pub(super) fn suspend(&mut self, screen: &mut Screen) {
        let stopped = screen.aside(|| self.input.aside(suspend::stop));
        if matches!(stopped, Ok(false)) {
            self.voice.notice("(not suspended: there is no shell to return to)");
        }
    }

    /// Shows the calls of the last turn in the pager, at the prompt.
    pub(super) async fn page(&mut self, records: Vec<CallRecord>) -> Result<(), Error> {
        let mut screen = Screen::new();
        let paint = Paint::of(&self.voice.style());
        let Some(mut pager) = Pager::open(records, screen.columns, screen.rows, paint) else {
            self.voice.notice("No tool was called in the last turn.");
            return Ok(());
        };
        self.input.watch();
        screen.show_other(true)?;
        loop {
            screen.draw_other(&pager.draw())?;
            tokio::select! {
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    break;
                }
                _ = self.window_change.recv() => {
                    screen.resized();
                    pager.resize(screen.columns, screen.rows);
                }
                key = self.input.next_key() => match key {
                    Some((_, Key::Suspend)) => self.suspend(&mut screen),
                    Some((_, Key::Interrupt)) | None => break,
                    Some((_, key)) if self.take_report(&key) => {}
                    Some((_, key)) if pager.key(&key) == Paging::Goes => {}
                    _ => break,
                },
            }
        }
        Ok(screen.show_other(false)?)
    }
}

impl Watch {
    fn stop(&mut self, stop: &CancellationToken) {
        self.stopped = true;
        self.view.stopping(Instant::now());
        if let Some(question) = self.question.take() {
            self.done += &format!("{}\n", question.prompt.question());
            question.prompt.answer(PermissionAnswer::No);
        }
        // A request that is dropped is declined.
        self.questions.clear();
        stop.cancel();
    }

    /// Interprets typed text as an answer to the question, or repeats the question.
    fn answer(&mut self) -> Result<(), Error> {
        let columns = self.screen.columns;
        let Some(question) = &mut self.question else { return Ok(()) };
        let typed = std::mem::take(&mut question.answer);
        let line = format!("{}{}", question.prompt.question(), one_line(&typed));
        self.done += &wrapped(&line, columns);
        match question.prompt.read_line(&typed) {
            PromptAnswer::Answer(answer) => {
                let Some(Question { prompt, .. }) = self.question.take() else { return Ok(()) };
                // The time a user needs to answer is not counted.
                self.view.restart(&prompt.call().id, Instant::now());
                prompt.answer(answer);
            }
            PromptAnswer::ShowAll => self.open_pager()?,
            PromptAnswer::Instead => {}
            PromptAnswer::Again(why) => self.done += &wrapped(&why, columns),
        }
        Ok(())
    }

    fn resize(&mut self) {
        if !self.screen.resized() {
            return;
        }
        self.view.resize(self.screen.columns);
        if let Some(pager) = &mut self.pager {
            pager.resize(self.screen.columns, self.screen.rows);
        }
    }

    fn open_pager(&mut self) -> Result<(), Error> {
        let (columns, rows) = (self.screen.columns, self.screen.rows);
        self.pager = Pager::open(self.view.records.clone(), columns, rows, self.paint);
        if self.pager.is_some() {
            self.screen.show_other(true)?;
        }
        Ok(())
    }

    fn close_pager(&mut self) -> Result<(), Error> {
        if self.pager.take().is_some() {
            self.screen.show_other(false)?;
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<(), Error> {
        // The signal that says so may be late, and a frame for another width would leave traces.
        self.resize();
        if let Some(pager) = &mut self.pager {
            pager.update(&self.view.records);
            return Ok(self.screen.draw_other(&pager.draw())?);
        }
        let live = match &self.question {
            Some(question) => {
                let line = format!("{}{}", question.prompt.question(), one_line(&question.answer));
                wrap_line(&line, self.screen.columns, 0)
            }
            None => {
                let typed = self.typed.shown(self.screen.columns, self.paint);
                // Below the open block there are a blank line and the status.
                let most = (self.screen.rows / OPEN_SHARE).max(OPEN_ROWS_MIN) + 2;
                let rows = self.screen.rows.saturating_sub(1 + typed.len());
                let mut live = self.view.live(Instant::now(), rows.min(most));
                live.extend(typed);
                live
            }
        };
        let done = std::mem::take(&mut self.done);
        Ok(self.screen.draw(&done, live)?)
    }
}
