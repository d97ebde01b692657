//! A database whose tables vanish, or that has no room left (H38, H47).

use std::time::Duration;

use anyhow::{Context as _, Result};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_tests::{Stack, World, rows, stack, until};

async fn play(stack: &Stack, value: &str) -> Result<()> {
    for id in 0..30 {
        stack.player(&format!("{id:02}")).update([("gold", value.to_owned())]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_parks_nothing_and_what_waits_lands_in_the_next_one() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    play(&stack, "1").await?;
    stack.landed().await?;
    let mut connection = MySqlConnection::connect(&stack.database).await?;
    let create: String = sqlx::query("SHOW CREATE TABLE landing_rows").fetch_one(&mut connection).await?.try_get(1)?;
    sqlx::raw_sql("DROP TABLE landing_rows").execute(&mut connection).await?;
    play(&stack, "2").await?;
    until("the worker has noticed", async || Ok(worker.counts().failures > 2)).await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 0);
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await?;
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!((stored.len(), stored.iter().filter(|row| row.value == b"2").count()), (30, 30));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_room_parks_nothing_and_all_lands_when_there_is_some() -> Result<()> {
    // All tables in one file that may not grow.
    let args = ["--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M;more:24M"].map(str::to_owned).to_vec();
    let mariadb = MariaDbServer::start(MariaDbOptions { args, ..MariaDbOptions::default() }).await?;
    let stack = Stack::with(World::on(&stack::redis().await?.url(), &mariadb).await?).await?;
    let database = stack.database.rsplit('/').next().context("a database")?.to_owned();
    // One owner, so that nothing of it lands while there is not room for all; its partition is prepared while there is some.
    let hoarder = stack.player("hoarder");
    hoarder.update([("f00", "small")]).await?;
    let fill = format!("USE {database}; INSERT INTO ballast SELECT NULL, REPEAT('x', 30000) FROM seq_1_to_10");
    mariadb.sql(&format!("CREATE TABLE {database}.ballast (id INT PRIMARY KEY AUTO_INCREMENT, x LONGTEXT)")).await?;
    while mariadb.sql(&fill).await.is_ok() {}
    let worker = stack.worker();
    let large = "x".repeat(100_000);
    hoarder.update((0..30).map(|field| (format!("f{field:02}"), large.clone()))).await?;
    until("the worker has noticed", async || Ok(worker.counts().failures > 2)).await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 0, "no row is at fault");
    let error = hoarder.flush(Duration::from_secs(30)).await.unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
    mariadb.sql(&format!("DROP TABLE {database}.ballast")).await?;
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!((stored.len(), stored.iter().filter(|row| row.value == large.as_bytes()).count()), (30, 30));
    Ok(())
}
