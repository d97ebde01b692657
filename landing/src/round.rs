//! The partitions that wait in one pass, and the failures of single ones.

use std::collections::VecDeque;
use std::sync::Mutex;

use storage_coalesce::locked;
use storage_model::Partition;
use storage_tiers::TierError;

use crate::failure::is_confined;

/// A partition that waits for a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingPartition {
    pub(crate) partition: Partition,
    /// Whether it has notes, or leads that a lost hot tier may have left.
    pub(crate) has_notes: bool,
}

/// The state that the tasks of one pass share.
#[derive(Debug)]
pub(crate) struct Round {
    /// Partitions that wait for a task.
    queue: Mutex<VecDeque<WaitingPartition>>,
    /// The first failure of a partition. The other partitions went on without it.
    failed: Mutex<Option<TierError>>,
}

impl Round {
    pub(crate) fn of(marked: VecDeque<WaitingPartition>) -> Self {
        Self {
            queue: Mutex::new(marked),
            failed: Mutex::default(),
        }
    }

    pub(crate) fn next(&self) -> Option<WaitingPartition> {
        locked(&self.queue).pop_front()
    }

    /// Takes a partition out of the queue.
    pub(crate) fn leave(&self, partition: Partition) {
        locked(&self.queue).retain(|waiting| waiting.partition != partition);
    }

    /// Skips the failed partitions, if the failure concerns only them.
    pub(crate) fn pass_over<T: Default>(
        &self,
        result: Result<T, TierError>,
    ) -> Result<T, TierError> {
        match result {
            Err(error) if is_confined(&error) => {
                locked(&self.failed).get_or_insert(error);
                Ok(T::default())
            }
            other => other,
        }
    }

    /// # Errors
    /// The first failure of a partition that was skipped.
    pub(crate) fn end(&self) -> Result<(), TierError> {
        locked(&self.failed).take().map_or(Ok(()), Err)
    }
}
