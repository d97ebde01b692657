//! A storage outlives the runtime that opened it, and does not mind a paused clock (H60, H61).
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use storage_sdk::{
    ByteOwner, Durability, Kind, Outcome, Retry, Safety, SessionOptions, Settings, Storage,
};
use storage_sql::open;
use tokio::runtime::{Builder, Runtime};

/// Far longer than any step here takes.
const LONG: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn ann(storage: &Storage) -> ByteOwner {
    storage
        .world("game", "eu")
        .unwrap()
        .bytes()
        .owner("player", "ann")
        .unwrap()
}

/// The value of the only row of an owner in the file.
fn stored(path: &Path, owner: &ByteOwner) -> Option<Vec<u8>> {
    runtime().block_on(async {
        let cold = open(&Settings::embedded(path).sql).await.unwrap();
        let loaded = cold
            .rows
            .load(std::slice::from_ref(owner.owner()), 9)
            .await
            .unwrap();
        cold.database.close().await;
        loaded[0].rows.first().map(|row| row.cell.value().to_vec())
    })
}

/// Waits until a condition holds, on a thread without a runtime.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "waited {LONG:?}: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_written_after_the_runtime_of_the_opener_ended_lands_without_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("game.db");
    let storage = runtime().block_on(Storage::embedded(&path)).unwrap();
    let owner = ann(&storage);
    runtime()
        .block_on(async { owner.update([("gold", "1")]).await })
        .unwrap();
    until("it has landed", || {
        stored(&path, &owner).as_deref() == Some(b"1")
    });
    runtime()
        .block_on(async { owner.update([("gold", "2")]).await })
        .unwrap();
    let report = runtime().block_on(storage.close(LONG));
    assert_eq!(
        (report.under_way, report.unlanded, report.errors),
        (0, Some(0), Some(0))
    );
    assert_eq!(stored(&path, &owner).as_deref(), Some(&b"2"[..]));
}

#[test]
fn each_call_may_have_a_runtime_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("game.db");
    let storage = runtime().block_on(Storage::embedded(&path)).unwrap();
    let owner = ann(&storage);
    for round in 1..=5 {
        assert_eq!(
            runtime()
                .block_on(async { owner.incr("gold", 1).await })
                .unwrap()
                .value(),
            round
        );
        runtime().block_on(owner.unload(LONG)).unwrap();
        until("it is cold", || {
            runtime().block_on(owner.evict()).unwrap();
            runtime()
                .block_on(storage.tiers().hot().owners.read(&[all(&owner)]))
                .remove(0)
                .unwrap()
                .header
                .is_none()
        });
        let read = runtime().block_on(owner.get(["gold"])).unwrap();
        assert_eq!(read["gold"].as_deref(), Some(round.to_string().as_bytes()));
    }
    let landed = Durability::Landed { timeout: LONG };
    let ack = runtime()
        .block_on(async { owner.update([("gold", "9")]).durability(landed).await })
        .unwrap();
    assert_eq!(ack.durability(), Safety::Landed);
    assert_eq!(
        runtime()
            .block_on(storage.stats())
            .unwrap()
            .background_restarts,
        0
    );
    assert_eq!(runtime().block_on(storage.close(LONG)).unlanded, Some(0));
}

fn all(owner: &ByteOwner) -> storage_dirty::Read {
    storage_dirty::Read {
        owner: owner.owner().clone(),
        fields: storage_dirty::Fields::All,
    }
}

#[test]
fn a_runtime_that_ends_in_the_middle_of_a_load_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let storage = runtime()
        .block_on(Storage::embedded(folder.path().join("game.db")))
        .unwrap();
    let world = storage.world("game", "eu").unwrap().bytes();
    for id in 0..50_u64 {
        let owner = world.owner("player", id).unwrap();
        let ends = runtime();
        let read = owner.clone();
        ends.spawn(async move { read.get_all().await });
        ends.block_on(tokio::task::yield_now());
        drop(ends);
        assert!(runtime().block_on(owner.get_all()).unwrap().is_empty());
    }
}

#[test]
fn any_handle_keeps_landing_going_and_the_last_one_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("game.db");
    let (owner, hot) = runtime().block_on(async {
        let storage = Storage::embedded(&path).await.unwrap();
        (ann(&storage), Arc::downgrade(&storage.tiers().hot().tier))
    });
    runtime()
        .block_on(async { owner.update([("gold", "1")]).await })
        .unwrap();
    until("it has landed", || {
        stored(&path, &owner).as_deref() == Some(b"1")
    });
    // Async code drops the owner. It must not wait for a runtime.
    runtime().block_on(async { drop(owner) });
    until("nothing runs on", || hot.strong_count() == 0);
}

#[test]
fn without_a_runtime_of_its_own_a_storage_refuses_writes_once_the_openers_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::embedded(folder.path().join("game.db"));
    let opener = runtime();
    let storage = opener
        .block_on(Storage::builder(settings).own_runtime(false).open())
        .unwrap();
    let owner = ann(&storage);
    opener
        .block_on(async { owner.update([("gold", "1")]).await })
        .unwrap();
    drop(opener);
    let refused = runtime()
        .block_on(async { owner.update([("gold", "2")]).await })
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.outcome(), refused.retry()),
        (Kind::Closed, Outcome::NotApplied, Retry::Never)
    );
    assert!(refused.to_string().contains("runtime"), "{refused}");
    let repeat = runtime()
        .block_on(async { owner.update([("gold", "2")]).id(storage.next_id()).await })
        .unwrap_err();
    assert_eq!(
        (repeat.kind(), repeat.outcome()),
        (Kind::Closed, Outcome::Unknown)
    );
    let bulk = runtime().block_on(async {
        storage
            .world("game", "eu")
            .unwrap()
            .bytes()
            .bulk()
            .incr(&owner, "gold", 1)
            .await
    });
    assert_eq!(bulk[0].as_ref().unwrap_err().kind(), Kind::Closed);
    let read = runtime().block_on(owner.get(["gold"])).unwrap();
    assert_eq!(read["gold"].as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_session_that_is_dropped_outside_every_runtime_ends_in_order() {
    for own in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::embedded(folder.path().join("game.db"));
        let opener = runtime();
        let storage = opener
            .block_on(Storage::builder(settings).own_runtime(own).open())
            .unwrap();
        let owner = ann(&storage);
        let session = opener
            .block_on(owner.session(SessionOptions::default()))
            .unwrap();
        session.set("gold", "1").unwrap();
        drop(session);
        let is_free = || opener.block_on(owner.held_by()).unwrap().is_none();
        if own {
            until("it has ended", is_free);
            assert_eq!(
                opener.block_on(owner.get(["gold"])).unwrap()["gold"].as_deref(),
                Some(&b"1"[..])
            );
        } else {
            assert!(!is_free(), "nothing could end it");
        }
        opener.block_on(storage.close(LONG));
    }
}

/// Makes all calls of a game's logic, on a clock that leaps whenever every task waits.
async fn plays(storage: &Storage, path: &Path) {
    let owner = ann(storage);
    for round in 1..=20_i64 {
        assert_eq!(owner.incr("gold", 1).await.unwrap().value(), round);
        owner.update([("name", "Ann")]).await.unwrap();
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(
            owner.get(["gold"]).await.unwrap()["gold"].as_deref(),
            Some(round.to_string().as_bytes())
        );
    }
    owner.flush(LONG).await.unwrap();
    let landed = Durability::Landed { timeout: LONG };
    assert_eq!(
        owner
            .update([("name", "Bea")])
            .durability(landed)
            .await
            .unwrap()
            .durability(),
        Safety::Landed
    );
    for id in 0..20_u64 {
        let cold = storage
            .world("game", "eu")
            .unwrap()
            .bytes()
            .owner("guild", id)
            .unwrap();
        assert!(cold.get_all().await.unwrap().is_empty());
        cold.update([("level", "1")]).if_absent().await.unwrap();
    }
    assert!(
        storage
            .owners()
            .await
            .unwrap()
            .next()
            .await
            .unwrap()
            .is_some()
    );
    let report = storage.close(LONG).await;
    assert_eq!(
        (report.under_way, report.unlanded, report.errors),
        (0, Some(0), Some(0))
    );
    assert!(path.exists());
}

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_the_embedded_mode_opens_writes_loads_flushes_and_lands() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let path = folder.path().join(format!("{round}.db"));
        let storage = Storage::embedded(&path).await.unwrap();
        plays(&storage, &path).await;
        // Another process finds all data cold.
        let again = Storage::embedded(&path).await.unwrap();
        assert_eq!(
            ann(&again).get(["name"]).await.unwrap()["name"].as_deref(),
            Some(&b"Bea"[..])
        );
        assert_eq!(again.close(LONG).await.unlanded, Some(0));
    }
}

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_tasks_that_tick_do_not_hasten_the_storage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("game.db");
    let ticking = tokio::spawn(async {
        let mut ticks = tokio::time::interval(Duration::from_mins(1));
        loop {
            ticks.tick().await;
        }
    });
    let storage = Storage::embedded(&path).await.unwrap();
    plays(&storage, &path).await;
    ticking.abort();
}
