//! Objects, against the same bytes in a field.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use storage_sdk::{ByteStorage, Bytes, ObjStorage, SaveObject};

use super::at_least;
use super::pair::{Pair, owner_count};
use crate::bench::case::{Case, Figure, Plan, Repetitions, Rig};
use crate::bench::load::{Operation, count};
use crate::bench::place::Arena;

const TASKS: usize = 64;

/// A typical player of a game: numbers, a few names, a bag. About 1 KiB as bytes.
#[derive(Debug, Clone, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player")]
struct Player {
    #[save_object(owner_id)]
    id: u64,
    name: String,
    level: u32,
    gold: u64,
    position: [f32; 3],
    guild: Option<String>,
    bag: Vec<(u32, u16, String)>,
}

impl Player {
    fn new(id: u64) -> Self {
        let item = |number: u32| (number * 7, 3, format!("item of rarity {number:06}"));
        let (name, guild) = (
            format!("player {id}"),
            Some("the guild of the round table".to_owned()),
        );
        Self {
            id,
            name,
            level: 37,
            gold: 1_234_567,
            position: [1.5, -20.25, 300.0],
            guild,
            bag: (0..28).map(item).collect(),
        }
    }
}

#[derive(Clone, Copy)]
enum Objects {
    Save,
    Load,
}

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Objects::Save), Box::new(Objects::Load)]
}

#[derive(Clone)]
struct AsObject {
    players: ObjStorage<Player>,
    player: Player,
    owners: usize,
    call: Objects,
}

impl Operation for AsObject {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        self.player.id = u64::try_from(turn % self.owners)?;
        match self.call {
            Objects::Save => drop(self.players.save(&self.player).await?),
            Objects::Load => drop(
                self.players
                    .load(self.player.id)
                    .await?
                    .context("it was saved")?,
            ),
        }
        Ok(1)
    }
}

#[derive(Clone)]
struct AsBytes {
    storage: ByteStorage,
    bytes: Bytes,
    owners: usize,
    call: Objects,
}

impl Operation for AsBytes {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        // The object's storage also makes an owner for each call.
        let owner = self
            .storage
            .owner(Player::LOGIC_TYPE, u64::try_from(turn % self.owners)?)?;
        match self.call {
            Objects::Save => drop(owner.update([(Player::FIELD, self.bytes.clone())]).await?),
            Objects::Load => {
                anyhow::ensure!(owner.get([Player::FIELD]).await?.len() == 1, "it was saved")
            }
        }
        Ok(1)
    }
}

#[async_trait]
impl Case for Objects {
    fn plan(&self) -> Plan {
        let (name, ours, baseline) = match self {
            Self::Save => ("object-save", "save", "update of the same bytes"),
            Self::Load => ("object-load", "load", "get of the same bytes"),
        };
        Plan {
            name: name.to_owned(),
            ours: format!(
                "ObjStorage: {ours} of an object of about 1 KiB, 64 tasks, 4,096 owners, unlanded"
            ),
            baseline: format!("ByteStorage: {baseline}, 64 tasks"),
            figure: Figure::Rate,
            unit: "objects/s",
            goal: Some(at_least(0.9, 0.97)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, owners) = (arena.place().await?, owner_count(arena));
        let world = place.storage.world("game", "eu")?;
        let (players, storage) = (world.objects::<Player>(), world.bytes());
        let ours = AsObject {
            players,
            player: Player::new(0),
            owners,
            call: Objects::Save,
        };
        count(&ours, TASKS, owners).await?;
        let stored = storage
            .owner(Player::LOGIC_TYPE, 0)?
            .get([Player::FIELD])
            .await?;
        let bytes = stored.get(Player::FIELD).context("it was saved")?.clone();
        let (ours, baseline) = (
            AsObject {
                call: *self,
                ..ours
            },
            AsBytes {
                storage,
                bytes,
                owners,
                call: *self,
            },
        );
        Ok(Pair::rig(place, ours, baseline, TASKS, arena.scale.slice()))
    }
}
