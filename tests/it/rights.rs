//! What the database's user must be allowed to do, as the README says it, and what is said where it is not.

use anyhow::Result;
use storage_sdk::{Kind, Storage};
use storage_tests::{Stack, World, rows, stack};

/// A fresh world whose database user has only these rights to it.
async fn world_with(name: &str, rights: &str) -> Result<World> {
    let mariadb = stack::mariadb().await?;
    let database = mariadb.fresh_database(name).await?;
    mariadb.sql(&format!("CREATE USER '{name}'@'%' IDENTIFIED BY 'few'; GRANT {rights} ON `{name}`.* TO '{name}'@'%';")).await?;
    let (_, server) = database.split_once('@').unwrap_or_default();
    World::with_urls(&stack::redis().await?.url(), &format!("mysql://{name}:few@{server}"), name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_create_select_insert_and_update_is_all_that_is_needed() -> Result<()> {
    let stack = Stack::with(world_with("fewrights", "CREATE, SELECT, INSERT, UPDATE").await?).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1"), ("name", "Ann")]).await?;
    ann.remove(["name"]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 2);
    // The next start makes nothing.
    stack::mariadb().await?.sql("REVOKE CREATE ON `fewrights`.* FROM 'fewrights'@'%'").await?;
    let again = Storage::open(stack.settings.clone()).await?;
    let cold = again.scope("game", "eu")?.bytes().owner("player", "bob")?;
    cold.update([("gold", "2")]).await?;
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_is_named_as_something_for_an_operator() -> Result<()> {
    let error = Storage::open(world_with("norights", "SELECT").await?.settings).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(error.to_string().contains("CREATE") && !error.to_string().contains("few"), "{error}");
    Ok(())
}
