//! Listing among very many sessions.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rethread_core::{Message, New, Profile, Sessions};

use crate::run::{Report, Setting, Target, median, quantile, timed, us};

/// The fifty newest of 100,000 sessions, in the library and as a process.
pub(crate) fn newest(setting: &Setting) -> Vec<Report> {
    let sessions = setting.sessions("list.db");
    let all = setting.size(100_000, 2_000);
    fill(&sessions, all);
    let filter = Sessions::default_filter();
    let mut library = Vec::new();
    for round in 0..300 {
        let (time, page) = timed(|| sessions.list(&filter, None, 50).expect("a list"));
        assert_eq!(page.sessions.len(), 50);
        if round >= 50 {
            library.push(time);
        }
    }
    let time = median(&mut library);
    let mut reports = vec![Report {
        name: "50 newest of 100,000 sessions, library, p50",
        against: format!("a limit, among {all} sessions"),
        figure: time.as_secs_f64() * 1e3,
        unit: "ms",
        target: Target::AtMost(5.0),
        detail: format!("p99 {}", us(quantile(&mut library, 0.99))),
    }];
    drop(sessions);
    let Some(binary) = binary() else {
        println!(
            "rethread is not built, so `rethread list` was not timed: `cargo build --release`"
        );
        return reports;
    };
    let mut processes = Vec::new();
    for _ in 0..60 {
        let mut command = Command::new(&binary);
        command.arg("--store").arg(setting.folder.join("list.db")).args(["list", "-n", "50"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        processes.push(timed(|| assert!(command.status().expect("it runs").success())).0);
    }
    let nothing = || assert!(Command::new("/bin/true").status().expect("it runs").success());
    let mut floor: Vec<_> = (0..60).map(|_| timed(nothing).0).collect();
    reports.push(Report {
        name: "`rethread list` as a process, p50",
        against: format!("a limit; `true` takes {}", us(median(&mut floor))),
        figure: median(&mut processes).as_secs_f64() * 1e3,
        unit: "ms",
        target: Target::AtMost(40.0),
        detail: format!("p99 {}", us(quantile(&mut processes, 0.99))),
    });
    reports
}

fn fill(sessions: &Sessions, all: usize) {
    for number in 0..all {
        let system = None;
        let new = New {
            system,
            profile: Profile {
                workspace: Some(format!("/projects/{}", number % 100)),
                ..Profile::default()
            },
            ..New::default()
        };
        let session = sessions.create(&new, None).expect("a session");
        // Most have a message; writing to all of them would take twice as long.
        if number % 10 == 0 {
            let message = Message::user(format!("question number {number}"));
            sessions.append(session.id(), vec![message.into()]).expect("appended");
        }
    }
}

/// The release binary, built next to this one.
fn binary() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join("rethread");
    path.exists().then_some(path)
}
