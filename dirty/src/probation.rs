//! Landed marks that stay for a while, because the database may forget its commits (H33).
//!
//! A settled mark moves to the map of the present window and keeps its owner's hash. As soon as no
//! window is expiring, the present window leaves. Its marks then stay for a period. The worker
//! measures the period by its own clock, since the hot tier's clock may leap (H11).
//!
//! After the period the worker checks the database once more. If the partition landed to this same
//! database, the database has kept the commits for a period and keeps them for good. Then the marks
//! go. Any change of the epoch makes all of the marks live again.

use async_trait::async_trait;
use std::fmt;
use storage_model::{Epoch, Partition};

use crate::{Entry, HotError, Lock};

/// The marks on probation.
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Probations: fmt::Debug + Send + Sync {
    /// Says which of a partition's landed marks leave probation next. If none are expiring, all
    /// marks that are on probation now become the next. Fails under another incarnation or without
    /// the lock.
    async fn probation(&self, partition: Partition, lock: &Lock) -> Result<Probation, HotError>;

    /// Ends the probation of expiring marks. Returns how many went. An owner that no map names any
    /// more gets the time to live of landed data, or is evicted if that was requested. Marks of
    /// another window stay. Fails under another epoch or incarnation, or without the lock.
    async fn expire(&self, expire: &Expire) -> Result<u32, HotError>;

    /// Makes marks on probation live again, after a change of the epoch. Returns how many. If the
    /// dirty map has a mark of the same name, the two become one, with the fields of both and the
    /// greater version.
    ///
    /// Does nothing if the epoch did not change, or if all marks from before the change are live
    /// again. Fails under another incarnation or without the lock.
    async fn requeue(
        &self,
        partition: Partition,
        lock: &Lock,
        entries: &[Entry],
    ) -> Result<u32, HotError>;
}

/// The state of a partition's marks on probation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probation {
    /// No mark is on probation.
    Empty,
    /// The epoch changed. All marks on probation must become live again.
    Lost,
    /// The marks of this window go next, a period after a worker first saw them leave.
    Leaves(Window),
}

/// Marks whose probation ends together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// The epoch in which all of them were settled.
    pub epoch: Epoch,
    /// The number of the window, counted by the hot tier. It has a meaning only together with the
    /// epoch.
    pub number: u64,
}

/// Expiring marks whose probation ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expire {
    /// The partition of all the marks.
    pub partition: Partition,
    /// The worker's lock.
    pub lock: Lock,
    /// The window. It had been expiring for a period before the database was checked.
    pub window: Window,
    /// The marks, with the versions they had when they were read.
    pub entries: Vec<Entry>,
}
