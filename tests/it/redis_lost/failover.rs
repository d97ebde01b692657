//! Servers that are replaced under load: by themselves, by a replica that lagged, or by nothing.

use std::time::Duration;

use anyhow::Result;
use storage_model::{Epoch, Partition};
use storage_servers::{
    ClusterOptions, RedisCluster, RedisOptions, RedisSentinel, RedisServer, Reply, SentinelOptions,
};
use storage_tests::{Stack, World, stack, until};

use super::load::Load;

/// The generation of each partition. It rises when the hot tier came back older.
async fn generations(stack: &Stack) -> Result<Vec<Epoch>> {
    let hot = stack.storage.tiers().hot();
    let partitions: Vec<_> = (0..hot.partitions.partition_count())
        .map(Partition)
        .collect();
    let states = hot
        .partitions
        .partition_states(&partitions)
        .await
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    Ok(states
        .into_iter()
        .map(|state| {
            state
                .record
                .map(|record| record.generation)
                .unwrap_or_default()
        })
        .collect())
}

/// Waits until the storage notices that a server came back older.
async fn noticed(stack: &Stack, before: &[Epoch]) -> Result<()> {
    until("the rewind is noticed", async || {
        Ok(generations(stack).await.is_ok_and(|now| now != before))
    })
    .await
}

async fn on(url: &str) -> Result<Stack> {
    Stack::with(World::on(url, stack::mariadb().await?).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_from_an_old_dump_under_load_loses_nothing_that_had_landed() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let stack = on(&redis.url()).await?;
    let worker = stack.worker();
    let mut load = Load::start(&stack).await?;
    let before = generations(&stack).await?;
    for _ in 0..2 {
        redis.call(&["SAVE"]).await?;
        load.advance().await?;
        redis.kill()?;
        redis.restart().await?;
        load.advance().await?;
    }
    noticed(&stack, &before).await?;
    load.finish(&stack).await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushall_under_load_loses_nothing_that_had_landed() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let stack = on(&redis.url()).await?;
    let worker = stack.worker();
    let mut load = Load::start(&stack).await?;
    for _ in 0..2 {
        redis.call(&["FLUSHALL"]).await?;
        load.advance().await?;
    }
    load.finish(&stack).await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_keeps_everything_makes_nothing_suspect_under_load() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let stack = on(&redis.url()).await?;
    let worker = stack.worker();
    let mut load = Load::start(&stack).await?;
    let before = generations(&stack).await?;
    for _ in 0..4 {
        redis.kill()?;
        redis.restart().await?;
        load.advance().await?;
    }
    assert_eq!(generations(&stack).await?, before);
    load.finish(&stack).await?;
    worker.stop().await
}

/// Stops a replica from following its master, or lets it follow again.
async fn follow(replica: &RedisServer, follow: bool) -> Result<()> {
    replica
        .call(&[
            "CONFIG",
            "SET",
            "masterauth",
            if follow { "secret" } else { "another" },
        ])
        .await
        .map(drop)
}

/// Stops all replicas of a master from following it.
async fn cut_off(master: &RedisServer, replicas: &[&RedisServer]) -> Result<()> {
    let says = async |wanted: &str, times: usize| {
        Ok(master
            .call(&["INFO", "replication"])
            .await?
            .text()?
            .matches(wanted)
            .count()
            == times)
    };
    // A replica that is still about to follow has already sent its password and would go on.
    until("all replicas follow", async || {
        says("state=online", replicas.len()).await
    })
    .await?;
    for replica in replicas {
        follow(replica, false).await?;
    }
    until("no replica follows", async || {
        master.call(&["CLIENT", "KILL", "TYPE", "replica"]).await?;
        says("connected_slaves:0\r", 1).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_lagged_and_that_sentinels_promote_under_load_loses_nothing_that_had_landed()
-> Result<()> {
    let redis = RedisOptions {
        password: Some("secret".to_owned()),
        ..RedisOptions::default()
    };
    let sentinel = RedisSentinel::start(SentinelOptions {
        redis,
        ..SentinelOptions::default()
    })
    .await?;
    let stack = on(&sentinel.url()).await?;
    let worker = stack.worker();
    let mut load = Load::start(&stack).await?;
    let before = generations(&stack).await?;
    let master = sentinel.server(0)?;
    cut_off(
        master,
        &sentinel.servers().iter().skip(1).collect::<Vec<_>>(),
    )
    .await?;
    load.advance().await?;
    master.kill()?;
    sentinel.failed_over(0).await?;
    for replica in sentinel.servers().iter().skip(1) {
        follow(replica, true).await?;
    }
    load.advance().await?;
    noticed(&stack, &before).await?;
    // The old master comes back. It stays a master until it is demoted.
    master.restart().await?;
    load.advance().await?;
    sentinel.settled().await?;
    load.finish(&stack).await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_replica_and_a_flushed_master_of_a_cluster_under_load_lose_nothing_that_had_landed()
-> Result<()> {
    let redis = RedisOptions {
        password: Some("secret".to_owned()),
        ..RedisOptions::default()
    };
    let node_timeout = Duration::from_millis(500);
    let options = ClusterOptions {
        masters: 3,
        replicas_per_master: 1,
        node_timeout,
        redis,
    };
    let cluster = RedisCluster::start_with(options).await?;
    let stack = on(&cluster.url()).await?;
    let worker = stack.worker();
    let mut load = Load::start(&stack).await?;

    let slot = match cluster
        .node(0)?
        .call(&["CLUSTER", "KEYSLOT", "{0}"])
        .await?
    {
        Reply::Integer(slot) => u16::try_from(slot)?,
        other => anyhow::bail!("{other:?}"),
    };
    let from = cluster.owner_of(slot).await?;
    let before = generations(&stack).await?;
    cluster.move_slot(slot, (from + 1) % 3).await?;
    load.advance().await?;
    assert_eq!(
        generations(&stack).await?,
        before,
        "a slot that moves makes nothing suspect"
    );

    let master = cluster.owner_of(slot).await?;
    let replica = cluster.node(master + 3)?;
    let before = generations(&stack).await?;
    cut_off(cluster.node(master)?, &[replica]).await?;
    load.advance().await?;
    cluster.node(master)?.kill()?;
    until("the replica takes over", async || {
        Ok(cluster
            .owner_of(slot)
            .await
            .is_ok_and(|owner| owner == master + 3))
    })
    .await?;
    load.advance().await?;
    noticed(&stack, &before).await?;

    cluster.node((master + 1) % 3)?.call(&["FLUSHALL"]).await?;
    load.advance().await?;
    load.finish(&stack).await?;
    worker.stop().await
}
