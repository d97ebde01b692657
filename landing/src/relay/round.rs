//! One round of a sink over the partitions of its worker.

use std::sync::atomic::Ordering;

use storage_model::{Content, Event, Partition, Position};
use storage_sql::FeedEnds;
use storage_tiers::TierError;
use tokio::time::Instant;

use super::{Away, Relay, RoundEnd, batch};
use crate::worker::Worker;

/// The end of a partition's turn.
enum Turn {
    /// Whether more events may be there.
    Done { more: bool },
    /// The sink can't take events now.
    Away(Away),
}

impl Relay {
    /// Gives the sink the next events of each partition that the worker holds, up to some of each.
    ///
    /// Several workers share the partitions. So a partition's events come from the worker that lands
    /// the partition. While a partition moves, two workers may send the same events.
    pub(super) async fn round(&self, worker: &Worker) -> Result<RoundEnd, TierError> {
        let held = self.in_turn(worker.claims.held());
        let cold = worker.tiers.cold();
        let feeds = cold.events.feeds(&held).await?;
        let positions = cold.sinks.sink_positions(&self.name, &held).await?;
        self.note_behind(&feeds, &positions);
        let (mut busy, mut took) = (false, false);
        for (ends, after) in feeds.iter().zip(positions) {
            if ends.last <= after || self.rests.is_resting(ends.partition, Instant::now()) {
                continue;
            }
            match self.turn(worker, ends, after).await? {
                Turn::Done { more } => {
                    self.rests.end(ends.partition);
                    (busy, took) = (busy | more, true);
                }
                // The receiver takes events of other partitions, so they go on.
                Turn::Away(away) if took => self.pass_over(worker, &away),
                Turn::Away(away) => {
                    // The next round begins with another partition.
                    let next = away.partition.0.saturating_add(1);
                    self.first.store(next, Ordering::Relaxed);
                    return Ok(RoundEnd::Away(away));
                }
            }
        }
        Ok(if busy { RoundEnd::Busy } else { RoundEnd::Idle })
    }

    /// Lets a partition rest that fails while others go on, and reports it once.
    fn pass_over(&self, worker: &Worker, away: &Away) {
        let Away {
            partition,
            message,
            retry_after,
        } = away;
        let settings = &worker.settings;
        let range = (settings.backoff_min(), settings.backoff_max);
        if self
            .rests
            .begin(*partition, *retry_after, range, Instant::now())
        {
            tracing::warn!(
                sink = %self.name, partition = partition.0, error = %message,
                "the sink takes no events of this partition, and those of others go on: they are sent again"
            );
        }
    }

    /// Gives the sink the next events of one partition.
    async fn turn(
        &self,
        worker: &Worker,
        ends: &FeedEnds,
        after: Position,
    ) -> Result<Turn, TierError> {
        let (partition, rows) = (ends.partition, self.rows.load(Ordering::Relaxed));
        let mut events = worker
            .tiers
            .cold()
            .events
            .events(partition, after, rows)
            .await?;
        let more = events.len() >= rows;
        let next = batch::rows_next(rows, &events);
        self.rows.store(next, Ordering::Relaxed);
        if let Some(upto) = batch::gap_before(after, ends.trimmed, events.first()) {
            events.insert(0, self.gap(partition, after, upto));
        }
        for range in batch::cut(&events) {
            // Another worker serves a partition that this one has lost, and a stopping worker ends
            // between two batches.
            if !worker.claims.serves(partition) {
                return Ok(Turn::Done { more: false });
            }
            let some = events.get(range).unwrap_or_default();
            if let Some(away) = self.deliver(worker, partition, some).await? {
                return Ok(Turn::Away(away));
            }
        }
        Ok(Turn::Done { more })
    }

    /// The event that tells of missing events.
    fn gap(&self, partition: Partition, after: Position, upto: Position) -> Event {
        tracing::warn!(
            sink = %self.name, partition = partition.0, %after, %upto,
            "events were dropped before the sink took them: the sink is told of a gap"
        );
        Event {
            partition,
            position: upto,
            content: Content::Gap,
        }
    }

    /// The partitions in the order of this round.
    fn in_turn(&self, mut held: Vec<Partition>) -> Vec<Partition> {
        let first = Partition(self.first.load(Ordering::Relaxed));
        let before = held.partition_point(|partition| *partition < first);
        held.rotate_left(before);
        held
    }

    /// The numbers of a partition have no gaps, so they count the events between two positions.
    fn note_behind(&self, feeds: &[FeedEnds], positions: &[Position]) {
        let mut behind = 0_u64;
        for (ends, after) in feeds.iter().zip(positions) {
            behind = behind.saturating_add(ends.last.number.saturating_sub(after.number));
        }
        self.behind.store(behind, Ordering::Relaxed);
    }
}
