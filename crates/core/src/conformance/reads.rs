//! Rules of reading: what was stored is read back unchanged, counted correctly and found
//! completely.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Factory, created, entry, header, key, owner, placed, query, said};
use crate::entry::{
    Body, Boundary, CarriedMessage, Decided, DecidedResult, Finished, LeftOut, NewEntry, Origin,
    PreviousSession, Restored, RoundLimit, Started, Summarized, Thinned, Thinning,
};
use crate::limits::READ_ENTRIES;
use crate::message::{Message, Usage};
use crate::name::Owner;
use crate::session::{Header, Session};
use crate::shown::{ToolKind, decide_alone};
use crate::store::{At, Filter};
use crate::usage::ModelUsage;
use crate::world::World;

pub(super) fn what_was_appended_is_read_back_the_same(place: &dyn Factory) {
    let (store, session) = created(place);
    place.world().advance(Duration::from_millis(789));
    let message = |json: &str| Body::Message(serde_json::from_str(json).expect("a message"));
    let boundary = Boundary { seq: 6, messages: 4, tokens: 9 };
    let usage = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 };
    let from = Some(session.id());
    let started = Started { origin: Origin::Resume, from, keys: vec![key("file:a")] };
    let bodies = [
        Body::Message(Message::system("You are helpful.")),
        Body::Message(Message::user("naïve 🦀 \u{0} text\r\n")),
        message(
            r#"{"role":"assistant","content":[{"type":"text","text":"Looking."},{"type":"tool_use","id":"c1","name":"search","input":{"q":1.50,"deep":{"a":[1,2]}}}]}"#,
        ),
        message(
            r#"{"role":"tool","content":{"type":"tool_result","tool_use_id":"c1","content":"found"}}"#,
        ),
        Body::Message(Message::assistant("x".repeat(100_000))),
        Body::RoundLimit(RoundLimit { repeated: Some("grep".into()) }),
        Body::RoundLimit(RoundLimit::default()),
        Body::Cleared { before: None },
        Body::Cleared { before: Some(boundary) },
        Body::Undone { before: Some(boundary) },
        Body::Undone { before: None },
        Body::LeftOut(LeftOut { turn: 7, why: "refused".into() }),
        Body::Thinned(Thinned { from: 2, through: 7, why: Thinning::Cold }),
        Body::Decided(Decided {
            through: 2,
            results: vec![DecidedResult {
                seq: 2,
                place: 0,
                shown: decide_alone("found", ToolKind::Search),
            }],
        }),
        Body::Finished(Finished { rounds: 2, ms: 1_500, usage, model: Some("a/b".into()) }),
        Body::Summary(Summarized { text: "chose a bucket".into(), by: "extractive".into(), usage }),
        Body::Started(started.clone()),
        Body::Restored(Box::new(Restored {
            started,
            summary: "chose a bucket".into(),
            tail: vec![CarriedMessage {
                reference: "ab:1".into(),
                message: Message::user("which?"),
            }],
            prompt: "Continue.".into(),
            acknowledgment: "Understood.".into(),
            usage,
            ms: 900,
            model: Some("a/b".into()),
            previous: PreviousSession { id: "ab".into(), queries: 5, tokens: 2_345, file: None },
        })),
    ];
    let entries: Vec<NewEntry> = bodies
        .into_iter()
        .enumerate()
        .map(|(index, body)| entry(place, &format!("e{index}"), body))
        .collect();
    let seqs = store.append(&owner(), session.id(), At::head(0), &entries).expect("appended").seqs;
    assert_eq!(seqs, (0..entries.len() as u64).collect::<Vec<u64>>());
    let read = store.read(&owner(), session.id(), 0..100).expect("read");
    assert_eq!(read, placed(&entries));
    assert_eq!(place.store().read(&owner(), session.id(), 0..100).expect("read"), read);
}

pub(super) fn unknown_blocks_and_entries_are_kept_byte_for_byte(place: &dyn Factory) {
    let (store, session) = created(place);
    let json = r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{ "type":"hologram",  "n": 1.0e2 }],"zebra":1}"#;
    let message = Body::Message(serde_json::from_str(json).expect("a message"));
    let later = Body::parse("from_the_future", r#"{ "b": 1,  "a": 1.0e2 }"#).expect("a body");
    let entries = [entry(place, "a", message), entry(place, "b", later)];
    store.append(&owner(), session.id(), At::END, &entries).expect("appended");
    let read = store.read(&owner(), session.id(), 0..2).expect("read");
    assert_eq!(read[0].body.json(), json);
    assert_eq!(read[1].body.kind(), "from_the_future");
    assert_eq!(read[1].body.json(), r#"{ "b": 1,  "a": 1.0e2 }"#);
}

pub(super) fn reading_gives_what_exists(place: &dyn Factory) {
    let (store, session) = created(place);
    let entries: Vec<NewEntry> =
        (0..READ_ENTRIES + 10).map(|i| said(place, &i.to_string(), "hello")).collect();
    store.append(&owner(), session.id(), At::END, &entries).expect("appended");
    let read = |range| store.read(&owner(), session.id(), range).expect("read");
    let all = placed(&entries);
    assert_eq!(read(0..u64::MAX), all);
    assert_eq!(read(5..7), all[5..7]);
    assert_eq!(read(READ_ENTRIES + 8..READ_ENTRIES + 99), all[READ_ENTRIES as usize + 8..]);
    assert_eq!(read(9_999..10_000), []);
    assert_eq!(read(7..7), []);
    #[expect(clippy::reversed_empty_ranges, reason = "a caller may get it wrong")]
    let backwards = read(7..5);
    assert_eq!(backwards, []);
}

pub(super) fn counts_are_those_of_the_entries(place: &dyn Factory) {
    let (store, session) = created(place);
    place.world().advance(Duration::from_secs(60));
    let tool =
        r#"{"role":"tool","content":{"type":"tool_result","tool_use_id":"c1","content":"found"}}"#;
    let entries = [
        entry(place, "a", Body::Message(Message::system("Be brief."))),
        said(place, "b", &"é".repeat(300)),
        entry(place, "c", Body::Message(Message::assistant("Looking."))),
        entry(place, "d", Body::Message(serde_json::from_str(tool).expect("a message"))),
        said(place, "e", "and again"),
        entry(place, "f", Body::Cleared { before: None }),
    ];
    store.append(&owner(), session.id(), At::END, &entries).expect("appended");
    let session = store.get(&owner(), session.id()).expect("there");
    assert_eq!(session.tally, placed(&entries).last().expect("six").tally);
    assert_eq!((session.tally.messages, session.tally.queries), (4, 2));
    assert_eq!(session.last_activity_at, place.world().now());
    assert_eq!(session.first_message, "é".repeat(200));
}

pub(super) fn usage_is_that_of_the_replies_since_the_session_was_started(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let reply = |id: &str, model: Option<&str>, output| {
        let usage = Usage { input: 10, output, cache_read: 5, cache_write: 1 };
        let model = model.map(str::to_owned);
        let message = Message { usage: Some(usage), model, ..Message::assistant(id) };
        entry(place, id, Body::Message(message))
    };
    let finished = Finished { ms: 700, model: Some("a/b".into()), ..Finished::default() };
    let first = [said(place, "q", "?"), reply("a", Some("a/b"), 3), reply("b", None, 9)];
    let last = [reply("c", Some("a/b"), 4), entry(place, "d", Body::Finished(finished))];
    let append = |entries: &[NewEntry]| store.append(&owner(), id, At::END, entries);
    append(&first).expect("appended");
    // A repeated append is charged once; a refused one, never.
    append(&first).expect("repeated");
    append(&[reply("a", Some("a/b"), 100)]).expect_err("the id is taken");
    append(&last).expect("appended");
    let sum = |session: &Session| {
        let sum = |(model, u): (&String, &ModelUsage)| {
            (model.clone(), u.usage.input, u.usage.output, u.usage.cache_read, u.ms)
        };
        session.usage.iter().map(sum).collect::<Vec<_>>()
    };
    let expected = vec![("a/b".into(), 20, 7, 10, 700), ("unknown".into(), 10, 9, 5, 0)];
    let seen = place.store().get(&owner(), id).expect("there");
    assert_eq!(sum(&seen), expected);
    let listed = store.list(&owner(), &Filter::default(), None, 9).expect("listed").sessions;
    assert_eq!(listed, [seen]);
    // A copy starts at zero: earlier usage was charged to the other session.
    let from = Some(id);
    let started = Started { origin: Origin::Fork, from, keys: Vec::new() };
    let started = entry(place, "s", Body::Started(started));
    let copied = [first.as_slice(), &last, std::slice::from_ref(&started)].concat();
    let fork = store.create(&header(place), &copied, &[]).expect("created");
    assert_eq!(sum(&fork), []);
    store.append(&owner(), fork.id(), At::END, &[reply("e", Some("c"), 8)]).expect("appended");
    let fork = store.get(&owner(), fork.id()).expect("there");
    assert_eq!(sum(&fork), [("c".into(), 10, 8, 5, 0)]);
    // The same if the entries are appended one by one.
    append(&[reply("f", Some("z"), 1), started, reply("g", Some("c"), 2)]).expect("appended");
    assert_eq!(sum(&store.get(&owner(), id).expect("there")), [("c".into(), 10, 2, 5, 0)]);
}

pub(super) fn two_stores_on_one_place_see_the_same_log(place: &dyn Factory) {
    let (one, session) = created(place);
    let two = place.store();
    for index in 0..10 {
        let (writer, reader) = if index % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let entries = [said(place, &format!("{index}"), "hello")];
        assert_eq!(reader.get(&owner(), session.id()).expect("there").tally.entries, index);
        writer.append(&owner(), session.id(), At::head(index), &entries).expect("appended");
        let seen = reader.get(&owner(), session.id()).expect("there");
        assert_eq!(seen.tally.entries, index + 1);
    }
}

pub(super) fn a_healthy_store_has_nothing_to_repair(place: &dyn Factory) {
    let (store, session) = created(place);
    let entries: Vec<NewEntry> =
        (0..100).map(|i| said(place, &i.to_string(), "hello zebra")).collect();
    store.append(&owner(), session.id(), At::END, &entries).expect("appended");
    store.search(&owner(), &query("zebra"), 0, 1).expect("searched");
    let stranger = Owner::new("stranger").expect("an owner");
    let theirs = Header { owner: stranger.clone(), archived: true, ..header(place) };
    store.create(&theirs, &[], &[]).expect("created");
    let all = BTreeSet::from([(owner(), session.id()), (stranger, theirs.id)]);
    let everything: BTreeSet<_> = store.everything().expect("listed").into_iter().collect();
    assert_eq!(everything, all);
    assert_eq!(store.check(true).expect("checked"), []);
    assert_eq!(store.check_session(&owner(), session.id(), true).expect("checked"), []);
}
