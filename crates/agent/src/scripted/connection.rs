//! One request and its answer, over one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::answer::{Answer, Kind};
use super::wire::Wire;
use super::{ReceivedRequest, Shared, WAIT_MAX, rules};

/// The largest request that is read.
const REQUEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Reads one request and answers it.
///
/// # Errors
///
/// If the client disconnected, or does not speak HTTP.
pub(super) fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    let asked = read(&mut BufReader::new(&stream).take(REQUEST_BYTES_MAX))?;
    let (wire, body) = (Wire::at(&asked.path), asked.body.clone());
    let number = shared.record(asked);
    let Some(wire) = wire else {
        let message = "there is no such path here";
        return status(&stream, 404, &Wire::OpenAi.error(404, message), None);
    };
    if let Err(message) = rules::check(wire, &body) {
        return status(&stream, 400, &wire.error(400, &message), None);
    }
    let answer = shared.answer(&body);
    let (content_type, chunks) = match &answer.kind {
        Kind::Status { status: code, message, retry_after } => {
            return status(&stream, *code, &wire.error(*code, message), retry_after.as_deref());
        }
        Kind::Says(says) => (wire.content_type(), wire.chunks(says, number, &body)),
        Kind::Garbage => (wire.content_type(), wire.garbage()),
        Kind::Raw { content_type, chunks } => (content_type.as_str(), chunks.clone()),
    };
    send(&stream, content_type, &chunks, &answer, shared)
}

fn read(reader: &mut impl BufRead) -> io::Result<ReceivedRequest> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut asked = ReceivedRequest { path, headers, text: String::new(), body: Value::Null };
    let length = asked.header("content-length").and_then(|length| length.parse().ok());
    let mut body = Vec::new();
    reader.take(length.unwrap_or(0)).read_to_end(&mut body)?;
    asked.text = String::from_utf8_lossy(&body).into_owned();
    asked.body = serde_json::from_str(&asked.text).unwrap_or_default();
    Ok(asked)
}

fn status(
    mut stream: &TcpStream,
    status: u16,
    body: &str,
    retry_after: Option<&str>,
) -> io::Result<()> {
    let wait = retry_after.map_or(String::new(), |wait| format!("retry-after: {wait}\r\n"));
    write!(
        stream,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n{wait}\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn send(
    mut stream: &TcpStream,
    content_type: &str,
    chunks: &[Vec<u8>],
    answer: &Answer,
    shared: &Shared,
) -> io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n\r\n"
    )?;
    let mut parted = false;
    for n in 0..=chunks.len() {
        if answer.cut == Some(n) {
            return Ok(());
        }
        for _ in answer.holds.iter().filter(|hold| **hold == n) {
            if !shared.hold() {
                return Ok(());
            }
        }
        let Some(chunk) = chunks.get(n) else { break };
        // The first byte of a multi-byte character, once per answer.
        let first = chunk.iter().position(|byte| *byte >= 0x80).filter(|_| !parted);
        parted |= first.is_some();
        let (left, right) = chunk.split_at(first.map_or(chunk.len(), |first| first + 1));
        for part in [left, right].into_iter().filter(|part| !part.is_empty()) {
            write!(stream, "{:x}\r\n", part.len())?;
            stream.write_all(part)?;
            stream.write_all(b"\r\n")?;
            stream.flush()?;
        }
    }
    stream.write_all(b"0\r\n\r\n")
}
