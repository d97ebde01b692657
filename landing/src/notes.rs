//! Notes on their way to the feed: the next ones of a partition, and those that have landed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use storage_coalesce::locked;
use storage_dirty::{Bound, HotError, Notes, SnapshotId};
use storage_model::{Content, Epoch, Event, Owner, Partition, Position};
use storage_tiers::TierError;
use tokio::time::Instant;

use crate::marks::{LandingPart, PartNotes};
use crate::worker::Worker;

/// How often the database is asked for the leads of a partition without work.
const LEADS_EVERY: Duration = Duration::from_secs(60);

/// Where a task is in the notes of a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotesAt {
    /// The end of the feed, or the last note that was read.
    after: Position,
    /// The last note that was written before the snapshot was taken. All rows of notes up to there
    /// are in the snapshot, or have landed. [`Position::ZERO`] if the snapshot was left over.
    until: Position,
    epoch: Epoch,
    /// Whether all marks of the snapshot have landed or were rejected.
    is_scanned: bool,
    /// Whether the next notes must wait for that.
    waits: bool,
}

impl NotesAt {
    /// The snapshot was left over, so it lacks marks of the latest notes.
    pub(crate) fn with_leftover(&mut self) {
        self.until = Position::ZERO;
    }

    /// No mark of the snapshot is left, so no note has to wait any more.
    pub(crate) fn scanned(&mut self) {
        (self.is_scanned, self.waits) = (true, false);
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.waits
    }
}

/// The most bytes of notes that one call reads.
const NOTES_BYTES: usize = 1 << 20;
/// Above any epoch.
const EVERY_EPOCH: Epoch = Epoch(u64::MAX >> 1);
/// The most events of a partition that are dropped at a time.
const EVENTS_DROPPED: usize = 1_000;

impl Worker {
    /// Where the notes of a partition begin, before its snapshot is taken. First sees to the leads
    /// that a lost hot tier has left, and to notes that have landed already.
    pub(crate) async fn open_notes(
        &self,
        partition: Partition,
    ) -> Result<Option<NotesAt>, TierError> {
        let ends = self.tiers.cold().events.feeds(&[partition]).await?;
        let after = ends.first().map(|ends| ends.last).unwrap_or_default();
        let notes = self.read_head(partition, after).await?;
        if !notes.is_resynced {
            self.resync(partition, notes.epoch).await?;
        }
        self.trim(partition, notes.epoch, after).await?;
        Ok(Some(NotesAt {
            after,
            until: notes.last,
            epoch: notes.epoch,
            is_scanned: false,
            waits: false,
        }))
    }

    /// Compares partitions without work whose rows are ahead of notes. Nobody else may use such a
    /// partition any more, and the hot tier may have lost the notes. Then the partition gets another
    /// epoch, and the next pass tells readers. A partition is asked about once a minute, and at once if
    /// it has lost its record.
    pub(crate) async fn compare_leading(
        &self,
        quiet: &[(Partition, bool)],
    ) -> Result<(), TierError> {
        let mut leading = Vec::new();
        for partition in self.landed_notes.unasked(quiet) {
            let leads = self.tiers.cold().events.leads(partition, EVERY_EPOCH).await;
            if leads
                .inspect_err(|_| self.landed_notes.ask_again())?
                .is_empty()
            {
                continue;
            }
            leading.push(partition);
        }
        if leading.is_empty() {
            return Ok(());
        }
        let prepared = self.tiers.prepare(&leading).await;
        prepared.inspect_err(|_| self.landed_notes.ask_again())
    }

    /// The head of a partition's notes, read with the first of them behind a position.
    async fn read_head(&self, partition: Partition, after: Position) -> Result<Notes, TierError> {
        let bound = Bound { rows: 1, bytes: 0 };
        match self.tiers.hot().feed.notes(partition, after, bound).await {
            Ok(notes) => Ok(notes),
            Err(error) => {
                self.tiers.prepare_after(error).await?;
                Ok(self.tiers.hot().feed.notes(partition, after, bound).await?)
            }
        }
    }

    /// Writes an event for each lead whose note is lost.
    async fn resync(&self, partition: Partition, epoch: Epoch) -> Result<(), TierError> {
        let leads = self.tiers.cold().events.leads(partition, epoch).await?;
        let (hot, lock) = (self.tiers.hot(), self.claims.lock());
        let owners = hot.feed.resync(partition, lock, epoch, &leads).await?;
        if owners > 0 {
            tracing::warn!(
                partition = partition.0,
                owners,
                "rows of these owners hold changes whose notes were lost with the hot tier: the feed tells readers to read them again"
            );
        }
        Ok(())
    }

    /// The next notes, with the marks of their owners, and where the notes behind them begin. No part
    /// if no note can land now.
    pub(crate) async fn next_notes(
        &self,
        partition: Partition,
        snapshot: SnapshotId,
        at: NotesAt,
    ) -> Result<(Option<LandingPart>, Option<NotesAt>), TierError> {
        // As many notes as a batch has marks, since the rows of their owners land with them.
        let bound = Bound {
            rows: self.limiter.rows(),
            bytes: self.limits.batch.bytes.min(NOTES_BYTES),
        };
        let notes = self
            .tiers
            .hot()
            .feed
            .notes(partition, at.after, bound)
            .await?;
        let gaps_upto = at.is_scanned.then_some(at.until);
        let mut events = beyond(partition, at.after, &notes, gaps_upto);
        tell_large(&mut events, self.tiers.cold().landing.value_bytes_max());
        let Some(last) = events.last().map(|event| event.position) else {
            let waits = notes.last.number > at.after.number && !at.is_scanned;
            return Ok((None, waits.then_some(NotesAt { waits, ..at })));
        };
        // ORDER: marks after notes. A note's owner was marked in the same step, so its marks are
        // found, or they have landed since.
        let owners = owners_of(&events);
        let marked = self.tiers.hot().marks.marks_of(partition, &owners).await?;
        let part = LandingPart {
            partition,
            snapshot,
            entries: marked.snapshot,
            replay: false,
            notes: Some(PartNotes {
                after: at.after,
                epoch: at.epoch,
                events,
                marked: marked.dirty,
            }),
        };
        let next = NotesAt { after: last, ..at };
        Ok((Some(part), (last < notes.last).then_some(next)))
    }

    /// Drops notes up to the end of the feed. While the database may forget commits, they stay for
    /// the time of a probation.
    pub(crate) async fn trim(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Position,
    ) -> Result<(), TierError> {
        let mut upto = (epoch, landed);
        if self.tiers.has_probation() {
            let seen = self
                .landed_notes
                .seen(partition, upto, self.tiers.probation());
            self.landed_upto(partition, epoch, landed, false).await?;
            let Some(kept) = seen else { return Ok(()) };
            // ORDER: the database after the period. If it is still the same, it has kept the notes.
            self.tiers.prepare(&[partition]).await?;
            upto = kept;
        }
        self.landed_upto(partition, upto.0, upto.1, true)
            .await
            .map_err(TierError::from)
    }

    /// Drops events of these partitions that have been in the database for long enough, some at a
    /// time.
    pub(crate) async fn drop_old_events(&self, partitions: &[Partition]) -> Result<(), TierError> {
        let cold = self.tiers.cold();
        for ends in cold.events.feeds(partitions).await? {
            if ends.last > ends.trimmed {
                let keep = self.tiers.events_kept();
                let mut dropped = EVENTS_DROPPED;
                while dropped == EVENTS_DROPPED && !self.claims.is_closed() {
                    let some = cold
                        .events
                        .drop_events(ends.partition, keep, EVENTS_DROPPED);
                    dropped = some.await?;
                }
            }
        }
        Ok(())
    }

    /// Tells the hot tier that notes have landed, up to a position. Drops them, if told so.
    pub(crate) async fn landed_upto(
        &self,
        partition: Partition,
        epoch: Epoch,
        upto: Position,
        drop: bool,
    ) -> Result<(), HotError> {
        if upto == Position::ZERO {
            return Ok(());
        }
        let (hot, lock) = (self.tiers.hot(), self.claims.lock());
        hot.feed
            .trim_notes(partition, lock, epoch, upto, drop)
            .await
    }
}

/// In place of a note whose body the database can't take any more, readers are told to read the
/// owner. Otherwise the note would hold up all others.
fn tell_large(events: &mut [Event], bytes_max: usize) {
    for event in events {
        if let Content::Note(note) = &event.content
            && note.body.len() > bytes_max
        {
            let owner = note.owner.clone();
            tracing::error!(
                %owner,
                bytes = note.body.len(),
                "the body of a note is larger than the database takes: the feed tells readers to read the owner"
            );
            event.content = Content::Resync { owner };
        }
    }
}

/// The owners of events, each once.
fn owners_of(events: &[Event]) -> Vec<Owner> {
    let owners = events.iter().filter_map(|event| match &event.content {
        Content::Note(note) => Some(&note.owner),
        Content::Resync { owner } => Some(owner),
        _ => None,
    });
    let mut owners: Vec<Owner> = owners.cloned().collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

fn gap(partition: Partition, position: Position) -> Event {
    Event {
        partition,
        position,
        content: Content::Gap,
    }
}

/// The events to add behind a position. Where numbers are missing, notes were deleted from the hot
/// tier by hand, or came too late with an older copy of it. An event says so.
///
/// A row whose note was deleted must land before that event. Otherwise the row is never told. So
/// events end before a gap that lies beyond `gaps_upto`.
#[must_use]
pub fn beyond(
    partition: Partition,
    after: Position,
    notes: &Notes,
    gaps_upto: Option<Position>,
) -> Vec<Event> {
    let is_told = |position: &Position| gaps_upto.is_some_and(|upto| *position <= upto);
    let (mut before, mut added) = (after, Vec::new());
    for event in &notes.events {
        let Position { epoch, number } = event.position;
        if number > before.number.saturating_add(1) {
            let number = number - 1;
            let position = Position { epoch, number };
            if !is_told(&position) {
                return added;
            }
            added.push(gap(partition, position));
        }
        before = event.position;
        added.push(event.clone());
    }
    let is_missing = !notes.more && notes.last.number > before.number;
    if is_missing && is_told(&notes.last) {
        added.push(gap(partition, notes.last));
    }
    added
}

/// An end of a feed, and the epoch in which it was seen.
type End = (Epoch, Position);

/// The ends of feeds that a worker saw, and when. By the worker's own clock, which nobody sets.
#[derive(Debug, Default)]
pub(crate) struct LandedNotes {
    // A plain mutex: held for map operations only, never across an await.
    seen: Mutex<BTreeMap<Partition, VecDeque<(Instant, End)>>>,
    /// Partitions without work: when the database was asked for their leads, and whether they had a
    /// record.
    asked: Mutex<BTreeMap<Partition, (Instant, bool)>>,
}

impl LandedNotes {
    /// The partitions of these to ask about now. Each comes with whether it has a record.
    fn unasked(&self, quiet: &[(Partition, bool)]) -> Vec<Partition> {
        let mut asked = locked(&self.asked);
        let idle: BTreeSet<Partition> = quiet.iter().map(|(partition, _)| *partition).collect();
        for (at, (_, has_record)) in &mut *asked {
            // A partition with work has its record.
            *has_record |= !idle.contains(at);
        }
        let mut due = Vec::new();
        for (partition, has_record) in quiet.iter().copied() {
            let (at, had_record) = asked.get(&partition).copied().unzip();
            let is_recent = at.is_some_and(|at: Instant| at.elapsed() < LEADS_EVERY);
            if is_recent && (has_record || had_record == Some(false)) {
                continue;
            }
            due.push(partition);
            asked.insert(partition, (Instant::now(), has_record));
        }
        due
    }

    fn ask_again(&self) {
        let mut asked = locked(&self.asked);
        asked.clear();
    }

    /// Notes that the feed has this end now. Returns the last end that was seen a period ago.
    fn seen(&self, partition: Partition, end: End, period: Duration) -> Option<End> {
        let mut all = locked(&self.seen);
        let seen = all.entry(partition).or_default();
        if seen.back().is_none_or(|(_, last)| *last != end) {
            seen.push_back((Instant::now(), end));
        }
        let mut kept = None;
        while let Some((since, end)) = seen.front().copied() {
            if since.elapsed() < period {
                break;
            }
            kept = Some(end);
            seen.pop_front();
        }
        // An end of another epoch proves nothing: the database may have forgotten it.
        kept.filter(|(epoch, _)| *epoch == end.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition is asked about at once if it has lost its record since, also if it had work in
    /// between.
    #[test]
    fn a_partition_without_work_is_asked_about_once_until_it_loses_its_record() {
        let (landed, one, two) = (LandedNotes::default(), Partition(1), Partition(2));
        assert_eq!(landed.unasked(&[(one, false), (two, true)]), [one, two]);
        assert_eq!(landed.unasked(&[(one, false), (two, true)]), []);
        assert_eq!(landed.unasked(&[(one, false), (two, false)]), [two]);
        // It has work now, so it has a record.
        assert_eq!(landed.unasked(&[(two, false)]), []);
        assert_eq!(landed.unasked(&[(one, false), (two, false)]), [one]);
        landed.ask_again();
        assert_eq!(landed.unasked(&[(one, false), (two, true)]), [one, two]);
    }

    fn notes(places: &[(u64, u64)], last: (u64, u64)) -> Notes {
        let event = |(epoch, number): &(u64, u64)| Event {
            partition: Partition(0),
            position: Position::new(*epoch, *number),
            content: Content::Resync {
                owner: Owner::new("a", "r", "t", "1").unwrap(),
            },
        };
        Notes {
            epoch: Epoch(last.0),
            last: Position::new(last.0, last.1),
            is_resynced: true,
            events: places.iter().map(event).collect(),
            more: false,
        }
    }

    fn places(after: (u64, u64), notes: &Notes, upto: Option<(u64, u64)>) -> Vec<(u64, u64, bool)> {
        let position = |(epoch, number)| Position::new(epoch, number);
        let added = beyond(Partition(0), position(after), notes, upto.map(position));
        let place = |event: &Event| {
            let Position { epoch, number } = event.position;
            (epoch.0, number, event.content == Content::Gap)
        };
        added.iter().map(place).collect()
    }

    #[test]
    fn numbers_without_a_gap_are_taken_as_they_are() {
        let some = notes(&[(1, 3), (2, 4)], (2, 4));
        assert_eq!(places((1, 2), &some, None), [(1, 3, false), (2, 4, false)]);
        assert_eq!(places((2, 4), &notes(&[], (2, 4)), None), []);
        assert_eq!(places((1, 100), &notes(&[], (2, 100)), None), []);
    }
}
