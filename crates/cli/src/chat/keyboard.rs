//! What someone types at a terminal, and the line editor for it.
//!
//! The terminal belongs to the editor only while the chat waits for the next message. While a turn is
//! watched, keys are read one by one and not echoed; Ctrl-C is a signal all the same. Otherwise the
//! terminal is as every program has it, and lines that are typed ahead are read as they are. One thread
//! does all of it, so no key is taken by one that was meant for the other.

use std::cell::Cell;
use std::io::{IsTerminal, Read, Write, stdout};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Context, Event, EventContext, EventHandler, Helper,
    KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::input::Line;
use super::keys::{Key, Keys};
use super::words::NAMES;

/// The prompt, plain and in colour.
const PROMPT: (&str, &str) = ("You: ", "\x1b[1;32mYou:\x1b[0m ");

/// What was said before and can be called back.
const PAST_LINES: usize = 500;

/// Tells the terminal to mark no longer what is pasted.
const NO_PASTE_MARKS: &[u8] = b"\x1b[?2004l";

/// Ends a frame that was being drawn, and reports of whether the window is looked at.
const NO_FRAME_NO_FOCUS: &[u8] = b"\x1b[?2026l\x1b[?1004l";

/// How long the thread is waited for at a time while it reads what has been typed.
const SETTLE: Duration = Duration::from_millis(20);

/// How long nothing has to come until what came with bytes that are no text is over.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long what follows an escape character may take. A terminal sends a sequence at once; the
/// network may part it, and a person who presses Esc does not notice this.
const ESCAPE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What a terminal sends behind what is pasted.
const PASTE_END: &[u8] = b"\x1b[201~";

/// The chat's end of the keyboard.
pub(super) struct Keyboard {
    shared: Arc<Shared>,
    wake: UnixStream,
    /// The terminal as it was.
    before: Termios,
    edits: bool,
    given_back: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Default)]
struct State {
    /// A line is to be edited.
    wanted: bool,
    /// One is being edited.
    editing: bool,
    /// What has been typed is to be read.
    settle: bool,
    /// Keys are to be read one by one.
    watch: bool,
    /// Nobody is there to read or to be read for.
    over: bool,
    /// What else can be called back.
    past: Vec<String>,
    /// The line that was left, and how.
    left: Option<(String, Line)>,
    /// What the next line begins with.
    begun: String,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Lines = Sender<(Instant, Line)>;

impl Keyboard {
    /// Starts reading the terminal; lines go to `lines`. With `edits` they can be edited. Nothing
    /// without a terminal.
    pub(super) fn start(lines: &Lines, edits: bool) -> Option<Keyboard> {
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        let (wake, woken) = UnixStream::pair().ok()?;
        let shared = Arc::<Shared>::default();
        let editor = match edits && stdout().is_terminal() {
            true => line_editor(&shared).ok(),
            false => None,
        };
        let edits = editor.is_some();
        let reader = Reader {
            shared: shared.clone(),
            woken,
            lines: lines.clone(),
            part: Vec::new(),
            keys: Keys::default(),
            watching: None,
            editor,
        };
        std::thread::spawn(move || reader.run());
        if edits {
            keep_quiet_about_rows();
        }
        Some(Keyboard { shared, wake, before, edits, given_back: false })
    }

    /// Whether lines are edited.
    pub(super) fn edits(&self) -> bool {
        self.edits
    }

    /// Asks for a line with the editor and its prompt, unless `ready` says that there is one
    /// already. Whether it is being asked for.
    pub(super) fn ask(&mut self, ready: impl FnOnce() -> bool) -> bool {
        let mut state = self.shared.state();
        if !self.edits {
            return false;
        }
        if !state.wanted && !state.editing {
            // The thread sends lines with the lock in its hands, so none slips in between.
            if ready() {
                return false;
            }
            state.wanted = true;
            drop(state);
            self.wake();
        }
        true
    }

    fn wake(&mut self) {
        // Where the thread is gone there are no more lines, which is told in another way.
        self.wake.write_all(b".").ok();
    }

    /// Wants all that has been typed to be read: what comes later was typed later.
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

    /// Has keys read one by one from now on; or, once all that has been typed is read (see
    /// [`Keyboard::is_settled`]), no longer.
    pub(super) fn watch(&mut self, on: bool) {
        self.shared.state().watch = on;
        match on {
            true => self.wake(),
            false => self.begin_to_settle(),
        }
    }

    /// The next line that is edited begins with this.
    pub(super) fn begin_with(&self, text: &str) {
        self.shared.state().begun.push_str(text);
    }

    /// Lets something be called back.
    pub(super) fn remember(&self, past: impl IntoIterator<Item = String>) {
        self.shared.state().past.extend(past);
    }

    /// Ends the editing of lines, and gives the terminal back as it was.
    pub(super) fn give_back(&mut self) {
        let mut state = self.shared.state();
        state.over = true;
        let (again, edited, watched) = (self.given_back, state.editing, state.watch);
        self.given_back |= state.editing || state.watch;
        drop(state);
        if self.given_back {
            let line: &[u8] = if again || !edited { b"" } else { b"\n" };
            let quiet: &[u8] = if watched { NO_FRAME_NO_FOCUS } else { b"" };
            // The terminal may be gone.
            stdout()
                .write_all(&[quiet, NO_PASTE_MARKS, line].concat())
                .and_then(|()| stdout().flush())
                .ok();
            tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before).ok();
        }
    }
}

impl Drop for Keyboard {
    /// Once more: the editor may just have been taking the terminal.
    fn drop(&mut self) {
        self.give_back();
    }
}

thread_local! {
    /// The editor is at work on this thread.
    static EDITING: Cell<bool> = const { Cell::new(false) };
}

/// A panic of the editor is caught and told in words; what Rust would print of it helps nobody.
fn keep_quiet_about_rows() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !EDITING.get() {
            others(panic);
        }
    }));
}

type LineEditor = rustyline::Editor<Commands, MemHistory>;

fn line_editor(shared: &Arc<Shared>) -> rustyline::Result<LineEditor> {
    let config = Config::builder().max_history_size(PAST_LINES)?.auto_add_history(true).build();
    let history = MemHistory::with_config(&config);
    let mut editor = LineEditor::with_history(config, history)?;
    editor.set_helper(Some(Commands));
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    for (key, line) in [('z', Line::Suspend), ('o', Line::OpenPager)] {
        let leave = EventHandler::Conditional(Box::new(Leave(shared.clone(), line)));
        editor.bind_sequence(KeyEvent::ctrl(key), leave);
    }
    Ok(editor)
}

/// Ctrl-Z and Ctrl-O: the line is put away until the chat has stopped itself, or the pager is closed.
struct Leave(Arc<Shared>, Line);

impl ConditionalEventHandler for Leave {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        self.0.state().left = Some((at.line().to_owned(), self.1.clone()));
        Some(Cmd::Interrupt)
    }
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
    /// The terminal as it was before that, and as it is meanwhile.
    watching: Option<(Termios, Termios)>,
    editor: Option<LineEditor>,
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
        let undecided = self.watching.is_some() && self.keys.is_undecided();
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
            [PollFd::new(&keys, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
        match poll(&mut ready, longest) {
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(error) => self.failed(error.to_string()),
            Ok(_) => {
                let [typed, asked] = ready.map(|fd| !fd.revents().is_empty());
                Ok((typed, asked))
            }
        }
    }

    /// The chat wants all that was typed, or a line that is edited.
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
        self.change_mode()?;
        let mut state = self.shared.state();
        let past = std::mem::take(&mut state.past);
        let wanted = std::mem::take(&mut state.wanted) && !state.over;
        state.editing = wanted;
        drop(state);
        let Some(editor) = &mut self.editor else { return Ok(()) };
        for line in past {
            // It keeps what it can.
            editor.add_history_entry(line).ok();
        }
        if wanted { self.edit() } else { Ok(()) }
    }

    /// Has the terminal give keys one by one, or lines, as it is wanted.
    fn change_mode(&mut self) -> Result<(), Over> {
        let state = self.shared.state();
        let watch = state.watch && !state.over;
        drop(state);
        let keyboard = rustix::stdio::stdin();
        match (&self.watching, watch) {
            (None, true) => {
                let Ok(before) = tcgetattr(keyboard) else { return Ok(()) };
                let mut keys = before.clone();
                // Ctrl-C stays a signal; before Ctrl-Z stops the program the screen is tidied up.
                keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
                keys.special_codes[SpecialCodeIndex::VMIN] = 1;
                keys.special_codes[SpecialCodeIndex::VTIME] = 0;
                keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
                keys.special_codes[SpecialCodeIndex::VQUIT] = 0;
                tcsetattr(keyboard, OptionalActions::Now, &keys).ok();
                self.watching = Some((before, keys));
                let part = std::mem::take(&mut self.part);
                let keys = self.keys.push(&part);
                self.send_keys(keys)?;
            }
            (Some((before, _)), false) => {
                tcsetattr(keyboard, OptionalActions::Now, before).ok();
                self.watching = None;
                let keys = self.keys.decide();
                self.send_keys(keys)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn send_keys(&self, keys: Vec<Key>) -> Result<(), Over> {
        keys.into_iter().try_for_each(|key| self.send(Line::Key(key)))
    }

    fn edit(&mut self) -> Result<(), Over> {
        let begun = std::mem::take(&mut self.shared.state().begun);
        let Some(editor) = &mut self.editor else { return Ok(()) };
        let begun = begun + &String::from_utf8_lossy(&std::mem::take(&mut self.part));
        // It counts rows in 16 bits, and panics beyond.
        EDITING.set(true);
        let read = || editor.readline_with_initial(&PROMPT, (&begun, ""));
        let read = catch_unwind(AssertUnwindSafe(read));
        EDITING.set(false);
        let mut state = self.shared.state();
        state.editing = false;
        let left = state.left.take();
        drop(state);
        let line = match (read, left) {
            (Err(_), _) => {
                self.editor = line_editor(&self.shared).ok();
                Line::TooManyRows
            }
            (Ok(Err(ReadlineError::Interrupted)), Some((left, how))) => {
                self.shared.state().begun = left;
                how
            }
            (Ok(Err(ReadlineError::Interrupted)), None) => Line::Interrupted,
            (Ok(Ok(text)), _) => Line::Edited(text),
            (Ok(Err(ReadlineError::Eof)), _) => return Err(Over),
            (Ok(Err(ReadlineError::Io(error))), _)
                if error.kind() == std::io::ErrorKind::InvalidData =>
            {
                self.skip()?;
                Line::NotText
            }
            (Ok(Err(error)), _) => return self.failed(error.to_string()),
        };
        self.send(line)
    }

    /// Throws away what came with bytes that are no text: the rest of what was pasted is no keys.
    fn skip(&mut self) -> Result<(), Over> {
        let keys = rustix::stdio::stdin();
        let Ok(before) = tcgetattr(keys) else { return Ok(()) };
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(keys, OptionalActions::Now, &raw).ok();
        let mut last = Vec::new();
        let mut bytes = [0; 4_096];
        while !last.ends_with(PASTE_END) && self.wait(Some(&QUIET))?.0 {
            match rustix::io::read(keys, &mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(read) => last.extend_from_slice(&bytes[..read]),
            }
            last.drain(..last.len().saturating_sub(PASTE_END.len()));
        }
        tcsetattr(keys, OptionalActions::Now, &before).ok();
        Ok(())
    }

    /// Lines that were typed while nobody asked for one. A terminal gives one at a time, and all at
    /// once what the editor did not take.
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
        if self.watching.is_some() {
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
        let mut state = self.shared.state();
        // Whoever asked for a line has one.
        state.wanted = false;
        match self.lines.try_send((Instant::now(), line)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(line)) => {
                drop(state);
                self.lines.blocking_send(line).map_err(|_| Over)
            }
            Err(TrySendError::Closed(_)) => Err(Over),
        }
    }
}

fn line(bytes: Vec<u8>) -> Line {
    String::from_utf8(bytes).map_or(Line::NotText, Line::Text)
}

/// What the tab key completes: the commands of the chat.
struct Commands;

impl Completer for Commands {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line[..position].strip_prefix('/');
        let found = begun.into_iter().flat_map(|begun| {
            NAMES.iter().filter(move |name| name.starts_with(begun)).map(|name| format!("/{name} "))
        });
        Ok((0, found.collect()))
    }
}

impl Hinter for Commands {
    type Hint = String;
}

impl Highlighter for Commands {}

impl Validator for Commands {}

impl Helper for Commands {}
