//! `import`: sessions from files of other programs.
//!
//! Files are found and reported here; their content is read by `rethread_transcript`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::{Owner, SessionId};
use rethread_transcript::import::{ImportError, ImportReceipt, Imported, import};
use rethread_transcript::read::{
    Account, Format, Options, belongs_to_transcript, describes_a_session, recognise,
};
use serde_json::{Value, json};

use super::{Cli, Done};
use crate::args::Import;
use crate::config::env;
use crate::errors::Error;
use crate::out::{ago, clean, count, fit, line, note, one_line, plural};

/// How deep folders are searched.
const DEPTH_MAX: usize = 32;

/// Bytes of a document next to the sessions that is read completely, to see whether it is damaged.
const ASIDE_BYTES_MAX: u64 = 16 << 20;

/// Keys of one file that are listed; the rest are only counted.
const KEYS_TOLD: usize = 5;

/// Columns for the description of the newest session.
const TITLE_COLUMNS: usize = 60;

/// Problems of one file that are listed; the rest are only counted.
const PROBLEMS_TOLD: usize = 5;

pub(super) fn run(cli: &Cli, args: &Import) -> Done {
    let tool = args.from.as_deref().and_then(format_of);
    let mut walk = Walk { only: tool, ..Walk::default() };
    for path in places(args)? {
        walk.start(&path);
    }
    walk.excuse();
    let bar = bar(cli, &walk);
    let (mut totals, mut tools) = (Totals::default(), Tools::default());
    let mut files = Vec::new();
    for found in &walk.found {
        let before = bar.position();
        let told = |bytes: u64| bar.set_position(before + bytes);
        let options =
            Options { zone: TimeZone::system(), modified: modified(&found.path), keys: args.keys };
        let sessions = (!args.dry_run).then_some(&cli.sessions);
        let done = import(sessions, found.format, &found.path, &options, &mut { told });
        bar.set_position(before + found.bytes);
        match done {
            Ok(receipt) => {
                totals.add(&receipt);
                match (cli.global.json, args.verbose) {
                    (true, _) => files.push(as_json(found, &receipt)),
                    (false, true) => bar.suspend(|| report(found, &receipt, args.dry_run))?,
                    (false, false) => bar.suspend(|| report_problems(found, &receipt)),
                }
                tools.add(found.format, receipt.sessions);
            }
            Err(error) => walk.skipped.push(Skipped::bad(&found.path, chain(&error))),
        }
    }
    bar.finish_and_clear();
    if cli.global.json {
        let skipped: Vec<Value> = walk
            .skipped
            .iter()
            .map(|file| json!({ "path": file.path.display().to_string(), "error": file.what }))
            .collect();
        crate::out::json(&json!({
            "files": files, "skipped": skipped, "dry_run": args.dry_run,
            "sessions": totals.sessions, "new_sessions": totals.created, "records": totals.records,
            "stored": totals.stored, "raw": totals.raw, "unreadable": totals.unreadable,
            "entries_added": totals.added, "calls": totals.calls, "pairs": totals.pairs,
            "tokens": totals.tokens,
        }))?;
    } else {
        for file in &walk.skipped {
            note(format_args!(
                "\x1b[1;33mskipped:\x1b[0m {}: {}",
                clean(&file.path.display().to_string()),
                clean(&file.what)
            ));
        }
        if args.verbose {
            totals.report(walk.found.len(), args.dry_run)?;
        }
        tools.report(cli, args.dry_run)?;
    }
    let bad = walk.skipped.iter().any(|file| file.bad) || totals.unreadable > 0;
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// An error and what caused it, in one line.
fn chain(error: &ImportError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn modified(path: &Path) -> Timestamp {
    let time = path.metadata().and_then(|meta| meta.modified()).ok();
    time.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn format_of(tool: &str) -> Option<Format> {
    Format::ALL.iter().copied().find(|format| format.name() == tool)
}

/// What to search: the given paths, or where a program keeps its sessions.
fn places(args: &Import) -> Result<Vec<PathBuf>, Error> {
    if let Some(first) = args.paths.first() {
        if args.paths.iter().all(|path| path.symlink_metadata().is_err()) {
            return Err(Error::Word {
                what: format!("there is nothing at {}", first.display()),
                hint: "name a file or a folder that exists, or a program with --from",
            });
        }
        return Ok(args.paths.clone());
    }
    let Some(tool) = &args.from else { return Ok(Vec::new()) };
    let home = env("HOME").map(PathBuf::from).ok_or(Error::NoHome)?;
    let given = |name: &str| env(name).map(PathBuf::from);
    let data = given("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
    let places = match tool.as_str() {
        "claude-code" => {
            let own = given("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
            vec![own.join("projects"), home.join(".config/claude/projects")]
        }
        "codex" => {
            let own = given("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
            vec![own.join("sessions"), own.join("archived_sessions")]
        }
        "gemini" => vec![home.join(".gemini/tmp")],
        "opencode" => vec![data.join("opencode/opencode.db"), data.join("opencode/storage")],
        "goose" => {
            let mac = home.join("Library/Application Support/Block.goose/data/sessions");
            vec![data.join("goose/sessions"), mac.join("sessions.db")]
        }
        "llm" => {
            let config = given("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
            let mac = home.join("Library/Application Support/io.datasette.llm");
            let own = given("LLM_USER_PATH").unwrap_or_else(|| config.join("io.datasette.llm"));
            vec![own.join("logs.db"), mac.join("logs.db")]
        }
        "pi" => vec![home.join(".pi/agent/sessions")],
        "aider" => vec![PathBuf::from(".aider.chat.history.md")],
        "magent" => {
            vec![home.join(".emacs.d/magent-sessions"), home.join(".config/emacs/magent-sessions")]
        }
        _ => vec![home.join(".agent/sessions")],
    };
    let there: Vec<PathBuf> = places.iter().filter(|place| place.exists()).cloned().collect();
    match there.is_empty() {
        true => Err(Error::NoPlace { tool: tool.clone(), places }),
        false => Ok(there),
    }
}

/// A file to import.
struct Found {
    path: PathBuf,
    format: Format,
    bytes: u64,
}

/// What was found, and what was skipped.
#[derive(Default)]
struct Walk {
    only: Option<Format>,
    root: PathBuf,
    seen: HashSet<PathBuf>,
    found: Vec<Found>,
    skipped: Vec<Skipped>,
}

/// A file that was skipped.
struct Skipped {
    path: PathBuf,
    what: String,
    /// It may be a session, unlike other files of the program.
    bad: bool,
}

impl Skipped {
    fn bad(path: &Path, what: impl Into<String>) -> Skipped {
        Skipped { path: path.to_owned(), what: what.into(), bad: true }
    }
}

impl Walk {
    fn start(&mut self, path: &Path) {
        match std::fs::canonicalize(path) {
            Ok(root) => {
                self.root = root.clone();
                self.look(&root, DEPTH_MAX, true);
            }
            Err(error) => self.skip(path, error.to_string()),
        }
    }

    fn skip(&mut self, path: &Path, what: impl Into<String>) {
        self.skipped.push(Skipped::bad(path, what));
    }

    fn look(&mut self, path: &Path, depth: usize, asked_for: bool) {
        if !self.seen.insert(path.to_owned()) {
            return;
        }
        let meta = match path.metadata() {
            Ok(meta) => meta,
            Err(error) => return self.skip(path, error.to_string()),
        };
        if !meta.is_dir() && !meta.is_file() {
            return self.skip(path, "it is neither a file nor a folder");
        }
        let format = match recognise(path) {
            Ok(format) => format,
            Err(error) => return self.skip(path, error.to_string()),
        };
        let wanted = |format: &Format| self.only.is_none_or(|only| only == *format);
        match format {
            Some(format) if wanted(&format) => {
                let bytes = if meta.is_dir() { size(path, depth) } else { meta.len() };
                self.found.push(Found { path: path.to_owned(), format, bytes });
            }
            _ if meta.is_dir() => self.folder(path, depth),
            // Programs keep other files next to their sessions.
            _ if self.only.is_some() && !asked_for => {}
            _ => {
                let bad = asked_for || !is_something_else(path, meta.len());
                let what = unknown(path, meta.len());
                self.skipped.push(Skipped { path: path.to_owned(), what, bad });
            }
        }
    }

    fn folder(&mut self, path: &Path, depth: usize) {
        if depth == 0 {
            return self.skip(path, "it is nested too deeply");
        }
        let mut inside: Vec<PathBuf> = match std::fs::read_dir(path) {
            Ok(entries) => entries.filter_map(|entry| entry.ok().map(|e| e.path())).collect(),
            Err(error) => return self.skip(path, error.to_string()),
        };
        inside.sort();
        for path in inside {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') && !name.starts_with(".aider") {
                continue;
            }
            if path.is_symlink() {
                self.link(&path);
            } else if describes_a_session(&path) {
                // It is kept with the session next to it.
            } else if belongs_to_transcript(&path) {
                note(format_args!(
                    "{} belongs to the Markdown transcript of the same name and is kept with it",
                    clean(&path.display().to_string())
                ));
            } else {
                self.look(&path, depth - 1, false);
            }
        }
    }

    /// Lines of another kind in a file next to sessions belong to something else of the same
    /// program, such as a journal. If nothing else is there, they may be sessions of an unknown
    /// format.
    fn excuse(&mut self) {
        let folders: HashSet<&Path> =
            self.found.iter().filter_map(|found| found.path.parent()).collect();
        for file in &mut self.skipped {
            let is_beside = file.path.parent().is_some_and(|folder| folders.contains(folder));
            file.bad &= !(is_beside && is_lines(&file.path));
        }
    }

    /// Links are followed only to files of the same folder, which are found anyway.
    fn link(&mut self, path: &Path) {
        match std::fs::canonicalize(path) {
            Ok(target) if target.is_file() && target.starts_with(&self.root) => {}
            Ok(target) if target.is_dir() => {
                self.skip(path, "it is a link to a folder, which is not followed");
            }
            Ok(_) => self.skip(path, "it is a link to a place outside the folder"),
            Err(error) => self.skip(path, error.to_string()),
        }
    }
}

/// Whether a file consists of complete records, one per line.
fn is_lines(path: &Path) -> bool {
    let is_small = path.metadata().is_ok_and(|meta| (1..=ASIDE_BYTES_MAX).contains(&meta.len()));
    path.extension().is_some_and(|kind| kind == "jsonl")
        && is_small
        && std::fs::read_to_string(path).is_ok_and(|text| {
            let is_record =
                |line: &str| serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok();
            text.lines().filter(|line| !line.trim().is_empty()).all(is_record)
        })
}

/// Whether a file is neither a transcript nor a damaged one: it has another kind of name, or it is
/// one complete JSON document.
fn is_something_else(path: &Path, bytes: u64) -> bool {
    match path.extension().and_then(|kind| kind.to_str()) {
        Some("json") if (1..=ASIDE_BYTES_MAX).contains(&bytes) => std::fs::read(path)
            .is_ok_and(|text| serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok()),
        Some("json" | "jsonl" | "db" | "sqlite") => false,
        _ => true,
    }
}

fn unknown(path: &Path, bytes: u64) -> String {
    let mut head = [0; 16];
    let read = std::fs::File::open(path)
        .and_then(|mut file| std::io::Read::read(&mut file, &mut head))
        .unwrap_or(0);
    match &head[..read] {
        _ if bytes == 0 => "it is empty".into(),
        head if head.starts_with(b"SQLite format 3") => {
            "it is a SQLite database with an unknown layout".into()
        }
        head if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) => {
            "it is UTF-16; transcripts are UTF-8".into()
        }
        _ => "it is not a transcript in a known format".into(),
    }
}

fn size(folder: &Path, depth: usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        match entry.file_type().ok()? {
            kind if kind.is_dir() && depth > 0 => Some(size(&entry.path(), depth - 1)),
            kind if kind.is_file() => entry.metadata().ok().map(|meta| meta.len()),
            _ => None,
        }
    });
    sizes.sum()
}

/// Bytes, rate and time left, at a terminal.
fn bar(cli: &Cli, walk: &Walk) -> ProgressBar {
    if cli.global.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bytes = walk.found.iter().map(|found| found.bytes).sum();
    let form = "{bar:30} {bytes} of {total_bytes} · {bytes_per_sec} · {eta} left";
    let style = ProgressStyle::with_template(form).expect("a valid template");
    ProgressBar::new(bytes).with_style(style)
}

fn report(found: &Found, receipt: &ImportReceipt, dry_run: bool) -> Result<(), Error> {
    let Account { records, stored, raw, unreadable, .. } = receipt.account;
    let verb = if dry_run { "to add" } else { "added" };
    line(format_args!(
        "\x1b[1m{}\x1b[0m ({}): {}",
        clean(&found.path.display().to_string()),
        found.format.name(),
        plural(receipt.account.sessions, "session")
    ))?;
    line(format_args!(
        "  {} = {} stored + {} kept raw + {} unreadable; {} {verb}",
        plural(records, "record"),
        count(stored),
        count(raw),
        count(unreadable),
        plural(receipt.added, "entry")
    ))?;
    let kinds: Vec<String> = receipt
        .account
        .kinds
        .iter()
        .map(|(name, kind)| {
            let mut parts = Vec::new();
            for (number, what) in
                [(kind.stored, ""), (kind.raw, " raw"), (kind.unreadable, " unreadable")]
            {
                if number > 0 {
                    parts.push(format!("{}{what}", count(number)));
                }
            }
            format!("{} {}", clean(name), parts.join(" + "))
        })
        .collect();
    if !kinds.is_empty() {
        line(format_args!("  {}", kinds.join(" · ")))?;
    }
    report_pairs(&receipt.account)?;
    if let Some(keys) = keys_left(receipt) {
        line(format_args!("  {keys}"))?;
    }
    for what in &receipt.account.notes {
        line(format_args!("  note: {}", clean(what)))?;
    }
    for problem in receipt.account.problems.iter().take(PROBLEMS_TOLD) {
        line(format_args!("  unreadable: {}: {}", clean(&problem.place), clean(&problem.what)))?;
    }
    Ok(())
}

/// The keys in a file that were not bound, and how to bind them.
fn keys_left(receipt: &ImportReceipt) -> Option<String> {
    let keys = receipt.sessions.iter().flat_map(|session| &session.keys_left);
    let keys: Vec<String> = keys.map(|key| one_line(key)).collect();
    let shown = shown_keys(&keys);
    (!keys.is_empty()).then(|| {
        format!(
            "not bound to {shown}, which the file names: `--keys` does that, for files you trust"
        )
    })
}

/// The first keys of a file, and how many more there are.
fn shown_keys(keys: &[String]) -> String {
    let shown = keys.iter().take(KEYS_TOLD).cloned().collect::<Vec<_>>().join(", ");
    match keys.len().saturating_sub(KEYS_TOLD) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

/// Reports problems of a file, without `--verbose`.
fn report_problems(found: &Found, receipt: &ImportReceipt) {
    let (path, account) = (clean(&found.path.display().to_string()), &receipt.account);
    if let Some(keys) = keys_left(receipt) {
        note(format_args!("{path}: {keys}"));
    }
    for problem in account.problems.iter().take(PROBLEMS_TOLD) {
        let (place, what) = (clean(&problem.place), clean(&problem.what));
        note(format_args!("\x1b[1;33munreadable:\x1b[0m {path}, {place}: {what}"));
    }
    let more = account.unreadable.saturating_sub(PROBLEMS_TOLD as u64);
    if more > 0 {
        note(format_args!("\x1b[1;33munreadable:\x1b[0m {path}: {} more", count(more)));
    }
    if account.sessions == 0 {
        for what in &account.notes {
            note(format_args!("note: {path}: {}", clean(what)));
        }
    }
}

fn report_pairs(account: &Account) -> Result<(), Error> {
    let mut text =
        format!("  {}, {} with a result", plural(account.calls, "tool call"), count(account.pairs));
    for (number, why) in [
        (account.open, "open when the session ended"),
        (account.dropped, "dropped when the conversation continued"),
    ] {
        if number > 0 {
            text = format!("{text}, {} {why}", count(number));
        }
    }
    if account.orphans > 0 {
        let results = plural(account.orphans, "result");
        text = format!("{text}, {results} whose call is not in the file");
    }
    let tokens = account.tokens;
    line(format_args!(
        "{text}; {} tokens (in {}, out {}, cache read {}, cache write {})",
        count(tokens.total()),
        count(tokens.input),
        count(tokens.output),
        count(tokens.cache_read),
        count(tokens.cache_write)
    ))
}

fn as_json(found: &Found, receipt: &ImportReceipt) -> Value {
    let sessions: Vec<Value> = receipt
        .sessions
        .iter()
        .map(|session| {
            json!({
                "id": session.id, "owner": session.owner, "name": session.name,
                "new": session.created, "added": session.added, "changed": session.changed,
                "keys_left": session.keys_left,
            })
        })
        .collect();
    json!({
        "path": found.path.display().to_string(),
        "format": found.format.name(),
        "sessions": sessions,
        "entries_added": receipt.added,
        "account": receipt.account,
    })
}

/// The totals of all files.
#[derive(Default)]
struct Totals {
    sessions: u64,
    created: u64,
    records: u64,
    stored: u64,
    raw: u64,
    unreadable: u64,
    added: u64,
    calls: u64,
    pairs: u64,
    tokens: u64,
}

impl Totals {
    fn add(&mut self, receipt: &ImportReceipt) {
        let account = &receipt.account;
        self.sessions += account.sessions;
        self.created += receipt.sessions.iter().filter(|session| session.created).count() as u64;
        self.records += account.records;
        self.stored += account.stored;
        self.raw += account.raw;
        self.unreadable += account.unreadable;
        self.added += receipt.added;
        self.calls += account.calls;
        self.pairs += account.pairs;
        self.tokens = self.tokens.saturating_add(account.tokens.total());
    }

    fn report(&self, files: usize, dry_run: bool) -> Result<(), Error> {
        let verb = if dry_run { "Would add" } else { "Added" };
        line(format_args!(
            "{verb} {} in {} from {}. {} = {} stored + {} kept raw + {} unreadable.",
            plural(self.added, "entry"),
            plural(self.sessions, "session"),
            plural(files as u64, "file"),
            plural(self.records, "record"),
            count(self.stored),
            count(self.raw),
            count(self.unreadable)
        ))
    }
}

/// Sessions by owner and id: one may be in several files.
type ById = HashMap<(Owner, SessionId), Imported>;

/// The sessions of each program.
#[derive(Default)]
struct Tools(Vec<(Format, ById)>);

impl Tools {
    fn add(&mut self, format: Format, sessions: Vec<Imported>) {
        let place = self.0.iter().position(|(known, _)| *known == format);
        let place = place.unwrap_or_else(|| {
            self.0.push((format, HashMap::new()));
            self.0.len() - 1
        });
        for session in sessions {
            let Imported { created, added, last_at, .. } = session;
            let key = (session.owner.clone(), session.id);
            let known = self.0[place].1.entry(key).or_insert(Imported { added: 0, ..session });
            known.created |= created;
            known.added += added;
            known.last_at = known.last_at.max(last_at);
        }
    }

    /// Reports for each program how many sessions it has, and which is the newest.
    fn report(&self, cli: &Cli, dry_run: bool) -> Result<(), Error> {
        if self.0.iter().all(|(_, sessions)| sessions.is_empty()) {
            return line("No sessions found.");
        }
        let would = if dry_run { "Would import " } else { "" };
        for (format, sessions) in &self.0 {
            let newest = sessions.values().max_by_key(|session| (session.last_at, session.id));
            let Some(newest) = newest else { continue };
            let noun = if sessions.len() == 1 { "session" } else { "sessions" };
            line(format_args!(
                "{would}{} {} {noun}, newest: {}, {}{}",
                count(sessions.len() as u64),
                format.title(),
                shown(cli, newest, dry_run),
                ago(newest.last_at, cli.now),
                if dry_run { String::new() } else { what_is_new(sessions.values()) }
            ))?;
            let owners: BTreeSet<&str> = sessions.keys().map(|(owner, _)| owner.as_str()).collect();
            for owner in owners.into_iter().filter(|owner| owner.starts_with("telegram:")) {
                let owner = clean(owner);
                line(format_args!("  of the owner {owner}: `rethread list --owner {owner}`"))?;
            }
        }
        Ok(())
    }
}

/// How a session is described: by its title, its first words, or its name.
fn shown(cli: &Cli, session: &Imported, dry_run: bool) -> String {
    let stored = || cli.sessions.of_owner(session.owner.clone()).get(session.id).ok();
    let named = || session.name.clone().unwrap_or_else(|| session.id.short());
    let Some(stored) = (!dry_run).then(stored).flatten() else { return clean(&named()) };
    let title = stored.header.profile.description.unwrap_or(stored.first_message);
    match fit(&title, TITLE_COLUMNS) {
        title if title.is_empty() => clean(&stored.header.name.to_string()),
        title => format!("\"{title}\""),
    }
}

fn what_is_new<'a>(sessions: impl Iterator<Item = &'a Imported>) -> String {
    let (mut new, mut grew) = (0, 0);
    for session in sessions {
        new += usize::from(session.created);
        grew += usize::from(!session.created && session.added > 0);
    }
    match (new, grew) {
        (0, 0) => " (nothing new)".into(),
        (0, grew) => format!(" ({grew} grew)"),
        (new, 0) => format!(" ({new} new)"),
        (new, grew) => format!(" ({new} new, {grew} grew)"),
    }
}
