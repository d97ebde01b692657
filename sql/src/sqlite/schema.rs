//! Migrations. Each is one transaction. Of two concurrent processes one succeeds, and the other one
//! fails as a whole.

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
