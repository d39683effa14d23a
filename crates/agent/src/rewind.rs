//! Goes back to an earlier turn of a session: lists the turns and what was done since, and restores
//! files.
//!
//! The conversation goes back with a fork, which the caller makes: nothing is lost. Files are
//! restored only if the user agrees, from what `file_history.rs` stored, and their current content
//! is stored first. Paths in a log are untrusted: each is resolved below the workspace, like a
//! model's.

use std::sync::Arc;

use jiff::Timestamp;
use rethread_core::entry::Origin;
use rethread_core::turn::TurnPart;
use rethread_core::{BlobId, Entry, Place, SessionId, sessions};

use crate::file_history::FileChanged;
use crate::grant::RUN;
use crate::limits::{REWIND_OTHERS_MAX, REWIND_PARENTS_MAX};
use crate::permission::{DECLINED, NOT_RUN};
use crate::runner::Runner;
use crate::subagent::TASK;
use crate::tool::Workspace;

/// A turn to go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct PastTurn {
    /// The position of its question: in this session, or in one that was compacted into it.
    pub place: Place,
    /// When it was asked.
    pub at: Timestamp,
    pub question: String,
    /// Files that were changed in it.
    pub files: usize,
}

/// What was done since a turn began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneSince {
    /// Files that tools changed, in the order of their first change.
    pub files: Vec<PastFile>,
    /// Commands that ran, then tasks of subagents, which may have run some. What commands changed
    /// is not known.
    pub commands: Vec<String>,
    /// Files of other workspaces, and files that are no longer accessible, with the reason.
    pub out_of_reach: Vec<(String, String)>,
}

/// A file that tools changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastFile {
    /// The file, relative to the workspace.
    pub path: String,
    /// Its content when the turn began; `None` if it did not exist.
    pub then: Option<Vec<u8>>,
    /// Its content after the tools' last change.
    pub left: Option<Vec<u8>>,
    /// What someone else did to it between the tools' changes: at most the last
    /// [`REWIND_OTHERS_MAX`](crate::limits::REWIND_OTHERS_MAX).
    pub others: Vec<ByOthers>,
    /// Its current content.
    pub now: Option<Vec<u8>>,
}

/// What someone else did to a file between two changes by tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByOthers {
    /// The content that a tool left.
    pub from: Option<Vec<u8>>,
    /// The content that the next one found.
    pub to: Option<Vec<u8>>,
}

impl PastFile {
    /// Whether it has its earlier content.
    pub fn has_earlier_content(&self) -> bool {
        self.now == self.then
    }

    /// Whether someone else changed it, after the tools did or between their changes.
    pub fn changed_meanwhile(&self) -> bool {
        let by_others = self.now != self.left || !self.others.is_empty();
        by_others && !self.has_earlier_content()
    }
}

/// The turns of a session's log, oldest first.
fn turns_of(session: SessionId, entries: &[Entry]) -> Vec<PastTurn> {
    let mut turns: Vec<PastTurn> = Vec::new();
    let mut paths: Vec<String> = Vec::new();
    for entry in entries {
        if let TurnPart::Question(message) = TurnPart::of(&entry.body) {
            let question = message.plain_text();
            let place = Place { session, seq: entry.seq };
            turns.push(PastTurn { place, at: entry.at, question, files: 0 });
            paths.clear();
        }
        if let (Some(changed), Some(turn)) = (FileChanged::of(&entry.body), turns.last_mut())
            && changed.call.is_some()
            && !paths.contains(&changed.path)
        {
            turn.files += 1;
            paths.push(changed.path);
        }
    }
    turns
}

/// The content of a file before the first of some changes, and after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    path: String,
    workspace: String,
    then: Option<Kept>,
    left: Option<Kept>,
    /// What a tool left, and what the next one found, where that was something else.
    others: Vec<(Option<Kept>, Option<Kept>)>,
}

/// A blob, and the session it was kept with.
type Kept = (SessionId, BlobId);

/// The changes of each file in these entries. Restores by the user are ignored: what they brought
/// back is either what a tool left, or has someone else's changes in it.
fn spans(entries: &[(SessionId, Entry)]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (session, entry) in entries {
        let Some(changed) = FileChanged::of(&entry.body) else { continue };
        let FileChanged { path, workspace, before, after, call } = changed;
        if call.is_none() {
            continue;
        }
        let kept = |blob: Option<BlobId>| blob.map(|blob| (*session, blob));
        let (before, after) = (kept(before), kept(after));
        let same = |span: &&mut Span| span.path == path && span.workspace == workspace;
        match spans.iter_mut().find(same) {
            Some(span) => {
                let blob = |kept: &Option<Kept>| kept.map(|(_, blob)| blob);
                if blob(&before) != blob(&span.left) {
                    span.others.push((span.left, before));
                }
                span.left = after;
            }
            None => {
                let others = Vec::new();
                spans.push(Span { path, workspace, then: before, left: after, others });
            }
        }
    }
    spans
}

/// The commands that ran in these entries, then the tasks of subagents, which may have run some;
/// not those that were declined, or that someone stopped before they began.
fn commands(entries: &[(SessionId, Entry)]) -> Vec<String> {
    let mut ran: Vec<(bool, String, String)> = Vec::new();
    for message in entries.iter().filter_map(|(_, entry)| entry.body.message()) {
        for call in message.calls() {
            let input: serde_json::Value =
                serde_json::from_str(call.input.get()).unwrap_or_default();
            let text = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
            match call.name.as_str() {
                RUN => ran.push((false, call.id.clone(), text("command"))),
                TASK => {
                    let task = format!("{TASK} {}: {}", text("agent"), text("prompt"));
                    ran.push((true, call.id.clone(), task));
                }
                _ => {}
            }
        }
        for result in message.results() {
            let text = result.text();
            if result.is_error && (text.starts_with(DECLINED) || text == NOT_RUN) {
                ran.retain(|(_, id, _)| *id != result.tool_use_id);
            }
        }
    }
    // A list that is cut must not lose what is known to have run.
    ran.sort_by_key(|(is_task, _, _)| *is_task);
    ran.into_iter().map(|(_, _, command)| command).collect()
}

impl Runner {
    /// The turns of a session, oldest first, including those before a compaction: for the user it
    /// is one conversation.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session.
    pub fn past_turns(&self, id: SessionId) -> Result<Vec<PastTurn>, sessions::Error> {
        let mut turns = Vec::new();
        for session in self.compacted(id)? {
            turns.extend(turns_of(session, &self.since(session, 0)?));
        }
        Ok(turns)
    }

    /// What was done in the session `id` since the turn at `from` began, which is in it or in one
    /// that it continues.
    ///
    /// # Errors
    ///
    /// I/O errors of the store. Problems with a single file are part of the result.
    pub fn done_since(&self, id: SessionId, from: Place) -> Result<DoneSince, sessions::Error> {
        let mut entries: Vec<(SessionId, Entry)> = Vec::new();
        for session in self.compacted(id)?.into_iter().skip_while(|it| *it != from.session) {
            let seq = if session == from.session { from.seq } else { 0 };
            entries.extend(self.since(session, seq)?.into_iter().map(|entry| (session, entry)));
        }
        let mut done = DoneSince { commands: commands(&entries), ..DoneSince::default() };
        let here = self.responder.workspace.as_deref();
        for Span { path, workspace, then, left, others } in spans(&entries) {
            let found = match self.responder.tools.workspace() {
                Some(tools) if here == Some(workspace.as_str()) => tools.content(&path),
                _ => {
                    done.out_of_reach.push((path, format!("it is in {workspace}")));
                    continue;
                }
            };
            let bytes = |kept: Option<Kept>| {
                kept.map(|(session, blob)| self.sessions().blob(session, blob)).transpose()
            };
            let past = |now| -> Result<PastFile, sessions::Error> {
                let last = others.len().saturating_sub(REWIND_OTHERS_MAX);
                let by_others = others[last..]
                    .iter()
                    .map(|(from, to)| Ok(ByOthers { from: bytes(*from)?, to: bytes(*to)? }));
                let others = by_others.collect::<Result<_, sessions::Error>>()?;
                let (then, left) = (bytes(then)?, bytes(left)?);
                Ok(PastFile { path: path.clone(), then, left, others, now })
            };
            match found.map(past) {
                Ok(Ok(file)) => done.files.push(file),
                Ok(Err(error)) => done.out_of_reach.push((path, error.to_string())),
                Err(failure) => done.out_of_reach.push((path, failure.0)),
            }
        }
        Ok(done)
    }

    /// Restores a file. Its current content is first stored with the session `id`, with an entry
    /// about it.
    ///
    /// # Errors
    ///
    /// Why it was not restored; the file is unchanged then.
    pub fn put_back(&self, id: SessionId, file: &PastFile) -> Result<(), String> {
        let nowhere = || "no workspace".to_owned();
        let tools: &Arc<Workspace> = self.responder.tools.workspace().ok_or_else(nowhere)?;
        let workspace = self.responder.workspace.clone().ok_or_else(nowhere)?;
        if tools.content(&file.path).map_err(|failure| failure.0)? != file.now {
            return Err("it changed just now".to_owned());
        }
        let kept = |bytes: &Option<Vec<u8>>| {
            bytes.as_ref().map(|bytes| self.sessions().put_blob(id, bytes)).transpose()
        };
        let note = || -> Result<(), sessions::Error> {
            let (before, after) = (kept(&file.now)?, kept(&file.then)?);
            let path = file.path.clone();
            let changed = FileChanged { path, workspace, before, after, call: None };
            self.sessions().thread(id)?.note(changed.body())?;
            Ok(())
        };
        note().map_err(|error| format!("its content could not be saved: {error}"))?;
        tools.put_back(&file.path, file.then.as_deref()).map_err(|failure| failure.0)
    }

    /// The files that the user restored in a session since it was started, as they were before
    /// that. Empty if that was in another workspace.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session,
    /// and [`StoreError::BadBlob`](rethread_core::StoreError::BadBlob) if a saved file is damaged.
    pub fn files_put_back(&self, id: SessionId) -> Result<Vec<PastFile>, sessions::Error> {
        let started = self.sessions().get(id)?.tally.started.unwrap_or(0);
        let here = self.responder.workspace.as_deref();
        let mut files = Vec::new();
        for entry in self.since(id, started)? {
            let Some(changed) = FileChanged::of(&entry.body) else { continue };
            let found = match self.responder.tools.workspace() {
                Some(tools) if here == Some(changed.workspace.as_str()) => {
                    tools.content(&changed.path)
                }
                _ => continue,
            };
            let bytes =
                |blob: Option<BlobId>| blob.map(|blob| self.sessions().blob(id, blob)).transpose();
            if let (None, Ok(now)) = (changed.call, found) {
                let (then, left) = (bytes(changed.before)?, bytes(changed.after)?);
                let others = Vec::new();
                files.push(PastFile { path: changed.path, then, left, others, now });
            }
        }
        Ok(files)
    }

    /// A session, after those it continues because they were compacted.
    fn compacted(&self, id: SessionId) -> Result<Vec<SessionId>, sessions::Error> {
        let mut chain = vec![id];
        let mut parent = self.sessions().get(id)?.header.parent;
        while let Some(before) = parent.filter(|parent| parent.origin == Origin::Compact)
            && chain.len() <= REWIND_PARENTS_MAX
        {
            // What was deleted meanwhile cannot be returned to.
            let Ok(session) = self.sessions().get(before.id) else { break };
            chain.push(before.id);
            parent = session.header.parent;
        }
        chain.reverse();
        Ok(chain)
    }

    fn since(&self, id: SessionId, seq: u64) -> Result<Vec<Entry>, sessions::Error> {
        let end = self.sessions().get(id)?.tally.entries;
        self.sessions().entries(id, seq..end).skip_damaged().collect()
    }
}
