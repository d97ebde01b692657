//! R11: a write whose answer was lost is applied once.

use anyhow::Result;
use futures::future::join_all;
use storage_tests::{Proxy, Stack, World, stack};

/// A proxy that loses replies, and a stack behind it.
async fn behind_a_proxy() -> Result<(Proxy, Stack)> {
    let redis = stack::redis().await?;
    let proxy = Proxy::start(redis.port()).await?;
    let direct = World::fresh().await?;
    let redis = format!("redis://127.0.0.1:{}", proxy.port());
    let stack = Stack::with(World::with_urls(
        &redis,
        &direct.database,
        &direct.settings.redis.prefix,
    )?)
    .await?;
    Ok((proxy, stack))
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_exact_although_replies_are_lost() -> Result<()> {
    let (proxy, stack) = behind_a_proxy().await?;
    let players: Vec<_> = (0..10).map(|id| stack.player(&id.to_string())).collect();
    for player in &players {
        player.incr("gold", 0).await?;
    }
    proxy.lose_every(5);
    for round in 0..30 {
        let all = players
            .iter()
            .map(|player| async move { player.incr("gold", 1).await });
        for (id, counted) in join_all(all).await.into_iter().enumerate() {
            assert_eq!(counted?.value(), round + 1, "player {id}");
        }
    }
    proxy.lose_every(0);
    assert!(
        proxy.lost() >= 20,
        "only {} replies were lost",
        proxy.lost()
    );
    for player in &players {
        assert_eq!(
            player.get(["gold"]).await?["gold"].as_deref(),
            Some(&b"30"[..])
        );
    }
    Ok(())
}

/// If a write was applied and its result was lost, its repeat would be rejected, since the version
/// is its own.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_hold_although_replies_are_lost() -> Result<()> {
    let (proxy, stack) = behind_a_proxy().await?;
    let ann = stack.player("ann");
    let mut last = ann.update([("gold", "0")]).await?.version();
    proxy.lose_every(5);
    for value in 1..=100 {
        last = ann
            .update([("gold", value.to_string())])
            .if_version(last)
            .await?
            .version();
    }
    proxy.lose_every(0);
    assert!(
        proxy.lost() >= 10,
        "only {} replies were lost",
        proxy.lost()
    );
    let found = ann.get(["gold"]).await?;
    assert_eq!(
        (found["gold"].as_deref(), found.version()),
        (Some(&b"100"[..]), last)
    );
    Ok(())
}
