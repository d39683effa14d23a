//! Reading and importing transcripts, in megabytes of the source a second.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use rethread_transcript::import::import;
use rethread_transcript::read::{Format, Options};
use serde_json::json;

use crate::run::{Report, Setting, Target, median, prose, timed};

/// Parsing a file of Claude Code's lines, and importing it with tokens counted and search filled.
pub(crate) fn claude_code(setting: &Setting) -> Vec<Report> {
    let path = file(setting);
    let megabytes = std::fs::metadata(&path).expect("it is there").len() as f64 / 1e6;
    let modified = jiff::Timestamp::UNIX_EPOCH;
    let options = Options { zone: jiff::tz::TimeZone::UTC, modified, keys: false };
    let rounds = setting.size(5, 1);
    let (mut parsed, mut imported, mut filled) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let read = || import(None, Format::ClaudeCode, &path, &options, &mut |_| {});
        parsed.push(timed(|| read().expect("read")).0);
        let sessions = setting.sessions(&format!("import-{round}.db"));
        let take = || import(Some(&sessions), Format::ClaudeCode, &path, &options, &mut |_| {});
        let (took, receipt) = timed(take);
        assert!(receipt.expect("imported").account.balances(), "a record is missing");
        let search = timed(|| sessions.search("bucket", 0, 1).expect("found")).0;
        imported.push(took + search);
        filled.push(search);
    }
    let rate = |time: Duration| megabytes / time.as_secs_f64();
    let (parse, whole, search) = (median(&mut parsed), median(&mut imported), median(&mut filled));
    vec![
        Report {
            name: "Claude Code lines parsed",
            against: "nothing".into(),
            figure: rate(parse),
            unit: "MB/s",
            target: Target::AtLeast(100.0),
            detail: format!("{megabytes:.0} MB in {:.2} s", parse.as_secs_f64()),
        },
        Report {
            name: "the same imported, tokens counted, search filled",
            against: "nothing".into(),
            figure: rate(whole),
            unit: "MB/s",
            target: Target::AtLeast(30.0),
            detail: format!(
                "{:.2} s, of which the search index took {:.2} s",
                whole.as_secs_f64(),
                search.as_secs_f64()
            ),
        },
    ]
}

/// A conversation with tools, as Claude Code writes it.
fn file(setting: &Setting) -> PathBuf {
    let mut text = String::new();
    let mut parent = None;
    for number in 0..setting.size(20_000, 1_000) {
        let uuid = format!("00000000-0000-4000-8000-{number:012}");
        let (kind, content) = match number % 3 {
            0 => ("user", json!(prose(number, 300))),
            1 => (
                "assistant",
                json!([{"type": "text", "text": prose(number, 500)},
                    {"type": "tool_use", "id": format!("c{number}"), "name": "Read", "input": {"file": "src/main.rs"}}]),
            ),
            _ => (
                "user",
                json!([{"type": "tool_result", "tool_use_id": format!("c{}", number - 1), "content": prose(number, 4_000)}]),
            ),
        };
        let usage =
            json!({"input_tokens": 9, "cache_read_input_tokens": 900, "output_tokens": 120});
        let message =
            json!({"role": kind, "id": format!("m{number}"), "content": content, "usage": usage});
        let record = json!({
            "parentUuid": parent, "isSidechain": false, "cwd": "/work", "sessionId": "s", "type": kind,
            "uuid": uuid, "timestamp": "2026-01-23T14:21:43.537Z", "message": message,
        });
        writeln!(text, "{record}").expect("memory takes every write");
        parent = Some(uuid);
    }
    let path = setting.folder.join("claude.jsonl");
    std::fs::write(&path, text).expect("written");
    path
}
