//! Lines as they are typed, edited, or piped.

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::time::Instant;

use tokio::sync::mpsc;

use super::editor::Editor;

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
    /// Ctrl-C, in the line editor.
    Interrupted,
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
    /// The line editor, where someone types at a terminal that is good for it.
    editor: Option<Editor>,
}

/// Lines read ahead. Someone who types ahead has to be heard at once, so that it is known when
/// they typed; a pipe is read as fast as it is used.
const AHEAD: usize = 1_000;

impl Input {
    /// Starts reading standard input. With `edits`, lines are edited where the terminal is good
    /// for it.
    pub(crate) fn start(typed: bool, edits: bool) -> Input {
        let (sender, lines) = mpsc::channel(if typed { AHEAD } else { 1 });
        let editor = if typed && edits { Editor::start(&sender) } else { None };
        if editor.is_some() {
            return Input { lines, later: VecDeque::new(), editor };
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
        Input { lines, later: VecDeque::new(), editor }
    }

    /// Asks for a line with the editor and its prompt. False where there is none, or a line has
    /// been typed already.
    pub(crate) fn ask(&mut self) -> bool {
        let Input { lines, later, editor } = self;
        let ready = || !later.is_empty() || !lines.is_empty();
        editor.as_mut().is_some_and(|editor| editor.ask(ready))
    }

    /// Whether lines are edited.
    pub(crate) fn edits(&self) -> bool {
        self.editor.is_some()
    }

    /// Ends the editing of lines, and gives the terminal back as it was.
    pub(crate) fn let_go(&mut self) {
        self.editor = None;
    }

    /// Lets what was said before be called back.
    pub(crate) fn remember(&self, past: impl IntoIterator<Item = String>) {
        if let Some(editor) = &self.editor {
            editor.remember(past);
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
