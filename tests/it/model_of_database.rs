//! The simulator's model of the database passes the suite of the cold tier. It has no settings, no
//! schema and no connections, so the cases about these are skipped.

use std::sync::Arc;

use async_trait::async_trait;
use storage_config::SqlSettings;
use storage_sql::Cold;
use storage_sql::conformance::{Backend, Harness};
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
        unreachable!("the cases that open the database once more are skipped")
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
    let store: Cold = ModelStore::cold(way);
    let id = database.tables(Tables::database);
    Harness {
        store,
        backend: Box::new(Modelled(database)),
        database: id,
    }
}

/// The reason of cases that open their database through settings.
const ONE_STORE: &str = "the model has no settings, and a case can't open it once more";

/// The reason of cases that write beside the store.
const NO_SQL: &str = "the model runs no statement";

/// The reason of cases of hooks.
const NO_HOOKS: &str = "no layer has a hook in the model";

storage_sql::conformance_cases!(
    modelled_database,
    modelled(),
    skipped: {
        items_come_in_pages_from_either_end: "the simulator plays no documents",
        old_events_are_dropped_from_the_beginning: "the model keeps no time of an event",
        a_database_that_goes_on_keeps_its_identity: ONE_STORE,
        raising_waits_for_a_landing_under_way: ONE_STORE,
        hooks_are_listed_with_their_changes: NO_HOOKS,
        nothing_lands_without_a_needed_hook: NO_HOOKS,
        nothing_lands_by_earlier_definitions: NO_HOOKS,
        a_change_of_definitions_ends_the_landings_before_it: NO_HOOKS,
        a_change_of_definitions_creates_missing_records: NO_HOOKS,
        a_change_of_definitions_waits_for_a_landing_under_way: NO_HOOKS,
        a_hook_that_can_not_be_defined_changes_nothing: NO_HOOKS,
        purged_rows_are_found_page_by_page: "the model keeps no time of a row",
        a_sweep_deletes_purged_rows_alone: "the model keeps no time of a row",
        a_sweep_under_another_record_deletes_nothing: "the model keeps no time of a row",
        beats_go_on_behind_the_greatest_number: NO_SQL,
        a_plan_is_added_as_a_whole_or_not_at_all: ONE_STORE,
        a_plan_that_is_being_added_is_not_seen: ONE_STORE,
        two_plans_of_one_number_do_not_become_one: ONE_STORE,
        a_lost_answer_of_a_claim_is_found_in_the_list: ONE_STORE,
        a_shard_that_no_version_writes_is_unreadable: NO_SQL,
        a_database_in_use_gets_its_shards_by_a_migration: ONE_STORE,
        a_lost_statement_writes_nothing_and_the_next_call_works: ONE_STORE,
        a_lost_reply_of_the_commit_is_harmless_to_repeat: ONE_STORE,
        a_lock_wait_leaves_nothing_of_the_batch: ONE_STORE,
        reopening_keeps_everything: ONE_STORE,
        the_schema_is_made_once_and_a_newer_one_is_refused: ONE_STORE,
        tables_that_nobody_has_used_are_completed_and_others_are_not: ONE_STORE,
        a_store_for_layers_makes_no_tables: ONE_STORE,
        a_closed_store_says_so: ONE_STORE,
    }
);
