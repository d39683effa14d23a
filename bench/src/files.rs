//! A directory of JSON files: appending to a growing session, and turns while other processes
//! write.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Incoming, Message, New, Owner, Sessions};
use rethread_store::{System, connect};

use crate::append::fill;
use crate::process::chat_beside_writers;
use crate::run::{Report, Setting, Target, median, prose, quantile, timed, us};

/// Characters of a message.
const CHARS: usize = 1_000;

/// Appending to a long session, and turns while other processes write.
pub(crate) fn directory(setting: &Setting) -> Vec<Report> {
    let mut reports = long_session(setting);
    reports.extend(chat_beside_writers(setting));
    reports
}

/// The last appends to a long session and the first to a new one, in turns; and the same with a
/// store that rewrites its JSON file each time.
fn long_session(setting: &Setting) -> Vec<Report> {
    let messages = setting.size(10_000, 1_000);
    let window = messages / 20;
    let url = format!("files:{}", setting.folder.join("sessions").display());
    let store = connect(&url, Arc::new(System)).expect("a store");
    let sessions = Sessions::new(store, Owner::local(), Arc::new(System));
    let new = || sessions.create(&New::default(), None).expect("a session").id();
    let (long, short) = (new(), new());
    fill(&sessions, long, messages - window, CHARS);
    let (mut last, mut first) = (Vec::new(), Vec::new());
    for number in 0..window {
        let append = |id| {
            let message = vec![Incoming::from(Message::user(prose(number, CHARS)))];
            timed(|| sessions.append(id, message).expect("appended")).0
        };
        // They take turns, because the first in a round may find the disk busy or idle.
        match number % 2 {
            0 => {
                last.push(append(long));
                first.push(append(short));
            }
            _ => {
                first.push(append(short));
                last.push(append(long));
            }
        }
    }
    let (p90_last, p90_first) = (quantile(&mut last, 0.9), quantile(&mut first, 0.9));
    let (last, first) = (median(&mut last), median(&mut first));

    // Two files: replacing a large one by a small one would pay for freeing it.
    let [long, short] = ["long.json", "short.json"].map(|name| setting.folder.join(name));
    let texts: Vec<String> = (0..messages).map(|number| prose(number, CHARS)).collect();
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        large.push(timed(|| rewrite(&long, &texts)).0);
        small.extend((0..10).map(|_| timed(|| rewrite(&short, &texts[..1])).0));
    }
    // The fast ones: a small write takes as long as its syncs wait for others, and this measures
    // the store, not other users of the disk.
    let (large, small) = (quantile(&mut large, 0.1), quantile(&mut small, 0.1));
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    vec![
        Report {
            name: "files: the last of 10,000 appends, p50",
            against: "the first of another session".into(),
            figure: ratio(last, first),
            unit: "×",
            target: Target::AtMost(1.5),
            detail: format!(
                "{} against {} (p90 {} against {})",
                us(last),
                us(first),
                us(p90_last),
                us(p90_first)
            ),
        },
        Report {
            name: "a store that rewrites its JSON: the same, p10",
            against: "its first append".into(),
            figure: ratio(large, small),
            unit: "×",
            target: Target::AtLeast(20.0),
            detail: format!("{} against {}", us(large), us(small)),
        },
    ]
}

/// What a simple store does for each message: the whole file, synced, renamed.
fn rewrite(path: &Path, texts: &[String]) {
    let messages: Vec<serde_json::Value> =
        texts.iter().map(|text| serde_json::json!({ "role": "user", "content": text })).collect();
    let text = serde_json::json!({ "messages": messages }).to_string();
    let temp = path.with_extension("tmp");
    let mut file = std::fs::File::create(&temp).expect("a file");
    file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).expect("a synced write");
    std::fs::rename(&temp, path).expect("renamed");
}
