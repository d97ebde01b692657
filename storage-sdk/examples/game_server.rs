//! A small game server on the embedded storage: players log in, play, trade, and log out.
//!
//! `cargo run -p storage-sdk --example game_server -- game.db` can run many times on the same file.
//! For Redis and MySQL, replace `Storage::embedded` by
//! `Storage::open(Settings::load("config/storage.toml")?)`. Nothing else changes.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use storage_sdk::{
    ByteOwner, Error, ModifyError, ObjStorage, Outcome, Retry, SaveObject, Storage, World,
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
    /// The purse has an owner of its own, so profile and purse are written independently.
    fn purse(&self, id: u64) -> Result<ByteOwner, Error> {
        self.world.bytes().owner("purse", id)
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
        match self.purse(id)?.update([("gold", "100")]).if_absent().await {
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

    /// A trade, without a transaction across owners. It takes first, gives second, and gives back
    /// if the second step was not applied.
    ///
    /// Each step is retried under its id until its outcome is known. So no coin is made or lost
    /// while this process lives and the hot tier answers within some seconds. The book has a trade
    /// that also survives a crash.
    async fn give(&self, storage: &Storage, from: u64, to: u64, gold: i64) -> Result<(), Error> {
        let left = add(storage, &self.purse(from)?, -gold).await?;
        if left < 0 {
            add(storage, &self.purse(from)?, gold).await?;
            println!("{from} has not enough gold");
            return Ok(());
        }
        let given = add(storage, &self.purse(to)?, gold).await.map(drop);
        if given
            .as_ref()
            .is_err_and(|error| error.outcome() == Outcome::NotApplied)
        {
            add(storage, &self.purse(from)?, gold).await?;
        }
        given
    }

    async fn log_out(&self, id: u64) -> Result<(), Error> {
        self.players.unload(id, Duration::from_secs(10)).await?;
        self.purse(id)?.unload(Duration::from_secs(10)).await?;
        Ok(())
    }
}

/// The time for retries of a write. An id is remembered for at least 30 seconds.
const REPEAT: Duration = Duration::from_secs(20);

/// Adds to a purse. A write of unknown outcome is retried under its id, so it is applied at most
/// once.
async fn add(storage: &Storage, purse: &ByteOwner, gold: i64) -> Result<i64, Error> {
    let (id, start) = (storage.next_id(), Instant::now());
    loop {
        match purse.incr("gold", gold).retry_of(id).await {
            Err(error) if error.retry() == Retry::SameId && start.elapsed() < REPEAT => {}
            result => return result.map(|counters| counters.value()),
        }
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
    game.give(&storage, 1, 2, 30).await?;
    for id in 1..=3 {
        let gold = game.purse(id)?.get(["gold"]).await?;
        println!(
            "{id} has {} gold",
            String::from_utf8_lossy(gold["gold"].as_deref().unwrap_or(b"0"))
        );
        game.log_out(id).await?;
    }

    let report = storage.close(Duration::from_secs(10)).await;
    println!(
        "closed; {} changes were not landed, {} refused by the database",
        report.unlanded, report.errors
    );
    Ok(())
}
