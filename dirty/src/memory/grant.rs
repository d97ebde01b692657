//! What Redis' engine keeps of writes without a script (R17), for models: this engine itself has no use for such writes.

use std::collections::BTreeSet;

use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Version};

use super::hash::OwnerHash;
use super::state::PartState;

/// Who may change an owner without a script, or could since it was clean.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Grant {
    /// What the writer knows: the marks that stand for its writes. None if the grant has ended.
    pub(super) marks: Option<BTreeSet<Vec<Field>>>,
    /// Since which version; of one that has ended the last version that may have been written so.
    pub(super) since: Version,
}

impl Grant {
    fn covers(&self, mark: Version) -> bool {
        self.marks.is_some() && mark >= self.since
    }
}

/// An owner's hash, if it may be that what it says of its grant holds: whoever wrote one from before a rewind was told of that.
pub(super) fn believed<'a>(state: &'a PartState, owner: &Owner) -> Option<&'a OwnerHash> {
    let generation = state.record.as_ref().map(|record| record.generation).unwrap_or_default();
    state.hashes.get(owner).filter(|hash| hash.generation >= generation)
}

/// Whether a mark of this version may stand for a write without a script.
pub(super) fn is_covered(hash: Option<&OwnerHash>, mark: Version) -> bool {
    hash.and_then(|hash| hash.grant.as_ref()).is_some_and(|grant| grant.covers(mark))
}

/// Whether a mark may stand for such a write that came after its owner was read at version `read`.
pub(super) fn is_behind(hash: Option<&OwnerHash>, mark: Version, read: Version) -> bool {
    let Some((hash, grant)) = hash.and_then(|hash| Some((hash, hash.grant.as_ref()?))) else { return false };
    let by_now = grant.covers(mark) && !broken("R17-behind");
    let before = grant.since > read && !broken("R17-ended");
    hash.version != read && (by_now || before)
}

/// Ends the grant of a hash that is changed otherwise.
pub(super) fn end(hash: &mut OwnerHash) {
    if let Some(Grant { marks: marks @ Some(_), since }) = &mut hash.grant {
        (*marks, *since) = (None, hash.version);
    }
}

/// Ends the grant of an owner that covers a mark which goes.
pub(super) fn let_go(state: &mut PartState, owner: &Owner, mark: Version) {
    if is_covered(believed(state, owner), mark) && !broken("R17-settle") {
        state.hashes.edit(owner, end);
    }
}

/// What every writer of the partition is told: it knows of no marks any more. Hashes keep that they were granted.
pub(super) fn forget(state: &mut PartState) {
    let granted: Vec<Owner> =
        state.hashes.iter().filter(|(_, hash)| hash.grant.is_some()).map(|(owner, _)| owner.clone()).collect();
    for owner in granted {
        state.hashes.edit(&owner, |hash| {
            if let Some(Grant { marks: Some(marks), .. }) = &mut hash.grant {
                marks.clear();
            }
        });
    }
}
