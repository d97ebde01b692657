//! The program as a user runs it, in several processes. All cases run on the file of an embedded storage, and on MariaDB
//! with a worker.

#![expect(clippy::indexing_slicing, reason = "a test fails by a panic")]
mod commands;
mod load;
mod outages;
mod place;
mod plans;

macro_rules! cases {
    ($($module:ident { $($case:ident)* })*) => {
        mod embedded {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread")]
                async fn $case() -> anyhow::Result<()> {
                    crate::$module::$case(crate::place::Place::embedded().await?).await
                })*
            })*
        }
        mod servers {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread")]
                async fn $case() -> anyhow::Result<()> {
                    crate::$module::$case(crate::place::Place::on_servers().await?).await
                })*
            })*
        }
    };
}

cases! {
    commands {
        owners_are_planned_served_shown_and_read
        a_server_asks_for_its_token_and_never_serves_other_machines_without_one
        a_wrong_argument_is_named_and_changes_nothing
        figures_tell_what_a_server_does
    }
    plans {
        a_plan_is_retired_only_when_all_keys_of_its_data_centre_are_served_without_it
        a_plan_is_retired_in_place_while_another_data_centre_answers
    }
    outages {
        no_call_fails_while_a_server_is_killed_and_its_successor_serves
        no_call_fails_while_a_server_is_stopped_and_goes_on_after_its_takeover
        no_call_fails_while_servers_end_one_after_the_other
        calls_succeed_again_under_the_same_load_after_all_servers_died_and_started_cold
    }
}
