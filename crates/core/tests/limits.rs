//! Each limit of a context at one less, exactly, and one more, with characters of several bytes.

use rethread_core::context::{Context, Model, Policy, build};
use rethread_core::{Block, Entry, Log, Message, Raw, Role};

#[path = "dice/mod.rs"]
#[expect(dead_code, reason = "only the part that puts entries together is used here")]
mod dice;

fn log(messages: impl IntoIterator<Item = Message>) -> Log {
    let mut entries: Vec<Entry> = Vec::new();
    messages.into_iter().for_each(|message| dice::push(&mut entries, message));
    Log::new(entries).expect("no gaps")
}

fn context(messages: impl IntoIterator<Item = Message>, policy: &Policy) -> Context {
    build(&log(messages), policy, &Model::new("openai", "m"))
}

fn call(id: &str) -> Message {
    Message::new(Role::Assistant, vec![Block::tool_use(id, "search_vault", Raw::of(&()))])
}

#[test]
fn a_result_keeps_its_first_4000_characters_and_says_so() {
    for (chars, kept) in [(3_999, 3_999), (4_000, 4_000), (4_001, 4_000)] {
        let said = [Message::user("?"), call("c"), Message::tool_result("c", "é".repeat(chars))];
        let context = context(said, &Policy::editor());
        let shown = context.messages[2].results().next().expect("a result").text();
        let mark = if chars > kept { "\n\n[truncated]" } else { "" };
        assert_eq!(shown, format!("{}{mark}", "é".repeat(kept)));
        assert_eq!(context.cuts.len(), usize::from(chars > kept));
    }
}

#[test]
fn a_hundred_messages_are_kept_and_the_next_one_takes_a_quarter_away() {
    let said = |count: usize| {
        (0..count).map(|n| match n % 2 {
            0 => Message::user(format!("ü{n}")),
            _ => Message::assistant(format!("ü{n}")),
        })
    };
    let kept = |count| context(said(count), &Policy::emacs()).messages;
    for (count, left) in [(99, 99), (100, 100), (101, 75), (102, 76), (126, 100), (127, 75)] {
        assert_eq!(kept(count).len(), left, "of {count}");
    }
    assert_eq!(kept(101)[0].plain_text(), "ü26", "the cut is at a turn's start");
    assert_eq!(kept(126)[0].plain_text(), "ü26", "and stays there");
    let own = Policy { keep_recent: Some(10), ..Policy::emacs() };
    assert_eq!(context(said(11), &own).messages.len(), 7);
}

#[test]
fn two_texts_of_500_characters_are_kept_before_the_current_turn() {
    for (chars, kept) in [(499, 499), (500, 500), (501, 500)] {
        let long = "日".repeat(chars);
        let said = [
            Message::user("forgotten"),
            Message::assistant("forgotten too"),
            Message::user(long.clone()),
            call("c"),
            Message::tool_result("c", "no tool blocks"),
            Message::assistant(long.clone()),
            Message::user(long.clone()),
        ];
        let context = context(said, &Policy::bot());
        let texts: Vec<String> = context.messages.iter().map(Message::plain_text).collect();
        assert_eq!(
            texts,
            ["日".repeat(kept), "日".repeat(kept), long],
            "the current turn is whole"
        );
    }
}

#[test]
fn a_stub_is_used_only_if_it_is_shorter_and_never_changes() {
    let turn = |n: usize, chars: usize| {
        let id = format!("call_{n}");
        [
            Message::user("?"),
            call(&id),
            Message::tool_result(id, "é".repeat(chars)),
            Message::assistant("found"),
        ]
    };
    let shown = |turns: &[[Message; 4]]| {
        let context = context(turns.iter().flatten().cloned(), &Policy::editor());
        context.messages[2].results().next().expect("a result").text()
    };
    let short = [turn(0, 20)];
    assert_eq!(shown(&short), "é".repeat(20), "the stub would be longer");
    let mut turns = vec![turn(0, 3_000)];
    let stub = shown(&turns);
    let expected = format!(
        r#"{{"tool":"search_vault","status":"success","summary":"{}","ref":"2"}}"#,
        "é".repeat(200)
    );
    assert_eq!(stub, expected);
    for n in 1..20 {
        turns.push(turn(n, 100));
        assert_eq!(shown(&turns), stub);
    }
}

#[test]
fn a_context_is_under_the_window_even_when_one_message_is_not() {
    for window in [300, 1_000, 10_000] {
        let model = Model { window, reply: 0, ..Model::new("openai", "m") };
        let said = [Message::system("be brief"), Message::user("word ".repeat(200_000))];
        let context = build(&log(said), &Policy::cli(), &model);
        assert!(context.tokens <= window, "{} > {window}", context.tokens);
        assert_eq!(context.messages.len(), 2);
        assert!(!context.cuts.is_empty());
    }
}
