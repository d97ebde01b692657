//! The sweep of purged rows by a worker.

use std::time::Duration;

use anyhow::Result;
use storage_tests::{Stack, World, rows, until};

use crate::landing::poison;

/// A stack whose worker takes purged rows for old after a second. A settings file can't ask for so
/// little.
async fn sweeping() -> Result<Stack> {
    sweeping_on(World::fresh().await?).await
}

async fn sweeping_on(world: World) -> Result<Stack> {
    let mut stack = Stack::with(world).await?;
    stack.settings.landing.sweep_after = Duration::from_secs(1);
    Ok(stack)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_purged_fields_go_and_all_others_stay() -> Result<()> {
    let stack = sweeping().await?;
    let worker = stack.worker();
    let ann = stack.player("ann");
    ann.update([("gold", "1"), ("kept", "1"), ("old", "1")])
        .await?;
    ann.remove(["kept", "old"]).await?;
    stack.landed().await?;
    ann.purge(["old"]).await?;
    stack.landed().await?;
    until("the purged row is gone", async || {
        Ok(rows(&stack.database).await?.len() == 2)
    })
    .await?;
    // The hash still has the purged field, and the tiers agree.
    let compared = stack
        .storage
        .tiers()
        .compare(&[ann.owner().clone()])
        .await?;
    assert!(
        compared.conflicts.is_empty() && compared.owners == 1,
        "{compared:?}"
    );
    ann.update([("old", "2")]).await?;
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 3);
    worker.stop().await
}

/// D2, R6: the row may be the proof that a mark has landed.
#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_an_owner_with_marks_stay() -> Result<()> {
    let mut world = World::fresh().await?;
    // Otherwise the purge would wait for the rejected field.
    world.settings.landing.torn_after = Duration::ZERO;
    // The first wait is 100 ms.
    world.settings.landing.error_retry_max = Duration::from_secs(10);
    let stack = sweeping_on(world).await?;
    let worker = stack.worker();
    poison(stack.database.clone(), "player/bad").await?;
    let (bad, good) = (stack.player("bad"), stack.player("good"));
    for player in [&bad, &good] {
        player.update([("old", "1")]).await?;
        player.remove(["old"]).await?;
    }
    stack.landed().await?;
    for player in [&bad, &good] {
        player.purge(["old"]).await?;
    }
    bad.update([("v", "1")]).await?;
    stack.landed().await?;
    let purged = async || -> Result<Vec<String>> {
        let rows = rows(&stack.database).await?.into_iter();
        let purged = rows.filter(|row| row.is_del == 2);
        Ok(purged.map(|row| row.name).collect())
    };
    until(
        "only the owner with a rejected row keeps its purged row",
        async || Ok(matches!(purged().await?.as_slice(), [row] if row.contains("bad"))),
    )
    .await?;
    worker.stop().await
}
