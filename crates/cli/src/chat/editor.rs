//! The line editor: what someone types at a terminal can be changed, called back, and have lines.
//!
//! The terminal belongs to the editor only while the chat waits for the next message. During a turn
//! it is as every program has it: Ctrl-C is a signal, and lines that are typed ahead are read as
//! they are. One thread does both, so no key is taken by one that was meant for the other.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::{ReadlineError, Signal};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Cmd, Config, Context, Helper, KeyCode, KeyEvent, Modifiers};
use tokio::sync::mpsc::Sender;

use super::input::Line;
use super::words::NAMES;

/// The prompt, plain and in colour.
const PROMPT: (&str, &str) = ("You: ", "\x1b[1;32mYou:\x1b[0m ");

/// Terminals that cannot move their cursor.
const SIMPLE: [&str; 3] = ["dumb", "cons25", "emacs"];

/// What was said before and can be called back.
const PAST_LINES: usize = 500;

/// Tells the terminal to mark no longer what is pasted, and starts a line.
const NO_PASTE_MARKS: &[u8] = b"\x1b[?2004l\n";

/// The chat's end of the editor.
pub(super) struct Editor {
    shared: Arc<Mutex<Shared>>,
    wake: UnixStream,
    /// The terminal as it was.
    before: Termios,
}

#[derive(Default)]
struct Shared {
    /// A line is to be edited.
    wanted: bool,
    /// One is being edited.
    editing: bool,
    /// What else can be called back.
    past: Vec<String>,
}

type Lines = Sender<(Instant, Line)>;

impl Editor {
    /// Starts reading the terminal, if it is one that lines can be edited on. Lines go to `lines`.
    pub(super) fn start(lines: &Lines) -> Option<Editor> {
        let term = std::env::var("TERM").unwrap_or_default();
        let simple = SIMPLE.iter().any(|name| name.eq_ignore_ascii_case(&term));
        if simple || term.is_empty() || !stdin().is_terminal() || !stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        let (wake, woken) = UnixStream::pair().ok()?;
        let editor = line_editor().ok()?;
        let shared = Arc::<Mutex<Shared>>::default();
        let reader = Reader { shared: shared.clone(), woken, lines: lines.clone() };
        std::thread::spawn(move || reader.run(editor));
        Some(Editor { shared, wake, before })
    }

    /// Asks for a line, with a prompt, unless `ready` says that there is one already. Whether it
    /// is being asked for.
    pub(super) fn ask(&mut self, ready: impl FnOnce() -> bool) -> bool {
        let mut shared = lock(&self.shared);
        if !shared.wanted && !shared.editing {
            // The thread sends lines with the lock in its hands, so none slips in between.
            if ready() {
                return false;
            }
            shared.wanted = true;
            drop(shared);
            // Where the thread is gone there are no more lines, which is told in another way.
            self.wake.write_all(b".").ok();
        }
        true
    }

    /// Lets something be called back.
    pub(super) fn remember(&self, past: impl IntoIterator<Item = String>) {
        lock(&self.shared).past.extend(past);
    }
}

impl Drop for Editor {
    /// Gives the terminal back as it was, where the chat ends while a line is being edited.
    fn drop(&mut self) {
        if lock(&self.shared).editing {
            // The terminal may be gone.
            stdout().write_all(NO_PASTE_MARKS).and_then(|()| stdout().flush()).ok();
            tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before).ok();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

type LineEditor = rustyline::Editor<Commands, MemHistory>;

fn line_editor() -> rustyline::Result<LineEditor> {
    let config = Config::builder().max_history_size(PAST_LINES)?.auto_add_history(true).build();
    let history = MemHistory::with_config(&config);
    let mut editor = LineEditor::with_history(config, history)?;
    editor.set_helper(Some(Commands));
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    Ok(editor)
}

/// The thread that reads.
struct Reader {
    shared: Arc<Mutex<Shared>>,
    woken: UnixStream,
    lines: Lines,
}

impl Reader {
    fn run(mut self, mut editor: LineEditor) {
        while let Some(line) = self.next(&mut editor) {
            let last = matches!(line, Line::Failed(_));
            let mut shared = lock(&self.shared);
            // Whoever asked for a line has one.
            shared.wanted = false;
            // There is room for more lines than anybody types ahead.
            let sent = self.lines.try_send((Instant::now(), line));
            if sent.is_err() || last {
                return;
            }
        }
    }

    /// The next line: edited if one was asked for, else as the terminal gives it.
    fn next(&mut self, editor: &mut LineEditor) -> Option<Line> {
        loop {
            let keys = rustix::stdio::stdin();
            let mut ready =
                [PollFd::new(&keys, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Some(Line::Failed(error.to_string())),
                Ok(_) => {}
            }
            let [typed, asked] = ready.map(|fd| !fd.revents().is_empty());
            if typed {
                return self.typed();
            }
            if asked {
                let mut byte = [0];
                // The chat is gone.
                if self.woken.read(&mut byte).ok()? == 0 {
                    return None;
                }
                let mut shared = lock(&self.shared);
                let past = std::mem::take(&mut shared.past);
                shared.editing = shared.wanted;
                let wanted = std::mem::take(&mut shared.wanted);
                drop(shared);
                for line in past {
                    // It keeps what it can.
                    editor.add_history_entry(line).ok();
                }
                if wanted {
                    let line = editor.readline(&PROMPT);
                    lock(&self.shared).editing = false;
                    return edited(line);
                }
            }
        }
    }

    /// A line that was typed while nobody asked for one. A terminal gives one at a time.
    fn typed(&self) -> Option<Line> {
        let mut bytes = vec![0; 4_096];
        loop {
            return match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
                Ok(0) => None,
                Ok(read) => {
                    bytes.truncate(read);
                    bytes.pop_if(|last| *last == b'\n');
                    Some(String::from_utf8(bytes).map_or(Line::NotText, Line::Text))
                }
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => Some(Line::Failed(error.to_string())),
            };
        }
    }
}

/// What came of editing a line; nothing when there are no more.
fn edited(line: rustyline::Result<String>) -> Option<Line> {
    match line {
        Ok(text) => Some(Line::Edited(text)),
        Err(ReadlineError::Interrupted | ReadlineError::Signal(Signal::Interrupt)) => {
            Some(Line::Interrupted)
        }
        Err(ReadlineError::Eof) => None,
        Err(error) => Some(Line::Failed(error.to_string())),
    }
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
