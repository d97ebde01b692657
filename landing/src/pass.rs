//! One pass over a worker's partitions: finding work, landing it in tasks, replaying error marks,
//! and ending probations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage_coalesce::locked;
use storage_dirty::{Entry, ErrorEntry, Mark, PartitionPeek, SnapshotId};
use storage_model::{Field, Owner, Partition, Timestamp, times};
use tokio::time::Instant;

use crate::marks::{self, LandingPart};
use crate::round::{Round, WaitingPartition};
use crate::worker::Worker;
use storage_tiers::TierError;
use storage_tiers::bisect::WAITS;

/// The time between two looks for events that have been in the database for long enough.
const DROP_EVERY: Duration = Duration::from_secs(10);

/// The partitions with work.
#[derive(Default)]
struct Work {
    /// How many marks wait.
    marks: u64,
    /// Partitions with marks or notes to land, or with marks that must become live again.
    marked: VecDeque<WaitingPartition>,
    /// Partitions with error marks.
    rejected: VecDeque<Partition>,
    /// Partitions with landed marks on probation.
    on_probation: Vec<Partition>,
    /// Partitions with marks on probation from before a change of the epoch.
    lost: Vec<Partition>,
    /// Partitions without marks and notes, and whether they have a record. They have none if they are
    /// new or the hot tier was lost.
    quiet: Vec<(Partition, bool)>,
}

impl Work {
    fn note(&mut self, partition: Partition, peek: &PartitionPeek) {
        let marks = peek.live + peek.snapshot;
        self.marks += marks;
        let has_notes = peek.notes() + peek.stream > 0 || peek.has_record && !peek.is_resynced;
        if marks > 0 || peek.requeue || has_notes {
            self.marked.push_back(WaitingPartition {
                partition,
                has_notes,
            });
        } else {
            self.quiet.push((partition, peek.has_record));
        }
        if peek.errors > 0 {
            self.rejected.push_back(partition);
        }
        if peek.probation > 0 {
            self.on_probation.push(partition);
        }
        if peek.requeue {
            self.lost.push(partition);
        }
    }
}

impl Worker {
    /// Lands all present marks of the held partitions.
    ///
    /// # Errors
    /// The first failure. A failure of single partitions does not stop the others.
    pub(crate) async fn pass(self: &Arc<Self>) -> Result<(), TierError> {
        let held = self.claims.held();
        let (mut work, mut away) = (Work::default(), None);
        for (partition, peek) in held
            .iter()
            .zip(self.tiers.hot().partitions.peek(&held).await)
        {
            match peek {
                Ok(peek) => work.note(*partition, &peek),
                Err(error) => drop(away.get_or_insert(error)),
            }
        }
        if !(work.marked.is_empty() && work.rejected.is_empty() && work.lost.is_empty()) {
            self.compare().await?;
        }
        let round = Arc::new(Round::of(work.marked));
        for partition in work.lost {
            // Marks that are not live again may be of rows before a gap in the notes. So nothing of
            // the partition lands before they are.
            if !round.pass_over(self.requeue(partition).await)? {
                round.leave(partition);
            }
        }
        self.run_tasks(&round, work.marks).await?;
        // Not before: what can land must not wait for an answer about others.
        self.compare_leading(&work.quiet).await?;
        if self.replay_is_due() {
            self.replay(&round, work.rejected).await?;
        }
        if !work.on_probation.is_empty() && self.probation_is_due() {
            self.end_probation(&round, &work.on_probation).await?;
        }
        if self.is_due(&self.dropped, DROP_EVERY) {
            self.drop_old_events(&held).await?;
        }
        round.end()?;
        if let Err(error) = self.tiers.hot().partitions.forget_calls(&held).await {
            tracing::warn!(%error, "the calls of dead game servers could not be forgotten: the next pass tries again");
        }
        away.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Compares the tiers at intervals, before anything lands.
    async fn compare(&self) -> Result<(), TierError> {
        let last = *locked(&self.compared);
        if last.is_none_or(|at| at.elapsed() >= times::COMPARE_EVERY) {
            self.tiers.compare_tiers().await?;
            *locked(&self.compared) = Some(Instant::now());
        }
        Ok(())
    }

    /// Whether the error maps are due for a replay. They are read as a whole, so a busy worker does
    /// not read them in each pass.
    fn replay_is_due(&self) -> bool {
        self.is_due(&self.replayed, self.settings.error_retry_min() / 2)
    }

    /// Whether work that was last done at a time is due again.
    pub(crate) fn is_due(&self, last: &Mutex<Option<Instant>>, every: Duration) -> bool {
        let mut last = locked(last);
        let due = last.is_none_or(|last| last.elapsed() >= every);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// Retries the error marks that are due.
    async fn replay(&self, round: &Round, rejected: VecDeque<Partition>) -> Result<(), TierError> {
        if rejected.is_empty() {
            return Ok(());
        }
        let now = self.tiers.hot().tier.time().await?;
        for partition in rejected {
            let Some(_busy) = self.claims.begin(partition) else {
                continue;
            };
            round.pass_over(self.replay_partition(partition, now).await)?;
        }
        Ok(())
    }

    async fn replay_partition(
        &self,
        partition: Partition,
        now: Timestamp,
    ) -> Result<(), TierError> {
        let mut cursor = Some(0);
        while let Some(from) = cursor.filter(|_| !self.claims.is_closed()) {
            let page = self
                .tiers
                .hot()
                .marks
                .errors(partition, from, self.limits.batch.rows)
                .await?;
            cursor = page.next;
            let entries = due(page.entries, now);
            if entries.is_empty() {
                continue;
            }
            let part = LandingPart {
                partition,
                snapshot: SnapshotId::default(),
                entries,
                replay: true,
                notes: None,
            };
            for parts in marks::cut(vec![part], self.limiter.rows()) {
                self.land_marks(&parts).await?;
            }
        }
        Ok(())
    }
}

/// The error marks of due owners, as entries. Of each field only the newest version.
fn due(errors: Vec<ErrorEntry>, now: Timestamp) -> Vec<Entry> {
    let mut owners: BTreeMap<Owner, Vec<(Field, ErrorEntry)>> = BTreeMap::new();
    for error in errors {
        if let Some((owner, field)) = error.target.clone() {
            owners.entry(owner).or_default().push((field, error));
        }
    }
    owners.retain(|_, errors| is_due(errors, now));
    let mut entries = BTreeMap::new();
    for (owner, errors) in owners {
        for (field, error) in errors {
            let mark = Mark {
                owner: owner.clone(),
                fields: vec![field],
            };
            let entry = Entry {
                raw: error.raw,
                mark: Some(mark.clone()),
                version: error.version,
            };
            entries.insert(mark, entry);
        }
    }
    entries.into_values().collect()
}

/// Whether an owner is due: one of its fields is that was rejected itself. Others wait for that field.
fn is_due(errors: &[(Field, ErrorEntry)], now: Timestamp) -> bool {
    let waits = |error: &ErrorEntry| error.message.starts_with(WAITS);
    let all_wait = errors.iter().all(|(_, error)| waits(error));
    let mut asking = errors.iter().filter(|(_, error)| all_wait || !waits(error));
    // A rejection that is later than now tells that the hot tier's clock has gone back. Then no wait is known.
    asking.any(|(_, error)| error.next <= now || now < error.last)
}

#[cfg(test)]
mod tests {
    use storage_model::Version;

    use super::*;

    #[test]
    fn an_error_mark_is_due_at_its_time_and_when_the_clock_has_gone_back() {
        let owner = Owner::new("game", "eu", "player", "ann").unwrap();
        let field = Field::new("gold").unwrap();
        let error = ErrorEntry {
            raw: "ann".into(),
            target: Some((owner, field.clone())),
            version: Version::new(7).unwrap(),
            attempts: 1,
            first: Timestamp(1_000),
            last: Timestamp(1_000),
            next: Timestamp(2_000),
            code: 0,
            message: String::new(),
        };
        let errors = [(field, error)];
        for (now, due) in [(999, true), (1_000, false), (1_999, false), (2_000, true)] {
            assert_eq!(is_due(&errors, Timestamp(now)), due, "at {now}");
        }
    }
}
