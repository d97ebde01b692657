//! Migrations. Each is one transaction, so that one process's wins and another one's fails as a
//! whole.

use sqlx::SqliteConnection;
use sqlx::migrate::{MigrateError, Migration};

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
    schema::apply(connection, migrations, &names.migration())
        .await
        .map_err(failed)
}

fn failed(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => fault(error),
        error => Fault::operator(error.to_string()),
    }
}
