//! The suite that every engine of [`Hot`] passes.
//!
//! A case is a function over a [`Harness`]. [`hot_conformance!`](crate::hot_conformance) makes one
//! named test of each case. A failed case panics.
//!
//! Not every engine's rig has a clock that tests move, or a server that restarts. A case that needs
//! an ability which the rig lacks fails, unless the engine's test file declares it as skipped with
//! a reason ([`Skip`]). One test prints the table of all cases.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a suite of tests: its failures are panics"
)]

pub mod conditions;
pub mod counters;
pub mod errors;
pub mod eviction;
mod harness;
pub mod holders;
pub mod landing;
pub mod loads;
pub mod locks;
pub mod many_rows;
pub mod names;
pub mod notes;
pub mod once;
pub mod openings;
pub mod partitions;
pub mod pins;
pub mod probation;
pub mod removal;
pub mod sessions;
pub mod sizes;
mod skips;
pub mod transactions;
pub mod whole;
pub mod writes;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{Owner, Partition};

pub use harness::{Harness, field, landed_rows};
pub use skips::{Skip, is_skipped, print_table};

use crate::Hot;

/// How long a hash has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// There is no hash.
    Gone,
    /// It has no time to live.
    Lasting,
    /// It ends after this.
    Ends(Duration),
}

/// The longest time that a rig waits instead of moving a clock.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// One fresh, empty store of the engine under test, with four partitions, and access from outside.
///
/// A method with a default is an ability that a rig can lack. Its default fails the case.
#[async_trait]
pub trait Rig: Send + Sync + fmt::Debug {
    /// The store.
    fn store(&self) -> &Hot;
    /// How long an owner's hash has left.
    async fn life(&self, owner: &Owner) -> Life;
    /// Deletes an owner's hash, whether its data has landed or not.
    async fn lose(&self, owner: &Owner);
    /// Drops an owner's marker, as an eviction might.
    async fn lose_marker(&self, owner: &Owner);
    /// Moves the hot tier's time forward. The default waits for a short time to pass.
    async fn advance(&self, by: Duration) {
        if by > WAIT_MAX {
            lacks("advance");
        }
        let end = self.store().tier.time().await.unwrap().plus(by);
        while self.store().tier.time().await.unwrap() <= end {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    /// Gives the store another incarnation, all data kept.
    async fn reincarnate(&self) {
        lacks("reincarnate");
    }
    /// Remembers the store's data. The next [`Rig::rewind`] brings it back.
    async fn save(&self) {
        lacks("save");
    }
    /// Brings the saved data back, under another incarnation.
    async fn rewind(&self) {
        lacks("rewind");
    }
    /// Forgets everything, as FLUSHALL does.
    async fn wipe(&self) {
        lacks("wipe");
    }
    /// Brings the store to its memory limit, with nothing left to evict.
    async fn exhaust(&self) {
        lacks("exhaust");
    }
    /// Puts an entry of this name and version 1 into a dirty map.
    async fn foreign_mark(&self, _partition: Partition, _raw: &[u8]) {
        lacks("foreign_mark");
    }
}

fn lacks(ability: &str) -> ! {
    panic!("this rig can't `{ability}`: the engine's test file must declare the case as skipped")
}

/// Makes one test of each case of the suite, in a module of this name.
///
/// The second argument is an expression of type `impl Future<Output = Box<dyn Rig>>`. It is
/// evaluated for each test. The third one, a `&[Skip]`, declares the cases that the engine can't
/// run. The calling package needs tokio with `macros` and `rt`.
#[macro_export]
macro_rules! hot_conformance {
    ($engine:ident, $rig:expr) => {
        $crate::hot_conformance!($engine, $rig, &[]);
    };
    ($engine:ident, $rig:expr, $skips:expr) => {
        mod $engine {
            use super::*;
            $crate::hot_conformance! { @cases $engine, $rig, $skips;
                writes: [
                    what_was_written_is_read_back_field_by_field_and_whole,
                    an_owner_that_was_never_written_has_no_header,
                    cells_come_in_the_order_asked_and_all_by_name,
                    a_write_marks_its_fields_in_the_same_step,
                    fields_of_several_writes_join_one_mark,
                    only_a_write_that_makes_a_hash_raises_the_marker,
                    versions_grow_with_every_write_of_a_partition,
                    versions_are_at_least_the_time,
                    a_batch_answers_in_order_and_one_refusal_does_not_touch_the_others,
                    a_blind_write_of_an_unknown_owner_is_not_complete,
                    a_set_of_the_same_value_is_a_write_too,
                ];
                counters: [
                    incr_counts_from_what_is_there_and_from_nothing,
                    incr_is_exact_to_the_last_bit,
                    incr_refuses_what_is_not_a_canonical_integer,
                    an_overflow_of_any_field_changes_nothing,
                    incr_after_remove_starts_at_zero,
                ];
                conditions: [
                    a_version_condition_holds_on_a_hot_owner,
                    a_version_condition_on_an_evicted_owner_needs_a_load,
                    a_version_condition_on_an_unknown_owner_needs_a_load,
                    a_version_condition_on_an_absent_owner_means_zero,
                    an_absent_condition_refuses_live_fields_and_accepts_tombstones,
                    an_absent_condition_on_an_unknown_field_needs_a_load,
                    every_refusal_at_every_position_changes_nothing,
                ];
                removal: [
                    remove_keeps_the_last_value_as_a_tombstone,
                    restore_brings_a_tombstone_back,
                    what_has_nothing_to_do_writes_nothing,
                    purge_is_refused_until_the_owner_has_landed,
                    purge_gives_the_value_up_and_the_owner_a_new_version,
                    a_load_from_before_a_purge_brings_nothing_back,
                    a_set_clears_a_tombstone,
                    removal_of_an_unknown_field_needs_a_load,
                ];
                many_rows: [
                    an_owner_of_many_rows_is_loaded_as_a_whole,
                    many_rows_join_a_hash_of_some_fields,
                    a_write_is_applied_to_many_loaded_rows,
                    many_rows_are_refused_after_another_change,
                    many_newer_rows_replace_a_suspect_hash_as_a_whole,
                    many_rows_in_place_of_a_lost_hash_are_marked_as_a_whole,
                ];
                loads: [
                    a_fill_of_a_cold_owner_is_kept_as_clean_data,
                    a_fill_keeps_what_the_hash_holds,
                    a_fill_is_refused_after_a_write_of_a_cold_owner,
                    a_fill_is_refused_after_write_landing_and_eviction,
                    a_fill_observed_beside_unlanded_data_is_refused_once_that_is_gone,
                    a_fill_is_refused_under_another_epoch,
                    a_load_is_refused_if_the_hash_came_or_went_since,
                    a_fill_numbers_the_hash_that_it_makes,
                    a_fill_into_the_same_hash_is_accepted,
                    a_partial_fill_does_not_make_a_hash_complete,
                    an_empty_answer_is_remembered_until_the_first_write,
                    an_empty_answer_runs_out,
                    an_owner_with_a_marker_and_no_row_becomes_an_empty_complete_hash,
                    an_observation_without_a_marker_sets_one,
                    a_load_is_refused_once_its_marker_has_gone,
                    a_load_beside_a_hash_is_refused_once_its_marker_has_gone,
                    a_mutation_with_a_load_is_refused_once_the_marker_has_gone,
                    a_remembered_absence_proves_a_load_only_while_it_is_remembered,
                    the_marker_of_a_hash_runs_out,
                    a_mutation_that_needs_a_load_says_what_it_observed,
                    a_mutation_and_its_load_are_one_step,
                    a_mutation_with_a_load_that_is_not_proved_changes_nothing,
                    a_partial_load_tells_of_every_field_of_its_mutation,
                    a_refused_mutation_does_not_keep_its_load,
                    a_blind_write_goes_through_with_a_load_that_is_not_proved,
                    a_hash_that_was_rewound_is_compared_with_its_rows,
                ];
                once: [
                    a_repeat_answers_what_the_first_did_after_other_writes,
                    a_repeat_is_recognised_after_eviction,
                    a_mutation_after_its_deadline_is_refused,
                    a_copy_from_before_an_adoption_is_refused_unless_its_id_is_known,
                    a_deadline_further_ahead_than_ids_are_kept_is_refused,
                    a_copy_that_was_held_up_changes_nothing_after_its_repeat_had_nothing_to_do,
                    a_repeat_in_one_batch_is_applied_once,
                    a_refused_mutation_may_be_sent_again,
                ];
                landing: [
                    nothing_marked_is_an_empty_snapshot,
                    a_snapshot_holds_what_was_marked_and_excludes_later_writes,
                    a_leftover_snapshot_is_never_overwritten,
                    settle_clears_only_marks_of_the_same_snapshot,
                    settle_needs_the_lock_and_the_epoch,
                    settle_without_a_lock_leaves_marks,
                    settle_raises_landed,
                    the_last_mark_settled_gives_a_time_to_live,
                    a_mark_in_any_map_keeps_the_hash,
                    collect_returns_value_and_version_together,
                    a_hash_that_is_made_anew_says_when_it_was_born_and_the_old_mark_stays_apart,
                    marks_of_a_hash_that_is_gone_stay_until_they_are_told,
                    a_hash_that_is_made_anew_puts_the_mark_in_the_snapshot_aside,
                    a_hash_that_is_made_anew_clears_no_error_mark_of_the_one_before,
                    a_hash_that_is_made_while_no_map_names_its_owner_has_no_birth,
                    collect_returns_tombstones_and_purged_fields,
                    collect_of_an_evicted_owner_has_no_header,
                    a_settle_twice_is_harmless,
                    a_snapshot_needs_the_lock,
                    peek_tells_sizes_age_and_holder,
                ];
                whole: [
                    a_later_mark_of_another_field_makes_a_read_partial,
                    a_mark_of_an_unknown_snapshot_makes_a_read_partial,
                    an_owner_of_the_error_map_is_always_read_again,
                    a_mark_to_be_requeued_makes_a_read_partial,
                    a_row_clears_only_error_marks_since_the_birth_of_its_hash,
                    an_owner_is_read_whole_without_its_partners,
                    newer_rows_replace_a_hash_from_before_a_rewind_as_a_whole,
                    newer_rows_leave_nothing_of_an_unlanded_hash_but_its_mark,
                    a_hash_that_wins_over_its_rows_is_marked_where_it_differs,
                    a_write_marks_where_a_hash_differs_from_its_rows,
                    a_hash_that_equals_its_rows_is_not_marked,
                    a_field_that_lands_anyway_is_not_marked_again,
                    versions_that_meet_in_two_histories_get_another_one,
                    some_of_the_rows_change_nothing_of_a_suspect_hash,
                    at_the_memory_limit_a_comparison_is_answered_and_not_kept,
                    a_rejected_field_of_a_torn_owner_outlives_newer_rows,
                    a_rejected_field_of_a_whole_owner_goes_with_its_hash,
                    a_hash_in_place_of_a_lost_one_is_marked_as_a_whole,
                    a_lost_owner_without_rows_is_marked_as_a_whole,
                    a_lost_owner_that_is_loaded_in_part_is_marked_where_it_is_known,
                ];
                transactions: [
                    a_transaction_changes_all_of_its_owners_with_one_version,
                    a_transaction_that_one_owner_refuses_changes_nothing,
                    floors_ceilings_and_expected_values_hold_for_one_owner,
                    a_repeat_of_a_transaction_answers_for_each_owner_what_the_first_did,
                    a_transaction_takes_the_loads_of_its_owners,
                    owners_of_a_transaction_are_collected_together,
                    links_end_when_the_marks_have_landed,
                    partners_stay_in_the_error_map,
                    partners_stay_on_probation,
                    links_are_followed_from_mark_to_mark,
                    a_partner_without_a_hash_must_be_named,
                    an_owner_has_any_number_of_partners,
                    any_number_of_partners_stays_on_probation,
                    any_number_of_partners_stays_in_the_error_map,
                    linked_owners_above_the_bound_are_not_read,
                    partners_that_landed_apart_are_left,
                    rejected_owners_are_torn_on_request,
                ];
                notes: [
                    a_write_leaves_its_note_in_the_same_step,
                    a_note_tells_the_version_before_its_write_if_it_is_known,
                    writes_of_one_call_leave_their_notes_in_order,
                    owners_of_a_transaction_leave_their_own_notes,
                    a_write_that_changes_nothing_leaves_no_note,
                    a_repeat_answers_the_place_of_the_first_note,
                    at_the_memory_limit_a_note_is_refused_with_its_write,
                    notes_are_read_in_pages_of_a_bounded_size,
                    the_numbers_of_notes_go_on_in_the_next_epoch,
                    a_number_is_left_out_if_the_hot_tier_is_older_than_the_feed,
                    landed_notes_are_dropped_and_numbers_go_on,
                    notes_are_dropped_only_with_the_lock_and_in_the_epoch,
                    a_lost_lead_becomes_an_event,
                    the_marks_of_a_note_are_found_in_either_map,
                ];
                probation: [
                    a_landed_mark_on_probation_keeps_its_hash,
                    a_mark_that_lands_again_on_probation_keeps_the_greater_version,
                    the_marks_of_a_window_that_left_go_and_the_hash_may_expire,
                    a_window_is_never_overwritten_by_the_next,
                    expire_needs_the_lock_the_epoch_and_the_window,
                    a_change_of_the_epoch_makes_marks_on_probation_live_again,
                    a_mark_that_becomes_live_again_never_lowers_a_newer_one,
                    an_error_mark_whose_row_was_committed_goes_on_probation,
                    what_landed_of_a_refused_mark_goes_on_probation,
                    eviction_and_purge_wait_for_the_end_of_the_probation,
                    marks_on_probation_of_a_hash_that_was_lost_are_put_aside,
                    the_record_names_the_database_that_is_landed_to,
                    thousands_of_marks_go_on_and_off_probation,
                ];
                sizes: [
                    a_scan_finds_one_mark,
                    a_scan_finds_512_marks_while_they_are_settled,
                    a_scan_finds_513_marks_while_they_are_settled,
                    a_scan_finds_5000_marks_while_they_are_settled,
                    a_value_above_64_kib_is_kept_byte_for_byte,
                    a_thousand_fields_change_in_one_call,
                    a_long_mark_takes_no_further_field_until_it_has_landed,
                    many_owners_are_read_and_written_in_one_call,
                ];
                errors: [
                    reject_moves_a_mark_to_the_error_map_field_by_field,
                    attempts_are_counted_and_delays_double,
                    the_greater_version_stays_in_the_error_map,
                    a_field_that_was_landed_meanwhile_is_not_rejected_again,
                    an_entry_that_another_worker_settled_is_not_rejected,
                    entries_of_a_snapshot_that_is_gone_are_not_rejected,
                    a_newer_landing_clears_an_error_mark_and_an_older_does_not,
                    a_flush_clears_error_marks_without_the_lock,
                    reject_needs_the_lock_and_the_epoch,
                    a_page_of_errors_goes_on_where_it_ended,
                    an_unreadable_mark_is_rejected_under_its_own_name,
                ];
                eviction: [
                    a_clean_hash_is_evicted_at_once_and_its_marker_stays,
                    a_dirty_hash_is_evicted_when_it_has_landed,
                    every_map_names_its_owners,
                    an_eviction_waits_until_no_map_names_the_owner,
                    refresh_ttl_never_gives_a_dirty_hash_a_time_to_live,
                    refresh_ttl_gives_a_clean_hash_the_full_time_again,
                    a_clean_hash_ends_and_a_dirty_one_stays,
                    at_the_memory_limit_writes_are_refused_and_landing_goes_on,
                ];
                locks: [
                    a_lock_excludes_others_until_it_is_given_back,
                    a_lock_is_taken_again_by_its_own_token,
                    a_lock_is_only_given_back_and_renewed_by_its_token,
                    a_lock_runs_out,
                    a_renewed_lock_lasts_on,
                    workers_are_announced_and_retired,
                    an_announcement_runs_out,
                ];
                partitions: [
                    nothing_works_on_a_partition_without_a_record,
                    adopt_is_a_compare_and_set,
                    adopt_has_a_deadline_and_keeps_its_stamp,
                    adopt_needs_a_greater_epoch,
                    a_first_adoption_starts_at_the_time,
                    a_first_adoption_starts_above_what_has_landed,
                    no_version_is_ever_below_a_landed_one,
                    no_version_is_given_again_after_a_rewind,
                    an_adoption_that_lost_nothing_keeps_the_generation,
                    an_adoption_that_finds_a_rewind_raises_the_generation,
                    an_adoption_that_compares_all_raises_the_generation,
                    an_adoption_gives_a_leftover_snapshot_another_number,
                    a_commit_that_was_not_settled_is_told_from_a_forgotten_one,
                    a_negative_answer_from_before_a_rewind_is_not_believed,
                    another_incarnation_stops_all_that_needs_proof,
                    raise_landed_never_lowers,
                    raise_landed_needs_the_epoch,
                    a_database_is_noted_only_by_who_saw_the_pairing_that_is_there,
                ];
                sessions: [
                    a_session_is_opened_with_the_whole_owner_or_not_at_all,
                    a_lost_answer_to_an_opening_is_asked_for_again,
                    an_owner_that_is_held_takes_no_plain_write,
                    a_former_holder_writes_nothing,
                    a_session_takes_the_place_of_the_one_that_it_names_alone,
                    a_fence_is_told_by_its_token_too,
                    the_last_save_ends_the_session_in_the_same_step,
                    a_holder_whose_beat_stands_still_loses_its_owners_to_whoever_comes,
                    a_holder_that_beats_is_not_gone,
                    a_lapsed_session_goes_on_if_nobody_came,
                    a_holder_hears_who_asks,
                    after_a_change_of_the_epoch_nothing_is_saved_or_opened_before_the_grace_ends,
                    of_two_claims_the_later_session_wins,
                    a_session_that_a_rewind_forgot_is_claimed_and_goes_on_where_it_was,
                    versions_go_on_above_those_that_a_claimed_session_knows,
                    once_the_grace_has_ended_a_forgotten_session_is_not_claimed,
                    what_was_ended_is_not_claimed,
                ];
                openings: [
                    an_owner_that_is_known_to_be_absent_is_opened_as_it_is,
                    a_negative_answer_from_before_a_rewind_opens_nothing,
                    an_owner_without_rows_is_whole_from_the_first_save_on,
                    an_owner_with_a_marker_and_no_row_is_opened_with_an_empty_hash,
                    a_suspect_hash_is_whole_only_with_all_of_its_rows,
                    a_fence_is_above_the_rows_that_its_session_begins_with,
                    at_the_memory_limit_nothing_is_opened_and_sessions_end,
                ];
                pins: [
                    the_hash_of_a_held_owner_stays,
                    a_landing_from_before_the_opening_leaves_the_hash_of_a_held_owner,
                    a_refused_field_that_lands_at_last_leaves_the_hash_of_a_held_owner,
                    an_entry_that_is_rejected_without_a_fault_leaves_the_hash_of_a_held_owner,
                    the_end_of_a_probation_leaves_the_hash_of_a_held_owner,
                    a_fill_leaves_the_hash_of_a_held_owner_lasting,
                    a_session_that_is_claimed_or_lapses_takes_and_gives_a_time_to_live,
                ];
                holders: [
                    a_holder_is_told_of_its_sessions_and_of_no_others,
                    more_sessions_than_one_call_takes_are_listed_lapse_and_are_forgotten,
                    a_lapsed_session_that_is_forgotten_is_lost_for_good,
                    a_session_that_went_on_or_was_taken_is_not_forgotten,
                    who_looks_at_beats_changes_none,
                    a_late_copy_of_a_beat_lowers_nothing,
                    a_holder_that_never_beat_is_missed,
                    a_holder_whose_beat_was_forgotten_is_missed,
                    nobody_is_asked_for_a_session_that_lapsed,
                    who_asks_has_a_name,
                    who_asked_for_a_session_is_forgotten_with_it,
                    another_incarnation_changes_no_session,
                ];
                names: [
                    any_name_is_a_name_of_its_own,
                    owners_whose_joined_names_are_equal_are_different,
                    names_differ_by_case,
                    any_bytes_are_a_value,
                    the_longest_names_are_kept,
                ];
            }
        }
    };
    (@cases $engine:ident, $rig:expr, $skips:expr; $($concept:ident: [$($case:ident),* $(,)?];)*) => {
        #[test]
        fn every_case_runs_or_is_declared_as_skipped_with_a_reason() {
            let cases = [$($(concat!(stringify!($concept), "::", stringify!($case))),*),*];
            $crate::conformance::print_table(stringify!($engine), &cases, $skips);
        }

        $(
            mod $concept {
                #[allow(unused_imports, clippy::allow_attributes, reason = "the rig may be named by a full path")]
                use super::*;
                $(
                    #[tokio::test]
                    async fn $case() {
                        let case = concat!(stringify!($concept), "::", stringify!($case));
                        if $crate::conformance::is_skipped($skips, case) {
                            return;
                        }
                        let harness = $crate::conformance::Harness::new($rig.await).await;
                        $crate::conformance::$concept::$case(&harness).await;
                    }
                )*
            }
        )*
    };
}
