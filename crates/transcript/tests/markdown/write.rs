//! What is written.

use jiff::tz::TimeZone;
use rethread_core::entry::{Body, PreviousSession, RoundLimit};
use rethread_core::message::Usage;
use rethread_core::{Block, Message, Raw, Role};
use rethread_transcript::write::markdown::{
    TokenCount, TranscriptHeader, TranscriptTotals, WriteError, text, write,
};

use crate::log::{Log, SALLY};

/// The example of the design document, with the ids of the test's own world.
const GOLDEN: &str = "\
# Simple Sally Conversation

**Session ID:** {id}
**Date:** 2025-12-30T14:30:22.123000
**Agent:** Simple Sally
**Agent Path:** /Users/you/Development/agents/simple_sally/agent.py
**Total Queries:** 3
**Resumed From:** session_2

---

## Session Restored (14:30:22)
**Context:** Resumed from session_2 (5 queries, 2.3K tokens)
**Previous Session:** /Users/you/agent-conversations/session_2.md

**Simple Sally:** I've reviewed our previous conversation about auth refactoring.
We discussed JWT tokens and Redis session storage. Ready to continue!

*Time: 2.1s | Tokens: 156 (in: 89, out: 67)*

---

## Query 1 (14:30:45)
**You:** Let's implement the rate limiter

**Simple Sally:** [response]

*Time: 3.2s | Tokens: 345 (in: 123, out: 222)*

---

<!-- SESSION_SUMMARY_START -->
**Background Context:** We discussed auth refactoring with JWT tokens and Redis session storage in the previous session.

**Current Session Summary:**
**Topics Discussed:**
- Rate limiter implementation strategies
- Token bucket vs sliding window algorithms

**Decisions Made:**
- Use token bucket with Redis backing
- 100 requests per minute per user

**Pending:**
- Integration testing with auth system
<!-- SESSION_SUMMARY_END -->
";

#[test]
fn the_example_of_the_design_is_written_to_the_letter() {
    let mut log = Log::new();
    log.previous = Some(PreviousSession {
        id: "session_2".into(),
        file: Some("/Users/you/agent-conversations/session_2.md".into()),
        queries: 5,
        tokens: 2_345,
    });
    let path = "/Users/you/Development/agents/simple_sally/agent.py";
    log.session.header.profile.agent_path = Some(path.into());
    let summary = GOLDEN.split("SUMMARY_START -->\n").nth(1).unwrap();
    let summary = summary.split("\n<!--").next().unwrap();
    log.restore(
        "I've reviewed our previous conversation about auth refactoring.\n\
         We discussed JWT tokens and Redis session storage. Ready to continue!",
        2_100,
        Usage { input: 80, output: 67, cache_read: 5, cache_write: 4 },
    );
    log.wait(23).say(Message::system("You are Sally."));
    log.turn("Let's implement the rate limiter", "[response]");
    log.finish(3_200, 123, 222).summarize("an older one").summarize(summary);
    log.tally().queries = 3;

    log.session.readable_id = Some("session_3".into());
    let (written, totals) = text(&log.page(), log.entries.clone());
    assert_eq!(written, GOLDEN.replace("{id}", "session_3"));
    assert_eq!(
        totals,
        TranscriptTotals {
            queries: 1,
            session: TokenCount { input: 123, output: 222 },
            restoration: TokenCount { input: 89, output: 67 },
        }
    );
}

#[test]
fn a_session_of_a_built_in_agent_without_a_word_is_a_header() {
    let log = Log::new();
    let header = format!(
        "# Simple Sally Conversation\n\n**Session ID:** {}\n**Date:** 2025-12-30T14:30:22.123000\n\
         **Agent:** Simple Sally\n**Agent Path:** built-in\n**Total Queries:** 0\n\n---\n\n",
        log.session.id()
    );
    assert_eq!(log.text(), header);
}

#[test]
fn times_are_those_of_the_given_zone() {
    let mut log = Log::new();
    log.turn("a", "b");
    let zone = TimeZone::fixed(jiff::tz::offset(-8));
    let (written, _) = text(&TranscriptHeader { zone, ..log.page() }, log.entries.clone());
    assert!(written.contains("**Date:** 2025-12-30T06:30:22.123000\n"), "{written}");
    assert!(written.contains("## Query 1 (06:30:22)\n"), "{written}");
}

#[test]
fn tool_calls_are_between_the_texts_on_one_line_each() {
    let call = |id: &str, name: &str, input: &str| {
        Block::tool_use(id, name, Raw::parse(input.into()).unwrap())
    };
    let mut failed = Message::tool_result("2", r#"{"error":"no such file"}"#);
    failed.content.push(Block::tool_result("unknown", "x"));
    let mut log = Log::new();
    log.say(Message::user("where?"));
    log.say(Message::new(
        Role::Assistant,
        vec![
            Block::text("Looking."),
            call("1", "grep", "{\"pattern\":\n  \"x\"}"),
            call("2", "read_file", r#"{"path":"a.md"}"#),
            call("3", "glob", &format!(r#"{{"long":"{}"}}"#, "é".repeat(500))),
        ],
    ));
    log.say(Message::tool_result("1", "found")).say(failed).wait(2);
    log.say(Message::assistant("In a.md."));
    let cut = format!(r#"glob {{"long":"{}…"#, "é".repeat(165));
    let tokens = log.entries.iter().fold([0, 0], |[i, o], entry| {
        let count = entry.measure.tokens;
        match entry.body.message().unwrap().role {
            Role::Assistant => [i, o + count],
            _ => [i + count, o],
        }
    });
    let expected = format!(
        "## Query 1 (14:30:22)\n**You:** where?\n\n**Simple Sally:** Looking.\n\n\
         *Tool: grep {{\"pattern\": \"x\"}} → success*\n\n\
         *Tool: read_file {{\"path\":\"a.md\"}} → error*\n\n\
         *Tool: {cut} → no answer*\n\nIn a.md.\n\n\
         *Time: 2.0s | Tokens: {} (in: {}, out: {})*\n\n---\n\n",
        tokens[0] + tokens[1],
        tokens[0],
        tokens[1],
    );
    assert_eq!(log.parts(), expected);
    let longest = expected.lines().find(|line| line.contains("glob")).unwrap();
    assert_eq!(longest.chars().count(), 200);
}

#[test]
fn what_the_provider_charged_for_replies_goes_before_what_it_charged_for_the_turn() {
    let mut reply = Message::assistant("b");
    reply.usage = Some(Usage { input: 1, output: 2, cache_read: 30, cache_write: 400 });
    let mut log = Log::new();
    log.say(Message::user("a")).say(reply.clone()).say(reply).finish(50, 7, 7);
    assert!(
        log.parts().contains("*Time: 0.1s | Tokens: 866 (in: 862, out: 4)*"),
        "{}",
        log.parts()
    );
}

#[test]
fn a_stopped_reply_a_used_up_turn_and_a_clear_say_so() {
    let mut stopped = Message::assistant("half a");
    stopped.interrupted = true;
    let mut log = Log::new();
    log.say(Message::user("one")).say(stopped).finish(1_000, 1, 1);
    log.turn("two", "text").add(Body::RoundLimit(RoundLimit::default())).finish(1_000, 1, 1);
    log.turn("three", "text\n\n[Tool call limit reached]")
        .add(Body::RoundLimit(RoundLimit::default()))
        .finish(0, 1, 1);
    log.add(Body::Cleared { before: None }).add(Body::Undone { before: None });
    log.say(Message::user("four"));
    log.finish(1_000, 5, 0);
    let end = "*Time: 1.0s | Tokens: 2 (in: 1, out: 1)*\n\n---\n\n";
    let sally = SALLY;
    assert_eq!(
        log.parts(),
        format!(
            "## Query 1 (14:30:22)\n**You:** one\n\n**{sally}:** half a\n\n*[interrupted]*\n\n{end}\
             ## Query 2 (14:30:22)\n**You:** two\n\n**{sally}:** text\n\n[Tool call limit reached]\n\n{end}\
             ## Query 3 (14:30:22)\n**You:** three\n\n**{sally}:** text\n\n[Tool call limit reached]\n\n\
             *Time: 0.0s | Tokens: 2 (in: 1, out: 1)*\n\n---\n\n\
             *Context cleared (14:30:22)*\n\n---\n\n*Clear taken back (14:30:22)*\n\n---\n\n\
             ## Query 4 (14:30:22)\n**You:** four\n\n*Time: 1.0s | Tokens: 5 (in: 5, out: 0)*\n\n---\n\n"
        )
    );
}

#[test]
fn control_characters_and_what_a_door_put_before_a_message_are_left_out() {
    let mut log = Log::new();
    let blocks =
        vec![Block::prefix("[Active file: a.md]\n\n"), Block::text("a\x1b[2J\r\n\tb\u{85}")];
    log.say(Message::new(Role::User, blocks));
    assert!(log.parts().contains("**You:** a[2J\n\tb\n"), "{:?}", log.parts());
}

#[test]
fn messages_without_a_question_are_between_two_rules() {
    let mut log = Log::new();
    log.say(Message::assistant("Welcome!")).turn("a", "b").finish(100, 1, 1);
    let start = "**Simple Sally:** Welcome!\n\n---\n\n## Query 1 (14:30:22)\n";
    assert!(log.parts().starts_with(start), "{}", log.parts());
}

#[test]
fn an_agent_name_cannot_leave_its_line() {
    let log = Log::new();
    let page = TranscriptHeader { agent: "a\n## Query 1 (x)\n", ..log.page() };
    let (written, _) = text(&page, Vec::new());
    assert!(written.starts_with("# a ## Query 1 (x) Conversation\n\n"), "{written}");
    let (written, _) = text(&TranscriptHeader { agent: " ", ..log.page() }, Vec::new());
    assert!(written.starts_with("# Assistant Conversation\n"), "{written}");
}

#[test]
fn an_error_among_the_entries_or_of_the_disk_ends_the_writing() {
    let log = Log::new();
    let broken = || std::io::Error::other("broken");
    let error = write(&log.page(), [Err(broken())], &mut Vec::new()).unwrap_err();
    assert!(matches!(error, WriteError::Entries(_)), "{error}");
    let mut full: &mut [u8] = &mut [0; 10];
    let none = std::iter::empty::<Result<_, std::io::Error>>();
    let error = write(&log.page(), none, &mut full).unwrap_err();
    assert!(matches!(error, WriteError::Io(_)), "{error}");
}
