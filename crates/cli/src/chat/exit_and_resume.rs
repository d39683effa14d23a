//! Exiting, compacting and resuming: the texts that users see.

use std::path::Path;

use rethread_agent::{
    CompactReceipt, Compacted, Continued, EXTRACTIVE, FromFile, PastSession, Stage, SummaryMethod,
    SummaryOutcome, TranscriptSummary,
};
use rethread_core::entry::{Body, Origin};
use rethread_core::sessions::{SelectError, Undone};
use rethread_core::{SessionId, StoreError, sessions};

use super::Chat;
use super::output::Look;
use super::watch::OnEscape;
use crate::commands::change;
use crate::commands::stats::tokens_block;
use crate::errors::{Error, too_short};
use crate::out::{clean, count, one_line, plural};

/// The note if the transcript is written without a summary.
const SUMMARY_FAILED: &str = "⚠️ Summary generation failed - session saved but cannot be resumed";

/// The note if the model failed and the summary was extracted.
const SUMMARY_EXTRACTED: &str = "⚠️ Summary generation failed - saved with an extract instead";

/// The note for a session of which an answer could not be stored.
const UNSTORED: &str = "⚠️ Saved, except for an answer that could not be stored";
/// The end of the line if the user did not wait for the model.
const SUMMARY_SKIPPED: &str = " skipped; saved with an extract instead";

/// The note that says how to come back.
const CONTINUE: &str = "  Continue: rethread -c";

/// The note while a summary is written at the end.
const SUMMARIZING: &str = "📝 Generating session summary...";

/// How long a summary may take before the note says how to skip it.
const SUMMARY_SOON: std::time::Duration = std::time::Duration::from_secs(2);

/// Sessions in a row that were resumed one from the other, with nothing said in between.
const UNUSED_MAX: usize = 100;

/// What `--resume` and `resume` found.
enum Found {
    /// A session in the store.
    Session(SessionId),
    /// A transcript.
    File(Box<FromFile>),
    /// Nothing.
    Nothing,
}

impl Chat {
    /// Saves what has to be saved, and says goodbye.
    pub(super) async fn leave(&mut self, how: SummaryMethod) -> Result<(), Error> {
        // Only someone at a terminal waits for a model's summary.
        let how = if self.voice.typed { how } else { SummaryMethod::Extract };
        self.leave_unused()?;
        let config = &self.cli.config;
        let saves = config.is_on("features.auto_save") && config.is_on("session.auto_save");
        // Someone who only looked at a session leaves it unchanged.
        let looked = self.session.is_some_and(|id| !self.spoken_in.contains(&id));
        let session = match self.session {
            Some(id) if saves && !looked => Some(self.handle.sessions().get(id)?),
            _ => None,
        };
        let Some(session) = session.filter(|session| session.tally.queries > 0) else {
            self.input.give_back_terminal();
            self.voice.notice("Goodbye!");
            if saves && looked {
                self.voice.notice(CONTINUE);
            }
            return self.tidy();
        };
        let summarized = match self.cli.config.is_on("session.summary") {
            true => self.summarize_at_exit(session.id(), how).await,
            false => Ok(true),
        };
        self.input.give_back_terminal();
        let is_summarized = summarized?;
        self.voice.notice("Goodbye!");
        let transcript = match self.runner.save_transcript(session.id()) {
            Ok(path) => {
                match self.unstored_in.contains(&session.id()) {
                    true => self.voice.notice(UNSTORED),
                    false if is_summarized => {
                        self.voice.notice("✓ Conversation saved successfully!");
                    }
                    // Why was said.
                    false => {}
                }
                path
            }
            Err(error) => {
                self.report(&Error::Write {
                    path: self.runner.transcripts().cloned().unwrap_or_default(),
                    what: error.to_string(),
                });
                None
            }
        };
        let stats = self.handle.sessions().stats(session.id())?;
        let tokens = match stats.usage.total() {
            0 => stats.tokens,
            charged => charged,
        };
        self.voice.notice(format_args!("  Session ID: {}", clean(&session.shown_id())));
        self.voice.notice(format_args!("  Queries: {}", count(stats.queries)));
        self.voice.notice(format_args!("  Tokens: {}", count(tokens)));
        if stats.restoration.is_some() {
            for line in tokens_block(&stats) {
                self.voice.notice(line);
            }
        }
        if let Some(title) = session.title() {
            self.voice.notice(format_args!("  Title: {}", clean(&title)));
        }
        if let Some(path) = transcript {
            self.voice.notice(format_args!("  Transcript: {}", clean(&path.display().to_string())));
        }
        self.voice.notice(CONTINUE);
        self.tidy()
    }

    /// Writes the summary that the next resume starts from. A model may take a while, so it shows
    /// for how long, and how to skip it. Returns whether it was stored.
    async fn summarize_at_exit(
        &mut self,
        id: SessionId,
        how: SummaryMethod,
    ) -> Result<bool, Error> {
        let runner = self.runner.clone();
        let is_watched = self.voice.look == Look::Rich && self.input.edits();
        let made = match how {
            SummaryMethod::Extract => None,
            _ if is_watched => {
                let (_silent, mut notes) = tokio::sync::mpsc::channel(1);
                let work = runner.summarize(id, how);
                self.busy_until(SUMMARIZING, OnEscape::Skips, &mut notes, work).await?
            }
            _ => {
                self.voice.begin(SUMMARIZING);
                let work = runner.summarize(id, how);
                tokio::pin!(work);
                match tokio::time::timeout(SUMMARY_SOON, self.unless_stopped(&mut work)).await {
                    Ok(made) => made,
                    Err(_) => {
                        self.voice.begin(" (Ctrl-C skips it)");
                        self.unless_stopped(&mut work).await
                    }
                }
            }
        };
        // While it was watched, the line was one that goes away.
        if is_watched || how == SummaryMethod::Extract {
            self.voice.begin(SUMMARIZING);
        }
        let is_skipped = made.is_none() && how != SummaryMethod::Extract;
        let made = match made {
            Some(made) => made,
            // A user who does not want to wait gets an extracted summary.
            None => runner.summarize(id, SummaryMethod::Extract).await,
        };
        match made {
            Ok(SummaryOutcome::Written(_)) if is_skipped => self.voice.notice(SUMMARY_SKIPPED),
            Ok(SummaryOutcome::Written(_) | SummaryOutcome::Nothing) => self.voice.notice(" ✓"),
            Ok(SummaryOutcome::Extracted { why, .. }) => {
                self.voice.notice(format_args!(" ✗\n{SUMMARY_EXTRACTED}\n  {}", one_line(&why)));
            }
            Err(error) => {
                self.voice.notice(format_args!(" ✗\n{SUMMARY_FAILED}"));
                self.report(&error.into());
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Archives a session that was resumed without any message, so that the original is the current
    /// one again. The original may be such a session itself.
    pub(super) fn leave_unused(&mut self) -> Result<(), Error> {
        let Some(mut id) = self.session else { return Ok(()) };
        for _ in 0..UNUSED_MAX {
            let session = match self.handle.sessions().get(id) {
                // It was deleted elsewhere, and there is nothing to save.
                Err(sessions::Error::Store(StoreError::NotFound { .. })) => {
                    self.session = self.session.filter(|current| *current != id);
                    return Ok(());
                }
                session => session?,
            };
            let resumed = session.header.parent.is_some_and(|p| p.origin == Origin::Resume);
            if !resumed || session.tally.queries > 0 {
                return Ok(());
            }
            let back = match self.handle.sessions().would_undo(id) {
                Ok(Undone::Start { back_to: Some(back), .. }) => back,
                // What it came from is gone, or is a file.
                Ok(_)
                | Err(
                    sessions::Error::NothingToUndo { .. } | sessions::Error::ContinuedSince { .. },
                ) => {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            let was_archived = self.handle.sessions().get(back)?.header.archived;
            self.handle.call(|sessions| sessions.undo(id))?;
            if was_archived {
                self.handle.sessions().archive(back)?;
            }
            id = back;
        }
        Ok(())
    }

    /// Archives the oldest chats where a limit is set.
    pub(super) fn tidy(&self) -> Result<(), Error> {
        if let Some(keep) = self.cli.config.number("session.max_sessions") {
            let purged = self.handle.limit_chats(usize::try_from(keep).unwrap_or(usize::MAX))?;
            if purged.done > 0 {
                self.voice.notice(format_args!(
                    "Archived {} beyond the newest {keep}.",
                    plural(purged.done, "chat")
                ));
            }
        }
        Ok(())
    }

    /// Compacts the session on request. If that would make the context larger, it asks first,
    /// because a model costs money.
    pub(super) async fn compact_on_request(&mut self) -> Result<(), Error> {
        if let Some(id) = self.session
            && self.handle.sessions().get(id)?.tally.queries > 0
        {
            let preview = self.runner.preview(id)?;
            if !preview.saves() {
                let what = too_short(preview.before, preview.after);
                self.voice.notice(format_args!("{what}."));
                if !self.confirmed("Compact it anyway?").await {
                    self.voice.notice("Not compacted; the session is unchanged.");
                    return Ok(());
                }
            }
        }
        self.compact().await.map(drop)
    }

    /// Compacts the session and continues in the new one.
    ///
    /// Returns whether someone stopped it.
    pub(super) async fn compact(&mut self) -> Result<bool, Error> {
        let nothing = || Error::Word {
            what: "this session has no messages yet".into(),
            hint: "nothing to compact",
        };
        let id = self.session.ok_or_else(nothing)?;
        let preview = self.runner.preview(id)?;
        if preview.saves() {
            self.voice.notice(format_args!(
                "{} in the context now, about {} after; {} word for word.",
                plural(preview.before, "token"),
                count(preview.after),
                kept(preview.carried)
            ));
        }
        let runner = self.runner.clone();
        // A compaction has at most four stages.
        let (sender, mut stages) = tokio::sync::mpsc::channel(4);
        let work = runner.compact(id, SummaryMethod::Model, |stage| {
            show_stage(&stage, |text| drop(sender.try_send(text)));
        });
        let compacted = match self.busy("compacting", &mut stages, work).await? {
            Some(compacted) => compacted?,
            None => {
                self.voice.notice("(stopped; the session is unchanged)");
                return Ok(true);
            }
        };
        let receipt = match compacted {
            Compacted::Nothing => return Err(nothing()),
            Compacted::Done(receipt) => receipt,
        };
        self.handle.inherit_trust(id, receipt.on.session.id());
        self.handle.keep_permissions(&self.runner, id, receipt.on.session.id());
        self.show_continued(&receipt.on).await?;
        for line in self::receipt(&receipt, "/undo") {
            self.voice.notice(line);
        }
        Ok(false)
    }

    /// Makes this the session of the chat, and shows the model's acknowledgment.
    async fn show_continued(&mut self, on: &Continued) -> Result<(), Error> {
        let agent = self.runner.responder.agent.name.clone();
        self.voice.short_answer(&agent, &on.acknowledgment)?;
        self.enter(on.session.id()).await?;
        self.spoken_in.insert(on.session.id());
        Ok(())
    }

    /// Starts from the summary of an earlier session. Without one, the chat starts new, or
    /// continues if it has messages.
    pub(super) async fn resume(&mut self, sel: &str) -> Result<(), Error> {
        self.voice.notice("📋 Loading session...");
        let busy = self.session.is_some();
        match self.find(sel)? {
            Found::Session(id) => self.resume_session(id).await,
            Found::File(file) => self.resume_file(*file, busy).await,
            Found::Nothing if busy => Err(SelectError::None { selector: sel.into() }.into()),
            Found::Nothing => {
                self.voice.notice(format_args!(
                    "⚠️ Parent session {} not found, starting fresh",
                    one_line(sel)
                ));
                Ok(())
            }
        }
    }

    /// Starts from the summary of the session that was picked.
    pub(super) async fn resume_id(&mut self, id: SessionId) -> Result<(), Error> {
        self.voice.notice("📋 Loading session...");
        self.resume_session(id).await
    }

    async fn resume_session(&mut self, id: SessionId) -> Result<(), Error> {
        let busy = self.session.is_some();
        let past = self.runner.past(id).await?;
        self.show_found(&past);
        if !self.may_continue(&past).await? {
            return Ok(());
        }
        let made = self.handle.sessions().get(id)?.tally.summary;
        let runner = self.runner.clone();
        let (_silent, mut notes) = tokio::sync::mpsc::channel(1);
        let work = runner.summarize(id, SummaryMethod::Model);
        let summary = match self.busy("summarising", &mut notes, work).await? {
            Some(Ok(
                SummaryOutcome::Written(summary) | SummaryOutcome::Extracted { summary, .. },
            )) => summary,
            Some(Ok(SummaryOutcome::Nothing)) => {
                self.cannot_resume("no summary", busy);
                return Ok(());
            }
            Some(Err(error)) => return Err(error.into()),
            None => {
                self.voice.notice("(stopped; nothing was resumed)");
                return Ok(());
            }
        };
        if self.handle.sessions().get(id)?.tally.summary != made {
            let by = match summary.by.as_str() {
                EXTRACTIVE => "extracted without a model".to_owned(),
                model => format!("by {}", one_line(model)),
            };
            self.voice.notice(format_args!(
                "📝 Its last turns had no summary yet; one was written now, {by}."
            ));
        }
        self.restore(&self.runner.clone().past(id).await?, &summary.text).await
    }

    async fn resume_file(&mut self, file: FromFile, busy: bool) -> Result<(), Error> {
        let FromFile { past, summary } = file;
        self.show_found(&past);
        let text = match summary {
            TranscriptSummary::Text(text) => text,
            TranscriptSummary::Nothing => {
                self.cannot_resume("no summary", busy);
                return Ok(());
            }
            TranscriptSummary::Broken => {
                self.voice.notice("⚠️ Session can't be resumed (invalid summary format)");
                return Ok(());
            }
        };
        match self.may_continue(&past).await? {
            true => self.restore(&past, &text).await,
            false => Ok(()),
        }
    }

    /// Reports why a session cannot be resumed; the current chat continues.
    fn cannot_resume(&self, why: &str, busy: bool) {
        let fresh = if busy { "" } else { ", starting fresh" };
        self.voice.notice(format_args!("⚠️ Session can't be resumed ({why}){fresh}"));
    }

    async fn restore(&mut self, past: &PastSession, summary: &str) -> Result<(), Error> {
        self.voice.notice("🔄 Restoring context...");
        let (runner, keys) = (self.runner.clone(), vec![self.key.clone()]);
        let (_silent, mut notes) = tokio::sync::mpsc::channel(1);
        let work = runner.restore(past, summary, Origin::Resume, keys);
        match self.busy("restoring the context", &mut notes, work).await? {
            Some(on) => {
                let on = on?;
                if let Some(from) = past.session {
                    self.handle.inherit_trust(from, on.session.id());
                }
                self.show_continued(&on).await?;
                // In other programs `resume` continues the whole conversation.
                if let Some(from) = past.session {
                    let id = self.handle.sessions().get(from)?.shown_id();
                    self.voice.notice(whole_conversation(&id));
                }
                Ok(())
            }
            None => {
                self.voice.notice("(stopped; nothing was resumed)");
                Ok(())
            }
        }
    }

    fn show_found(&self, past: &PastSession) {
        self.voice.notice(format_args!(
            "✓ Found: {} - {} ({})",
            clean(past.agent.as_deref().unwrap_or("unknown agent")),
            past.date.strftime("%b %-d, %H:%M"),
            past.size()
        ));
    }

    /// A session of another agent continues only if the user agrees.
    async fn may_continue(&mut self, past: &PastSession) -> Result<bool, Error> {
        let mine = self.runner.responder.agent.path.clone();
        let Some(theirs) = past.agent_path.as_ref().filter(|path| **path != mine) else {
            return Ok(true);
        };
        let yes = self.agrees(theirs, &mine).await;
        if !yes {
            self.voice.notice("Not resumed.");
        }
        Ok(yes)
    }

    /// Whether this is the summary of a session.
    fn says(&self, id: SessionId, summary: &str) -> Result<bool, Error> {
        let sessions = &self.handle.sessions();
        let Some(seq) = sessions.get(id)?.tally.summary else { return Ok(false) };
        let entry = sessions.read(id, seq..seq + 1)?.pop();
        Ok(matches!(entry.map(|entry| entry.body),
            Some(Body::Summary(known)) if clean(known.text.trim()) == clean(summary.trim())))
    }

    /// What SEL refers to: a transcript if it is a file, otherwise a session.
    fn find(&self, sel: &str) -> Result<Found, Error> {
        let path = Path::new(sel);
        let is_path = sel.ends_with(".md") || sel.contains('/');
        if is_path && path.exists() {
            let mut file = self.runner.past_of_file(path).map_err(Error::File)?;
            // A transcript of a session that is in the store: the log is used. Text that is not in
            // the log is untrusted, even if the file names a session.
            if let Ok(id) = self.handle.sessions().select(&file.past.id)
                && (id.to_string() == file.past.id
                    || self.handle.sessions().get(id)?.readable_id.as_ref() == Some(&file.past.id))
            {
                match &file.summary {
                    TranscriptSummary::Text(text) if !self.says(id, text)? => {}
                    TranscriptSummary::Text(_) => file.past.session = Some(id),
                    _ => return Ok(Found::Session(id)),
                }
            }
            return Ok(Found::File(Box::new(file)));
        }
        match self.select(sel) {
            Ok(id) => Ok(Found::Session(id)),
            Err(sessions::Error::Select(SelectError::None { .. } | SelectError::Empty)) => {
                Ok(Found::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl From<SelectError> for Error {
    fn from(error: SelectError) -> Error {
        Error::Verb(error.into())
    }
}

/// How to continue the session itself, for someone who expected that of `resume`.
fn whole_conversation(id: &str) -> String {
    format!("open {} continues the whole conversation", clean(id))
}

/// How many turns stay.
fn kept(turns: usize) -> String {
    match turns {
        0 => "no turn stays".into(),
        1 => "1 turn stays".into(),
        turns => format!("{} stay", plural(turns as u64, "turn")),
    }
}

/// Shows the progress of a compaction.
pub(crate) fn show_stage(stage: &Stage, say: impl Fn(String)) {
    match stage {
        Stage::Summarizing => say("📝 Generating session summary...".into()),
        Stage::Extracted { why } => say(format!("{SUMMARY_EXTRACTED}\n  {}", one_line(why))),
        Stage::Saved(past) => {
            say(format!("💾 Saved session: {} ({})", one_line(&past.id), past.size()))
        }
        Stage::Restoring => say("🔄 Starting new session with summary...".into()),
    }
}

/// What a compaction did, and how to undo it.
pub(crate) fn receipt(receipt: &CompactReceipt, undo: &str) -> Vec<String> {
    let on = &receipt.on;
    let saved = match receipt.before {
        before if on.tokens < before => format!("{} % less", 100 - on.tokens * 100 / before),
        _ => "it was too short to save anything".into(),
    };
    let by = match receipt.summary.by.as_str() {
        EXTRACTIVE => " (extractive: made without a model)",
        _ => "",
    };
    vec![
        format!(
            "✓ Compacted into {}: {} → {} in the context ({saved})",
            change::shown(&on.session),
            count(receipt.before),
            plural(on.tokens, "token")
        ),
        format!(
            "  Carried word for word: {} ({}); the rest is in the summary{by}",
            match on.carried {
                0 => "no turn".into(),
                1 => "the last turn".into(),
                turns => format!("the last {}", plural(turns as u64, "turn")),
            },
            plural(on.carried_tokens, "token")
        ),
        format!(
            "  Nothing is lost: the agent reads any of it back with recall (ref {}:SEQ); {undo} reverts this",
            receipt.from.short()
        ),
    ]
}
