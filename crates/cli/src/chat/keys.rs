//! Parses bytes of a terminal into keys.
//!
//! A terminal sends keys, pasted text, and responses to queries as one stream of bytes. An escape
//! character is a key only if nothing follows it; the reader decides how long to wait for that, see
//! [`Keys::is_undecided`].

/// A key, or something that a terminal reports in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Text, as it was typed.
    Text(String),
    /// What was pasted, with its line feeds.
    Paste(String),
    /// The pasted text is too long; all of it is dropped.
    PasteTooLong,
    /// Bytes that are not UTF-8.
    NotText,
    Enter,
    Backspace,
    /// Delete.
    Delete,
    /// Ctrl-D: deletes, or ends the input where there is nothing to delete.
    EndOfInput,
    /// Ctrl-U.
    EraseLine,
    /// Ctrl-W, Alt-Backspace.
    EraseWord,
    /// Alt-D.
    EraseNextWord,
    /// Ctrl-K.
    EraseToEnd,
    /// Ctrl-Y: puts back what was erased last.
    Yank,
    Escape,
    Tab,
    BackTab,
    /// Ctrl-C, where it is not a signal.
    Interrupt,
    /// Ctrl-G.
    Editor,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-O.
    Open,
    /// Ctrl-R.
    Search,
    /// Ctrl-V: an image from the clipboard.
    PasteImage,
    /// Ctrl-Z.
    Suspend,
    Up,
    Down,
    Left,
    Right,
    WordLeft,
    WordRight,
    PageUp,
    PageDown,
    Home,
    End,
    /// The window got the focus, or lost it.
    Focus(bool),
    /// The lightness of the background, 0 to 255.
    Background(u8),
}

/// The sequences around pasted text.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Bytes of one paste. As much as a line of input may have.
const PASTE_BYTES_MAX: usize = 4 << 20;

/// Bytes of an unfinished sequence: longer ones have no meaning here.
const SEQUENCE_BYTES_MAX: usize = 4_096;

/// A parser that is fed bytes as they arrive.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pending: Vec<u8>,
    /// What was pasted so far, while its end is not there.
    paste: Option<Paste>,
}

#[derive(Debug, Default)]
struct Paste {
    bytes: Vec<u8>,
    is_too_long: bool,
}

/// What the pending bytes begin with.
enum Found {
    /// A key, and its bytes.
    Key(Key, usize),
    /// Bytes that mean nothing here.
    Nothing(usize),
    /// More bytes are needed to decide.
    Part,
}

impl Keys {
    /// The keys in these bytes, and in those that came before and were not decided.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        if self.paste.is_none() {
            self.pending.extend_from_slice(bytes);
            self.take_pending(&mut keys);
        } else {
            self.take_paste(bytes, &mut keys);
        }
        keys
    }

    fn take_pending(&mut self, keys: &mut Vec<Key>) {
        let mut at = 0;
        while at < self.pending.len() {
            let rest = &self.pending[at..];
            if let Some(pasted) = rest.strip_prefix(PASTE_BEGINS) {
                let pasted = pasted.to_vec();
                self.pending.clear();
                self.paste = Some(Paste::default());
                return self.take_paste(&pasted, keys);
            }
            match first(rest) {
                Found::Key(key, length) => {
                    match (keys.last_mut(), key) {
                        (Some(Key::Text(text)), Key::Text(more)) => text.push_str(&more),
                        (_, key) => keys.push(key),
                    }
                    at += length;
                }
                Found::Nothing(length) => at += length,
                Found::Part if rest.len() > SEQUENCE_BYTES_MAX => at += 1,
                Found::Part => break,
            }
        }
        self.pending.drain(..at);
    }

    /// Reads pasted text up to its end. Only new bytes are searched, because a paste may be long.
    fn take_paste(&mut self, bytes: &[u8], keys: &mut Vec<Key>) {
        let Some(paste) = &mut self.paste else { return };
        let from = paste.bytes.len().saturating_sub(PASTE_ENDS.len() - 1);
        paste.bytes.extend_from_slice(bytes);
        let new = &paste.bytes[from..];
        let Some(end) = new.windows(PASTE_ENDS.len()).position(|some| some == PASTE_ENDS) else {
            if paste.bytes.len() > PASTE_BYTES_MAX {
                paste.is_too_long = true;
                // Its end may have begun.
                paste.bytes.drain(..paste.bytes.len() - (PASTE_ENDS.len() - 1));
            }
            return;
        };
        let rest = paste.bytes.split_off(from + end + PASTE_ENDS.len());
        paste.bytes.truncate(from + end);
        let paste = self.paste.take().unwrap_or_default();
        keys.push(match String::from_utf8(paste.bytes) {
            _ if paste.is_too_long => Key::PasteTooLong,
            Ok(text) => Key::Paste(text.replace("\r\n", "\n").replace('\r', "\n")),
            Err(_) => Key::NotText,
        });
        self.pending = rest;
        self.take_pending(keys);
    }

    /// Whether the last bytes could be a key, or the beginning of a longer sequence. The end of a
    /// paste is waited for as long as necessary.
    pub(super) fn is_undecided(&self) -> bool {
        !self.pending.is_empty() && self.paste.is_none()
    }

    /// Whether something is being pasted.
    pub(super) fn is_in_paste(&self) -> bool {
        self.paste.is_some() || PASTE_BEGINS.starts_with(&self.pending) && self.pending.len() > 1
    }

    /// Nothing more arrived: an escape character was the Esc key.
    pub(super) fn decide(&mut self) -> Vec<Key> {
        match std::mem::take(&mut self.pending).as_slice() {
            [0x1b] => vec![Key::Escape],
            _ => Vec::new(),
        }
    }
}

fn first(bytes: &[u8]) -> Found {
    match control(bytes[0]) {
        Some(key) => return Found::Key(key, 1),
        None if bytes[0] == 0x1b => return escape(bytes),
        None => {}
    }
    match bytes[0] {
        0..0x20 => Found::Nothing(1),
        _ => text(bytes),
    }
}

/// The key of a control character.
fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::EndOfInput,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x07 => Key::Editor,
        0x08 | 0x7f => Key::Backspace,
        0x0b => Key::EraseToEnd,
        0x0c => Key::Redraw,
        0x0e => Key::Down,
        0x0f => Key::Open,
        0x10 => Key::Up,
        0x12 => Key::Search,
        0x15 => Key::EraseLine,
        0x16 => Key::PasteImage,
        0x17 => Key::EraseWord,
        0x19 => Key::Yank,
        0x1a => Key::Suspend,
        _ => return None,
    })
}

/// Text up to the next control character.
fn text(bytes: &[u8]) -> Found {
    let end = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => Found::Key(Key::Text(text.to_owned()), end),
        Err(error) if error.valid_up_to() > 0 => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            Found::Key(Key::Text(valid.into_owned()), error.valid_up_to())
        }
        Err(error) => match error.error_len() {
            Some(length) => Found::Key(Key::NotText, length),
            // A character whose other bytes are still on their way.
            None if end == bytes.len() => Found::Part,
            None => Found::Key(Key::NotText, end),
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
            let bell = bytes.iter().position(|byte| *byte == 0x07).map(|at| (at, at + 1));
            let ended = bytes.windows(2).position(|two| two == b"\x1b\\").map(|at| (at, at + 2));
            let end = match (bell, ended) {
                (Some(bell), Some(ended)) => Some(bell.min(ended)),
                (bell, ended) => bell.or(ended),
            };
            let Some((end, length)) = end else { return Found::Part };
            match background(&bytes[2..end]) {
                Some(light) => Found::Key(Key::Background(light), length),
                None => Found::Nothing(length),
            }
        }
        // Alt-Enter begins another line.
        Some(b'\r' | b'\n') => Found::Key(Key::Text("\n".into()), 2),
        Some(0x7f | 0x08) => Found::Key(Key::EraseWord, 2),
        // Pressed twice.
        Some(0x1b) => Found::Key(Key::Escape, 1),
        // Another key with Alt, unless more was typed: then it was Esc, and that followed.
        Some(_) => match first(&bytes[1..]) {
            Found::Key(Key::Text(text), length) => match text.as_str() {
                "b" => Found::Key(Key::WordLeft, 2),
                "f" => Found::Key(Key::WordRight, 2),
                "d" => Found::Key(Key::EraseNextWord, 2),
                one if one.chars().nth(1).is_none() => Found::Nothing(1 + length),
                _ => Found::Key(Key::Escape, 1),
            },
            Found::Key(_, length) | Found::Nothing(length) => Found::Nothing(1 + length),
            Found::Part => Found::Part,
        },
    }
}

/// How light a colour is: `11;rgb:ffff/ffff/ffff`, as a terminal answers a query for its
/// background.
fn background(report: &[u8]) -> Option<u8> {
    let report = std::str::from_utf8(report).ok()?;
    let colour = report.strip_prefix("11;")?;
    let parts = colour.strip_prefix("rgb:").or(colour.strip_prefix("rgba:"))?.split('/');
    let mut shares = parts.map(|part| {
        let most = 16_u32.checked_pow(u32::try_from(part.len()).ok()?)?.checked_sub(1)?;
        let share = u32::from_str_radix(part, 16).ok()?.checked_mul(255)?.checked_div(most)?;
        Some(share)
    });
    let (red, green, blue) = (shares.next()??, shares.next()??, shares.next()??);
    u8::try_from((red * 299 + green * 587 + blue * 114) / 1_000).ok()
}

fn control_sequence(bytes: &[u8]) -> Found {
    let Some(last) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return Found::Part;
    };
    let (given, length) = (&bytes[2..2 + last], last + 3);
    let key = match (given, bytes[2 + last]) {
        (b"", b'I') => Some(Key::Focus(true)),
        (b"", b'O') => Some(Key::Focus(false)),
        (b"", b'Z') => Some(Key::BackTab),
        (b"3", b'~') => Some(Key::Delete),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        (b"1" | b"7", b'~') => Some(Key::Home),
        (b"4" | b"8", b'~') => Some(Key::End),
        // With Ctrl or Alt.
        (b"1;5" | b"1;3", b'C') => Some(Key::WordRight),
        (b"1;5" | b"1;3", b'D') => Some(Key::WordLeft),
        // Shift-Enter, if a terminal distinguishes it from Enter.
        (b"13;2", b'u') | (b"27;2;13", b'~') => Some(Key::Text("\n".into())),
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
    fn text_and_editing_keys_are_distinguished() {
        assert_eq!(keys("né 漢\r".as_bytes()), [text("né 漢"), Key::Enter]);
        assert_eq!(keys(b"a\x7f\x15\x17\n"), {
            [text("a"), Key::Backspace, Key::EraseLine, Key::EraseWord, Key::Enter]
        });
        assert_eq!(keys(b"caf\xe9!"), [text("caf"), Key::NotText, text("!")]);
        assert_eq!(keys(b"a\tb"), [text("a"), Key::Tab, text("b")]);
    }

    #[test]
    fn an_escape_alone_is_a_key_and_in_a_sequence_it_is_not() {
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[5~\x1b[1;5C"), {
            [Key::Up, Key::Down, Key::PageUp, Key::WordRight]
        });
        assert_eq!(keys(b"\x1bx"), [], "Alt-x");
        assert_eq!(keys(b"\x1b\r\x1b[13;2u"), [text("\n\n")], "Alt-Enter and Shift-Enter");
        assert_eq!(keys(b"\x1b]0;x\x07\x1b[Iq"), [Key::Focus(true), text("q")]);
    }

    #[test]
    fn pasted_bytes_are_always_text() {
        let pasted = b"\x1b[200~one\r\ntwo\x1b\x0f\rthree\x1b\x1b[201~x";
        let text_of = "one\ntwo\x1b\x0f\nthree\x1b";
        assert_eq!(keys(pasted), [Key::Paste(text_of.into()), text("x")]);
        let mut half = Keys::default();
        assert_eq!(half.push(b"\x1b[200~half"), []);
        assert!(!half.is_undecided() && half.is_in_paste());
        assert_eq!(half.decide(), [], "its end is waited for as long as it takes");
        assert_eq!(half.push(b" a\x1b[201~\r"), [Key::Paste("half a".into()), Key::Enter]);
        assert_eq!(keys(b"\x1b[200~\xff\x1b[201~x"), [Key::NotText, text("x")]);
    }

    #[test]
    fn a_paste_may_have_four_mebibytes_and_one_that_has_more_is_dropped_whole() {
        for (bytes, fits) in [(PASTE_BYTES_MAX, true), (PASTE_BYTES_MAX + 1, false)] {
            let mut keys = Keys::default();
            let mut found = keys.push(PASTE_BEGINS);
            for chunk in vec![b'x'; bytes].chunks(4_096) {
                found.extend(keys.push(chunk));
            }
            found.extend(keys.push(b"\x1b[201~after"));
            assert_eq!(matches!(&found[0], Key::Paste(text) if text.len() == bytes), fits);
            assert_eq!(found[0] == Key::PasteTooLong, !fits);
            assert_eq!(found[1..], [text("after")]);
        }
    }

    #[test]
    fn the_background_colour_is_parsed_in_every_form() {
        assert_eq!(keys(b"\x1b]11;rgb:0000/0000/0000\x07"), [Key::Background(0)]);
        assert_eq!(keys(b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\"), [Key::Background(255)]);
        assert_eq!(keys(b"\x1b]11;rgba:ff/ff/ff/ff\x1b\\q"), [Key::Background(255), text("q")]);
        for nonsense in
            ["11;rgb:", "11;rgb:1/2", "11;rgb:g/g/g", "11;rgb:111111111/1/1", "10;rgb:0/0/0"]
        {
            assert_eq!(keys(format!("\x1b]{nonsense}\x07").as_bytes()), [], "{nonsense}");
        }
    }
}
