//! Lines as they are typed, edited, or piped.

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::TERMINAL_LINE;
use super::keyboard::Keyboard;
use super::keys::Key;
use super::typed_ahead::TypedAhead;

/// Bytes of one line. A page of code is some kilobytes; a megabyte is a pasted log and still
/// fine; beyond this something is wrong with whoever writes.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// One line of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Text, without its end.
    Text(String),
    /// Text from the line editor: it may have several lines.
    Edited(String),
    /// Text that was typed while a turn ran.
    Ahead(String),
    /// Ctrl-C, in the line editor.
    Interrupted,
    /// Ctrl-Z, in the line editor.
    Suspend,
    /// Ctrl-O, in the line editor.
    OpenPager,
    /// A key, while keys are read one by one.
    Key(Key),
    /// More than the line editor can show.
    TooManyRows,
    /// Not text.
    NotText,
    /// More than a line may hold; it was skipped.
    TooLong,
    /// Standard input failed.
    Failed(String),
}

/// Where lines arrive. Reading waits on a thread of its own, so that signals are heard meanwhile.
pub(crate) struct Input {
    lines: mpsc::Receiver<(Instant, Line)>,
    /// Lines that were read and are for later.
    later: VecDeque<Line>,
    /// Keys that were read and are for later, and when they were pressed.
    keys: VecDeque<(Instant, Key)>,
    /// The keyboard, where someone types.
    keyboard: Option<Keyboard>,
}

/// Lines read ahead. Someone who types ahead has to be heard at once, so that it is known when
/// they typed; a pipe is read as fast as it is used.
const AHEAD: usize = 8_192;

/// How long someone may go on typing before a question counts as not answered.
const SETTLE_MAX: Duration = Duration::from_secs(2);

impl Input {
    /// Starts reading standard input. With `edits`, lines are edited where the terminal is good
    /// for it.
    pub(crate) fn start(typed: bool, edits: bool) -> Input {
        let (sender, lines) = mpsc::channel(if typed { AHEAD } else { 1 });
        let keyboard = if typed { Keyboard::start(&sender, edits) } else { None };
        if keyboard.is_some() {
            return Input { lines, later: VecDeque::new(), keys: VecDeque::new(), keyboard };
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
        Input { lines, later: VecDeque::new(), keys: VecDeque::new(), keyboard }
    }

    /// Asks for a line with the editor and its prompt. False where there is none, or a line has
    /// been typed already.
    pub(crate) fn ask(&mut self) -> bool {
        let Input { lines, later, keyboard, .. } = self;
        let ready = || !later.is_empty() || !lines.is_empty();
        keyboard.as_mut().is_some_and(|keyboard| keyboard.ask(ready))
    }

    /// Whether lines are edited.
    pub(crate) fn edits(&self) -> bool {
        self.keyboard.as_ref().is_some_and(Keyboard::edits)
    }

    /// Reads all that has been typed, so that a question which is there now is not answered by it.
    /// False where it does not end.
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

    /// Has keys read one by one from now on, where lines are edited.
    pub(crate) fn watch(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.watch(true);
        }
    }

    /// Has lines read again. What was typed meanwhile is not lost: its lines come next, and the next
    /// line that is edited begins with the rest.
    pub(crate) fn end_watch(&mut self, mut typed: TypedAhead) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.watch(false);
        }
        self.settle();
        for (_, key) in self.keys.drain(..) {
            typed.key(&key);
        }
        self.later.extend(typed.lines.into_iter().map(Line::Ahead));
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.begin_with(&typed.part);
        }
    }

    /// The next key, and when it was pressed; none when there are no more.
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

    /// Ends the editing of lines, and gives the terminal back as it was.
    pub(crate) fn give_back_terminal(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.give_back();
        }
    }

    /// Has the next line that is edited begin with this.
    pub(crate) fn begin_with(&mut self, text: &str) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.begin_with(text);
        }
    }

    /// Lets what was said before be called back.
    pub(crate) fn remember(&self, past: impl IntoIterator<Item = String>) {
        if let Some(keyboard) = &self.keyboard {
            keyboard.remember(past);
        }
    }

    /// The next line; none when there are no more.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        match self.later.pop_front() {
            Some(line) => Some(line),
            None => self.lines.recv().await.map(|(_, line)| line),
        }
    }

    /// The next line that was typed after a moment: the answer to what was asked then. What was
    /// typed before it is something else, and comes later.
    pub(crate) async fn next_since(&mut self, moment: Instant) -> Option<Line> {
        loop {
            let (typed, line) = self.lines.recv().await?;
            if typed > moment {
                return Some(line);
            }
            self.later.push_back(line);
        }
    }

    /// Gives a line back: it comes next.
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
    fn what_is_no_text_or_too_long_is_told_and_the_next_line_is_whole() {
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
