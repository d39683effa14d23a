//! Killed between any two steps: nothing is lost, and nothing is answered twice, unless
//! Telegram accepted a message and the process died before it received the response.

use rethread_agent::scripted::Answer;

use crate::bot::Place;
use crate::fake::{Fault, Seen};

/// What a user sends: questions, and commands that must not run twice.
const SCRIPT: [&str; 5] =
    ["first question", "/new plan", "second question", "/clear", "third question"];

/// The replies they lead to.
const REPLIES: [&str; 5] = [
    "answer to first question",
    "You are in plan",
    "answer to second question",
    "The context is empty",
    "answer to third question",
];

fn count(seen: &[Seen], words: &str) -> usize {
    seen.iter().filter(|seen| seen.text.contains(words)).count()
}

/// Runs the script with a process that is killed at a request, and another one after it. Returns
/// false once the script is over before that request.
fn killed_at(number: usize, after: bool) -> bool {
    let place = Place::new();
    let fault = if after { Fault::KillAfter } else { Fault::KillBefore };
    place.fake.fault_at(number, fault);
    let bot = place.start();
    place.fake.victim(bot.pid());
    let mut update = 0;
    for text in SCRIPT {
        update = place.fake.says(7, text);
    }
    let last = REPLIES[REPLIES.len() - 1];
    let killed = place.fake.wait("killed, or done", |fake| {
        let done = count(&fake.chat(7), last) > 0 && fake.confirmed() >= update;
        (fake.fired() > 0 || done).then(|| fake.fired() > 0)
    });
    let killed = killed | place.fake.calm();
    let method = place.fake.asked().get(number).map(|asked| asked.method.clone());
    let bot = match killed {
        true => {
            drop(bot.end());
            place.start()
        }
        false => bot,
    };
    // The last message is answered after everything before it is finished.
    place.fake.says(7, "/help");
    place.fake.wait_for(7, "or a command:");
    bot.stop();
    let context =
        format!("killed at {number} ({method:?}), {}", if after { "after" } else { "before" });
    let mut seen = place.fake.chat(7);
    seen.retain(|seen| !seen.text.contains("or a command:"));
    for words in REPLIES {
        let times = count(&seen, words);
        let unavoidable = after && method.as_deref() == Some("sendMessage");
        assert!(
            times == 1 || unavoidable && times == 2,
            "{context}: {words:?} {times} times\n{seen:#?}"
        );
    }
    let extra = seen.len() - REPLIES.len();
    assert!(
        extra <= usize::from(after && method.as_deref() == Some("sendMessage")),
        "{context}: {seen:#?}"
    );
    let sessions = place.sessions("telegram:7");
    assert_eq!(sessions.len(), 2, "{context}: one more session, once: {sessions:#?}");
    let mut said = place.said("telegram:7");
    said.sort();
    let mut expected: Vec<String> = ["first", "second", "third"]
        .iter()
        .flat_map(|n| [format!("user: {n} question"), format!("assistant: answer to {n} question")])
        .collect();
    expected.sort();
    assert_eq!(said, expected, "{context}");
    let plan = place.home.json(&["show", "plan", "--all", "--owner", "telegram:7"]);
    let clears = plan["entries"].to_string().matches("\"cleared\"").count();
    assert_eq!(clears, 1, "{context}: {plan}");
    assert_eq!(place.fake.refused(), [""; 0], "{context}");
    killed
}

#[test]
fn a_bot_killed_before_any_request_loses_nothing_and_says_nothing_twice() {
    let mut number = 0;
    while killed_at(number, false) {
        number += 1;
    }
    assert!(number > 10, "only {number} steps");
}

#[test]
fn a_bot_killed_after_any_request_loses_nothing_and_repeats_at_most_the_message_it_had_just_sent() {
    let mut number = 0;
    while killed_at(number, true) {
        number += 1;
    }
    assert!(number > 10, "only {number} steps");
}

#[test]
fn a_turn_that_was_killed_while_the_model_spoke_is_finished_in_the_same_message() {
    let place = Place::new();
    place
        .model
        .push(Answer::text("The beginning of an answer that never comes to its end.").slowly(9));
    let bot = place.start();
    let update = place.fake.says(7, "tell me");
    let draft = place.fake.wait_for(7, "The beginning of");
    // The draft is recorded when the next update is received, at the latest.
    place.fake.says(7, "/stats");
    place.fake.wait("confirmed", |fake| (fake.confirmed() > update).then_some(()));
    bot.kill();
    let bot = place.start();
    let whole = place.fake.wait_for(7, "answer to tell me");
    place.fake.wait_for(7, "Messages: 1 from you");
    bot.stop();
    assert_eq!(whole.id, draft.id, "{:#?}", place.fake.chat(7));
    assert_eq!(place.fake.chat(7).len(), 2);
    assert_eq!(place.said("telegram:7"), ["user: tell me", "assistant: answer to tell me"]);
}

#[test]
fn what_was_confirmed_and_not_yet_begun_is_answered_after_a_crash() {
    let place = Place::new();
    place.model.push(Answer::text("This one never ends.").slowly(1));
    let bot = place.start();
    for text in ["one", "two", "three"] {
        place.fake.says(7, text);
    }
    let last = place.fake.says(7, "four");
    place.model.wait_for_requests(1);
    place.fake.wait("all are confirmed", |fake| (fake.confirmed() >= last).then_some(()));
    bot.kill();
    let bot = place.start();
    place.fake.wait_for(7, "answer to four");
    bot.stop();
    let texts: Vec<String> = place.fake.chat(7).into_iter().map(|seen| seen.text).collect();
    assert_eq!(texts, ["answer to one", "answer to two", "answer to three", "answer to four"]);
}

#[test]
fn a_second_process_waits_for_the_first_and_takes_over() {
    let place = Place::new();
    let first = place.start();
    place.fake.says(7, "to the first");
    place.fake.wait_for(7, "answer to to the first");
    let asked = place.fake.asked().len();
    let second = place.start();
    place.fake.wait("the second knows itself", |fake| {
        fake.asked()[asked..].iter().any(|asked| asked.method == "getMe").then_some(())
    });
    first.stop();
    place.fake.says(7, "to the second");
    place.fake.wait_for(7, "answer to to the second");
    second.stop();
    assert_eq!(place.fake.chat(7).len(), 2);
}

#[test]
fn erasing_a_session_leaves_no_word_of_it_in_the_store() {
    let place = Place::new();
    let bot = place.start();
    place.fake.says(7, "remember xyzzyplugh for me");
    place.fake.wait_for(7, "answer to remember");
    place.fake.says(7, "/delete");
    let asked = place.fake.wait_for(7, "It is moved to the trash");
    place.fake.presses(7, &asked, "Erase it for good");
    place.fake.wait_for(7, "It is erased");
    bot.stop();
    assert!(place.sessions("telegram:7").is_empty());
    // The store removes deleted data at its next maintenance.
    assert_eq!(place.home.run(&["doctor"]).code, 0);
    for file in std::fs::read_dir(place.home.store().parent().expect("a folder")).expect("read") {
        let path = file.expect("a file").path();
        let bytes = std::fs::read(&path).expect("read");
        let found = bytes.windows(11).any(|window| window == b"xyzzyplugh ");
        assert!(!found, "{} still has it", path.display());
    }
}
