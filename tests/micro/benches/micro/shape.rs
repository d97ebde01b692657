//! The data of the measurements: owners of 1 or 8 fields, values of 64 bytes or 1 KiB, batches of
//! 1,000 rows.

use std::fmt;

use anyhow::Context;
use storage_model::{Bytes, Cell, Field, Owner, Row, Version};

/// The number of rows of a batch. A landing takes as many by default.
pub(crate) const ROWS: usize = 1_000;

/// The number of fields of an owner, and the size of each value in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) fields: usize,
    pub(crate) bytes: usize,
}

/// Every shape.
pub(crate) const SHAPES: [Shape; 4] = [
    Shape {
        fields: 1,
        bytes: 64,
    },
    Shape {
        fields: 8,
        bytes: 64,
    },
    Shape {
        fields: 1,
        bytes: 1 << 10,
    },
    Shape {
        fields: 8,
        bytes: 1 << 10,
    },
];

/// The part of a benchmark's name that says its shape.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}B", self.fields, self.bytes)
    }
}

/// A player with usual names.
pub(crate) fn owner(id: &str) -> anyhow::Result<Owner> {
    Ok(Owner::new("mygame", "eu-1", "player", id)?)
}

/// Fields in order. Their names have about ten bytes.
pub(crate) fn fields(count: usize) -> anyhow::Result<Vec<Field>> {
    (0..count)
        .map(|number| Ok(Field::new(&format!("inventory{number}"))?))
        .collect()
}

/// The owners of a batch of [`ROWS`] rows, each with this number of fields. They come in no order,
/// as marks do from a scan, but in the same one each time.
pub(crate) fn owners(fields: usize) -> anyhow::Result<Vec<Owner>> {
    const STRIDE: usize = 617; // prime, so that each owner comes once
    let count = ROWS / fields;
    (0..count)
        .map(|number| owner(&(100_000 + number * STRIDE % count).to_string()))
        .collect()
}

/// The rows of a batch. Rows of one owner are neighbours. No two share a value in memory.
pub(crate) fn rows(shape: Shape) -> anyhow::Result<Vec<Row>> {
    let version = version()?;
    let mut rows = Vec::new();
    for owner in owners(shape.fields)? {
        for field in fields(shape.fields)? {
            let cell = Cell::Live(Bytes::from(vec![b'v'; shape.bytes]));
            rows.push(Row {
                owner: owner.clone(),
                field,
                cell,
                version,
            });
        }
    }
    Ok(rows)
}

/// A version of today's size.
pub(crate) fn version() -> anyhow::Result<Version> {
    Version::new(1_800_000_000_000_000).context("the version is too large")
}
