//! ObjStorage: serde objects.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use storage_sdk::{Kind, ModifyError, SaveObject};
use storage_tests::Stack;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player")]
struct Player {
    #[save_object(owner_id)]
    id: u64,
    gold: u32,
    #[serde(default)]
    guild: Option<String>,
}

fn player(id: u64) -> Player {
    Player {
        id,
        gold: 100,
        guild: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_created_once_saved_loaded_and_removed() -> Result<()> {
    let stack = Stack::open().await?;
    let players = stack.storage.world("game", "eu")?.objects::<Player>();
    assert_eq!(players.load(42).await?, None);
    let ack = players.create(&player(42)).await?;
    assert_eq!(
        players.create(&player(42)).await.unwrap_err().kind(),
        Kind::Conflict
    );
    let loaded = players.load(42).await?.expect("created");
    assert_eq!((&*loaded, loaded.version()), (&player(42), ack.version()));
    players
        .save(&Player {
            gold: 1,
            ..player(42)
        })
        .if_version(ack.version())
        .await?;
    assert!(
        players
            .save(&player(42))
            .if_version(ack.version())
            .await
            .unwrap_err()
            .is_conflict()
    );
    assert!(players.remove(42).await?);
    assert!(!players.remove(42).await?);
    assert_eq!(players.load(42).await?, None);
    players.create(&player(42)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn modifications_from_many_tasks_are_all_kept() -> Result<()> {
    let stack = Stack::open().await?;
    let players = stack.storage.world("game", "eu")?.objects::<Player>();
    players.create(&player(1)).await?;
    let calls = AtomicU32::new(0);
    let spend = |_| {
        players.modify(1, |player: &mut Player| {
            calls.fetch_add(1, Ordering::Relaxed);
            player.gold = player.gold.checked_sub(1).ok_or("no gold left")?;
            Ok::<_, &str>(player.gold)
        })
    };
    let spent = join_all((0..110).map(spend)).await;
    assert_eq!(spent.iter().filter(|spent| spent.is_ok()).count(), 100);
    assert!(
        spent
            .iter()
            .filter_map(|spent| spent.as_ref().err())
            .all(|e| *e == ModifyError::Aborted("no gold left"))
    );
    assert_eq!(players.load(1).await?.expect("there").gold, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn load_many_keeps_the_order_and_says_which_are_missing() -> Result<()> {
    let stack = Stack::open().await?;
    let players = stack.storage.world("game", "eu")?.objects::<Player>();
    players.save(&player(1)).await?;
    players.save(&player(3)).await?;
    let found: Vec<_> = players
        .load_many([1_u64, 2, 3])
        .await
        .into_iter()
        .map(|found| found.unwrap().map(|p| p.id))
        .collect();
    assert_eq!(found, [Some(1), None, Some(3)]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_object_are_an_error_and_no_panic() -> Result<()> {
    let stack = Stack::open().await?;
    stack.player("7").update([("data", "junk")]).await?;
    let players = stack.storage.world("game", "eu")?.objects::<Player>();
    let error = players.load(7).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("game/eu/player/7"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_on_objects_can_be_spawned() -> Result<()> {
    let stack = Stack::open().await?;
    let players = stack.storage.world("game", "eu")?.objects::<Player>();
    let calls = tokio::spawn(async move {
        players.create(&player(1)).await?;
        players
            .modify(1, |player: &mut Player| {
                Ok::<_, std::fmt::Error>(player.gold)
            })
            .await?;
        players.load_many([1_u64]).await;
        players.prefetch([1_u64]).await;
        players.unload(1, std::time::Duration::from_secs(5)).await?;
        players.remove(1).await?;
        anyhow::Ok(())
    });
    calls.await?
}
