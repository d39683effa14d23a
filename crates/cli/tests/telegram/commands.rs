//! Commands of the bot.

use rethread_agent::scripted::Answer;

use crate::bot::Place;
use crate::fake::Seen;

/// Sends something and waits for the reply.
pub(crate) fn send(place: &Place, text: &str, words: &str) -> Seen {
    let before = place.fake.chat(7).len();
    place.fake.says(7, text);
    place.fake.wait(&format!("{words:?} to {text:?}"), |fake| {
        fake.chat(7).into_iter().skip(before).find(|seen| seen.text.contains(words))
    })
}

#[test]
fn every_command_is_in_the_menu_and_in_the_help() {
    let place = Place::new();
    let bot = place.start();
    let start = send(&place, "/start", "Send a message, and it answers");
    assert!(start.text.contains("@ThreadBot") && start.text.contains("openai/gpt-5"), "{start:?}");
    let help = send(&place, "/help", "or a command:");
    let menu = place.fake.wait("a menu", |fake| {
        fake.asked()
            .into_iter()
            .find(|asked| asked.method == "setMyCommands")
            .map(|asked| asked.body)
    });
    for name in [
        "help",
        "new",
        "sessions",
        "open",
        "resume",
        "compact",
        "undo",
        "workspace",
        "stats",
        "agent",
        "delete",
        "clear",
        "history",
        "stop",
        "retry",
        "status",
    ] {
        assert!(help.text.contains(&format!("/{name} ")), "{name}: {help:?}");
        assert!(menu["commands"].to_string().contains(&format!("\"{name}\"")), "{name}: {menu}");
    }
    send(&place, "/frobnicate now", "Unknown command /frobnicate");
    for command in ["/stats", "/history", "/clear", "/undo", "/compact", "/sessions", "/delete"] {
        send(&place, command, "No messages here yet");
    }
    send(&place, "/stop", "No messages here yet");
    send(&place, "/retry", "There is no question to ask again");
    send(&place, "/status", "Nothing is running");
    bot.stop();
    assert!(place.sessions("telegram:7").is_empty(), "looking around starts nothing");
    assert!(place.model.requests().is_empty());
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn clear_empties_the_history_and_keeps_the_session() {
    let place = Place::new();
    let bot = place.start();
    send(&place, "an old secret", "answer to an old secret");
    send(&place, "/clear", "The context is empty");
    send(&place, "/history", "No messages since the last clear");
    let all = send(&place, "/history all", "an old secret");
    assert!(all.text.contains("cleared"), "{all:?}");
    send(&place, "and now?", "answer to and now?");
    let asked = place.model.requests().last().expect("asked").text.clone();
    assert!(!asked.contains("old secret"), "{asked}");
    send(&place, "/undo", "Undid the clear");
    let history = send(&place, "/history", "an old secret");
    assert!(history.text.contains("and now?"), "{history:?}");
    send(&place, "again", "answer to again");
    bot.stop();
    assert_eq!(place.sessions("telegram:7").len(), 1);
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn sessions_are_opened_resumed_and_deleted_by_buttons() {
    let place = Place::new();
    let bot = place.start();
    send(&place, "about gardens", "answer to about gardens");
    send(&place, "/new boats", "You are in boats");
    send(&place, "about boats", "answer to about boats");
    let list = send(&place, "/sessions", "Your sessions");
    assert_eq!(list.buttons.len(), 2);
    assert!(list.buttons[0].0.contains("● ") && list.buttons[0].0.contains("boats"), "{list:?}");
    place.fake.presses(7, &list, "about gardens");
    let opened = place.fake.wait("opened", |fake| {
        fake.chat(7).into_iter().find(|seen| seen.id == list.id && seen.text.contains("You are in"))
    });
    assert!(opened.buttons.is_empty(), "a used list has no buttons: {opened:?}");
    send(&place, "/history", "about gardens");
    send(&place, "/open boats", "You are in boats");
    send(&place, "/open nowhere", "No session matches `nowhere`");

    let resume = send(&place, "/resume", "from its summary");
    place.fake.presses(7, &resume, "about gardens");
    place.fake.wait_for(7, "Resumed: ");
    send(&place, "/undo", "Undid the resume");

    let delete = send(&place, "/delete boats", "Delete boats?");
    place.fake.presses(7, &delete, "Keep it");
    place.fake.wait_for(7, "Nothing was changed");
    let delete = send(&place, "/delete boats", "Delete boats?");
    place.fake.presses(7, &delete, "Delete it");
    let deleted = place.fake.wait_for(7, "It is in the trash");
    // Pressing the same button again finds nothing, says so, and does no harm.
    place.fake.presses(7, &delete, "Delete it");
    let list = send(&place, "/sessions", "Your sessions");
    assert!(!list.buttons.iter().any(|(text, _)| text.contains("boats")), "{list:?}");
    place.fake.presses(7, &deleted, "Undo");
    place.fake.wait_for(7, "boats is back");
    send(&place, "/open boats", "You are in boats");
    // In a chat whose session was deleted, /undo brings that one back.
    let delete = send(&place, "/delete", "Delete boats?");
    place.fake.presses(7, &delete, "Delete it");
    place.fake.wait_for(7, "It is in the trash");
    send(&place, "/undo", "boats is back");
    send(&place, "/history", "about boats");
    let delete = send(&place, "/delete", "Delete boats?");
    place.fake.presses(7, &delete, "Erase it for good");
    place.fake.wait_for(7, "It is erased");
    bot.stop();
    let names: Vec<String> =
        place.sessions("telegram:7").iter().map(|session| session["name"].to_string()).collect();
    assert!(!names.iter().any(|name| name.contains("boats")), "{names:?}");
    let answered =
        place.fake.asked().iter().filter(|asked| asked.method == "answerCallbackQuery").count();
    assert_eq!(answered, 8, "no button keeps turning");
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_long_list_has_more_pages() {
    let place = Place::new();
    for n in 0..11 {
        let line = format!(r#"{{"role":"user","content":"topic {n}"}}"#);
        let said = place
            .home
            .feed(&["append", "--new", "--name", &format!("s{n}"), "--owner", "telegram:7"], line);
        assert_eq!(said.code, 0, "{said:?}");
    }
    let bot = place.start();
    let list = send(&place, "/sessions", "Your sessions");
    assert_eq!(list.buttons.len(), 9);
    place.fake.presses(7, &list, "more");
    let next = place.fake.wait("more", |fake| {
        fake.chat(7).into_iter().find(|seen| seen.id == list.id && seen.edits > 0)
    });
    assert_eq!(next.buttons.len(), 3, "{next:?}");
    place.fake.presses(7, &next, "· s0");
    place.fake.wait_for(7, "You are in s0");
    bot.stop();
}

#[test]
fn compact_continues_smaller_and_is_undone() {
    let place = Place::new();
    let bot = place.start();
    for n in 0..3 {
        let text = format!("question {n} about the garden wall");
        send(&place, &text, &format!("answer to {text}"));
    }
    let summary = "<!-- SESSION_SUMMARY_START -->\n**Background Context:** Initial session.\n\n**Topics Discussed:**\n- the wall\n\n\
        **Decisions Made:**\n- bricks\n\n**Pending:**\n- none\n<!-- SESSION_SUMMARY_END -->";
    place.model.push(Answer::text(summary));
    let told = send(&place, "/compact", "Compacted: about");
    assert!(told.text.contains("/undo goes back"), "{told:?}");
    let history = send(&place, "/history", "continued from a summary");
    assert!(history.text.contains("bricks"), "{history:?}");
    send(&place, "after it", "answer to");
    send(&place, "/undo", "Undid the compact");
    send(&place, "/history", "question 0 about the garden wall");
    bot.stop();
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn another_agent_answers_and_stats_say_so() {
    let place = Place::new();
    let bot = place.start();
    send(&place, "hello", "answer to hello");
    let list = send(&place, "/agent", "answers. Press another");
    place.fake.presses(7, &list, "plan");
    place.fake.wait_for(7, "plan answers from now on");
    send(&place, "again", "answer to again");
    let stats = send(&place, "/stats", "Messages: 2 from you, 2 from the assistant");
    assert!(stats.text.contains("Agent: plan") && stats.text.contains("policy bot"), "{stats:?}");
    send(&place, "/agent nobody", "No such agent");
    send(&place, "/agent Explore", "explore answers from now on");
    bot.stop();
    assert_eq!(place.sessions("telegram:7")[0]["agent"], "explore");
}

#[test]
fn history_shows_all_of_it_a_page_at_a_time() {
    let place = Place::new();
    let line = |n: usize| {
        let role = if n.is_multiple_of(2) { "user" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":"message number {n} {}"}}"#, "word ".repeat(100))
    };
    let lines: Vec<String> = (0..120).map(line).collect();
    let said = place.home.feed(
        &["append", "--key", "telegram:7", "--owner", "telegram:7", "--batch"],
        lines.join("\n"),
    );
    assert_eq!(said.code, 0, "{said:?}");
    let bot = place.start();
    place.fake.says(7, "/history");
    let mut pages = 1;
    loop {
        let seen = place.fake.wait("a page", |fake| {
            let chat = fake.chat(7);
            let with = chat.iter().filter(|seen| !seen.buttons.is_empty()).count();
            let first = chat.iter().any(|seen| seen.text.contains("message number 0 "));
            (with == pages || first).then_some(chat)
        });
        match seen.iter().rev().find(|seen| !seen.buttons.is_empty()).cloned() {
            Some(last) if !seen.iter().any(|seen| seen.text.contains("message number 0 ")) => {
                place.fake.presses(7, &last, "earlier");
                pages += 1;
            }
            _ => break,
        }
    }
    bot.stop();
    assert!(pages > 1, "more than one page");
    let seen = place.fake.chat(7);
    for n in 0..120 {
        let words = format!("message number {n} ");
        assert_eq!(
            seen.iter().map(|seen| seen.text.matches(&words).count()).sum::<usize>(),
            1,
            "{n}"
        );
    }
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn what_cannot_be_read_is_answered_politely() {
    let place = Place::new();
    let bot = place.start();
    place.fake.update(serde_json::json!({ "message": { "message_id": 1, "date": 1,
        "from": { "id": 7, "is_bot": false, "first_name": "A" }, "chat": { "id": 7, "type": "private" },
        "location": { "latitude": 1.0, "longitude": 2.0 } } }));
    place.fake.wait_for(7, "This bot reads only text, photos and documents");
    bot.stop();
    assert!(place.model.requests().is_empty());
}
