//! The table of all names.

use crate::{Kind, Name};

macro_rules! names {
    ($($kind:ident $constant:ident $name:literal $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Name = Name { name: $name, kind: Kind::$kind, help: $help };
        )*

        /// Every name, in the order of the page.
        pub const ALL: &[Name] = &[$($constant),*];
    };
}

names! {
    // Both tiers, as the process that is asked sees them.
    Gauge DIRTY_OWNERS "dirty_owners" "Owners with changes that wait to be landed, of all processes";
    Gauge OLDEST_DIRTY "oldest_dirty_seconds" "Age of the oldest change that waits to be landed";
    Gauge WAITING_NOTES "waiting_notes" "Notes that wait to reach the feed";
    Gauge REJECTED_OWNERS "rejected_owners" "Owners in the error maps: the database rejects a row of them";
    Gauge PROBATION_OWNERS "probation_owners" "Owners whose landed changes are kept until the database has proved to keep them";
    Gauge REPLACED "replaced" "1 if another hot tier took partitions from this one, which lands nothing more";
    Gauge UNREACHABLE_PARTITIONS "unreachable_partitions" "Partitions of the hot tier that did not answer";

    // A landing worker. A process of the embedded mode has three of them: rows, marks, and fenced
    // transactions.
    Counter LANDED_ROWS "landed_rows" "Rows that were committed to the database";
    Counter LANDED_MARKS "landed_marks" "Marks that were cleared after their rows were committed";
    Counter LANDING_TRANSACTIONS "landing_transactions" "Landing transactions that were committed";
    Counter REJECTED_ROWS "rejected_rows" "Rows that were moved to an error map, repeated attempts included";
    Counter FENCED_TRANSACTIONS "fenced_transactions" "Landing transactions that the fence of their partition rejected";
    Counter LANDED_NOTES "landed_notes" "Notes that reached the feed";
    Counter SWEPT_ROWS "swept_rows" "Deleted rows of fields that were purged long ago";
    Counter TORN_OWNERS "torn_owners" "Owners that landed in parts, or apart from others of their transaction";
    Counter REQUEUED_MARKS "requeued_marks" "Landed marks that were requeued, since the database had forgotten their rows";
    Counter EXPIRED_MARKS "expired_marks" "Landed marks whose probation ended";
    Counter LANDING_FAILURES "landing_failures" "Passes over the partitions that a failure of a tier ended";
    Counter RESCUES "rescues" "Times that everything was landed from a hot tier that takes no writes";
    Gauge UNRESCUED_ROWS "unrescued_rows" "Rows that the last rescue could not land";
    Counter SINK_EVENTS "sink_events" "Events that sinks have taken, repeats included";
    Counter PARKED_EVENTS "parked_events" "Events that sinks have refused, and that were parked";
    Counter SINK_FAILURES "sink_failures" "Rounds of sinks that ended because the sink or the database was away";
    Gauge SINK_LAG "sink_lag_events" "Events that the slowest sink is behind, in the partitions of this worker";

    // A process that uses the SDK.
    Gauge BACKPRESSURE "backpressure_percent" "Back-pressure: 0 below the watermarks, 1 to 99 slows writes, 100 refuses them";
    Counter HOT_HITS "hot_hits" "Reads that the hot tier answered";
    Counter HOT_MISSES "hot_misses" "Reads that needed the database";
    Counter HOT_LOADS "hot_loads" "Owners that were hot-loaded from the database";
    Gauge SESSIONS "sessions" "Sessions that this process holds or opens";
    Counter SESSIONS_LOST "sessions_lost" "Sessions that this process lost";
    Counter SESSIONS_DROPPED "sessions_dropped" "Sessions whose handle was dropped without an end";

    // A gateway of documents.
    Counter DOCUMENT_REQUESTS "document_requests" "Requests that a gateway of documents has answered";
    Counter DOCUMENT_REFUSALS "document_refusals" "Requests that a gateway refused because of the request itself";
    Counter DOCUMENT_FAILURES "document_failures" "Requests that a gateway could not carry out";
    Gauge DOCUMENT_FEEDS "document_feeds" "Live feeds of documents that are open";
    Counter DOCUMENT_EVENTS "document_events" "Events of the live feed that a gateway has heard, which reads it only while it has clients";
    Counter DOCUMENT_RESETS "document_resets" "Times that all followers of a gateway had to begin anew";
    Gauge DOCUMENT_CONNECTIONS "document_connections" "Connections that are open to a gateway";
    Histogram DOCUMENT_SECONDS "document_seconds" "Time from a request to the beginning of its answer, by method and kind of resource";

    // A server of the sharded read service.
    Gauge SHARD_SERVING "shard_serving" "1 if the server answers for a range";
    Counter SHARD_CALLS "shard_calls" "Requests with keys";
    Counter SHARD_KEYS "shard_keys" "Keys that were answered";
    Counter SHARD_MISDIRECTED "shard_misdirected" "Requests with a key of another range";
    Counter SHARD_REFUSED "shard_refused" "Requests above the limit of keys under way";
    Counter SHARD_STALE "shard_stale" "Requests for values that are younger than those of the service";
    Counter SHARD_LATE "shard_late" "Requests whose time was up";
    Counter SHARD_PANICS "shard_panics" "Keys that failed by a panic of the service";
    Counter SHARD_CLAIMS "shard_claims" "Ranges that the server has claimed";
    Counter SHARD_CLAIMS_LOST "shard_claims_lost" "Claims that the server has lost";
    Counter SHARD_LOADS_FAILED "shard_loads_failed" "Loads of a range that failed";

    // Any process.
    Counter RESTARTS "background_restarts" "Background tasks that panicked and were begun anew";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_there_once_in_lower_case_and_no_help_is_a_riddle() {
        let names: BTreeSet<&str> = ALL.iter().map(|name| name.name).collect();
        assert_eq!(names.len(), ALL.len());
        for name in ALL {
            let plain = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            assert!(name.name.chars().all(plain), "{}", name.name);
            assert!(
                !name.name.ends_with("_total"),
                "the page adds it: {}",
                name.name
            );
            let words = name.help.split_whitespace().count();
            assert!((3..=20).contains(&words), "{}: {}", name.name, name.help);
            assert!(!name.help.ends_with('.'), "{}", name.help);
        }
    }
}
