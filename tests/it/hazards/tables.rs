//! A database whose tables vanish (H47).

use anyhow::Result;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use storage_tests::{Stack, rows, until};

async fn play(stack: &Stack, value: &str) -> Result<()> {
    for id in 0..30 {
        stack
            .player(&format!("{id:02}"))
            .update([("gold", value.to_owned())])
            .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_rejects_nothing_and_what_waits_lands_in_the_next_one() -> Result<()>
{
    let stack = Stack::open().await?;
    let worker = stack.worker();
    play(&stack, "1").await?;
    stack.landed().await?;
    let mut connection = MySqlConnection::connect(&stack.database).await?;
    let create: String = sqlx::query("SHOW CREATE TABLE landing_rows")
        .fetch_one(&mut connection)
        .await?
        .try_get(1)?;
    sqlx::raw_sql("DROP TABLE landing_rows")
        .execute(&mut connection)
        .await?;
    play(&stack, "2").await?;
    until("the worker has noticed", async || {
        Ok(worker.counts().failures > 2)
    })
    .await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 0);
    sqlx::raw_sql(AssertSqlSafe(create))
        .execute(&mut connection)
        .await?;
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!(
        (
            stored.len(),
            stored.iter().filter(|row| row.value == b"2").count()
        ),
        (30, 30)
    );
    Ok(())
}
