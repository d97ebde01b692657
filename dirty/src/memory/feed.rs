//! Notes: the stream of a partition.

use std::collections::BTreeMap;
use std::ops::Bound as End;

use async_trait::async_trait;
use storage_model::{Content, Epoch, Event, Lead, Note, Partition, Position};

use super::lock::require;
use super::partition::{current, in_epoch};
use super::state::{PartState, Present};
use super::store::MemoryStore;
use crate::{Bound, Feed, HotError, Lock, Notes};

/// The approximate bytes of a note beside its body.
const NOTE_OVERHEAD_BYTES: usize = 256;

#[async_trait]
impl Feed for MemoryStore {
    async fn notes(
        &self,
        partition: Partition,
        after: Position,
        bound: Bound,
    ) -> Result<Notes, HotError> {
        self.run(partition, "notes", |state, _| {
            notes(state, partition, after, bound)
        })?
    }

    async fn resync(
        &self,
        partition: Partition,
        lock: &Lock,
        epoch: Epoch,
        leads: &[Lead],
    ) -> Result<usize, HotError> {
        self.run(partition, "resync", |state, present| {
            resync(state, present, partition, lock, epoch, leads)
        })?
    }

    async fn trim_notes(
        &self,
        partition: Partition,
        lock: &Lock,
        epoch: Epoch,
        upto: Position,
        drop: bool,
    ) -> Result<(), HotError> {
        self.run(partition, "trim_notes", |state, present| {
            trim_notes(state, present, partition, lock, epoch, upto, drop)
        })?
    }
}

/// The notes of a partition that have not been dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Stream {
    entries: BTreeMap<Position, Content>,
    /// The place of the last note that was ever written.
    last: Position,
    /// How far notes have landed.
    noted: Position,
    /// The place of the gap that tells the notes of a store that came back older than the feed.
    older: Option<Position>,
    /// The epoch in which lost leads were looked for.
    resynced: Epoch,
    bytes: usize,
}

impl Stream {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn last(&self) -> Position {
        self.last
    }

    pub(super) fn noted(&self) -> Position {
        self.noted
    }

    pub(super) fn older(&self) -> Option<Position> {
        self.older
    }

    pub(super) fn is_resynced(&self, epoch: Epoch) -> bool {
        self.resynced == epoch
    }

    /// Adds a note and returns its place.
    pub(super) fn add(&mut self, epoch: Epoch, content: Content) -> Position {
        self.last = Position {
            epoch,
            number: self.last.number.saturating_add(1),
        };
        self.bytes = self.bytes.saturating_add(size(&content));
        self.entries.insert(self.last, content);
        self.last
    }

    /// A new epoch begins. The feed reaches this far. Numbers go on above those of both tiers. One is
    /// left out if the store is older than the feed, which can't take its notes any more (F5).
    pub(super) fn adopt(&mut self, epoch: Epoch, feed: Position, had_record: bool) {
        let is_older = had_record && self.last.epoch < feed.epoch;
        let number = self.last.number.max(feed.number);
        self.last = Position {
            epoch,
            number: number.saturating_add(u64::from(is_older)),
        };
        if is_older {
            self.older = Some(self.last);
        }
        self.noted = feed;
    }

    fn drop_upto(&mut self, upto: Position) {
        while let Some(first) = self.entries.first_entry() {
            if *first.key() > upto {
                return;
            }
            self.bytes = self.bytes.saturating_sub(size(&first.remove()));
        }
    }
}

fn size(content: &Content) -> usize {
    let body = match content {
        Content::Note(Note { body, .. }) => body.len(),
        _ => 0,
    };
    NOTE_OVERHEAD_BYTES.saturating_add(body)
}

/// Notes after a position.
///
/// # Errors
/// `Unprepared`.
pub fn notes(
    state: &PartState,
    partition: Partition,
    after: Position,
    bound: Bound,
) -> Result<Notes, HotError> {
    let epoch = current(state, partition, "notes")?.epoch;
    let stream = &state.notes;
    let (mut events, mut bytes, mut more) = (Vec::new(), 0_usize, false);
    for (position, content) in stream.entries.range((End::Excluded(after), End::Unbounded)) {
        bytes = bytes.saturating_add(size(content));
        if events.len() == bound.rows || !events.is_empty() && bytes > bound.bytes {
            more = true;
            break;
        }
        events.push(Event {
            partition,
            position: *position,
            content: content.clone(),
        });
    }
    Ok(Notes {
        epoch,
        last: stream.last,
        is_resynced: stream.is_resynced(epoch),
        events,
        more,
    })
}

/// Writes an event for each lead whose note is gone.
///
/// # Errors
/// `Unprepared`, `EpochMoved`, `LockLost`.
pub fn resync(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    lock: &Lock,
    epoch: Epoch,
    leads: &[Lead],
) -> Result<usize, HotError> {
    in_epoch(state, partition, epoch, "resync")?;
    require(state, present.now, partition, lock, "resync")?;
    let stream = &mut state.notes;
    let lost: Vec<&Lead> = leads
        .iter()
        .filter(|lead| !stream.entries.contains_key(&lead.position))
        .collect();
    for lead in &lost {
        let owner = lead.owner.clone();
        stream.add(epoch, Content::Resync { owner });
    }
    stream.resynced = epoch;
    Ok(lost.len())
}

/// Remembers that notes have landed, and drops them if told so.
///
/// # Errors
/// `Unprepared`, `EpochMoved`, `LockLost`.
pub fn trim_notes(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    lock: &Lock,
    epoch: Epoch,
    upto: Position,
    drop: bool,
) -> Result<(), HotError> {
    in_epoch(state, partition, epoch, "trim_notes")?;
    require(state, present.now, partition, lock, "trim_notes")?;
    state.notes.noted = upto;
    if drop {
        state.notes.drop_upto(upto);
    }
    Ok(())
}
