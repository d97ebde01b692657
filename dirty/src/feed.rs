//! Notes on their way to the database.

use async_trait::async_trait;
use std::fmt;
use storage_model::{Epoch, Event, Lead, Partition, Position};

use crate::{Bound, HotError, Lock};

/// Some notes of a partition, and the state of its stream. All is of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// The epoch.
    pub epoch: Epoch,
    /// The place of the last note that was ever written. [`Position::ZERO`] if there was none.
    pub last: Position,
    /// Whether lost leads were looked for in this epoch ([`Feed::resync`]).
    pub is_resynced: bool,
    /// The notes, in their order.
    pub events: Vec<Event>,
    /// Whether more notes follow.
    pub more: bool,
}

/// The notes of partitions. Each write that carries a note adds it to the stream of its partition,
/// in the same step ([`Mutation::note`](storage_model::Mutation::note)).
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Feed: fmt::Debug + Send + Sync {
    /// Reads notes after a position, up to a bound. A note above the bound comes alone. Fails under
    /// another incarnation.
    async fn notes(
        &self,
        partition: Partition,
        after: Position,
        bound: Bound,
    ) -> Result<Notes, HotError>;

    /// Writes an event [`Resync`](storage_model::Content::Resync) for each lead whose note is not in
    /// the stream. Then the hot tier remembers that leads were looked for in this epoch. Returns
    /// how many events it wrote. A repeated call can write an event again. Fails under another
    /// epoch or incarnation, or without the lock.
    async fn resync(
        &self,
        partition: Partition,
        lock: &Lock,
        epoch: Epoch,
        leads: &[Lead],
    ) -> Result<usize, HotError>;

    /// Remembers that notes have landed up to a position. If `drop`, drops them. Fails under another
    /// epoch or incarnation, or without the lock.
    async fn trim_notes(
        &self,
        partition: Partition,
        lock: &Lock,
        epoch: Epoch,
        upto: Position,
        drop: bool,
    ) -> Result<(), HotError>;
}
