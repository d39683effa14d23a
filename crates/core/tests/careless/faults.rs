//! The ways to be careless, and the rules that notice.

/// One way to be careless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A text column with room for 64 KiB, in a database that truncates silently.
    CutsLongTexts,
    /// A JSON column that keeps the value and not the bytes.
    NormalizesJson,
    /// A header, its entries and its keys in three transactions.
    CreatesInSteps,
    /// `INSERT … ON CONFLICT DO NOTHING`, without comparing what is stored.
    TrustsIds,
    /// No unique index on the ids of entries.
    StoresRepeats,
    /// A batch as a loop of inserts that each commit.
    AppendsOneByOne,
    /// The expected head is not checked: the last writer wins.
    ForgetsTheHead,
    /// The head is checked before the ids, so a retry of a successful append is refused.
    ChecksTheHeadFirst,
    /// Checking and writing are two transactions, so the check may no longer hold.
    ChecksThenWrites,
    /// A callback that is only called on success.
    TellsOnlyOfSuccess,
    /// An acknowledgement when the write is queued, for speed: it may still be refused, or lost.
    AnswersBeforeItWrites,
    /// A unique index on the name that leaves out the owner.
    SharesNamesAmongOwners,
    /// A unique index on the name as it is spelt.
    ComparesSpellings,
    /// A column for the name that is unique, and read back as the name.
    FoldsNames,
    /// A taken name silently gets a number.
    NumbersNames,
    /// Each process caches headers, and assumes that it is alone.
    CachesHeaders,
    /// Counts taken from the rows, regardless of their role.
    CountsSystemMessages,
    /// A read returns only one page, as database clients often do.
    ReadsOnePage,
    /// A key is moved regardless of where it points.
    BindsBlindly,
    /// An update that hits no row is a success to a database.
    SwallowsNotFound,
    /// Queries by id or key alone, never tested with a second owner.
    ForgetsTheOwner,
    /// Ordered by the primary key, which looks right until an old session is used again.
    ListsByCreation,
    /// A cursor that is only a time skips sessions with the same time.
    PagesByTimeAlone,
    /// A filter that never reached the query.
    IgnoresTheFilter,
    /// `COALESCE(new, old)`, which cannot distinguish "unchanged" from "empty".
    CannotEmpty,
    /// A lease that is only checked by other leases, not by appends.
    IgnoresTheLease,
    /// Seconds mistaken for milliseconds: a lease ends a thousand times too late.
    MistakesTheUnit,
    /// Anyone can release a lease.
    LetsAnyoneGiveBack,
    /// The fence is sent with an append, and not checked.
    ForgetsTheFence,
    /// Blobs are found by their hash alone, regardless of their session.
    SharesBlobs,
    /// Blobs stay when their session is deleted, and belong to the next one with its id.
    LeavesBlobsBehind,
    /// The usage of the original session is charged to its copy as well.
    CountsCopies,
    /// A lease is taken in a transaction of its own, before the append that asks for it.
    LeasesInTwoSteps,
    /// An append takes the lease from its holder, and the position as well.
    TakesFromAnyone,
    /// A lease that an append should release is left to expire.
    KeepsTheLease,
    /// A lease is released before the append is known to succeed.
    GivesBackFirst,
    /// A repeated append is answered from the log, and its lease change is ignored.
    ForgetsTheLeaseOfARepeat,
    /// The fence is stored in the lease and restarts with each one.
    RestartsTheFence,
    /// No cascade: the row goes, its keys and its place in the search index stay.
    DeletesTheRowAlone,
    /// The trash is emptied according to a stale list.
    ErasesTheRestored,
    /// An index that is updated after a search instead of before it.
    SearchLags,
    /// Words are joined with `OR`, to find more.
    SearchesForAnyWord,
    /// The quotes of a phrase are thrown away.
    SearchTakesPhrasesForWords,
    /// A later tool result is ranked before a message.
    SearchRanksByTime,
    /// An index that is updated on deletion, but not when a session moves to the trash.
    SearchShowsTheTrash,
    /// An id is compared as it is printed, with hyphens.
    PrefixesWithHyphens,
    /// A check with a wrong idea of the search index repairs what is intact.
    FindsFaultWithTheHealthy,
    /// Times in whole seconds, as old databases keep them.
    RoundsTimes,
    /// A column that was added to the table and not to the insert.
    ForgetsAField,
    /// The previous clear is not stored with a clear.
    ForgetsAnOption,
    /// Ids are compared before the transaction and have no unique index, so that a retry that
    /// overtakes its first attempt is stored twice.
    ChecksIdsThenWrites,
    /// A batch is checked as a whole, and then written entry by entry.
    InterleavesBatches,
    /// The query of the list differs from that of a single session, and omits a column.
    ListsWithoutKeys,
    /// The first page is filtered, not the list, and a page that is not full is taken for the last.
    FiltersThePage,
    /// A trigger that sets the time of the last change, for any change.
    TouchesOnUpdate,
    /// A header is one value that is read, changed and written back as a whole.
    RewritesHeaders,
    /// An index of names that is updated for new names only.
    KeepsOldNames,
    /// A failed creation is undone by deleting it; the keys it took are not restored.
    UndoesByDeleting,
    /// A unique index on the key that leaves out the owner.
    SharesKeysAmongOwners,
    /// A column, or a file system, that does not distinguish `A` from `a`.
    FoldsCase,
    /// Keys are returned in the order in which they were bound, or in none.
    LeavesKeysUnsorted,
    /// A `WHERE` that is missing from one of the deletes.
    DeletesEveryKey,
    /// Entries stay when their session is deleted, and reappear when its id is reused.
    LeavesEntriesBehind,
    /// Archived sessions are left out of the search as well as of the list.
    SearchSkipsTheArchived,
    /// An index of letters, not of words.
    SearchFindsParts,
    /// Each process keeps what it read until it writes.
    CachesUntilItWrites,
    /// Maintenance that was written when there was one owner.
    OverlooksOwners,
    /// A name is looked up, and taken in another transaction, without a unique index.
    ChecksNamesThenWrites,
    /// Only a lower fence is refused, so a made-up one is always accepted.
    TrustsHigherFences,
    /// A soft delete that only the query of the list respects.
    ForgetsTheTrash,
    /// The keys of a deleted session are gone for good.
    LosesKeysInTheTrash,
    /// A unique index on the name that includes deleted sessions.
    KeepsNamesInTheTrash,
    /// A deleted session is an update of its header, and headers have no lease.
    TrashesWhatIsHeld,
}

/// Each fault with the rules that must fail because of it. Others may fail with them.
pub(crate) const FAULTS: &[(Fault, &[&str])] = &[
    (Fault::CutsLongTexts, &["what_was_appended_is_read_back_the_same"]),
    (
        Fault::NormalizesJson,
        &[
            "what_was_appended_is_read_back_the_same",
            "unknown_blocks_and_entries_are_kept_byte_for_byte",
        ],
    ),
    (
        Fault::CreatesInSteps,
        &["a_session_is_created_whole_or_not_at_all", "rivals_for_one_key_have_one_winner"],
    ),
    (
        Fault::TrustsIds,
        &["creating_the_same_session_again_changes_nothing", "an_id_belongs_to_one_body"],
    ),
    (
        Fault::StoresRepeats,
        &[
            "a_repeated_append_returns_the_first_result",
            "an_id_belongs_to_one_body",
            "nothing_is_lost_or_doubled_when_threads_race",
            "the_same_bytes_are_kept_once",
        ],
    ),
    (Fault::AppendsOneByOne, &["a_batch_is_stored_whole_or_not_at_all"]),
    (
        Fault::ForgetsTheHead,
        &["a_stale_writer_gets_a_conflict", "rivals_for_one_place_have_one_winner"],
    ),
    (
        Fault::ChecksTheHeadFirst,
        &["a_repeated_append_returns_the_first_result", "a_lease_keeps_others_from_writing"],
    ),
    (
        Fault::ChecksThenWrites,
        &[
            "rivals_for_one_place_have_one_winner",
            "nothing_is_lost_or_doubled_when_threads_race",
            "rivals_for_one_key_have_one_winner",
            "rivals_for_one_key_move_it_once",
            "rivals_for_one_lease_have_one_winner",
        ],
    ),
    (Fault::TellsOnlyOfSuccess, &["the_callback_of_an_append_gets_its_result"]),
    (Fault::AnswersBeforeItWrites, &["the_callback_of_an_append_gets_its_result"]),
    (Fault::SharesNamesAmongOwners, &["a_name_is_taken_once_per_owner"]),
    (Fault::ComparesSpellings, &["a_name_is_kept_as_it_was_given_and_taken_in_every_spelling"]),
    (Fault::FoldsNames, &["a_name_is_kept_as_it_was_given_and_taken_in_every_spelling"]),
    (Fault::NumbersNames, &["a_name_is_taken_once_per_owner", "an_update_changes_what_it_names"]),
    (Fault::CachesHeaders, &["two_stores_on_one_place_see_the_same_log"]),
    (Fault::CountsSystemMessages, &["counts_are_those_of_the_entries"]),
    (Fault::ReadsOnePage, &["reading_gives_what_exists"]),
    (
        Fault::BindsBlindly,
        &[
            "a_session_is_created_whole_or_not_at_all",
            "a_key_moves_only_from_where_it_was_seen",
            "rivals_for_one_key_have_one_winner",
        ],
    ),
    (
        Fault::SwallowsNotFound,
        &[
            "a_key_points_at_sessions_that_exist",
            "nobody_sees_another_owner",
            "a_deleted_session_is_gone_with_its_keys",
        ],
    ),
    (
        Fault::ForgetsTheOwner,
        &["nobody_sees_another_owner", "search_keeps_to_one_owner_and_needs_a_word"],
    ),
    (Fault::ListsByCreation, &["a_list_is_newest_first_and_pages_without_gaps"]),
    (Fault::PagesByTimeAlone, &["a_list_is_newest_first_and_pages_without_gaps"]),
    (
        Fault::IgnoresTheFilter,
        &[
            "a_list_shows_what_the_filter_says",
            "a_chain_is_listed_by_its_newest_member",
            "what_was_thrown_away_is_listed_by_itself",
            "the_trash_is_emptied_of_what_is_old",
            "a_chain_whose_end_is_in_the_trash_ends_before_it",
        ],
    ),
    (Fault::CannotEmpty, &["an_update_changes_what_it_names"]),
    (Fault::IgnoresTheLease, &["a_lease_keeps_others_from_writing"]),
    (Fault::MistakesTheUnit, &["a_lease_ends_with_its_time_or_when_given_back"]),
    (Fault::LetsAnyoneGiveBack, &["no_lease_lasts_for_ever_and_only_its_holder_ends_it"]),
    (Fault::ForgetsTheFence, &["an_old_fence_is_refused"]),
    (Fault::SharesBlobs, &["a_blob_belongs_to_one_session"]),
    (Fault::LeavesBlobsBehind, &["a_blob_belongs_to_one_session"]),
    (Fault::CountsCopies, &["usage_is_that_of_the_replies_since_the_session_was_started"]),
    (Fault::LeasesInTwoSteps, &["a_refused_append_takes_no_lease"]),
    (
        Fault::TakesFromAnyone,
        &["the_first_append_takes_the_lease", "rivals_for_one_turn_have_one_winner"],
    ),
    (Fault::KeepsTheLease, &["the_last_append_gives_the_lease_back"]),
    (Fault::GivesBackFirst, &["the_last_append_gives_the_lease_back"]),
    (Fault::ForgetsTheLeaseOfARepeat, &["a_repeated_append_takes_or_gives_back_the_lease_again"]),
    (
        Fault::RestartsTheFence,
        &[
            "a_lease_ends_with_its_time_or_when_given_back",
            "an_old_fence_is_refused",
            "rivals_for_one_lease_have_one_winner",
        ],
    ),
    (Fault::DeletesTheRowAlone, &["a_deleted_session_is_gone_with_its_keys"]),
    (Fault::ErasesTheRestored, &["a_session_restored_meanwhile_is_not_erased"]),
    (Fault::SearchLags, &["search_finds_all_that_was_acknowledged"]),
    (Fault::SearchesForAnyWord, &["search_finds_all_that_was_acknowledged"]),
    (Fault::SearchTakesPhrasesForWords, &["search_means_the_same_in_every_store"]),
    (
        Fault::SearchRanksByTime,
        &["what_was_said_ranks_above_what_tools_answered_and_the_latest_first"],
    ),
    (Fault::SearchShowsTheTrash, &["search_keeps_to_a_workspace_and_out_of_the_trash"]),
    (Fault::PrefixesWithHyphens, &["an_id_prefix_finds_its_sessions"]),
    (Fault::FindsFaultWithTheHealthy, &["a_healthy_store_has_nothing_to_repair"]),
    (Fault::RoundsTimes, &["what_was_appended_is_read_back_the_same"]),
    (Fault::ForgetsAField, &["a_header_is_kept_whole"]),
    (Fault::ForgetsAnOption, &["what_was_appended_is_read_back_the_same"]),
    (Fault::ChecksIdsThenWrites, &["a_retry_that_overtakes_its_first_try_is_stored_once"]),
    (Fault::InterleavesBatches, &["nothing_is_lost_or_doubled_when_threads_race"]),
    (Fault::ListsWithoutKeys, &["a_list_is_newest_first_and_pages_without_gaps"]),
    (Fault::FiltersThePage, &["a_list_shows_what_the_filter_says"]),
    (Fault::TouchesOnUpdate, &["an_update_changes_what_it_names"]),
    (Fault::RewritesHeaders, &["concurrent_updates_of_different_fields_are_all_kept"]),
    (
        Fault::KeepsOldNames,
        &["an_update_changes_what_it_names", "a_deleted_session_is_gone_with_its_keys"],
    ),
    (Fault::UndoesByDeleting, &["a_session_is_created_whole_or_not_at_all"]),
    (Fault::SharesKeysAmongOwners, &["nobody_sees_another_owner"]),
    (Fault::FoldsCase, &["a_key_moves_only_from_where_it_was_seen"]),
    (Fault::LeavesKeysUnsorted, &["a_key_moves_only_from_where_it_was_seen"]),
    (Fault::DeletesEveryKey, &["a_deleted_session_is_gone_with_its_keys"]),
    (Fault::LeavesEntriesBehind, &["a_deleted_session_is_gone_with_its_keys"]),
    (Fault::SearchSkipsTheArchived, &["search_finds_all_that_was_acknowledged"]),
    (Fault::SearchFindsParts, &["search_finds_all_that_was_acknowledged"]),
    (Fault::CachesUntilItWrites, &["two_stores_on_one_place_see_the_same_log"]),
    (Fault::OverlooksOwners, &["a_healthy_store_has_nothing_to_repair"]),
    (Fault::ChecksNamesThenWrites, &["rivals_for_one_name_have_one_winner"]),
    (Fault::TrustsHigherFences, &["an_old_fence_is_refused"]),
    (Fault::ForgetsTheTrash, &["a_session_in_the_trash_is_not_found"]),
    (Fault::LosesKeysInTheTrash, &["what_comes_back_from_the_trash_is_whole"]),
    (Fault::KeepsNamesInTheTrash, &["names_and_keys_in_the_trash_are_free"]),
    (Fault::TrashesWhatIsHeld, &["a_session_in_a_turn_does_not_go_to_the_trash"]),
];
