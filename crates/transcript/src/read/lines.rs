//! Reads a file line by line, compressed or not, with at most one line in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use rethread_core::limits::MESSAGE_BYTES_MAX;

/// Bytes of a line. A message may have 16 MiB; the rest is for what surrounds it. Longer lines are
/// skipped without being held in memory.
pub const LINE_BYTES_MAX: usize = MESSAGE_BYTES_MAX + (64 << 10);

/// The magic number of zstd.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How much larger than the file its content may be. Transcripts compress to a tenth or a
/// twentieth; a file that expands a thousandfold was made to fill a disk.
const UNPACKED_RATIO_MAX: u64 = 1_000;

/// Bytes that any compressed file may expand to, however small it is.
const UNPACKED_BYTES_MIN: u64 = 16 << 20;

/// The largest window a compressed file may use, as a power of two: 32 MiB.
const WINDOW_LOG_MAX: u32 = 25;

/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// The lines of a file.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Text, without its line end and not blank.
    Text(&'a str),
    /// Bytes that are not UTF-8.
    NotText,
    /// A line that is too long.
    TooLong(u64),
}

impl Lines {
    pub(super) fn open(path: &Path) -> io::Result<Lines> {
        Ok(Lines { reader: unpacked(path)?, line: Vec::new(), number: 0, bytes: 0 })
    }

    /// Bytes read so far, decompressed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line that is not blank, with its number from 1.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        loop {
            self.line.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read as u64;
            if self.line.len() > LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
                let rest = self.skip_line()?;
                self.bytes += rest;
                let length = self.line.len() as u64 + rest;
                self.line = Vec::new();
                return Ok(Some((self.number, Line::TooLong(length))));
            }
            // Frees the memory of a long line once lines are short again.
            if self.line.capacity() > 4 << 20 && self.line.len() < 1 << 20 {
                self.line.shrink_to(1 << 20);
            }
            let mut start = 0;
            // Some editors and shells write a byte order mark at the start of a file.
            if self.number == 1 && self.line.starts_with("\u{feff}".as_bytes()) {
                start = "\u{feff}".len();
            }
            if self.line[start..].iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let number = self.number;
            return Ok(Some(match std::str::from_utf8(&self.line[start..]) {
                Ok(text) => (number, Line::Text(text.trim_matches(['\n', '\r', ' ', '\t']))),
                Err(_) => (number, Line::NotText),
            }));
        }
    }

    /// Skips the rest of a line.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(skipped);
            }
            let (length, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), false),
            };
            self.reader.consume(length);
            skipped += length as u64;
            if ended {
                return Ok(skipped);
            }
        }
    }
}

/// A file's bytes, decompressed if necessary.
pub(super) fn unpacked(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = File::open(path)?;
    let packed = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    if !reader.fill_buf()?.starts_with(&ZSTD_MAGIC) {
        return Ok(Box::new(reader));
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let limit = packed.saturating_mul(UNPACKED_RATIO_MAX).max(UNPACKED_BYTES_MIN);
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, Bounded { decoder, left: limit })))
}

/// Ends in an error when the output gets too large.
struct Bounded<R> {
    decoder: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let what = "it unpacks to more than a thousand times its size";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        Ok(read)
    }
}
