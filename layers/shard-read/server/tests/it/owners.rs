//! The ready-made service of owners.

use std::time::Duration;

use anyhow::{Context as _, Result};
use shard_read_server::{Claims, OwnerShard, ReadAhead, Server};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use storage_sdk::layer::ColdTier;
use storage_sdk::{ByteOwner, Durability, Storage};
use storage_shard_read::net::LocalNetwork;
use storage_shard_read::owners::{LandedOwner, Owners};
use storage_shard_read::{Client, Hosts, Kind, Place, ShardRange, State};

use crate::world::{SOON, until};

/// A game in the embedded mode, and a server of its owners.
struct Game {
    storage: Storage,
    server: Server<Owners>,
    client: Client<Owners>,
    folder: tempfile::TempDir,
}

impl Game {
    async fn new(set: impl FnOnce(OwnerShard) -> OwnerShard) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let storage = Storage::embedded(folder.path().join("game.db")).await?;
        let network = LocalNetwork::default();
        let shard = OwnerShard::new(ColdTier::of(&storage)).round_every(Duration::from_millis(10));
        let server = Server::builder(set(shard), Claims::fixed(ShardRange::ALL))
            .drain(Duration::ZERO)
            .listen_local(network.listen("owners")?)
            .await?;
        let client = Client::builder(Hosts::list(["owners".to_owned()]))
            .dial(network)
            .build()?;
        Ok(Self {
            storage,
            server,
            client,
            folder,
        })
    }

    fn player(&self, id: &str) -> Result<ByteOwner> {
        Ok(self
            .storage
            .world("game", "eu")?
            .bytes()
            .owner("player", id)?)
    }

    /// Sets a level, and tells the place of its note.
    async fn level(&self, id: &str, level: u64) -> Result<Place> {
        let owner = self.player(id)?;
        let landed = Durability::Landed { timeout: SOON };
        let ack = owner
            .update([("level", level.to_string())])
            .note("level")
            .durability(landed)
            .await?;
        let position = ack.position().context("a note")?;
        let partition = owner.partition().0;
        Ok(Place::new(partition, position.epoch.0, position.number))
    }

    async fn get(&self, id: &str, after: Option<Place>) -> Result<Option<LandedOwner>> {
        let owner = self.player(id)?.owner().clone();
        let mut call = self.client.get([owner.clone()]).deadline(SOON);
        if let Some(place) = after {
            call = call.after(place);
        }
        Ok(call.await?.get(&owner).cloned().flatten())
    }
}

fn level_of(owner: Option<LandedOwner>) -> Option<String> {
    let fields = owner?.fields();
    fields
        .get("level")
        .map(|level| String::from_utf8_lossy(level).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_is_answered_from_memory_until_an_event_names_it() -> Result<()> {
    let game = Game::new(|shard| shard).await?;
    assert_eq!(game.get("ann", None).await?, None, "she has no row");
    for level in 1..20 {
        let place = game.level("ann", level).await?;
        let found = game.get("ann", Some(place)).await?;
        assert_eq!(
            level_of(found),
            Some(level.to_string()),
            "it reads its own write"
        );
    }
    game.level("bo", 3).await?;
    until("the event is heard", async || {
        Ok(level_of(game.get("bo", None).await?).as_deref() == Some("3"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_field_is_no_field_of_the_owner() -> Result<()> {
    let game = Game::new(|shard| shard).await?;
    game.level("ann", 1).await?;
    let ann = game.player("ann")?;
    let landed = Durability::Landed { timeout: SOON };
    let ack = ann
        .remove(["level"])
        .note("gone")
        .durability(landed)
        .await?;
    let position = ack.position().context("a note")?;
    let place = Place::new(ann.partition().0, position.epoch.0, position.number);
    let found = game
        .get("ann", Some(place))
        .await?
        .context("she has a row")?;
    assert!(found.fields().is_empty() && found.version() == ack.version().get());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_an_age_that_stays_small_while_the_feed_is_read() -> Result<()> {
    let game = Game::new(|shard| shard).await?;
    game.level("ann", 1).await?;
    let owner = game.player("ann")?.owner().clone();
    until("an answer is young", async || {
        let call = game.client.get([owner.clone()]).deadline(SOON);
        match call.max_age(Duration::from_secs(20)).await {
            Ok(found) => Ok(found.age.is_some_and(|age| age < Duration::from_secs(20))),
            Err(error) if error.kind() == Kind::Stale => Ok(false),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_misses_are_loaded_together() -> Result<()> {
    let game = Game::new(|shard| shard).await?;
    for id in 0..200 {
        let owner = game.player(&id.to_string())?;
        owner.update([("level", id.to_string())]).await?;
        owner.flush(SOON).await?;
    }
    let owners = (0..200).map(|id| Ok(game.player(&id.to_string())?.owner().clone()));
    let owners = owners.collect::<Result<Vec<_>>>()?;
    let found = game.client.get(owners).deadline(SOON).await?;
    assert_eq!(found.values.len(), 200);
    for (owner, value) in found.values {
        assert_eq!(level_of(value).as_deref(), Some(owner.id()));
    }
    assert_eq!(game.server.figures().keys, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_that_were_read_ahead_need_no_database() -> Result<()> {
    let game = Game::new(|shard| shard).await?;
    for id in 0..100 {
        game.level(&id.to_string(), id).await?;
    }
    let network = LocalNetwork::default();
    let shard = OwnerShard::new(ColdTier::of(&game.storage))
        .read_ahead(ReadAhead::new("game", "eu", "player", "level")?);
    let server = Server::builder(shard, Claims::fixed(ShardRange::ALL))
        .listen_local(network.listen("ahead")?)
        .await?;
    let client = Client::<Owners>::builder(Hosts::list(["ahead"])).dial(network);
    let client = client.build()?;
    until("it serves", async || {
        Ok(server.shard().state == State::Serving)
    })
    .await?;
    let options = SqliteConnectOptions::new().filename(game.folder.path().join("game.db"));
    let mut operator = options.connect().await?;
    sqlx::raw_sql("ALTER TABLE landing_rows RENAME TO rows_away")
        .execute(&mut operator)
        .await?;
    let owners = (0..100).map(|id| Ok(game.player(&id.to_string())?.owner().clone()));
    let owners = owners.collect::<Result<Vec<_>>>()?;
    let found = client.get(owners).deadline(SOON).await?;
    for (owner, value) in found.values {
        assert_eq!(level_of(value).as_deref(), Some(owner.id()));
    }
    let unread = game.player("none")?.owner().clone();
    let found = client.get([unread]).partial().await?;
    assert_eq!(found.unanswered.len(), 1, "the table is away");
    Ok(())
}
