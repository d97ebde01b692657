//! The suite that every engine passes. A difference between two engines is a bug.
//!
//! A test binary implements [`Backend`] for each engine and calls
//! [`conformance_cases!`](crate::conformance_cases) with it. The call declares each case that the
//! engine can't run, with the reason. A case that needs a missing ability fails if it is not
//! declared.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a suite is test code"
)]
#![expect(clippy::missing_panics_doc, reason = "cases fail by panicking")]

pub mod claims;
pub mod faults;
pub mod feed;
pub mod fences;
pub mod gate;
pub mod hooks;
pub mod hot;
pub mod plans;
pub mod reads;
pub mod rows;
pub mod sinks;
pub mod skipped;
pub mod sweep;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use storage_config::SqlSettings;
use storage_model::{
    Bytes, Cell, DatabaseId, Epoch, Field, Intercept, Owner, Partition, Row, Stamp, Version,
};

use crate::{Batch, Cold, Fence, Loaded, Opening, Raise, Raised, open};

/// A fresh, empty database of one engine.
#[async_trait]
pub trait Backend: Send + Sync + Debug {
    /// The settings to open it.
    fn settings(&self) -> SqlSettings;

    /// Whether it outlives its store, and several stores can share it.
    fn is_shared(&self) -> bool;

    /// Makes the database reject every row of the field "poison" from now on, with an error of its
    /// own. False if this backend can't do so.
    async fn poison(&self) -> bool;

    /// Runs a statement beside the store. False if this backend can't do so.
    async fn sql(&self, statement: &str) -> bool;
}

/// One case's database and the store on it.
#[derive(Debug)]
pub struct Harness {
    /// The store.
    pub store: Cold,
    /// The database.
    pub backend: Box<dyn Backend>,
    /// The database's identity.
    pub database: DatabaseId,
}

impl Harness {
    /// Opens a store on a fresh database.
    pub async fn new(backend: Box<dyn Backend>) -> Self {
        let store = open(&backend.settings()).await.unwrap();
        let database = store.partitions.partitions(&[Partition(0)]).await.unwrap()[0].database;
        Self {
            store,
            backend,
            database,
        }
    }

    /// The case needs an ability of the backend.
    ///
    /// # Panics
    /// The backend lacks the ability. Then the engine's test must declare the case as skipped.
    pub fn needs(&self, ability: &str, has: bool) {
        assert!(
            has,
            "{:?} can't {ability}: declare the case as skipped, with the reason",
            self.backend
        );
    }

    /// The case needs a database that outlives its store.
    ///
    /// # Panics
    /// As [`Harness::needs`].
    pub fn shares(&self) {
        self.needs("share its database", self.backend.is_shared());
    }

    /// Another store on the same database, through an intercept.
    pub async fn another(&self, intercept: Arc<dyn Intercept>) -> Cold {
        Opening::new(&self.backend.settings())
            .through(intercept)
            .open()
            .await
            .unwrap()
    }

    /// Gives these partitions records of epoch 1, as a first contact does.
    pub async fn init(&self, partitions: &[u32]) {
        let raises: Vec<_> = partitions
            .iter()
            .map(|&p| Raise::by_one(Partition(p), Epoch(0)))
            .collect();
        for Raised { record, moved } in self.store.partitions.raise(&raises).await.unwrap() {
            assert_eq!(
                (record.epoch, record.last_version, moved),
                (Epoch(1), Version::ZERO, true)
            );
        }
    }

    /// Lands rows under a fence of partition 0 that matches any record.
    pub async fn land(&self, rows: Vec<Row>) {
        land_on(&self.store, 0, rows).await.unwrap();
    }

    /// All rows of an owner, by field.
    pub async fn rows(&self, owner: &Owner) -> Vec<Row> {
        let loaded = self
            .store
            .rows
            .load(std::slice::from_ref(owner), usize::MAX)
            .await
            .unwrap();
        sorted(loaded.into_iter().next().expect("one owner"))
    }
}

/// Lands rows under a fence that matches the partition's present record.
pub async fn land_on(store: &Cold, partition: u32, rows: Vec<Row>) -> Result<(), crate::LandError> {
    let record = store.partitions.partitions(&[Partition(partition)]).await?[0];
    let reaches = rows.iter().map(|row| row.version).max().unwrap_or_default();
    let fence = Fence {
        partition: record.partition,
        epoch: record.epoch,
        stamp: record.stamp,
        landed: record.last_version,
        reaches,
        database: None,
    };
    store
        .landing
        .land(&Batch {
            fences: vec![fence],
            rows,
            ..Batch::default()
        })
        .await
}

/// A fence by numbers.
pub fn fence(partition: u32, epoch: u64, landed: u64, reaches: u64) -> Fence {
    Fence {
        partition: Partition(partition),
        epoch: Epoch(epoch),
        stamp: Stamp::NONE,
        landed: version(landed),
        reaches: version(reaches),
        database: None,
    }
}

/// An owner of the suite's world.
pub fn owner(id: &str) -> Owner {
    Owner::new("game", "eu", "player", id).unwrap()
}

/// A field.
pub fn field(name: &str) -> Field {
    Field::new(name).unwrap()
}

/// A version.
pub fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

/// A live row.
pub fn live(owner: &Owner, name: &str, value: impl Into<Bytes>, number: u64) -> Row {
    Row {
        owner: owner.clone(),
        field: field(name),
        cell: Cell::Live(value.into()),
        version: version(number),
    }
}

/// The rows by field. All rows must be there.
pub fn sorted(loaded: Loaded) -> Vec<Row> {
    assert!(loaded.complete);
    let mut rows = loaded.rows;
    rows.sort_by(|a, b| a.field.cmp(&b.field));
    rows
}

/// Lists all cases once. Makes a test of each case in a module `engine`.
///
/// `harness` is an expression of type [`Harness`], in an async context. It is evaluated for each
/// test. `skipped` names each case that the engine can't run, with the reason.
#[macro_export]
macro_rules! conformance_cases {
    ($engine:ident, $harness:expr, skipped: { $($skipped:ident: $reason:expr,)* }) => {
        $crate::conformance_cases! { @list $engine, $harness,
            [$((stringify!($skipped), $reason)),*],
            rows {
                an_older_row_never_replaces_a_newer_one
                a_row_of_the_same_version_is_ignored
                value_state_and_version_change_together
                of_two_rows_of_one_field_the_newer_counts
                keys_are_exact_to_the_byte
                any_bytes_of_any_size_come_back
                removed_and_purged_fields_stay_as_rows
                a_batch_of_a_thousand_rows_lands_whole
            }
            fences {
                a_matching_fence_raises_the_landed_version
                a_fence_that_changes_nothing_matches_too
                a_moved_record_fences_the_whole_batch
                a_fence_of_another_database_keeps_the_whole_batch_out
                a_database_that_goes_on_keeps_its_identity
                a_partition_without_a_record_is_fenced
                an_epoch_jumps_above_the_one_that_is_asked_for
                the_epoch_is_raised_only_from_the_one_seen
                a_record_tells_in_which_epoch_something_landed_last
                many_partitions_are_raised_in_one_call
                no_landing_of_an_earlier_epoch_commits_after_a_raise
                raising_waits_for_a_landing_under_way
                batches_of_the_same_partitions_follow_each_other
                batches_of_the_same_rows_do_not_deadlock
                partition_count_and_identity_are_fixed_once
                a_hot_tier_takes_over_only_from_the_one_it_saw
                a_hot_tier_with_a_long_address_takes_over
                a_take_over_ends_the_landings_of_the_hot_tier_before_it
            }
            hot {
                a_raise_gives_the_partition_to_a_hot_tier
                a_fence_of_another_stamp_does_not_match
                a_raise_of_another_record_changes_nothing
                raises_with_a_reach_are_made_together_or_not_at_all
                raises_of_several_hot_tiers_are_told_once
                a_hot_tier_that_is_used_keeps_its_partitions
                a_touch_tells_that_a_hot_tier_is_used
                a_blank_hot_tier_waits_for_one_that_is_used
            }
            feed {
                events_come_back_in_their_order_as_they_were_added
                events_are_added_only_behind_the_end_that_was_read
                a_lead_lasts_until_its_note_has_landed
                hundreds_of_events_and_leads_land_together
                old_events_are_dropped_from_the_beginning
            }
            sinks {
                a_sink_has_a_position_of_its_own_in_each_partition
                the_position_of_a_sink_never_moves_back
                refused_events_are_parked_with_their_reasons
            }
            hooks {
                hooks_are_listed_with_their_changes
                nothing_lands_without_a_needed_hook
                nothing_lands_by_earlier_definitions
                a_change_of_definitions_ends_the_landings_before_it
                a_change_of_definitions_creates_missing_records
                a_change_of_definitions_waits_for_a_landing_under_way
                a_hook_that_can_not_be_defined_changes_nothing
            }
            sweep {
                purged_rows_are_found_page_by_page
                a_sweep_deletes_purged_rows_alone
                a_sweep_under_another_record_deletes_nothing
            }
            claims {
                a_plan_has_the_next_number_and_its_ranges_follow_each_other
                services_and_data_centres_do_not_see_each_others_shards
                names_come_back_as_they_were_given
                the_greatest_plan_is_added
                of_many_claimers_of_one_shard_one_wins
                as_many_claimers_as_shards_get_one_each
                a_claim_needs_the_token_that_was_seen
                a_claim_needs_the_beat_that_was_seen
                a_shard_whose_beat_stands_still_is_taken
                a_renewal_by_another_token_does_nothing
                a_release_by_another_token_does_nothing
                a_released_shard_is_claimed_at_once
                changes_of_the_holder_are_counted
                beats_go_on_behind_the_greatest_number
                a_plan_is_added_as_a_whole_or_not_at_all
                a_plan_that_is_being_added_is_not_seen
                plans_that_are_added_at_once_have_numbers_of_their_own
                two_plans_of_one_number_do_not_become_one
                a_dropped_plan_leaves_the_others
                a_renewal_of_a_dropped_shard_fails
                a_shard_of_a_dropped_plan_is_not_claimed_in_a_later_one
                a_lost_answer_of_a_claim_is_found_in_the_list
                a_shard_that_no_version_writes_is_unreadable
                a_database_in_use_gets_its_shards_by_a_migration
            }
            reads {
                items_come_in_pages_from_either_end
                owners_are_loaded_in_the_order_asked
                an_owner_with_too_many_rows_comes_back_empty
                named_fields_are_loaded_alone
                the_newest_row_of_an_owner_is_found_whatever_it_holds
                pages_of_owners_leave_out_those_without_a_live_row
                pages_go_across_worlds
                nothing_asked_is_nothing_answered
            }
            faults {
                one_refused_row_refuses_the_batch_and_nothing_is_written
                a_value_above_the_limit_is_refused_without_being_sent
                a_lost_statement_writes_nothing_and_the_next_call_works
                a_lost_reply_of_the_commit_is_harmless_to_repeat
                a_lock_wait_leaves_nothing_of_the_batch
                a_storm_of_cut_calls_leaves_the_store_alive
                reopening_keeps_everything
                the_schema_is_made_once_and_a_newer_one_is_refused
                tables_that_nobody_has_used_are_completed_and_others_are_not
                a_store_for_layers_makes_no_tables
                a_closed_store_says_so
            }
        }
    };
    (
        @list $engine:ident, $harness:expr, $skipped:expr,
        $($module:ident { $($case:ident)* })*
    ) => {
        mod $engine {
            use super::*;

            const CASES: &[&str] = &[$($(stringify!($case)),*),*];
            const SKIPPED: &[(&str, &str)] = &$skipped;

            #[test]
            fn every_skipped_case_has_a_reason() {
                $crate::conformance::skipped::table(stringify!($engine), CASES, SKIPPED);
            }

            $($(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    if SKIPPED.iter().any(|(case, _)| *case == stringify!($case)) {
                        return;
                    }
                    let harness = $harness;
                    $crate::conformance::$module::$case(&harness).await;
                }
            )*)*
        }
    };
}
