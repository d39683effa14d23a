//! Long sessions in windows from 8k to 200k tokens: every context fits, is accepted, refers only to
//! what it shows, and is rewritten rarely.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::context::{Context, Model, Policy, build, explain};
use rethread_core::{
    Block, Fixed, Log, MemoryStore, Message, New, Owner, Raw, Role, SessionId, Sessions, Thread,
    tokens,
};
use serde_json::json;

mod rules;
mod wire;

const WINDOWS: [u64; 7] = [8_000, 12_000, 16_000, 32_000, 64_000, 128_000, 200_000];

/// Pseudo-random numbers, each derived from the one before.
struct Numbers(u64);

impl Numbers {
    fn up_to(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % (max + 1)
    }
}

fn model(provider: &str, window: u64) -> Model {
    Model { window, ..Model::new(provider, "m") }
}

fn sessions() -> Sessions {
    let world = Arc::new(Fixed::default());
    Sessions::new(Arc::new(MemoryStore::new(world.clone())), Owner::local(), world)
}

fn held(sessions: &Sessions) -> (SessionId, Thread) {
    let id = sessions.create(&New::default(), None).expect("created").id();
    let mut thread = sessions.thread(id).expect("opened");
    thread.hold("test", Duration::from_secs(3_600)).expect("there is no other writer");
    (id, thread)
}

/// A part of one of eight files: what several results show is the same.
fn read(numbers: &mut Numbers) -> String {
    let (file, first) = (numbers.up_to(7), numbers.up_to(300));
    let count = [4, 12, 40, 120, 240][numbers.up_to(4) as usize];
    let line = |n: u64| format!("{n:>6}\tlet value_{file}_{n} = compute(input_{}, {n});\n", n % 17);
    (first..first + count).map(line).collect()
}

/// One turn of a coding session; `each` sees the thread before every reply.
fn turn(thread: &mut Thread, numbers: &mut Numbers, mut each: impl FnMut(&mut Thread)) {
    let words = "please look at this, too; ".repeat(1 + numbers.up_to(8) as usize);
    thread.append(Message::user(words)).expect("asked");
    for round in 0..numbers.up_to(6) {
        each(thread);
        let id = format!("call_{}_{round}", thread.head());
        let name = ["read_file", "bash", "grep", "edit"][numbers.up_to(3) as usize];
        let call = Block::tool_use(&id, name, Raw::of(&json!({"path": format!("f{round}.rs")})));
        thread.append(Message::new(Role::Assistant, vec![call])).expect("replied");
        thread.append(Message::tool_result(id, read(numbers))).expect("answered");
    }
    each(thread);
    thread.append(Message::assistant("Done, and it works.")).expect("replied");
}

/// Tokens of what is sent, counted again.
fn counted(context: &Context) -> u64 {
    let texts = context.messages.iter().flat_map(|message| &message.content).map(|block| {
        let result = Message::new(Role::Tool, vec![block.clone()]);
        let mut text = result.plain_text();
        result.results().for_each(|result| text.push_str(&result.text()));
        result.calls().for_each(|call| text.push_str(call.input.get()));
        text
    });
    texts.map(|text| u64::from(tokens::count(&text))).sum()
}

/// The result of the last call of a running turn is in the context, or referred to.
fn check_last_result(context: &Context) {
    let last = context.messages.last().into_iter().flat_map(Message::results).last();
    let Some(text) = last.map(|result| result.text()) else { return };
    let marks = |line: &str| line.starts_with('[') && line.contains(" cut");
    assert!(!text.lines().all(marks), "{text}:\n{}", explain(context));
}

/// The entries whose results the context refers to are shown in it.
fn check_references(context: &Context, log: &Log) {
    let mut shown = HashSet::new();
    let results = context.messages.iter().flat_map(Message::results);
    for result in results {
        let text = result.text();
        for reference in text.split("as in result ").skip(1) {
            let seq = reference.split(' ').next().and_then(|seq| seq.parse::<u64>().ok());
            let seq = seq.expect("a reference has a number");
            let named = log.get(seq).and_then(|entry| entry.body.message()).expect("an entry");
            let id = &named.results().next().expect("a result").tool_use_id;
            assert!(shown.contains(id), "{seq} is not above:\n{}", explain(context));
        }
        shown.insert(result.tool_use_id.clone());
    }
}

#[test]
fn every_context_fits_its_window_and_is_accepted() {
    for seed in 0..3 {
        let sessions = sessions();
        let (id, mut thread) = held(&sessions);
        let mut numbers = Numbers(seed);
        let wide = model("anthropic", 10_000_000);
        let policy = Policy::chat();
        let mut everything = 0;
        while everything < 260_000 {
            turn(&mut thread, &mut numbers, |thread| {
                thread.context(&policy, &wide).expect("built");
            });
            everything = thread.log().tally().tokens;
        }
        let question = Message::user("and now?");
        thread.append(question).expect("asked");
        let all = sessions.read(id, 0..u64::MAX).expect("read");
        let mut filled = 0;
        for window in WINDOWS {
            for name in ["chat", "editor", "cli"] {
                let policy = Policy::preset(name).expect("a preset");
                for provider in ["anthropic", "openai"] {
                    let model = model(provider, window);
                    // At the end, and in the middle of a turn somewhere before.
                    let middle = all.len() / 2 + numbers.up_to(all.len() as u64 / 2 - 1) as usize;
                    for end in [all.len(), middle] {
                        let log = Log::new(all[..end].to_vec()).expect("no gaps");
                        let context = build(&log, &policy, &model);
                        let (said, budget) = (context.tokens, model.budget());
                        assert!(said <= budget, "{name}, {window}: {said} > {budget}");
                        let really = counted(&context);
                        assert!(really <= window, "{name}, {window}: {really} are sent");
                        filled += u64::from(said * 2 > budget);
                        check_references(&context, &log);
                        check_last_result(&context);
                        if context.messages.last().is_some_and(|m| m.role != Role::Assistant) {
                            let broken = match provider {
                                "anthropic" => rules::anthropic::check(&wire::anthropic(&context)),
                                _ => rules::openai::check(&wire::openai(&context)),
                            };
                            assert!(broken.is_empty(), "{name}, {window}: {broken:#?}");
                        }
                    }
                    // Read from its end, as far back as necessary.
                    let log = Log::new(all.clone()).expect("no gaps");
                    let read = sessions.context(id, &policy, &model).expect("built");
                    assert_eq!(
                        read.hash(),
                        build(&log, &policy, &model).hash(),
                        "{name}, {window}"
                    );
                }
            }
        }
        // Under `chat` the largest ones hold everything.
        assert!(filled > 40, "the windows are filled, not emptied: {filled}");
    }
}

#[test]
fn of_a_turn_as_long_as_the_window_the_question_and_the_end_stay_for_the_next_questions() {
    let sessions = sessions();
    let (id, mut thread) = held(&sessions);
    let mut numbers = Numbers(11);
    let (policy, model) = (Policy::chat(), model("openai", 32_000));
    thread.append(Message::user("Rewrite the parser.")).expect("asked");
    for round in 0..120 {
        let call = Block::tool_use(format!("c{round}"), "bash", Raw::of(&json!({"n": round})));
        thread.append(Message::new(Role::Assistant, vec![call])).expect("replied");
        thread.append(Message::tool_result(format!("c{round}"), read(&mut numbers))).expect("ran");
    }
    thread.append(Message::assistant("The parser is rewritten.")).expect("replied");
    let mut kept: Option<Vec<Message>> = None;
    for question in ["And the tests?", "Is it fast?", "Commit it."] {
        thread.append(Message::user(question)).expect("asked");
        let context = thread.context(&policy, &model).expect("built");
        let texts: Vec<String> = context.messages.iter().map(Message::plain_text).collect();
        let place = |text: &str| texts.iter().position(|other| other == text);
        let (first, last) = (place("Rewrite the parser."), place("The parser is rewritten."));
        let (Some(first), Some(last)) = (first, last) else { panic!("{}", explain(&context)) };
        assert!(last > first + 4, "some of its rounds are there: {}", explain(&context));
        assert!(context.tokens < model.budget(), "{}", context.tokens);
        // It is not written again for each question.
        let now = context.messages[..=last].to_vec();
        assert_eq!(kept.get_or_insert_with(|| now.clone()), &now);
        let again = sessions.context(id, &policy, &model).expect("built");
        assert_eq!(again.hash(), context.hash(), "read from its end");
        thread.append(Message::assistant("Yes.")).expect("replied");
    }
}

#[test]
fn a_full_window_is_rewritten_once_in_a_quarter_of_it() {
    for (seed, window) in [(5, 32_000), (6, 64_000), (7, 128_000)] {
        let sessions = sessions();
        let (_, mut thread) = held(&sessions);
        let mut numbers = Numbers(seed);
        let (policy, model) =
            (Policy { thin_turns: false, ..Policy::chat() }, model("openai", window));
        let mut before: Option<Arc<Context>> = None;
        let (mut rewritten, mut logged) = (0, 0);
        while logged < 8 * window {
            turn(&mut thread, &mut numbers, |thread| {
                let context = thread.context(&policy, &model).expect("built");
                let grown = before.as_ref().is_none_or(|before| {
                    context.messages.starts_with(&before.messages[..before.stable])
                });
                rewritten += u64::from(!grown);
                check_last_result(&context);
                before = Some(context);
            });
            logged = thread.log().tally().tokens;
        }
        // Pages are a quarter of the window, counted in tokens of the log.
        let most = 1 + 4 * logged / model.budget();
        assert!((1..=most).contains(&rewritten), "{window}: {rewritten} times, at most {most}");
    }
}
