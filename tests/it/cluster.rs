//! The SDK and the worker on a Redis Cluster.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use storage_landing::Backlog;
use storage_servers::{ClusterOptions, RedisCluster, RedisOptions};
use storage_tests::{Stack, World, rows, stack, until};
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_serves_lands_and_hot_loads_while_a_slot_moves_and_a_master_is_killed()
-> Result<()> {
    let cluster = RedisCluster::start(3, 1).await?;
    let stack = Stack::with(World::on(&cluster.url(), stack::mariadb().await?).await?).await?;
    let worker = stack.worker();
    let players: Vec<_> = (0..60).map(|id| stack.player(&id.to_string())).collect();
    let write = async |round: &'static str| -> Result<()> {
        let writes = players.iter().map(|player| async move {
            // A write during a failover may fail after its deadline. The test repeats it until it
            // is acknowledged.
            until("a write is acknowledged", async || {
                Ok(player.update([("round", round)]).await.is_ok())
            })
            .await
        });
        join_all(writes).await.into_iter().collect()
    };
    write("1").await?;
    stack.landed().await?;

    let partition = players
        .first()
        .map(|player| player.owner().partition(8))
        .unwrap_or(storage_model::Partition(0));
    let slot = slot_of(&format!("{{{partition}}}"));
    let from = cluster.owner_of(slot).await?;
    cluster.move_slot(slot, (from + 1) % 3).await?;
    write("2").await?;
    stack.landed().await?;

    cluster.node(0)?.kill()?;
    write("3").await?;
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!(
        (
            stored.len(),
            stored.iter().filter(|row| row.value == b"3").count()
        ),
        (60, 60)
    );

    for player in &players {
        player.evict().await?;
        assert_eq!(
            player.get(["round"]).await?["round"].as_deref(),
            Some(&b"3"[..])
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_what_it_can_reach_of_a_cluster_that_lacks_a_master_and_names_the_rest()
-> Result<()> {
    let args = ["--cluster-require-full-coverage", "no"]
        .map(str::to_owned)
        .to_vec();
    let redis = RedisOptions {
        args,
        ..RedisOptions::default()
    };
    let cluster = RedisCluster::start_with(ClusterOptions {
        redis,
        ..ClusterOptions::default()
    })
    .await?;
    let world = World::on(&cluster.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    std::fs::write(&config, &world.text)?;
    let stack = Stack::with(world).await?;
    for id in 0..60 {
        stack
            .player(&id.to_string())
            .update([("gold", "1")])
            .await?;
    }
    assert_eq!(stack.backlog().await?.marks(), 60);
    cluster
        .node(cluster.owner_of(slot_of("{0}")).await?)?
        .kill()?;

    let hot = stack.storage.tiers().hot();
    let backlog = Backlog::reachable(hot).await?;
    assert!(
        backlog.away.iter().any(|(partition, _)| partition.0 == 0),
        "{backlog:?}"
    );
    assert!(
        (1..60).contains(&backlog.marks()) && backlog.partitions.len() + backlog.away.len() == 8,
        "{backlog:?}"
    );
    assert!(Backlog::read(hot).await.is_err(), "it is not all of it");
    let output = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["status", "--config"])
        .arg(&config)
        .output()
        .await?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        printed.contains("        0  away: peek: ") && printed.contains("total"),
        "{printed}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_were_refused_go_on_where_a_cluster_can_be_reached_once_that_has_landed()
-> Result<()> {
    let args = ["--cluster-require-full-coverage", "no"]
        .map(str::to_owned)
        .to_vec();
    let redis = RedisOptions {
        args,
        ..RedisOptions::default()
    };
    let cluster = RedisCluster::start_with(ClusterOptions {
        redis,
        ..ClusterOptions::default()
    })
    .await?;
    let mut world = World::on(&cluster.url(), stack::mariadb().await?).await?;
    let backpressure = &mut world.settings.backpressure;
    (backpressure.soft_marks, backpressure.hard_marks) = (20, 60);
    backpressure.interval = Duration::from_millis(10);
    let stack = Stack::with(world).await?;
    let mut number = 0;
    let refused = |error: storage_sdk::Error| error.kind() == storage_sdk::Kind::Overloaded;
    while !stack
        .player(&number.to_string())
        .update([("gold", "1")])
        .await
        .is_err_and(refused)
    {
        number += 1;
    }
    let away = cluster.owner_of(slot_of("{0}")).await?;
    cluster.node(away)?.kill()?;
    let worker = stack.worker();
    let mut there = None;
    for partition in 0..8 {
        let is_there = cluster
            .owner_of(slot_of(&format!("{{{partition}}}")))
            .await?
            != away;
        there = there.or(is_there.then_some(storage_model::Partition(partition)));
    }
    let of_it = |id: &u32| Some(stack.player(&id.to_string()).owner().partition(8)) == there;
    let ann = stack.player(&(0..).find(of_it).unwrap_or_default().to_string());
    until("it is written again", async || {
        Ok(ann.update([("gold", "2")]).await.is_ok())
    })
    .await?;
    worker.stop().await
}

/// The slot of a hash tag: CRC16 (XMODEM) of the text between the braces, modulo 16,384. The
/// cluster specification defines it.
pub(crate) fn slot_of(tag: &str) -> u16 {
    let inner = tag.trim_matches(['{', '}']);
    let crc = inner.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    });
    crc % 16_384
}
