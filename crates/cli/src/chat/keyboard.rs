//! Reads the terminal: lines, or keys.
//!
//! At the prompt and while a turn is watched, keys are read one by one and not echoed. Otherwise
//! the terminal is in its normal mode, and lines are read. One thread does all of it, so that every
//! key goes to the right reader; only this thread changes the mode of the terminal.

use std::io::{Read, Write, stdout};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::input::Line;
use super::keys::{Key, Keys};

/// How long to wait for the thread at a time while it reads what has been typed.
const SETTLE: Duration = Duration::from_millis(20);

/// How long to wait for a change to keys. It is quick, unless the chat reads too slowly.
const MODE_WAIT: Duration = Duration::from_secs(1);

/// How long the rest of an escape sequence may take. A terminal sends a sequence at once; the
/// network may split it, and a person who presses Esc does not notice the delay.
const ESCAPE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Switches on bracketed paste and focus reporting.
const REPORTS_ON: &[u8] = b"\x1b[?2004h\x1b[?1004h";

/// No longer, and ends a frame that was being drawn.
const REPORTS_OFF: &[u8] = b"\x1b[?7h\x1b[?2026l\x1b[?1004l\x1b[?2004l";

/// How the terminal is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Line by line, in the terminal's normal mode.
    #[default]
    Lines,
    /// Key by key. Ctrl-C is a signal, which is handled even while the program is busy.
    Keys,
    /// Key by key. Ctrl-C is a key like others, in order with them.
    Prompt,
    /// Not at all: another program has the terminal.
    Away,
}

impl Mode {
    /// Whether keys are read one by one.
    fn is_by_key(self) -> bool {
        matches!(self, Mode::Keys | Mode::Prompt)
    }
}

/// The chat's end of the keyboard.
pub(super) struct Keyboard {
    shared: Arc<Shared>,
    wake: UnixStream,
    /// The terminal as it was.
    before: Termios,
    edits: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Default)]
struct State {
    /// How the terminal is to be read.
    mode: Mode,
    /// What has been typed is to be read, and the mode to be as it is wanted.
    settle: bool,
    /// Nobody is there to read or to be read for.
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Lines = Sender<(Instant, Line)>;

impl Keyboard {
    /// Starts reading the terminal; lines and keys go to `lines`. With `edits` keys can be read one
    /// by one. `None` without a terminal.
    pub(super) fn start(lines: &Lines, edits: bool) -> Option<Keyboard> {
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        let (wake, woken) = UnixStream::pair().ok()?;
        let shared = Arc::<Shared>::default();
        let reader = Reader {
            shared: shared.clone(),
            woken,
            lines: lines.clone(),
            part: Vec::new(),
            keys: Keys::default(),
            mode: Mode::Lines,
            before: None,
        };
        std::thread::spawn(move || reader.run());
        Some(Keyboard { shared, wake, before, edits })
    }

    /// Whether keys can be read one by one.
    pub(super) fn edits(&self) -> bool {
        self.edits
    }

    /// Changes how the terminal is read. A change to lines, or giving the terminal away, is made
    /// once everything that has been typed is read: see [`Keyboard::is_settled`].
    pub(super) fn set_mode(&mut self, mode: Mode) {
        let mut state = self.shared.state();
        if state.over || !self.edits {
            return;
        }
        let was = std::mem::replace(&mut state.mode, mode);
        drop(state);
        match (was.is_by_key(), mode.is_by_key()) {
            (false, true) => {
                // What is typed at a prompt that is on the screen is not for a line of the terminal's.
                self.begin_to_settle();
                let began = Instant::now();
                while !self.is_settled() && began.elapsed() < MODE_WAIT {}
                report(REPORTS_ON);
            }
            (true, true) => self.wake(),
            (by_key, false) => {
                if by_key {
                    report(REPORTS_OFF);
                }
                self.begin_to_settle();
            }
        }
    }

    /// How the terminal is read.
    pub(super) fn mode(&self) -> Mode {
        self.shared.state().mode
    }

    /// Whether keys are read one by one.
    pub(super) fn mode_watch(&self) -> ModeWatch {
        ModeWatch(self.shared.clone())
    }

    fn wake(&mut self) {
        // If the thread is gone there are no more lines, which is reported in another way.
        self.wake.write_all(b".").ok();
    }

    /// Requests that everything typed so far is read: what comes later was typed later.
    pub(super) fn begin_to_settle(&mut self) {
        let mut state = self.shared.state();
        state.settle = !state.over;
        drop(state);
        self.wake();
    }

    /// Waits a little for that. Whether it is done.
    pub(super) fn is_settled(&self) -> bool {
        let state = self.shared.state();
        let waits = |state: &mut State| state.settle && !state.over;
        let settled = self.shared.settled.wait_timeout_while(state, SETTLE, waits);
        settled.is_ok_and(|(_, late)| !late.timed_out())
    }

    /// Stops reading keys, and restores the terminal.
    pub(super) fn give_back(&mut self) {
        let mut state = self.shared.state();
        state.over = true;
        let by_key = std::mem::take(&mut state.mode).is_by_key();
        drop(state);
        if by_key {
            report(REPORTS_OFF);
        }
        if self.edits {
            tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before).ok();
        }
    }
}

impl Drop for Keyboard {
    /// Once more: the thread may just have been changing the terminal.
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Looks at how the terminal is read.
#[derive(Clone)]
pub(super) struct ModeWatch(Arc<Shared>);

impl ModeWatch {
    /// Whether keys are read one by one.
    pub(super) fn is_by_key(&self) -> bool {
        let state = self.0.state();
        state.mode.is_by_key() && !state.over
    }
}

/// The terminal may be gone.
fn report(bytes: &[u8]) {
    stdout().write_all(bytes).and_then(|()| stdout().flush()).ok();
}

/// The thread that reads.
struct Reader {
    shared: Arc<Shared>,
    woken: UnixStream,
    lines: Lines,
    /// The beginning of a line whose end is not typed yet.
    part: Vec<u8>,
    /// Keys that are read one by one.
    keys: Keys,
    /// How the terminal is read now.
    mode: Mode,
    /// The terminal as it was before keys were read.
    before: Option<Termios>,
}

/// There is nothing more to read, or nobody to read it for.
struct Over;

impl Reader {
    fn run(mut self) {
        while self.step().is_ok() {}
        self.shared.state().over = true;
        self.shared.settled.notify_all();
    }

    fn step(&mut self) -> Result<(), Over> {
        let undecided = self.mode.is_by_key() && self.keys.is_undecided();
        match self.wait(undecided.then_some(&ESCAPE_WAIT))? {
            (false, false) if undecided => {
                let keys = self.keys.decide();
                self.send_keys(keys)
            }
            (true, _) => self.typed(),
            (_, true) => {
                let read = self.woken.read(&mut [0]).map_err(|_| Over)?;
                // The chat is gone.
                if read == 0 { Err(Over) } else { self.asked() }
            }
            _ => Ok(()),
        }
    }

    /// Waits until something was typed, or the chat wants something.
    fn wait(&self, longest: Option<&Timespec>) -> Result<(bool, bool), Over> {
        let keys = rustix::stdio::stdin();
        let mut ready =
            [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&keys, PollFlags::IN)];
        // What is typed for another program is not ours.
        let watched = if self.mode == Mode::Away { 1 } else { 2 };
        match poll(&mut ready[..watched], longest) {
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(error) => self.failed(error.to_string()),
            Ok(_) => {
                let [asked, typed] = ready.map(|fd| !fd.revents().is_empty());
                Ok((typed, asked))
            }
        }
    }

    /// The chat wants all that was typed, or the terminal to be read in another way.
    fn asked(&mut self) -> Result<(), Over> {
        if self.shared.state().settle {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            while self.wait(Some(&now))?.0 {
                self.typed()?;
            }
            self.change_mode()?;
            self.shared.state().settle = false;
            self.shared.settled.notify_all();
        }
        self.change_mode()
    }

    /// Has the terminal give keys or lines, as it is wanted.
    fn change_mode(&mut self) -> Result<(), Over> {
        let state = self.shared.state();
        let wanted = if state.over { Mode::Lines } else { state.mode };
        drop(state);
        if wanted == self.mode {
            return Ok(());
        }
        let keyboard = rustix::stdio::stdin();
        let was = std::mem::replace(&mut self.mode, wanted);
        if !wanted.is_by_key() {
            if let Some(before) = self.before.take() {
                tcsetattr(keyboard, OptionalActions::Now, &before).ok();
            }
            // A paste that has not ended is not a line yet.
            let keys = if self.keys.is_in_paste() { Vec::new() } else { self.keys.decide() };
            return self.send_keys(keys);
        }
        let before = match self.before.take() {
            Some(before) => before,
            None => match tcgetattr(keyboard) {
                Ok(before) => before,
                Err(error) => return self.failed(error.to_string()),
            },
        };
        let mut keys = before.clone();
        // A paste has both, and Enter is one of them.
        keys.input_modes -= InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR;
        // Before Ctrl-Z stops the program the screen is tidied up.
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
        keys.special_codes[SpecialCodeIndex::VQUIT] = 0;
        if wanted == Mode::Prompt {
            keys.special_codes[SpecialCodeIndex::VINTR] = 0;
        }
        tcsetattr(keyboard, OptionalActions::Now, &keys).ok();
        self.before = Some(before);
        if was.is_by_key() {
            return Ok(());
        }
        let part = std::mem::take(&mut self.part);
        let keys = self.keys.push(&part);
        self.send_keys(keys)
    }

    fn send_keys(&self, keys: Vec<Key>) -> Result<(), Over> {
        keys.into_iter().try_for_each(|key| self.send(Line::Key(key)))
    }

    /// Reads what was typed. A terminal gives one line at a time, and all at once what was typed while
    /// keys were read.
    fn typed(&mut self) -> Result<(), Over> {
        let mut bytes = [0; 4_096];
        let read = match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return self.failed(error.to_string()),
            Ok(read) => read,
        };
        if read == 0 {
            if !self.part.is_empty() {
                let last = std::mem::take(&mut self.part);
                self.send(line(last))?;
            }
            return Err(Over);
        }
        if self.mode.is_by_key() || self.keys.is_in_paste() {
            let keys = self.keys.push(&bytes[..read]);
            return self.send_keys(keys);
        }
        for byte in &bytes[..read] {
            match byte {
                b'\n' | b'\r' => {
                    let whole = std::mem::take(&mut self.part);
                    self.send(line(whole))?;
                }
                byte => self.part.push(*byte),
            }
        }
        Ok(())
    }

    fn failed<T>(&self, what: String) -> Result<T, Over> {
        self.send(Line::Failed(what))?;
        Err(Over)
    }

    fn send(&self, line: Line) -> Result<(), Over> {
        match self.lines.try_send((Instant::now(), line)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(line)) => self.lines.blocking_send(line).map_err(|_| Over),
            Err(TrySendError::Closed(_)) => Err(Over),
        }
    }
}

fn line(bytes: Vec<u8>) -> Line {
    String::from_utf8(bytes).map_or(Line::NotText, Line::Text)
}
