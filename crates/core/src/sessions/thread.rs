//! A thread: an open session with its header, the end of its log, and possibly a lease.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Incoming, Item, Result, Sessions};
use crate::context::{Context, Follower, Model, Need, Policy, next, thinning_pays_from};
use crate::entry::{Body, Decided, Effect, NewEntry, Summarized, Tally, Thinned, Thinning};
use crate::limits::{LEASE_MAX, READ_ENTRIES, THIN_TOKENS_MIN};
use crate::log::{Gap, Log};
use crate::message::Message;
use crate::session::Session;
use crate::shown::{
    Allowances, Excerpt, ExcerptKey, Lines, ResultForm, Seen, Shown, decide_late, first_excerpt,
    reference_to_lines,
};
use crate::store::{Appended, At, LeaseChange, StoreError};
use crate::usage::Spent;

/// An open session.
///
/// It appends after what it has seen: if someone else wrote in between, it gets a conflict and can
/// [`refresh`](Thread::refresh).
pub struct Thread {
    sessions: Sessions,
    session: Session,
    log: Log,
    lease: Lease,
    /// Extends the previous context.
    follower: Option<Follower>,
    /// The allowances for results, if its contexts do not show everything.
    shows: Option<Allowances>,
    /// What the log shows so far, for decisions about results.
    seen: Option<Seen>,
    /// Excerpts of results that are about to be appended.
    excerpts: Vec<(ExcerptKey, Excerpt)>,
    /// The messages that a model was sent last, if they were recorded.
    last_sent: Option<Arc<Context>>,
}

/// Its lease.
enum Lease {
    /// None.
    Missing,
    /// It is taken with the next append.
    Wanted {
        holder: String,
        ttl: Duration,
    },
    Held {
        fence: u64,
    },
}

impl Thread {
    pub(super) fn new(sessions: Sessions, session: Session) -> Result<Thread> {
        let head = session.tally.entries;
        let tail = head.saturating_sub(READ_ENTRIES)..head;
        let read = sessions.read_around(session.id(), tail, session.tally)?;
        let mut log = Log::new(read.entries).map_err(|gap| damaged(&session, gap))?;
        note(&mut log, read.damage);
        let (lease, follower, shows, seen) = (Lease::Missing, None, None, None);
        let (excerpts, last_sent) = (Vec::new(), None);
        Ok(Thread { sessions, session, log, lease, follower, shows, seen, excerpts, last_sent })
    }

    /// The sessions it belongs to.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The header, keys and counts.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The end of the log, as far back as it was read.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How many entries this thread has seen.
    pub fn head(&self) -> u64 {
        self.session.tally.entries
    }

    /// When its last entry was written.
    pub fn last_at(&self) -> Option<Timestamp> {
        self.log.entries().last().map(|entry| entry.at)
    }

    /// Appends a message. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if someone else wrote to the session; otherwise the errors of an
    /// append.
    pub fn append(&mut self, message: impl Into<Incoming>) -> Result<u64> {
        let seqs = self.append_all(vec![message.into()])?;
        Ok(seqs.first().copied().unwrap_or_default())
    }

    /// Appends several messages atomically.
    ///
    /// # Errors
    ///
    /// As [`append`](Thread::append).
    pub fn append_all(&mut self, messages: Vec<Incoming>) -> Result<Vec<u64>> {
        self.record(messages.into_iter().map(Item::from).collect())
    }

    /// Appends an entry that is not a message.
    ///
    /// # Errors
    ///
    /// As [`append`](Thread::append).
    pub fn note(&mut self, body: Body) -> Result<u64> {
        let seqs = self.record(vec![body.into()])?;
        Ok(seqs.first().copied().unwrap_or_default())
    }

    /// Appends a summary of what was said. It has the time of the last entry, because writing it,
    /// maybe months later, is not activity: the session keeps its place in lists.
    ///
    /// # Errors
    ///
    /// As [`append`](Thread::append).
    pub fn summarize(&mut self, summary: Summarized) -> Result<u64> {
        let mut entries = self.prepare(vec![Body::Summary(summary).into()])?;
        for entry in &mut entries {
            entry.at = self.session.last_activity_at;
        }
        let seqs = self.write(entries, LeaseChange::Keep)?;
        Ok(seqs.first().copied().unwrap_or_default())
    }

    /// Appends messages and other entries atomically. Returns their seqs.
    ///
    /// # Errors
    ///
    /// As [`append`](Thread::append).
    pub fn record(&mut self, items: Vec<Item>) -> Result<Vec<u64>> {
        let entries = self.prepare(items)?;
        self.write(entries, LeaseChange::Keep)
    }

    /// The same, and also releases the lease.
    ///
    /// # Errors
    ///
    /// As [`append`](Thread::append); the lease is kept then.
    pub fn finish(&mut self, items: Vec<Item>) -> Result<Vec<u64>> {
        let entries = self.prepare(items)?;
        self.write(entries, LeaseChange::GiveBack)
    }

    /// Appends results for calls that a crash left open. Returns their number.
    ///
    /// # Errors
    ///
    /// As [`append`](Thread::append).
    pub fn repair(&mut self) -> Result<usize> {
        let answers: Vec<Message> = self.log.repair();
        if answers.is_empty() {
            return Ok(0);
        }
        self.append_all(answers.into_iter().map(Incoming::from).collect()).map(|seqs| seqs.len())
    }

    /// Sets the policy for contexts before the first one is built, so that results appended until
    /// then are decided about as well.
    pub fn show_by(&mut self, policy: &Policy) {
        self.shows = policy.trim_results;
    }

    /// The note to append before the next question: that the results of finished turns are shown in
    /// their thin form from there on. This happens if the provider's cache has expired since the
    /// model replied, or if this model never did, because sending the context then costs the same
    /// in any form; or if it pays although the cache is warm. `None` if it would save little.
    pub fn thinning(
        &self,
        policy: &Policy,
        replied: Option<Timestamp>,
        cache_life: Duration,
    ) -> Option<Thinned> {
        let last = self
            .log
            .entries()
            .last()
            .filter(|_| policy.trim_results.is_some() && policy.thin_turns)?;
        let begins = self.session.tally.begins();
        let new = self.log.entries().iter().rev();
        let new = new.take_while(|entry| entry.seq >= begins);
        let new = new.take_while(|entry| !matches!(entry.body, Body::Thinned(_)));
        let results = new.flat_map(|entry| &entry.measure.results);
        let tokens: u64 = results.map(|result| u64::from(result.tokens)).sum();
        if tokens < THIN_TOKENS_MIN {
            return None;
        }
        let through = last.seq;
        let now = self.sessions.world.now();
        let has_expired = |replied: Timestamp| {
            Duration::try_from(now.duration_since(replied)).is_ok_and(|idle| idle > cache_life)
        };
        if replied.is_none_or(has_expired) {
            return Some(Thinned { from: begins, through, why: Thinning::Cold });
        }
        let from = thinning_pays_from(&self.log, policy)?;
        Some(Thinned { from, through, why: Thinning::Pays })
    }

    fn prepare(&mut self, items: Vec<Item>) -> Result<Vec<NewEntry>> {
        let mut entries = self.sessions.prepare(items, self.log.entries())?;
        self.excerpts.clear();
        self.decide_what_is_shown(&mut entries)?;
        Ok(entries)
    }

    /// Decides which lines of new results models are shown, and stores that with them, because they
    /// are about to enter a context for the first time. Only the holder of the lease does this: its
    /// contexts depend on it, and no one else writes in between.
    fn decide_what_is_shown(&mut self, entries: &mut [NewEntry]) -> Result<()> {
        let holds = !matches!(self.lease, Lease::Missing);
        let Some(allowances) = self.shows.filter(|_| holds) else { return Ok(()) };
        if entries.iter().all(|entry| entry.measure.results.is_empty()) {
            return Ok(());
        }
        let mut tally = self.session.tally;
        self.read_back_to(Seen::first_needed(&tally))?;
        let mut seen = match self.seen.take() {
            Some(seen) if seen.continues(self.log.entries()) => seen,
            _ => Seen::of(self.log.entries(), &tally),
        };
        let new = self.log.entries().iter().filter(|entry| seen.next() <= entry.seq);
        for entry in new.collect::<Vec<_>>() {
            seen.read(entry.seq, &entry.body, &entry.measure);
        }
        for entry in entries {
            let from = Seen::first_needed(&tally);
            let seq = tally.entries;
            let several = entry.measure.results.len() > 1;
            let each = |index: usize, text: &str, lines: &Lines<'_>, shown: &Shown| {
                let reference = reference_to_lines(seq, index, several);
                let excerpt = first_excerpt(text, lines, shown, &reference);
                self.excerpts.push(((seq, index, ResultForm::Full, None), excerpt));
            };
            seen.place((seq, from), &entry.body, &mut entry.measure, &allowances, each);
            tally = tally.with(Effect::of(&entry.body, &entry.measure));
        }
        self.seen = Some(seen);
        Ok(())
    }

    /// Reads back to this entry.
    fn read_back_to(&mut self, from: u64) -> Result<()> {
        while self.log.first() > from {
            let first = self.log.first();
            self.read_back(first.saturating_sub(from).min(READ_ENTRIES))?;
        }
        Ok(())
    }

    /// The note to append before the next question: which lines are shown of results that were
    /// appended without a decision. They are about to enter a context of this thread for the first
    /// time.
    pub fn undecided(&mut self, policy: &Policy) -> Result<Option<Decided>> {
        let Some(allowances) = policy.trim_results else { return Ok(None) };
        let tally = self.session.tally;
        self.read_back_to(Seen::first_needed(&tally))?;
        Ok(decide_late(self.log.entries(), &tally, &allowances))
    }

    fn write(&mut self, entries: Vec<NewEntry>, change: LeaseChange) -> Result<Vec<u64>> {
        let head = Some(self.head());
        let gives_back = change == LeaseChange::GiveBack;
        let at = match &self.lease {
            Lease::Missing => At { head, ..At::END },
            Lease::Held { fence } => At { head, fence: Some(*fence), lease: change },
            Lease::Wanted { holder, ttl } => {
                let lease = LeaseChange::Take { holder: holder.clone(), ttl: *ttl };
                At { head, fence: None, lease }
            }
        };
        let (store, owner, id) = (&self.sessions.store, &self.sessions.owner, self.session.id());
        let appended = store.append(owner, id, at, &entries);
        // If entries were not appended as planned, the state is out of date.
        let as_thought = |seqs: &[u64]| seqs.first() == Some(&self.session.tally.entries);
        let excerpts = std::mem::take(&mut self.excerpts);
        match appended.as_ref().is_ok_and(|appended| as_thought(&appended.seqs)) {
            true => excerpts.into_iter().for_each(|(at, made)| self.log.excerpts().put(at, made)),
            false => self.seen = None,
        }
        let Appended { seqs, lease, .. } = appended?;
        match (lease, &self.lease) {
            (Some(lease), _) => self.lease = Lease::Held { fence: lease.fence },
            (None, Lease::Held { .. }) if gives_back => self.lease = Lease::Missing,
            _ => {}
        }
        for (seq, new) in seqs.iter().zip(entries) {
            // A repeated entry is already in the log.
            if *seq == self.session.tally.entries {
                Spent::of([&new.body]).add_to(&mut self.session.usage);
                let entry = new.placed(&self.session.tally);
                self.session.tally = entry.tally;
                self.session.last_activity_at = entry.at;
                self.log.push(entry).map_err(|gap| damaged(&self.session, gap))?;
            }
        }
        // Or someone else appended it after the part that this thread has read.
        if seqs.iter().any(|seq| *seq >= self.session.tally.entries) {
            self.refresh()?;
        }
        Ok(seqs)
    }

    /// Reads what others wrote since.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if the session was deleted.
    pub fn refresh(&mut self) -> Result<()> {
        let session = self.sessions.get(self.session.id())?;
        let new = self.head()..session.tally.entries;
        let new = self.sessions.read_around(session.id(), new, session.tally)?;
        for entry in new.entries {
            self.log.push(entry).map_err(|gap| damaged(&session, gap))?;
        }
        note(&mut self.log, new.damage);
        self.session = session;
        Ok(())
    }

    /// Makes the next append take the lease, so that no one else writes during this turn. Until
    /// then anybody may write; then the append is refused, and takes nothing.
    pub fn take_lease_with_next_append(&mut self, holder: &str, ttl: Duration) {
        self.lease = Lease::Wanted { holder: holder.into(), ttl };
    }

    /// Whether it holds the lease.
    pub fn holds(&self) -> bool {
        matches!(self.lease, Lease::Held { .. })
    }

    /// Takes the lease now, or renews it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] while someone else has it.
    pub fn hold(&mut self, holder: &str, ttl: Duration) -> Result<()> {
        let (store, owner) = (&self.sessions.store, &self.sessions.owner);
        let lease = store.lease(owner, self.session.id(), holder, ttl.min(LEASE_MAX))?;
        self.lease = Lease::Held { fence: lease.fence };
        Ok(())
    }

    /// Releases the lease.
    pub fn release(&mut self, holder: &str) -> Result<()> {
        let (store, owner) = (&self.sessions.store, &self.sessions.owner);
        store.lease(owner, self.session.id(), holder, Duration::ZERO)?;
        self.lease = Lease::Missing;
        Ok(())
    }

    /// What a model would be sent now, with the session's own history length.
    pub fn context(&mut self, policy: &Policy, model: &Model) -> Result<Arc<Context>> {
        self.build(&policy.clone().for_session(&self.session.header), model)
    }

    /// What a model would be sent now under exactly this policy. Extends the previous context if
    /// possible, and reads further back only if necessary.
    pub fn build(&mut self, policy: &Policy, model: &Model) -> Result<Arc<Context>> {
        let follower = self.follower.take().filter(|follower| follower.is_for(policy, model));
        let mut follower = follower.unwrap_or_else(|| Follower::new(policy.clone(), model.clone()));
        self.shows = policy.trim_results;
        let context = match follower.extend(&self.log) {
            Some(context) => context,
            None => {
                self.read_for(policy, model)?;
                follower.build(&self.log)
            }
        };
        self.follower = Some(follower);
        Ok(context)
    }

    /// Records what a model was sent, so that the next context can be compared with it.
    pub fn note_sent(&mut self, context: Arc<Context>) {
        self.last_sent = Some(context);
    }

    /// Takes what a model was sent last, if it was recorded.
    pub fn take_last_sent(&mut self) -> Option<Arc<Context>> {
        self.last_sent.take()
    }

    /// Reads this many entries before those that were read.
    fn read_back(&mut self, count: u64) -> Result<()> {
        let (id, first) = (self.session.id(), self.log.first());
        let (earlier, after) = (first.saturating_sub(count)..first, self.log.tally_before(0));
        let read = self.sessions.read_around(id, earlier, after)?;
        if read.entries.is_empty() {
            let what = "it is missing".into();
            return Err(StoreError::Damaged { id, seq: first - 1, what }.into());
        }
        self.log.extend_back(read.entries).map_err(|gap| damaged(&self.session, gap))?;
        note(&mut self.log, read.damage);
        Ok(())
    }

    /// Reads as far back as a context needs.
    fn read_for(&mut self, policy: &Policy, model: &Model) -> Result<()> {
        let id = self.session.id();
        let mut step = READ_ENTRIES;
        while let Some(need) = next(&self.log, policy, model) {
            match need {
                Need::Entry(seq) => {
                    let read = self.sessions.read_around(id, seq..seq + 1, Tally::default())?;
                    match read.entries.into_iter().next() {
                        Some(entry) => self.log.pin(entry),
                        None => {
                            let what = "it is missing".into();
                            return Err(StoreError::Damaged { id, seq, what }.into());
                        }
                    }
                    note(&mut self.log, read.damage);
                }
                Need::Earlier => {
                    self.read_back(step)?;
                    // Reading twice as much each time keeps the cost in proportion to the result.
                    step = step.saturating_mul(2);
                }
            }
        }
        Ok(())
    }
}

fn note(log: &mut Log, damage: Vec<(u64, String)>) {
    damage.into_iter().for_each(|(seq, what)| log.note_damage(seq, what));
}

fn damaged(session: &Session, gap: Gap) -> StoreError {
    let what = format!("entry {} is missing", gap.expected);
    StoreError::Damaged { id: session.id(), seq: gap.expected, what }
}
