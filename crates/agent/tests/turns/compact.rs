//! Summaries, compaction and continuing, against a scripted model.

use crate::bench::{Bench, run};
use rethread_agent::scripted::Answer;
use rethread_agent::{
    Compacted, EXTRACTIVE, NO_ACKNOWLEDGMENT, Stage, SummaryMethod, SummaryOutcome,
    TranscriptSummary,
};
use rethread_core::entry::{Origin, Restored};
use rethread_core::message::Usage;
use rethread_core::summary::block;
use rethread_core::{Block, Body, Key, Message, Raw, Role, SessionId, StoreError, sessions};
use serde_json::json;

const SUMMARY: &str = "**Background Context:** Initial session.

**Current Session Summary:**
**Topics Discussed:**
- rate limiter

**Decisions Made:**
- token bucket

**Pending:**
- tests";

fn summary(text: &str) -> Answer {
    Answer::text(format!("Here it is:\n{}\nI hope it helps.", block(text)))
}

/// A session with one turn, and the model's next reply.
fn talked(wire: &str, then: impl IntoIterator<Item = Answer>) -> Bench {
    let turn = [Answer::text("Use a token bucket.")];
    let bench = Bench::new(wire, turn.into_iter().chain(then));
    run(bench.turn("How do we limit the rate?")).expect("answered");
    bench
}

fn compacted(bench: &Bench) -> Box<rethread_agent::CompactReceipt> {
    match run(bench.runner.compact(bench.session, SummaryMethod::Model, |_| {})).expect("compacted")
    {
        Compacted::Done(receipt) => receipt,
        other => panic!("{other:?}"),
    }
}

/// A session's id as people see it.
fn shown(bench: &Bench, id: SessionId) -> String {
    bench.handle.sessions().get(id).expect("there").shown_id()
}

fn summaries(bench: &Bench, id: SessionId) -> Vec<String> {
    let entries = bench.entries_of(id).into_iter();
    entries
        .filter_map(|entry| match entry.body {
            Body::Summary(summary) => Some(summary.text),
            _ => None,
        })
        .collect()
}

#[test]
fn compacting_leaves_a_child_with_summary_tail_and_acknowledgment() {
    for wire in crate::bench::WIRES {
        let usage = Usage { input: 89, output: 67, ..Usage::default() };
        let bench = talked(
            wire,
            [summary(SUMMARY), Answer::text("Ready!").usage(usage), Answer::text("on we go")],
        );
        let key = Key::new("project:/x").expect("valid");
        bench.handle.sessions().bind(&key, bench.session).expect("bound");
        let mut stages = Vec::new();
        let told = |stage: Stage| {
            stages
                .push(format!("{stage:?}").split(['(', ' ']).next().unwrap_or_default().to_owned())
        };
        let Compacted::Done(receipt) =
            run(bench.runner.compact(bench.session, SummaryMethod::Model, told))
                .expect("compacted")
        else {
            panic!("no receipt")
        };
        assert_eq!(stages, ["Summarizing", "Saved", "Restoring"]);
        assert_eq!(summaries(&bench, bench.session), [SUMMARY]);
        let child = receipt.on.session.id();
        assert_eq!(bench.handle.sessions().resolve(&key).expect("resolved"), Some(child));
        let entries = bench.entries_of(child);
        let Body::Restored(restored) = &entries[0].body else { panic!("{entries:?}") };
        assert_eq!((restored.acknowledgment.as_str(), restored.usage), ("Ready!", usage));
        assert_eq!(restored.tail.len(), 2, "the last turn is carried");
        assert_eq!(restored.previous.queries, 1);
        let file = restored.previous.file.as_deref().expect("a transcript");
        assert!(file.ends_with(&format!("{}.md", shown(&bench, bench.session))), "{file}");
        assert!(
            restored.prompt.starts_with(
                "CONTEXT RESTORATION: You are continuing a previous conversation from "
            )
        );
        assert_eq!(receipt.on.session.tally.queries, 0);
        // What the model saw when it acknowledged is what it sees when it continues.
        let asked = bench.server.requests();
        let events = rethread_agent::Events::none();
        let next = rethread_core::Message::user("next");
        let options = rethread_agent::TurnOptions::default();
        let turn = bench.runner.run_turn(child, next, &options, &events, &bench.stop);
        assert_eq!(run(turn).expect("answered").text, "on we go");
        let texts = |asked: &rethread_agent::scripted::ReceivedRequest| {
            asked.body["messages"].as_array().map_or(0, Vec::len)
        };
        let later = bench.server.requests();
        let (ack, next) = (&asked[2], &later[3]);
        assert_eq!(texts(next), texts(ack) + 2, "the acknowledgment and the question are new");
    }
}

#[test]
fn undo_goes_back_and_compacting_again_works() {
    let bench =
        talked("openai", [summary(SUMMARY), Answer::text("Ready!"), Answer::text("Ready again!")]);
    let key = Key::new("project:/x").expect("valid");
    bench.handle.sessions().bind(&key, bench.session).expect("bound");
    let first = compacted(&bench).on.session.id();
    bench.handle.sessions().undo(first).expect("undone");
    assert_eq!(bench.handle.sessions().resolve(&key).expect("resolved"), Some(bench.session));
    let second = compacted(&bench).on;
    assert_ne!(second.session.id(), first);
    assert_eq!(second.acknowledgment, "Ready again!");
    assert_eq!(
        summaries(&bench, bench.session).len(),
        1,
        "nothing was said since the first summary"
    );
}

#[test]
fn the_summary_of_a_continued_session_condenses_the_one_before_and_no_other() {
    let bench = talked(
        "anthropic",
        [
            summary(SUMMARY),
            Answer::text("Ready!"),
            Answer::text("Sliding windows cost more."),
            summary("**Background Context:** We chose a token bucket.\n\nsecond"),
            Answer::text("Ready for the third!"),
        ],
    );
    let second = compacted(&bench).on.session.id();
    let (events, options) = (rethread_agent::Events::none(), Default::default());
    let turn = bench.runner.run_turn(
        second,
        rethread_core::Message::user("why?"),
        &options,
        &events,
        &bench.stop,
    );
    run(turn).expect("answered");
    let third = run(bench.runner.compact(second, SummaryMethod::Model, |_| {})).expect("compacted");
    let Compacted::Done(third) = third else { panic!("{third:?}") };
    let asked = bench.server.requests()[4].body["messages"][0]["content"].to_string();
    assert!(asked.contains("Condense this previous summary to 1-2 sentences:\\n**Background Context:** Initial session."), "{asked}");
    assert!(asked.contains("**You:** why?") && !asked.contains("How do we limit"), "{asked}");
    let entries = bench.entries_of(third.on.session.id());
    let Body::Restored(restored) = &entries[0].body else { panic!("{entries:?}") };
    assert!(
        restored
            .prompt
            .contains(&format!("This session was resumed from: {}", shown(&bench, bench.session)))
    );
    assert!(
        restored.prompt.contains(&format!("(Session ID: {}, 1 query", shown(&bench, second))),
        "{}",
        restored.prompt
    );
    assert!(!restored.prompt.contains("Initial session."), "only the session before is loaded");
}

#[test]
fn a_summary_that_is_not_one_is_asked_for_once_more_and_then_extracted() {
    let wrong = [
        Answer::text("no markers here"),
        summary(" "),
        Answer::text(format!("{} only the beginning", rethread_core::summary::START)),
        Answer::status(401),
    ];
    for answer in wrong {
        let bench = talked("openai", [answer, summary(SUMMARY)]);
        let made =
            run(bench.runner.summarize(bench.session, SummaryMethod::Model)).expect("summarised");
        assert!(matches!(made, SummaryOutcome::Written(summary) if summary.text == SUMMARY));
    }
    let bench = talked("openai", [Answer::text("no markers"), Answer::text("still none")]);
    let made =
        run(bench.runner.compact(bench.session, SummaryMethod::Model, |_| {})).expect("done");
    let Compacted::Done(receipt) = made else { panic!("{made:?}") };
    assert_eq!(receipt.summary.by, EXTRACTIVE);
    assert_eq!(receipt.failed.as_deref(), Some("the reply has no summary markers"));
    assert_eq!(summaries(&bench, bench.session).len(), 1);
}

#[test]
fn markers_quoted_in_the_conversation_do_not_confuse_a_summary() {
    let quoted = format!("You wrote {}; so:\n{}", block("[your summary here]"), block(SUMMARY));
    let bench = talked("openai", [Answer::text(quoted)]);
    let made =
        run(bench.runner.summarize(bench.session, SummaryMethod::Model)).expect("summarised");
    assert!(matches!(made, SummaryOutcome::Written(summary) if summary.text == SUMMARY));
}

#[test]
fn a_summary_may_be_longer_than_what_was_said() {
    let long = "every word of it ".repeat(2_000);
    let bench = talked("openai", [summary(&long)]);
    let made =
        run(bench.runner.summarize(bench.session, SummaryMethod::Model)).expect("summarised");
    assert!(matches!(made, SummaryOutcome::Written(summary) if summary.text == long.trim()));
}

#[test]
fn a_model_that_fails_twice_leaves_an_extractive_summary() {
    let bench = talked("openai", [Answer::status(401), Answer::status(401)]);
    let made = run(bench.runner.summarize(bench.session, SummaryMethod::Model)).expect("made");
    let SummaryOutcome::Extracted { summary, why } = made else { panic!("{made:?}") };
    assert!(why.contains("rejected the API key"), "{why}");
    assert_eq!(summary.by, EXTRACTIVE);
    assert!(
        summary.text.contains("**Topics Discussed:**\n- How do we limit the rate"),
        "{}",
        summary.text
    );
}

#[test]
fn a_missing_acknowledgment_is_replaced_by_a_fixed_line() {
    let bench = talked("openai", [summary(SUMMARY), Answer::status(500)]);
    let on = compacted(&bench).on;
    assert_eq!((on.acknowledgment.as_str(), on.acknowledged), (NO_ACKNOWLEDGMENT, false));
}

#[test]
fn a_transcript_on_disk_is_private_and_resumes_by_its_path() {
    let bench = talked("openai", [summary(SUMMARY), Answer::text("Ready!")]);
    run(bench.runner.summarize(bench.session, SummaryMethod::Model)).expect("summarised");
    let path =
        bench.runner.save_transcript(bench.session).expect("saved").expect("a folder is set");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).expect("there"));
    assert_eq!(mode & 0o777, 0o600);
    let shown = bench.handle.sessions().get(bench.session).expect("there").shown_id();
    assert!(shown.starts_with("build_20"), "{shown}");
    assert_eq!(path.file_stem().expect("a name").to_str(), Some(shown.as_str()));
    let text = std::fs::read_to_string(&path).expect("text");
    assert!(
        text.starts_with(&format!("# build Conversation\n\n**Session ID:** {shown}\n**Date:** ")),
        "{text}"
    );
    assert!(text.ends_with(&format!("{}\n", block(SUMMARY))), "{text}");
    let file = bench.runner.past_of_file(&path).expect("read");
    assert_eq!(file.summary, TranscriptSummary::Text(SUMMARY.into()));
    assert_eq!((file.past.queries, file.past.id), (1, shown.clone()));
    let TranscriptSummary::Text(summary) = file.summary else { unreachable!() };
    let past = bench.runner.past_of_file(&path).expect("read").past;
    let on = run(bench.runner.restore(&past, &summary, Origin::Resume, Vec::new())).expect("on");
    assert_eq!(on.acknowledgment, "Ready!");
    let child = bench.runner.save_transcript(on.session.id()).expect("saved").expect("a folder");
    let text = std::fs::read_to_string(child).expect("text");
    assert!(
        text.contains(&format!("**Context:** Resumed from {shown} (1 queries"))
            || text.contains("(1 query"),
        "{text}"
    );
    assert!(text.contains(&format!("**Previous Session:** {}", path.display())), "{text}");
}

#[test]
fn while_a_session_is_compacted_nothing_is_said_that_the_summary_does_not_know() {
    let bench = talked("openai", [summary(SUMMARY).slowly(0), Answer::text("Ready!")]);
    let sessions = bench.handle.sessions();
    let (stays, moves) = (Key::new("stays").expect("valid"), Key::new("moves").expect("valid"));
    for key in [&stays, &moves] {
        sessions.bind(key, bench.session).expect("bound");
    }
    let elsewhere = sessions.create(&Default::default(), None).expect("created").id();
    let (runner, id) = (bench.runner.clone(), bench.session);
    let compacting =
        std::thread::spawn(move || run(runner.compact(id, SummaryMethod::Model, |_| {})));
    bench.server.wait_for_requests(2);
    let late = sessions.append(bench.session, vec![Message::user("and retries?").into()]);
    assert!(matches!(&late, Err(sessions::Error::Store(StoreError::Held { .. }))), "{late:?}");
    sessions.bind(&moves, elsewhere).expect("bound");
    bench.server.release();
    let Compacted::Done(receipt) = compacting.join().expect("no panic").expect("compacted") else {
        panic!("no receipt")
    };
    let on = receipt.on.session.id();
    assert_eq!(sessions.resolve(&stays).expect("resolved"), Some(on));
    assert_eq!(sessions.resolve(&moves).expect("resolved"), Some(elsewhere), "it was moved since");
    let late = sessions.append(bench.session, vec![Message::user("and retries?").into()]);
    late.expect("it is free again");
}

#[test]
fn nothing_said_is_nothing_to_compact() {
    let bench = Bench::new("openai", []);
    let made =
        run(bench.runner.compact(bench.session, SummaryMethod::Model, |_| {})).expect("done");
    assert_eq!(made, Compacted::Nothing);
}

/// A session with turns that spell names, each with a call and its result.
fn worked(turns: u32, then: impl IntoIterator<Item = Answer>) -> Bench {
    let bench = Bench::new("openai", then);
    let sessions = bench.handle.sessions();
    for n in 0..turns {
        let input = Raw::of(&json!({ "path": format!("src/part_{n}.rs"), "old": "fold_marks()" }));
        let call = Block::tool_use(format!("c{n}"), "edit_file", input);
        let shown = format!("line of part_{n}\n").repeat(30);
        for message in [
            Message::user(format!("Please change fold_marks in part {n}. {}", "Why? ".repeat(40))),
            Message::new(Role::Assistant, vec![call]),
            Message::tool_result(format!("c{n}"), shown),
            Message::assistant(format!("We will keep limit_{n} at {}.", 4_000 + n)),
        ] {
            sessions.append(bench.session, vec![message.into()]).expect("appended");
        }
    }
    bench
}

/// What a continued session begins with.
fn restored(bench: &Bench, id: SessionId) -> Restored {
    match bench.entries_of(id).swap_remove(0).body {
        Body::Restored(restored) => *restored,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_continued_session_is_given_the_names_of_the_last_turns_after_the_prompt() {
    let bench = worked(40, [summary(SUMMARY), Answer::text("Ready!")]);
    let child = compacted(&bench).on.session.id();
    let Restored { prompt, tail, .. } = restored(&bench, child);
    let (quoted, names) = prompt.split_once("\n\nNames that the last turns used").expect("names");
    assert!(quoted.ends_with(&format!(
        "{}\n\nTask: Review the above and provide a brief acknowledgment (2-6 sentences or bullets) that includes:\n\
         1. Main topics discussed\n2. Key decisions made\n3. Confirmation you're ready to continue\n\n\
         Keep your response concise.",
        block(SUMMARY)
    )));
    let (files, identifiers) = names.split_once("\nIdentifiers: ").expect("both kinds");
    assert!(files.contains("src/part_") && identifiers.contains("limit_"), "{names}");
    // What the last turns show word for word is not listed again.
    let carried = tail.iter().any(|carried| carried.message.plain_text().contains("limit_39"));
    assert!(carried && !identifiers.contains("limit_39"), "{names}");
    // The model that summarises is given names, too: the calls are not in what it reads.
    let asked = bench.server.requests()[0].body["messages"].to_string();
    assert!(asked.contains("Names that the last turns used") && asked.contains("src/part_"));
    // The text around them is the usual request for a summary.
    assert!(asked.contains("\\n\\nCreate a structured summary:\\n\\n**Background Context:**"));
}

#[test]
fn compacting_adds_a_summary_to_the_log_and_changes_nothing_else_in_it() {
    for turns in [1, 2, 7, 40] {
        let bench = worked(turns, [summary(SUMMARY), Answer::text("Ready!")]);
        let before = bench.entries_of(bench.session);
        let child = compacted(&bench).on.session.id();
        let after = bench.entries_of(bench.session);
        assert_eq!(after[..before.len()], before[..], "{turns} turns");
        assert_eq!(after.len(), before.len() + 1);
        assert!(matches!(after.last().expect("one").body, Body::Summary(_)));
        for carried in restored(&bench, child).tail {
            let (_, seq) = carried.reference.split_once(':').expect("a place");
            let original = &after[seq.parse::<usize>().expect("a number")];
            let message = original.body.message().expect("a message");
            assert_eq!(message.role, carried.message.role, "{}", carried.reference);
        }
    }
}

#[test]
fn an_extract_is_the_same_every_time_and_for_resume() {
    let bench = worked(40, (0..3).map(|_| Answer::text("Ready!")));
    let compact = || {
        let made = run(bench.runner.compact(bench.session, SummaryMethod::Extract, |_| {}));
        let Compacted::Done(receipt) = made.expect("compacted") else { panic!("no receipt") };
        let child = receipt.on.session.id();
        bench.handle.sessions().undo(child).expect("undone");
        restored(&bench, child)
    };
    let (first, second) = (compact(), compact());
    assert_eq!((&first.summary, &first.tail), (&second.summary, &second.tail));
    assert_eq!(first.prompt, second.prompt);
    let made = run(bench.runner.resume(bench.session, Vec::new())).expect("resumed");
    let Compacted::Done(resumed) = made else { panic!("{made:?}") };
    let resumed = restored(&bench, resumed.on.session.id());
    assert_eq!((resumed.prompt, resumed.tail), (first.prompt, first.tail));
}
