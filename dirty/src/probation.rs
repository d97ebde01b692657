//! Landed marks that stay for a while, since the database may forget what it committed (H33).
//!
//! A settled mark moves to the map of the present window and keeps its owner's hash. As soon as no
//! window leaves, the present one does: its marks stay for a period, which the worker measures by
//! its own clock, since the hot tier's may leap (H11). Then the database is looked at once more. If
//! it still is the one that the partition was landed to, it has kept the commits for so long that
//! it keeps them for good, and the marks go. A change of the epoch, whatever it comes from, makes
//! all of them live again.

use storage_model::{Epoch, Partition};

use crate::{Entry, Lock};

/// How far the probation of a partition's landed marks is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probation {
    /// No mark is on probation.
    Empty,
    /// The epoch changed: all are to become live again.
    Lost,
    /// The marks of this window go next, a period after they were first seen to leave.
    Leaves(Window),
}

/// Marks whose probation ends together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// The epoch in which all of them were settled.
    pub epoch: Epoch,
    /// How many windows there were. Counted by the hot tier, so it means something only together
    /// with the epoch.
    pub number: u64,
}

/// Leaving marks whose probation ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acquit {
    /// The partition that all of it belongs to.
    pub partition: Partition,
    /// The worker's lock.
    pub lock: Lock,
    /// The window that had left for a period before the database was looked at.
    pub window: Window,
    /// The marks, with the versions they had when they were read.
    pub entries: Vec<Entry>,
}
