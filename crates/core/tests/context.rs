//! Properties that every context has, regardless of the log.
//!
//! Random logs (with every kind of damage a crash, a foreign program or a model can do) × random
//! policies × random models. Each case is made from its number alone, and a failure prints it:
//! `RETHREAD_SEED=<number> RETHREAD_CASES=1 cargo test --release -p rethread-core --test context`.

use std::sync::Arc;

use rethread_core::context::{Context, Follower, Model, Need, Policy, build, explain, next};
use rethread_core::sessions::{Arrival, ArrivingEntry};
use rethread_core::{
    BlobId, Block, Entry, EntryId, Fixed, Log, MemoryStore, Message, New, Owner, Place, Role,
    Sessions,
};

mod dice;
mod rules;
mod wire;

use dice::Dice;

/// Cases per run, unless the environment says otherwise.
const CASES: u64 = 100_000;

/// Runs `check` on every case, on all cores, and names the case that failed.
fn for_every_case(check: impl Fn(&mut Dice) + Sync) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (start, cases) =
        (number("RETHREAD_SEED").unwrap_or(0), number("RETHREAD_CASES").unwrap_or(CASES));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let check = &check;
            scope.spawn(move || {
                for seed in (start + thread..start + cases).step_by(threads as usize) {
                    let run = std::panic::AssertUnwindSafe(|| check(&mut Dice::new(seed)));
                    if std::panic::catch_unwind(run).is_err() {
                        panic!("case RETHREAD_SEED={seed} RETHREAD_CASES=1 failed");
                    }
                }
            });
        }
    });
}

/// The log when the model is asked: with a question at its end.
fn asked(entries: &[Entry]) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    dice::push(&mut entries, Message::user("and now?"));
    entries
}

fn log(entries: &[Entry]) -> Log {
    Log::new(entries.to_vec()).expect("no gaps")
}

fn acceptable(context: &Context, provider: &str) {
    let request = match provider {
        "anthropic" => wire::anthropic(context),
        _ => wire::openai(context),
    };
    let broken = match provider {
        "anthropic" => rules::anthropic::check(&request),
        _ => rules::openai::check(&request),
    };
    assert!(broken.is_empty(), "{broken:#?}\n{request:#}");
}

#[test]
fn a_picture_kept_with_the_session_is_in_the_context_for_as_long_as_its_question() {
    let blob = BlobId::of(b"pixels");
    let document = BlobId::of(b"pages");
    let mut entries = Vec::new();
    let content = vec![
        Block::image(blob, "image/png"),
        Block::image(BlobId::of(b"drawing"), "image/svg+xml"),
        Block::document(document, "application/pdf", Some("report.pdf")),
        Block::file(BlobId::of(b"zip"), "application/zip", None),
        Block::text("what is it? ".repeat(100)),
    ];
    dice::push(&mut entries, Message::new(Role::User, content));
    let model = Model::new("openai", "gpt-5");
    let attached = |entries: &[Entry], policy: &str| -> Vec<BlobId> {
        let policy = Policy::preset(policy).expect("known");
        let context = build(&log(entries), &policy, &model);
        context.messages.iter().flat_map(Message::blobs).collect()
    };
    for policy in ["bot", "cli"] {
        assert_eq!(attached(&entries, policy), [blob, document], "{policy}: what can be sent on");
    }
    dice::push(&mut entries, Message::assistant("a cat"));
    let asked_next = asked(&entries);
    assert_eq!(attached(&asked_next, "bot"), [blob, document], "the next question is about it");
    dice::push(&mut entries, Message::user("which colour?"));
    dice::push(&mut entries, Message::assistant("brown"));
    assert_eq!(attached(&asked(&entries), "bot"), [], "it goes with its question");
    assert_eq!(attached(&asked(&entries), "cli"), [blob, document]);
}

#[test]
fn a_context_is_acceptable_to_every_provider_regardless_of_the_log() {
    for_every_case(|dice| {
        let entries = asked(&dice.log());
        let policy = dice.policy();
        for provider in ["anthropic", "openai"] {
            let model = dice.model(provider);
            acceptable(&build(&log(&entries), &policy, &model), provider);
        }
        // A crash may come between any two entries, also inside a round: a turn that is continued
        // begins with a question, or after an open round.
        let cut = dice.up_to(entries.len());
        let model = dice.model("anthropic");
        let context = build(&log(&entries[..cut]), &policy, &model);
        if matches!(context.messages.last().map(|m| m.role), Some(Role::User | Role::Tool)) {
            acceptable(&context, "anthropic");
            acceptable(&context, "openai");
        }
        acceptable(&build(&log(&asked(&entries[..cut])), &policy, &model), "anthropic");
    });
}

#[test]
fn building_changes_nothing_and_gives_the_same_twice() {
    for_every_case(|dice| {
        let entries = dice.log();
        let (policy, model) = (dice.policy(), dice.model("anthropic"));
        let log = log(&entries);
        let (one, two) = (build(&log, &policy, &model), build(&log, &policy, &model));
        assert_eq!(one, two);
        assert_eq!(log.entries(), entries);
    });
}

#[test]
fn a_context_fits_the_window() {
    for_every_case(|dice| {
        let entries = asked(&dice.log());
        let (policy, model) = (dice.policy(), dice.model("anthropic"));
        let context = build(&log(&entries), &policy, &model);
        // Placeholders of a few words are counted, too, but nothing is cut to make room for them.
        let texts = context.messages.iter().flat_map(|message| {
            message.results().map(|result| result.text()).chain([message.plain_text()])
        });
        let slack = 20 * texts.filter(|text| text.contains('[')).count() as u64;
        assert!(
            context.tokens <= model.budget() + slack,
            "{} > {}",
            context.tokens,
            model.budget()
        );
    });
}

#[test]
fn inside_a_turn_what_was_sent_stays_the_same() {
    for_every_case(|dice| {
        let mut entries = asked(&dice.log());
        // A window that fills in the middle of a turn is a reported exception, and so is a count of
        // messages that is reached there: no more are sent than requested. That is not the case
        // here.
        let policy = dice.policy();
        let policy = Policy { keep_recent: policy.keep_recent.map(|max| max + 1_000), ..policy };
        let model = Model { window: 1_000_000, reply: 0, ..dice.model("anthropic") };
        let mut before = build(&log(&entries), &policy, &model);
        for _ in 0..dice.up_to(6) {
            dice.round_message(&mut entries);
            let after = build(&log(&entries), &policy, &model);
            let finished = entries
                .last()
                .and_then(|e| e.body.message())
                .is_some_and(|m| m.role == Role::Assistant && m.calls().next().is_none());
            if finished {
                break;
            }
            let sent = &before.messages[..before.stable];
            let (was, is) = (explain(&before), explain(&after));
            let still = &after.messages[..before.stable.min(after.messages.len())];
            assert_eq!(sent, still, "{policy:?}\n{was}\n\nand then:\n{is}");
            before = after;
        }
    });
}

#[test]
fn under_cli_the_end_of_a_turn_rewrites_nothing_not_even_thinking() {
    for_every_case(|dice| {
        let mut entries = asked(&dice.log());
        let (policy, model) = (Policy::cli(), Model::new("anthropic", "m"));
        let model = Model { window: 1_000_000, reply: 0, ..model };
        let mut before = build(&log(&entries), &policy, &model);
        for _ in 0..dice.up_to(8) {
            // Two questions in a row are one message.
            let replied = before.messages.last().is_some_and(|last| last.role != Role::User);
            match replied && dice.one_in(3) {
                true => entries = asked(&entries),
                false => dice.round_message(&mut entries),
            }
            let after = build(&log(&entries), &policy, &model);
            let sent = &before.messages[..before.stable];
            let (was, is) = (explain(&before), explain(&after));
            assert!(after.messages.starts_with(sent), "{was}\n\nand then:\n{is}");
            before = after;
        }
    });
}

#[test]
fn following_a_log_through_its_turns_gives_the_same_context_as_building_it_from_scratch() {
    for_every_case(|dice| {
        let mut entries = asked(&dice.log());
        let (policy, model) = (dice.policy(), dice.model("anthropic"));
        let mut follower = Follower::new(policy.clone(), model.clone());
        // The whole log, or its end, read further back only where a context asks for it.
        let mut start = if dice.one_in(2) { 0 } else { entries.len() - 1 };
        let whole = start == 0;
        let mut tail = log(&entries[start..]);
        for _ in 0..dice.up_to(8) {
            let followed = follower.extend(&tail).unwrap_or_else(|| {
                while let Some(need) = next(&tail, &policy, &model) {
                    match need {
                        Need::Entry(seq) => tail.pin(entries[seq as usize].clone()),
                        Need::Earlier => {
                            let earlier = start.saturating_sub(1 + dice.up_to(5));
                            tail.extend_back(entries[earlier..start].to_vec()).expect("no gaps");
                            start = earlier;
                        }
                    }
                }
                follower.build(&tail)
            });
            let built = build(&log(&entries), &policy, &model);
            if followed.messages != built.messages || (whole && *followed != built) {
                panic!("from {start}:\n{}\n\nanew:\n{}", explain(&followed), explain(&built));
            }
            assert_eq!((followed.tokens, followed.stable), (built.tokens, built.stable));
            let known = entries.len();
            match dice.one_in(3) {
                true => entries = asked(&entries),
                false => dice.round_message(&mut entries),
            }
            for entry in &entries[known..] {
                tail.push(entry.clone()).expect("no gaps");
            }
        }
    });
}

#[test]
fn the_end_of_a_log_gives_the_same_context_as_all_of_it() {
    for_every_case(|dice| {
        let entries = dice.log();
        let (policy, model) = (dice.policy(), dice.model("anthropic"));
        let all = build(&log(&entries), &policy, &model);
        let mut start = entries.len() - entries.len().min(1 + dice.up_to(3));
        let mut tail = log(&entries[start..]);
        while let Some(need) = next(&tail, &policy, &model) {
            match need {
                Need::Entry(seq) => tail.pin(entries[seq as usize].clone()),
                Need::Earlier => {
                    let earlier = start.saturating_sub(1 + dice.up_to(5));
                    tail.extend_back(entries[earlier..start].to_vec()).expect("no gaps");
                    start = earlier;
                }
            }
        }
        let context = build(&tail, &policy, &model);
        let (part, whole) = (explain(&context), explain(&all));
        assert_eq!(context.messages, all.messages, "from {start}:\n{part}\n\nfrom 0:\n{whole}");
        assert_eq!(context.hash(), all.hash());
        assert_eq!(context.tokens, all.tokens);
    });
}

#[test]
fn every_result_that_is_shown_belongs_to_its_call() {
    for_every_case(|dice| {
        let entries = dice.log();
        let policy = Policy::cli();
        let model = Model { window: 10_000_000, reply: 0, ..Model::new("openai", "m") };
        let context = build(&log(&entries), &policy, &model);
        for pair in context.messages.windows(2) {
            let [call, answer] = pair else { continue };
            for result in answer.results() {
                if call.role == Role::Assistant {
                    assert!(call.calls().any(|call| call.id == result.tool_use_id));
                }
            }
        }
        // The generator writes into every result the call it answers, and into every call its
        // own input; so each shown pair can be verified without our own matching.
        let mut inputs = std::collections::HashMap::new();
        for message in &context.messages {
            for call in message.calls() {
                inputs.insert(call.id.clone(), call.input.get().to_owned());
            }
            for result in message.results() {
                let text = result.text();
                if let Some(mark) = text.strip_prefix("answers ") {
                    let mark = mark.split_whitespace().next().unwrap_or_default();
                    let input = &inputs[&result.tool_use_id];
                    assert!(input.contains(&format!("\"{mark}\"")), "{input} got {text}");
                }
            }
        }
    });
}

#[test]
fn no_more_messages_than_asked_for_are_kept() {
    for_every_case(|dice| {
        let entries = asked(&dice.log_without_restored());
        let max = 1 + dice.up_to(20) as u32;
        let policy = Policy { keep_recent: Some(max), ..Policy::cli() };
        let model = Model { window: 10_000_000, reply: 0, ..Model::new("openai", "m") };
        let context = build(&log(&entries), &policy, &model);
        let said: Vec<&Message> =
            context.messages.iter().filter(|m| m.role != Role::System).collect();
        // The question and the last round of a turn stay, however few messages are requested.
        let last = said.iter().rposition(|message| message.role == Role::Assistant);
        let least = 1 + last.map_or(0, |last| said.len() - last);
        assert!(said.len() <= least.max(max as usize), "{} > {max}", said.len());
    });
}

#[test]
fn a_session_as_of_an_entry_is_the_session_that_ends_there() {
    for_every_case(|dice| {
        let entries = dice.log();
        let place = dice.up_to(entries.len());
        // Storing a log takes longer than building a context, so it is done for one in ten.
        if place == 0 || !dice.one_in(10) {
            return;
        }
        let (policy, model) = (dice.policy(), dice.model("anthropic"));
        let world = Arc::new(Fixed::default());
        let sessions =
            Sessions::new(Arc::new(MemoryStore::new(world.clone())), Owner::local(), world);
        let session = |entries: &[Entry]| {
            let id = sessions.create(&New::default(), None).expect("created").id();
            stored(&sessions, id, entries);
            id
        };
        let (whole, part) = (session(&entries), session(&entries[..place]));
        let seq = place as u64 - 1;
        let then = sessions.as_of(Place { session: whole, seq }).expect("read");
        let ends_there = sessions.get(part).expect("read");
        assert_eq!(then.tally, ends_there.tally);
        let build = |session| sessions.build(session, &policy, &model).expect("built");
        assert_eq!(build(then), build(ends_there));
    });
}

/// Puts entries into a log as they are.
fn stored(sessions: &Sessions, id: rethread_core::SessionId, entries: &[Entry]) {
    let mut import = sessions
        .import(&Arrival {
            id,
            new: New::default(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            parent: None,
            keys: Vec::new(),
            archived: false,
            imported: None,
        })
        .expect("begun");
    let coming = entries.iter().map(|entry| ArrivingEntry {
        id: EntryId::new(entry.seq.to_string()).expect("valid"),
        at: entry.at,
        body: entry.body.clone(),
    });
    let coming: Vec<ArrivingEntry> = coming.collect();
    for batch in coming.chunks(500) {
        import.append(batch.to_vec()).expect("stored");
    }
}
