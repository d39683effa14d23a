//! The picker in the chat: connects [`Picker`] with the terminal, the keys and the store.

use rethread_core::{Session, SessionId, sessions};
use tokio::task::JoinSet;

use super::Chat;
use super::output::{Look, print};
use super::screen::Screen;
use super::typed_ahead::TypedAhead;
use crate::errors::Error;
use crate::picker::{self, Choice, Picker, PickerAction, Surroundings, TaskResult, Verb};

/// Makes the cursor visible again.
const SHOW_CURSOR: &str = "\x1b[?25h";

impl Chat {
    /// Whether the picker can be used: it needs a terminal with keys and cursor movement.
    pub(super) fn can_pick(&self) -> bool {
        self.voice.look == Look::Rich && self.input.edits()
    }

    /// Lets the user pick a session, and acts on the choice.
    pub(super) async fn pick(&mut self) -> Result<(), Error> {
        let choice = self.choose().await?;
        self.open_choice(choice).await
    }

    /// Acts on a choice.
    pub(super) async fn open_choice(&mut self, choice: Choice) -> Result<(), Error> {
        match choice {
            Choice::Close => {}
            Choice::Open(id) => self.open_id(id).await?,
            Choice::Summary(id) => {
                if self.session.is_none() && self.agent.is_none() {
                    // Who answered before answers again.
                    self.runner = self.handle.viewer(&self.handle.sessions().get(id)?)?;
                }
                self.resume_id(id).await?;
            }
        }
        Ok(())
    }

    /// Shows the picker until something is chosen.
    pub(super) async fn choose(&mut self) -> Result<Choice, Error> {
        let mut screen = Screen::new();
        self.input.watch();
        screen.show_other(true)?;
        let chosen = self.choose_on(screen).await;
        print(SHOW_CURSOR)?;
        Screen::new().show_other(false)?;
        self.input.end_watch(TypedAhead::default(), false);
        chosen
    }

    async fn choose_on(&mut self, mut screen: Screen) -> Result<Choice, Error> {
        let around = Surroundings {
            columns: screen.columns,
            rows: screen.rows,
            style: self.voice.style(),
            home: std::env::var("HOME").unwrap_or_default(),
            now: self.cli.now(),
        };
        let mut picker = Picker::new(self.session, around);
        let mut reading: JoinSet<TaskResult> = JoinSet::new();
        loop {
            for task in picker.take_tasks() {
                let (sessions, style) = (self.handle.sessions().clone(), picker.style());
                let now = self.cli.now();
                reading.spawn_blocking(move || picker::run(&sessions, task, style, now));
            }
            let frame = picker.draw();
            screen.draw_over(&frame.lines, frame.cursor)?;
            tokio::select! {
                biased;
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    return Ok(Choice::Close);
                }
                _ = self.window_change.recv() => {
                    screen.resized();
                    picker.resize(screen.columns, screen.rows);
                }
                key = self.input.next_key() => {
                    let Some((_, key)) = key else { return Ok(Choice::Close) };
                    if self.take_report(&key) {
                        continue;
                    }
                    match picker.key(&key) {
                        PickerAction::Nothing => {}
                        PickerAction::Choice(choice) => return Ok(choice),
                        PickerAction::Do(id, verb) => match self.do_picked(id, &verb) {
                            Ok(session) => picker.done(id, &verb, &session),
                            Err(error) => picker.failed(&error.to_string()),
                        },
                        PickerAction::Suspend => {
                            print(SHOW_CURSOR)?;
                            self.suspend(&mut screen);
                            picker.resize(screen.columns, screen.rows);
                        }
                    }
                }
                Some(found) = reading.join_next() => {
                    // A read that panicked has reported it, and the list is unchanged.
                    if let Ok(found) = found {
                        picker.found(found);
                    }
                }
            }
        }
    }

    /// Applies a verb to a session that was picked; returns the changed session.
    fn do_picked(&mut self, id: SessionId, verb: &Verb) -> sessions::Result<Session> {
        let sessions = self.handle.sessions();
        Ok(match verb {
            Verb::Rename(typed) => sessions.rename_to(id, typed)?,
            Verb::Archive => sessions.archive(id)?,
            Verb::Unarchive => sessions.unarchive(id)?,
            Verb::Fork => {
                let fork = sessions::Fork { at: None, name: None, take_keys: false };
                let session = sessions.fork(id, &fork)?;
                self.handle.inherit_trust(id, session.id());
                session
            }
            Verb::Delete => {
                let deleted = self.handle.call(|sessions| sessions.trash(id))?;
                self.deleted = Some(id);
                deleted
            }
            Verb::Restore => {
                let restored = self.handle.call(|sessions| sessions.restore_from_trash(id))?;
                self.deleted = None;
                restored
            }
        })
    }
}
