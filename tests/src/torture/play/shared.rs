//! Owners that all game servers write: counters, and chains with links that are put one after the
//! other by compare-and-set.

use anyhow::Result;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};
use storage_sdk::{Counters, ModifyError, Outcome, SaveObject};

use super::Player;
use crate::torture::history::{Call, Effect, End};
use crate::torture::value::token_of;

/// The number of owners with a shared counter.
pub const GUILDS: u32 = 12;
/// The number of owners with a chain.
pub const ROOMS: u32 = 12;
/// The number of owners whose amounts always add up to zero.
pub const PURSES: u32 = 12;
/// The amounts of such an owner.
pub const AMOUNTS: [&str; 3] = ["a", "b", "c"];
/// The field of a shared counter.
pub const GOLD: &str = "gold";

/// The end of a chain. Each new link names the one before, so a lost update leaves a fork or a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "room")]
pub struct Room {
    /// Its id.
    #[save_object(owner_id)]
    pub id: u64,
    /// The number of the last link, from 1.
    pub number: u64,
    /// The token of the last link.
    pub token: String,
}

impl Player {
    /// Adds to a counter that others add to as well. All sums of such numbers differ.
    pub(super) async fn count(&mut self) -> Result<()> {
        let name = format!("guild/g{}", self.hot(GUILDS));
        let owner = self.owner(&name)?;
        if self.rng.random_range(0..4) == 0 {
            let number =
                self.log
                    .begin(self.task, &name, &Call::Read(Some(vec![GOLD.to_owned()])))?;
            let end = match owner.get([GOLD]).await {
                Ok(record) => {
                    let text = record[GOLD]
                        .as_ref()
                        .map(|value| (GOLD.to_owned(), token_of(value)));
                    End::Found {
                        version: record.version().get(),
                        fields: text.into_iter().collect(),
                    }
                }
                Err(error) => End::NotApplied(error.to_string()),
            };
            self.ended(number, end)?;
            return Ok(());
        }
        let by = self.rng.random_range(1..1_000_000_000);
        let call = Call::Write {
            changes: vec![(GOLD.to_owned(), Effect::Incr(by))],
            if_version: None,
        };
        let counted = |counters: Counters| End::Acked {
            version: counters.version().get(),
            changed: counters.ack().changed(),
            counted: vec![(GOLD.to_owned(), counters.value())],
        };
        self.write(&name, call, || owner.incr(GOLD, by), counted)
            .await
            .map(drop)
    }

    /// Moves an amount from one field of a purse to another, in one write. Writes of one purse change
    /// different fields, so a landing that took a part of one would show.
    pub(super) async fn shift(&mut self) -> Result<()> {
        let name = format!("purse/p{}", self.hot(PURSES));
        let owner = self.owner(&name)?;
        let mut amounts = AMOUNTS;
        amounts.shuffle(&mut self.rng);
        let [from, to, _] = amounts;
        let by = self.rng.random_range(1..1_000);
        let mut changes = [(from, -by), (to, by)];
        changes.sort_unstable();
        let call = Call::Write {
            changes: changes
                .map(|(field, by)| (field.to_owned(), Effect::Incr(by)))
                .to_vec(),
            if_version: None,
        };
        let counted = |counters: Counters| End::Acked {
            version: counters.version().get(),
            changed: counters.ack().changed(),
            counted: changes
                .map(|(field, _)| (field.to_owned(), counters.get(field).unwrap_or_default()))
                .to_vec(),
        };
        self.write(&name, call, || owner.incr_many(changes), counted)
            .await
            .map(drop)
    }

    /// Puts a link at the end of a chain.
    pub(super) async fn append(&mut self) -> Result<()> {
        let id = u64::from(self.hot(ROOMS));
        let token = self.token();
        let number = self.log.begin(
            self.task,
            &format!("room/{id}"),
            &Call::Append(token.clone()),
        )?;
        let rooms = self.storage.world("game", "eu")?.objects::<Room>();
        let modified = rooms
            .modify(id, |room: &mut Room| {
                let behind = std::mem::replace(&mut room.token, token.clone());
                room.number += 1;
                Ok::<_, std::convert::Infallible>((behind, room.number))
            })
            .await;
        let end = match modified {
            Ok((behind, number)) => End::Appended { behind, number },
            Err(ModifyError::Missing(_)) => {
                let first = Room {
                    id,
                    number: 1,
                    token: token.clone(),
                };
                match rooms.create(&first).await {
                    Ok(_) => End::Appended {
                        behind: String::new(),
                        number: 1,
                    },
                    Err(error) => failed(&error),
                }
            }
            Err(ModifyError::Storage(error)) => failed(&error),
            Err(ModifyError::Aborted(never)) => match never {},
        };
        self.ended(number, end)?;
        Ok(())
    }
}

fn failed(error: &storage_sdk::Error) -> End {
    match error.outcome() {
        Outcome::NotApplied if error.is_conflict() => End::Conflict,
        Outcome::NotApplied => End::NotApplied(error.to_string()),
        Outcome::Applied => End::Applied(error.to_string()),
        Outcome::Unknown => End::Unknown(error.to_string()),
    }
}
