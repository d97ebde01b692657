//! The keys and slots of one engine.

use storage_model::{Owner, Partition};

use super::slot::slot_of;
use crate::key::Keys;

/// The keys by partition, and the slot of each partition.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    pub(crate) keys: Keys,
    slots: Vec<u16>,
}

impl Space {
    pub(crate) fn new(prefix: &str, partitions: u32) -> Self {
        let keys = Keys::new(prefix);
        let slots = (0..partitions.max(1))
            .map(|number| slot_of(keys.part(Partition(number)).as_bytes()))
            .collect();
        Self { keys, slots }
    }

    pub(crate) fn partitions(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// The slot of all keys of a partition.
    pub(crate) fn slot(&self, partition: Partition) -> u16 {
        let known = usize::try_from(partition.0)
            .ok()
            .and_then(|number| self.slots.get(number));
        known
            .copied()
            .unwrap_or_else(|| slot_of(self.keys.part(partition).as_bytes()))
    }

    pub(crate) fn partition(&self, owner: &Owner) -> Partition {
        owner.partition(self.partitions())
    }

    /// The partition of each owner.
    pub(crate) fn partitions_of(&self, owners: &[Owner]) -> Vec<Partition> {
        owners.iter().map(|owner| self.partition(owner)).collect()
    }
}
