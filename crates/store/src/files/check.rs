//! Looking after a directory: what is left alone and why, and whether the logs add up.

use std::collections::BTreeSet;

use rethread_core::audit::Audit;
use rethread_core::limits::READ_ENTRIES;
use rethread_core::measure::Measure;
use rethread_core::store::{Finding, FindingState, Result};
use rethread_core::usage::Spent;
use rethread_core::{Entry, Message, NewEntry, SessionId};

use super::disk::{Draft, Told};
use super::fold::names;
use super::folder::{Dir, Reach};
use super::log;
use super::rebuild::Damage;
use crate::check::check_blobs;

const ACTION: &str = "check the directory";

fn repairable(repair: bool) -> FindingState {
    match repair {
        true => FindingState::Repaired,
        false => FindingState::Repairable,
    }
}

impl Dir {
    /// Checks the directory: files that are left alone, and what belongs to no session.
    pub(super) fn check(&mut self, repair: bool) -> Result<Vec<Finding>> {
        let repair = repair && self.reach == Reach::All;
        self.look()?;
        let mut findings = Vec::new();
        let mut note = |what: String, state| {
            findings.push(Finding { session: None, seq: None, what, state });
        };
        for (path, skipped) in &self.skipped {
            let state = if skipped.damaged { FindingState::Damaged } else { FindingState::Noted };
            let shown = path.strip_prefix(&self.root).unwrap_or(path).display();
            note(format!("{shown} is left alone: {}", skipped.why), state);
        }
        for name in names(&self.root) {
            if name.contains(".json.unreadable-") {
                note(format!("{name} could not be read and was set aside"), FindingState::Noted);
            }
        }
        let catalogue = &self.state.catalogue;
        let dangling = catalogue.keys.values().filter(|id| catalogue.get(**id).is_none()).count();
        if dangling > 0 {
            let what = format!("{dangling} keys point at sessions that are gone");
            note(what, FindingState::Damaged);
        }
        if let Some(trouble) = self.index_trouble() {
            note(format!("the search index is of no use: {trouble}"), repairable(repair));
            if repair {
                self.throw_index_away();
            }
        }
        if self.state.damaged > 0 {
            let bytes = self.state.damaged;
            let what = format!("{bytes} bytes of the state could not be read");
            note(what, repairable(repair));
            if repair {
                self.keep_damaged(&self.ours.join("state"))?;
                self.state.rewrite(self.disk.as_ref(), self.world.as_ref())?;
            }
        }
        let kept = names(&self.damaged_folder()).len();
        if kept > 0 {
            let what = format!("what was damaged is kept in .rethread/damaged ({kept})");
            findings.push(Finding { session: None, seq: None, what, state: FindingState::Noted });
        }
        Ok(findings)
    }

    /// Checks one session, entry by entry.
    pub(super) fn check_session(&mut self, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        let repair = repair && self.reach == Reach::All;
        let mut audit = Audit::new(id);
        let (mut spent, mut named) = (Spent::default(), BTreeSet::new());
        let mut damage = self.damaged_end(id)?;
        let entries = if damage.is_none() { self.tail(id)?.tally.entries } else { 0 };
        for start in (0..entries).step_by(READ_ENTRIES as usize) {
            let read = self.log(id)?.read(start..entries.min(start + READ_ENTRIES));
            let (entries, bad) = read.told(&self.root, ACTION)?;
            for entry in &entries {
                audit.entry(entry);
                spent.add(&entry.body);
                named.extend(entry.body.message().map(Message::blobs).unwrap_or_default());
            }
            damage = damage.or(bad.map(Damage::from));
        }
        if let Some(damage) = damage {
            // What was counted behind the damage says nothing.
            let mut audit = Audit::new(id);
            let (what, state) = self.mend(id, &damage, repair)?;
            audit.note(damage.seq, what, state);
            return Ok(audit.findings());
        }
        let wrong = audit.wrong_tallies.len() + audit.wrong_tokens.len();
        audit.wrong_tallies.clear();
        audit.wrong_tokens.clear();
        if wrong > 0 {
            if repair {
                self.rewrite_log(id)?;
            }
            audit.note(None, "entries had wrong counts".into(), repairable(repair));
        }
        if self.tail(id)?.usage != spent.models {
            if repair {
                self.rewrite_log(id)?;
            }
            audit.note(None, "what models were charged was wrong".into(), repairable(repair));
        }
        let kept = self.blobs(id)?;
        check_blobs(&mut audit, &named, &kept, |blob| self.blob(id, blob))?;
        Ok(audit.findings())
    }

    /// Writes a log anew, with the counts worked out from its entries.
    fn rewrite_log(&mut self, id: SessionId) -> Result<()> {
        let end = self.tail(id)?.tally.entries;
        let mut entries = Vec::new();
        for start in (0..end).step_by(READ_ENTRIES as usize) {
            for Entry { at, id: entry, body, measure, .. } in
                self.entries(id, start..end.min(start + READ_ENTRIES))?
            {
                let tokens = rethread_core::measure::measure(&body, |_| None).tokens;
                let measure = Measure { tokens, ..measure };
                entries.push(NewEntry { id: entry, at, body, measure });
            }
        }
        self.replace_log(id, &entries)
    }

    /// Puts another log in the place of a session's, and brings its file up to date.
    pub(super) fn replace_log(&mut self, id: SessionId, entries: &[NewEntry]) -> Result<()> {
        let (disk, world) = (self.disk.clone(), self.world.clone());
        let path = self.log_path(id);
        let mut record = self.record(id)?.clone();
        let mut draft = Draft::new(disk.as_ref(), world.as_ref(), &path).told(&path, ACTION)?;
        let head = log::head(&record.header).told(&path, ACTION)?;
        draft.add(head.as_bytes()).told(&path, ACTION)?;
        let mut tally = rethread_core::Tally::default();
        for new in entries {
            let entry = new.placed(&tally);
            tally = entry.tally;
            let line = log::line(&entry, 0).told(&path, ACTION)?;
            draft.add(line.as_bytes()).told(&path, ACTION)?;
        }
        // Its places are no longer where the index has them.
        self.throw_index_away();
        draft.publish().told(&path, ACTION)?;
        disk.sync_folder(&self.logs_folder()).told(&path, ACTION)?;
        self.logs.remove(&id);
        record.folded = None;
        record.stale = true;
        self.commit(vec![super::state::Op::Put(Box::new(record))])?;
        self.fold(&[id])
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rethread_core::store::Upkeep;
    use rethread_core::{Fixed, Message, New, Owner, Sessions};
    use serde_json::Value;

    use super::*;
    use crate::files::{FilesLimit, FilesStore, frame};

    /// Writes a log anew with other counts in it, every record whole.
    fn miscount(path: &Path) {
        let file = std::fs::File::open(path).expect("a log");
        let mut walk = frame::Walk::new(&file, 0).expect("a walk");
        let mut text = String::new();
        while let Some(record) = walk.next().expect("read") {
            let mut line: Value = serde_json::from_str(record.json).expect("JSON");
            if line["tally"].is_object() {
                line["tally"]["messages"] = 77.into();
                line["measure"]["tokens"] = 99.into();
            }
            text.push_str(&frame::framed(&line.to_string()).expect("short"));
        }
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn wrong_counts_are_worked_out_anew_and_no_entry_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let world = Arc::new(Fixed::default());
        let open = || {
            let store = FilesStore::open(folder.path(), FilesLimit::default(), world.clone());
            Arc::new(store.expect("a store"))
        };
        let sessions = |store: Arc<FilesStore>| Sessions::new(store, Owner::local(), world.clone());
        let first = sessions(open());
        let id = first.create(&New::default(), None).expect("created").id();
        for text in ["one", "two", "three"] {
            first.append(id, vec![Message::user(text).into()]).expect("appended");
        }
        let (before, entries) = (first.get(id).expect("there"), first.read(id, 0..9));
        let entries = entries.expect("read");
        drop(first);
        miscount(&folder.path().join(format!(".rethread/logs/{id}.log")));

        let state = |repair| {
            let findings = open().check_session(&Owner::local(), id, repair).expect("checked");
            findings.into_iter().map(|finding| finding.state).collect::<Vec<_>>()
        };
        assert_eq!(state(false), [FindingState::Repairable]);
        assert_eq!(state(true), [FindingState::Repaired]);
        assert_eq!(state(true), []);
        let after = sessions(open());
        assert_eq!(after.read(id, 0..9).expect("read"), entries);
        assert_eq!(after.get(id).expect("there").tally, before.tally);
    }
}
