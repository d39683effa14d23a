//! Commands that run in the background of a session, until they end, are stopped, or the program
//! exits.
//!
//! A command belongs to the session that started it. Those that continue it, after a compaction or in a
//! fork, reach it too, because their conversation knows of it; no other does. Each has a thread that
//! waits for its end. Where there is a launcher, its commands end with this program however that
//! ends; without one they are ended when this is dropped.

use std::collections::HashMap;
use std::io::PipeReader;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rethread_core::entry::Origin;
use rethread_core::{Owner, SessionId};
use tokio_util::sync::CancellationToken;

use super::launcher::Report;
use super::limits::{
    BACKGROUND_ALL_MAX, BACKGROUND_ENDED_MAX, BACKGROUND_MAX, BACKGROUND_PARENTS_MAX, RUN_LOOK,
    RUN_OUTPUT_WAIT,
};
use super::process::{End, Output, Started, collect, exit_text};
use super::{Site, ToolFailure};
use crate::events::Progress;

/// The background commands.
#[derive(Default)]
pub struct BackgroundJobs(Mutex<Jobs>);

#[derive(Default)]
struct Jobs {
    /// How many there have been: a name is never used again.
    count: u64,
    jobs: HashMap<u64, Job>,
}

struct Job {
    owner: Owner,
    session: SessionId,
    command: String,
    began: Instant,
    /// Its output since it was last read.
    unread: Arc<Mutex<Output>>,
    /// How it ended, in words.
    ended: Arc<Mutex<Option<String>>>,
    stop: CancellationToken,
    waits: Option<JoinHandle<()>>,
}

impl Job {
    fn is_of(&self, site: &Site, conversation: &[SessionId]) -> bool {
        conversation.contains(&self.session) && self.owner == *site.sessions.owner()
    }

    fn runs(&self) -> bool {
        lock(&self.ended).is_none()
    }
}

impl BackgroundJobs {
    /// Starts a command for a session. Returns the result for the model.
    pub(super) fn start(
        &self,
        site: &Site,
        command: &str,
        time: Duration,
        start: impl FnOnce() -> Result<(Started, PipeReader), ToolFailure>,
    ) -> Result<String, ToolFailure> {
        let conversation = conversation(site);
        let mut jobs = lock(&self.0);
        let runs = |job: &&Job| job.runs();
        let is_own = |job: &&Job| job.is_of(site, &conversation);
        let (own, all) = (
            jobs.jobs.values().filter(runs).filter(is_own).count(),
            jobs.jobs.values().filter(runs).count(),
        );
        if own >= BACKGROUND_MAX || all >= BACKGROUND_ALL_MAX {
            let what = format!(
                "{own} commands of this session and {all} in all run in the background already, of \
                 {BACKGROUND_MAX} and {BACKGROUND_ALL_MAX}; end one with `run_output` and `kill`"
            );
            return Err(ToolFailure(what));
        }
        jobs.forget_ended();
        let (started, reader) = start()?;
        jobs.count += 1;
        let number = jobs.count;
        let (unread, ended) = (Arc::default(), Arc::default());
        let stop = CancellationToken::new();
        let waits = std::thread::spawn({
            let (unread, ended, stop) = (Arc::clone(&unread), Arc::clone(&ended), stop.clone());
            move || {
                let written = collect(reader, unread, Progress::default());
                let end = started.wait(time, &stop);
                let report = started.end();
                // Its exit, or that nobody will report it.
                written.recv_timeout(RUN_OUTPUT_WAIT).ok();
                *lock(&ended) = Some(match (end, report) {
                    (End::TimedOut, _) => {
                        format!("killed, because {} s had passed", time.as_secs())
                    }
                    (End::Stopped, _) => "killed".into(),
                    (End::Exited, Ok(Report::Ended { code, signal, .. })) => {
                        exit_text(code, signal)
                    }
                    (End::Exited, Ok(Report::Failed(why))) => format!("failed: {why}"),
                    (End::Exited, Err(error)) => format!("failed: {error}"),
                });
            }
        });
        jobs.jobs.insert(
            number,
            Job {
                owner: site.sessions.owner().clone(),
                session: site.session,
                command: command.to_owned(),
                began: Instant::now(),
                unread,
                ended,
                stop,
                waits: Some(waits),
            },
        );
        Ok(format!("started in the background as `bg{number}`; `run_output` reads what it writes"))
    }

    /// The output of a command since it was last read, and its state. Waits for its end, up to a
    /// timeout, after stopping it if requested.
    pub(super) fn read(
        &self,
        site: &Site,
        name: &str,
        wait: Duration,
        kill: bool,
    ) -> Result<String, ToolFailure> {
        let number = name.strip_prefix("bg").and_then(|number| number.parse::<u64>().ok());
        let conversation = conversation(site);
        let (unread, ended, began) = {
            let jobs = lock(&self.0);
            let is_own = |job: &&Job| job.is_of(site, &conversation);
            let job = number.and_then(|number| jobs.jobs.get(&number));
            let Some(job) = job.filter(is_own) else {
                return Err(jobs.not_found(is_own, name));
            };
            if kill {
                job.stop.cancel();
            }
            (Arc::clone(&job.unread), Arc::clone(&job.ended), job.began)
        };
        let start = Instant::now();
        while lock(&ended).is_none() && (kill || start.elapsed() < wait) {
            if site.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            std::thread::sleep(RUN_LOOK);
        }
        // Checked first, so that its last output is there to be read.
        let how = lock(&ended).clone();
        let mut text = std::mem::take(&mut *lock(&unread)).text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let how = how.unwrap_or_else(|| format!("running for {} s", began.elapsed().as_secs()));
        Ok(format!("{text}[{how}]"))
    }
}

impl Jobs {
    /// Removes those that ended longest ago, if there are many.
    fn forget_ended(&mut self) {
        let mut ended: Vec<u64> =
            self.jobs.iter().filter(|(_, job)| !job.runs()).map(|(number, _)| *number).collect();
        ended.sort_unstable();
        let over = ended.len().saturating_sub(BACKGROUND_ENDED_MAX);
        for number in &ended[..over] {
            self.jobs.remove(number);
        }
    }

    fn not_found(&self, is_own: impl Fn(&&Job) -> bool, name: &str) -> ToolFailure {
        let own = self.jobs.iter().filter(|(_, job)| is_own(job));
        let mut own: Vec<(&u64, &Job)> = own.collect();
        own.sort_by_key(|(number, _)| **number);
        let own: Vec<String> =
            own.iter().map(|(number, job)| format!("`bg{number}` ({})", job.command)).collect();
        let there = match own.is_empty() {
            true => "this session has none; commands end with the program that started them".into(),
            false => format!("there are {}", own.join(", ")),
        };
        ToolFailure(format!("there is no command `{name}` in the background: {there}"))
    }
}

impl Drop for BackgroundJobs {
    fn drop(&mut self) {
        let mut jobs = lock(&self.0);
        jobs.jobs.values().for_each(|job| job.stop.cancel());
        for job in jobs.jobs.values_mut() {
            // A thread that panicked has nothing left to end.
            job.waits.take().map(|waits| waits.join().ok());
        }
    }
}

/// The session of a call, and those whose conversation it continues. What was imported may claim to
/// continue any.
fn conversation(site: &Site) -> Vec<SessionId> {
    let mut chain = vec![site.session];
    while chain.len() <= BACKGROUND_PARENTS_MAX
        && let Some(Ok(session)) = chain.last().map(|id| site.sessions.get(*id))
        && session.header.imported.is_none()
        && let Some(parent) = session.header.parent
        && parent.origin != Origin::New
    {
        chain.push(parent.id);
    }
    chain
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
