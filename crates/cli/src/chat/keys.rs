//! Bytes of a terminal as keys.
//!
//! For the time in which the line editor does not read: while a turn runs, and in the pager. An escape
//! character is a key only if nothing follows it; how long to wait for that is for the reader to
//! decide, see [`Keys::is_undecided`].

/// A key, or what a terminal reports in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Text, as it was typed.
    Text(String),
    /// What was pasted, with its line feeds.
    Paste(String),
    Enter,
    Backspace,
    /// Ctrl-U.
    EraseLine,
    /// Ctrl-W.
    EraseWord,
    Escape,
    /// Ctrl-O.
    Open,
    /// Ctrl-Z.
    Suspend,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// The window got the focus, or lost it.
    Focus(bool),
}

/// What a terminal sends around what is pasted.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Bytes that are waited for at the most: a paste, like a line of input, may have this many.
const PENDING_BYTES_MAX: usize = 4 << 20;

/// Understands bytes as they come.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pending: Vec<u8>,
}

/// What the pending bytes begin with.
enum Found {
    /// A key, and its bytes.
    Key(Key, usize),
    /// Bytes that mean nothing here.
    Nothing(usize),
    /// More has to come to tell.
    Part,
}

impl Keys {
    /// The keys in these bytes, and in those that came before and were not decided.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys: Vec<Key> = Vec::new();
        let mut at = 0;
        while at < self.pending.len() {
            match first(&self.pending[at..]) {
                Found::Key(key, length) => {
                    match (keys.last_mut(), key) {
                        (Some(Key::Text(text)), Key::Text(more)) => text.push_str(&more),
                        (_, key) => keys.push(key),
                    }
                    at += length;
                }
                Found::Nothing(length) => at += length,
                Found::Part if self.pending.len() - at > PENDING_BYTES_MAX => at += 1,
                Found::Part => break,
            }
        }
        self.pending.drain(..at);
        keys
    }

    /// Whether the last bytes could be a key, or the beginning of something longer.
    pub(super) fn is_undecided(&self) -> bool {
        !self.pending.is_empty() && !self.pending.starts_with(PASTE_BEGINS)
    }

    /// Nothing more came: an escape character was the key of that name.
    pub(super) fn decide(&mut self) -> Vec<Key> {
        let pending = std::mem::take(&mut self.pending);
        match pending.as_slice() {
            [0x1b] => vec![Key::Escape],
            _ => Vec::new(),
        }
    }
}

fn first(bytes: &[u8]) -> Found {
    match bytes[0] {
        0x1b => escape(bytes),
        b'\r' | b'\n' => Found::Key(Key::Enter, 1),
        0x7f | 0x08 => Found::Key(Key::Backspace, 1),
        0x15 => Found::Key(Key::EraseLine, 1),
        0x17 => Found::Key(Key::EraseWord, 1),
        0x0f => Found::Key(Key::Open, 1),
        0x1a => Found::Key(Key::Suspend, 1),
        b'\t' => Found::Key(Key::Text("\t".into()), 1),
        0..0x20 => Found::Nothing(1),
        _ => text(bytes),
    }
}

/// Text up to the next control character. What is not UTF-8 becomes the character that says so.
fn text(bytes: &[u8]) -> Found {
    let end = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => Found::Key(Key::Text(text.to_owned()), end),
        Err(error) if error.valid_up_to() > 0 => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            Found::Key(Key::Text(valid.into_owned()), error.valid_up_to())
        }
        Err(error) => match error.error_len() {
            Some(length) => Found::Key(Key::Text('\u{fffd}'.into()), length),
            // A character whose other bytes are still on their way.
            None if end == bytes.len() => Found::Part,
            None => Found::Key(Key::Text('\u{fffd}'.into()), end),
        },
    }
}

fn escape(bytes: &[u8]) -> Found {
    match bytes.get(1) {
        None => Found::Part,
        Some(b'[') => control_sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Found::Part,
            Some(last) => arrow(*last).map_or(Found::Nothing(3), |key| Found::Key(key, 3)),
        },
        // A report of the terminal: it ends with a bell, or with an escape and a backslash.
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let bell = bytes.iter().position(|byte| *byte == 0x07).map(|at| at + 1);
            let ended = bytes.windows(2).position(|two| two == b"\x1b\\").map(|at| at + 2);
            bell.or(ended).map_or(Found::Part, Found::Nothing)
        }
        // Alt-Enter begins another line.
        Some(b'\r' | b'\n') => Found::Key(Key::Text("\n".into()), 2),
        // Pressed twice.
        Some(0x1b) => Found::Key(Key::Escape, 1),
        // Another key with Alt, unless more was typed: then it was Esc, and that followed.
        Some(_) => match first(&bytes[1..]) {
            Found::Key(Key::Text(text), _) if text.chars().nth(1).is_some() => {
                Found::Key(Key::Escape, 1)
            }
            Found::Key(_, length) | Found::Nothing(length) => Found::Nothing(1 + length),
            Found::Part => Found::Part,
        },
    }
}

fn control_sequence(bytes: &[u8]) -> Found {
    if bytes.starts_with(PASTE_BEGINS) {
        let begin = PASTE_BEGINS.len();
        let end = bytes[begin..].windows(PASTE_ENDS.len()).position(|some| some == PASTE_ENDS);
        let Some(length) = end else { return Found::Part };
        let pasted = String::from_utf8_lossy(&bytes[begin..begin + length]);
        let pasted = pasted.replace("\r\n", "\n").replace('\r', "\n");
        return Found::Key(Key::Paste(pasted), begin + length + PASTE_ENDS.len());
    }
    let Some(last) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return Found::Part;
    };
    let (given, length) = (&bytes[2..2 + last], last + 3);
    let key = match (given, bytes[2 + last]) {
        (b"", b'I') => Some(Key::Focus(true)),
        (b"", b'O') => Some(Key::Focus(false)),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        (b"1" | b"7", b'~') => Some(Key::Home),
        (b"4" | b"8", b'~') => Some(Key::End),
        (b"", last) => arrow(last),
        _ => None,
    };
    key.map_or(Found::Nothing(length), |key| Found::Key(key, length))
}

fn arrow(last: u8) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Key {
        Key::Text(text.into())
    }

    /// The keys in these bytes, given at once and byte by byte.
    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut whole = Keys::default();
        let mut found = whole.push(bytes);
        found.extend(whole.decide());
        let mut slow = Keys::default();
        let mut one_by_one: Vec<Key> = Vec::new();
        for byte in bytes {
            for key in slow.push(&[*byte]) {
                match (one_by_one.last_mut(), key) {
                    (Some(Key::Text(text)), Key::Text(more)) => text.push_str(&more),
                    (_, key) => one_by_one.push(key),
                }
            }
        }
        one_by_one.extend(slow.decide());
        assert_eq!(found, one_by_one, "{bytes:?}");
        found
    }

    #[test]
    fn text_and_the_keys_that_change_it_are_told_apart() {
        assert_eq!(keys("né 漢\r".as_bytes()), [text("né 漢"), Key::Enter]);
        assert_eq!(keys(b"a\x7f\x15\x17\n"), {
            [text("a"), Key::Backspace, Key::EraseLine, Key::EraseWord, Key::Enter]
        });
        assert_eq!(keys(b"caf\xe9!"), [text("caf\u{fffd}!")]);
    }

    #[test]
    fn an_escape_alone_is_a_key_and_in_a_sequence_it_is_not() {
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[5~\x1b[1;5C"), [Key::Up, Key::Down, Key::PageUp]);
        assert_eq!(keys(b"\x1bx"), [], "Alt-x");
        assert_eq!(keys(b"\x1b\r"), [text("\n")], "Alt-Enter");
        assert_eq!(keys(b"\x1b]11;rgb:0/0/0\x07\x1b[Iq"), [Key::Focus(true), text("q")]);
    }

    #[test]
    fn what_is_pasted_is_text_whatever_is_in_it() {
        let pasted = b"\x1b[200~one\r\ntwo\x1b\x0f\rthree\x1b[201~x";
        let text_of = "one\ntwo\x1b\x0f\nthree";
        assert_eq!(keys(pasted), [Key::Paste(text_of.into()), text("x")]);
        let mut half = Keys::default();
        assert_eq!(half.push(b"\x1b[200~half"), []);
        assert!(!half.is_undecided(), "its end is waited for as long as it takes");
    }
}
