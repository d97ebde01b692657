//! A master goes on after another has taken over, without noticing (H52).

use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_sdk::ByteOwner;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack};

async fn gold(player: &ByteOwner) -> Result<String> {
    let read = player.get(["gold"]).await?;
    Ok(String::from_utf8_lossy(read["gold"].as_ref().context("no gold")?).into_owned())
}

/// Two masters of the same data on one database, and two players of one partition with 10 gold
/// each.
struct Masters {
    before: Stack,
    after: Stack,
    ann: ByteOwner,
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
            ann,
            eve,
            _servers: [old, new],
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_replaced_master_lands_is_seen_by_the_one_that_took_over() -> Result<()> {
    let Masters {
        before,
        after,
        eve,
        _servers,
        ..
    } = Masters::part().await?;
    let successor = after.worker();
    let (new_ann, new_eve) = (after.player("ann"), after.player(eve.owner().id()));
    new_ann.update([("gold", "20")]).await?;
    after.landed().await?;
    assert_eq!(gold(&new_eve).await?, "10");

    let worker = before.worker();
    eve.update([("gold", "30")]).await?;
    before.landed().await?;
    worker.stop().await?;
    // The next landing finds out.
    new_ann.update([("gold", "21")]).await?;
    after.landed().await?;
    assert_eq!(gold(&new_eve).await?, "30", "it has landed");
    assert_eq!(new_eve.incr("gold", 1).await?.value(), 31);
    after.landed().await?;
    successor.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_not_told_of_an_adoption_builds_on_nothing_from_before() -> Result<()> {
    let Masters {
        before,
        after,
        ann,
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
    // The landing finds out, and the old master's partition is adopted again.
    ann.update([("bag", "full")]).await?;
    ann.flush(Duration::from_secs(30)).await?;

    assert_eq!(
        other_eve.incr("gold", 1).await?.value(),
        31,
        "the row is newer than the hash"
    );
    assert_eq!(gold(&eve).await?, "31");
    Ok(())
}
