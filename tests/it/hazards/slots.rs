//! A slot of a cluster moves while servers and workers go on (H22, H23).

use anyhow::Result;
use futures::future::try_join;
use storage_servers::{RedisCluster, Reply, SlotMove};
use storage_tests::{Stack, World, rows, stack, until};
use tokio::sync::watch;

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_exact_while_a_slot_moves_back_and_forth_under_load() -> Result<()> {
    const PLAYERS: usize = 24;
    let cluster = RedisCluster::start(3, 0).await?;
    let stack = Stack::with(World::on(&cluster.url(), stack::mariadb().await?).await?).await?;
    let worker = stack.worker();
    let players: Vec<_> = (0..PLAYERS)
        .map(|id| stack.player(&format!("{id:02}")))
        .collect();
    for player in &players {
        player.update([("count", "0")]).await?;
    }
    let tag = format!(
        "{}-part:{{{}}}",
        stack.settings.redis.prefix,
        players[0].owner().partition(8)
    );
    let Reply::Integer(slot) = cluster.node(0)?.call(&["CLUSTER", "KEYSLOT", &tag]).await? else {
        anyhow::bail!("no slot")
    };
    let slot = u16::try_from(slot)?;
    let (stop, stopped) = watch::channel(false);
    let (count, counted) = watch::channel(0_u64);
    let play = async {
        let all = players.iter().map(|player| {
            let (stopped, count, storage) = (stopped.clone(), count.clone(), stack.storage.clone());
            async move {
                let mut total = 0;
                while !*stopped.borrow() {
                    let id = storage.next_id();
                    // A call that ends unknown or without service is repeated under its id until it
                    // is answered.
                    until("it is counted", async || {
                        Ok(player.incr("count", 1).id(id).await.is_ok())
                    })
                    .await?;
                    total += 1;
                    count.send_modify(|count| *count += 1);
                }
                anyhow::Ok(total)
            }
        });
        futures::future::try_join_all(all).await
    };
    let shift = async {
        let goes_on = async |by: u64| {
            let from = *counted.borrow();
            until("others go on", async || Ok(*counted.borrow() >= from + by)).await
        };
        for _ in 0..2 {
            let to = (cluster.owner_of(slot).await? + 1) % 3;
            let moving = SlotMove::begin(&cluster, slot, to).await?;
            goes_on(100).await?;
            moving.migrate(3).await?;
            goes_on(100).await?;
            while moving.migrate(100).await? > 0 {}
            goes_on(100).await?;
            moving.finish().await?;
            goes_on(100).await?;
        }
        stop.send_replace(true);
        anyhow::Ok(())
    };
    let (totals, ()) = try_join(play, shift).await?;
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    let stored: Vec<String> = stored
        .into_iter()
        .map(|row| String::from_utf8_lossy(&row.value).into_owned())
        .collect();
    assert_eq!(
        stored,
        totals.iter().map(u64::to_string).collect::<Vec<_>>()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_never_asked() -> Result<()> {
    let cluster = RedisCluster::start(1, 1).await?;
    let stack = Stack::with(World::on(&cluster.url(), stack::mariadb().await?).await?).await?;
    let worker = stack.worker();
    for id in 0..40 {
        let player = stack.player(&id.to_string());
        player.update([("gold", "1")]).await?;
        player.get(["gold"]).await?;
        player.get_all().await?;
    }
    stack.landed().await?;
    worker.stop().await?;
    let asked = async |node: usize| -> Result<bool> {
        let info = cluster.node(node)?.call(&["INFO", "commandstats"]).await?;
        Ok(["hmget", "hgetall", "evalsha"].iter().any(|name| {
            info.text()
                .is_ok_and(|all| all.contains(&format!("cmdstat_{name}:")))
        }))
    };
    assert!(asked(0).await? && !asked(1).await?);
    Ok(())
}
