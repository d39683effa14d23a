//! Rows that were changed in the database: not read as if they were intact, and no reason to
//! refuse the rest of the session.

use std::sync::Arc;

use rethread_core::context::{CutEffect, Model, Policy, Step};
use rethread_core::sessions::Error;
use rethread_core::store::{FindingState, Upkeep};
use rethread_core::{Message, New, Owner, Sessions, StoreError};
use rethread_store::{PostgresStore, System};

use crate::CLUSTER;
use crate::open::name_of;

#[test]
fn a_row_that_was_changed_is_damage_and_the_rest_is_usable() {
    for change in [
        "body = '\\x0badf00d', size = 99",
        "body = overlay(body placing 'x'::bytea from octet_length(body) - 8)",
        "at = at + 1",
        "id = 'another'",
        "kind = 'finished'",
        "seq = 77",
    ] {
        let url = CLUSTER.database();
        let store = Arc::new(PostgresStore::open(&url).expect("a store"));
        let sessions = Sessions::new(store.clone(), Owner::local(), Arc::new(System));
        let id = sessions.create(&New::default(), None).expect("a session").id();
        let said = ["one", "two", "three", "four"].map(|text| Message::user(text).into());
        sessions.append(id, said.to_vec()).expect("appended");
        let whole = sessions.read(id, 0..9).expect("read");
        assert_eq!(sessions.read(id, 1..u64::MAX).expect("read"), whole[1..]);
        CLUSTER.sql(name_of(&url), &format!("UPDATE rethread_entries SET {change} WHERE seq = 1"));
        let read = sessions.read(id, 0..9);
        let told = matches!(&read, Err(Error::Store(StoreError::Damaged { seq: 1, .. })));
        assert!(told, "{change}: {read:?}");
        assert!(sessions.read(id, 1..2).is_err(), "{change}");
        assert_eq!(sessions.read(id, 2..4).expect("read"), whole[2..], "{change}");
        let context = sessions.context(id, &Policy::cli(), &Model::new("openai", "m"));
        if change == "seq = 77" {
            // The end of the log is lost with it.
            continue;
        }
        let context = context.expect("a context");
        let text = context.messages[0].plain_text();
        assert!(["one", "three", "four"].iter().all(|word| text.contains(word)), "{text}");
        assert!(!text.contains("two"), "{change}: {text}");
        let told = |change: &CutEffect| matches!(change, CutEffect::LeftOut { .. });
        let told = context.cuts.iter().filter(|cut| cut.by == Step::DAMAGE && told(&cut.change));
        assert_eq!(told.map(|cut| cut.seq).collect::<Vec<_>>(), [1], "{change}");
        let findings = store.check_session(&Owner::local(), id, false).expect("checked");
        let named = |finding: &&rethread_core::store::Finding| {
            finding.seq == Some(1) && finding.state == FindingState::Damaged
        };
        assert_eq!(findings.iter().filter(named).count(), 1, "{change}: {findings:?}");
    }
}

#[test]
fn whether_something_can_be_stored_is_found_by_storing() {
    let url = CLUSTER.database();
    let store = PostgresStore::open(&url).expect("a store");
    store.can_write().expect("it can");
    let name = name_of(&url);
    CLUSTER.sql(name, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let store = PostgresStore::open(&url).expect("a store");
    let refused = store.can_write();
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
}
