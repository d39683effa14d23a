//! A network that breaks, and a Telegram server that refuses.

use std::time::Duration;

use serde_json::json;

use crate::bot::{Bot, Place};
use crate::fake::{Fault, TOKEN};

#[test]
fn broken_connections_and_bad_gateways_are_survived() {
    let place = Place::new();
    for method in ["getMe", "getUpdates", "sendMessage"] {
        place.fake.fault(method, Fault::Page(502));
        place.fake.fault(method, Fault::CutBefore);
    }
    let bot = place.start();
    place.fake.says(7, "hello");
    place.fake.wait_for(7, "answer to hello");
    let wrote = bot.stop();
    assert_eq!(place.fake.chat(7).len(), 1, "what never arrived is sent once");
    assert_eq!(place.fake.fired(), 6);
    assert!(wrote.contains("retrying"), "it is said: {wrote}");
    assert!(!wrote.contains("hello"), "what people say is not: {wrote}");
}

#[test]
fn a_poll_whose_answer_is_cut_off_is_asked_again_and_nothing_is_done_twice() {
    let place = Place::new();
    place.fake.says(7, "one");
    place.fake.fault("getUpdates", Fault::CutAfter);
    let bot = place.start();
    place.fake.wait_for(7, "answer to one");
    place.fake.fault("getUpdates", Fault::CutAfter);
    place.fake.says(7, "two");
    place.fake.wait_for(7, "answer to two");
    bot.stop();
    assert_eq!(place.fake.chat(7).len(), 2);
}

#[test]
fn telegram_is_left_alone_for_as_long_as_it_says() {
    let place = Place::new();
    let limited = json!({ "ok": false, "error_code": 429, "description": "Too Many Requests: retry after 2",
        "parameters": { "retry_after": 2 } });
    place.fake.fault("sendMessage", Fault::Status(429, limited));
    let bot = place.start();
    place.fake.says(7, "hello");
    place.fake.wait_for(7, "answer to hello");
    bot.stop();
    let sends: Vec<_> =
        place.fake.asked().into_iter().filter(|asked| asked.method == "sendMessage").collect();
    assert_eq!(sends.len(), 2);
    let waited = sends[1].at.duration_since(sends[0].at);
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
}

#[test]
fn updates_delivered_twice_or_out_of_order_are_handled_once_and_in_order() {
    let place = Place::new();
    place.fake.shuffle();
    for text in ["one", "two", "three"] {
        place.fake.says(7, text);
    }
    let again = json!({ "update_id": 1_001, "message": { "message_id": 1, "date": 1, "text": "two",
        "from": { "id": 7, "is_bot": false, "first_name": "A" }, "chat": { "id": 7, "type": "private" } } });
    place.fake.repeat(again.clone());
    let bot = place.start();
    place.fake.wait_for(7, "answer to three");
    place.fake.repeat(again.clone());
    place.fake.says(7, "four");
    place.fake.wait_for(7, "answer to four");
    bot.stop();
    // A later process remembers it, too.
    let bot = place.start();
    place.fake.repeat(again);
    place.fake.says(7, "five");
    place.fake.wait_for(7, "answer to five");
    bot.stop();
    let texts: Vec<String> = place.fake.chat(7).into_iter().map(|seen| seen.text).collect();
    assert_eq!(texts, ["one", "two", "three", "four", "five"].map(|n| format!("answer to {n}")));
    assert_eq!(place.said("telegram:7").len(), 10);
}

#[test]
fn an_update_of_a_kind_nobody_knows_does_not_stop_the_others() {
    let place = Place::new();
    place.fake.update(json!({ "brand_new_kind": { "x": 1 } }));
    place.fake.update(json!({ "message": { "message_id": "not a number" } }));
    place.fake.says(7, "hello");
    let bot = place.start();
    place.fake.wait_for(7, "answer to hello");
    bot.stop();
}

#[test]
fn a_user_who_blocked_the_bot_does_not_hold_up_the_others() {
    let place = Place::new();
    let blocked = json!({ "ok": false, "error_code": 403, "description": "Forbidden: bot was blocked by the user" });
    place.fake.fault("sendMessage", Fault::Status(403, blocked));
    let bot = place.start();
    place.fake.says(7, "hello");
    place.fake.wait("refused", |fake| (fake.fired() == 1).then_some(()));
    place.fake.says(7, "again");
    place.fake.wait_for(7, "answer to again");
    let wrote = bot.stop();
    assert!(wrote.contains("403"), "{wrote}");
    assert_eq!(place.said("telegram:7").len(), 4, "what was said is kept");
}

#[test]
fn the_token_is_in_no_output_and_in_no_list_of_processes() {
    let place = Place::new();
    let command = |url: &str, token: Option<&str>, args: &[&str]| {
        let mut command = place.home.command(&[&["telegram", "--allow-user", "7"], args].concat());
        command.env("TELEGRAM_API_URL", url);
        if let Some(token) = token {
            command.env("TELEGRAM_BOT_TOKEN", token);
        }
        command
    };
    // The listener closes the connection: every attempt reports it, until the bot is stopped.
    let rude = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", rude.local_addr().expect("an address"));
    let bot = Bot::of(command(&url, Some(TOKEN), &[]));
    let line = std::fs::read(format!("/proc/{}/cmdline", bot.pid())).expect("a process");
    assert!(!String::from_utf8_lossy(&line).contains("s3cret"));
    for _ in 0..2 {
        drop(rude.accept().expect("a try"));
    }
    let wrote = bot.stop();
    assert!(wrote.contains("cannot be reached"), "{wrote}");
    // A token that Telegram does not know.
    let (code, wrote) = Bot::of(command(&place.fake.url, Some("4242:other-s3cret"), &[])).end();
    assert_eq!(code, Some(1), "{wrote}");
    assert!(
        wrote.contains("401") && wrote.contains("BotFather") && !wrote.contains("s3cret"),
        "{wrote}"
    );
    for (token, args) in [(Some("s3cret"), &[][..]), (None, &[]), (None, &["--token-file", "none"])]
    {
        let (code, wrote) = Bot::of(command(&place.fake.url, token, args)).end();
        assert_eq!(code, Some(2), "{wrote}");
        assert!(wrote.contains("hint:") && !wrote.contains("s3cret"), "{wrote}");
    }
    let (code, wrote) = Bot::of(command("ftp://x", Some(TOKEN), &[])).end();
    assert_eq!(code, Some(2), "{wrote}");
    assert!(!wrote.contains("s3cret"), "{wrote}");
    assert!(!place.home.run(&["config"]).out.contains("s3cret"));
}

#[test]
fn a_file_with_the_token_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let file = place.home.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).expect("written");
    let command = || {
        let mut command =
            place.home.command(&["telegram", "--token-file", "token", "--allow-user", "7"]);
        command.env("TELEGRAM_API_URL", &place.fake.url).envs(place.model.vars());
        command
    };
    let mode =
        |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("set");
    mode(0o644);
    let (code, wrote) = Bot::of(command()).end();
    assert_eq!(code, Some(2), "{wrote}");
    assert!(
        wrote.contains("can be read by others (mode 644)") && wrote.contains("chmod 600"),
        "{wrote}"
    );
    mode(0o600);
    let bot = Bot::of(command());
    place.fake.says(7, "/help");
    place.fake.wait_for(7, "or a command:");
    bot.stop();
}
