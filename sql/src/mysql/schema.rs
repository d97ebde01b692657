//! Migrations, one process at a time.

use sqlx::migrate::{Migrate, MigrateError, Migration};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::exec::fault;
use crate::fault::Fault;
use crate::schema;
use crate::statement::Names;

/// How long one process waits for another one's migration.
const LOCK_SECONDS: u32 = 20;

/// Applies the missing migrations under a lock of the server.
pub(super) async fn migrate(
    connection: &mut MySqlConnection,
    migrations: &[Migration],
    names: &Names,
) -> Result<(), Fault> {
    let table = names.migration();
    // A change of a large table has no time limit. MySQL limits only reads and does not know the
    // variable.
    drop(
        sqlx::raw_sql("SET SESSION max_statement_time = 0")
            .execute(&mut *connection)
            .await,
    );
    lock(connection, names).await?;
    let applied = apply(connection, migrations, &table).await;
    let unlocked = sqlx::raw_sql("DO RELEASE_ALL_LOCKS()")
        .execute(connection)
        .await;
    applied.and(unlocked.map(drop).map_err(fault))
}

/// Waits for the lock. It also ends with the connection, so a process that dies leaves none behind.
async fn lock(connection: &mut MySqlConnection, names: &Names) -> Result<(), Fault> {
    // A second at a time, because some servers limit a SELECT to the time of a statement.
    let question = format!(
        "SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 12), '/', '{}'), 1)",
        names.migration_lock()
    );
    for _ in 0..LOCK_SECONDS {
        let row = sqlx::raw_sql(AssertSqlSafe(question.clone()))
            .fetch_one(&mut *connection)
            .await
            .map_err(fault)?;
        if row.try_get::<Option<i64>, _>(0).map_err(fault)? == Some(1) {
            return Ok(());
        }
    }
    Err(Fault::lost(format!(
        "another process has been migrating for more than {LOCK_SECONDS} s"
    )))
}

/// An interrupted migration leaves an entry without success, and tables that are partly made. Its
/// statements can run again.
async fn apply(
    connection: &mut MySqlConnection,
    migrations: &[Migration],
    table: &str,
) -> Result<(), Fault> {
    connection
        .ensure_migrations_table(table)
        .await
        .map_err(failed)?;
    // Checked first, because the DELETE needs a right that is not required otherwise.
    if connection
        .dirty_version(table)
        .await
        .map_err(failed)?
        .is_some()
    {
        let forget = format!("DELETE FROM `{table}` WHERE success = FALSE");
        sqlx::raw_sql(AssertSqlSafe(forget))
            .execute(&mut *connection)
            .await
            .map_err(fault)?;
    }
    schema::apply(connection, migrations, table)
        .await
        .map_err(failed)
}

fn failed(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => fault(error),
        error => Fault::operator(error.to_string()),
    }
}
