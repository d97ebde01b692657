//! Redis comes back with older data while a write waits for its answer (H4, H51).

use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_model::Retry;
use storage_sdk::{ByteOwner, Counters, Outcome, Storage, Write};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Proxy, Stack, Worker, World, rows, stack, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_whose_answer_was_lost_with_its_redis_is_not_counted_twice() -> Result<()> {
    is_counted_once(async |redis, _| {
        redis.kill()?;
        redis.restart().await
    })
    .await
}

/// Redis is emptied while its connections stay open, and another process is the first to notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_whose_answer_was_lost_is_not_counted_twice_though_another_process_adopted()
-> Result<()> {
    is_counted_once(async |redis, near| {
        redis.call(&["FLUSHALL"]).await?;
        near.player("ann").update([("name", "Ann")]).await?;
        Ok(())
    })
    .await
}

/// The first call gives up before Redis is emptied, and its caller repeats it as the README says.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_is_not_counted_twice_by_a_call_that_repeats_one_which_was_given_up() -> Result<()>
{
    is_repeated_in_vain(async |first, _| {
        let error = first
            .deadline(Duration::from_secs(1))
            .await
            .err()
            .context("no answer came")?;
        assert_eq!(
            (error.outcome(), error.retry()),
            (Outcome::Unknown, Retry::SameId),
            "{error}"
        );
        Ok(())
    })
    .await
}

/// The first call is dropped while it waits, for example by a timeout of its caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_is_not_counted_twice_by_a_call_that_repeats_one_which_was_dropped() -> Result<()>
{
    is_repeated_in_vain(async |first, near| {
        tokio::select! {
            answer = first.into_future() => anyhow::bail!("no answer came, and not {answer:?}"),
            counted = is_in_the_database(near) => counted,
        }
    })
    .await
}

/// Two game servers and a worker. The proxy of one game server can lose answers.
struct Pair {
    redis: RedisServer,
    proxy: Proxy,
    far: Storage,
    /// The counter's owner, on the server that can lose answers.
    player: ByteOwner,
    near: Stack,
    worker: Worker,
}

impl Pair {
    /// Starts with a counter that is 0 and has landed.
    async fn start() -> Result<Self> {
        let redis = RedisServer::start(RedisOptions::default()).await?;
        let world = World::on(&redis.url(), stack::mariadb().await?).await?;
        let proxy = Proxy::start(redis.port()).await?;
        let url = format!("redis://127.0.0.1:{}", proxy.port());
        let far = Storage::open(
            World::with_urls(&url, &world.database, &world.settings.redis.prefix)?.settings,
        )
        .await?;
        let player = far.world("game", "eu")?.bytes().owner("player", "ann")?;
        player.update([("count", "0")]).await?;
        let near = Stack::with(world).await?;
        let worker = near.worker();
        near.landed().await?;
        Ok(Self {
            redis,
            proxy,
            far,
            player,
            near,
            worker,
        })
    }
}

async fn is_in_the_database(near: &Stack) -> Result<()> {
    until("it has landed", async || {
        Ok(rows(&near.database)
            .await?
            .iter()
            .any(|row| row.value == b"1"))
    })
    .await
}

/// Increments a counter under an id. The increment is applied and lands, but `first` gets no
/// answer. After Redis has forgotten it, a repeat under the same id ends with an error that says
/// so.
async fn is_repeated_in_vain(
    first: impl AsyncFnOnce(Write<Counters>, &Stack) -> Result<()>,
) -> Result<()> {
    let pair = Pair::start().await?;
    let (player, id) = (&pair.player, pair.far.next_id());
    pair.proxy.lose_every_reply_to(1, b"EVALSHA");
    first(player.incr("count", 1).id(id), &pair.near).await?;
    is_in_the_database(&pair.near).await?;
    pair.redis.call(&["FLUSHALL"]).await?;
    pair.near.player("ann").update([("name", "Ann")]).await?;
    pair.proxy.lose_every_reply_to(0, b"");
    for _ in 0..2 {
        let again = player
            .incr("count", 1)
            .id(id)
            .await
            .err()
            .context("it is unknown whether it was counted")?;
        assert_eq!(
            (again.outcome(), again.retry()),
            (Outcome::Unknown, Retry::Reread),
            "{again}"
        );
    }
    assert_eq!(
        player.get(["count"]).await?["count"].as_deref(),
        Some(&b"1"[..])
    );
    pair.worker.stop().await
}

/// Increments a counter. The increment is applied and lands. Its answer is lost, and so is the
/// answer of every repeat, until `loss` has emptied Redis.
async fn is_counted_once(loss: impl AsyncFnOnce(&RedisServer, &Stack) -> Result<()>) -> Result<()> {
    let pair = Pair::start().await?;
    let player = &pair.player;
    pair.proxy.lose_every_reply_to(1, b"EVALSHA");
    let count = async {
        player
            .incr("count", 1)
            .deadline(Duration::from_secs(30))
            .await
    };
    let lose = async {
        is_in_the_database(&pair.near).await?;
        loss(&pair.redis, &pair.near).await?;
        pair.proxy.lose_every_reply_to(0, b"");
        anyhow::Ok(())
    };
    let (counted, lost) = tokio::join!(count, lose);
    lost?;
    let error = counted
        .err()
        .context("it is unknown whether it was counted")?;
    assert_eq!(
        (error.outcome(), error.retry()),
        (Outcome::Unknown, Retry::Reread),
        "{error}"
    );
    assert_eq!(
        player.get(["count"]).await?["count"].as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(
        player.incr("count", 1).await?.value(),
        2,
        "others are counted as ever"
    );
    pair.worker.stop().await
}
