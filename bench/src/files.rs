//! Appending to a session that grows, in a directory of JSON files.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Incoming, Message, New, Owner, Sessions};
use rethread_store::{System, connect};

use crate::run::{Report, Setting, Target, median, prose, timed, us};

/// Characters of a message.
const CHARS: usize = 1_000;

/// The first and the last appends of a long session, against a store that writes its JSON file
/// anew each time: both as they grow from one end to the other.
pub(crate) fn long_session(setting: &Setting) -> Vec<Report> {
    let messages = setting.size(10_000, 1_000);
    let window = messages / 20;
    let url = format!("files:{}", setting.folder.join("sessions").display());
    let store = connect(&url, Arc::new(System)).expect("a store");
    let sessions = Sessions::new(store, Owner::local(), Arc::new(System));
    let id = sessions.create(&New::default(), None).expect("a session").id();
    // The first appends also load the vocabulary; they go to another session.
    let warm = sessions.create(&New::default(), None).expect("a session").id();
    let message = |number| vec![Incoming::from(Message::user(prose(number, CHARS)))];
    (0..50).for_each(|number| drop(sessions.append(warm, message(number)).expect("appended")));
    let mut times: Vec<Duration> = Vec::with_capacity(messages);
    for number in 0..messages {
        let message = message(number);
        times.push(timed(|| sessions.append(id, message).expect("appended")).0);
    }
    let mean = |times: &[Duration]| times.iter().sum::<Duration>() / times.len() as u32;
    let (all, slowest) = (mean(&times), times.iter().max().copied().unwrap_or_default());
    let last_mean = mean(&times[messages / 2..]);
    let last = median(&mut times[messages - window..].to_vec());
    let first = median(&mut times[..window].to_vec());

    let path = setting.folder.join("naive.json");
    let texts: Vec<String> = (0..messages).map(|number| prose(number, CHARS)).collect();
    let naive = |end: usize| {
        let mut times: Vec<Duration> =
            (0..11).map(|_| timed(|| rewrite(&path, &texts[..end])).0).collect();
        median(&mut times)
    };
    let (small, large) = (naive(1), naive(messages));
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    vec![
        Report {
            name: "files: the last of 10,000 appends, p50",
            against: format!("the first {window}"),
            figure: ratio(last, first),
            unit: "×",
            target: Target::AtMost(1.5),
            detail: format!(
                "{} against {}; mean of all {}, of the second half {}; slowest {} (a fold)",
                us(last),
                us(first),
                us(all),
                us(last_mean),
                us(slowest)
            ),
        },
        Report {
            name: "a store that rewrites its JSON: the same",
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
