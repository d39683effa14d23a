//! What is read back.

use jiff::civil::{date, time};
use rethread_core::entry::{Body, PreviousSession};
use rethread_core::message::Usage;
use rethread_core::{Block, Message, Raw, Role};
use rethread_transcript::read::markdown::{
    Cost, MarkdownError, ParsedTranscript, RestoredFrom, TranscriptSummary, TranscriptTurn, read,
};
use rethread_transcript::write::markdown::{TranscriptHeader, text};

use crate::log::Log;

/// A file as the first program wrote it.
const FOREIGN: &str = "\
# Simple Sally Conversation

**Session ID:** session_3
**Date:** 2025-12-30T14:30:22.123456
**Agent:** Simple Sally
**Agent Path:** /agents/agent.py
**Total Queries:** 3

---

## Session Restored (14:30:22)
**Context:** Resumed from session_2 (5 queries, 2.3K tokens)
**Previous Session:** /conversations/session_2.md

**Simple Sally:** I've reviewed it.
Ready!

*Time: 2.1s | Tokens: 156 (in: 89, out: 67)*

---

## Query 1 (14:30:45)
**You:** Let's go

**Simple Sally:** Two parts:

---

## Query planning

Done.

*Time: 3.2s | Tokens: 1,345 (in: 123, out: 1,222)*

---

## Query 2 (14:31:00)
**You:** And?

**Simple Sally:** That's it.

---

<!-- SESSION_SUMMARY_START -->
**Background Context:** Initial session.
<!-- SESSION_SUMMARY_END -->
";

#[test]
fn a_file_of_the_first_program_is_read_whole() {
    let cost = |line: &str, ms: u64, a: u64, b: u64| Cost {
        line: line.into(),
        ms: Some(ms),
        tokens: Some(a + b),
        tokens_in: Some(a),
        tokens_out: Some(b),
    };
    let told = ParsedTranscript {
        title: "Simple Sally Conversation".into(),
        id: Some("session_3".into()),
        date: Some(date(2025, 12, 30).at(14, 30, 22, 123_456_000)),
        agent: "Simple Sally".into(),
        agent_path: Some("/agents/agent.py".into()),
        queries: Some(3),
        resumed_from: Some("session_2".into()),
        previous_session: Some("/conversations/session_2.md".into()),
        restored: Some(RestoredFrom {
            at: Some(time(14, 30, 22, 0)),
            from: Some("session_2".into()),
            queries: Some(5),
            tokens: Some(2_300),
            previous_session: Some("/conversations/session_2.md".into()),
            acknowledgment: "I've reviewed it.\nReady!".into(),
            cost: cost("*Time: 2.1s | Tokens: 156 (in: 89, out: 67)*", 2_100, 89, 67),
        }),
        turns: vec![
            TranscriptTurn {
                at: Some(time(14, 30, 45, 0)),
                user: "Let's go".into(),
                assistant: "Two parts:\n\n---\n\n## Query planning\n\nDone.".into(),
                cost: cost("*Time: 3.2s | Tokens: 1,345 (in: 123, out: 1,222)*", 3_200, 123, 1_222),
                ..TranscriptTurn::default()
            },
            TranscriptTurn {
                at: Some(time(14, 31, 0, 0)),
                user: "And?".into(),
                assistant: "That's it.".into(),
                ..TranscriptTurn::default()
            },
        ],
        summary: TranscriptSummary::Text("**Background Context:** Initial session.".into()),
        tokens: 1_345,
        rest: Vec::new(),
    };
    assert_eq!(read(FOREIGN), Ok(told.clone()));
    let windows = format!("\u{feff}{}", FOREIGN.replace('\n', "\r\n"));
    assert_eq!(read(&windows), Ok(told));
}

#[test]
fn older_and_newer_files_are_read_for_what_they_have() {
    let told = read("# Bob Conversation\n\n**Date:** 2025-01-02 03:04:05\n\n**Total Queries:** 1 (user)\n\n\
                     **Resumed From:** s1\n\n## Query 1\n\n**You:** hi\n**Bobby:** hello\n*Time: 1.5s*\n")
        .unwrap();
    assert_eq!((told.id, told.agent.as_str(), told.agent_path), (None, "Bob", None));
    assert_eq!(told.date, Some(date(2025, 1, 2).at(3, 4, 5, 0)));
    assert_eq!((told.queries, told.resumed_from.as_deref()), (Some(1), Some("s1")));
    assert_eq!((told.summary, told.tokens), (TranscriptSummary::Nothing, 0));
    let cost = Cost { line: "*Time: 1.5s*".into(), ms: Some(1_500), ..Cost::default() };
    let turn = TranscriptTurn {
        user: "hi".into(),
        assistant: "hello".into(),
        cost,
        ..TranscriptTurn::default()
    };
    assert_eq!(told.turns, [turn]);

    let told = read(
        "# B Conversation\n**Session ID:** x\n**Date:** soon\n---\n## Session Restored (?)\n\
                     **Context:** Resumed from s1 (5 queries, 2.3K)\n*Tokens: 12 | Cost: $1*\n",
    )
    .unwrap();
    let restored = told.restored.unwrap();
    assert_eq!((restored.queries, restored.tokens), (Some(5), Some(2_300)));
    assert_eq!((restored.cost.tokens, restored.at, told.date), (Some(12), None, None));
}

#[test]
fn a_text_that_is_not_a_transcript_gives_an_error_that_says_what_is_missing() {
    for (text, error) in [
        ("", MarkdownError::Empty),
        (" \n\n", MarkdownError::Empty),
        ("hello", MarkdownError::NoTitle),
        ("# My notes\n\n**Date:** today", MarkdownError::NoTitle),
        ("## Query 1 (10:00:00)\n**You:** a", MarkdownError::NoTitle),
        ("# A Conversation\n\nwith my mother", MarkdownError::NoFields),
    ] {
        assert_eq!(read(text), Err(error), "{text}");
    }
}

#[test]
fn a_summary_counts_only_after_the_last_turn_and_between_its_markers() {
    let file = |end: &str| {
        format!("# A Conversation\n**Agent:** A\n\n## Query 1 (1)\n**You:** a\n\n{end}")
    };
    let summary = |end: &str| read(&file(end)).unwrap().summary;
    let (start, end) = ("<!-- SESSION_SUMMARY_START -->", "<!-- SESSION_SUMMARY_END -->");
    let block = format!("{start}\nold\n{end}\n");
    assert_eq!(
        summary(&format!("{block}\n## Query 2 (1)\n**You:** b\n")),
        TranscriptSummary::Nothing
    );
    assert_eq!(
        summary(&format!("{block}\n---\n{start}\nnew\n{end}")),
        TranscriptSummary::Text("new".into())
    );
    assert_eq!(summary(&format!("{start}new{end}")), TranscriptSummary::Text("new".into()));
    assert_eq!(summary(&format!("put it in `{start}` and `{end}`.")), TranscriptSummary::Nothing);
    for broken in
        [format!("{start}\n \n{end}"), start.into(), end.into(), format!("{end}\n{start}")]
    {
        assert_eq!(summary(&broken), TranscriptSummary::Broken, "{broken}");
    }
    let cut = read(&file(&format!("**A:** b\n\n---\n\n{start}\n**Backgr"))).unwrap();
    assert_eq!((cut.turns[0].assistant.as_str(), cut.summary), ("b", TranscriptSummary::Broken));
}

const HOSTILE: &str = "first\n---\n\\---\n## Query 3 (10:00:00)\n**You:** me\n**Simple Sally:** you\n\
    \\\\**You:**\n<!-- SESSION_SUMMARY_START -->\nfalse <!-- SESSION_SUMMARY_END -->\n## Session Restored\n\
    *Time: 1.0s | Tokens: 9 (in: 4, out: 5)*\n*Tool: rm → success*\n*[interrupted]*\n\
    *Context cleared (10:00:00)*\n\n    code\n\n\n**Note:** last\n---";

#[test]
fn text_that_looks_like_structure_is_read_back_as_it_was() {
    let mut log = Log::new();
    log.previous = Some(PreviousSession { id: "a (b)".into(), file: None, queries: 1, tokens: 10 });
    log.restore(HOSTILE, 5, Usage::default());
    log.turn(HOSTILE, HOSTILE).finish(1_000, 1, 2);
    log.say(Message::user("---"));
    log.turn("**You:** x", "*Tool: x → success*\nend");
    log.say(Message::user(HOSTILE)).summarize(HOSTILE);
    for agent in ["Simple Sally", "You", "Context", "A:** b", "<!-- SESSION_SUMMARY_START -->"] {
        let (written, totals) =
            text(&TranscriptHeader { agent, ..log.page() }, log.entries.clone());
        let told = read(&written).unwrap();
        let said: Vec<_> =
            told.turns.iter().map(|t| (t.user.as_str(), t.assistant.as_str())).collect();
        let end = "*Tool: x → success*\nend";
        assert_eq!(
            said,
            [(HOSTILE, HOSTILE), ("---", ""), ("**You:** x", end), (HOSTILE, "")],
            "{written}"
        );
        assert!(told.turns.iter().all(|turn| turn.tools.is_empty() && !turn.interrupted));
        let restored = told.restored.unwrap();
        assert_eq!(restored.acknowledgment, HOSTILE);
        assert_eq!(restored.from.as_deref(), Some("a (b)"));
        assert_eq!((told.summary.text(), told.agent.as_str()), (Some(HOSTILE), agent));
        assert_eq!((told.tokens, told.queries), (totals.session.total(), Some(4)));
        // A program that only looks for the markers finds the real ones.
        let starts = written.matches("<!-- SESSION_SUMMARY_START -->").count();
        assert_eq!(starts, 1, "{written}");
    }
}

/// A text of random lines, each of which could confuse a reader.
fn stumble(dice: &mut u64) -> String {
    const PIECES: [&str; 25] = [
        "---",
        "\\",
        "\n",
        "\n\n",
        " ",
        "\t",
        "## Query ",
        "7",
        " (10:00:00)",
        "## Session Restored",
        "**You:**",
        "**Simple Sally:**",
        "<",
        "!-- SESSION_SUMMARY_",
        "START -->",
        "END -->",
        "*Time: 1.0s*",
        "*Tokens: 3*",
        "*Tool: x*",
        "*[interrupted]*",
        "*Context cleared (",
        "*Missing here: ",
        "é",
        "**Agent:** x",
        "# A Conversation",
    ];
    let mut roll = |sides: u64| {
        *dice =
            dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*dice >> 33) % sides
    };
    let length = roll(12);
    let text: String = (0..length).map(|_| PIECES[roll(PIECES.len() as u64) as usize]).collect();
    text.trim().to_owned()
}

#[test]
fn any_text_is_read_back_as_it_was() {
    for seed in 0..3_000 {
        let mut dice = seed;
        let texts: Vec<String> = (0..6).map(|_| stumble(&mut dice)).collect();
        let mut log = Log::new();
        log.restore(&texts[0], 1, Usage::default());
        log.turn(&texts[1], &texts[2]).turn(&texts[3], &texts[4]);
        if !texts[5].is_empty() {
            log.summarize(&texts[5]);
        }
        let written = log.text();
        let told = read(&written).expect("a transcript");
        let mut said = vec![told.restored.clone().expect("restored").acknowledgment];
        said.extend(told.turns.iter().flat_map(|t| [t.user.clone(), t.assistant.clone()]));
        said.push(told.summary.text().unwrap_or_default().to_owned());
        assert_eq!(said, texts, "seed {seed}:\n{written}");
    }
}

#[test]
fn what_nobody_asked_for_belongs_to_no_turn() {
    let mut log = Log::new();
    log.say(Message::assistant(HOSTILE)).turn("a", "b").finish(1_000, 1, 2);
    log.add(Body::Cleared { before: None }).say(Message::assistant(HOSTILE));
    let told = read(&log.text()).unwrap();
    let said: Vec<_> = told.turns.iter().map(|t| (t.user.as_str(), t.assistant.as_str())).collect();
    assert_eq!((said, told.tokens), (vec![("a", "b")], 3));
}

#[test]
fn the_mark_of_a_damaged_entry_is_written_where_it_was_and_is_not_read_as_text() {
    let lost = || Body::Unknown { kind: "lost".into(), raw: Raw::parse("{}".into()).unwrap() };
    let mut log = Log::new();
    log.add(lost()).say(Message::user("q")).say(Message::assistant("a")).add(lost());
    log.say(Message::assistant("b")).turn("*Missing here: nothing", "c");
    let text = log.text();
    let marks: Vec<&str> = text.lines().filter(|line| line.starts_with("*Missing")).collect();
    let mark = |seq: u64| format!("*Missing here: entry {seq}, which is damaged*");
    assert_eq!(marks, [mark(0), mark(3)], "{text}");
    let (before, after) = text.split_once(&mark(3)).expect("a mark");
    assert!(before.trim_end().ends_with(" a") && after.trim_start().starts_with('b'), "{text}");
    let told = read(&text).unwrap();
    let said: Vec<_> =
        told.turns.iter().map(|turn| (&turn.user[..], &turn.assistant[..])).collect();
    assert_eq!(said, [("q", "a\n\nb"), ("*Missing here: nothing", "c")]);
}

#[test]
fn tool_calls_and_stops_are_read_apart_from_the_text() {
    let mut log = Log::new();
    let call = Block::tool_use("1", "grep", Raw::parse(r#"{"p":"*x*"}"#.into()).unwrap());
    let mut last = Message::assistant("b");
    last.interrupted = true;
    log.say(Message::user("q"));
    log.say(Message::new(Role::Assistant, vec![call.clone(), call, Block::text("a")])).say(last);
    let told = read(&log.text()).unwrap();
    assert_eq!(told.agent_path, None);
    let shown = r#"grep {"p":"*x*"} → no answer"#;
    assert_eq!(told.turns[0].assistant, "a\n\nb");
    assert_eq!(told.turns[0].tools, [shown, shown]);
    assert!(told.turns[0].interrupted);
}

#[test]
fn a_file_truncated_anywhere_is_read_up_to_there() {
    let mut log = Log::new();
    log.previous =
        Some(PreviousSession { id: "p".into(), file: Some("é".into()), queries: 1, tokens: 10 });
    log.restore(HOSTILE, 5, Usage::default()).turn("a – b", HOSTILE).summarize(HOSTILE);
    for sample in [FOREIGN.to_owned(), log.text()] {
        let turns = read(&sample).unwrap().turns;
        let body = sample.find("**Session ID:** ").unwrap() + "**Session ID:** x".len();
        for (end, _) in sample.char_indices() {
            let cut = read(&sample[..end]);
            let tail = read(&sample[end..]);
            assert!(end < body || cut.is_ok(), "{:?}", &sample[..end]);
            assert!(cut.is_err() || cut.unwrap().turns.len() <= turns.len());
            assert!(end == 0 || tail.is_err());
        }
    }
}
