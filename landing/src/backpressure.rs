//! How close the hot tier is to its watermarks. Pure functions.

use std::time::Duration;

use storage_config::BackpressureSettings;
use storage_dirty::MemoryUse;

use crate::Backlog;

/// How close the backlog is to the watermarks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackpressureLevel {
    /// 0: below all soft watermarks. 1 to 99: between a soft watermark and its hard one. 100: at a
    /// hard one.
    pub percent: u32,
    /// The watermark and the observed value. Empty below all watermarks.
    pub reason: String,
    /// When the back-pressure ends, or how an operator can end it. Empty below all watermarks.
    pub relief: &'static str,
}

const CATCHING_UP: &str = "it ends when the landing workers have caught up";

/// A server that evicts nothing. Landed data goes only when its time to live ends.
const EVICTS_NOTHING: &str = "Redis' maxmemory-policy is noeviction: set it to one of volatile-*, shorten hot.clean_ttl, or give Redis more memory";
/// A server that evicts, and has nothing left.
const NOTHING_LEFT: &str = "only data that has landed and that no session holds can be evicted: it ends as workers land, or give Redis more memory";

impl BackpressureLevel {
    /// The watermark that is closest. `before` has the memory as the last look found it. Without
    /// that look, no server that evicts landed data counts as full.
    #[must_use]
    pub fn of(
        settings: &BackpressureSettings,
        backlog: &Backlog,
        memory: &[MemoryUse],
        before: &[MemoryUse],
    ) -> Self {
        let marks = backlog.marks().saturating_add(backlog.errors());
        let notes = backlog.notes();
        let age = millis(backlog.oldest().unwrap_or_default());
        let (soft, hard) = (settings.soft_marks.into(), settings.hard_marks.into());
        let full = memory
            .iter()
            .filter(|memory| memory.is_full(before))
            .max_by_key(|memory| memory.percent());
        let used = full.map(MemoryUse::percent).unwrap_or_default();
        let evicts = full.is_some_and(|memory| memory.evictions.is_some());
        let seen = [
            (
                percent(marks, soft, hard),
                format!("{marks} marks wait to be landed"),
                CATCHING_UP,
            ),
            (
                percent(notes, soft, hard),
                format!("{notes} notes wait to be landed"),
                CATCHING_UP,
            ),
            (
                percent(age, millis(settings.soft_age), millis(settings.hard_age)),
                format!("the oldest mark waits for {age} ms"),
                CATCHING_UP,
            ),
            (
                percent(
                    used,
                    settings.soft_memory.into(),
                    settings.hard_memory.into(),
                ),
                if evicts {
                    format!(
                        "{used} % of the hot tier's memory are in use, and the server rejects writes and finds nothing to evict"
                    )
                } else {
                    format!("{used} % of the hot tier's memory are in use")
                },
                if evicts { NOTHING_LEFT } else { EVICTS_NOTHING },
            ),
        ];
        match seen.into_iter().max_by_key(|(percent, ..)| *percent) {
            Some((percent, reason, relief)) if percent > 0 => Self {
                percent,
                reason,
                relief,
            },
            _ => Self::default(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How far `seen` is on the way from `soft` (0) to `hard` (100). A watermark of 0 is off. Without a
/// soft watermark no write is slowed, without a hard one no write fails.
fn percent(seen: u64, soft: u64, hard: u64) -> u32 {
    if hard > 0 && seen >= hard {
        return 100;
    }
    if soft == 0 || seen < soft {
        return 0;
    }
    let way = if hard == 0 {
        soft
    } else {
        hard.saturating_sub(soft).max(1)
    };
    let gone = u128::from(seen - soft) * 100 / u128::from(way);
    u32::try_from(gone).unwrap_or(99).clamp(1, 99)
}

#[cfg(test)]
mod tests {
    use storage_dirty::{Evictions, PartitionPeek};
    use storage_model::{Partition, Position, Timestamp};

    use super::*;

    #[test]
    fn back_pressure_grows_from_the_soft_watermark_to_the_hard_one() {
        let table = [
            (0, 10, 20, 0),
            (9, 10, 20, 0),
            (10, 10, 20, 1),
            (15, 10, 20, 50),
            (19, 10, 20, 90),
            (20, 10, 20, 100),
            (u64::MAX, 10, 20, 100),
            // Without a hard watermark no write fails. Without a soft one no write is slowed.
            // Without both nothing happens.
            (15, 10, 0, 50),
            (u64::MAX, 10, 0, 99),
            (19, 0, 20, 0),
            (20, 0, 20, 100),
            (u64::MAX, 0, 0, 0),
            (10, 10, 10, 100),
        ];
        for (seen, soft, hard, expected) in table {
            assert_eq!(
                percent(seen, soft, hard),
                expected,
                "{seen} between {soft} and {hard}"
            );
        }
    }

    #[test]
    fn marks_error_marks_age_and_memory_count_and_the_nearest_to_its_end_is_named() {
        let settings = BackpressureSettings::default().with(|backpressure| {
            backpressure.soft_marks = 10;
            backpressure.hard_marks = 20;
            backpressure.soft_age = Duration::from_secs(10);
            backpressure.hard_age = Duration::from_secs(20);
            backpressure.soft_memory = 80;
            backpressure.hard_memory = 90;
        });
        let seen = |live, errors, seconds: u64, used| {
            let oldest = (seconds > 0).then(|| Timestamp(100_000_000 - seconds * 1_000_000));
            let peek = PartitionPeek {
                live,
                errors,
                live_since: oldest,
                ..PartitionPeek::default()
            };
            let backlog = Backlog {
                now: Timestamp(100_000_000),
                partitions: vec![(Partition(0), peek)],
                away: vec![],
            };
            let memory = MemoryUse {
                used,
                limit: 1_000,
                ..MemoryUse::default()
            };
            let level = BackpressureLevel::of(&settings, &backlog, &[memory], &[]);
            (level.percent, level.reason, level.relief)
        };
        assert_eq!(seen(9, 0, 9, 790), (0, String::new(), ""));
        assert_eq!(
            seen(9, 6, 11, 0),
            (50, "15 marks wait to be landed".into(), CATCHING_UP)
        );
        assert_eq!(
            seen(9, 0, 19, 850),
            (90, "the oldest mark waits for 19000 ms".into(), CATCHING_UP)
        );
        let full = "95 % of the hot tier's memory are in use".to_owned();
        assert_eq!(seen(0, 0, 0, 950), (100, full, EVICTS_NOTHING));
    }

    #[test]
    fn an_evicting_server_counts_once_it_rejects_writes_and_evicts_nothing() {
        let settings = BackpressureSettings::default();
        let backlog = Backlog {
            now: Timestamp(1),
            partitions: Vec::new(),
            away: vec![],
        };
        let memory = |evicted, rejected| MemoryUse {
            server: "a".into(),
            used: 999,
            limit: 1_000,
            evictions: Some(Evictions { evicted, rejected }),
        };
        let level = |before: &[MemoryUse], now| {
            let level = BackpressureLevel::of(&settings, &backlog, &[now], before);
            (level.percent, level.relief)
        };
        let before = [memory(5, 5)];
        assert_eq!(level(&[], memory(5, 6)), (0, ""));
        assert_eq!(level(&before, memory(5, 5)), (0, ""));
        assert_eq!(level(&before, memory(6, 6)), (0, ""));
        assert_eq!(level(&before, memory(5, 6)), (100, NOTHING_LEFT));
    }

    /// One owner that is written all the time has one mark, and any number of notes.
    #[test]
    fn notes_count_as_marks_do() {
        let settings = BackpressureSettings::default().with(|backpressure| {
            backpressure.soft_marks = 10;
            backpressure.hard_marks = 20;
        });
        let peek = PartitionPeek {
            live: 1,
            noted: Position::new(1, 100),
            last_note: Position::new(2, 115),
            ..PartitionPeek::default()
        };
        let backlog = Backlog {
            now: Timestamp(1),
            partitions: vec![(Partition(0), peek)],
            away: vec![],
        };
        let level = BackpressureLevel::of(&settings, &backlog, &[], &[]);
        assert_eq!(level.percent, 50);
        assert_eq!(level.reason, "15 notes wait to be landed");
    }
}
