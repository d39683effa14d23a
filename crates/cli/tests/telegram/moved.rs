//! Groups that become supergroups.

use crate::bot::Place;

const OLD: i64 = -100;
const NEW: i64 = -100_123;

fn talked_in_old_group(place: &Place) {
    place.fake.says_in_small_group(7, OLD, "@ThreadBot before");
    place.fake.wait_for(OLD, "before");
}

/// What a group says after it moved is answered in the session it had.
fn continues_after_the_move(place: &Place) {
    place.fake.says_in_group(7, NEW, "@ThreadBot after");
    place.fake.wait_for(NEW, "after");
    let sessions = place.sessions(&format!("telegram:{OLD}"));
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    assert_eq!(sessions[0]["queries"], 2, "{sessions:#?}");
    assert!(place.sessions(&format!("telegram:{NEW}")).is_empty());
    let asked = place.model.requests().last().expect("asked").text.clone();
    assert!(asked.contains("before"), "the model knows what was said before: {asked}");
}

#[test]
fn a_group_that_becomes_a_supergroup_keeps_its_session_in_either_order() {
    for order in [[true, false], [false, true]] {
        let place = Place::new();
        let bot = place.start();
        talked_in_old_group(&place);
        place.fake.moves(OLD, NEW);
        for in_old in order {
            place.fake.says_moved(in_old, OLD, NEW);
        }
        continues_after_the_move(&place);
        bot.stop();
        // It is remembered, and the same update again changes nothing.
        let bot = place.start();
        place.fake.says_in_group(7, NEW, "/new@ThreadBot fresh");
        place.fake.wait_for(NEW, "You are in fresh");
        place.fake.says_moved(order[1], OLD, NEW);
        place.fake.says_in_group(7, NEW, "@ThreadBot again");
        place.fake.wait_for(NEW, "again");
        bot.stop();
        let sessions = place.sessions(&format!("telegram:{OLD}"));
        let fresh = sessions.iter().find(|session| session["name"] == "fresh");
        assert_eq!(fresh.expect("there")["queries"], 1, "{sessions:#?}");
        assert_eq!(place.fake.refused(), [""; 0]);
    }
}

#[test]
fn an_answer_follows_a_group_that_moved_while_it_was_written() {
    let place = Place::new();
    let bot = place.start();
    talked_in_old_group(&place);
    // Telegram refuses the reply before it has reported the move.
    place.fake.moves(OLD, NEW);
    place.fake.says_in_small_group(7, OLD, "@ThreadBot meanwhile");
    place.fake.wait_for(NEW, "meanwhile");
    place.fake.says_in_group(7, NEW, "@ThreadBot after");
    place.fake.wait_for(NEW, "after");
    bot.stop();
    assert_eq!(place.sessions(&format!("telegram:{OLD}"))[0]["queries"], 3);
    assert!(place.sessions(&format!("telegram:{NEW}")).is_empty());
}

#[test]
fn of_a_group_of_strangers_nothing_is_noted() {
    let place = Place::new();
    let bot = place.start();
    place.fake.says_moved(true, -777_777, -1_777_777);
    place.fake.says(7, "hello");
    place.fake.wait_for(7, "answer to hello");
    bot.stop();
    for file in std::fs::read_dir(place.home.store().parent().expect("a folder")).expect("read") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("read");
        assert!(!bytes.windows(7).any(|window| window == b"-777777"));
    }
}
