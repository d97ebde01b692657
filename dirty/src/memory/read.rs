//! Reads of owner hashes.

use bytes::Bytes;
use storage_model::{Cell, Field, Owner, Position, Version};

use super::hash::OwnerHash;
use super::state::PartState;
use crate::{Fields, Header, HotRead};

/// The hash as it is.
#[must_use]
pub fn read(state: &PartState, owner: &Owner, fields: &Fields) -> HotRead {
    let cells = state
        .hashes
        .get(owner)
        .map(|hash| select(hash, fields))
        .unwrap_or_default();
    let tells = !matches!(fields, Fields::Live(_));
    let asked = |header: Header| {
        if tells {
            header
        } else {
            Header {
                born: Version::ZERO,
                noted: Position::ZERO,
                ..header
            }
        }
    };
    let header = state.header(owner).map(asked);
    HotRead { header, cells }
}

pub(super) fn select(hash: &OwnerHash, fields: &Fields) -> Vec<(Field, Cell)> {
    let all = || {
        hash.cells()
            .map(|(field, cell)| (field.clone(), cell.clone()))
    };
    let some = |asked: &[Field]| {
        asked
            .iter()
            .filter_map(|field| hash.cell(field).map(|cell| (field.clone(), cell.clone())))
            .collect::<Vec<_>>()
    };
    match fields {
        Fields::Live(asked) => some(asked)
            .into_iter()
            .filter(|(_, cell)| cell.live().is_some())
            .collect(),
        Fields::Cells(asked) => some(asked),
        Fields::All => all().collect(),
        Fields::Names => all().map(|(field, cell)| (field, emptied(&cell))).collect(),
    }
}

fn emptied(cell: &Cell) -> Cell {
    match cell {
        Cell::Live(_) => Cell::Live(Bytes::new()),
        Cell::Removed(_) => Cell::Removed(Bytes::new()),
        Cell::Purged => Cell::Purged,
    }
}
