//! The suite over all engines, and the tests that need a MySQL server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod backend;
mod copies;
mod mysql_server;
mod numbers;
mod places;
mod settings;

use storage_sql::conformance::Harness;

/// The reason of cases that open their database more than once.
const ONE_STORE: &str = "a database in memory ends with its store, and no other store can open it";

storage_sql::conformance_cases!(
    mysql,
    Harness::new(Box::new(backend::mysql().await)).await,
    skipped: {}
);
storage_sql::conformance_cases!(
    sqlite_file,
    Harness::new(Box::new(backend::sqlite_file().await)).await,
    skipped: {}
);
storage_sql::conformance_cases!(
    sqlite_memory,
    Harness::new(Box::new(backend::sqlite_memory().await)).await,
    skipped: {
        a_database_that_goes_on_keeps_its_identity: ONE_STORE,
        raising_waits_for_a_landing_under_way: ONE_STORE,
        nothing_lands_by_earlier_definitions: ONE_STORE,
        a_change_of_definitions_creates_missing_records: ONE_STORE,
        a_change_of_definitions_waits_for_a_landing_under_way: ONE_STORE,
        one_refused_row_refuses_the_batch_and_nothing_is_written:
            "no other connection can create the trigger that rejects a row",
        beats_go_on_behind_the_greatest_number: ONE_STORE,
        a_plan_is_added_as_a_whole_or_not_at_all: ONE_STORE,
        a_plan_that_is_being_added_is_not_seen: ONE_STORE,
        two_plans_of_one_number_do_not_become_one: ONE_STORE,
        a_lost_answer_of_a_claim_is_found_in_the_list: ONE_STORE,
        a_shard_that_no_version_writes_is_unreadable: ONE_STORE,
        a_database_in_use_gets_its_shards_by_a_migration: ONE_STORE,
        a_lost_statement_writes_nothing_and_the_next_call_works: ONE_STORE,
        a_lost_reply_of_the_commit_is_harmless_to_repeat: ONE_STORE,
        a_lock_wait_leaves_nothing_of_the_batch: ONE_STORE,
        reopening_keeps_everything: ONE_STORE,
        the_schema_is_made_once_and_a_newer_one_is_refused: ONE_STORE,
        tables_that_nobody_has_used_are_completed_and_others_are_not: ONE_STORE,
        a_store_for_layers_makes_no_tables: ONE_STORE,
    }
);
