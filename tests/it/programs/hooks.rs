//! A hook that landings need and that the program lacks.

use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_tests::{Stack, rows, until};

use super::{config, program, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lacks_a_needed_hook_claims_nothing_until_it_is_switched_off() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let cold = storage_sql::open(&stack.settings.sql).await?;
    let listed = program(&config, &["hooks"]).await?;
    assert_eq!(text(&listed.stdout), "landings need no hook\n");
    cold.hooks.define("index", true).await?;
    let holders = async || -> Result<usize> {
        let partitions = stack.backlog().await?.partitions;
        let held = partitions.iter().filter(|(_, peek)| peek.holder.is_some());
        Ok(held.count())
    };
    let worker = stack.worker();
    stack.player("ann").update([("gold", "1")]).await?;
    let status = text(&program(&config, &["status"]).await?.stdout);
    assert!(status.contains("the hook \"index\""), "{status}");
    let listed = program(&config, &["hooks"]).await?;
    assert_eq!(listed.status.code(), Some(1));
    assert!(text(&listed.stdout).contains("lacks"), "{listed:?}");
    assert_eq!(holders().await?, 0);

    let off = program(&config, &["hooks", "--switch-off", "index"]).await?;
    assert!(off.status.success(), "{off:?}");
    until("the worker claims all partitions", async || {
        Ok(holders().await? == 8)
    })
    .await?;
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 1);

    cold.hooks.define("index", true).await?;
    until("the worker gives all partitions back", async || {
        Ok(holders().await? == 0)
    })
    .await?;
    let bob = stack.player("bob");
    bob.update([("gold", "1")]).await?;
    let error = bob.flush(Duration::from_secs(5)).await;
    let error = error.err().context("nothing lands")?;
    assert!(error.to_string().contains("\"index\""), "{error}");
    assert_eq!(rows(&stack.database).await?.len(), 1);
    worker.stop().await?;
    let unknown = program(&config, &["hooks", "--switch-off", "indices"]).await?;
    let error = text(&unknown.stderr);
    let error = error.lines().last().context("an error")?;
    assert!(error.contains("no hook \"indices\""), "{error}");
    Ok(())
}
