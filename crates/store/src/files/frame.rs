//! A journal: records one behind the other, each of which shows whether it is whole.
//!
//! A record is `<16 hex digits> <length> <JSON>\n`: the beginning of the SHA-256 of the JSON, and
//! its length in bytes. A journal only grows at its end, and its end is on disk before the next
//! record begins. So only the last write can be torn: what does not add up there, and lacks its
//! end or is full of zeros, was never acknowledged. Everything else that does not add up is damage,
//! and the records after it are found again by their frames.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};

use super::disk::hex;

/// The longest record that is believed: a message of the largest size, escaped, with what is
/// stored beside it. A longer length is damage, so none is written. The tests of this crate have
/// less, so that they can go beyond it.
pub(super) const RECORD_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { 256 << 20 };

/// The longest frame before the JSON: 16 digits, a space, a length, a space.
const FRAME_BYTES_MAX: usize = 16 + 1 + 10 + 1;

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// The first 16 hex digits of the SHA-256 of some bytes.
pub(super) fn sum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A record around some JSON. One that nobody could read again is refused.
pub(super) fn framed(json: &str) -> io::Result<String> {
    let length = json.len();
    if length > RECORD_BYTES_MAX {
        let what = format!("a record has at most {RECORD_BYTES_MAX} bytes, this one {length}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(format!("{} {length} {json}\n", sum(json.as_bytes())))
}

/// One record as it was found.
pub(super) struct Record<'a> {
    /// Where it begins.
    pub(super) at: u64,
    /// Where the next one begins.
    pub(super) end: u64,
    /// What it says.
    pub(super) json: &'a str,
    /// Bytes before it, back to the last good record, that are no record.
    pub(super) damaged: u64,
}

/// Walks over the records of a journal.
pub(super) struct Walk<'a> {
    file: &'a File,
    /// Bytes read and not yet used.
    buffer: Vec<u8>,
    /// What of the buffer is used up.
    used: usize,
    /// Where in the file the unused part begins.
    at: u64,
    /// Where the last good record ended.
    good: u64,
    /// Up to where frames are believed without adding up what is in them.
    believed: u64,
    done: bool,
}

impl<'a> Walk<'a> {
    /// Begins at a place where a record begins.
    pub(super) fn new(mut file: &'a File, at: u64) -> io::Result<Walk<'a>> {
        file.seek(SeekFrom::Start(at))?;
        Ok(Walk { file, buffer: Vec::new(), used: 0, at, good: at, believed: 0, done: false })
    }

    /// Believes the frames up to a place. For whoever only wants to know which records there are,
    /// and was there before: reading one of them adds it up again.
    pub(super) fn believing(self, believed: u64) -> Walk<'a> {
        Walk { believed, ..self }
    }

    /// Where the last good record ended.
    pub(super) fn good(&self) -> u64 {
        self.good
    }

    /// Reads until this many bytes are there, or the file ends.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.buffer.len() - self.used >= wanted || self.done {
            return Ok(());
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        let missing = (wanted - self.buffer.len()).max(CHUNK_BYTES);
        let mut file = self.file;
        // Others use the same handle between two calls.
        file.seek(SeekFrom::Start(self.at + self.buffer.len() as u64))?;
        let read = file.take(missing as u64).read_to_end(&mut self.buffer)?;
        self.done = read < missing;
        Ok(())
    }

    /// The length of the whole record at the place, if there is one.
    fn whole(&mut self) -> io::Result<Option<(usize, usize)>> {
        self.fill(FRAME_BYTES_MAX)?;
        let Some((frame, length)) = frame(&self.buffer[self.used..]) else { return Ok(None) };
        self.fill(frame + length + 1)?;
        let there = &self.buffer[self.used..];
        // The newline is there for people; that there is a byte for it shows the write's end.
        let whole = there.len() > frame + length
            && (self.at + ((frame + length) as u64) < self.believed
                || there[..16] == *sum(&there[frame..frame + length]).as_bytes())
            && std::str::from_utf8(&there[frame..frame + length]).is_ok();
        Ok(whole.then_some((frame, length)))
    }

    /// The next good record.
    pub(super) fn next(&mut self) -> io::Result<Option<Record<'_>>> {
        loop {
            if let Some((frame, length)) = self.whole()? {
                let (at, damaged) = (self.at, self.at - self.good);
                let start = self.used + frame;
                self.used += frame + length + 1;
                self.at += (frame + length + 1) as u64;
                self.good = self.at;
                let json = std::str::from_utf8(&self.buffer[start..start + length]);
                let json = json.expect("looked at above");
                return Ok(Some(Record { at, end: self.good, json, damaged }));
            }
            // Whatever this is, the next record begins behind a newline.
            if !self.skip_line()? {
                return Ok(None);
            }
        }
    }

    /// Goes on behind the next newline; false where the file ends.
    fn skip_line(&mut self) -> io::Result<bool> {
        loop {
            self.fill(1)?;
            let rest = &self.buffer[self.used..];
            if rest.is_empty() {
                return Ok(false);
            }
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let step = newline.map_or(rest.len(), |at| at + 1);
            self.used += step;
            self.at += step as u64;
            if newline.is_some() {
                return Ok(true);
            }
        }
    }
}

/// The lengths of a frame and of the JSON behind it.
fn frame(bytes: &[u8]) -> Option<(usize, usize)> {
    let hex = bytes.get(..16)?.iter().all(u8::is_ascii_hexdigit);
    let rest = bytes.get(17..bytes.len().min(FRAME_BYTES_MAX))?;
    let digits = rest.iter().position(|byte| *byte == b' ')?;
    let length = std::str::from_utf8(&rest[..digits]).ok()?.parse::<usize>().ok()?;
    (hex && bytes[16] == b' ' && length <= RECORD_BYTES_MAX).then_some((17 + digits + 1, length))
}

/// The bytes after `from` that are no record and were one once: none of them is missing, and what is
/// wrong is in them. A write that was torn lacks its newline, or has zeros for what never reached the
/// disk; a flipped bit makes one of them at the most.
pub(super) fn damaged_end(file: &File, from: u64) -> io::Result<u64> {
    let mut walk = Walk::new(file, from)?;
    while walk.next()?.is_some() {}
    let (good, length) = (walk.good(), file.metadata()?.len());
    if good >= length || length - good > (RECORD_BYTES_MAX + FRAME_BYTES_MAX) as u64 {
        return Ok(0);
    }
    let mut rest = Vec::new();
    let mut file = file;
    file.seek(SeekFrom::Start(good))?;
    file.take(length - good).read_to_end(&mut rest)?;
    let zeros = rest.iter().filter(|byte| **byte == 0).count();
    let whole = rest.last() == Some(&b'\n') && zeros <= 1;
    Ok(if whole { rest.len() as u64 } else { 0 })
}

/// The record at a place.
pub(super) fn read_at(file: &File, at: u64) -> io::Result<Option<String>> {
    let mut walk = Walk::new(file, at)?;
    Ok(walk.next()?.filter(|record| record.at == at).map(|record| record.json.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn records(bytes: &[u8]) -> (Vec<String>, u64, u64) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        let mut walk = Walk::new(&file, 0).expect("a walk");
        let (mut found, mut damaged) = (Vec::new(), 0);
        while let Some(record) = walk.next().expect("read") {
            found.push(record.json.to_owned());
            damaged += record.damaged;
        }
        (found, damaged, walk.good())
    }

    fn framed(json: &str) -> String {
        super::framed(json).expect("it is short")
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        for (length, fits) in
            [(RECORD_BYTES_MAX - 1, true), (RECORD_BYTES_MAX, true), (RECORD_BYTES_MAX + 1, false)]
        {
            let json = format!("\"{}\"", "x".repeat(length - 2));
            match super::framed(&json) {
                Ok(record) => assert!(fits && records(record.as_bytes()).0 == [json]),
                Err(error) => assert!(!fits && error.kind() == io::ErrorKind::FileTooLarge),
            }
        }
    }

    #[test]
    fn a_torn_end_is_left_out_wherever_it_is_torn() {
        let (one, two) = (framed(r#"{"a":1}"#), framed("{\"b\":\n\"naïve\"}"));
        for cut in 0..two.len() {
            let bytes = format!("{one}{two}").into_bytes();
            let (found, damaged, good) = records(&bytes[..one.len() + cut]);
            assert_eq!(found, [r#"{"a":1}"#], "cut at {cut}");
            assert_eq!((damaged, good), (0, one.len() as u64));
        }
    }

    #[test]
    fn a_flipped_bit_in_the_last_record_is_damage_and_a_torn_one_is_not() {
        let (one, two) = (framed(r#"{"a":1}"#), framed(r#"{"b":"some text"}"#));
        let damaged = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(bytes).expect("written");
            damaged_end(&file, 0).expect("read")
        };
        let whole = format!("{one}{two}").into_bytes();
        assert_eq!(damaged(&whole), 0);
        for flipped in one.len()..whole.len() - 1 {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[flipped] ^= 1 << bit;
                // Case does not matter in a hexadecimal digit, nor does it anywhere else change much.
                let expected = if records(&bytes).0.len() == 2 { 0 } else { two.len() as u64 };
                assert_eq!(damaged(&bytes), expected, "bit {bit} at {flipped}");
            }
        }
        for cut in 0..two.len() {
            let length = one.len() + cut;
            assert_eq!(damaged(&whole[..length]), 0, "cut at {cut}");
            let mut zeroed = whole.clone();
            zeroed[length..].fill(0);
            assert_eq!(damaged(&zeroed), 0, "zeros from {cut} on");
        }
    }

    #[test]
    fn what_stands_behind_damage_is_found() {
        let [one, two, three] = [r#"{"a":1}"#, "{\"b\":\n2}", r#"{"c":3}"#].map(framed);
        for flipped in 0..two.len() - 1 {
            let mut bytes = format!("{one}{two}{three}").into_bytes();
            bytes[one.len() + flipped] ^= 0x41;
            let (found, damaged, good) = records(&bytes);
            assert_eq!(found, [r#"{"a":1}"#, r#"{"c":3}"#], "flipped at {flipped}");
            assert_eq!(damaged, two.len() as u64);
            assert_eq!(good, bytes.len() as u64);
        }
    }

    #[test]
    fn records_larger_than_a_chunk_are_whole() {
        let large = format!("\"{}\"", "x".repeat(3 * CHUNK_BYTES));
        let bytes = format!("{}{}", framed(&large), framed("1"));
        assert_eq!(records(bytes.as_bytes()).0, [large, "1".to_owned()]);
    }
}
