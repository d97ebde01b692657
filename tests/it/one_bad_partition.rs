//! A fault in one partition stays there, and the others go on.

use std::time::Duration;

use anyhow::Result;
use storage_servers::{RedisServer, Reply};
use storage_tests::{Stack, redis, rows, until};

/// A key of the stack's own, with the tag of its partition if it has one.
fn key(stack: &Stack, rest: &str) -> String {
    format!("{}-{rest}", stack.settings.redis.prefix)
}

async fn seconds(redis: &RedisServer) -> Result<u64> {
    match redis.call(&["TIME"]).await? {
        Reply::Array(parts) => match parts.first() {
            Some(Reply::Bytes(seconds)) => Ok(std::str::from_utf8(seconds)?.parse()?),
            other => anyhow::bail!("{other:?}"),
        },
        other => anyhow::bail!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_maps_are_broken_keeps_no_other_from_landing() -> Result<()> {
    for broken in [
        "marks:{0}",
        "marks:{0}:saving",
        "marks:{0}:error",
        "marks:{3}:saving",
        "marks:{5}:saving",
    ] {
        let stack = Stack::open().await?;
        let mut others = 0;
        for id in 0..40 {
            let player = stack.player(&id.to_string());
            let partition = player.owner().partition(8).0;
            if partition != 2 && !broken.contains(&format!("{{{partition}}}")) {
                player.update([("gold", "1")]).await?;
                others += 1;
            }
        }
        redis()
            .await?
            .call(&["SET", &key(&stack, broken), "broken"])
            .await?;
        redis()
            .await?
            .call(&["SET", &key(&stack, "marks:{2}:error"), "broken"])
            .await?;
        let worker = stack.worker();
        until("all others have landed", async || {
            Ok(rows(&stack.database).await?.len() == others)
        })
        .await?;
        worker.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_no_hash_any_more_is_rejected_and_keeps_no_other_from_landing()
-> Result<()> {
    let stack = Stack::open().await?;
    for id in 0..40 {
        stack
            .player(&id.to_string())
            .update([("gold", "1")])
            .await?;
    }
    let bad = stack.player("7");
    let partition = bad.owner().partition(8).0;
    let name = key(&stack, &format!("data:{{{partition}}}:game:eu:player:7"));
    assert_eq!(
        redis().await?.call(&["DEL", &name]).await?,
        Reply::Integer(1)
    );
    redis().await?.call(&["SET", &name, "broken"]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), 39);
    assert_eq!(stack.backlog().await?.errors(), 1);
    Ok(())
}

/// Also if a transaction has linked it with others.
#[tokio::test(flavor = "multi_thread")]
async fn a_linked_owner_that_is_no_hash_any_more_keeps_no_other_from_landing() -> Result<()> {
    let stack = Stack::open().await?;
    let [ann, bob] = ["{g}/ann", "{g}/bob"].map(|id| stack.player(id));
    ann.update([("gold", "10")]).await?;
    ann.pay(&bob, "gold", 4).await?;
    let partition = ann.owner().partition(8).0;
    let name = key(
        &stack,
        &format!("data:{{{partition}}}:game:eu:player:{{g}}/ann"),
    );
    let redis = redis().await?;
    assert_eq!(redis.call(&["DEL", &name]).await?, Reply::Integer(1));
    redis.call(&["SET", &name, "broken"]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    let names: Vec<_> = stored.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["player/{g}/bob/gold"]);
    assert_eq!(stack.backlog().await?.errors(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_cannot_be_read_is_rejected_under_its_own_name() -> Result<()> {
    let stack = Stack::open().await?;
    redis()
        .await?
        .call(&["HSET", &key(&stack, "marks:{1}"), "junk", "5"])
        .await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(
        stack.backlog().await?.errors(),
        1,
        "it is in no map any more"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_prolonged_while_the_announcement_fails() -> Result<()> {
    let stack = Stack::open().await?;
    let redis = redis().await?;
    let worker = stack.worker();
    until("all is held", async || {
        Ok(stack
            .backlog()
            .await?
            .partitions
            .iter()
            .all(|(_, peek)| peek.holder.is_some()))
    })
    .await?;
    let workers = key(&stack, "workers");
    assert_eq!(redis.call(&["DEL", &workers]).await?, Reply::Integer(1));
    redis.call(&["SET", &workers, "broken"]).await?;
    let end = seconds(redis).await? + Duration::from_secs(4).as_secs();
    until("every lock would have run out", async || {
        Ok(seconds(redis).await? > end)
    })
    .await?;
    assert!(
        stack
            .backlog()
            .await?
            .partitions
            .iter()
            .all(|(_, peek)| peek.holder.is_some())
    );
    stack.player("ann").update([("gold", "1")]).await?;
    stack.landed().await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_cannot_be_loaded_fails_none_of_those_loaded_with_it() -> Result<()> {
    let stack = Stack::open().await?;
    let players: Vec<_> = (0..40).map(|id| stack.player(&id.to_string())).collect();
    for player in &players {
        player.update([("gold", "1")]).await?;
    }
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    for player in &players {
        player.evict().await?;
    }
    let partition = players[7].owner().partition(8).0;
    let marker = key(&stack, &format!("exist:{{{partition}}}:game:eu:player:7"));
    assert_eq!(
        redis().await?.call(&["DEL", &marker]).await?,
        Reply::Integer(1)
    );
    redis()
        .await?
        .call(&["HSET", &marker, "broken", "1"])
        .await?;
    let read = stack
        .storage
        .world("game", "eu")?
        .bytes()
        .get_all_many(&players)
        .await;
    let failed: Vec<_> = (0..40).filter(|at| read[*at].is_err()).collect();
    assert_eq!(failed, [7]);
    Ok(())
}
