//! A small game server on the embedded storage: players log in, play, trade, and log out.
//!
//! `cargo run -p storage-sdk --example game_server -- game.db` can run many times on the same file.
//! For Redis and MySQL, replace `Storage::embedded` by
//! `Storage::open(Settings::load("config/storage.toml")?)`. Nothing else changes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use storage_sdk::{
    ByteOwner, Error, InGroup, Kind, ModifyError, ObjStorage, SaveObject, Storage, World,
};

/// The profile of a player: one object in one field.
#[derive(Debug, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player")]
struct Player {
    #[save_object(owner_id)]
    id: u64,
    name: String,
    level: u32,
    #[serde(default)]
    guild: Option<String>,
}

/// The profiles of the players, and their purses. A purse is counters in fields of their own, so no
/// coin writes a whole object.
struct Game {
    players: ObjStorage<Player>,
    world: World,
}

impl Game {
    /// The purse has an owner of its own, so profile and purse are written independently. All purses are
    /// in one group here, so any two can trade. A larger game makes a group for each guild or market.
    fn purse(&self, id: u64) -> Result<ByteOwner, Error> {
        self.world.bytes().owner("purse", InGroup("market", id))
    }

    async fn log_in(&self, id: u64) -> Result<(), Error> {
        match self.players.load(id).await? {
            Some(player) => println!("{} is back, level {}", player.name, player.level),
            None => {
                let player = Player {
                    id,
                    name: format!("Player {id}"),
                    level: 1,
                    guild: None,
                };
                match self.players.create(&player).await {
                    Ok(_) => println!("welcome, {}", player.name),
                    // Another game server was faster, and the player exists. That is enough.
                    Err(error) if error.is_conflict() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        // The first server gives the gold, even if another one died between the profile and the
        // purse. No server gives it twice.
        match self.purse(id)?.update([("gold", 100)]).if_absent().await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    async fn level_up(&self, id: u64) -> Result<u32, ModifyError<&'static str>> {
        self.players
            .modify(id, |player| {
                if player.level >= 60 {
                    return Err("the highest level");
                }
                player.level += 1;
                Ok(player.level)
            })
            .await
    }

    /// Moves gold between two purses in one step. Nobody pays more than the purse holds.
    async fn give(&self, from: u64, to: u64, gold: i64) -> Result<(), Error> {
        match self.purse(from)?.pay(&self.purse(to)?, "gold", gold).await {
            Ok(_) => println!("{from} gave {gold} gold to {to}"),
            Err(error) if error.kind() == Kind::OutOfBounds => {
                println!("{from} has not enough gold");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn log_out(&self, id: u64) -> Result<(), Error> {
        self.players.unload(id, Duration::from_secs(10)).await?;
        self.purse(id)?.unload(Duration::from_secs(10)).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "game.db".into());
    let storage = Storage::embedded(&path).await?;
    let world = storage.world("mygame", "eu-1")?;
    let game = Game {
        players: world.objects(),
        world,
    };

    for id in 1..=3 {
        game.log_in(id).await?;
        match game.level_up(id).await {
            Ok(level) => println!("{id} reached level {level}"),
            Err(ModifyError::Aborted(why)) => println!("{id}: {why}"),
            Err(error) => return Err(error.into()),
        }
    }
    game.give(1, 2, 30).await?;
    for id in 1..=3 {
        let gold = game.purse(id)?.get(["gold"]).await?.int("gold")?;
        println!("{id} has {} gold", gold.unwrap_or_default());
        game.log_out(id).await?;
    }

    let report = storage.close(Duration::from_secs(10)).await;
    println!("closed; {} changes are lost", report.left());
    Ok(())
}
