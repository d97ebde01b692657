//! The SDK's own promises: bulk, ids, deadlines, durability, closing, embedded mode.

use std::time::Duration;

use anyhow::Result;
use storage_sdk::{Durability, Kind, Outcome, Retry, Safety, Storage};
use storage_tests::{Stack, rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_answers_each_write_in_the_order_given() -> Result<()> {
    let stack = Stack::open().await?;
    let bytes = stack.storage.world("game", "eu")?.bytes();
    let (a, b) = (stack.player("a"), stack.player("b"));
    b.update([("text", "x")]).await?;
    let answers = bytes
        .bulk()
        .update(&a, [("gold", "1")])
        .incr(&b, "text", 1)
        .incr(&b, "gold", 2)
        .remove(&b, "\n")
        .await;
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), Kind::NotInteger);
    assert_eq!(answers[3].as_ref().unwrap_err().kind(), Kind::Invalid);
    assert_eq!(b.get(["gold"]).await?["gold"].as_deref(), Some(&b"2"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_repeated_under_its_id_is_applied_once_and_answers_the_same() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.incr("gold", 1).await?;
    let id = stack.storage.next_id();
    let first = ann.incr("gold", 5).id(id).await?;
    for other in 0..50 {
        ann.update([("other", other.to_string())]).await?;
    }
    let again = ann.incr("gold", 5).id(id).await?;
    assert_eq!(again, first);
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"6"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_must_land_is_in_the_database_when_it_is_acknowledged() -> Result<()> {
    let stack = Stack::open().await?;
    let landed = Durability::Landed {
        timeout: Duration::from_secs(10),
    };
    let ack = stack
        .player("ann")
        .update([("name", "Bo")])
        .durability(landed)
        .await?;
    assert_eq!(ack.durability(), Safety::Landed);
    assert_eq!(rows(&stack.database).await?.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_storage_refuses_writes() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("name", "Ann")]).await?;
    let report = stack.storage.close(Duration::MAX).await;
    assert_eq!((report.under_way, report.unknown.len()), (0, 0));
    let error = ann.update([("name", "Bo")]).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Closed, Outcome::NotApplied)
    );
    let repeat = ann
        .update([("name", "Bo")])
        .id(stack.storage.next_id())
        .await
        .unwrap_err();
    assert_eq!(
        (repeat.kind(), repeat.outcome()),
        (Kind::Closed, Outcome::Unknown),
        "an earlier one may have been applied"
    );
    assert_eq!(repeat.retry(), Retry::Never);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_mode_lands_everything_when_it_closes_and_finds_it_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("game.db");
    for round in 0..3_i64 {
        let storage = Storage::embedded(&path).await?;
        let world = storage.world("game", "eu")?;
        for id in 0..100_u32 {
            let player = world.bytes().owner("player", id)?;
            assert_eq!(player.incr("logins", 1).await?.value(), round + 1);
            player.update([("round", round.to_string())]).await?;
        }
        let report = storage.close(Duration::from_secs(30)).await;
        assert_eq!(
            (report.unlanded, report.errors, report.unknown.len()),
            (Some(0), Some(0), 0)
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unload_writes_a_player_out_and_lets_go_of_it() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;
    ann.unload(Duration::from_secs(10)).await?;
    assert_eq!(rows(&stack.database).await?.len(), 1);
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    let partition = ann.owner().partition(8);
    let key = format!(
        "{}-data:{{{partition}}}:game:eu:player:ann",
        stack.settings.redis.prefix
    );
    let gone = storage_tests::stack::redis()
        .await?
        .call(&["EXISTS", &key])
        .await?;
    assert_eq!(gone, storage_servers::Reply::Integer(0));
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"1"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unlanded_owners_are_listed_and_removed_ones_are_not() -> Result<()> {
    let stack = Stack::open().await?;
    for id in ["a", "b", "c"] {
        stack.player(id).update([("v", "1")]).await?;
    }
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    stack.player("b").delete_owner().await?;
    stack.player("aa").update([("v", "1")]).await?;
    stack.owner("guild", "g").update([("v", "1")]).await?;
    let mut pages = stack
        .storage
        .world("game", "eu")?
        .bytes()
        .owners("player")
        .await?;
    let mut ids = Vec::new();
    while let Some(page) = pages.next().await? {
        ids.extend(page.into_iter().map(|owner| owner.id().to_owned()));
    }
    assert_eq!(ids, ["a", "aa", "c"]);
    Ok(())
}

/// A game server spawns its calls, so every future of the SDK must be able to move between threads.
/// Compiling is the test.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_can_be_spawned() -> Result<()> {
    let stack = Stack::open().await?;
    let (storage, ann) = (stack.storage.clone(), stack.player("ann"));
    let calls = tokio::spawn(async move {
        let (second, players) = (Duration::from_secs(5), [ann.clone()]);
        let bytes = storage.world("game", "eu")?.bytes();
        ann.update([("gold", "1")])
            .durability(Durability::Landed { timeout: second })
            .await?;
        ann.incr_many([("gold", 1)]).await?;
        ann.get(["gold"]).await?;
        ann.get_all().await?;
        bytes.get_many(&players, ["gold"]).await;
        bytes.get_all_many(&players).await;
        bytes.prefetch(&players).await;
        bytes.bulk().update(&ann, [("gold", "2")]).await;
        ann.version().await?;
        ann.unload(second).await?;
        bytes.owners("player").await?.next().await?;
        storage.owners().await?.next().await?;
        storage.stats().await?;
        ann.delete_owner().await?;
        storage.close(second).await;
        anyhow::Ok(())
    });
    calls.await?
}
