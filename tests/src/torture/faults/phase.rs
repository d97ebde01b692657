//! The phase of landing, or of play, in which a fault hits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use storage_dirty::PartitionPeek;
use storage_landing::Backlog;
use tokio::time::{Instant, sleep};

use crate::torture::arena::Arena;

/// The work under way when a fault hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Phase {
    /// Writes were under way. The histories show it afterwards.
    Writing,
    /// Marks waited in a dirty map, and there was no snapshot.
    Marked,
    /// A snapshot had been taken.
    Snapshot,
    /// A part of a snapshot had been settled.
    HalfSettled,
    /// None of these.
    Idle,
}

impl Phase {
    /// Whether a fault that hit in this phase hit in the wanted one.
    #[must_use]
    pub fn is(self, wanted: Self) -> bool {
        self == wanted || (self == Self::HalfSettled && wanted == Self::Snapshot)
    }
}

/// Watches snapshots, to tell half settled ones from whole ones.
#[derive(Debug, Default)]
pub struct Watcher {
    largest: BTreeMap<u32, u64>,
}

impl Watcher {
    /// The furthest phase of a partition, of the partitions that pass `chosen`.
    pub fn phase(&mut self, backlog: &Backlog, chosen: impl Fn(&PartitionPeek) -> bool) -> Phase {
        let mut phase = Phase::Idle;
        for (partition, peek) in &backlog.partitions {
            let largest = self.largest.entry(partition.0).or_default();
            *largest = if peek.snapshot == 0 {
                0
            } else {
                peek.snapshot.max(*largest)
            };
            if !chosen(peek) {
                continue;
            }
            let of_this = match peek.snapshot {
                0 if peek.live == 0 => Phase::Idle,
                0 => Phase::Marked,
                left if left < *largest => Phase::HalfSettled,
                _ => Phase::Snapshot,
            };
            phase = match (phase, of_this) {
                (Phase::Idle, other) | (other, Phase::Idle) => other,
                (one, other) => one.max(other),
            };
        }
        phase
    }
}

/// The time for which a phase is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until landing, or play, is in the wanted phase. Returns the phase of landing: the wanted
/// one, or any other one after some time.
pub async fn reach(arena: &Arena, wanted: Phase) -> Option<Phase> {
    let mut watcher = Watcher::default();
    let deadline = Instant::now() + PATIENCE;
    let played = arena.played();
    let mut phase = None;
    while Instant::now() < deadline {
        phase = arena
            .backlog()
            .await
            .ok()
            .map(|backlog| watcher.phase(&backlog, |_| true));
        let reached = if wanted == Phase::Writing {
            arena.played() > played
        } else {
            phase.is_some_and(|phase| phase.is(wanted))
        };
        if reached {
            return phase;
        }
        sleep(Duration::from_millis(2)).await;
    }
    phase
}
