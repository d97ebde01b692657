//! The database that the hot tier belongs to.

use super::store::MemoryStore;
use crate::{HotPaired, HotPairing};
use storage_coalesce::locked;

/// The address of the memory of any process, for messages and for the database's record.
pub const ADDRESS: &str = "the memory of one process";

impl MemoryStore {
    /// The database that the store belongs to, and the name of its server.
    pub(super) fn read_pairing(&self) -> HotPairing {
        HotPairing {
            incarnation: self.server(),
            now: self.now(),
            number: 0,
            prefix: self.prefix().to_owned(),
            address: ADDRESS.to_owned(),
            paired: *locked(&self.paired),
        }
    }

    /// Records the database, if server and token are still those seen.
    pub(super) fn write_pairing(&self, seen: &HotPairing, new: HotPaired) -> bool {
        let mut paired = locked(&self.paired);
        let same = self.server() == seen.incarnation && *paired == seen.paired;
        if same {
            *paired = Some(new);
        }
        same
    }
}
