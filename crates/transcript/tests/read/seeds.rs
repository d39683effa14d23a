//! The files of the programs that Rethread grew out of.

use rethread_core::measure::measure;
use rethread_core::message::Usage;
use rethread_core::{Body, EntryId, Header, NewEntry, Owner, Session};
use rethread_transcript::read::{Format, belongs_to_transcript};
use rethread_transcript::write::markdown::TranscriptHeader;

use crate::support::{Collected, options, read_as, read_file, written};

#[test]
fn the_order_of_an_emacs_session_is_found_by_its_pairs() {
    let call = r#"{"role":"assistant","content":[{"type":"text","text":"Reading."},{"type":"tool_use","id":"c1","name":"read_file","input":null}]}"#;
    let result =
        r#"{"role":"tool","content":{"type":"tool_result","tool_use_id":"c1","content":"x"}}"#;
    let orphan =
        r#"{"role":"tool","content":{"type":"tool_result","tool_use_id":"gone","content":"y"}}"#;
    let user = r#"{"role":"user","content":"read it"}"#;
    let expected = ["tool: = y", "user: read it", "assistant: Reading. read_file({})", "tool: = x"];
    for order in [[orphan, user, call, result], [result, call, user, orphan]] {
        let text = format!(
            r#"{{"id":"session-20250221-143015","messages":[{}],"timestamp":"2025-02-21T14:30:15-0800"}}"#,
            order.join(",")
        );
        let collected = read_as("session-20250221-143015.json", text, Format::Magent);
        assert_eq!(collected.said(0), expected);
        assert_eq!(collected.account.orphans, 1);
        let at = collected.sessions[0].1[0].at.expect("a time");
        assert_eq!(at.to_string(), "2025-02-21T22:30:15Z");
    }
}

#[test]
fn without_pairs_an_emacs_session_is_oldest_first_only_if_it_looks_so() {
    let message = |role: &str, text: &str| format!(r#"{{"role":"{role}","content":"{text}"}}"#);
    let read = |messages: &[String]| {
        let text = format!(r#"{{"id":"s","messages":[{}]}}"#, messages.join(","));
        read_as("s.json", text, Format::Magent).said(0)
    };
    let (user, reply) = (message("user", "hi"), message("assistant", "yes"));
    assert_eq!(read(&[user.clone(), reply.clone()]), ["user: hi", "assistant: yes"]);
    assert_eq!(read(&[reply.clone(), user.clone()]), ["user: hi", "assistant: yes"]);
    let again = message("user", "again");
    assert_eq!(read(&[again, reply, user])[0], "user: hi");
    assert!(read_as("s.json", r#"{"id":"s","messages":null}"#, Format::Magent).said(0).is_empty());
}

#[test]
fn a_command_line_agents_folder_is_read_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = r#"{"metadata":{"id":"my-session","name":"My Session","description":"auth","createdAt":"2025-01-04T14:32:15.000Z","lastActivityAt":"2025-01-04T15:45:30.000Z","messageCount":2,"firstMessage":"hi","provider":"openai","model":"gpt-5"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}],"contextSummary":"You are resuming"}"#;
    written(folder.path(), "my-session.json", session);
    written(folder.path(), "broken.json", "{\"metadata\":");
    written(folder.path(), "last_session", "my-session");
    written(folder.path(), "index.json", r#"{"version":"1.0","sessions":{},"updatedAt":"x"}"#);
    let collected = read_file(folder.path(), Format::Agent).expect("it is read");
    assert_eq!(collected.said(0), ["user: hi", "assistant: hello"]);
    assert_eq!(collected.kinds(0), ["imported/agent/context_summary"]);
    assert_eq!(collected.found(0).profile.model.as_deref(), Some("gpt-5"));
    assert_eq!(collected.account.unreadable, 1, "{:?}", collected.account);
}

const BOT: &str = r#"{
  "123456": {"user_id": 123456, "created_at": "2025-01-15T10:00:00.123456", "last_activity": "2025-01-15T10:30:00",
    "history": [{"role": "user", "content": "cut \ud83d", "timestamp": "2025-01-15T10:00:00.123456"},
                {"role": "user", "content": "again", "timestamp": "2025-01-15T10:00:01"},
                {"role": "assistant", "content": "", "timestamp": "2025-01-15T10:00:02"}],
    "current_workspace": "/srv/project"},
  "7:a:b": {"user_id": 7, "created_at": "x", "last_activity": "y", "history": [], "current_workspace": null}
}"#;

#[test]
fn a_bots_users_each_get_their_own_sessions() {
    let collected = read_as("sessions.json", BOT, Format::Telegram);
    assert_eq!(collected.said(0), ["user: cut \u{fffd}", "user: again", "assistant: "]);
    let found = collected.found(0);
    assert_eq!(found.owner.as_deref(), Some("telegram:123456"));
    assert_eq!(found.keys, ["telegram:123456"]);
    assert_eq!(found.profile.workspace.as_deref(), Some("/srv/project"));
    assert_eq!(found.created_at.expect("a time").to_string(), "2025-01-15T18:00:00.123456Z");
    assert_eq!(collected.found(1).keys, ["telegram:7:a:b"]);
    assert_eq!(collected.found(1).owner.as_deref(), Some("telegram:7"));
    assert!(collected.said(1).is_empty(), "a cleared session is a session");
}

/// A session as the bot saves it: `(role, text, second)`.
fn bot_saved(user: u64, said: &[(&str, &str, u32)]) -> serde_json::Value {
    let history: Vec<serde_json::Value> = said
        .iter()
        .map(|(role, text, second)| {
            let at = format!("2025-01-15T10:00:{second:02}");
            serde_json::json!({ "role": role, "content": text, "timestamp": at })
        })
        .collect();
    serde_json::json!({ "user_id": user, "created_at": "2025-01-15T10:00:00",
        "last_activity": format!("2025-01-15T10:01:{:02}", said.len()), "history": history,
        "current_workspace": format!("/srv/{}", said.len()) })
}

#[test]
fn the_default_session_of_a_user_is_the_one_the_bot_continues() {
    let said = [("user", "hello", 1), ("assistant", "hi", 2)];
    let file = |key: &str| serde_json::json!({ key: bot_saved(7, &said) }).to_string();
    let plain = read_as("sessions.json", file("7"), Format::Telegram);
    let newer = read_as("sessions.json", file("7:default"), Format::Telegram);
    assert_eq!(newer.found(0), plain.found(0), "a newer version saves the same session");
    assert_eq!(newer.found(0).keys, ["telegram:7"]);
    assert_eq!(newer.sessions[0].1, plain.sessions[0].1, "with the same entries");
    let named = read_as("sessions.json", file("7:work"), Format::Telegram);
    assert_eq!(named.found(0).keys, ["telegram:7:work"]);
    assert_ne!(named.found(0).identity, plain.found(0).identity);
}

#[test]
fn what_both_versions_of_a_bot_saved_for_a_user_is_one_session_in_order() {
    let old = [("user", "hello", 1), ("assistant", "hi", 2), ("user", "left behind", 3)];
    let new =
        [("user", "hello", 1), ("assistant", "hi", 2), ("user", "more", 4), ("user", "more", 4)];
    let orders = [["7", "7:default"], ["7:default", "7"]];
    for [first, second] in orders {
        let of = |key: &str| if key == "7" { bot_saved(7, &old) } else { bot_saved(7, &new) };
        let file = format!("{{{first:?}: {}, {second:?}: {}}}", of(first), of(second));
        let collected = read_as("sessions.json", file, Format::Telegram);
        assert_eq!(collected.sessions.len(), 1, "{first}");
        let found = collected.found(0);
        assert_eq!(
            (found.identity.as_str(), found.keys.as_slice()),
            ("7", &["telegram:7".into()][..])
        );
        assert_eq!(found.profile.workspace.as_deref(), Some("/srv/4"), "the one used last");
        assert_eq!(
            collected.said(0),
            ["user: hello", "assistant: hi", "user: left behind", "user: more", "user: more"]
        );
        assert!(collected.account.balances(), "{:?}", collected.account);
    }
}

#[test]
fn a_bots_file_that_was_cut_off_keeps_what_is_whole() {
    let cut = &BOT[..BOT.find("\"again\"").expect("there") + 4];
    let collected = read_as("sessions.json", cut, Format::Telegram);
    assert_eq!(collected.said(0), ["user: cut \u{fffd}"]);
    assert_eq!(collected.account.unreadable, 1);
}

const OLD: &str = "# Simple Sally Conversation\n\n**Date:** 2025-12-30T23:59:58\n\n**Agent:** Simple Sally\n\n---\n\n\
    ## Query 1 (23:59:59)\n**You:** one\n\n**Simple Sally:** It writes `---` and\n<!-- SESSION_SUMMARY_START -->\nquoted\n\n\
    *Time: 1.0s | Tokens: 12 (in: 8, out: 4)*\n\n---\n\n\
    ## Query 2 (00:00:03)\n**You:** two\n\n**Simple Sally:** Yes.\n\n*Time: 1.0s | Tokens: 30 (in: 20, out: 10)*\n\n---\n\n\
    Here is the summary:\n<!-- SESSION_SUMMARY_START -->\n**Background Context:** Initial session.\n<!-- SESSION_SUMMARY_END -->\n";

#[test]
fn a_markdown_transcript_of_an_old_version_is_read() {
    let collected = read_as("old.md", OLD, Format::Markdown);
    assert_eq!(collected.said(0).len(), 4);
    let kinds = ["finished", "finished", "summary", "imported/markdown/rest"];
    assert_eq!(collected.kinds(0), kinds, "and the words around it");
    let at = |index: usize| collected.sessions[0].1[index].at.expect("a time").to_string();
    assert_eq!(at(0), "2025-12-31T07:59:59Z");
    assert_eq!(at(3), "2025-12-31T08:00:03Z", "past midnight");
}

/// What the original program writes: it rewrites the file after each query, with the date of that
/// moment, and adds its summary at the end.
fn saved(id: &str, date: &str, queries: &[(&str, &str)], summary: &str) -> String {
    let turns: String = (1..)
        .zip(queries)
        .map(|(number, (time, text))| {
            format!(
                "## Query {number} ({time})\n**You:** {text}\n\n**Simple Sally:** Yes.\n\n\
                 *Time: 3.2s | Tokens: 30 (in: 20, out: 10)*\n\n---\n\n"
            )
        })
        .collect();
    let count = queries.len();
    format!(
        "# Simple Sally Conversation\n\n**Session ID:** {id}\n**Date:** {date}\n\
         **Agent:** Simple Sally\n**Total Queries:** {count}\n\n---\n\n{turns}{summary}"
    )
}

const SALLY: &str = "simple_sally_20251230_112153";

#[test]
fn a_date_that_is_that_of_the_last_save_moves_nothing_to_another_day() {
    let times = |text: String| {
        let collected = read_as("s.md", text, Format::Markdown);
        let mut times = vec![collected.found(0).created_at.expect("a time").to_string()];
        let said = collected.sessions[0].1.iter().filter(|entry| entry.body.message().is_some());
        times.extend(said.step_by(2).map(|entry| entry.at.expect("a time").to_string()));
        times
    };
    let day = [("11:22:01", "one"), ("11:40:00", "two")];
    let expected = ["2025-12-30T19:21:53Z", "2025-12-30T19:22:01Z", "2025-12-30T19:40:00Z"];
    assert_eq!(times(saved(SALLY, "2025-12-30T11:52:10.5", &day, "")), expected);
    assert_eq!(times(saved(&format!("{SALLY}_2"), "2025-12-30T11:52:10", &day, "")), expected);
    // The id says nothing of the time; the date is shortly after the queries.
    let expected = ["2025-12-30T19:22:01Z", "2025-12-30T19:22:01Z", "2025-12-30T19:40:00Z"];
    assert_eq!(times(saved("session_3", "2025-12-30T11:52:10", &day, "")), expected);
    let night = [("23:50:00", "one"), ("00:05:00", "two")];
    let expected = ["2025-12-31T07:50:00Z", "2025-12-31T07:50:00Z", "2025-12-31T08:05:00Z"];
    assert_eq!(times(saved("session_3", "2025-12-31T00:10:00", &night, "")), expected);
    // Where the date is that of the beginning, it is close before them.
    let expected = ["2025-12-31T07:49:58Z", "2025-12-31T07:50:00Z", "2025-12-31T08:05:00Z"];
    assert_eq!(times(saved("session_3", "2025-12-30T23:49:58", &night, "")), expected);
}

#[test]
fn a_transcript_that_grew_is_the_same_session_with_more_in_it() {
    let summary = "<!-- SESSION_SUMMARY_START -->\nA word.\n<!-- SESSION_SUMMARY_END -->\n";
    let queries = [("11:22:01", "one"), ("11:40:00", "two")];
    for id in [SALLY, "session_3"] {
        let versions = [
            saved(id, "2025-12-30T11:22:05", &queries[..1], ""),
            saved(id, "2025-12-30T11:40:09", &queries, ""),
            saved(id, "2025-12-30T11:52:10", &queries, summary),
        ]
        .map(|text| read_as("s.md", text, Format::Markdown));
        let ids = |collected: &Collected| {
            collected.sessions[0].1.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>()
        };
        for pair in versions.windows(2) {
            assert_eq!(pair[0].found(0).identity, pair[1].found(0).identity, "{id}");
            assert_eq!(ids(&pair[1])[..ids(&pair[0]).len()], ids(&pair[0]), "{id}");
        }
        assert_eq!(ids(&versions[2]).len(), 7, "{id}: two turns with their times, and a summary");
        let other = saved(id, "2025-12-31T11:22:05", &[("09:00:00", "one")], "");
        let other = read_as("s.md", other, Format::Markdown);
        assert_ne!(other.found(0).identity, versions[0].found(0).identity, "{id}: another chat");
    }
}

#[test]
fn cumulative_counts_are_split_by_turn() {
    let turn = |number: usize, input: u64, output: u64| {
        format!(
            "## Query {number} (10:00:0{number})\n**You:** q\n\n**Sally:** {}\n\n*Time: 1.0s | Tokens: {} (in: {input}, out: {output})*\n\n---\n\n",
            "word ".repeat(20),
            input + output
        )
    };
    let head = "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n\n---\n\n";
    let read = |turns: [String; 3]| {
        read_as("s.md", format!("{head}{}", turns.join("")), Format::Markdown).account.tokens
    };
    let usage = |input, output| Usage { input, output, ..Usage::default() };
    assert_eq!(read([turn(1, 10, 20), turn(2, 25, 41), turn(3, 40, 62)]), usage(40, 62));
    assert_eq!(read([turn(1, 10, 20), turn(2, 25, 21), turn(3, 40, 22)]), usage(75, 63));
}

/// The transcript written from an imported transcript.
fn written_again(collected: &Collected) -> String {
    let (found, entries) = &collected.sessions[0];
    let created_at = found.created_at.expect("a time");
    let id = rethread_core::SessionId::of_source(&Owner::local(), &found.identity);
    let mut header = Header::new(id, Owner::local(), created_at);
    header.profile = found.profile.clone();
    let mut session = Session::new(header);
    session.readable_id.clone_from(&found.readable_id);
    let mut placed = Vec::new();
    for entry in entries {
        let id = EntryId::new(entry.id.clone()).expect("an id");
        let (at, body) = (entry.at.expect("a time"), entry.body.clone());
        let new = NewEntry { id, at, measure: measure(&body, |_| None), body };
        placed.push(new.placed(&session.tally));
        session.tally = placed.last().expect("just placed").tally;
    }
    let agent = found.profile.agent.as_deref().expect("an agent");
    let page = TranscriptHeader { session: &session, agent, previous: None, zone: options().zone };
    rethread_transcript::write::markdown::text(&page, placed).0
}

#[test]
fn what_a_transcript_says_of_times_and_tokens_is_written_again_to_the_letter() {
    let lines = [
        "*Time: 3.25s | Tokens: 345 (in: 123, out: 222)*\n\n",
        "*Time: 12.0s | Tokens: 1,290*\n\n",
        "*Tokens: 2.3K*\n\n",
        "",
    ];
    let turns: String = (1..)
        .zip(lines)
        .map(|(number, line)| {
            format!(
                "## Query {number} (11:22:0{number})\n**You:** ask\n\n**Simple Sally:** Yes.\n\n{line}---\n\n"
            )
        })
        .collect();
    let text = format!(
        "# Simple Sally Conversation\n\n**Session ID:** {SALLY}\n**Date:** 2025-12-30T11:21:53.000000\n\
         **Agent:** Simple Sally\n**Agent Path:** /agents/sally.py\n**Total Queries:** 4\n\n---\n\n{turns}"
    );
    let collected = read_as("s.md", text.clone(), Format::Markdown);
    let again = written_again(&collected);
    assert_eq!(again.replace("\n\n\n", "\n\n"), text);
}

#[test]
fn running_totals_are_kept_beside_what_each_turn_added() {
    let reply = "word ".repeat(20);
    let turn = |number: u64, input: u64, output: u64| {
        let total = input + output;
        format!(
            "## Query {number} (10:00:0{number})\n**You:** q\n\n**Sally:** {reply}\n\n\
             *Time: 1.0s | Tokens: {total} (in: {input}, out: {output})*\n\n---\n\n"
        )
    };
    let head = "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n\n---\n\n";
    let text = format!("{head}{}{}{}", turn(1, 10, 20), turn(2, 25, 41), turn(3, 40, 62));
    let collected = read_as("s.md", text, Format::Markdown);
    let replies = collected.sessions[0].1.iter().filter_map(|entry| entry.body.message());
    let replies = replies.filter(|message| message.role == rethread_core::Role::Assistant);
    let told: Vec<(u64, String)> = replies
        .map(|reply| {
            let total = reply.extra.iter().find(|(name, _)| name == "running_total");
            (reply.usage.expect("counted").output, total.expect("kept").1.get().to_owned())
        })
        .collect();
    assert_eq!(told.iter().map(|(output, _)| *output).collect::<Vec<_>>(), [20, 21, 21]);
    assert!(told[2].1.contains(r#""output":62"#), "{told:?}");
    let again = written_again(&collected);
    assert!(again.contains("*Time: 1.0s | Tokens: 102 (in: 40, out: 62)*"), "{again}");
}

#[test]
fn a_transcript_quoted_in_a_code_fence_is_part_of_the_reply() {
    let quoted = "```markdown\n# Sally Conversation\n\n---\n\n## Query 2 (10:00:00)\n**You:** old\n\n**Sally:** old answer\n\n*Time: 9.0s*\n\n---\n```";
    let fits = |queries: &str, after: &str| {
        let text = format!(
            "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n{queries}\n---\n\n\
             ## Query 1 (10:00:01)\n**You:** {quoted}\n\n**Sally:** Here:\n{quoted}\n\n\
             *Time: 1.0s*\n\n---\n\n{after}"
        );
        read_as("s.md", text, Format::Markdown).said(0)
    };
    let next =
        "## Query 2 (10:00:09)\n**You:** thanks\n\n**Sally:** Sure.\n\n*Time: 1.0s*\n\n---\n";
    for (queries, after, count) in
        [("**Total Queries:** 1\n", "", 2), ("**Total Queries:** 2\n", next, 4), ("", next, 4)]
    {
        let said = fits(queries, after);
        assert_eq!(said.len(), count, "{said:#?}");
        assert!(said[0].starts_with("user: ```markdown") && said[0].ends_with("```"));
        assert!(said[1].contains("old answer") && said[1].ends_with("```"), "{}", said[1]);
    }
}

#[test]
fn a_fence_that_was_never_closed_hides_no_later_query() {
    let turn = |number: u64, text: &str| {
        format!("## Query {number} (10:00:0{number})\n**You:** q\n\n**Sally:** {text}\n\n---\n\n")
    };
    let text = format!(
        "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n**Total Queries:** 3\n\n---\n\n{}{}{}",
        turn(1, "Look:\n```rust\nfn cut("),
        turn(2, "And:\n```\nwhole\n```"),
        turn(3, "Done.")
    );
    assert_eq!(read_as("s.md", text, Format::Markdown).said(0).len(), 6);
}

#[test]
fn a_fence_left_open_hides_neither_the_reply_nor_the_summary() {
    let head = "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n\n---\n\n";
    let asked = "## Query 1 (10:00:01)\n**You:** see:\n```\nfoo\n\n**Sally:** So:\n```rust\nbar\n```\n\n---\n";
    let said = read_as("s.md", format!("{head}{asked}"), Format::Markdown).said(0);
    assert_eq!(said, ["user: see:\n```\nfoo", "assistant: So:\n```rust\nbar\n```"]);
    let cut = "## Query 1 (10:00:01)\n**You:** go\n\n**Sally:** So:\n```rust\nfn cut(\n\n---\n\n\
               <!-- SESSION_SUMMARY_START -->\nUse:\n```\nx\n```\n<!-- SESSION_SUMMARY_END -->\n";
    let collected = read_as("s.md", format!("{head}{cut}"), Format::Markdown);
    assert!(collected.kinds(0).contains(&"summary"), "{:?}", collected.kinds(0));
}

#[test]
fn a_folder_of_transcripts_becomes_a_chain() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = "# Sally Conversation\n\n**Session ID:** session_1\n**Agent:** Sally\n\n---\n\n## Query 1 (10:00:00)\n**You:** a\n";
    let second = "# Sally Conversation\n\n**Session ID:** session_2\n**Agent:** Sally\n\n---\n\n## Session Restored (11:00:00)\n**Context:** Resumed from session_1 (5 queries, 2.3K)\n**Previous Session:** /gone/session_1.md\n\n**Sally:** Ready.\n\n---\n\n## Query 1 (11:00:10)\n**You:** b\n";
    let own = "# Sally Conversation\n\n**Session ID:** session_3\n**Agent:** Sally\n**Previous Session:** session_3.md\n\n---\n\n## Query 1 (11:00:10)\n**You:** c\n";
    let paths = [("session_1.md", first), ("session_2.md", second), ("session_3.md", own)]
        .map(|(name, text)| written(folder.path(), name, text));
    let heaps = paths.map(|path| read_file(&path, Format::Markdown).expect("it is read"));
    let parent = heaps[1].found(0).parent.as_ref().expect("a parent");
    assert_eq!(parent.identity, heaps[0].found(0).identity);
    assert!(parent.origin.continues());
    assert_eq!(heaps[2].found(0).parent, None, "nobody is their own parent");
    let Body::Restored(restored) = &heaps[1].sessions[0].1[0].body else { panic!("restored") };
    assert_eq!((restored.previous.queries, restored.previous.tokens), (5, 2_300));
}

#[test]
fn the_twin_of_a_transcript_is_kept_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n\n---\n\n## Query 1 (10:00:00)\n**You:** which one?\n\n**Sally:** That.\n";
    let path = written(folder.path(), "s.md", text);
    let twin = r#"{"queries": [{"query": "which one?", "tool_output": "only here"}]}"#;
    let other = written(folder.path(), "s.json", twin);
    let collected = read_file(&path, Format::Markdown).expect("it is read");
    assert_eq!(collected.kinds(0), ["imported/markdown/twin"]);
    let kept = collected.sessions[0].1.last().expect("an entry");
    assert_eq!(kept.body.json(), twin, "byte for byte");
    assert!(belongs_to_transcript(&other));
    // Another file with that name is not one.
    for text in [r#"{"queries": ["something else"]}"#, "{\"which one?\"", ""] {
        written(folder.path(), "s.json", text);
        assert!(!belongs_to_transcript(&other), "{text}");
        assert_eq!(read_file(&path, Format::Markdown).expect("it is read").kinds(0).len(), 0);
    }
}
