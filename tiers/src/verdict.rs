//! R14: which step a partition needs, by the records of both tiers.
//!
//! The database names one hot tier for each partition. A hot tier that was replaced there never
//! lands again by itself. One that lacks landed data takes the place only of a hot tier that nobody
//! uses. One that has everything takes the place at once, and so does one that Sentinels or a
//! cluster name. `tests/protocol` searches two living copies of one hot tier.

use storage_dirty::{PartitionRecord as Recorded, PartitionState};
use storage_model::sabotage::{is_kept, keeps};
use storage_model::{DatabaseId, HotId, Version, times};
use storage_sql::{PartitionRecord, Raise};

/// The step that a partition needs before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Nothing: record, incarnation, epoch and stamp agree.
    Nothing,
    /// The database's epoch must rise first, so that no landing of the past commits. The stamp is
    /// drawn for each attempt. With `if_silent` the hot tier is behind, and waits for the other one.
    Raise(Raise),
    /// A commit was not settled: `landed` must follow the database.
    Landed,
    /// Another hot tier took the partition while this one was there. It stays replaced.
    Replaced,
}

/// The step that both tiers' records of a partition call for. The records were read one after the
/// other. With `watched`, the database's identity must be recorded, because marks go on probation.
/// `is_named` tells that Sentinels or a cluster name this hot tier, or that no other one can be
/// there.
///
/// A stale record of the hot tier can make it look replaced. So the hot tier is read again then.
#[must_use]
pub fn need(state: &PartitionState, cold: PartitionRecord, watched: bool, is_named: bool) -> Need {
    let here = HotId::of(&state.incarnation);
    let raise = Raise {
        above: state.record.as_ref().map(|r| r.epoch).unwrap_or_default(),
        seen_stamp: cold.stamp,
        by: here,
        ..Raise::by_one(cold.partition, cold.epoch)
    };
    // No program named the hot tier of an older program's epoch.
    let is_expected = cold.hot == HotId::NONE || (cold.hot == here && is_kept("R14-own-raise"));
    let behind = Need::Raise(Raise {
        if_silent: (!is_named && is_kept("R14-behind")).then_some(times::SILENCE),
        ..raise
    });
    let Some(record) = &state.record else {
        return if is_expected {
            Need::Raise(raise)
        } else {
            behind
        };
    };
    let same = record.epoch == cold.epoch && keeps("R14-stamp", record.stamp == cold.stamp);
    // The database is an older copy of itself. Its epoch must overtake the hot tier's.
    if cold.epoch < record.epoch {
        return Need::Raise(raise);
    }
    if state.is_current() {
        return match same {
            true if cold.hot == here => in_place(record, cold, watched, raise),
            // An older program raised it, and named nobody.
            true => Need::Raise(raise),
            // The process that raised it died before the record followed.
            false if is_expected => Need::Raise(raise),
            // An older program raised it, for nobody knows whom. Another raise has another stamp.
            false if record.stamp == cold.stamp => Need::Raise(raise),
            // This server was there the whole time. So only another one can have raised it.
            false if is_kept("R14-replaced") => Need::Replaced,
            false => Need::Raise(raise),
        };
    }
    if is_expected {
        return Need::Raise(raise);
    }
    // A restart, a promotion or a copy of everything that landed. Another landing until the raise
    // makes it one that is behind.
    if same && has_everything(record, cold.last_version) {
        let reach = is_kept("R14-landed-since").then_some(cold.last_version);
        return Need::Raise(Raise { reach, ..raise });
    }
    behind
}

/// The step of a hot tier that has the partition.
fn in_place(record: &Recorded, cold: PartitionRecord, watched: bool, raise: Raise) -> Need {
    // The database is another server, which may lack settled rows. Or no record tells which server
    // the landings went to.
    let elsewhere = is_another(record.database, cold.database, watched);
    match record.landed.cmp(&cold.last_version) {
        _ if elsewhere => Need::Raise(raise),
        // The database lost settled commits. A new epoch makes both tiers agree on the rows that are
        // left.
        std::cmp::Ordering::Greater => Need::Raise(raise),
        std::cmp::Ordering::Less => Need::Landed,
        std::cmp::Ordering::Equal => Need::Nothing,
    }
}

fn is_another(recorded: Option<DatabaseId>, present: DatabaseId, watched: bool) -> bool {
    recorded.map_or(watched, |recorded| recorded != present)
}

/// Whether all landed data is here, given that the epoch is the same.
fn has_everything(record: &Recorded, last_version: Version) -> bool {
    keeps("R14-older", !record.has_forgotten(last_version, true))
}

#[cfg(test)]
mod tests {
    use storage_model::{Epoch, Partition, Stamp};

    use super::*;

    const AT: Partition = Partition(3);

    /// A hot tier with this incarnation, and a record of an incarnation, an epoch and a stamp, up to
    /// this version.
    fn hot(here: &str, record: Option<(&str, u64, u64, u64)>) -> PartitionState {
        let record = record.map(|(incarnation, epoch, stamp, landed)| Recorded {
            incarnation: incarnation.into(),
            epoch: Epoch(epoch),
            stamp: Stamp(stamp),
            generation: Epoch(1),
            source: version(landed),
            landed: version(landed),
            collected: Version::ZERO,
            database: None,
        });
        PartitionState {
            incarnation: here.into(),
            record,
        }
    }

    fn version(number: u64) -> Version {
        Version::new(number).unwrap()
    }

    /// The database's record: whose it is, its epoch, stamp and last version.
    fn cold(of: &str, epoch: u64, stamp: u64, last: u64) -> PartitionRecord {
        PartitionRecord {
            partition: AT,
            epoch: Epoch(epoch),
            last_version: version(last),
            landed_epoch: Epoch(epoch),
            stamp: Stamp(stamp),
            hot: if of.is_empty() {
                HotId::NONE
            } else {
                HotId::of(of)
            },
            database: DatabaseId(1),
        }
    }

    /// The verdict in a word.
    fn said(state: &PartitionState, cold: PartitionRecord, is_named: bool) -> &'static str {
        match need(state, cold, false, is_named) {
            Need::Nothing => "nothing",
            Need::Landed => "landed",
            Need::Replaced => "replaced",
            Need::Raise(raise) => {
                assert_eq!(
                    (raise.seen, raise.seen_stamp, raise.by),
                    (cold.epoch, cold.stamp, HotId::of(&state.incarnation))
                );
                match (raise.reach, raise.if_silent) {
                    (None, None) => "raise",
                    (Some(reach), None) if reach == cold.last_version => "raise if nothing landed",
                    (None, Some(times::SILENCE)) => "raise if silent",
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn each_pair_of_records_has_its_step() {
        let (a, b) = (Some(("a", 5, 50, 9)), Some(("b", 5, 50, 9)));
        let unstamped = Some(("a", 5, 0, 9));
        let cases = [
            ("the same", "a", a, cold("a", 5, 50, 9), "nothing"),
            (
                "an unsettled commit",
                "a",
                a,
                cold("a", 5, 50, 10),
                "landed",
            ),
            (
                "a database that lost commits",
                "a",
                a,
                cold("a", 5, 50, 8),
                "raise",
            ),
            ("an older database", "a", a, cold("b", 4, 40, 9), "raise"),
            (
                "an older database, another server",
                "c",
                a,
                cold("b", 4, 40, 9),
                "raise",
            ),
            (
                "a raise that nobody adopted",
                "a",
                a,
                cold("a", 6, 60, 9),
                "raise",
            ),
            (
                "the same for a restarted server",
                "c",
                a,
                cold("c", 6, 60, 9),
                "raise",
            ),
            (
                "replaced by another one",
                "a",
                a,
                cold("b", 6, 60, 9),
                "replaced",
            ),
            (
                "replaced in an equal epoch",
                "a",
                a,
                cold("b", 5, 51, 9),
                "replaced",
            ),
            (
                "an older program named nobody",
                "a",
                unstamped,
                cold("", 5, 0, 9),
                "raise",
            ),
            ("and restarted", "c", unstamped, cold("", 5, 0, 9), "raise"),
            (
                "an older program raised it",
                "a",
                a,
                cold("", 6, 50, 9),
                "raise",
            ),
            (
                "an older program raised it after another server had it",
                "a",
                a,
                cold("b", 6, 50, 9),
                "raise",
            ),
            (
                "an older program adopted it",
                "a",
                a,
                cold("b", 5, 50, 9),
                "raise",
            ),
            (
                "a restart with everything",
                "c",
                b,
                cold("b", 5, 50, 9),
                "raise if nothing landed",
            ),
            (
                "a restart with less",
                "c",
                b,
                cold("b", 5, 50, 10),
                "raise if silent",
            ),
            (
                "a restart from before the epoch",
                "c",
                b,
                cold("b", 6, 60, 9),
                "raise if silent",
            ),
            (
                "a copy of a replaced one",
                "c",
                a,
                cold("b", 5, 51, 9),
                "raise if silent",
            ),
            (
                "no record, and expected",
                "a",
                None,
                cold("a", 5, 50, 9),
                "raise",
            ),
            ("no record at all", "a", None, cold("", 0, 0, 0), "raise"),
            (
                "no record, and another one is there",
                "a",
                None,
                cold("b", 5, 50, 9),
                "raise if silent",
            ),
        ];
        for (what, here, record, cold, expected) in cases {
            assert_eq!(said(&hot(here, record), cold, false), expected, "{what}");
        }
    }

    #[test]
    fn a_server_that_sentinels_or_a_cluster_name_waits_for_nobody_and_a_replaced_one_stays_it() {
        let record = Some(("b", 5, 50, 9));
        for (here, record, cold, expected) in [
            ("c", record, cold("b", 5, 50, 10), "raise"),
            ("c", record, cold("b", 6, 60, 9), "raise"),
            ("c", None, cold("b", 5, 50, 9), "raise"),
            ("b", record, cold("c", 6, 60, 9), "replaced"),
        ] {
            assert_eq!(said(&hot(here, record), cold, true), expected);
        }
    }

    #[test]
    fn a_database_on_another_server_gets_a_new_epoch() {
        let mut state = hot("a", Some(("a", 5, 50, 9)));
        let other = |state: &PartitionState, watched| {
            matches!(
                need(state, cold("a", 5, 50, 9), watched, false),
                Need::Raise(_)
            )
        };
        assert!(!other(&state, false) && other(&state, true));
        for (id, is_other) in [(1, false), (2, true)] {
            if let Some(record) = &mut state.record {
                record.database = Some(DatabaseId(id));
            }
            assert_eq!(other(&state, true), is_other);
        }
    }
}
