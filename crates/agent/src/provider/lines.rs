//! Splits the bytes of a streamed reply into payloads.
//!
//! A stream arrives in pieces that end anywhere: inside a line, between CR and LF, inside a
//! character. Nothing is decoded before its line is complete. [`Lines`] is for NDJSON; [`Events`]
//! parses server-sent events on top of it. Neither does any I/O: reading from the network is in
//! `http`.

/// The longest line. A tool call is one line in some formats, and a call may write a file; nothing
/// sensible is longer.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A line is longer than [`LINE_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Lines ended by LF, CR LF or CR.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Where the first unread line begins.
    start: usize,
    /// Up to where the buffer contains no end of that line.
    searched: usize,
    /// The last line ended with CR, so an LF right after it belongs to that end.
    after_cr: bool,
}

impl Lines {
    /// Adds bytes. Complete lines should be taken out before the next call.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if the incomplete line exceeds the limit.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.len() + bytes.len() > LINE_BYTES_MAX {
            let rest = bytes.iter().position(|&byte| is_end(byte)).unwrap_or(bytes.len());
            if self.buffer.len() + rest > LINE_BYTES_MAX {
                return Err(TooLong);
            }
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The next complete line, without its end. Invalid UTF-8 becomes U+FFFD.
    pub(super) fn next(&mut self) -> Option<String> {
        if self.after_cr && self.start < self.buffer.len() {
            self.after_cr = false;
            if self.buffer[self.start] == b'\n' {
                self.start += 1;
                self.searched = self.start;
            }
        }
        let Some(offset) = self.buffer[self.searched..].iter().position(|&byte| is_end(byte))
        else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + offset;
        let line = String::from_utf8_lossy(&self.buffer[self.start..end]).into_owned();
        self.after_cr = self.buffer[end] == b'\r';
        self.start = end + 1;
        self.searched = self.start;
        Some(line)
    }

    /// The rest after the last byte: the start of a line without its end.
    pub(super) fn rest(&mut self) -> Option<String> {
        let rest = String::from_utf8_lossy(&self.buffer[self.start..]).into_owned();
        self.start = self.buffer.len();
        self.searched = self.start;
        (!rest.trim().is_empty()).then_some(rest)
    }
}

fn is_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// The payloads of server-sent events.
///
/// Names, ids and retry times of events are ignored: every payload contains its type.
#[derive(Debug, Default)]
pub(super) struct Events {
    lines: Lines,
    data: Option<String>,
    /// The first line, which may start with a byte order mark, was seen.
    begun: bool,
}

impl Events {
    /// Takes more bytes; see [`Lines::push`].
    ///
    /// # Errors
    ///
    /// [`TooLong`] if a line exceeds the longest line.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.lines.push(bytes)
    }

    /// The data of the next complete event; its lines are joined by LF.
    pub(super) fn next(&mut self) -> Option<String> {
        while let Some(line) = self.lines.next() {
            if let Some(data) = self.line(&line) {
                return Some(data);
            }
        }
        None
    }

    /// The data that arrived before the end: some servers omit the blank line after the last event.
    /// A truncated line is not data.
    pub(super) fn rest(&mut self) -> Option<String> {
        self.data.take()
    }

    fn line(&mut self, line: &str) -> Option<String> {
        let mut line = line;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.data.take();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        let mut found = Vec::new();
        for chunk in chunks {
            events.push(chunk).unwrap();
            found.extend(std::iter::from_fn(|| events.next()));
        }
        found.extend(events.rest());
        found
    }

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            lines.push(chunk).unwrap();
            found.extend(std::iter::from_fn(|| lines.next()));
        }
        found.extend(lines.rest());
        found
    }

    #[test]
    fn a_stream_means_the_same_wherever_it_is_split() {
        let text = "\u{feff}: hello\r\nevent: a\r\ndata: {\"t\":\"grün 🦀\"}\r\n\r\n\
                    id: 7\ndata:first\ndata: second\n\n\rdata: three\r\r: bye\n\ndata\n\n";
        let whole = events(&[text.as_bytes()]);
        assert_eq!(whole, ["{\"t\":\"grün 🦀\"}", "first\nsecond", "three", ""]);
        for at in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(at);
            assert_eq!(events(&[left, right]), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(events(&bytes), whole, "one byte at a time");
    }

    #[test]
    fn only_one_space_after_the_colon_is_not_data() {
        assert_eq!(events(&[b"data:  two\n\n"]), [" two"]);
    }

    #[test]
    fn an_event_without_data_is_none() {
        assert_eq!(events(&[b"event: ping\n\n: comment\n\nretry: 3\n\n"]), [""; 0]);
    }

    #[test]
    fn the_last_blank_line_may_be_missing_but_not_the_end_of_the_line() {
        assert_eq!(events(&[b"data: [DONE]\n"]), ["[DONE]"]);
        assert_eq!(events(&[b"data: a\n\ndata: {\"cut"]), ["a"]);
    }

    #[test]
    fn lines_end_with_lf_cr_lf_or_cr_in_any_piece() {
        let text = "{\"a\":\"é\"}\r\n{\"b\":2}\n\r{\"c\":3}\r{\"d\":4}";
        let whole = lines(&[text.as_bytes()]);
        assert_eq!(whole, ["{\"a\":\"é\"}", "{\"b\":2}", "", "{\"c\":3}", "{\"d\":4}"]);
        for at in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(at);
            assert_eq!(lines(&[left, right]), whole, "split at {at}");
        }
    }

    #[test]
    fn a_line_has_a_longest_length() {
        let longest = vec![b'x'; LINE_BYTES_MAX];
        let mut lines = Lines::default();
        lines.push(&longest[1..]).unwrap();
        lines.push(b"y").unwrap();
        assert_eq!(lines.push(b"z"), Err(TooLong));
        lines.push(b"\nnext\n").unwrap();
        assert_eq!(lines.next().map(|line| line.len()), Some(LINE_BYTES_MAX));
        assert_eq!(lines.next().as_deref(), Some("next"));
    }

    #[test]
    fn invalid_utf8_does_not_stop_the_stream() {
        assert_eq!(lines(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }
}
