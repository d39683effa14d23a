//! Input: typed, edited or piped lines.

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::TERMINAL_LINE;
use super::buffer::{Buffer, Typed};
use super::keyboard::{Keyboard, Mode};
use super::keys::Key;
use super::past_questions::logged;
use super::suspend;
use super::typed_ahead::TypedAhead;

/// Bytes of one line. A page of code is some kilobytes; a megabyte is a pasted log and still fine;
/// beyond this something is wrong with the writer.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// One line of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Text, without its end.
    Text(String),
    /// Text that was typed while a turn ran.
    Ahead(Typed),
    /// A key, while keys are read one by one.
    Key(Key),
    /// Not text.
    NotText,
    /// Longer than the limit; it was skipped.
    TooLong,
    /// Standard input failed.
    Failed(String),
}

/// The source of lines. A separate thread reads, so that signals are handled in the meantime.
pub(crate) struct Input {
    lines: mpsc::Receiver<(Instant, Line)>,
    /// Lines that were read and are for later.
    later: VecDeque<Line>,
    /// Keys that were read and are for later, and when they were pressed.
    keys: VecDeque<(Instant, Key)>,
    /// The beginning of the next line.
    begun: Option<Buffer>,
    /// Where lines come from, for what is to be taken for a key.
    sender: mpsc::WeakSender<(Instant, Line)>,
    /// The keyboard, where someone types.
    keyboard: Option<Keyboard>,
}

/// Lines read ahead. Type-ahead has to be read at once, so that the time of typing is known; a pipe
/// is read as fast as it is used.
const AHEAD: usize = 8_192;

/// How long someone may keep typing before a question counts as not answered.
const SETTLE_MAX: Duration = Duration::from_secs(2);

impl Input {
    /// Starts reading standard input. With `edits`, lines are edited if the terminal supports it.
    pub(crate) fn start(typed: bool, edits: bool) -> Input {
        let (sender, lines) = mpsc::channel(if typed { AHEAD } else { 1 });
        let keyboard = if typed { Keyboard::start(&sender, edits) } else { None };
        let input = Input {
            lines,
            later: VecDeque::new(),
            keys: VecDeque::new(),
            begun: None,
            sender: sender.downgrade(),
            keyboard,
        };
        if input.keyboard.is_some() {
            return input;
        }
        std::thread::spawn(move || {
            let mut input = std::io::stdin().lock();
            while let Some(line) = next(&mut input) {
                let last = matches!(line, Line::Failed(_));
                if sender.blocking_send((Instant::now(), line)).is_err() || last {
                    break;
                }
            }
        });
        input
    }

    /// Whether lines are edited.
    pub(crate) fn edits(&self) -> bool {
        self.keyboard.as_ref().is_some_and(Keyboard::edits)
    }

    /// Reads everything that has been typed, so that it cannot answer a question that is shown now.
    /// False if it does not end.
    pub(crate) fn settle(&mut self) -> bool {
        let Some(keyboard) = &mut self.keyboard else { return true };
        let began = Instant::now();
        keyboard.begin_to_settle();
        loop {
            // There must be room for what the terminal still holds.
            let settled = keyboard.is_settled();
            while let Ok((at, line)) = self.lines.try_recv() {
                match line {
                    Line::Key(key) => self.keys.push_back((at, key)),
                    line => self.later.push_back(line),
                }
            }
            if settled {
                return true;
            }
            if began.elapsed() > SETTLE_MAX {
                return false;
            }
        }
    }

    /// Reads keys one by one from now on, if lines are edited. Ctrl-C is a signal.
    pub(crate) fn watch(&mut self) {
        self.set_mode(Mode::Keys);
    }

    /// The same for the prompt: Ctrl-C is a key, in order with the others.
    pub(crate) fn prompt(&mut self) {
        self.set_mode(Mode::Prompt);
    }

    /// Reads lines, as other programs do: for a question outside a turn.
    pub(crate) fn read_lines(&mut self) {
        self.set_mode(Mode::Lines);
        self.settle();
    }

    /// Leaves the terminal to another program, until it is wanted again.
    pub(crate) fn give_away(&mut self) {
        self.set_mode(Mode::Away);
        self.settle();
    }

    fn set_mode(&mut self, mode: Mode) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.set_mode(mode);
        }
    }

    /// Runs something with the terminal in its original state.
    pub(crate) fn aside<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let mode = self.keyboard.as_ref().map(Keyboard::mode);
        self.give_away();
        let done = act();
        mode.into_iter().for_each(|mode| self.set_mode(mode));
        done
    }

    /// Treats the signal of Ctrl-Z as the key.
    pub(crate) fn catch_stop_signal(&self) -> std::io::Result<()> {
        match &self.keyboard {
            Some(keyboard) if keyboard.edits() => {
                suspend::catch(keyboard.mode_watch(), self.sender.clone())
            }
            _ => Ok(()),
        }
    }

    /// Ends a period in which typed text is kept for later. It is not lost: its lines come next,
    /// and the next edited line begins with the rest. If the turn was stopped, nothing is sent by
    /// itself: the lines go back into the prompt.
    pub(crate) fn end_watch(&mut self, mut typed: TypedAhead, stopped: bool) {
        self.settle();
        for (_, key) in self.keys.drain(..) {
            typed.key(&key);
        }
        self.later.extend(typed.lines.into_iter().map(Line::Ahead));
        let mut begun = Buffer::default();
        while stopped && let Some(line) = self.next_ahead() {
            begun.append_line(Buffer::of_typed(&line));
        }
        begun.append_line(typed.part);
        if !begun.is_empty() {
            self.begun = Some(begun);
        }
    }

    /// Returns text that was typed and not sent: the next edited line begins with it.
    pub(crate) fn give_back_typed(&mut self, typed: &Typed) {
        let mut begun = Buffer::of_typed(typed);
        begun.append_line(self.begun.take().unwrap_or_default());
        self.begun = Some(begun);
    }

    /// A line that was typed ahead, if there is one.
    pub(crate) fn next_ahead(&mut self) -> Option<Typed> {
        match self.later.pop_front()? {
            Line::Ahead(typed) => Some(typed),
            Line::Text(text) => Some(Typed::by_hand(text)),
            _ => self.next_ahead(),
        }
    }

    /// What the next line begins with.
    pub(crate) fn take_begun(&mut self) -> Option<Buffer> {
        self.begun.take()
    }

    /// A key that has been pressed already.
    pub(crate) fn key_now(&mut self) -> Option<Key> {
        if let Some((_, key)) = self.keys.pop_front() {
            return Some(key);
        }
        match self.lines.try_recv().ok()? {
            (_, Line::Key(key)) => Some(key),
            (at, Line::Text(text)) => {
                self.keys.push_back((at, Key::Enter));
                Some(Key::Text(text))
            }
            (_, line) => {
                self.later.push_back(line);
                self.key_now()
            }
        }
    }

    /// The next key, and when it was pressed; `None` at the end of the input.
    pub(crate) async fn next_key(&mut self) -> Option<(Instant, Key)> {
        if let Some(key) = self.keys.pop_front() {
            return Some(key);
        }
        loop {
            match self.lines.recv().await? {
                (at, Line::Key(key)) => return Some((at, key)),
                // Typed just before keys were read one by one.
                (at, Line::Text(text)) if text.len() < TERMINAL_LINE => {
                    self.keys.push_back((at, Key::Enter));
                    return Some((at, Key::Text(text)));
                }
                (_, line) => self.later.push_back(line),
            }
        }
    }

    /// Whether someone types.
    pub(crate) fn is_typed(&self) -> bool {
        self.keyboard.is_some()
    }

    /// Stops editing lines, and restores the terminal.
    pub(crate) fn give_back_terminal(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.give_back();
        }
    }

    /// Has the next line that is edited begin with this question from a log.
    pub(crate) fn begin_with(&mut self, text: &str) {
        self.begun = Some(Buffer::of_typed(&logged(text)));
    }

    /// The next line; none when there are no more.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        match self.later.pop_front() {
            Some(line) => Some(line),
            None => self.lines.recv().await.map(|(_, line)| line),
        }
    }

    /// The next line that was typed after a point in time: the answer to a question. What was typed
    /// before is something else, and comes later.
    pub(crate) async fn next_since(&mut self, moment: Instant) -> Option<Line> {
        loop {
            let (typed, line) = self.lines.recv().await?;
            if typed > moment {
                return Some(line);
            }
            self.later.push_back(line);
        }
    }

    /// Returns a line: it comes next.
    pub(crate) fn give_back(&mut self, line: Line) {
        self.later.push_front(line);
    }
}

fn next(input: &mut impl BufRead) -> Option<Line> {
    let mut bytes = Vec::new();
    match input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes) {
        Ok(0) => return None,
        Ok(_) => {}
        Err(error) => return Some(Line::Failed(error.to_string())),
    }
    let whole = bytes.pop_if(|last| *last == b'\n').is_some();
    if !whole && bytes.len() as u64 > LINE_BYTES_MAX {
        return Some(match skip(input) {
            Ok(()) => Line::TooLong,
            Err(error) => Line::Failed(error.to_string()),
        });
    }
    bytes.pop_if(|last| *last == b'\r');
    Some(String::from_utf8(bytes).map_or(Line::NotText, Line::Text))
}

/// Reads to the end of the line and forgets it.
fn skip(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), false),
        };
        input.consume(used);
        if ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut input: &[u8]) -> Vec<Line> {
        std::iter::from_fn(|| next(&mut input)).collect()
    }

    #[test]
    fn lines_end_with_a_newline_a_return_or_the_input() {
        let text = |text: &str| Line::Text(text.into());
        assert_eq!(all(b"one\r\ntwo\n\nlast"), [text("one"), text("two"), text(""), text("last")]);
        assert!(all(b"").is_empty());
    }

    #[test]
    fn a_line_that_is_not_text_or_too_long_is_reported_and_the_next_line_is_whole() {
        let text = |text: &str| Line::Text(text.into());
        assert_eq!(all(b"\xff\xfe\nfine\n"), [Line::NotText, text("fine")]);
        let mut long = vec![b'x'; LINE_BYTES_MAX as usize];
        long.extend(b"\nfine\n");
        assert!(matches!(all(&long).as_slice(), [Line::Text(long), Line::Text(fine)]
            if long.len() as u64 == LINE_BYTES_MAX && fine == "fine"));
        long.insert(0, b'x');
        assert_eq!(all(&long), [Line::TooLong, text("fine")]);
    }
}
