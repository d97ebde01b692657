//! Migrations. All of them are one transaction. Of two concurrent processes the later one waits, and
//! finds nothing missing.

use sqlx::migrate::{MigrateError, Migration};
use sqlx::{Connection as _, SqliteConnection};

use super::exec::fault;
use crate::fault::Fault;
use crate::schema;
use crate::statement::Names;

/// Applies the missing migrations.
pub(super) async fn migrate(
    connection: &mut SqliteConnection,
    migrations: &[Migration],
    names: &Names,
) -> Result<(), Fault> {
    let mut open = connection
        .begin_with("BEGIN IMMEDIATE")
        .await
        .map_err(fault)?;
    schema::apply(&mut *open, migrations, &names.migration())
        .await
        .map_err(failed)?;
    open.commit().await.map_err(fault)
}

fn failed(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => fault(error),
        error => Fault::operator(error.to_string()),
    }
}
