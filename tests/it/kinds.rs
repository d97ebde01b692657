//! Every kind of error, by a real cause. Each test checks the error of a read or a write, its
//! outcome, and its advice.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use storage_sdk::feed::{Cursor, Position, Token};
use storage_sdk::{
    ByteOwner, Durability, Error, Kind, ModifyError, OnConflict, Outcome, Retry, SaveObject,
    SeededIds, SessionOptions, Storage,
};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack, until};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

/// The advice of an error, without the time to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    After,
    SameId,
    Reread,
    Never,
}

/// The errors so far.
#[derive(Default)]
struct Seen(Vec<Error>);

impl Seen {
    fn expect(&mut self, error: Error, kind: Kind, outcome: Outcome, next: Next) {
        let is = match error.retry() {
            Retry::After(_) => Next::After,
            Retry::SameId => Next::SameId,
            Retry::Reread => Next::Reread,
            Retry::Never => Next::Never,
        };
        assert_eq!(
            (error.kind(), error.outcome(), is),
            (kind, outcome, next),
            "{error}"
        );
        assert!(
            !error.to_string().is_empty() && !error.to_string().contains('\n'),
            "{error:?}"
        );
        self.0.push(error);
    }

    /// An error of a call that changed nothing.
    fn unchanged(&mut self, error: Error, kind: Kind, next: Next) {
        self.expect(error, kind, Outcome::NotApplied, next);
    }

    fn kinds(&self) -> BTreeSet<String> {
        self.0
            .iter()
            .map(|error| format!("{:?}", error.kind()))
            .collect()
    }
}

/// A world on servers of its own, which the test may break.
struct Broken {
    redis: RedisServer,
    database: MariaDbServer,
    stack: Stack,
}

async fn breakable() -> Result<Broken> {
    let (redis, database) = (
        RedisServer::start(RedisOptions::default()).await?,
        MariaDbServer::start(MariaDbOptions::default()).await?,
    );
    let mut world = World::on(&redis.url(), &database).await?;
    world.settings.hot.operation_deadline = SHORT;
    world.settings.hot.policy_check_interval = Duration::from_secs(1);
    world.settings.redis.response_timeout = SHORT;
    Ok(Broken {
        stack: Stack::with(world).await?,
        redis,
        database,
    })
}

async fn config(redis: &RedisServer, name: &str, value: &str) -> Result<()> {
    redis.call(&["CONFIG", "SET", name, value]).await.map(drop)
}

async fn get(owner: &ByteOwner) -> Error {
    owner.get(["gold"]).await.unwrap_err()
}

async fn set(owner: &ByteOwner) -> Error {
    owner.update([("gold", "1")]).await.unwrap_err()
}

/// The errors of sessions: a plain write of a held owner, a save of a session that was taken, and a
/// save of one that has ended.
async fn of_sessions(seen: &mut Seen, stack: &Stack) -> Result<()> {
    let bo = stack.player("bo");
    let session = bo.session(SessionOptions::default()).await?;
    session.set("gold", "1")?;
    let held = set(&bo).await;
    assert!(held.to_string().contains("holds the owner"), "{held}");
    seen.unchanged(held, Kind::Held, Next::After);
    let steals = SessionOptions::default().on_conflict(OnConflict::Steal);
    let taken = bo.session(steals).await?;
    seen.unchanged(
        session.save().await.unwrap_err(),
        Kind::Fenced,
        Next::Reread,
    );
    taken.end().await?;
    seen.unchanged(
        taken.set("gold", "2").unwrap_err(),
        Kind::Closing,
        Next::Never,
    );
    Ok(())
}

/// Errors that the caller causes.
async fn of_the_call(seen: &mut Seen) -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    seen.unchanged(ann.get([]).await.unwrap_err(), Kind::Invalid, Next::Never);
    seen.unchanged(
        ann.update([("", "1")]).await.unwrap_err(),
        Kind::Invalid,
        Next::Never,
    );
    let first = ann
        .update([("gold", "1"), ("name", "Ann")])
        .await?
        .version();
    seen.unchanged(
        ann.update([("gold", "1")]).if_absent().await.unwrap_err(),
        Kind::Conflict,
        Next::Reread,
    );
    let (worker, mut cursor) = (stack.worker(), Cursor::default());
    ann.update([("gold", "1")]).note("once").await?;
    stack.landed().await?;
    worker.stop().await?;
    cursor.move_to(ann.partition(), Position::ZERO);
    let cold = stack.storage.tiers().cold();
    until("the event is dropped", async || {
        Ok(cold
            .events
            .drop_events(ann.partition(), Duration::ZERO, 9)
            .await?
            == 1)
    })
    .await?;
    let late = stack.storage.changes(cursor).try_next().await;
    seen.unchanged(late.unwrap_err(), Kind::CursorTooOld, Next::Reread);
    let mut foreign = stack.storage.feed_end().await?;
    foreign.belong_to(Token::draw(&SeededIds::new(7)));
    let foreign = stack.storage.changes(foreign).try_next().await;
    seen.unchanged(foreign.unwrap_err(), Kind::CursorForeign, Next::Reread);
    ann.incr("gold", 1).await?;
    seen.unchanged(
        ann.update([("gold", "1")])
            .if_version(first)
            .await
            .unwrap_err(),
        Kind::Conflict,
        Next::Reread,
    );
    seen.unchanged(
        ann.incr("name", 1).await.unwrap_err(),
        Kind::NotInteger,
        Next::Never,
    );
    seen.unchanged(
        ann.incr("gold", i64::MAX).await.unwrap_err(),
        Kind::Overflow,
        Next::Never,
    );
    seen.unchanged(
        ann.transaction(|part| part.add_within("gold", -1_000, 0..))
            .await
            .unwrap_err(),
        Kind::OutOfBounds,
        Next::Reread,
    );
    ann.remove(["name"]).await?;
    seen.unchanged(
        ann.purge(["name"]).await.unwrap_err(),
        Kind::NotLanded,
        Next::Reread,
    );
    let replicated = Durability::Replicated {
        replicas: 1,
        timeout: Duration::from_secs(1),
    };
    seen.unchanged(
        ann.incr("gold", 1)
            .durability(replicated)
            .await
            .unwrap_err(),
        Kind::Durability,
        Next::After,
    );
    of_sessions(seen, &stack).await?;
    // Another hot tier is given the same table. The storage of the first one learns of it.
    let other = RedisServer::start(RedisOptions::default()).await?;
    let mut elsewhere = stack.settings.clone();
    elsewhere.redis.url = other.url().parse()?;
    crate::pairing::tiers(&elsewhere).await?.adopt().await?;
    until("the tiers were compared", async || {
        Ok(ann.incr("gold", 1).await.is_err())
    })
    .await?;
    seen.unchanged(set(&ann).await, Kind::Unpaired, Next::Never);
    stack.storage.close(LONG).await;
    seen.unchanged(get(&ann).await, Kind::Closed, Next::Never);
    seen.unchanged(set(&ann).await, Kind::Closed, Next::Never);
    Ok(())
}

#[derive(Debug, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player", field = "gold")]
struct Hero {
    #[save_object(owner_id)]
    id: String,
    level: u32,
}

#[derive(Debug, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player", field = "gold", schema_version = 2)]
struct NewerHero {
    #[save_object(owner_id)]
    id: String,
}

/// Errors by stored data of another shape, and by concurrent writes.
async fn of_what_is_stored(seen: &mut Seen) -> Result<()> {
    let stack = Stack::open().await?;
    let heroes = stack.storage.world("game", "eu")?.objects::<Hero>();
    let bo = stack.player("bo");
    bo.update([("gold", "no object")]).await?;
    seen.unchanged(
        heroes.load("bo").await.unwrap_err(),
        Kind::Corrupt,
        Next::Never,
    );

    let newer = stack.storage.world("game", "eu")?.objects::<NewerHero>();
    newer.save(&NewerHero { id: "eve".into() }).await?;
    seen.unchanged(
        heroes.load("eve").await.unwrap_err(),
        Kind::TooNew,
        Next::Never,
    );

    heroes
        .save(&Hero {
            id: "ann".into(),
            level: 1,
        })
        .await?;
    let (ann, runtime) = (stack.player("ann"), tokio::runtime::Handle::current());
    let meddle = || {
        tokio::task::block_in_place(|| {
            runtime.block_on(async { ann.incr("other", 1).await.map(drop) })
        })
    };
    let contended = heroes
        .modify("ann", |hero| {
            hero.level += 1;
            meddle()
        })
        .await
        .unwrap_err();
    let ModifyError::Storage(error) = contended else {
        panic!("{contended:?}")
    };
    seen.unchanged(error, Kind::Contended, Next::After);
    Ok(())
}

/// Errors by the state of the hot tier.
async fn of_the_hot_tier(seen: &mut Seen) -> Result<()> {
    let Broken {
        redis,
        database: _database,
        stack,
    } = breakable().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;

    config(&redis, "maxmemory-policy", "allkeys-lru").await?;
    until("it was seen", async || {
        Ok(ann.incr("gold", 1).await.is_err())
    })
    .await?;
    seen.unchanged(set(&ann).await, Kind::UnsafeEviction, Next::After);
    config(&redis, "maxmemory-policy", "noeviction").await?;
    until("it was seen", async || {
        Ok(ann.incr("gold", 1).await.is_ok())
    })
    .await?;

    config(&redis, "maxmemory", "1").await?;
    let full = set(&ann).await;
    if full.kind() == Kind::Overloaded {
        // The back-pressure noticed before the server was asked.
        seen.unchanged(full, Kind::Overloaded, Next::After);
    } else {
        seen.unchanged(full, Kind::OutOfMemory, Next::After);
    }
    config(&redis, "maxmemory", "0").await?;
    until("it was seen", async || {
        Ok(ann.incr("gold", 1).await.is_ok())
    })
    .await?;

    redis
        .call(
            &"ACL SETUSER default -hget -hmget"
                .split(' ')
                .collect::<Vec<_>>(),
        )
        .await?;
    seen.unchanged(get(&ann).await, Kind::Denied, Next::After);
    // The back-pressure may have looked at the full server just before.
    let mut denied = set(&ann).await;
    until("the look is over", async || {
        if denied.kind() == Kind::Overloaded {
            denied = set(&ann).await;
        }
        Ok(denied.kind() != Kind::Overloaded)
    })
    .await?;
    seen.unchanged(denied, Kind::Denied, Next::After);
    redis
        .call(&"ACL SETUSER default +@all".split(' ').collect::<Vec<_>>())
        .await?;
    until("it was seen", async || {
        Ok(ann.incr("gold", 1).await.is_ok())
    })
    .await?;

    redis.pause()?;
    seen.expect(
        set(&ann).await,
        Kind::Timeout,
        Outcome::Unknown,
        Next::SameId,
    );
    let error = get(&ann).await;
    assert!(
        matches!(error.kind(), Kind::Timeout | Kind::HotUnavailable),
        "{error}"
    );
    redis.resume()?;
    until("it answers", async || Ok(ann.get(["gold"]).await.is_ok())).await?;

    redis.kill()?;
    let error = set(&ann).await;
    // A write on its way when the server died may have been applied. The next one finds no
    // connection.
    assert!(
        matches!(error.kind(), Kind::HotUnavailable | Kind::Timeout),
        "{error}"
    );
    seen.unchanged(set(&ann).await, Kind::HotUnavailable, Next::After);
    seen.unchanged(get(&ann).await, Kind::HotUnavailable, Next::After);
    Ok(())
}

/// Errors by writes that come faster than landing, and by a full server.
async fn of_too_much(seen: &mut Seen) -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.backpressure.soft_marks = 1;
    world.settings.backpressure.hard_marks = 2;
    world.settings.backpressure.interval = Duration::from_millis(10);
    let stack = Stack::with(world).await?;
    let mut owners = (0..).map(|number| stack.player(&number.to_string()));
    let error = loop {
        if let Some(owner) = owners.next()
            && let Err(error) = owner.update([("gold", "1")]).await
        {
            break error;
        }
    };
    seen.unchanged(error, Kind::Overloaded, Next::After);

    let redis = RedisServer::start(RedisOptions {
        maxmemory: Some("1mb".into()),
        ..RedisOptions::default()
    })
    .await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.backpressure.soft_memory = 0;
    world.settings.backpressure.hard_memory = 0;
    match Storage::open(world.settings).await {
        Ok(storage) => {
            let owner = storage
                .world("game", "eu")?
                .bytes()
                .owner("player", "ann")?;
            seen.unchanged(set(&owner).await, Kind::OutOfMemory, Next::After);
        }
        Err(error) => seen.unchanged(error, Kind::OutOfMemory, Next::After),
    }
    Ok(())
}

/// Errors by a database that rejects rows, lacks a right, or is away.
async fn of_the_database(seen: &mut Seen) -> Result<()> {
    let Broken {
        redis: _redis,
        database,
        stack,
    } = breakable().await?;
    let name = stack
        .database
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let ann = stack.player("ann");
    let landed = Durability::Landed { timeout: LONG };
    ann.update([("gold", "1")]).durability(landed).await?;
    database
        .sql(&format!(
            "ALTER TABLE `{name}`.landing_rows ADD CONSTRAINT no_poison CHECK (value <> 'poison')"
        ))
        .await?;
    let error = ann
        .update([("gold", "poison")])
        .durability(landed)
        .await
        .unwrap_err();
    seen.expect(error, Kind::Rejected, Outcome::Applied, Next::Never);
    seen.unchanged(
        ann.flush(LONG).await.unwrap_err(),
        Kind::Rejected,
        Next::Never,
    );
    ann.update([("gold", "1")]).await?;

    database
        .sql(&format!(
            "RENAME TABLE `{name}`.landing_rows TO `{name}`.away"
        ))
        .await?;
    let cold = |id: &str| stack.player(id);
    seen.unchanged(get(&cold("a")).await, Kind::Denied, Next::After);
    seen.unchanged(
        cold("a")
            .update([("gold", "1")])
            .if_absent()
            .await
            .unwrap_err(),
        Kind::Denied,
        Next::After,
    );
    let error = ann
        .update([("gold", "2")])
        .durability(landed)
        .await
        .unwrap_err();
    seen.expect(error, Kind::Denied, Outcome::Applied, Next::Never);
    database
        .sql(&format!(
            "RENAME TABLE `{name}`.away TO `{name}`.landing_rows"
        ))
        .await?;

    database.kill()?;
    seen.unchanged(get(&cold("b")).await, Kind::ColdUnavailable, Next::After);
    seen.unchanged(
        cold("b")
            .update([("gold", "1")])
            .if_absent()
            .await
            .unwrap_err(),
        Kind::ColdUnavailable,
        Next::After,
    );
    let error = get(&cold("c")).await.to_string();
    assert!(
        error.contains(&format!("127.0.0.1:{}/{name}", database.port())),
        "{error}"
    );
    let error = ann
        .update([("gold", "2")])
        .durability(Durability::Landed {
            timeout: Duration::from_millis(10),
        })
        .await
        .unwrap_err();
    assert_eq!(
        (error.outcome(), error.retry()),
        (Outcome::Applied, Retry::Never),
        "{error}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_error_has_a_real_cause_an_honest_outcome_and_an_advice() -> Result<()> {
    let mut seen = Seen::default();
    of_the_call(&mut seen).await?;
    of_what_is_stored(&mut seen).await?;
    of_the_hot_tier(&mut seen).await?;
    of_too_much(&mut seen).await?;
    of_the_database(&mut seen).await?;

    let kinds = include_str!("../../storage-sdk/src/error.rs");
    let list = kinds
        .split_once("pub enum Kind {")
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map_or("", |(list, _)| list);
    let all: BTreeSet<String> = list
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|line| !line.contains(' '))
        .map(str::to_owned)
        .collect();
    assert!(all.contains("Invalid") && all.contains("Closed"), "{all:?}");
    assert_eq!(seen.kinds(), all, "every kind that there is was seen");
    Ok(())
}
