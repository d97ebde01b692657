//! How long something is remembered or believed. The times depend on each other, so they stand in
//! one table, and the compiler checks it.

use std::time::Duration;

/// The longest deadline of a write. After its deadline the hot tier applies no copy of a write.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// How long the hot tier remembers operation ids at least. No deadline lies further ahead.
pub const ID_WINDOW: Duration = Duration::from_secs(60);

/// How long a store remembers the fates of the writes of a call that it has ended. No write is
/// retried for so long.
pub const FATES: Duration = Duration::from_secs(120);

/// A store that made no call for so long is gone, and its last call is forgotten.
pub const STORE_GONE: Duration = ID_WINDOW.saturating_mul(2);

/// How long the marker of an observation stays. No load takes longer.
pub const OBSERVATION: Duration = Duration::from_mins(1);

/// How long the right to load an owner outlives a process that died with it (R12). All attempts
/// together take longer.
pub const LOAD_LEASE: Duration = Duration::from_secs(2);

/// How long a connection is believed to lead to the same server after a check. A server that became
/// a replica and then a primary again keeps its connections, and may have lost data that they saw
/// (R14). Such a server was a replica for longer than this: see [`ELECTION_MIN`]. Sentinels close
/// the connections of a server that they demote.
pub const CONNECTION: Duration = Duration::from_millis(250);

/// A replica of a Redis Cluster that found its primary dead waits at least this long before it
/// stands for election (`clusterHandleSlaveFailover` in Redis' cluster.c).
pub const ELECTION_MIN: Duration = Duration::from_millis(500);

/// The time between two looks of a process whether the tiers still belong together. Each look is two
/// statements to the database.
pub const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// The longest time between two looks of one watch.
pub const WATCH_GAP: Duration = Duration::from_secs(3);

/// How long after its look a process may adopt an epoch that it raised, by the clock of the
/// partition's server.
pub const ADOPT_WITHIN: Duration = Duration::from_secs(3);

/// How long nobody uses a hot tier before one that lacks landed data takes its place. It is shorter
/// than the default deadline of a call. So a call that meets a Redis which came back older waits,
/// and does not fail.
pub const SILENCE: Duration = Duration::from_millis(4_500);

/// How long a lapsed session is kept. Until then its holder can resume it, if the owner is still
/// free.
pub const LAPSED_SESSION: Duration = Duration::from_hours(1);

/// How long a hot tier without partitions is remembered after its last use. The statement compares it
/// once more.
pub const UNUSED_HOT_TIER: Duration = Duration::from_hours(24);

const fn is_less(one: Duration, other: Duration) -> bool {
    one.as_millis() < other.as_millis()
}

// The id of a write is remembered for as long as a copy of the write can be applied, and for as
// long again.
const _: () = assert!(!is_less(ID_WINDOW, DEADLINE_MAX.saturating_mul(2)));
// A lost call is asked for until its writes can't be retried any more, and no store is forgotten
// before that.
const _: () = assert!(!is_less(FATES, ID_WINDOW) && !is_less(STORE_GONE, FATES));
// A server was a replica for longer than a connection to it is believed.
const _: () = assert!(is_less(CONNECTION, ELECTION_MIN));
// A hot tier that is used looks at least twice before it counts as silent, and no adoption takes
// effect after that.
const _: () = assert!(is_less(COMPARE_EVERY.saturating_mul(2), SILENCE));
const _: () = assert!(is_less(COMPARE_EVERY, WATCH_GAP) && is_less(WATCH_GAP, SILENCE));
const _: () = assert!(is_less(ADOPT_WITHIN, SILENCE));
// A process that died while it loaded holds others up for less than their own observation lasts.
const _: () = assert!(is_less(LOAD_LEASE, OBSERVATION));
// A hot tier is forgotten long after another could have taken its place.
const _: () = assert!(is_less(SILENCE, UNUSED_HOT_TIER));
