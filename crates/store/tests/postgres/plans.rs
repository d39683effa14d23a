//! What statements cost in a large database, mostly with other owners' sessions.
//!
//! The server itself logs how it ran each statement and how many rows it read, and the
//! test reads that log: it checks the statements the store sends, as the server ran them.

use std::time::Duration;

use rethread_core::measure::measure;
use rethread_core::message::Usage;
use rethread_core::search::Query;
use rethread_core::store::{At, Bind, Change, Filter, LeaseChange, Search};
use rethread_core::{
    Body, EntryId, Header, Key, Message, NewEntry, Owner, ProfileChange, SessionId, Store, World,
};
use rethread_store::testing::{Cluster, Settings};
use rethread_store::{PostgresStore, System};
use serde_json::Value;

use crate::open::name_of;

/// Rows one statement may read, regardless of the size of the store. The largest are a page of a
/// list with its keys and last entries, and a fold.
const ROWS_MAX: f64 = 1_200.0;

/// A hundred strangers with two hundred sessions each, who never search, one owner with five
/// thousand, and one session with a hundred thousand entries.
const FILL: &str = r#"
CREATE TEMP TABLE want AS
  SELECT 'stranger' || o AS owner, gen_random_uuid() AS id, n FROM generate_series(1, 100) o, generate_series(1, 200) n
  UNION ALL SELECT 'local', gen_random_uuid(), n FROM generate_series(1, 5000) n;
INSERT INTO rethread_sessions SELECT owner, id, 's' || n || '-' || substr(id::text, 1, 8),
  format('{"id":"%s","owner":"%s","name":"s%s-%s","created_at":"2025-01-01T00:00:00Z","archived":false}', id, owner, n, substr(id::text, 1, 8)),
  n % 10 = 0, sha256(('/w' || n % 7)::bytea), NULL, false, 1735689600000 + n, 'hello', 1, 0, NULL, NULL FROM want;
INSERT INTO rethread_entries SELECT owner, id, 0, 1735689600000 + n, 'e', NULL,
  substr(sha256('\x6d65737361676500'::bytea || '{"role":"user","content":"zebra"}'::bytea), 1, 16), 1, NULL, NULL, 1, 1, 1, 0, 0,
  NULL, NULL, NULL, NULL, NULL, NULL, E'\n{"role":"user","content":"zebra"}'::bytea FROM want;
INSERT INTO rethread_keys SELECT owner, sha256(('file:' || id)::bytea), 'file:' || id, id FROM want;
INSERT INTO rethread_usage SELECT owner, id, 'a/b', 1, 2, 3, 4, 5 FROM want;
INSERT INTO rethread_blobs SELECT owner, id, sha256(id::text::bytea), 5, 'hello' FROM want;
INSERT INTO rethread_unsearched SELECT owner, id FROM want WHERE owner <> 'local';
INSERT INTO rethread_search (owner, session, seq, at, speaker, words) SELECT owner, id, 0, 1735689600000 + n, 0,
  ('''' || (SELECT string_agg(substr('abcdefghijklmnopqrstuvwxyz234567', get_byte(sha256(owner::bytea), i) % 32 + 1, 1), '' ORDER BY i) FROM generate_series(0, 4) i) || CASE WHEN owner = 'local' AND n > 50 THEN 'other' ELSE 'zebra' END || '''')::tsvector FROM want;
INSERT INTO rethread_sessions SELECT 'local', '00000000-0000-7000-8000-000000000000', 'long',
  '{"id":"00000000-0000-7000-8000-000000000000","owner":"local","name":"long","created_at":"2025-01-01T00:00:00Z","archived":false}',
  false, NULL, NULL, false, 1735689700000, 'hello', 100000, 0, NULL, NULL;
INSERT INTO rethread_entries SELECT 'local', '00000000-0000-7000-8000-000000000000', n, 1735689700000, 'e' || n, NULL,
  substr(sha256('\x6d65737361676500'::bytea || '{"role":"user","content":"zebra"}'::bytea), 1, 16), 1, NULL, NULL, n + 1, n + 1, n + 1, 0, n, NULL, NULL, NULL, NULL, NULL, NULL,
  E'\n{"role":"user","content":"zebra"}'::bytea FROM generate_series(0, 99999) n;
ANALYZE;
"#;

fn said(id: String) -> NewEntry {
    let body = Body::Message(Message::user("a walrus"));
    let measure = measure(&body, |_| None);
    NewEntry { id: EntryId::new(id).expect("an id"), at: System.now(), body, measure }
}

/// All everyday operations, often enough that the server settles on its plans.
fn use_it(store: &PostgresStore, round: usize) {
    let owner = Owner::local();
    let long = SessionId("00000000-0000-7000-8000-000000000000".parse().expect("an id"));
    let ago = |entry: &str| format!("{entry}-{round}");
    let key = Key::new(ago("file:new")).expect("a key");
    let header = Header::new(SessionId(System.uuid()), owner.clone(), System.now());
    let bind = [Bind { key: key.clone(), seen: None }];
    store.create(&header, &[said(ago("a"))], &bind).expect("created");
    store.append(&owner, long, At::END, &[said(ago("b"))]).expect("appended");
    store.append(&owner, long, At::END, &[said(ago("c"))]).expect("appended again");
    store.append(&owner, long, At::END, &[said(ago("b"))]).expect("repeated");
    let end = store.get(&owner, long).expect("there").tally.entries;
    assert_eq!(store.read(&owner, long, end - 20..end).expect("read").len(), 20);
    store.lease(&owner, long, "me", Duration::from_secs(5)).expect("leased");
    store.lease(&owner, long, "me", Duration::ZERO).expect("given back");
    let lease = LeaseChange::Take { holder: "me".into(), ttl: Duration::from_secs(5) };
    let taken = At { lease, ..At::head(end) };
    let mut reply = said(ago("d"));
    let usage = Some(Usage { input: 1, ..Usage::default() });
    let message = Message { usage, model: Some("a/b".into()), ..Message::assistant("seals") };
    reply.body = Body::Message(message);
    let taken = store.append(&owner, long, taken, &[reply]).expect("appended").lease;
    let fence = taken.map(|lease| lease.fence);
    let last = At { fence, lease: LeaseChange::GiveBack, ..At::head(end + 1) };
    store.append(&owner, long, last, &[said(ago("e"))]).expect("appended");
    let blob = store.put_blob(&owner, long, ago("bytes").as_bytes()).expect("kept");
    store.blob(&owner, long, blob).expect("read");
    assert_eq!(store.blobs(&owner, long).expect("listed").len(), round + 1);
    store.resolve(&owner, &key).expect("resolved").expect("there");
    store.bind(&owner, &Bind { key, seen: Some(header.id) }, Some(long)).expect("bound");
    store.named(&owner, "long").expect("found").expect("there");
    store.with_prefix(&owner, "00000000", 5).expect("found");
    for workspace in [None, Some("/w3".to_owned())] {
        for newest_of_chain in [false, true] {
            let filter = Filter {
                workspace: workspace.clone(),
                archived: Some(false),
                newest_of_chain,
                trashed: false,
            };
            let first = store.list(&owner, &filter, None, 50).expect("listed");
            let second = store.list(&owner, &filter, first.next, 50).expect("listed");
            assert_eq!(second.sessions.len(), 50);
        }
    }
    assert_eq!(store.index_lag().expect("a count"), Some(5), "the messages of this round");
    assert_eq!(
        store
            .search(&owner, &Query::new("zebra").expect("a query"), 0, 20)
            .expect("searched")
            .len(),
        20
    );
    assert!(
        !store
            .search(&owner, &Query::new("walrus").expect("a query"), 0, 20)
            .expect("searched")
            .is_empty()
    );
    let change: Change =
        ProfileChange { description: Some(Some("x".into())), ..ProfileChange::default() }.into();
    store.update(&owner, header.id, &change).expect("changed");
    if round.is_multiple_of(2) {
        store.delete(&owner, header.id, None).expect("deleted");
    }
}

/// The plans the server wrote into its log.
fn plans(log: &str) -> Vec<Value> {
    let mut plans = Vec::new();
    for part in log.split("plan:\n").skip(1) {
        let json: String = part.lines().take_while(|line| line.starts_with('\t')).collect();
        plans.push(serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}")));
    }
    plans
}

/// The rows that a part of a plan has read, and the tables that it scanned completely.
fn looked_at(plan: &Value, scans: &mut Vec<String>) -> f64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or_default();
    let kind = plan["Node Type"].as_str().unwrap_or_default();
    let mut rows = 0.0;
    if kind.contains("Scan") && plan["Relation Name"].is_string() {
        let seen = number("Actual Rows")
            + number("Rows Removed by Filter")
            + number("Rows Removed by Index Recheck");
        rows += seen * number("Actual Loops");
        if kind == "Seq Scan" && number("Actual Loops") > 0.0 {
            scans.push(plan["Relation Name"].to_string());
        }
    }
    let parts = plan["Plans"].as_array().into_iter().flatten();
    rows + parts.map(|part| looked_at(part, scans)).sum::<f64>()
}

#[test]
fn no_statement_costs_more_because_there_is_more() {
    let cluster = Cluster::with(Settings {
        more: &[
            "session_preload_libraries=auto_explain",
            "auto_explain.log_min_duration=-1",
            "auto_explain.log_analyze=on",
            "auto_explain.log_timing=off",
            "auto_explain.log_format=json",
        ],
        ..Settings::default()
    });
    let url = cluster.database();
    drop(PostgresStore::open(&url).expect("a store"));
    cluster.sql(name_of(&url), FILL);
    let on = format!("ALTER DATABASE {} SET auto_explain.log_min_duration = 0", name_of(&url));
    cluster.sql("postgres", &on);
    let store = PostgresStore::open(&url).expect("a store");
    for round in 0..8 {
        use_it(&store, round);
    }
    drop(store);
    let plans = plans(&cluster.log());
    assert!(plans.len() > 200, "only {} plans were written", plans.len());
    let mut wrong = Vec::new();
    let mut widest: f64 = 0.0;
    for plan in &plans {
        let query = plan["Query Text"].as_str().unwrap_or_default();
        let mut scans = Vec::new();
        let rows = looked_at(&plan["Plan"], &mut scans);
        widest = widest.max(rows);
        // Tables of recently written sessions have a handful of rows, and scanning
        // them completely is the fastest way.
        scans.retain(|table| {
            !table.contains("_fresh") && !table.contains("_unsearched") && !table.contains("_store")
        });
        if !scans.is_empty() || rows > ROWS_MAX {
            wrong.push(format!("{rows} rows, through all of {scans:?}: {query}"));
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(widest > 100.0, "the plans say nothing: {widest}");
}
