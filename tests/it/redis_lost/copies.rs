//! Two living copies of one hot tier on one database (H126). One of them lands.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use storage_model::{Clock as _, Epoch, HotId, Partition, SystemClock};
use storage_sdk::{ByteOwner, Error, Kind, Retry, Storage};
use storage_servers::{MariaDbServer, RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, stack, until};
use storage_tiers::TierError;

use crate::pairing::tiers;

/// So many that each partition has some.
pub(crate) const PLAYERS: usize = 64;

/// A Redis that keeps no data beyond what a test saves.
pub(crate) async fn blank() -> Result<RedisServer> {
    RedisServer::start(RedisOptions::default()).await
}

/// Starts the second Redis from the present data of the first one, which goes on.
pub(crate) async fn copy(first: &RedisServer, second: &RedisServer) -> Result<()> {
    first.call(&["SAVE"]).await?;
    second.kill()?;
    std::fs::copy(
        first.folder().join("dump.rdb"),
        second.folder().join("dump.rdb"),
    )?;
    second.restart().await
}

/// Kills a Redis that has just saved its data, and starts it again with them.
pub(crate) async fn restart(redis: &RedisServer) -> Result<()> {
    redis.call(&["SAVE"]).await?;
    redis.kill()?;
    redis.restart().await
}

/// The same world on another Redis.
pub(crate) fn moved(stack: &Stack, redis: &RedisServer) -> Result<World> {
    World::with_urls(&redis.url(), &stack.database, &stack.settings.redis.prefix)
}

/// Adds 1 to each player. The first error ends it.
pub(crate) async fn play(stack: &Stack, added: &mut u64) -> Result<(), Error> {
    for id in 0..PLAYERS {
        stack.player(&id.to_string()).incr("gold", 1).await?;
        *added += 1;
    }
    Ok(())
}

/// The gold of all players in the database.
pub(crate) async fn landed(stack: &Stack) -> Result<u64> {
    let rows = rows(&stack.database).await?;
    let gold =
        |row: &storage_tests::StoredRow| Ok(std::str::from_utf8(&row.value)?.parse::<u64>()?);
    rows.iter().map(gold).sum()
}

/// The hot tier of each partition, with the epoch.
pub(crate) async fn places(stack: &Stack) -> Result<BTreeMap<Partition, (HotId, Epoch)>> {
    let tiers = stack.storage.tiers();
    let all: Vec<_> = (0..tiers.hot().partitions.partition_count())
        .map(Partition)
        .collect();
    let records = tiers.cold().partitions.partitions(&all).await?;
    Ok(records
        .into_iter()
        .map(|record| (record.partition, (record.hot, record.epoch)))
        .collect())
}

/// Waits until the writes of a stack are refused because of another Redis. Returns the refusal.
pub(crate) async fn refused(stack: &Stack, added: &mut u64) -> Result<Error> {
    let mut last = None;
    let refused = until("the replaced Redis is refused", async || {
        let error = play(stack, added).await.err();
        let is_refused = error
            .as_ref()
            .is_some_and(|error| error.kind() == Kind::Unpaired);
        last = error;
        Ok(is_refused)
    });
    let refused = refused.await;
    refused.with_context(|| format!("it answered {last:?}"))?;
    last.context("a refusal")
}

/// An opening that fails because another Redis is used.
async fn waits(world: World, words: &[&str]) -> Result<()> {
    let Err(error) = Storage::open(world.settings).await else {
        anyhow::bail!("it is open")
    };
    assert_eq!(error.kind(), Kind::HotUnavailable, "{error}");
    assert!(matches!(error.retry(), Retry::After(_)), "{error:?}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?}: {error}");
    }
    Ok(())
}

/// A world on the first of two servers, with landed players in each partition.
async fn played(first: &RedisServer) -> Result<(Stack, u64)> {
    let stack = Stack::with(World::on(&first.url(), stack::mariadb().await?).await?).await?;
    let mut added = 0;
    let worker = stack.worker();
    play(&stack, &mut added).await?;
    stack.landed().await?;
    worker.stop().await?;
    Ok((stack, added))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_dump_takes_over_once_and_the_original_is_refused() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (before, mut added) = played(&first).await?;
    copy(&first, &second).await?;
    // Acknowledged and not landed, when the copy takes over.
    let mut on_first = 0;
    play(&before, &mut on_first).await?;
    let after = Stack::with(moved(&before, &second)?).await?;
    play(&after, &mut added).await?;
    let (old_worker, new_worker) = (before.worker(), after.worker());
    let error = refused(&before, &mut on_first).await?;
    let port = second.port().to_string();
    for word in ["was replaced", &port, "UTC", "export", "adopt"] {
        assert!(error.to_string().contains(word), "{word:?}: {error}");
    }
    assert_eq!(error.retry(), Retry::Never);
    play(&after, &mut added).await?;
    let taken = places(&after).await?;

    // Both go on. Nothing changes hands any more, and nothing of the first one lands.
    let failures = old_worker.counts().failures;
    until("the old worker has tried several times", async || {
        play(&after, &mut added).await?;
        let error = play(&before, &mut on_first).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unpaired, "{error}");
        Ok(old_worker.counts().failures >= failures + 5)
    })
    .await?;
    assert_eq!(places(&after).await?, taken);
    let epochs: Vec<_> = taken.values().map(|(_, epoch)| epoch.0).collect();
    assert!(epochs.iter().all(|epoch| *epoch <= 2), "{epochs:?}");
    let owners: std::collections::BTreeSet<_> = taken.values().map(|(hot, _)| *hot).collect();
    assert_eq!(owners.len(), 1, "one Redis has all partitions");

    after.landed().await?;
    let now = Duration::from_micros(SystemClock.now().0);
    let ahead = Duration::from_micros(
        rows(&after.database)
            .await?
            .iter()
            .map(|row| row.version)
            .max()
            .unwrap_or_default(),
    );
    assert!(
        ahead < now + Duration::from_secs(3_600),
        "versions run ahead"
    );
    assert_eq!(landed(&after).await?, added, "only the copy has landed");
    ensure!(before.backlog().await?.marks() > 0, "its marks wait");
    old_worker.stop().await?;
    new_worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_beside_a_living_redis_waits() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (stack, mut added) = played(&first).await?;
    copy(&first, &second).await?;
    let worker = stack.worker();
    play(&stack, &mut added).await?;
    stack.landed().await?;
    let before = places(&stack).await?;
    let port = first.port().to_string();
    waits(moved(&stack, &second)?, &["is behind", &port, "adopt"]).await?;
    assert_eq!(places(&stack).await?, before);
    play(&stack, &mut added).await?;
    stack.landed().await?;
    assert_eq!(landed(&stack).await?, added);
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_lacks_data_of_one_partition_takes_no_other_one() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (stack, mut added) = played(&first).await?;
    copy(&first, &second).await?;
    let worker = stack.worker();
    let player = stack.player("0");
    player.incr("gold", 1).await?;
    added += 1;
    stack.landed().await?;
    let before = places(&stack).await?;
    let other = before.keys().find(|at| **at != player.partition());
    let other = *other.context("another partition")?;
    // The copy has everything of this one.
    let waiting = tiers(&moved(&stack, &second)?.settings).await?;
    let taken = waiting.prepare(&[other]).await;
    assert!(matches!(taken, Err(TierError::Behind(_))), "{taken:?}");
    assert_eq!(places(&stack).await?, before);
    play(&stack, &mut added).await?;
    stack.landed().await?;
    assert_eq!(landed(&stack).await?, added);
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_has_everything_takes_all_partitions_in_one_step() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (stack, _) = played(&first).await?;
    copy(&first, &second).await?;
    let copied = tiers(&moved(&stack, &second)?.settings).await?;
    copied.prepare(&[Partition(0)]).await?;
    let here = HotId::of(&copied.hot().tier.pairing().await?.incarnation);
    let taken = places(&stack).await?;
    assert!(
        taken.values().all(|place| *place == (here, Epoch(2))),
        "{taken:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_keeps_its_partitions_when_the_database_was_away() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (stack, mut added) = played(&first).await?;
    copy(&first, &second).await?;
    let worker = stack.worker();
    play(&stack, &mut added).await?;
    stack.landed().await?;
    let before = places(&stack).await?;
    // As after an outage: for a while nobody could tell the database that the first one is used.
    let name = stack.database.rsplit('/').next().context("a database")?;
    let old = format!("UPDATE {name}.landing_hot SET seen_at = seen_at - INTERVAL 1 HOUR");
    stack::mariadb().await?.sql(&old).await?;
    let waiting = tiers(&moved(&stack, &second)?.settings).await?;
    let taken = waiting.prepare(&[Partition(0)]).await;
    assert!(matches!(taken, Err(TierError::Behind(_))), "{taken:?}");
    // It waits for longer than a silence, and the first one is told of meanwhile.
    let waits = waiting.compare_patiently().await;
    assert!(matches!(waits, Err(TierError::Behind(_))), "{waits:?}");
    assert_eq!(places(&stack).await?, before);
    play(&stack, &mut added).await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_redis_that_restarts_waits_while_the_other_is_used_and_goes_on_when_it_is_not()
-> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (before, mut added) = played(&first).await?;
    copy(&first, &second).await?;
    let after = Stack::with(moved(&before, &second)?).await?;
    let worker = after.worker();
    play(&after, &mut added).await?;
    let mut on_first = 0;
    refused(&before, &mut on_first).await?;
    after.landed().await?;
    let taken = places(&after).await?;
    for _ in 0..3 {
        restart(&first).await?;
        let Err(error) = play(&before, &mut on_first).await else {
            anyhow::bail!("a replaced Redis took a write after its restart")
        };
        assert!(
            [Kind::Unpaired, Kind::HotUnavailable, Kind::Timeout].contains(&error.kind()),
            "{error}"
        );
    }
    waits(moved(&before, &first)?, &["is behind"]).await?;
    assert_eq!(places(&after).await?, taken);
    worker.stop().await?;
    after.storage.close(Duration::from_secs(5)).await;
    drop(after);
    second.kill()?;
    // Nobody uses the second one any more.
    until("the first Redis goes on", async || {
        Ok(play(&before, &mut on_first).await.is_ok())
    })
    .await?;
    let player = before.player("0").get(["gold"]).await?;
    let gold = player["gold"].as_deref().context("no gold")?;
    let gold: u64 = std::str::from_utf8(gold)?.parse()?;
    assert!(gold >= 2, "what landed from the second one is seen: {gold}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_replaces_its_master_that_lives() -> Result<()> {
    for lags in [false, true] {
        let (master, replica) = (blank().await?, blank().await?);
        replica.follow(&master).await?;
        let (before, mut added) = played(&master).await?;
        replica.caught_up(&master).await?;
        if lags {
            // The last writes are on the master alone, and nothing of them has landed.
            replica.call(&["REPLICAOF", "127.0.0.1", "1"]).await?;
            play(&before, &mut added).await?;
        }
        replica.promote().await?;
        let after = Stack::with(moved(&before, &replica)?).await?;
        let mut on_replica = 0;
        until("the promoted replica is used", async || {
            Ok(play(&after, &mut on_replica).await.is_ok())
        })
        .await?;
        refused(&before, &mut added).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blank_redis_beside_one_that_is_used_waits_and_takes_over_when_it_is_not() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (stack, mut added) = played(&first).await?;
    let port = first.port().to_string();
    waits(moved(&stack, &second)?, &["is blank", &port, "adopt"]).await?;
    // One wrong URL replaced nothing.
    play(&stack, &mut added).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    stack.storage.close(Duration::from_secs(5)).await;
    let world = moved(&stack, &second)?;
    let database = stack.database.clone();
    drop(stack);
    let after = Stack::with(world).await?;
    play(&after, &mut added).await?;
    let worker = after.worker();
    after.landed().await?;
    worker.stop().await?;
    assert_eq!(after.database, database);
    assert_eq!(landed(&after).await?, added);
    Ok(())
}

/// The tables that tell which hot tier has a partition, as they were at a moment.
struct Backup {
    server: &'static MariaDbServer,
    database: String,
}

const RECORDS: [&str; 3] = ["landing_partition", "landing_stamp", "landing_hot"];

impl Backup {
    async fn of(stack: &Stack) -> Result<Self> {
        let (server, name) = (stack::mariadb().await?, stack.database.rsplit('/').next());
        let database = name.context("a database")?.to_owned();
        let copies: String = RECORDS
            .iter()
            .map(|table| format!("CREATE TABLE old_{table} AS SELECT * FROM {table};"))
            .collect();
        server.sql(&format!("USE {database}; {copies}")).await?;
        Ok(Self { server, database })
    }

    async fn restore(&self) -> Result<()> {
        let copies: String = RECORDS
            .iter()
            .map(|table| {
                format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM old_{table};")
            })
            .collect();
        let sql = format!("USE {}; {copies}", self.database);
        self.server.sql(&sql).await.map(drop)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_and_two_hot_tiers_share_no_epoch() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let (before, mut added) = played(&first).await?;
    let backup = Backup::of(&before).await?;
    copy(&first, &second).await?;
    // The second one adopts epoch 2, and keeps marks that have not landed.
    let after = Stack::with(moved(&before, &second)?).await?;
    let mut on_second = 0;
    play(&after, &mut on_second).await?;
    let marks = after.backlog().await?.marks();
    assert!(marks > 0);
    // The database forgets that. The first one restarts, and gets epoch 2, too.
    backup.restore().await?;
    restart(&first).await?;
    let worker = before.worker();
    until("the first Redis goes on", async || {
        Ok(play(&before, &mut added).await.is_ok())
    })
    .await?;
    before.landed().await?;
    let taken = places(&before).await?;
    let (gold, epochs) = (landed(&before).await?, taken.values().map(|place| place.1));
    assert_eq!(epochs.max(), Some(Epoch(2)));

    let other = after.worker();
    until("the worker of the second Redis is refused", async || {
        Ok(other.counts().failures > 0)
    })
    .await?;
    refused(&after, &mut on_second).await?;
    assert_eq!(landed(&before).await?, gold, "both landed in one epoch");
    assert_eq!(places(&before).await?, taken);
    assert!(after.backlog().await?.marks() >= marks, "its marks stay");
    other.stop().await?;
    worker.stop().await
}

/// Run id and replication id of a server.
async fn ids(redis: &RedisServer) -> Result<(String, String)> {
    let info = redis.call(&["INFO"]).await?;
    let text = info.text()?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::to_owned).context("no such line")
    };
    Ok((of("run_id:")?, of("master_replid:")?))
}

/// R14 rests on this table of the book.
#[tokio::test(flavor = "multi_thread")]
async fn the_ids_of_redis_change_as_the_book_says() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    first.call(&["SET", "a", "1"]).await?;
    let start = ids(&first).await?;
    first.call(&["FLUSHALL"]).await?;
    assert_eq!(ids(&first).await?, start, "FLUSHALL");

    restart(&first).await?;
    let restarted = ids(&first).await?;
    assert!(restarted.0 != start.0 && restarted.1 != start.1, "restart");

    copy(&first, &second).await?;
    let copied = ids(&second).await?;
    assert!(copied.0 != restarted.0 && copied.1 != restarted.1, "copy");
    assert_eq!(ids(&first).await?, restarted, "the original");

    second.follow(&first).await?;
    let (followed, leader) = (ids(&second).await?, ids(&first).await?);
    assert_eq!((&followed.0, &leader.0), (&copied.0, &restarted.0));
    assert_eq!(followed.1, leader.1, "a replica has its master's history");

    second.promote().await?;
    let promoted = ids(&second).await?;
    assert_eq!(promoted.0, followed.0);
    assert_ne!(promoted.1, leader.1, "a promotion begins a history");
    assert_eq!(ids(&first).await?, leader, "the master that lives");

    // Failback: the old master follows, and is promoted again.
    first.follow(&second).await?;
    first.promote().await?;
    let back = ids(&first).await?;
    assert!(back.0 == leader.0 && back.1 != leader.1 && back.1 != promoted.1);

    second.follow(&first).await?;
    restart(&second).await?;
    second.follow(&first).await?;
    let resumed = ids(&second).await?;
    assert!(
        resumed.0 != promoted.0 && resumed.1 == back.1,
        "a replica that restarts"
    );

    first.call(&["REPLICAOF", "127.0.0.1", "1"]).await?;
    first.promote().await?;
    let left = ids(&first).await?;
    assert!(
        left.0 == back.0 && left.1 != back.1,
        "it followed a server that is away"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_with_its_log_has_new_ids() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    redis.call(&["SET", "a", "1"]).await?;
    let before = ids(&redis).await?;
    redis.kill()?;
    redis.restart().await?;
    let after = ids(&redis).await?;
    assert!(after.0 != before.0 && after.1 != before.1);
    assert_eq!(redis.call(&["GET", "a"]).await?.text()?, "1");
    Ok(())
}

async fn gold(player: &ByteOwner) -> Result<String> {
    let read = player.get(["gold"]).await?;
    Ok(String::from_utf8_lossy(read["gold"].as_ref().context("no gold")?).into_owned())
}

/// Two masters of the same data on one database, and two players of one partition with 10 gold
/// each.
struct Masters {
    before: Stack,
    after: Stack,
    eve: ByteOwner,
    _servers: [RedisServer; 2],
}

impl Masters {
    /// The second takes over from the first, which goes on.
    async fn part() -> Result<Self> {
        let old = RedisServer::start(RedisOptions::default()).await?;
        let new = RedisServer::start(RedisOptions::default()).await?;
        // Before the old master is used: a master that gets its first replica becomes another
        // incarnation. This test is about another case.
        new.follow(&old).await?;
        let world = World::on(&old.url(), stack::mariadb().await?).await?;
        let taken_over =
            World::with_urls(&new.url(), &world.database, &world.settings.redis.prefix)?;
        let before = Stack::with(world).await?;
        let ann = before.player("ann");
        let partition = ann.owner().partition(8);
        let other = (0..)
            .map(|id| before.player(&id.to_string()))
            .find(|player| player.owner().partition(8) == partition);
        let eve = other.context("some id is of the same partition")?;
        let worker = before.worker();
        for player in [&ann, &eve] {
            player.update([("gold", "10")]).await?;
        }
        before.landed().await?;
        worker.stop().await?;
        new.caught_up(&old).await?;
        new.promote().await?;
        let after = Stack::with(taken_over).await?;
        Ok(Self {
            before,
            after,
            eve,
            _servers: [old, new],
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_not_told_of_an_adoption_builds_on_nothing_from_before() -> Result<()> {
    let Masters {
        before,
        after,
        eve,
        _servers,
    } = Masters::part().await?;
    // Another process of the old master. It knows the partition from before the take-over.
    let Stack {
        settings, database, ..
    } = &before;
    let other = Stack::with(World {
        settings: settings.clone(),
        text: String::new(),
        database: database.clone(),
    })
    .await?;
    let other_eve = other.player(eve.owner().id());
    // All of eve is cached, so that only the comparison asks the database.
    assert_eq!(other_eve.get_all().await?.len(), 1);
    let new_eve = after.player(eve.owner().id());
    new_eve.update([("gold", "30")]).await?;
    new_eve.flush(Duration::from_secs(30)).await?;
    // The old master gets its partitions back, on purpose.
    before.storage.tiers().adopt().await?;

    let mut value = 0;
    until("the other process goes on", async || {
        match other_eve.incr("gold", 1).await {
            Ok(added) => value = added.value(),
            // It compared the tiers in between.
            Err(error) if error.kind() == Kind::Unpaired => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    })
    .await?;
    assert_eq!(value, 31, "the row is newer than the hash");
    assert_eq!(gold(&eve).await?, "31");
    Ok(())
}
