//! Owner hashes: cells, size, time to live.

use std::collections::{BTreeMap, BTreeSet};

use storage_model::{Cell, Epoch, Field, Owner, Position, Timestamp, Version};

use crate::Header;

/// One owner's data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OwnerHash {
    /// The version of the last write.
    pub(super) version: Version,
    /// The hash's number, if a map named the owner when the hash was made. Older marks belong to a
    /// hash that was lost (R6).
    pub(super) born: Version,
    /// The place of the owner's last note, since the hash was made.
    pub(super) noted: Position,
    /// Whether every field that has a row is in the hash.
    pub(super) complete: bool,
    /// The generation under which the hash was written or compared.
    pub(super) generation: Epoch,
    /// When the hash expires. `None` while a map names the owner or a session holds it (R2).
    pub(super) expires: Option<Timestamp>,
    cells: BTreeMap<Field, Cell>,
    cell_bytes: usize,
}

impl OwnerHash {
    /// An empty hash of this version.
    pub(super) fn new(version: Version, generation: Epoch) -> Self {
        Self {
            version,
            born: Version::ZERO,
            noted: Position::ZERO,
            complete: false,
            generation,
            expires: None,
            cells: BTreeMap::new(),
            cell_bytes: 0,
        }
    }

    /// The header of the hash in a partition of this generation.
    pub(super) fn header(&self, generation: Epoch) -> Header {
        Header {
            version: self.version,
            complete: self.complete,
            generation: self.generation,
            suspect: self.generation < generation,
            born: self.born,
            noted: self.noted,
        }
    }

    pub(super) fn cell(&self, field: &Field) -> Option<&Cell> {
        self.cells.get(field)
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = (&Field, &Cell)> {
        self.cells.iter()
    }

    /// Drops all cells of other fields.
    pub(super) fn keep_only(&mut self, fields: &BTreeSet<Field>) {
        self.cells.retain(|field, _| fields.contains(field));
        self.cell_bytes = self
            .cells
            .iter()
            .map(|(field, cell)| cell_bytes(field.as_str().len(), cell))
            .fold(0, usize::saturating_add);
    }

    pub(super) fn set(&mut self, field: Field, cell: Cell) {
        let name = field.as_str().len();
        self.cell_bytes = self.cell_bytes.saturating_add(cell_bytes(name, &cell));
        if let Some(old) = self.cells.insert(field, cell) {
            self.cell_bytes = self.cell_bytes.saturating_sub(cell_bytes(name, &old));
        }
    }
}

/// The approximate bytes of one cell under a name of `name` bytes.
pub(super) fn cell_bytes(name: usize, cell: &Cell) -> usize {
    const CELL_OVERHEAD_BYTES: usize = 96;
    CELL_OVERHEAD_BYTES
        .saturating_add(name)
        .saturating_add(cell.value().len())
}

/// The approximate bytes of an empty hash.
pub(super) const HASH_OVERHEAD_BYTES: usize = 256;

/// The hashes of a partition, sorted by owner and by expiry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Hashes {
    map: BTreeMap<Owner, OwnerHash>,
    // The hashes with a time to live, that is, the landed ones. The time to live is always the same
    // and starts again with each use. So the first hash to expire is also the least recently used.
    ends: BTreeSet<(Timestamp, Owner)>,
    bytes: usize,
}

impl Hashes {
    pub(super) fn get(&self, owner: &Owner) -> Option<&OwnerHash> {
        self.map.get(owner)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Owner, &OwnerHash)> {
        self.map.iter()
    }

    pub(super) fn put(&mut self, owner: Owner, hash: OwnerHash) {
        self.remove(&owner);
        self.bytes = self
            .bytes
            .saturating_add(HASH_OVERHEAD_BYTES)
            .saturating_add(hash.cell_bytes);
        if let Some(end) = hash.expires {
            self.ends.insert((end, owner.clone()));
        }
        self.map.insert(owner, hash);
    }

    pub(super) fn remove(&mut self, owner: &Owner) -> Option<OwnerHash> {
        let hash = self.map.remove(owner)?;
        self.bytes = self
            .bytes
            .saturating_sub(HASH_OVERHEAD_BYTES)
            .saturating_sub(hash.cell_bytes);
        if let Some(end) = hash.expires {
            self.ends.remove(&(end, owner.clone()));
        }
        Some(hash)
    }

    /// Changes the owner's hash, if there is one.
    pub(super) fn edit(&mut self, owner: &Owner, change: impl FnOnce(&mut OwnerHash)) {
        if let Some(mut hash) = self.remove(owner) {
            change(&mut hash);
            self.put(owner.clone(), hash);
        }
    }

    /// The least recently used landed hash, except that of `but`.
    pub(super) fn coldest(&self, but: Option<&Owner>) -> Option<Owner> {
        self.ends
            .iter()
            .map(|(_, owner)| owner)
            .find(|owner| Some(*owner) != but)
            .cloned()
    }

    /// Drops expired hashes.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        while let Some((_, owner)) = self.ends.first().filter(|(end, _)| *end <= now).cloned() {
            self.remove(&owner);
        }
    }
}
