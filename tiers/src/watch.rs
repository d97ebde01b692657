//! R14: how long this process has looked at the database without a break.
//!
//! While the database is away, no program can tell it that a hot tier is used. So silence counts only
//! for as long as this process could have told it something itself.

use std::collections::BTreeMap;
use std::time::Duration;

use storage_model::HotId;
use storage_sql::HotTier;
use tokio::time::Instant;

/// The longest time between two looks of one watch. It is longer than the time between two
/// comparisons, and shorter than the silence after which another hot tier takes a partition.
const GAP_MAX: Duration = Duration::from_secs(3);

/// The shortest time between two uses of a hot tier that the database stores. It stores one only a
/// second after the former. The times of two reads differ by their rounding.
const USE_MIN: Duration = Duration::from_millis(500);

/// Looks that succeeded, one soon after the other, and the uses of hot tiers that they showed.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    looks: Option<Looks>,
    uses: BTreeMap<HotId, Use>,
}

#[derive(Debug, Clone, Copy)]
struct Looks {
    first: Instant,
    last: Instant,
}

/// The last use of a hot tier.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// How long the database had known the hot tier then. A step of its clock changes it only
    /// together with a new use.
    at: Duration,
    /// When this process saw that it was another one than before.
    changed: Option<Instant>,
}

impl Watch {
    /// Notes a look that succeeded.
    pub(crate) fn looked(&mut self, now: Instant) {
        let goes_on = |looks: &Looks| now.saturating_duration_since(looks.last) <= GAP_MAX;
        let first = self.looks.filter(goes_on).map_or(now, |looks| looks.first);
        self.looks = Some(Looks { first, last: now });
    }

    /// Notes a look that failed. What was before it does not count.
    pub(crate) fn failed(&mut self) {
        self.looks = None;
    }

    /// The time between the first look and the last one.
    pub(crate) fn lasts(&self) -> Duration {
        self.looks.map_or(Duration::ZERO, |looks| {
            looks.last.saturating_duration_since(looks.first)
        })
    }

    /// Whether this process has seen a use of this hot tier for less than `within`, by its own clock.
    /// The database's clock can step forward. Then a hot tier that is used looks silent to it.
    pub(crate) fn saw_use(&mut self, tier: &HotTier, now: Instant, within: Duration) -> bool {
        let at = tier.known_for.saturating_sub(tier.seen_ago);
        let first = Use { at, changed: None };
        let last = self.uses.entry(tier.id).or_insert(first);
        if last.at.abs_diff(at) >= USE_MIN {
            let changed = Some(now);
            *last = Use { at, changed };
        }
        last.changed
            .is_some_and(|changed| now.saturating_duration_since(changed) < within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SILENCE;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_look_that_failed_and_a_time_without_looks_begin_the_watch_anew() {
        let (start, mut watch) = (Instant::now(), Watch::default());
        let at = |seconds: u32| start + SECOND * seconds;
        assert_eq!(watch.lasts(), Duration::ZERO);
        for (seconds, lasts) in [(0, 0), (2, 2), (5, 5), (9, 0), (11, 2)] {
            watch.looked(at(seconds));
            assert_eq!(watch.lasts(), SECOND * lasts, "after {seconds} s");
        }
        watch.failed();
        assert_eq!(watch.lasts(), Duration::ZERO);
        watch.looked(at(12));
        watch.looked(at(13));
        assert_eq!(watch.lasts(), SECOND);
    }

    #[test]
    fn a_step_of_the_databases_clock_makes_no_hot_tier_silent_that_was_seen_in_use() {
        let (start, mut watch) = (Instant::now(), Watch::default());
        let mut saw = |seconds: u32, known: u32, ago: u32| {
            let tier = HotTier {
                id: HotId(1),
                address: String::new(),
                known_for: SECOND * known,
                seen_ago: SECOND * ago,
                partitions: 1,
            };
            watch.saw_use(&tier, start + SECOND * seconds, SILENCE)
        };
        assert!(!saw(0, 10, 1), "nobody knows when that was");
        assert!(saw(2, 12, 1));
        assert!(saw(4, 74, 63), "a step by a minute");
        assert!(saw(6, 76, 65));
        assert!(!saw(7, 77, 66), "silent for 5 s");
        assert!(saw(8, 78, 0));
    }

    #[test]
    fn no_gap_is_as_long_as_a_silence() {
        assert!(GAP_MAX < SILENCE);
    }
}
