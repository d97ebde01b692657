//! The state of the whole model: both tiers, a replica, every process under way, and the oracle.

use std::sync::Arc;

use storage_dirty::memory::{PartState, Present, observe, partition, read};
use storage_dirty::{Fields, HotRead};
use storage_model::{Applied, Cell, Epoch, Field, HotId, Mutation, Timestamp};
use storage_sql::Raise;
use storage_tiers::{Need, need};

use crate::bounds::Bounds;
use crate::client::Client;
use crate::cold::Cold;
use crate::flush::Flush;
use crate::load::Asked;
use crate::names::{LATER, PARTITION, PRESENT, fields, owner};
use crate::prepare::{Preparer, adoption};
use crate::truth::{Effect, Truth, is_same};
use crate::worker::Worker;

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The hot tier's one partition, as the memory engine holds it.
    pub(super) hot: Arc<PartState>,
    /// A replica's copy of it.
    pub(super) copy: Option<Arc<PartState>>,
    pub(super) cold: Cold,
    pub(super) truth: Truth,
    pub(super) clients: Vec<Client>,
    /// A copy of a write that is held up on its way.
    pub(super) late: Option<Arc<Mutation>>,
    pub(super) workers: Vec<Worker>,
    pub(super) flush: Flush,
    pub(super) preparers: Vec<Preparer>,
    /// The number of servers that held the hot tier before this one.
    pub(super) replaced: u8,
    /// Whether time stands still.
    pub(super) stands: bool,
    pub(super) left: Left,
}

/// The rest of the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) writes: u8,
    pub(super) reads: u8,
    pub(super) flushes: u8,
    pub(super) crashes: u8,
    pub(super) deletes: u8,
    pub(super) vanishes: u8,
    pub(super) failovers: u8,
    pub(super) windows: u8,
    pub(super) losses: u8,
    pub(super) refusals: u8,
    pub(super) replies: u8,
    pub(super) late: u8,
}

impl World {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let mut hot = PartState::new("0".into());
        let mut cold = Cold::new();
        if bounds.stored {
            cold.store(fields(bounds.fields));
        }
        if !bounds.unprepared {
            let first = Raise {
                by: HotId::of("0"),
                ..Raise::by_one(PARTITION, Epoch(0))
            };
            cold.raise(first);
            let seen = partition::partition_state(&hot);
            partition::adopt(&mut hot, &PRESENT, &adoption(bounds, &cold, &seen, first));
        }
        let truth = Truth::new(
            fields(bounds.fields)
                .into_iter()
                .map(|field| (cold.cell(&field).cloned(), field)),
        );
        Self {
            hot: Arc::new(hot),
            copy: None,
            cold,
            truth,
            clients: vec![Client::Idle; bounds.clients],
            late: None,
            workers: vec![Worker::Idle; bounds.workers],
            flush: Flush::Idle,
            preparers: vec![Preparer::Idle; bounds.preparers],
            replaced: 0,
            stands: bounds.stands,
            left: bounds.left(),
        }
    }

    /// The hot tier, to be changed by a transition.
    pub(super) fn hot(&mut self) -> &mut PartState {
        Arc::make_mut(&mut self.hot)
    }

    /// Time moves only at a failover. So versions rise by two with each write, there are few of
    /// them, and none occurs twice. With `stands` it does not even move then.
    pub(super) fn present(&self) -> Present {
        let moved = u64::from(self.replaced) * u64::from(!self.stands);
        Present {
            now: Timestamp(100 * moved),
            ..PRESENT
        }
    }

    /// Whether both tiers' records agree.
    pub(super) fn is_prepared(&self, bounds: &Bounds) -> bool {
        need(
            &partition::partition_state(&self.hot),
            self.cold.record,
            bounds.probation,
            false,
        ) == Need::Nothing
    }

    /// The epoch and the generation that clients know. Both are 0 while the partition is not ready.
    pub(super) fn known(&self) -> (Epoch, Epoch) {
        let record = partition::partition_state(&self.hot)
            .record
            .filter(|_| self.is_ready());
        record
            .map(|record| (record.epoch, record.generation))
            .unwrap_or_default()
    }

    /// Whether the partition's record belongs to the server that holds it.
    pub(super) fn is_ready(&self) -> bool {
        observe::epoch(&self.hot, PARTITION).is_ok()
    }

    /// All cells of the owner's hash.
    pub(super) fn read(&self) -> HotRead {
        read::read(&self.hot, &owner(), &Fields::All)
    }

    /// A mutation was applied. Answers its effect, or why it must not have been applied so.
    pub(super) fn applied(
        &mut self,
        mutation: &Mutation,
        reply: &Applied,
    ) -> Result<Effect, String> {
        let effect = self.truth.apply(mutation, reply)?;
        if !effect.is_empty() {
            let read = self.read();
            let cold = &self.cold;
            let truth = &mut self.truth;
            truth.keeps_state(|field| known(&read, cold, field).cloned());
            // A hash that was deleted by hand while it landed may have landed after all.
            truth.keeps_state(|field| cold.cell(field).cloned());
        }
        Ok(effect)
    }

    /// After a failover: the owner goes on from its hash, or from its rows if they are newer.
    pub(super) fn goes_on(&mut self) {
        let read = self.read();
        let cold = &self.cold;
        if let Some(header) = read.header {
            self.truth
                .goes_on_from(header.version, |field| known(&read, cold, field).cloned());
        }
        self.truth
            .goes_on_from(cold.newest(), |field| cold.cell(field).cloned());
    }

    /// Whether a hash that a failover brought back was not compared with its rows since.
    pub(super) fn is_uncompared(&self) -> bool {
        let header = self.read().header;
        let is_suspect = header.is_some_and(|header| header.suspect || !self.is_ready());
        self.replaced > 0 && is_suspect
    }

    /// Ends the time to live of what has one. A hash that has not been compared leaves its rows alone.
    pub(super) fn swept(&self) -> Self {
        let mut next = self.clone();
        next.hot().sweep(LATER);
        if self.is_uncompared() && next.read().header.is_none() {
            let cold = &next.cold;
            next.truth
                .turns_to(cold.newest(), |field| cold.cell(field).cloned());
        }
        next
    }

    /// The fault of an answer to a reader of this moment: it is not the last write. A missing field
    /// proves nothing unless all fields were asked for and found, or this one was asked for.
    pub(super) fn wrong(&self, read: &HotRead, complete: bool, asked: &Asked) -> Option<String> {
        self.truth.fields().find_map(|(field, truth)| {
            let seen = held(read, field);
            let unseen = seen.is_none() && !complete && asked.as_ref() != Some(field);
            let right = is_same(truth, seen) || unseen || self.truth.is_deleted(field);
            (!right).then(|| format!("{field} reads as {seen:?} and is {truth:?}"))
        })
    }
}

/// A field of the whole owner: that of its hash, or its row if the hash is not complete.
fn known<'a>(read: &'a HotRead, cold: &'a Cold, field: &Field) -> Option<&'a Cell> {
    let is_complete = read.header.is_some_and(|header| header.complete);
    held(read, field).or_else(|| cold.cell(field).filter(|_| !is_complete))
}

/// A field of a read.
pub(super) fn held<'a>(read: &'a HotRead, field: &Field) -> Option<&'a Cell> {
    read.cells
        .iter()
        .find(|(name, _)| name == field)
        .map(|(_, cell)| cell)
}
