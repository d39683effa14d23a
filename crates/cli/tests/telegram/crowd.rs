//! Many users at once: each in order, all in parallel, in bounded memory.

use std::collections::BTreeMap;

use rethread_agent::scripted::Answer;

use crate::bot::Place;

/// Users who write at once.
const PEOPLE: i64 = 200;

/// Kilobytes that one more message may add. Caches of entries and of database pages are bounded, and
/// take far longer to fill than this test: a message adds 3 to 22 KB while they do, depending on
/// which connections happened to read it. With 64 waves instead of four it levels off at 180 MB.
const KB_PER_MESSAGE_MAX: u64 = 32;

/// Kilobytes that all of it may use.
const KB_MAX: u64 = 128 << 10;

/// Kilobytes of memory a process uses.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

#[test]
fn two_hundred_people_are_answered_at_once_each_in_order_and_in_bounded_memory() {
    let place = Place::new();
    let everybody: Vec<String> = (1..=PEOPLE).map(|id| id.to_string()).collect();
    let bot = place.start_with(&["--allow-user", &everybody.join(",")]);
    let mut used = Vec::new();
    for wave in 1..=4 {
        for question in 1..=2 {
            for user in 1..=PEOPLE {
                place.fake.says(user, &format!("wave {wave} question {question} of {user}"));
            }
        }
        let expected = (PEOPLE * 2 * wave) as usize;
        place
            .fake
            .wait(&format!("wave {wave}"), |fake| (fake.seen().len() >= expected).then_some(()));
        used.push(memory(bot.pid()));
    }
    bot.stop();
    let mut told: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for seen in place.fake.seen() {
        told.entry(seen.chat).or_default().push(seen.text);
    }
    for user in 1..=PEOPLE {
        let expected: Vec<String> = (1..=4)
            .flat_map(|wave| {
                (1..=2).map(move |q| format!("answer to wave {wave} question {q} of {user}"))
            })
            .collect();
        assert_eq!(told[&user], expected, "{user}");
    }
    println!("memory after each wave of {} messages: {used:?} KiB", PEOPLE * 2);
    // Two waves for threads, connections and the first pages.
    let messages = 2 * 2 * PEOPLE as u64;
    let more = used[3].saturating_sub(used[1]);
    assert!(more <= messages * KB_PER_MESSAGE_MAX, "memory after each wave, in KiB: {used:?}");
    assert!(used[3] < KB_MAX, "memory after each wave, in KiB: {used:?}");
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_slow_answer_to_one_does_not_hold_up_another() {
    let place = Place::new();
    place.model.push(Answer::text("late answer for seven").slowly(0));
    let bot = place.start_with(&["--allow-user", "7,8"]);
    place.fake.says(7, "slow");
    place.model.wait_for_requests(1);
    place.fake.says(7, "next");
    place.fake.says(8, "quick");
    place.fake.wait_for(8, "answer to quick");
    assert!(place.fake.chat(7).is_empty(), "the second of the same person waits for the first");
    place.model.release();
    place.fake.wait_for(7, "answer to next");
    bot.stop();
    let texts: Vec<String> = place.fake.chat(7).into_iter().map(|seen| seen.text).collect();
    assert_eq!(texts, ["late answer for seven", "answer to next"]);
}
