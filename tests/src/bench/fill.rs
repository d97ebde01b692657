//! Writes many owners, in bulks, through the storage.

use std::sync::Arc;

use anyhow::Result;
use storage_sdk::{ByteStorage, Bytes};

use super::load::{Operation, count};
use super::place::{Place, owner_id};
use super::plain::Fields;

/// The number of owners of one call.
const AT_ONCE: usize = 100;
/// The number of concurrent calls.
const TASKS: usize = 8;

/// Writes owners of a series. Each turn writes the next ones.
#[derive(Debug, Clone)]
pub struct Fill {
    storage: ByteStorage,
    series: Arc<str>,
    owners: usize,
    fields: Arc<[(String, Bytes)]>,
}

impl Fill {
    /// Fills with owners of a series, each with these fields.
    ///
    /// # Errors
    /// A place can't have such owners.
    pub fn new(place: &Place, series: &str, owners: usize, fields: &Fields) -> Result<Self> {
        let fields = fields
            .iter()
            .map(|(field, value)| (field.clone(), Bytes::from(value.clone())))
            .collect();
        Ok(Self {
            storage: place.storage.world("game", "eu")?.bytes(),
            series: Arc::from(series),
            owners,
            fields,
        })
    }

    /// Writes the owners of these numbers in one call.
    ///
    /// # Errors
    /// A write fails.
    pub async fn write(&self, numbers: impl Iterator<Item = usize>) -> Result<u64> {
        let mut bulk = self.storage.bulk();
        for number in numbers {
            let owner = self
                .storage
                .owner("player", owner_id(&self.series, number))?;
            bulk = bulk.update(
                &owner,
                self.fields
                    .iter()
                    .map(|(field, value)| (field.as_str(), value.clone())),
            );
        }
        let acks = bulk.await;
        let written = u64::try_from(acks.len())?;
        acks.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(written)
    }
}

impl Operation for Fill {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let from = turn * AT_ONCE;
        self.write(from..(from + AT_ONCE).min(self.owners)).await
    }
}

/// Writes this number of owners of a series, all of them once.
///
/// # Errors
/// A write fails.
pub async fn fill(place: &Place, series: &str, owners: usize, fields: &Fields) -> Result<()> {
    let fill = Fill::new(place, series, owners, fields)?;
    count(&fill, TASKS, owners.div_ceil(AT_ONCE))
        .await
        .map(drop)
}
