//! `export`: a session as a file, for people or for other programs.

use std::fs::OpenOptions;
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use jiff::tz::TimeZone;
use rethread_core::entry::PreviousSession;
use rethread_core::limits::PREVIEW_CHARS;
use rethread_core::{Body, Entry, Place, Session, SessionId, StoreError, sessions};
use rethread_transcript::redact::Redactor;
use rethread_transcript::write::markdown::{self, TranscriptHeader, WriteError};
use rethread_transcript::write::writer;

use super::{Cli, Done};
use crate::args::Export;
use crate::errors::Error;
use crate::out::{clean, json_note, note, plural};

/// Sessions of a chain that are followed. A longer one was made by going round.
const CHAIN_MAX: usize = 10_000;

/// The separator between two transcripts in one document.
const BETWEEN: &str = "\n---\n\n";

pub(super) fn run(cli: &Cli, args: &Export) -> Done {
    let id = cli.select(&args.sel)?;
    let chain = match args.chain {
        true => lineage(cli, id)?,
        false => vec![cli.sessions.get(id)?],
    };
    let redacts = args.redact || args.format == "html" && !args.no_redact;
    let mut job = Job {
        cli,
        format: &args.format,
        chain: &chain,
        // The lines hold the whole log: they are what a session is moved and backed up with.
        all: args.all || args.format == "rethread",
        cleared: 0,
        damaged: None,
        redactor: redacts.then(Redactor::new),
        left_out: Vec::new(),
    };
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None if args.format == "markdown" && std::io::stdout().is_terminal() => {
            // A file keeps marks that some scripts need; on a screen they can hide things.
            let mut page = Vec::new();
            job.write(&mut page)?;
            let mut out = std::io::stdout().lock();
            out.write_all(clean(&String::from_utf8_lossy(&page)).as_bytes())?;
            out.flush()?;
        }
        None => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            job.write(&mut out)?;
            out.flush()?;
        }
        Some(path) => {
            replace(path, |out| {
                job.write(out)?;
                // The file that is there may hold what was damaged since.
                if path.exists() { job.complain() } else { Ok(()) }
            })?;
            job.say(format!("Written to {}", path.display()));
        }
    }
    job.report();
    // The rest is written; that something is missing is an error all the same.
    job.complain()?;
    Ok(ExitCode::SUCCESS)
}

/// A session and those it came from, oldest first.
fn lineage(cli: &Cli, id: SessionId) -> Result<Vec<Session>, Error> {
    let mut chain = vec![cli.sessions.get(id)?];
    while let Some(parent) = chain.last().and_then(|session| session.header.parent) {
        let known = chain.iter().any(|session| session.id() == parent.id);
        match cli.sessions.get(parent.id) {
            Ok(session) if !known && chain.len() < CHAIN_MAX => chain.push(session),
            // It was deleted, or never imported: the chain begins here.
            _ => break,
        }
    }
    chain.reverse();
    Ok(chain)
}

struct Job<'a> {
    cli: &'a Cli,
    format: &'a str,
    chain: &'a [Session],
    /// What was said before the last clear is written too.
    all: bool,
    /// Messages from before the last clear that were not.
    cleared: u64,
    /// The first entry that cannot be read. Those are left out.
    damaged: Option<Place>,
    redactor: Option<Redactor>,
    left_out: Vec<(&'static str, u64)>,
}

impl<'a> Job<'a> {
    fn write(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        match self.format {
            "markdown" => self.markdown(out),
            format => self.other(format, out),
        }
    }

    /// The session as the file describes it: previews and counts leave out what was cleared.
    fn session(&mut self, session: &Session) -> Result<Session, Error> {
        let mut shown = session.clone();
        if let Some(clear) = session.tally.boundary.filter(|_| !self.all) {
            shown.tally.messages = shown.tally.messages.saturating_sub(clear.messages);
            let place = Place { session: session.id(), seq: clear.seq };
            let cleared = self.cli.sessions.entry_at(place)?.tally.queries;
            shown.tally.queries = shown.tally.queries.saturating_sub(cleared);
            let since = clear.seq + 1..session.tally.entries;
            shown.first_message = String::new();
            for entry in self.cli.sessions.entries(session.id(), since).skip_damaged() {
                if let Body::Message(message) = entry?.body
                    && message.opens_turn()
                {
                    let text = message.plain_text();
                    shown.first_message = text.chars().take(PREVIEW_CHARS).collect();
                    break;
                }
            }
        }
        Ok(match &mut self.redactor {
            Some(redactor) => redactor.session(&shown),
            None => shown,
        })
    }

    /// The entries that are written: all, or those since the last clear and the instructions that
    /// hold.
    fn entries(
        &mut self,
        session: &Session,
    ) -> impl Iterator<Item = sessions::Result<Entry>> + use<'a> {
        let (begins, system) = match session.tally.boundary.filter(|_| !self.all) {
            Some(clear) => {
                self.cleared += clear.messages;
                (clear.seq + 1, session.tally.system.filter(|seq| *seq < clear.seq))
            }
            None => (0, None),
        };
        let (cli, id) = (self.cli, session.id());
        let read = |range| cli.sessions.entries(id, range).skip_damaged();
        let system = system.map_or(0..0, |seq| seq..seq + 1);
        read(system).chain(read(begins..session.tally.entries))
    }

    fn markdown(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        for (index, session) in self.chain.iter().enumerate() {
            if index > 0 {
                out.write_all(BETWEEN.as_bytes())?;
            }
            let shown = self.session(session)?;
            let page = TranscriptHeader {
                session: &shown,
                agent: shown.header.profile.agent.as_deref().unwrap_or_default(),
                previous: self.previous(session)?,
                zone: TimeZone::system(),
            };
            let all = self.entries(session);
            let (redactor, damaged) = (&mut self.redactor, &mut self.damaged);
            let (cli, id) = (self.cli, session.id());
            // The transcript says where one is missing.
            let all = all.inspect(|entry| {
                is_there(cli, id, entry, damaged);
            });
            let all = all.map(|entry| match redactor {
                Some(redactor) => entry.map(|entry| redactor.entry(&entry)),
                None => entry,
            });
            match markdown::write(&page, all, out) {
                Ok(_) => {}
                Err(WriteError::Io(error)) => return Err(error.into()),
                Err(WriteError::Entries(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What a session knows about the one it continues.
    fn previous(&mut self, session: &Session) -> Result<Option<PreviousSession>, sessions::Error> {
        let Some(seq) = session.tally.started else { return Ok(None) };
        let entry = self.cli.sessions.read(session.id(), seq..seq + 1)?.pop();
        let Some(Body::Restored(restored)) = entry.map(|entry| entry.body) else {
            return Ok(None);
        };
        let mut previous = restored.previous;
        if let Some(redactor) = &mut self.redactor {
            previous.id = redactor.text(&previous.id).into_owned();
            previous.file = previous.file.map(|file| redactor.text(&file).into_owned());
        }
        Ok(Some(previous))
    }

    fn other(&mut self, format: &str, out: &mut dyn Write) -> Result<(), Error> {
        let mut writer =
            writer(format, out, TimeZone::system()).expect("the command line knows the formats");
        let (mut attachments, mut damaged) = (0, 0);
        for session in self.chain {
            let shown = self.session(session)?;
            writer.begin(&shown)?;
            let blobs = self.cli.sessions.blobs(session.id())?;
            // What is in them cannot be redacted.
            let takes = writer.takes_blobs() && self.redactor.is_none();
            for blob in blobs.iter().filter(|_| takes) {
                match self.cli.sessions.blob(session.id(), blob.id) {
                    Ok(bytes) => writer.blob(blob.id, &bytes)?,
                    // The conversation is not the worse for it.
                    Err(sessions::Error::Store(StoreError::BadBlob { .. })) => damaged += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            attachments += if takes { 0 } else { blobs.len() as u64 };
            for entry in self.entries(session) {
                let is_there = is_there(self.cli, session.id(), &entry, &mut self.damaged);
                // Only a page for people has a place for what is missing.
                if !is_there && format != "html" {
                    continue;
                }
                let entry: Entry = entry?;
                match &mut self.redactor {
                    Some(redactor) => writer.entry(&redactor.entry(&entry))?,
                    None => writer.entry(&entry)?,
                }
            }
        }
        writer.finish()?;
        self.left_out = writer.left_out().iter().map(|(what, count)| (*what, *count)).collect();
        if attachments > 0 {
            self.left_out.push(("attachment", attachments));
        }
        if damaged > 0 {
            self.left_out.push(("damaged attachment", damaged));
        }
        Ok(())
    }

    /// The error that reading the damaged entry gives, where there is one.
    fn complain(&self) -> Result<(), Error> {
        if let Some(Place { session, seq }) = self.damaged {
            self.cli.sessions.read(session, seq..seq + 1)?;
        }
        Ok(())
    }

    /// Says what is not in the file.
    fn report(&self) {
        if let Some(redactor) = &self.redactor {
            let removed: Vec<String> =
                redactor.removed().iter().map(|(rule, count)| format!("{rule} {count}")).collect();
            self.say(match removed.is_empty() {
                true => "Redacted: nothing was found. Read it before you publish it.".into(),
                false => {
                    format!("Redacted: {}. Read it before you publish it.", removed.join(", "))
                }
            });
        }
        if self.cleared > 0 {
            let left = plural(self.cleared, "message");
            self.say(format!("Left out: {left} from before the last clear (--all includes them)"));
        }
        if !self.left_out.is_empty() {
            let left: Vec<String> =
                self.left_out.iter().map(|(what, count)| plural(*count, what)).collect();
            self.say(format!("Not in this format: {}", left.join(", ")));
        }
    }

    fn say(&self, what: String) {
        match self.cli.global.json {
            true => json_note(&serde_json::json!({ "note": what })),
            false => note(what),
        }
    }
}

/// Whether an entry can be written; the first that cannot is kept in `damaged`. An entry that
/// `doctor` put in the place of a lost one can.
fn is_there(
    cli: &Cli,
    session: SessionId,
    entry: &sessions::Result<Entry>,
    damaged: &mut Option<Place>,
) -> bool {
    let Some(seq) = entry.as_ref().ok().filter(|entry| entry.is_lost()).map(|entry| entry.seq)
    else {
        return true;
    };
    let is_there = cli.sessions.read(session, seq..seq + 1).is_ok();
    if !is_there {
        damaged.get_or_insert(Place { session, seq });
    }
    is_there
}

/// Writes a file next to the existing one, readable by its owner alone, then puts it in its
/// place: a failure leaves the old one.
fn replace(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let wrong =
        |error: std::io::Error| Error::Write { path: path.to_owned(), what: error.to_string() };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
    let mut out = BufWriter::new(file.map_err(wrong)?);
    let written = fill(&mut out).and_then(|()| {
        let file = out.into_inner().map_err(|error| wrong(error.into_error()))?;
        file.sync_all().and_then(|()| std::fs::rename(&beside, path)).map_err(wrong)
    });
    if written.is_err() {
        // A partial file is useless; the first error is the one that is reported.
        std::fs::remove_file(&beside).ok();
    }
    written
}
