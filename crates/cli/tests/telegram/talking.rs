//! Talking to the bot: one session, kept for ever; answers that grow as they are written.

use rethread_agent::scripted::Answer;
use serde_json::json;

use crate::bot::Place;

#[test]
fn a_person_has_one_session_that_outlives_the_process() {
    let place = Place::new();
    let bot = place.start();
    let first = place.fake.says(7, "hello");
    place.fake.wait_for(7, "answer to hello");
    bot.stop();
    let bot = place.start();
    place.fake.says(7, "still there?");
    place.fake.wait_for(7, "answer to still there?");
    bot.stop();
    let sessions = place.sessions("telegram:7");
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["keys"], json!(["telegram:7"]));
    assert_eq!(
        place.said("telegram:7"),
        [
            "user: hello",
            "assistant: answer to hello",
            "user: still there?",
            "assistant: answer to still there?"
        ]
    );
    let id = sessions[0]["id"].as_str().expect("an id");
    let shown = place.home.json(&["show", id, "--owner", "telegram:7"]);
    let ids: Vec<&str> = shown["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|e| e["id"].as_str())
        .collect();
    assert!(ids.contains(&format!("tg:{first}").as_str()), "{ids:?}");
    assert_eq!(place.fake.refused(), [""; 0]);
    let actions =
        place.fake.asked().iter().filter(|asked| asked.method == "sendChatAction").count();
    assert!(actions >= 2, "typing is shown while the model works");
}

#[test]
fn the_model_sees_the_last_two_texts_of_500_characters_unless_configured() {
    let place = Place::new();
    let long = "x".repeat(700);
    let ask = |args: &[&str]| {
        let bot = place.start_with(&[&["--allow-user", "7"], args].concat());
        let before = place.fake.chat(7).len();
        place.fake.says(7, "now?");
        place.fake.wait("an answer", |fake| {
            fake.chat(7)[before..].iter().any(|seen| seen.text == "answer to now?").then_some(())
        });
        bot.stop();
        let asked = place.model.requests().last().expect("asked").body.clone();
        asked["messages"].as_array().expect("messages").clone()
    };
    let bot = place.start();
    for text in ["one", &long] {
        place.fake.says(7, text);
        place.fake.wait_for(7, &format!("answer to {text}"));
    }
    bot.stop();
    let messages = ask(&[]);
    let said: Vec<(String, usize)> = messages
        .iter()
        .filter(|message| message["role"] != "system")
        .map(|message| {
            (message["role"].to_string(), message["content"].to_string().chars().count() - 2)
        })
        .collect();
    assert_eq!(said.len(), 3, "two texts and the question: {said:?}");
    assert!(said[..2].iter().all(|(_, chars)| *chars <= 501), "{said:?}");
    let whole = ask(&["--policy", "cli"]);
    assert!(whole.len() > 6, "another policy, another context: {}", whole.len());
}

#[test]
fn an_answer_is_shown_while_it_is_written_and_stays_one_message() {
    let place = Place::new();
    let text = "The first half is here already. And this is the second half of it.";
    place.model.push(Answer::text(text).slowly(8));
    let bot = place.start();
    place.fake.says(7, "tell me");
    let draft = place.fake.wait_for(7, "The first half");
    assert!(!draft.text.contains("second"), "{draft:?}");
    place.model.release();
    let whole = place.fake.wait_for(7, "second half of it.");
    bot.stop();
    assert_eq!(whole.id, draft.id, "the same message");
    assert_eq!(whole.text, text);
    assert_eq!(place.fake.chat(7).len(), 1);
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_long_answer_is_several_messages_and_its_code_stays_code() {
    let place = Place::new();
    let code: String = (0..500).map(|n| format!("let x{n} = \"<&>\";\n")).collect();
    place
        .model
        .push(Answer::text(format!("Here **it** is:\n\n```rust\n{code}```\n\nThat is *all*.")));
    let bot = place.start();
    place.fake.says(7, "code please");
    place.fake.wait_for(7, "That is all.");
    bot.stop();
    let parts = place.fake.chat(7);
    assert!(parts.len() >= 3, "{}", parts.len());
    for part in &parts[1..] {
        assert!(part.html.starts_with("<pre><code class=\"language-rust\">"), "{}", part.html);
    }
    for n in 0..500 {
        let line = format!("let x{n} = \"<&>\";");
        assert_eq!(parts.iter().filter(|part| part.text.contains(&line)).count(), 1, "{line}");
    }
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_message_that_telegram_cannot_parse_is_sent_without_styles() {
    let place = Place::new();
    let refusal = json!({ "ok": false, "error_code": 400, "description": "Bad Request: can't parse entities: x" });
    place.fake.fault("sendMessage", crate::fake::Fault::Status(400, refusal));
    place.model.push(Answer::text("**bold** & <plain>"));
    let bot = place.start();
    place.fake.says(7, "hello");
    let seen = place.fake.wait_for(7, "bold & <plain>");
    bot.stop();
    assert_eq!(seen.html, "bold & <plain>", "sent as it is");
    assert_eq!(place.fake.chat(7).len(), 1);
}

#[test]
fn a_failing_model_is_reported_and_the_session_continues() {
    let place = Place::new();
    place.model.push(Answer::status(401).saying("wrong key"));
    let bot = place.start();
    place.fake.says(7, "hello");
    let told = place.fake.wait_for(7, "No answer");
    assert!(told.text.contains("Your message is kept"), "{told:?}");
    place.fake.says(7, "again");
    place.fake.wait_for(7, "answer to hello");
    bot.stop();
    let said = place.said("telegram:7");
    assert_eq!(said[..2], ["user: hello", "user: again"], "{said:?}");
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn without_a_key_the_offline_model_answers_from_the_workspace() {
    let place = Place::new();
    std::fs::write(place.home.path().join("notes.md"), "The deploy key lives in the vault.\n")
        .expect("written");
    let mut command = place.home.command(&["telegram", "--allow-user", "7"]);
    command.env("TELEGRAM_BOT_TOKEN", crate::fake::TOKEN).env("TELEGRAM_API_URL", &place.fake.url);
    let bot = crate::bot::Bot::of(command);
    place.fake.says(7, "where does the deploy key live?");
    place.fake.wait_for(7, "in the vault");
    bot.stop();
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_stopped_bot_finishes_the_turn_it_is_in() {
    let place = Place::new();
    place.model.push(Answer::text("This takes a while, and it is the end.").slowly(3));
    let bot = place.start();
    place.fake.says(7, "slow one");
    place.model.wait_for_requests(1);
    bot.terminate();
    place.model.release();
    let (code, wrote) = bot.end();
    assert_eq!(code, Some(0), "{wrote}");
    assert_eq!(
        place.fake.chat(7).last().expect("a message").text,
        "This takes a while, and it is the end."
    );
    assert!(wrote.contains("Stopping"), "{wrote}");
}
