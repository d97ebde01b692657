//! A closed storage answers every call alike, so that a loop that follows `retry` ends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use storage_sdk::{
    Durability, Error, Kind, ModifyError, ObjStorage, Outcome, Retry, SaveObject, Storage,
};
use storage_tests::Stack;

const SOON: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "hero")]
struct Hero {
    #[save_object(owner_id)]
    id: String,
    level: u32,
}

/// The error of each kind of call about one owner.
async fn calls(storage: &Storage, id: &str) -> Result<Vec<(&'static str, Error)>> {
    let world = storage.world("game", "eu")?;
    let (bytes, heroes): (_, ObjStorage<Hero>) = (world.bytes(), world.objects());
    let owner = bytes.owner("player", id)?;
    let landed = Durability::Landed { timeout: SOON };
    let storage_error = |error| match error {
        ModifyError::Storage(error) => error,
        other => panic!("{other:?}"),
    };
    let hero = Hero {
        id: id.to_owned(),
        level: 1,
    };
    Ok(vec![
        ("get", owner.get(["gold"]).await.unwrap_err()),
        ("get_all", owner.get_all().await.unwrap_err()),
        ("exists", owner.exists().await.unwrap_err()),
        ("version", owner.version().await.unwrap_err()),
        ("flush", owner.flush(SOON).await.unwrap_err()),
        ("evict", owner.evict().await.unwrap_err()),
        ("unload", owner.unload(SOON).await.unwrap_err()),
        ("delete_owner", owner.delete_owner().await.unwrap_err()),
        ("update", owner.update([("gold", "1")]).await.unwrap_err()),
        (
            "update that lands",
            owner
                .update([("gold", "1")])
                .durability(landed)
                .await
                .unwrap_err(),
        ),
        (
            "update if absent",
            owner.update([("gold", "1")]).if_absent().await.unwrap_err(),
        ),
        ("incr", owner.incr("gold", 1).await.unwrap_err()),
        ("remove", owner.remove(["gold"]).await.unwrap_err()),
        ("restore", owner.restore(["gold"]).await.unwrap_err()),
        ("purge", owner.purge(["gold"]).await.unwrap_err()),
        (
            "get_many",
            bytes
                .get_many([&owner], ["gold"])
                .await
                .remove(0)
                .unwrap_err(),
        ),
        (
            "get_all_many",
            bytes.get_all_many([&owner]).await.remove(0).unwrap_err(),
        ),
        (
            "prefetch",
            bytes.prefetch([&owner]).await.remove(0).unwrap_err(),
        ),
        ("owners", bytes.owners("player").await.unwrap_err()),
        ("all owners", storage.owners().await.unwrap_err()),
        (
            "bulk",
            bytes
                .bulk()
                .update(&owner, [("gold", "1")])
                .await
                .remove(0)
                .unwrap_err(),
        ),
        ("stats", storage.stats().await.unwrap_err()),
        ("save", heroes.save(&hero).await.unwrap_err()),
        ("create", heroes.create(&hero).await.unwrap_err()),
        ("load", heroes.load(id).await.unwrap_err()),
        (
            "load_many",
            heroes.load_many([id]).await.remove(0).unwrap_err(),
        ),
        (
            "modify",
            heroes
                .modify(id, |_| Ok::<_, ()>(()))
                .await
                .map_err(storage_error)
                .unwrap_err(),
        ),
        ("object remove", heroes.remove(id).await.unwrap_err()),
        ("object flush", heroes.flush(id, SOON).await.unwrap_err()),
        ("object unload", heroes.unload(id, SOON).await.unwrap_err()),
        (
            "object prefetch",
            heroes.prefetch([id]).await.remove(0).unwrap_err(),
        ),
    ])
}

/// Writes two owners, begins a list and closes the storage. Then makes every call about a hot owner
/// and about an unknown one.
async fn all_calls_end(storage: Storage) -> Result<()> {
    let bytes = storage.world("game", "eu")?.bytes();
    for id in ["ann", "bo"] {
        bytes.owner("player", id)?.update([("gold", "1")]).await?;
    }
    let mut begun = bytes.owners("player").await?;
    let report = storage.close(SOON).await;
    assert_eq!((report.under_way, report.unknown.len()), (0, 0));

    let mut told = calls(&storage, "ann").await?;
    told.extend(calls(&storage, "nobody").await?);
    told.extend(calls(&storage.clone(), "bo").await?);
    told.push(("a list that was begun", begun.next().await.unwrap_err()));
    for (call, error) in told {
        let known = (error.kind(), error.retry(), error.outcome());
        assert_eq!(
            known,
            (Kind::Closed, Retry::Never, Outcome::NotApplied),
            "{call}: {error}"
        );
    }
    let repeat = bytes
        .owner("player", "ann")?
        .incr("gold", 1)
        .id(storage.next_id())
        .await
        .unwrap_err();
    let known = (repeat.kind(), repeat.retry(), repeat.outcome());
    assert_eq!(
        known,
        (Kind::Closed, Retry::Never, Outcome::Unknown),
        "an earlier one may have been applied"
    );
    assert_eq!(
        storage.close(SOON).await.under_way,
        0,
        "it may be closed again"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_a_closed_storage_on_servers_ends_at_once_and_for_good() -> Result<()> {
    all_calls_end(Stack::open().await?.storage).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_a_closed_embedded_storage_ends_at_once_and_for_good() -> Result<()> {
    let folder = tempfile::tempdir()?;
    all_calls_end(Storage::embedded(folder.path().join("game.db")).await?).await
}
