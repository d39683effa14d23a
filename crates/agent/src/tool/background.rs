//! Commands that run in the background of a session, until they end, are stopped, or the program
//! exits.
//!
//! A command belongs to the session that started it. Those that continue it, after a compaction or
//! in a fork, reach it too, because their conversation knows of it; no other does. Each has a
//! thread that waits for its end. Where there is a launcher, its commands end with this program
//! however that ends; without one they are ended when this is dropped.

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
use super::run::{looks_refused, may_have_failed};
use super::sandbox::Confinement;
use super::{ToolContext, ToolFailure};
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
    /// How it ended.
    ended: Arc<Mutex<Option<Ended>>>,
    /// What it wrote so far looks as if the sandbox had refused something.
    looks_refused: bool,
    /// What is returned to the model then.
    refusal: String,
    stop: CancellationToken,
    waits: Option<JoinHandle<()>>,
}

/// How a command ended.
#[derive(Clone)]
struct Ended {
    /// In words.
    how: String,
    /// The kernel confined it, and something in it may have failed.
    may_be_refused: bool,
}

impl Ended {
    fn new(how: String) -> Ended {
        Ended { how, may_be_refused: false }
    }
}

impl Job {
    fn is_of(&self, tool_context: &ToolContext, conversation: &[SessionId]) -> bool {
        conversation.contains(&self.session) && self.owner == *tool_context.sessions.owner()
    }

    fn runs(&self) -> bool {
        lock(&self.ended).is_none()
    }
}

impl BackgroundJobs {
    /// Starts a command for a session. Returns the result for the model.
    pub(super) fn start(
        &self,
        tool_context: &ToolContext,
        command: &str,
        time: Duration,
        refusal: String,
        start: impl FnOnce() -> Result<(Started, PipeReader), ToolFailure>,
    ) -> Result<String, ToolFailure> {
        let conversation = conversation(tool_context);
        let mut jobs = lock(&self.0);
        let runs = |job: &&Job| job.runs();
        let is_own = |job: &&Job| job.is_of(tool_context, &conversation);
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
            let command = command.to_owned();
            move || {
                let written = collect(reader, unread, Progress::default());
                let end = started.wait(time, &stop);
                let report = started.end();
                // Its exit, or that nobody will report it.
                written.recv_timeout(RUN_OUTPUT_WAIT).ok();
                *lock(&ended) = Some(match (end, report) {
                    (End::TimedOut, _) => {
                        Ended::new(format!("killed, because {} s had passed", time.as_secs()))
                    }
                    (End::Stopped, _) => Ended::new("killed".into()),
                    (End::Exited, Ok(Report::Ended { code, signal, confinement })) => Ended {
                        how: exit_text(code, signal),
                        may_be_refused: confinement != Confinement::None
                            && may_have_failed(&command, code),
                    },
                    (End::Exited, Ok(Report::Failed(why))) => Ended::new(format!("failed: {why}")),
                    (End::Exited, Err(error)) => Ended::new(format!("failed: {error}")),
                });
            }
        });
        jobs.jobs.insert(
            number,
            Job {
                owner: tool_context.sessions.owner().clone(),
                session: tool_context.session,
                command: command.to_owned(),
                began: Instant::now(),
                unread,
                ended,
                looks_refused: false,
                refusal,
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
        tool_context: &ToolContext,
        name: &str,
        wait: Duration,
        kill: bool,
    ) -> Result<String, ToolFailure> {
        let number = name.strip_prefix("bg").and_then(|number| number.parse::<u64>().ok());
        let conversation = conversation(tool_context);
        let (unread, ended, began) = {
            let jobs = lock(&self.0);
            let is_own = |job: &&Job| job.is_of(tool_context, &conversation);
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
            if tool_context.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            std::thread::sleep(RUN_LOOK);
        }
        // Checked first, so that its last output is there to be read.
        let end = lock(&ended).clone();
        let mut text = std::mem::take(&mut *lock(&unread)).text();
        let refusal = lock(&self.0).refusal(number, &text, end.as_ref());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let running = || format!("running for {} s", began.elapsed().as_secs());
        let how = end.map_or_else(running, |end| end.how);
        Ok(format!("{text}[{how}]{refusal}"))
    }
}

impl Jobs {
    /// The note about the sandbox that follows the output of a command, if it may have been refused
    /// something: once it has ended, whichever part of the output said so.
    fn refusal(&mut self, number: Option<u64>, text: &str, end: Option<&Ended>) -> String {
        let Some(job) = number.and_then(|number| self.jobs.get_mut(&number)) else {
            return String::new();
        };
        job.looks_refused |= looks_refused(text);
        match end.is_some_and(|end| end.may_be_refused) && job.looks_refused {
            true => job.refusal.clone(),
            false => String::new(),
        }
    }

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
fn conversation(tool_context: &ToolContext) -> Vec<SessionId> {
    let mut chain = vec![tool_context.session];
    while chain.len() <= BACKGROUND_PARENTS_MAX
        && let Some(Ok(session)) = chain.last().map(|id| tool_context.sessions.get(*id))
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
