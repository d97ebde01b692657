//! The storage's operations on bytes.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use storage_sdk::{ByteOwner, Bytes};

use crate::bench::load::{Operation, count};
use crate::bench::place::Place;
use crate::bench::plain::Fields;

/// The same call for another owner in each turn.
#[derive(Debug, Clone)]
pub(in crate::bench) struct Ours {
    owners: Arc<[ByteOwner]>,
    fields: Arc<[(String, Bytes)]>,
    call: Call,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::bench) enum Call {
    Update,
    /// Of the same fields.
    Get,
    /// Of the field `count`.
    Incr,
}

impl Ours {
    pub(in crate::bench) fn new(owners: Vec<ByteOwner>, fields: &Fields, call: Call) -> Self {
        let fields = fields
            .iter()
            .map(|(field, value)| (field.clone(), Bytes::from(value.clone())))
            .collect();
        Self {
            owners: owners.into(),
            fields,
            call,
        }
    }

    /// Operations on this number of owners, each of which was written once.
    pub(super) async fn warm(
        place: &Place,
        owners: usize,
        fields: &Fields,
        call: Call,
    ) -> Result<Self> {
        let ours = Self::new(place.owners("o", owners)?, fields, call);
        count(&ours.with(Call::Update), TASKS.min(owners), owners).await?;
        Ok(ours)
    }

    pub(super) fn with(&self, call: Call) -> Self {
        Self {
            call,
            ..self.clone()
        }
    }

    pub(super) fn owners(&self) -> &Arc<[ByteOwner]> {
        &self.owners
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, Bytes)> {
        self.fields
            .iter()
            .map(|(field, value)| (field.as_str(), value.clone()))
    }
}

/// The number of tasks that fill a place.
const TASKS: usize = 64;

pub(super) fn owner_of(owners: &[ByteOwner], turn: usize) -> Result<&ByteOwner> {
    owners.get(turn % owners.len().max(1)).context("no owners")
}

impl Operation for Ours {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let owner = owner_of(&self.owners, turn)?;
        match self.call {
            Call::Update => {
                owner.update(self.fields()).await?;
            }
            Call::Get => {
                let record = owner
                    .get(self.fields.iter().map(|(field, _)| field.as_str()))
                    .await?;
                anyhow::ensure!(record.len() == self.fields.len(), "a field is missing");
            }
            Call::Incr => {
                owner.incr("count", 1).await?;
            }
        }
        Ok(1)
    }
}
