//! The SDK and the worker on a Redis Cluster.

use anyhow::Result;
use futures::future::join_all;
use storage_servers::RedisCluster;
use storage_tests::{Stack, World, rows, stack, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_serves_lands_and_hot_loads_while_a_slot_moves_and_a_master_is_killed() -> Result<()> {
    let cluster = RedisCluster::start(3, 1).await?;
    let stack = Stack::with(World::on(&cluster.url(), stack::mariadb().await?).await?).await?;
    let worker = stack.worker();
    let players: Vec<_> = (0..60).map(|id| stack.player(&id.to_string())).collect();
    let write = async |round: &'static str| -> Result<()> {
        let writes = players.iter().map(|player| async move {
            // A write during a failover may fail after its deadline; it is repeated until it is acknowledged.
            until("a write is acknowledged", async || Ok(player.update([("round", round)]).await.is_ok())).await
        });
        join_all(writes).await.into_iter().collect()
    };
    write("1").await?;
    stack.landed().await?;

    let partition = players.first().map(|player| player.owner().partition(8)).unwrap_or(storage_model::Partition(0));
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
    assert_eq!((stored.len(), stored.iter().filter(|row| row.value == b"3").count()), (60, 60));

    for player in &players {
        player.evict().await?;
        assert_eq!(player.get(["round"]).await?["round"].as_deref(), Some(&b"3"[..]));
    }
    Ok(())
}

/// The slot of a hash tag: CRC16 (XMODEM) of what is between the braces, modulo 16,384, as the cluster specification says.
fn slot_of(tag: &str) -> u16 {
    let inner = tag.trim_matches(['{', '}']);
    let crc = inner.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    });
    crc % 16_384
}
