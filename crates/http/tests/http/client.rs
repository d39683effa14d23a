//! A plain client: one connection for each request, nothing hidden.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long a test waits for anything. One that waits longer has failed.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A response whose head was read and whose body was not.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
}

/// A whole response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

pub(crate) struct Body {
    reader: BufReader<TcpStream>,
    left: Left,
}

enum Left {
    Length(usize),
    Chunked(usize),
    Ended,
}

/// Sends a request as it is and reads the head of the response.
pub(crate) fn send(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WAIT_MAX)).expect("a timeout");
    stream.write_all(head.as_bytes()).expect("sent");
    // A server that refuses early may close before everything is sent.
    drop(stream.write_all(body));
    answer(stream)
}

/// Reads the head of a response.
pub(crate) fn answer(stream: TcpStream) -> Answer {
    let mut reader = BufReader::new(stream);
    let first = line(&mut reader);
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("not an answer: {first:?}"));
    let mut headers = Vec::new();
    loop {
        let line = line(&mut reader);
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, v)| v);
    let left = match (find("content-length"), find("transfer-encoding")) {
        (Some(length), _) => Left::Length(length.parse().expect("a length")),
        (None, Some(_)) => Left::Chunked(0),
        (None, None) => Left::Ended,
    };
    Answer { status, headers, body: Body { reader, left } }
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    line.trim_end_matches(['\r', '\n']).to_owned()
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = match &mut self.left {
            Left::Ended | Left::Length(0) => return Ok(0),
            Left::Length(left) => *left,
            Left::Chunked(left) => {
                if *left == 0 {
                    let size = line(&mut self.reader);
                    *left = usize::from_str_radix(&size, 16).unwrap_or(0);
                    if *left == 0 {
                        self.left = Left::Ended;
                        return Ok(0);
                    }
                }
                *left
            }
        };
        let size = buffer.len().min(most);
        let read = self.reader.read(&mut buffer[..size])?;
        match &mut self.left {
            Left::Length(left) => *left -= read,
            Left::Chunked(left) => {
                *left -= read;
                if *left == 0 {
                    line(&mut self.reader);
                }
            }
            Left::Ended => {}
        }
        Ok(read)
    }
}

impl Answer {
    /// The whole response.
    pub(crate) fn whole(mut self) -> Whole {
        let mut body = String::new();
        self.body.read_to_string(&mut body).expect("a body of text");
        Whole { status: self.status, headers: self.headers, body }
    }

    /// Its events, one by one, as they arrive.
    pub(crate) fn events(self) -> Events {
        if self.status != 200 {
            panic!("no stream: {:?}", self.whole());
        }
        let kind = self.headers.iter().find(|(name, _)| name == "content-type");
        assert_eq!(kind.map(|(_, kind)| kind.as_str()), Some("text/event-stream"));
        Events(BufReader::new(self.body))
    }
}

impl Whole {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Checks that it is a problem of this kind.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, kind: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        for field in ["title", "detail", "hint"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
    }
}

/// The events of a stream.
pub(crate) struct Events(BufReader<Body>);

/// One event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        let mut any = false;
        loop {
            let mut text = String::new();
            // A server that stops, or a test that hangs up, ends the stream.
            if self.0.read_line(&mut text).ok()? == 0 {
                return None;
            }
            let text = text.trim_end_matches('\n');
            match text.split_once(": ") {
                Some(("data", data)) => {
                    assert!(event.data.is_empty(), "an event is one line");
                    event.data = data.into();
                }
                Some(("id", id)) => event.id = Some(id.into()),
                _ if text.is_empty() && any => return Some(event),
                _ => continue,
            }
            any = true;
        }
    }
}
