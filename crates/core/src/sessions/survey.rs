//! Totals over sessions: by session, folder or day.
//!
//! Usage by model is stored with every log, so adding it up reads only headers. A log is read only
//! if its header is not enough: to count tools, for a session that lasted several days if grouped
//! by day, and for one that began before the requested time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::stats::ToolCounter;
use super::{Result, Sessions, ToolStats};
use crate::name::SessionId;
use crate::session::Session;
use crate::store::Filter;
use crate::usage::{ModelUsage, Spent, UsageByModel};

/// Sessions read at once.
const PAGE: usize = 500;

/// What to add up.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Which sessions.
    pub filter: Filter,
    /// Only what happened then or later.
    pub since: Option<Timestamp>,
    /// How to group it.
    pub by: GroupBy,
    /// The time zone that determines when a day begins.
    pub zone: TimeZone,
    /// Whether tool calls are counted, for which every log has to be read.
    pub tools: bool,
}

/// How totals are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// By session.
    Session,
    /// By workspace.
    Folder,
    /// By day.
    Day,
}

/// The group of a total.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A session.
    Session(SessionId),
    /// The sessions of a workspace, or those that have none.
    Folder(Option<String>),
    /// What happened on a day.
    Day(Date),
}

/// A total.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Sessions with messages.
    pub sessions: u64,
    /// What each model was charged, and how long it took.
    pub models: UsageByModel,
    /// Statistics of each tool, if requested.
    pub tools: BTreeMap<String, ToolStats>,
}

impl Totals {
    /// What all models were charged.
    pub fn usage(&self) -> ModelUsage {
        let mut sum = ModelUsage::default();
        self.models.values().for_each(|model| sum.add(model.usage, model.ms));
        sum
    }

    /// Calls of all tools, and how many of them failed.
    pub fn calls(&self) -> (u64, u64) {
        let tools = self.tools.values();
        tools.fold((0, 0), |(calls, failed), tool| (calls + tool.calls, failed + tool.errors))
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Totals) {
        self.sessions += other.sessions;
        for (model, spent) in &other.models {
            self.models.entry(model.clone()).or_default().add(spent.usage, spent.ms);
        }
        for (tool, did) in &other.tools {
            let sum = self.tools.entry(tool.clone()).or_default();
            sum.calls += did.calls;
            sum.errors += did.errors;
            sum.tokens += did.tokens;
        }
    }
}

/// Totals, and how many logs had to be read for them.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Surveyed {
    /// The sums.
    pub groups: BTreeMap<Group, Totals>,
    /// The grand total. A session that is in several groups counts once.
    pub all: Totals,
    pub logs_read: u64,
}

impl Sessions {
    /// Adds up what sessions cost.
    pub fn survey(&self, survey: &Survey) -> Result<Surveyed> {
        let mut sums = Surveyed::default();
        let mut after = None;
        loop {
            let page = self.list(&survey.filter, after, PAGE)?;
            for session in &page.sessions {
                // The remaining ones were active even earlier.
                if survey.since.is_some_and(|since| session.last_activity_at < since) {
                    return Ok(sums);
                }
                let groups = self.survey_one(survey, session, &mut sums.logs_read)?;
                let mut one = Totals { sessions: 1, ..Totals::default() };
                for (group, totals) in groups {
                    one.add(&Totals { sessions: 0, ..totals.clone() });
                    sums.groups.entry(group).or_default().add(&totals);
                }
                sums.all.add(&one);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(sums),
            }
        }
    }

    fn survey_one(
        &self,
        survey: &Survey,
        session: &Session,
        logs_read: &mut u64,
    ) -> Result<BTreeMap<Group, Totals>> {
        let header = &session.header;
        let day = |at: Timestamp| at.to_zoned(survey.zone.clone()).date();
        let group = |at: Timestamp| match survey.by {
            GroupBy::Session => Group::Session(header.id),
            GroupBy::Folder => Group::Folder(header.profile.workspace.clone()),
            GroupBy::Day => Group::Day(day(at)),
        };
        // An imported session was created when its source was, so its first entry is not earlier.
        let (first, last) = (header.created_at, session.last_activity_at);
        let several_days = survey.by == GroupBy::Day && day(first) != day(last);
        let cut = survey.since.is_some_and(|since| first < since);
        if !(survey.tools || several_days || cut) {
            let totals = Totals { sessions: 1, models: session.usage.clone(), ..Totals::default() };
            return Ok(BTreeMap::from([(group(last), totals)]));
        }
        *logs_read += 1;
        let mut groups: BTreeMap<Group, Totals> = BTreeMap::new();
        let mut tools = ToolCounter::default();
        for entry in self.entries(header.id, 0..session.tally.entries).skip_damaged() {
            let entry = entry?;
            let spent = Spent::of([&entry.body]);
            if spent.anew {
                // Earlier entries belong to another session, and are counted there.
                groups.clear();
            }
            let at = entry.at;
            let mut did = BTreeMap::new();
            if survey.tools {
                tools.count(entry, &mut did);
            }
            if survey.since.is_some_and(|since| at < since) {
                continue;
            }
            let sum = groups.entry(group(at)).or_default();
            sum.add(&Totals { sessions: 0, models: spent.models, tools: did });
            sum.sessions = 1;
        }
        Ok(groups)
    }
}
