//! `append`: messages from standard input, acknowledged one by one.

use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;

use rethread_core::World;
use rethread_core::limits::{BATCH_ENTRIES_MAX, MESSAGE_BYTES_MAX};
use rethread_core::sessions::{self, Incoming};
use rethread_core::{
    EntryId, Key, Message, Name, New, Profile, Role, SessionId, SessionKind, StoreError,
};
use rethread_store::System;
use serde_json::json;

use super::{Cli, Done};
use crate::args::Append;
use crate::errors::Error;
use crate::out::{clean, json_note, note};

/// Bytes of input that are read ahead, and lines that are stored together if they have arrived.
const AHEAD_BYTES: usize = 256 << 10;
const AHEAD_LINES: usize = 256;

/// Bytes of a line. A message may be 16 MiB; the rest is for its id and white space.
const LINE_BYTES_MAX: usize = MESSAGE_BYTES_MAX + (64 << 10);

pub(super) fn run(cli: &Cli, args: &Append) -> Done {
    let stdin = BufReader::with_capacity(AHEAD_BYTES, std::io::stdin().lock());
    let mut input = Input { lines: stdin, number: 0 };
    let mut session = Target::new(cli, args)?;
    let mut batch = Vec::new();
    let mut lines = Vec::new();
    let mut any = false;
    while let Some(incoming) = input.next()? {
        any = true;
        if args.batch {
            batch.push(incoming);
            lines.push(input.number);
            if batch.len() > BATCH_ENTRIES_MAX {
                let error = sessions::Error::TooMany { count: batch.len(), max: BATCH_ENTRIES_MAX };
                return Err(Error::AtLine { number: input.number, source: error });
            }
            continue;
        }
        // Lines that have already arrived are stored together, and still acknowledged one by one.
        let mut ahead = vec![(input.number, incoming)];
        let mut broken = None;
        while ahead.len() < AHEAD_LINES && input.has_line() {
            match input.next() {
                Ok(Some(incoming)) => ahead.push((input.number, incoming)),
                Ok(None) => break,
                // The lines before it are stored first.
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        store(cli, &mut session, ahead)?;
        if let Some(error) = broken {
            return Err(error);
        }
    }
    if !any {
        return Err(Error::NoInput);
    }
    if args.batch {
        let asked = batch.iter().any(is_a_tools);
        let (id, seqs) =
            session.append(&batch).map_err(|source| match culprit(&batch, &source) {
                Some(index) => Error::AtLine { number: lines[index], source },
                None => source.into(),
            })?;
        acknowledge(cli, id, &seqs, asked)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Stores lines and acknowledges them: all at once or, if that fails, one by one up to the one that
/// is refused.
fn store(
    cli: &Cli,
    session: &mut Target<'_>,
    mut lines: Vec<(u64, Incoming)>,
) -> Result<(), Error> {
    for (_, incoming) in &mut lines {
        // A retry sends the same message.
        incoming.id.get_or_insert_with(|| System.uuid().into());
    }
    if lines.len() > 1 {
        let all: Vec<Incoming> = lines.iter().map(|(_, incoming)| incoming.clone()).collect();
        if let Ok((id, seqs)) = session.append(&all) {
            return acknowledge(cli, id, &seqs, all.iter().any(is_a_tools));
        }
    }
    for (number, incoming) in lines {
        let asked = is_a_tools(&incoming);
        let stored = session.append(&[incoming]);
        let (id, seqs) = stored.map_err(|source| Error::AtLine { number, source })?;
        acknowledge(cli, id, &seqs, asked)?;
    }
    Ok(())
}

/// The session to append to. A new one is started together with its first message, so that invalid
/// or incomplete input leaves no empty session.
struct Target<'a> {
    cli: &'a Cli,
    args: &'a Append,
    new: New,
    key: Option<Key>,
    id: Option<SessionId>,
}

impl<'a> Target<'a> {
    fn new(cli: &'a Cli, args: &'a Append) -> Result<Target<'a>, Error> {
        let new = New {
            name: args.name.as_deref().map(Name::new).transpose()?,
            profile: Profile {
                description: args.description.clone(),
                agent: args.agent.clone(),
                max_history: args.max_history,
                workspace: Some(cli.workspace()?),
                ..Profile::default()
            },
            kind: SessionKind::Recorded,
            source: Some("append".into()),
            ..New::default()
        };
        let key = args.key.as_deref().map(Key::new).transpose()?;
        let id = args.sel.as_deref().map(|sel| cli.select(sel)).transpose()?;
        Ok(Target { cli, args, new, key, id })
    }

    /// Appends messages as one batch, and prints their positions.
    fn append(&mut self, messages: &[Incoming]) -> sessions::Result<(SessionId, Vec<u64>)> {
        let sessions = &self.cli.sessions;
        let known = match self.id {
            Some(id) => Some(id),
            None => self.of_key()?,
        };
        let id = match known {
            Some(id) => id,
            None => {
                let (id, seqs) = match &self.key {
                    Some(key) => sessions.open_with(key, &self.new, messages.to_vec())?,
                    None => {
                        let said = messages.to_vec();
                        let (session, seqs) = sessions.create_with(&self.new, None, said)?;
                        (session.id(), Some(seqs))
                    }
                };
                if let Some(seqs) = seqs {
                    self.id = Some(id);
                    return Ok((id, seqs));
                }
                // Another process started the session of this key at the same time.
                id
            }
        };
        let seqs = self.cli.handle.call(|sessions| sessions.append(id, messages.to_vec()))?;
        self.id = Some(id);
        Ok((id, seqs))
    }

    /// The session of the key, if it has one. An archived session is unarchived.
    fn of_key(&self) -> sessions::Result<Option<SessionId>> {
        let Some(key) = &self.key else { return Ok(None) };
        let Some(id) = self.cli.sessions.resolve(key)? else { return Ok(None) };
        let args = self.args;
        let asks_for_more = args.name.is_some()
            || args.agent.is_some()
            || args.description.is_some()
            || args.max_history.is_some();
        if asks_for_more {
            let what = "has a session already; the options for a new one are ignored";
            warn(self.cli, &format!("`{key}` {what}"));
        }
        Ok(Some(self.cli.sessions.thread(id)?.session().id()))
    }
}

/// The message of a batch that an error is about, if it is about one.
fn culprit(batch: &[Incoming], error: &sessions::Error) -> Option<usize> {
    match error {
        sessions::Error::Store(StoreError::IdReused { entry, .. }) => {
            batch.iter().rposition(|incoming| incoming.id.as_ref() == Some(entry))
        }
        sessions::Error::TooLarge { what: "a message", size, .. } => batch.iter().position(|one| {
            serde_json::to_string(&one.message).is_ok_and(|text| text.len() == *size)
        }),
        _ => None,
    }
}

/// Whether a message may contain a tool result.
fn is_a_tools(incoming: &Incoming) -> bool {
    incoming.message.role == Role::Tool || incoming.message.results().next().is_some()
}

/// Prints the positions of messages that are now on disk, and warns about results without a call.
fn acknowledge(cli: &Cli, id: SessionId, seqs: &[u64], asked: bool) -> Result<(), Error> {
    for seq in seqs {
        match crate::out::json(&json!({ "session": id, "seq": seq })) {
            // The reader of the acknowledgements is gone (`| head`): what was sent is stored
            // anyway.
            Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            told => told?,
        }
        if !asked {
            continue;
        }
        for entry in cli.sessions.read(id, *seq..seq + 1)? {
            let Some(message) = entry.body.message() else { continue };
            if message.role == Role::Tool && message.results().next().is_none() {
                let what = format!(
                    "entry {seq}: a tool message without a tool_result; it is stored, and left out of contexts"
                );
                warn(cli, &what);
            }
            for (result, measure) in message.results().zip(&entry.measure.results) {
                if measure.tool.is_none() {
                    let what = format!(
                        "entry {seq}: the result for `{}` answers no open call; it is stored, and left out of contexts",
                        result.tool_use_id
                    );
                    warn(cli, &what);
                }
            }
        }
    }
    Ok(())
}

/// Warns on standard error.
fn warn(cli: &Cli, what: &str) {
    match cli.global.json {
        true => json_note(&json!({ "warning": what })),
        false => note(format_args!("warning: {}", clean(what))),
    }
}

/// Lines of standard input as messages.
struct Input<R> {
    lines: R,
    number: u64,
}

impl<R: Read> Input<BufReader<R>> {
    /// Whether a complete line has already been read, so that there is no waiting for it.
    fn has_line(&self) -> bool {
        self.lines.buffer().contains(&b'\n')
    }
}

impl<R: BufRead> Input<R> {
    fn next(&mut self) -> Result<Option<Incoming>, Error> {
        loop {
            let mut line = Vec::new();
            let read =
                self.lines.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            let number = self.number;
            let bad = |what: String| Error::Line { number, what };
            if line.len() > LINE_BYTES_MAX {
                return Err(Error::LongLine { number });
            }
            let text = std::str::from_utf8(&line).map_err(|error| bad(error.to_string()))?;
            // Some editors and shells write a byte order mark at the start of a file.
            let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
            if text.trim().is_empty() {
                continue;
            }
            let mut message: Message =
                serde_json::from_str(text.trim_end()).map_err(|error| bad(why(&error)))?;
            // The id belongs to the entry, not to the message.
            let given = message.extra.iter().position(|(key, _)| key == "id");
            let given = given.map(|index| message.extra.remove(index).1);
            let id =
                match given.as_ref().map(|raw| serde_json::from_str::<Option<String>>(raw.get())) {
                    None | Some(Ok(None)) => None,
                    Some(Ok(Some(id))) => {
                        Some(EntryId::new(id).map_err(|error| bad(error.to_string()))?)
                    }
                    Some(Err(_)) => return Err(bad("`id` must be a string".into())),
                };
            return Ok(Some(Incoming { id, message }));
        }
    }
}

/// Why a line is not JSON, or not a message. It is one line, so only the column is reported.
fn why(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let mut text = error.to_string();
    let at =
        if text.contains(&place) { format!(" at column {}", error.column()) } else { "".into() };
    text = text.replace(&place, "");
    text + &at
}
