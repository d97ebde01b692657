//! Versions that are given without a script run ahead of their source, and landings tell how far they reach all the same (R14).

use super::*;

/// A hot tier that forgets what has landed is known by a database that has landed more. What an owner was given without a script may be
/// below what has landed of another one, so it does not say more by itself.
#[tokio::test]
async fn what_lands_without_a_script_reaches_further_than_all_that_landed_before() {
    let stage = Stage::new().await;
    for owner in ["bob", "ann"] {
        stage.apply(owner, "0").await;
    }
    let (partition, worker) = (Partition(0), lock("worker"));
    let collect = async |id: &str| {
        let collected = stage.store.collect(partition, &[(owner(id), vec![field("gold")])]).await.unwrap();
        (collected.reads[0].header.unwrap().version, collected.reaches)
    };
    for value in 0..50 {
        stage.apply("ann", &value.to_string()).await;
    }
    let (version, reaches) = collect("ann").await;
    let landed = version.max(reaches);
    assert!(stage.store.lock(&[partition], &worker, Duration::from_secs(10)).await.pop().unwrap().unwrap());
    let settle = Settle {
        partition,
        lock: Some(worker),
        epoch: Epoch(1),
        landed,
        collected: landed,
        marks: vec![],
        rows: vec![],
        probation: false,
    };
    stage.store.settle(&settle).await.unwrap();

    stage.went_direct().await;
    let version = stage.apply("bob", "1").await;
    assert!(stage.went_direct().await && version < landed);
    let (_, reaches) = collect("bob").await;
    assert!(reaches > landed, "{reaches:?} is to show in a database that has landed up to {landed:?}");
    let again = collect("bob").await;
    assert!(again.1 > reaches, "who knows what was written in between");
}

/// A commit that was not settled is told from one that was forgotten, though its versions ran ahead.
#[tokio::test]
async fn a_collection_notes_how_far_it_reaches_though_versions_ran_ahead() {
    let stage = Stage::new().await;
    for value in 0..50 {
        stage.apply("ann", &value.to_string()).await;
    }
    let collected = stage.store.collect(Partition(0), &[(owner("ann"), vec![field("gold")])]).await.unwrap();
    let landed = collected.reaches.max(collected.reads[0].header.unwrap().version);
    let state = stage.store.partition_states(&[Partition(0)]).await.pop().unwrap().unwrap();
    assert!(!state.record.unwrap().has_forgotten(landed, true));
}
