//! Landed marks that stay for a while, since the database may forget what it committed (H33).
//!
//! A settled mark moves to the map of the present window and keeps its owner's hash. When the window has lasted the period it
//! ends: its marks become those that leave, and stay for another period. Then the database is looked at once more. If it still is
//! the one that the partition was landed to, it has kept the commits for so long that it keeps them for good, and the marks go. A
//! change of the epoch, whatever it comes from, makes all of them live again.

use storage_model::{Epoch, Partition, Timestamp};

use crate::{Entry, Lock};

/// How far the probation of a partition's landed marks is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probation {
    /// No mark is on probation.
    Empty,
    /// None has been for long enough.
    Waits,
    /// The epoch changed: all are to become live again.
    Lost,
    /// The probation of the leaving marks has ended.
    Ended(Window),
}

/// Marks whose probation ends together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// The epoch in which all of them were settled.
    pub epoch: Epoch,
    /// When the last of them was settled, or later; in the hot tier's time.
    pub end: Timestamp,
}

/// Leaving marks whose probation ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acquit {
    /// The partition that all of it belongs to.
    pub partition: Partition,
    /// The worker's lock.
    pub lock: Lock,
    /// The window that had ended before the database was looked at.
    pub window: Window,
    /// The marks, with the versions they had when they were read.
    pub entries: Vec<Entry>,
}
