//! The gateway as a client of HTTP sees it. All cases run in the embedded mode, and on Redis and
//! MariaDB with a worker.

mod answers;
mod batches;
mod bodies;
mod browsers;
mod collections;
mod connections;
mod documents;
mod feeds;
mod keys;
mod limits;
mod lists;
mod openapi;
mod operation;
mod outages;
mod place;
mod proxies;
mod requests;

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
    documents {
        a_document_is_put_patched_deleted_and_put_again
        conditions_are_checked_against_the_state_that_is_written
        concurrent_patches_are_all_made_and_counted
        bad_requests_are_problems_and_change_nothing
        what_was_acknowledged_is_there_after_a_restart
        patches_of_three_kinds
        a_call_with_a_key_is_carried_out_once
        a_document_with_a_time_to_live_ends
        earlier_versions_are_kept
        one_path_has_one_document_however_it_is_written
        a_patch_leaves_the_time_to_live
        a_head_is_a_get_without_its_body
    }
    collections {
        items_are_put_patched_and_deleted_and_the_collection_counts
        a_collection_is_deleted_in_one_step_and_begins_again
        the_id_of_an_item_is_that_of_its_path
        posts_get_ids_that_grow_in_the_order_of_their_commits
        a_post_that_is_repeated_adds_no_second_item
        conditions_of_items_are_those_of_the_item
        concurrent_items_are_all_counted
        items_that_meet_a_deletion_are_those_after_it
        a_post_has_conditions_and_a_key_of_a_deletion_serves_once
    }
    keys {
        a_key_holds_whatever_others_send
        of_copies_that_meet_one_is_carried_out
        a_repeat_has_the_answer_of_the_first_call
        a_document_is_posted_once_with_a_key
    }
    lists {
        a_list_shows_unlanded_and_landed_items_in_order
        pages_follow_each_other_whatever_changes_in_between
        filters_and_sorts_of_lists
        bad_queries_are_problems
        a_list_with_links
        pages_of_mixed_keys_and_moving_items
        names_with_quotes_are_names
        a_page_has_100_items_unless_it_is_told
        an_item_that_has_ended_is_not_listed_although_it_still_counts
        sorts_keep_no_more_together_than_they_may
    }
    feeds {
        the_feed_tells_each_change_below_a_prefix_and_ends_with_the_gateway
        a_feed_tells_what_lies_below_any_of_several_prefixes
        a_client_that_comes_back_gets_what_it_missed
        a_client_that_breaks_at_any_line_and_comes_back_misses_nothing
        many_clients_that_come_back_at_once_get_all_that_they_missed
        a_client_goes_on_after_a_restart_of_the_gateway
        a_page_of_the_landed_feed_leads_into_the_live_feed
        a_cursor_of_another_state_of_the_database_is_gone
        an_item_that_leaves_a_filter_is_told
        landed_changes_come_by_pages_each_once
        a_transaction_is_accepted_and_then_landed
        a_deleted_collection_is_told_to_followers_of_its_items
        the_events_of_an_item_are_a_chain
        feeds_tell_the_documents_of_their_world_alone
        the_event_of_a_post_is_a_put_with_the_id
    }
    answers {
        a_patch_that_is_longer_than_the_body_is_told_as_a_put
        a_list_goes_on_behind_any_number_of_items_that_have_ended
        numbers_that_the_feed_never_has_are_refused
        a_condition_on_a_missing_document_is_a_missing_document
        a_version_that_was_deleted_is_gone_and_one_that_is_not_kept_is_missing
        each_form_of_a_list_has_a_tag_of_its_own
        a_landed_list_has_the_figures_of_what_it_shows
        a_write_answers_with_the_document_or_without_a_body_as_it_is_asked
    }
    batches {
        each_answer_of_a_batch_is_that_of_the_request_alone
        a_batch_with_a_request_that_can_not_be_sent_changes_nothing
        a_batch_of_large_answers_ends_early_and_says_so
        a_step_of_which_one_change_fails_changes_nothing
        a_feed_tells_the_changes_of_a_step_in_the_order_of_their_revisions
        steps_that_meet_lose_nothing
        a_step_that_is_repeated_changes_nothing
        of_copies_of_a_step_that_meet_one_is_carried_out
        a_step_keeps_the_versions_of_its_items
        a_step_that_is_too_large_is_told_the_limit
        a_step_begins_a_collection_again_after_its_end
    }
    bodies {
        a_byte_order_mark_is_no_part_of_a_body
        a_body_is_taken_packed_and_its_limits_are_those_of_the_unpacked_one
        a_long_answer_is_packed_on_request_and_its_tag_serves_as_before
        a_request_that_fails_by_its_head_is_answered_before_its_body
        a_body_that_is_too_large_is_told_the_limit
        a_request_with_a_long_body_that_fails_by_its_head_leaves_the_connection
    }
    limits {
        urls_of_any_length_are_answered
        objects_with_a_hundred_thousand_members
        a_client_that_is_far_behind_begins_anew
    }
    openapi {
        the_description_names_every_resource_and_problem
    }
    operation {
        figures_of_the_gateway_and_the_storage_are_on_one_page
        an_export_is_imported_elsewhere
        a_hundred_open_feeds_do_not_hold_up_the_end
        the_calls_of_the_book_do_what_it_says
    }
}
