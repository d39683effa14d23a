//! Rules of search: everything that was acknowledged is found by its words, and only by its owner.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Factory, created, entry, header, owner, query, said};
use crate::entry::{Body, NewEntry};
use crate::message::Message;
use crate::name::Owner;
use crate::search::{Query, Scope, Speaker};
use crate::session::Trash;
use crate::store::{At, Backend, Change, StoreError};

pub(super) fn search_finds_all_that_was_acknowledged(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let tool = r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"c","content":"the capybara file"}]}"#;
    let entries = [
        said(place, "a", "where is the Zebra?"),
        entry(place, "b", Body::Message(Message::assistant("the zebra sleeps"))),
        entry(place, "c", Body::Message(serde_json::from_str(tool).expect("a message"))),
    ];
    store.append(&owner(), id, At::END, &entries).expect("appended");
    let lag = store.index_lag().expect("a count");
    assert!(matches!(lag, None | Some(0 | 3)), "at most three entries: {lag:?}");
    let places = |text: &str| {
        let hits = place.store().search(&owner(), &query(text), 0, 99).expect("searched");
        assert!(hits.iter().all(|hit| hit.place.session == id));
        hits.iter().map(|hit| hit.place.seq).collect::<BTreeSet<_>>()
    };
    assert_eq!(places("zebra"), BTreeSet::from([0, 1]));
    assert_eq!(places("ZEBRA sleeps"), BTreeSet::from([1]));
    assert_eq!(places("capybara"), BTreeSet::from([2]));
    assert_eq!(places("walrus"), BTreeSet::new());
    assert_eq!(places("zeb"), BTreeSet::new(), "a part of a word is another word");
    assert_eq!(places("\"zebra OR ( NEAR"), BTreeSet::new(), "words are words, not operators");
    store.append(&owner(), id, At::END, &[said(place, "d", "a late zebra")]).expect("appended");
    assert_eq!(places("zebra"), BTreeSet::from([0, 1, 3]));
    let hits = store.search(&owner(), &query("capybara"), 0, 9).expect("searched");
    assert!(hits[0].snippet.contains("the capybara file"), "{hits:?}");
    assert_eq!(store.search(&owner(), &query("zebra"), 0, 2).expect("searched").len(), 2);
    let lag = store.index_lag().expect("a count");
    assert!(lag.is_none_or(|lag| lag == 0), "everything is indexed: {lag:?}");
    assert_eq!(store.search(&owner(), &query("zebra"), 2, 2).expect("searched").len(), 1);
    let away = Change { archived: Some(true), ..Change::default() };
    store.update(&owner(), id, &away).expect("archived");
    assert_eq!(places("zebra"), BTreeSet::from([0, 1, 3]), "what is put away is still found");
}

pub(super) fn search_keeps_to_one_owner_and_needs_a_word(place: &dyn Factory) {
    let (store, session) = created(place);
    // A word that an index might mistake for one of its own markers.
    let text = "zebra o6c6f63616c local user";
    store.append(&owner(), session.id(), At::END, &[said(place, "a", text)]).expect("appended");
    store.append(&owner(), session.id(), At::END, &[said(place, "b", "gnu")]).expect("appended");
    let stranger = Owner::new("stranger").expect("an owner");
    for text in ["zebra", "zebr*", "o6c6f63616c", "local", "user"] {
        assert_eq!(seqs(&*store, &query(text)), [0], "{text}");
        assert_eq!(store.search(&stranger, &query(text), 0, 9).expect("searched"), []);
    }
    for query in ["", "  ", "\"*()-", &"x".repeat(5_000)] {
        let error = Query::new(query).expect_err("no words");
        assert!(matches!(error, StoreError::BadQuery { .. }), "{error}");
    }
}

/// What is written, and which queries find it. Every store gives the same results.
const TEXTS: [&str; 9] = [
    "The limiter is a token-bucket.",
    "A bucket of tokens, limited.",
    "日本語の質問です",
    "質問: Rust言語で検索",
    "검색을 하다",
    "Café für Ärzte, naïve ＦＵＬＬ",
    "ΟΔΟΣ and Привет, Ёлка",
    "𠮷野家 ก็ดี 🦀crab",
    "a b a c the end",
];
const QUERIES: [(&str, &[u64]); 39] = [
    ("token bucket", &[0]),
    ("bucket", &[1, 0]),
    ("limit*", &[1, 0]),
    ("limit", &[]),
    ("LIMITED tok*", &[1]),
    ("imiter*", &[]),
    ("\"token bucket\"", &[0]),
    ("\"bucket token\"", &[]),
    ("\"bucket of tok*\"", &[1]),
    ("\"bucket of tok", &[]),
    ("\"a bucket\" limited", &[1]),
    ("質問", &[3, 2]),
    ("日本語", &[2]),
    ("日語", &[]),
    ("語", &[3, 2]),
    ("語で", &[3]),
    ("す", &[2]),
    ("検索", &[3]),
    ("rust言語", &[3]),
    ("\"質問 rust\"", &[3]),
    ("\"問 rust\"", &[3]),
    ("검색", &[4]),
    ("색", &[4]),
    ("하다*", &[4]),
    ("cafe", &[5]),
    ("CAFÉ arz*", &[5]),
    ("naive full", &[5]),
    ("naıve", &[]),
    ("οδος", &[6]),
    ("ёлка", &[6]),
    ("прив*", &[6]),
    ("𠮷野", &[7]),
    ("野", &[7]),
    ("ดี", &[7]),
    ("crab", &[7]),
    ("🦀crab", &[7]),
    ("\"b a\" \"a c\"", &[8]),
    ("\"a c b\"", &[]),
    ("the or not and near", &[]),
];

pub(super) fn search_means_the_same_in_every_store(place: &dyn Factory) {
    let (store, session) = created(place);
    let entries: Vec<_> =
        (0..).zip(TEXTS).map(|(n, text)| said(place, &format!("e{n}"), text)).collect();
    store.append(&owner(), session.id(), At::END, &entries).expect("appended");
    for (text, expected) in QUERIES {
        assert_eq!(seqs(&*store, &query(text)), expected, "{text}");
    }
    let hits = store.search(&owner(), &query("質問"), 0, 1).expect("searched");
    let pieces: Vec<_> = hits[0].pieces().collect();
    assert_eq!(pieces, [("質問", true), (": Rust言語で検索", false)]);
    assert_eq!((hits[0].speaker, hits[0].at), (Speaker::User, entries[3].at));
}

pub(super) fn what_was_said_ranks_above_what_tools_answered_and_the_latest_first(
    place: &dyn Factory,
) {
    let (store, session) = created(place);
    let message = |json: &str| Body::Message(serde_json::from_str(json).expect("a message"));
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"find","input":{"zebra":1,"what":"a\nzebra"}}]}"#;
    let both = r#"{"role":"assistant","content":[{"type":"text","text":"looking"},{"type":"tool_use","id":"d","name":"find","input":{"what":"zebra"}}]}"#;
    let result = r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"c","content":"the zebra file"}]}"#;
    let system = r#"{"role":"system","content":"zebra"}"#;
    let second = header(place);
    store.create(&second, &[], &[]).expect("created");
    let now = said(place, "x", "x").at;
    let at = |seconds, mut new: NewEntry| {
        new.at = now + Duration::from_secs(seconds);
        new
    };
    let user = |id: &str| said(place, id, "my zebra");
    let of = |id: &str, json: &str| entry(place, id, message(json));
    let first = [
        at(1, user("a")),
        at(2, of("b", call)),
        at(3, of("c", result)),
        at(4, of("d", both)),
        at(6, of("s", system)),
    ];
    store.append(&owner(), session.id(), At::END, &first).expect("appended");
    let later = [at(9, user("e")), at(1, user("f"))];
    store.append(&owner(), second.id, At::END, &later).expect("appended");
    // If two have the same time, the session created later comes first.
    let (one, two) = (session.id(), second.id);
    let mut same = [(one, 0), (two, 1)];
    same.sort_unstable_by(|a, b| b.cmp(a));
    let expected = [(two, 0), (one, 3), same[0], same[1], (one, 4), (one, 2), (one, 1)];
    let places = |query: &Query, offset, limit| {
        let hits = place.store().search(&owner(), query, offset, limit).expect("searched");
        hits.iter().map(|hit| (hit.place.session, hit.place.seq)).collect::<Vec<_>>()
    };
    for text in ["zebra", "zeb*"] {
        let wanted = query(text);
        assert_eq!(places(&wanted, 0, 99), expected, "{text}");
        for offset in 0..8 {
            let page: Vec<_> = expected.iter().copied().skip(offset).take(2).collect();
            assert_eq!(places(&wanted, offset, 2), page, "{text} from {offset}");
        }
    }
    let phrase = query("\"my zebra\"");
    assert_eq!(places(&phrase, 0, 99), [(two, 0), same[0], same[1]]);
    assert_eq!(places(&phrase, 1, 1), [same[0]]);
    // The best entry of each session: many hits in one hide no other.
    let once = Scope { once_per_session: true, ..Scope::default() };
    for (text, best) in [("zebra", (one, 3)), ("\"my zebra\"", (one, 0))] {
        let wanted = query(text).within(once.clone());
        assert_eq!(places(&wanted, 0, 99), [(two, 0), best], "{text}");
        assert_eq!(places(&wanted, 0, 1), [(two, 0)], "{text}");
        assert_eq!(places(&wanted, 1, 1), [best], "{text}");
    }
    for (from, count) in
        [(Speaker::User, 3), (Speaker::Assistant, 1), (Speaker::Tool, 2), (Speaker::System, 1)]
    {
        let hits =
            store.search(&owner(), &scoped(Scope { from: Some(from), ..Scope::default() }), 0, 99);
        let hits = hits.expect("searched");
        assert_eq!(hits.len(), count, "{from:?}");
        assert!(hits.iter().all(|hit| hit.speaker == from), "{hits:?}");
    }
    let since = |seconds| {
        let since = Some(now + Duration::from_secs(seconds));
        places(&scoped(Scope { since, ..Scope::default() }), 0, 99)
    };
    assert_eq!(since(4), [(two, 0), (one, 3), (one, 4)], "then or later");
    assert_eq!(since(10), []);
}

pub(super) fn search_keeps_to_a_workspace_and_out_of_the_trash(place: &dyn Factory) {
    let store = place.store();
    let mut ids = Vec::new();
    for (name, workspace) in [("one", Some("/srv/a")), ("two", Some("/srv/a/b")), ("three", None)] {
        let mut header = header(place);
        header.profile.workspace = workspace.map(str::to_owned);
        store.create(&header, &[said(place, name, "a zebra")], &[]).expect("created");
        ids.push(header.id);
    }
    let found = |workspace: Option<&str>| {
        let workspace = workspace.map(str::to_owned);
        let query = scoped(Scope { workspace, ..Scope::default() });
        let hits = store.search(&owner(), &query, 0, 9).expect("searched");
        hits.iter().map(|hit| hit.place.session).collect::<BTreeSet<_>>()
    };
    assert_eq!(found(None), BTreeSet::from_iter(ids.clone()));
    assert_eq!(found(Some("/srv/a")), BTreeSet::from([ids[0]]), "this folder, not those in it");
    assert_eq!(found(Some("/")), BTreeSet::new());
    let thrown = Trash { at: said(place, "x", "x").at, name: None, keys: Vec::new() };
    let change = |trash| Change { trash: Some(trash), ..Change::default() };
    store.update(&owner(), ids[0], &change(Some(thrown))).expect("thrown away");
    assert_eq!(found(None), BTreeSet::from([ids[1], ids[2]]));
    store.update(&owner(), ids[0], &change(None)).expect("restored");
    assert_eq!(found(None), BTreeSet::from_iter(ids.clone()));
    store.delete(&owner(), ids[1], None).expect("deleted");
    assert_eq!(found(None), BTreeSet::from([ids[0], ids[2]]));
}

fn scoped(scope: Scope) -> Query {
    query("zebra").within(scope)
}

/// The positions a search finds, in order, in the only session.
fn seqs(store: &dyn Backend, query: &Query) -> Vec<u64> {
    let hits = store.search(&owner(), query, 0, 99).expect("searched");
    hits.iter().map(|hit| hit.place.seq).collect()
}
