//! R11: a write whose answer was lost is applied once.

use anyhow::Result;
use futures::future::join_all;
use storage_tests::{Proxy, Stack, World, stack};

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_exact_although_replies_are_lost() -> Result<()> {
    let redis = stack::redis().await?;
    let proxy = Proxy::start(redis.port()).await?;
    let direct = World::fresh().await?;
    let redis = format!("redis://127.0.0.1:{}", proxy.port());
    let stack = Stack::with(World::with_urls(&redis, &direct.database, &direct.settings.redis.prefix)?).await?;
    let players: Vec<_> = (0..10).map(|id| stack.player(&id.to_string())).collect();
    for player in &players {
        player.incr("gold", 0).await?;
    }
    proxy.lose_every(5);
    for round in 0..30 {
        let all = players.iter().map(|player| async move { player.incr("gold", 1).await });
        for (id, counted) in join_all(all).await.into_iter().enumerate() {
            assert_eq!(counted?.value(), round + 1, "player {id}");
        }
    }
    proxy.lose_every(0);
    assert!(proxy.lost() >= 20, "only {} replies were lost", proxy.lost());
    for player in &players {
        assert_eq!(player.get(["gold"]).await?["gold"].as_deref(), Some(&b"30"[..]));
    }
    Ok(())
}
