//! A durable append, against writing the same bytes and syncing them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rethread_core::{Incoming, Message, New, SessionId, Sessions};

use crate::run::{Report, Setting, Target, median, prose, quantile, timed, us};

/// Characters of a message.
const CHARS: usize = 1_000;

pub(crate) fn raw_file(setting: &Setting) -> File {
    OpenOptions::new().create(true).append(true).open(setting.folder.join("raw")).expect("a file")
}

pub(crate) fn raw_append(file: &mut File, text: &str) {
    file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).expect("a synced write");
}

/// One writer: the whole library (message, tokens, fingerprint, compression, SQLite) against
/// `write` and `fdatasync` of the same text.
pub(crate) fn one_writer(setting: &Setting) -> Vec<Report> {
    let sessions = setting.sessions("append.db");
    let ids: Vec<SessionId> = (0..8).map(|_| new_session(&sessions)).collect();
    let mut raw = raw_file(setting);
    let rounds = setting.size(3_000, 300);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds + rounds / 5 {
        let text = prose(round, CHARS);
        let entry = vec![Incoming::from(Message::user(text.clone()))];
        let id = ids[round % ids.len()];
        // They take turns, because the first in a round may find the disk busy or idle.
        let (mine, raws) = if round % 2 == 0 {
            let mine = timed(|| sessions.append(id, entry).expect("appended")).0;
            (mine, timed(|| raw_append(&mut raw, &text)).0)
        } else {
            let raws = timed(|| raw_append(&mut raw, &text)).0;
            (timed(|| sessions.append(id, entry).expect("appended")).0, raws)
        };
        // In the first rounds the write-ahead log grows to its size.
        if round >= rounds / 5 {
            ours.push(mine);
            theirs.push(raws);
        }
    }
    let (mine, raws) = (median(&mut ours), median(&mut theirs));
    vec![Report {
        name: "durable append of 1 KB, one writer, p50",
        against: "write + fdatasync of the same 1 KB".into(),
        figure: mine.as_secs_f64() / raws.as_secs_f64(),
        unit: "×",
        target: Target::AtMost(1.25),
        detail: format!(
            "{} against {} (p90 {} against {})",
            us(mine),
            us(raws),
            us(quantile(&mut ours, 0.9)),
            us(quantile(&mut theirs, 0.9))
        ),
    }]
}

/// Sixty-four writers, each with its own session, against one; alternating every quarter of a
/// second.
///
/// A writer is what it is in a server: a conversation with one append in flight, not a
/// thread of its own. All of them are driven by as many threads as the machine has cores.
pub(crate) fn many_writers(setting: &Setting) -> Vec<Report> {
    const WRITERS: usize = 64;
    let sessions = setting.sessions("group.db");
    let texts = Texts::new();
    let turn = Duration::from_millis(250);
    let rounds = setting.size(24, 3);
    let (mut one, mut many, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        // New sessions each time: no conversation gets thousands of messages in a few seconds.
        let ids: Vec<SessionId> = (0..WRITERS).map(|_| new_session(&sessions)).collect();
        one.push(rate_of_one(&sessions, ids[0], &texts, turn));
        many.push(rate_of_many(&sessions, &ids, &texts, turn));
        threads.push(rate_of_threads(&sessions, &ids, &texts, turn));
    }
    let middle = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (one, many, threads) = (middle(&mut one), middle(&mut many), middle(&mut threads));
    vec![Report {
        name: "durable appends of 64 writers",
        against: "one writer on the same store".into(),
        figure: many / one,
        unit: "×",
        target: Target::AtLeast(10.0),
        detail: format!(
            "{many:.0}/s against {one:.0}/s; with a thread for each writer {threads:.0}/s ({:.1} ×)",
            threads / one
        ),
    }]
}

fn new_session(sessions: &Sessions) -> SessionId {
    sessions.create(&New::default(), None).expect("a session").id()
}

/// The texts are generated before the measurement starts.
struct Texts(Vec<String>);

impl Texts {
    fn new() -> Texts {
        Texts((0..4_096).map(|number| prose(number, CHARS)).collect())
    }

    fn message(&self, number: usize) -> Incoming {
        Incoming::from(Message::user(self.0[number % self.0.len()].clone()))
    }
}

fn rate_of_one(sessions: &Sessions, id: SessionId, texts: &Texts, turn: Duration) -> f64 {
    let start = Instant::now();
    let mut done = 0;
    while start.elapsed() < turn {
        let entry = vec![texts.message(done)];
        sessions.append(id, entry).expect("appended");
        done += 1;
    }
    done as f64 / start.elapsed().as_secs_f64()
}

/// All writers, driven by a few threads: each waits for its append before it starts the next.
fn rate_of_many(sessions: &Sessions, ids: &[SessionId], texts: &Texts, turn: Duration) -> f64 {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let start = Instant::now();
    let done: usize = std::thread::scope(|scope| {
        let chunks: Vec<_> = ids
            .chunks(ids.len().div_ceil(threads))
            .map(|mine| scope.spawn(move || drive(sessions, mine, texts, start, turn)))
            .collect();
        chunks.into_iter().map(|chunk| chunk.join().expect("a driver")).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}

fn drive(
    sessions: &Sessions,
    ids: &[SessionId],
    texts: &Texts,
    start: Instant,
    turn: Duration,
) -> usize {
    let (tell, told) = mpsc::channel();
    let begin = |writer: usize, number: usize| {
        let message = texts.message(number * 31 + writer);
        let tell = tell.clone();
        let then = Box::new(
            move |outcome: Result<rethread_core::store::Appended, rethread_core::StoreError>| {
                tell.send((writer, outcome.is_ok())).expect("the driver listens");
            },
        );
        sessions.append_then(ids[writer], vec![message], then).expect("begun");
    };
    let mut going = ids.len();
    (0..ids.len()).for_each(|writer| begin(writer, writer));
    let mut done = 0;
    while going > 0 {
        let (writer, stored) = told.recv().expect("an answer");
        assert!(stored, "an append was refused");
        done += 1;
        match start.elapsed() < turn {
            true => begin(writer, done),
            false => going -= 1,
        }
    }
    done
}

/// All writers, each a thread that blocks.
fn rate_of_threads(sessions: &Sessions, ids: &[SessionId], texts: &Texts, turn: Duration) -> f64 {
    let start = Instant::now();
    let done: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = ids
            .iter()
            .map(|id| {
                scope.spawn(move || {
                    let mut done = 0;
                    while start.elapsed() < turn {
                        let entry = vec![texts.message(done)];
                        sessions.append(*id, entry).expect("appended");
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a writer")).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}

/// Fills a session with messages, many to a transaction.
pub(crate) fn fill(sessions: &Sessions, id: SessionId, messages: usize, chars: usize) {
    for start in (0..messages).step_by(5_000) {
        let batch: Vec<Incoming> = (start..messages.min(start + 5_000))
            .map(|number| {
                let text = prose(number, chars);
                let role =
                    if number % 2 == 0 { Message::user(text) } else { Message::assistant(text) };
                Incoming::from(role)
            })
            .collect();
        sessions.append(id, batch).expect("appended");
    }
}
