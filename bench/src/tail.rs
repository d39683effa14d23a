//! Costs that do not depend on the length of a log.

use rethread_core::context::{Model, Policy};
use rethread_core::entry::fingerprint;
use rethread_core::sessions::Fork;
use rethread_core::{New, SessionId, Sessions};

use crate::append::fill;
use crate::run::{Report, Setting, Target, median, timed, us};

fn two_sessions(setting: &Setting) -> (Sessions, SessionId, SessionId, usize) {
    let sessions = setting.sessions("tail.db");
    let new = || sessions.create(&New::default(), None).expect("a session").id();
    let (short, long) = (new(), new());
    let messages = setting.size(1_000_000, 20_000);
    fill(&sessions, short, 1_000, 100);
    fill(&sessions, long, messages, 100);
    (sessions, short, long, messages)
}

/// Runs both in turn and reports the ratio of the medians.
fn pair(
    name: &'static str,
    messages: usize,
    target: f64,
    mut short: impl FnMut(),
    mut long: impl FnMut(),
) -> Report {
    let (mut shorts, mut longs) = (Vec::new(), Vec::new());
    for round in 0..600 {
        let (one, other) = (timed(&mut short).0, timed(&mut long).0);
        if round >= 100 {
            shorts.push(one);
            longs.push(other);
        }
    }
    let (one, other) = (median(&mut shorts), median(&mut longs));
    Report {
        name,
        against: "the same with 1,000 entries".into(),
        figure: other.as_secs_f64() / one.as_secs_f64(),
        unit: "×",
        target: Target::AtMost(target),
        detail: format!("{} with {messages} entries against {}", us(other), us(one)),
    }
}

/// The last 20 entries.
pub(crate) fn last_entries(setting: &Setting) -> Vec<Report> {
    let (sessions, short, long, messages) = two_sessions(setting);
    let read = |id| {
        let head = sessions.get(id).expect("a session").tally.entries;
        let entries = sessions.read(id, head - 20..head).expect("entries");
        assert_eq!(entries.len(), 20);
    };
    vec![pair("last 20 entries of a long session", messages, 1.2, || read(short), || read(long))]
}

/// What it costs to compare every entry that is read with its fingerprint and its seal.
pub(crate) fn compared(setting: &Setting) -> Vec<Report> {
    let sessions = setting.sessions("read.db");
    let id = sessions.create(&New::default(), None).expect("a session").id();
    let entries = 1_000;
    let mut reports = Vec::new();
    for (name, bytes) in [
        ("comparing 1,000 entries of 1 KB that are read", 1_000),
        ("comparing 1,000 entries of 10 KB that are read", 10_000),
    ] {
        let head = sessions.get(id).expect("a session").tally.entries;
        fill(&sessions, id, entries, bytes);
        let read = || sessions.read(id, head..head + entries as u64).expect("entries");
        let bodies: Vec<String> = read().iter().map(|entry| entry.body.json()).collect();
        // As long as what a seal is made of.
        let place = "x".repeat(68);
        let compare = || {
            for json in &bodies {
                std::hint::black_box(fingerprint("message", json));
                std::hint::black_box(fingerprint("message", &place));
            }
        };
        let (mut reads, mut compares) = (Vec::new(), Vec::new());
        for _ in 0..setting.size(200, 10) {
            reads.push(timed(read).0);
            compares.push(timed(compare).0);
        }
        let (read, compare) = (median(&mut reads), median(&mut compares));
        reports.push(Report {
            name,
            against: "reading them, comparing included".into(),
            figure: compare.as_secs_f64() / read.as_secs_f64(),
            unit: "×",
            target: Target::AtMost(0.5),
            detail: format!("{} of {}", us(compare), us(read)),
        });
    }
    reports
}

/// A context of the whole window.
pub(crate) fn contexts(setting: &Setting) -> Vec<Report> {
    let (sessions, short, long, messages) = two_sessions(setting);
    let model = Model { window: 16_000, reply: 0, ..Model::new("offline", "offline") };
    let mut reports = Vec::new();
    for (name, policy) in [
        ("context `chat` of a long session", Policy::chat()),
        ("context `emacs` of a long session", Policy::emacs()),
        ("context `bot` of a long session", Policy::bot()),
    ] {
        let build = |id| drop(sessions.context(id, &policy, &model).expect("a context"));
        reports.push(pair(name, messages, 1.3, || build(short), || build(long)));
    }
    let (policy, middle) = (Policy::chat(), messages as u64 / 2);
    let at = |seq| {
        let session = sessions.get_at(long, seq).expect("a session");
        drop(sessions.build(session, &policy, &model).expect("a context"));
    };
    let mut report =
        pair("context as of the middle of a log", messages, 1.3, || at(None), || at(Some(middle)));
    report.against = "the same at its end".into();
    reports.push(report);
    reports
}

/// A fork, which copies all there is.
pub(crate) fn forks(setting: &Setting) -> Vec<Report> {
    let sessions = setting.sessions("fork.db");
    let id = sessions.create(&New::default(), None).expect("a session").id();
    let entries = setting.size(10_000, 1_000);
    fill(&sessions, id, entries, 400);
    let (mut forks, mut fills) = (Vec::new(), Vec::new());
    for _ in 0..setting.size(9, 3) {
        forks.push(timed(|| sessions.fork(id, &Fork::default()).expect("a fork")).0);
        let other = sessions.create(&New::default(), None).expect("a session").id();
        fills.push(timed(|| fill(&sessions, other, entries, 400)).0);
    }
    let (fork, filled) = (median(&mut forks), median(&mut fills));
    vec![Report {
        name: "fork of a long session",
        against: "appending as many messages in batches".into(),
        figure: fork.as_secs_f64() / filled.as_secs_f64(),
        unit: "×",
        target: Target::AtMost(3.0),
        detail: format!("{} for {entries} entries against {}", us(fork), us(filled)),
    }]
}
