//! What the calls of a turn sent, compared with sending everything.

use rethread_agent::scripted::Answer;
use rethread_core::context::Policy;
use serde_json::json;

use crate::bench::{Bench, run};

fn long_file() -> String {
    (1..=900).map(|n| format!("    step(\"ordinary words\", {});\n", n % 90)).collect()
}

/// A turn that reads a file, and two short ones.
fn answers() -> [Answer; 5] {
    [
        Answer::calls([("read_file", json!({"path": "a.rs"}))]),
        Answer::calls([("recall", json!({"ref": "3#399-401"}))]),
        Answer::text("It has steps."),
        Answer::text("You are welcome."),
        Answer::text("Goodbye."),
    ]
}

#[test]
fn a_turn_says_what_it_sent_and_what_everything_would_have_been() {
    let bench = Bench::new("anthropic", answers());
    bench.file("a.rs", &long_file());
    let first = run(bench.turn("what is in a.rs?")).expect("answered").economy;
    assert_eq!((first.cold_starts, first.rewrites, first.recalls), (0, 0, 1));
    assert!(first.sent.contexts.read > 0, "later calls read what the first wrote: {first:?}");
    assert!(first.sent.everything.written > first.sent.contexts.written + 1_000, "{first:?}");
    let second = run(bench.again("thanks")).expect("answered").economy;
    assert_eq!((second.cold_starts, second.recalls), (0, 0));
    assert_eq!((second.thinned.warm, second.rewrites), (1, 1), "it paid to thin the file");
    let third = run(bench.again("goodbye")).expect("answered").economy;
    assert_eq!((third.cold_starts, third.rewrites), (0, 0));
    let written = third.sent.contexts.written;
    assert!(written < 100, "only the last reply and the question are new: {written}");
    // The same as replaying the session afterwards, which builds every context again.
    let (policy, model) = (&bench.runner.responder.policy, &bench.runner.responder.model);
    let life = std::time::Duration::from_secs(300);
    let sessions = bench.handle.sessions();
    let replayed = sessions.economy(bench.session, policy, model, life).expect("replayed");
    let replayed = replayed.expect("it is short");
    assert_eq!((replayed.calls, replayed.rewrites, replayed.cold_starts), (5, 1, 0));
    let mut live = first.sent;
    live.add(&second.sent);
    live.add(&third.sent);
    // Sizes of excerpts are estimated in a turn, and counted by the replay.
    let near = |one: u64, other: u64| one.abs_diff(other) * 5 <= other;
    let (contexts, again) = (live.contexts, replayed.sent().contexts);
    assert!(near(contexts.read, again.read), "{contexts:?} {again:?}");
    assert!(near(contexts.written, again.written), "{contexts:?} {again:?}");
}

#[test]
fn a_cache_that_is_written_again_is_counted() {
    let mut bench = Bench::new("openai", answers());
    bench.runner.responder.policy = Policy::editor();
    bench.file("a.rs", &long_file());
    let first = run(bench.turn("what is in a.rs?")).expect("answered").economy;
    assert_eq!(first.rewrites, 0);
    let second = run(bench.again("thanks")).expect("answered").economy;
    assert_eq!(second.rewrites, 1, "a stub took the place of what was read");
    assert!(second.sent.contexts.written > 50, "{second:?}");
}
