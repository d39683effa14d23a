//! The contract of a store, as a test suite.
//!
//! Each case is a rule; its name says which. [`CASES`] lists them all, and
//! [`conformance!`](crate::conformance!) generates a test from each for a store. The suite races
//! real threads, because a store that works for one caller at a time can still lose entries with
//! eight.
//!
//! A case gets a [`Factory`]: a fresh, empty store, which it may open a second time to see what
//! another process would see. Related rules are in one file.

mod appends;
mod blobs;
mod keys;
mod leases;
mod lists;
mod reads;
mod search;
mod sessions;
mod trash;

use std::sync::Arc;

use crate::entry::{Body, Entry, EntryId, NewEntry, Tally};
use crate::measure::measure;
use crate::message::Message;
use crate::name::{Key, Owner, SessionId};
use crate::search::Query;
use crate::session::{Header, Session};
use crate::store::Backend;
use crate::world::{Fixed, World};

/// The environment of a case.
pub trait Factory: Send + Sync {
    /// Opens the store. Called twice, it returns two that share the same sessions.
    fn store(&self) -> Arc<dyn Backend>;
    /// The clock of the stores, which only the case changes.
    fn world(&self) -> Arc<Fixed>;
}

/// A rule and its case.
pub type Case = (&'static str, fn(&dyn Factory));

macro_rules! cases {
    ($($module:ident { $($name:ident),* $(,)? })*) => {
        /// Every rule of the contract.
        pub const CASES: &[Case] = &[$($((stringify!($name), $module::$name),)*)*];

        /// Generates one test for each rule, for the store that a factory opens.
        #[macro_export]
        macro_rules! conformance {
            ($store:ident, $place:expr) => {
                mod $store {
                    use super::*;
                    $($(#[test] fn $name() {
                        $crate::conformance::run(stringify!($name), &$place);
                    })*)*
                }
            };
        }
    };
}

cases! {
    appends {
        a_stale_writer_gets_a_conflict,
        a_batch_is_stored_whole_or_not_at_all,
        a_repeated_append_returns_the_first_result,
        an_id_belongs_to_one_body,
        rivals_for_one_place_have_one_winner,
        nothing_is_lost_or_doubled_when_threads_race,
        a_retry_that_overtakes_its_first_try_is_stored_once,
        the_callback_of_an_append_gets_its_result,
    }
    reads {
        what_was_appended_is_read_back_the_same,
        unknown_blocks_and_entries_are_kept_byte_for_byte,
        reading_gives_what_exists,
        counts_are_those_of_the_entries,
        usage_is_that_of_the_replies_since_the_session_was_started,
        two_stores_on_one_place_see_the_same_log,
        a_healthy_store_has_nothing_to_repair,
    }
    sessions {
        a_header_is_kept_whole,
        a_session_is_created_whole_or_not_at_all,
        creating_the_same_session_again_changes_nothing,
        a_name_is_taken_once_per_owner,
        a_name_is_kept_as_it_was_given_and_taken_in_every_spelling,
        rivals_for_one_name_have_one_winner,
        an_update_changes_what_it_names,
        concurrent_updates_of_different_fields_are_all_kept,
        a_deleted_session_is_gone_with_its_keys,
        nobody_sees_another_owner,
    }
    keys {
        a_key_moves_only_from_where_it_was_seen,
        rivals_for_one_key_have_one_winner,
        rivals_for_one_key_move_it_once,
        a_key_points_at_sessions_that_exist,
        a_caller_that_loses_the_race_for_a_key_joins_the_session_that_won,
    }
    blobs {
        a_blob_is_read_back_the_same,
        the_same_bytes_are_kept_once,
        a_blob_belongs_to_one_session,
    }
    lists {
        a_list_is_newest_first_and_pages_without_gaps,
        a_list_shows_what_the_filter_says,
        what_was_thrown_away_is_listed_by_itself,
        a_chain_is_listed_by_its_newest_member,
        an_id_prefix_finds_its_sessions,
    }
    trash {
        a_session_in_the_trash_is_not_found,
        what_comes_back_from_the_trash_is_whole,
        names_and_keys_in_the_trash_are_free,
        a_session_in_a_turn_does_not_go_to_the_trash,
        a_session_restored_meanwhile_is_not_erased,
        the_trash_is_emptied_of_what_is_old,
        a_chain_whose_end_is_in_the_trash_ends_before_it,
    }
    leases {
        a_lease_keeps_others_from_writing,
        a_lease_ends_with_its_time_or_when_given_back,
        an_old_fence_is_refused,
        no_lease_lasts_for_ever_and_only_its_holder_ends_it,
        rivals_for_one_lease_have_one_winner,
        the_first_append_takes_the_lease,
        a_refused_append_takes_no_lease,
        the_last_append_gives_the_lease_back,
        a_repeated_append_takes_or_gives_back_the_lease_again,
        rivals_for_one_turn_have_one_winner,
    }
    search {
        search_finds_all_that_was_acknowledged,
        search_keeps_to_one_owner_and_needs_a_word,
        search_means_the_same_in_every_store,
        what_was_said_ranks_above_what_tools_answered_and_the_latest_first,
        search_keeps_to_a_workspace_and_out_of_the_trash,
    }
}

/// Runs the case of this name.
///
/// # Panics
///
/// If the store breaks the rule.
pub fn run(name: &str, place: &dyn Factory) {
    let (_, case) = CASES.iter().find(|(case, _)| *case == name).expect("a case of this name");
    case(place);
}

const RIVALS: usize = 8;

fn owner() -> Owner {
    Owner::local()
}

fn header(place: &dyn Factory) -> Header {
    Header::new(SessionId(place.world().uuid()), owner(), place.world().now())
}

fn created(place: &dyn Factory) -> (Arc<dyn Backend>, Session) {
    let store = place.store();
    let session = store.create(&header(place), &[], &[]).expect("an empty session");
    (store, session)
}

fn entry(place: &dyn Factory, id: &str, body: Body) -> NewEntry {
    let measure = measure(&body, |_| Some("search".into()));
    let id = EntryId::new(id).expect("a valid id");
    NewEntry { id, at: place.world().now(), body, measure }
}

fn said(place: &dyn Factory, id: &str, text: &str) -> NewEntry {
    entry(place, id, Body::Message(Message::user(text)))
}

fn query(text: &str) -> Query {
    Query::new(text).expect("a query")
}

fn placed(entries: &[NewEntry]) -> Vec<Entry> {
    let mut tally = Tally::default();
    let place = |new: &NewEntry| {
        let entry = new.placed(&tally);
        tally = entry.tally;
        entry
    };
    entries.iter().map(place).collect()
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a valid key")
}

/// Runs closures concurrently, and returns the result of each.
fn race<T: Send>(rivals: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = std::sync::Barrier::new(rivals);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..rivals)
            .map(|rival| {
                let (barrier, run) = (&barrier, &run);
                scope.spawn(move || {
                    barrier.wait();
                    run(rival)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a rival panicked")).collect()
    })
}
