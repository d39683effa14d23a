//! Bringing a directory of an earlier format up to date.
//!
//! Only the state is written anew: beside the old one, which is replaced when all of it is on disk.
//! The logs and the visible files stay as they are.

use std::fs::File;

use rethread_core::Body;
use rethread_core::store::Result;
use rethread_core::usage::{Spent, UsageByModel};

use super::folder::Dir;
use super::log::Tail;
use super::state::FORMAT;
use crate::progress::{Progress, Tell};

impl Dir {
    /// Adds what models were charged to what is known of each session.
    pub(super) fn migrate(&mut self, tell: Option<&Tell>) -> Result<()> {
        let Some(found) = self.state.format().filter(|found| *found < FORMAT) else {
            return Ok(());
        };
        let place = self.root.display();
        let what = format!("bringing {place} from format {found} to {FORMAT}");
        let mut progress = Progress::new(what, tell);
        let ids: Vec<_> = self.state.catalogue.records.keys().copied().collect();
        let all = ids.len() as u64;
        for (done, id) in (0..).zip(ids) {
            progress.step(done, all, "sessions");
            let path = self.log_path(id);
            let Some(folded) =
                self.state.catalogue.records.get_mut(&id).and_then(|record| record.folded.as_mut())
            else {
                continue;
            };
            // What cannot be read is not counted here, and `doctor` says which it is.
            let Ok(file) = File::open(&path) else { continue };
            let mut usage = UsageByModel::new();
            let mut tail = Tail::EMPTY;
            let read = tail.follow(&file, folded.bytes, |at, line| {
                if at < folded.bytes
                    && let Ok(entry) = line.entry()
                    && !matches!(entry.body, Body::Unknown { .. })
                {
                    Spent::of([&entry.body]).add_to(&mut usage);
                }
            });
            if read.is_ok() {
                folded.usage = usage;
            }
        }
        self.state.rewrite(self.disk.as_ref(), self.world.as_ref())?;
        progress.finish();
        Ok(())
    }
}
