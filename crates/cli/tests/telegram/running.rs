//! Commands for a running turn: `/stop`, `/retry`, `/status`.

use rethread_agent::scripted::Answer;

use crate::bot::Place;
use crate::commands::send;

/// Asks something whose answer stops after its first words, and waits until they are shown.
fn begun(place: &Place) {
    let words = "A very long answer about the garden wall, which goes on and on and on. ".repeat(4);
    place.model.push(Answer::text(words).slowly(12));
    place.fake.says(7, "about the wall");
    place.fake.wait_for(7, "A very long answer");
}

/// Waits until nothing is running: an answer is visible a moment before its turn is finished.
fn idle(place: &Place) {
    while !send(place, "/status", "Waiting: ").text.contains("Nothing is running") {}
}

#[test]
fn stop_ends_the_running_turn_and_keeps_what_was_said() {
    let place = Place::new();
    let bot = place.start();
    begun(&place);
    place.fake.says(7, "the next question");
    let told = send(&place, "/stop", "Stopped; the part that arrived is kept");
    assert!(told.text.contains("1 message still to be answered"), "{told:?}");
    let stopped = place.fake.wait_for(7, "[stopped]");
    assert!(stopped.text.contains("A very long answer"), "{stopped:?}");
    place.fake.wait_for(7, "answer to the next question");
    idle(&place);
    send(&place, "/stop", "Nothing is running here");
    bot.stop();
    let said = place.said("telegram:7");
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[1].starts_with("assistant: A very long answer"), "{said:?}");
    assert!(said[1].len() < 200, "only what came: {said:?}");
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_turn_that_continues_after_a_crash_can_be_stopped() {
    let place = Place::new();
    let bot = place.start();
    begun(&place);
    bot.kill();
    let words = "Another very long answer about the garden wall. ".repeat(4);
    place.model.push(Answer::text(words).slowly(12));
    let bot = place.start();
    place.fake.wait_for(7, "Another very long answer");
    send(&place, "/stop", "Stopped; the part that arrived is kept");
    let stopped = place.fake.wait_for(7, "[stopped]");
    assert!(stopped.text.contains("Another very long answer"), "{stopped:?}");
    send(&place, "and now?", "answer to and now?");
    bot.stop();
    let asked = place.said("telegram:7").iter().filter(|said| said.starts_with("user")).count();
    assert_eq!(asked, 2);
}

#[test]
fn status_shows_what_runs_and_waits_the_model_the_folder_and_the_context() {
    let place = Place::new();
    let bot = place.start();
    let quiet = send(&place, "/status", "Nothing is running");
    assert!(quiet.text.contains("Waiting: 0 messages"), "{quiet:?}");
    begun(&place);
    place.fake.says(7, "two");
    place.fake.says(7, "three");
    let busy = send(&place, "/status", "Running: about the wall");
    let folder = place.home.path().file_name().expect("a name").to_string_lossy().into_owned();
    for words in
        ["Waiting: 2 messages", "Model: openai/gpt-5 (agent build)", "Context: about ", " tokens ("]
    {
        assert!(busy.text.contains(words), "{words}: {busy:?}");
    }
    assert!(busy.text.contains(&format!("Folder: {folder}")), "{busy:?}");
    place.model.release();
    place.fake.wait_for(7, "answer to three");
    idle(&place);
    bot.stop();
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn retry_asks_the_last_question_again() {
    let place = Place::new();
    let bot = place.start();
    place.model.push(Answer::text("a first try"));
    send(&place, "how many?", "a first try");
    send(&place, "/retry", "answer to how many?");
    bot.stop();
    assert_eq!(
        place.said("telegram:7"),
        [
            "user: how many?",
            "assistant: a first try",
            "user: how many?",
            "assistant: answer to how many?"
        ]
    );
}

#[test]
fn retry_does_not_ask_twice_what_was_never_answered() {
    let place = Place::new();
    let bot = place.start();
    place.model.push(Answer::status(401).saying("no"));
    let failed = send(&place, "how many?", "No answer");
    assert!(failed.text.contains("/retry asks again"), "{failed:?}");
    send(&place, "/retry", "answer to how many?");
    send(&place, "/clear", "The context is empty");
    send(&place, "/retry", "There is no question to ask again");
    bot.stop();
    assert_eq!(place.said("telegram:7"), ["user: how many?", "assistant: answer to how many?"]);
}

#[test]
fn a_retry_that_was_cut_short_by_a_crash_is_answered_once() {
    for fault in [crate::fake::Fault::KillBefore, crate::fake::Fault::KillAfter] {
        let place = Place::new();
        let bot = place.start();
        place.model.push(Answer::text("a first try"));
        send(&place, "how many?", "a first try");
        place.fake.fault("sendMessage", fault);
        place.fake.victim(bot.pid());
        place.fake.says(7, "/retry");
        bot.end();
        let bot = place.start();
        place.fake.wait_for(7, "answer to how many?");
        idle(&place);
        bot.stop();
        assert_eq!(place.said("telegram:7").len(), 4, "asked again once");
        assert_eq!(place.model.requests().len(), 2);
    }
}
