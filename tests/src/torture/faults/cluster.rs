//! A cluster that loses a master, and a cluster with moving slots.

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::RngExt as _;
use rand::rngs::StdRng;
use storage_servers::{RedisCluster, SlotMove};
use tokio::time::{Instant, sleep};

use super::phase::{Phase, reach};
use super::rewind::landed;
use super::{Fault, pause};
use crate::torture::arena::Arena;
use crate::torture::moment::now;
use crate::torture::oracle::Rewind;

/// The longest time that the nodes can take to agree.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn inject(
    fault: Fault,
    arena: &Arena,
    wanted: Phase,
    rng: &mut StdRng,
) -> Result<Option<Phase>> {
    let cluster = arena.hot.cluster()?;
    let partition = rng.random_range(0..arena.settings.redis.partitions);
    let slot = slot_of(partition);
    match fault {
        Fault::MasterKill => return kill_master(arena, cluster, slot, wanted).await,
        Fault::MasterPause => return pause_master(arena, cluster, slot, wanted, rng).await,
        _ => {}
    }
    let from = cluster.owner_of(slot).await?;
    let mut to = from;
    while to == from {
        to = cluster.owner_of(rng.random_range(0..16_384)).await?;
    }
    let phase = reach(arena, wanted).await;
    let moving = SlotMove::begin(cluster, slot, to).await?;
    // Some keys at a time, so that the slot stays half-way for a while.
    let all = rng.random_range(5..50);
    loop {
        sleep(pause(rng, 1..60)).await;
        if moving.migrate(all).await? == 0 {
            break;
        }
    }
    moving.finish().await?;
    Ok(phase)
}

async fn kill_master(
    arena: &Arena,
    cluster: &RedisCluster,
    slot: u16,
    wanted: Phase,
) -> Result<Option<Phase>> {
    in_sync(cluster).await?;
    let _calm = arena.calm.lock().await;
    let master = cluster.owner_of(slot).await?;
    let phase = reach(arena, wanted).await;
    let down = now();
    cluster.node(master)?.kill()?;
    // Replication is asynchronous. The data that the replica had not received is gone, unless it
    // has landed.
    let rows = landed(arena).await?;
    let deadline = Instant::now() + PATIENCE;
    while cluster
        .owner_of(slot)
        .await
        .is_ok_and(|owner| owner == master)
        || cluster.owner_of(slot).await.is_err()
    {
        ensure!(Instant::now() < deadline, "no replica took over");
        sleep(Duration::from_millis(50)).await;
    }
    arena.rewound(Rewind {
        down,
        up: now(),
        rows,
    });
    cluster.node(master)?.restart().await?;
    cluster.settled().await?;
    Ok(phase)
}

/// Pauses a master. If the pause is long, its replica takes over. For a moment after the pause, the
/// old master may then acknowledge writes that no other node will have.
async fn pause_master(
    arena: &Arena,
    cluster: &RedisCluster,
    slot: u16,
    wanted: Phase,
    rng: &mut StdRng,
) -> Result<Option<Phase>> {
    in_sync(cluster).await?;
    let _calm = arena.calm.lock().await;
    let master = cluster.node(cluster.owner_of(slot).await?)?;
    let phase = reach(arena, wanted).await;
    let down = now();
    master.pause()?;
    let rows = landed(arena).await?;
    sleep(pause(rng, 100..3_000)).await;
    master.resume()?;
    cluster.settled().await?;
    arena.rewound(Rewind {
        down,
        up: now(),
        rows,
    });
    Ok(phase)
}

/// Waits until every master has its replica. Otherwise a kill would end a part of the cluster for
/// good.
async fn in_sync(cluster: &RedisCluster) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (mut masters, mut replicas) = (0, 0);
        for node in cluster.nodes() {
            let info = node.call(&["INFO", "replication"]).await?;
            let info = info.text()?;
            masters += usize::from(info.contains("role:master") && info.contains("state=online"));
            replicas += usize::from(info.contains("master_link_status:up"));
        }
        if masters == 3 && replicas == 3 {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{masters} masters with replicas and {replicas} replicas in sync"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

/// The slot of a partition: CRC16 (XMODEM) of its number, which is the hash tag. The cluster
/// specification defines it.
fn slot_of(partition: u32) -> u16 {
    let crc = partition.to_string().bytes().fold(0_u16, |crc, byte| {
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
