//! Transactions over two owners of a group: beside MULTI of two HSETs, and callers of one group
//! beside callers of many.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use storage_sdk::{ByteOwner, Bytes, InGroup};

use super::at_least;
use super::pair::{Pair, owner_count};
use crate::bench::case::{Case, Figure, Plan, Repetitions, Rig};
use crate::bench::load::{Operation, count};
use crate::bench::place::{Arena, Place};
use crate::bench::plain::{Command, Plain, fields};

const TASKS: usize = 64;

enum Transactions {
    /// Beside MULTI.
    OfTwo,
    /// All callers in one group, beside callers of many.
    OneGroup,
}

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![
        Box::new(Transactions::OfTwo),
        Box::new(Transactions::OneGroup),
    ]
}

/// A field of 64 B of two owners of a group in each turn.
#[derive(Debug, Clone)]
struct Moves {
    pairs: Arc<[[ByteOwner; 2]]>,
    value: Bytes,
}

impl Moves {
    /// This number of pairs of owners, in this number of groups of a series.
    async fn warm(place: &Place, series: &str, pairs: usize, groups: usize) -> Result<Self> {
        let bytes = place.storage.world("game", "eu")?.bytes();
        let owner =
            |group: usize, id: usize| bytes.owner("purse", InGroup(format!("{series}{group}"), id));
        let pairs: Vec<[ByteOwner; 2]> = (0..pairs)
            .map(|pair| {
                let group = pair % groups;
                Ok([owner(group, 2 * pair)?, owner(group, 2 * pair + 1)?])
            })
            .collect::<Result<_>>()?;
        let count_of = pairs.len();
        let moves = Self {
            pairs: pairs.into(),
            value: Bytes::from(vec![b'x'; 64]),
        };
        count(&moves, TASKS.min(count_of), count_of).await?;
        Ok(moves)
    }
}

impl Operation for Moves {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let pair = self.pairs.get(turn % self.pairs.len().max(1));
        let [one, other] = pair.context("no owners")?;
        let value = &self.value;
        one.transaction(|part| part.set("field0", value.clone()))
            .owner(other, |part| part.set("field0", value.clone()))
            .await?;
        Ok(1)
    }
}

#[async_trait]
impl Case for Transactions {
    fn plan(&self) -> Plan {
        let ours = "transaction that sets 1 field of 64 B of 2 owners, 64 tasks, unlanded";
        let (name, ours, baseline, goal) = match self {
            Self::OfTwo => (
                "transaction-2",
                format!("{ours}, 2,048 groups"),
                "MULTI, 2 HSET of the same, EXEC, 64 tasks, 4,096 keys".to_owned(),
                at_least(0.12, 0.2),
            ),
            Self::OneGroup => (
                "transaction-one-group",
                format!("{ours}, 2,048 pairs of one group"),
                format!("{ours}, 2,048 groups"),
                at_least(0.8, 0.95),
            ),
        };
        Plan {
            name: name.to_owned(),
            ours,
            baseline,
            figure: Figure::Rate,
            unit: "transactions/s",
            goal: Some(goal),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, owners) = (arena.place().await?, owner_count(arena));
        let (pairs, time) = (owners / 2, arena.scale.slice());
        Ok(match self {
            Self::OfTwo => {
                let moves = Moves::warm(&place, "many", pairs, pairs).await?;
                let plain = Plain::new(&place, Command::HsetMulti(2), owners, fields(1, 64, 0));
                let plain = plain.await?;
                Pair::rig(place, moves, plain, TASKS, time)
            }
            Self::OneGroup => {
                let many = Moves::warm(&place, "many", pairs, pairs).await?;
                let one = Moves::warm(&place, "one", pairs, 1).await?;
                Pair::rig(place, one, many, TASKS, time)
            }
        })
    }
}
