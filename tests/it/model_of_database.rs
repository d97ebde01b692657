//! The simulator's model of the database passes the suite of the cold tier. The cases about
//! settings, schemas and connections are left out, because the model has none of these.

use std::sync::Arc;

use async_trait::async_trait;
use storage_config::SqlSettings;
use storage_sql::ColdStore;
use storage_sql::conformance::{Backend, Harness, faults, fences, reads, rows};
use storage_tests::sim::chance::{Chance, Weather};
use storage_tests::sim::database::tables::Tables;
use storage_tests::sim::database::transaction::Way;
use storage_tests::sim::database::{Database, ModelStore};
use storage_tests::sim::process::Process;

#[derive(Debug)]
struct Modelled(Arc<Database>);

#[async_trait]
impl Backend for Modelled {
    fn settings(&self) -> SqlSettings {
        unreachable!("no case that is listed here opens the database once more")
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn poison(&self) -> bool {
        self.0.ail(|ails| ails.refuses = true);
        true
    }

    async fn sql(&self, _: &str) -> bool {
        false
    }
}

fn modelled() -> Harness {
    let database = Database::new(None);
    let chance = Chance::new(0, false);
    chance.turn(Weather {
        delay_max: 8,
        ..Weather::default()
    });
    let way = Way {
        database: database.clone(),
        chance,
        process: Arc::new(Process::default()),
    };
    let store: Arc<dyn ColdStore> = Arc::new(ModelStore::new(way));
    let id = database.tables(Tables::database);
    Harness {
        store,
        backend: Box::new(Modelled(database)),
        database: id,
    }
}

macro_rules! cases {
    ($($module:ident: $($case:ident)*;)*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                $module::$case(&modelled()).await;
            }
        )*)*
    };
}

cases! {
    rows:
        an_older_row_never_replaces_a_newer_one
        a_row_of_the_same_version_is_ignored
        value_state_and_version_change_together
        of_two_rows_of_one_field_the_newer_counts
        keys_are_exact_to_the_byte
        any_bytes_of_any_size_come_back
        removed_and_purged_fields_stay_as_rows
        a_batch_of_a_thousand_rows_lands_whole;
    fences:
        a_matching_fence_raises_the_landed_version
        a_fence_that_changes_nothing_matches_too
        a_moved_record_fences_the_whole_batch
        a_fence_of_another_database_keeps_the_whole_batch_out
        a_partition_without_a_record_is_fenced
        the_epoch_is_raised_only_from_the_one_seen
        many_partitions_are_raised_in_one_call
        no_landing_of_an_earlier_epoch_commits_after_a_raise
        batches_of_the_same_partitions_follow_each_other
        batches_of_the_same_rows_do_not_deadlock
        partition_count_and_identity_are_fixed_once
        a_hot_tier_takes_over_only_from_the_one_it_saw
        a_hot_tier_with_a_long_address_takes_over
        a_take_over_ends_the_landings_of_the_hot_tier_before_it;
    reads:
        owners_are_loaded_in_the_order_asked
        an_owner_with_too_many_rows_comes_back_empty
        named_fields_are_loaded_alone
        pages_of_owners_leave_out_those_without_a_live_row
        pages_go_across_worlds
        nothing_asked_is_nothing_answered;
    faults:
        one_refused_row_refuses_the_batch_and_nothing_is_written
        a_value_above_the_limit_is_refused_without_being_sent
        a_storm_of_cut_calls_leaves_the_store_alive;
}
