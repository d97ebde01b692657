//! Whether the tables fit the program, and how they are created.

use std::borrow::Cow;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::connections::Connections;
use crate::session::{Engine, Record, Role};
use crate::statement::{Statement, statement};
use crate::{ColdError, ColdKind};

static HAS_MIGRATIONS: Statement = statement!("has_migrations");
static MIGRATIONS: Statement = statement!("migrations");

pub(crate) const STATEMENTS: &[&Statement] = &[&HAS_MIGRATIONS, &MIGRATIONS];

/// The relation of the database's schema to this program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// No migration was ever applied.
    Empty,
    /// All of this program's migrations were applied, and no others.
    Current,
    /// Some of this program's migrations are missing.
    Older,
    /// Migrations were applied that this program does not know.
    Newer,
}

/// The state of the database's schema.
pub(crate) async fn state<E: Engine>(
    connections: &Connections<E>,
) -> Result<SchemaState, ColdError> {
    let applied = applied(connections).await?;
    Ok(compare(&applied, &known(connections)))
}

fn known<E: Engine>(connections: &Connections<E>) -> Vec<u64> {
    let migrations = connections.engine().migrations().iter();
    migrations
        .map(|(version, ..)| version.unsigned_abs())
        .collect()
}

/// How often, and at what interval, a schema that seems older is looked at after its last change.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The state when no program is creating tables. While a program creates them, the schema looks
/// older.
async fn settled<E: Engine>(connections: &Connections<E>) -> Result<SchemaState, ColdError> {
    let (mut looks, mut before) = (0, Vec::new());
    loop {
        let applied = applied(connections).await?;
        let state = compare(&applied, &known(connections));
        if state != SchemaState::Older || looks == LOOKS {
            return Ok(state);
        }
        looks = if applied == before { looks + 1 } else { 0 };
        before = applied;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Applies the missing migrations. Returns the state before.
pub(crate) async fn migrate<E: Engine>(
    connections: &Connections<E>,
) -> Result<SchemaState, ColdError> {
    let before = state(connections).await?;
    match before {
        SchemaState::Current => Ok(before),
        SchemaState::Newer => Err(unfit(SchemaState::Newer)),
        SchemaState::Empty | SchemaState::Older => {
            let missing = migrations(connections);
            let applied = connections
                .work(Role::Write, "migrate", async |exec| {
                    exec.migrate(&missing).await
                })
                .await;
            // Another process may have done it meanwhile, and then this attempt failed for that
            // reason.
            if applied.is_err() && settled(connections).await? == SchemaState::Current {
                Ok(before)
            } else {
                applied.map(|()| before)
            }
        }
    }
}

/// Checks that the schema fits, and creates it in an empty database.
pub(crate) async fn ensure<E: Engine>(connections: &Connections<E>) -> Result<(), ColdError> {
    match settled(connections).await? {
        SchemaState::Current => Ok(()),
        SchemaState::Empty => migrate(connections).await.map(drop),
        state @ (SchemaState::Older | SchemaState::Newer) => Err(unfit(state)),
    }
}

/// Checks that the schema fits. Changes nothing.
pub(crate) async fn check<E: Engine>(connections: &Connections<E>) -> Result<(), ColdError> {
    match state(connections).await? {
        SchemaState::Current => Ok(()),
        state => Err(unfit(state)),
    }
}

/// The statements that [`migrate`] would run, one item for each migration.
pub(crate) async fn pending<E: Engine>(
    connections: &Connections<E>,
) -> Result<Vec<String>, ColdError> {
    let applied = applied(connections).await?;
    let missing = migrations(connections)
        .into_iter()
        .filter(|migration| !applied.contains(&migration.version.unsigned_abs()));
    Ok(missing
        .map(|migration| migration.sql.as_str().to_owned())
        .collect())
}

/// The migrations that were applied completely.
async fn applied<E: Engine>(connections: &Connections<E>) -> Result<Vec<u64>, ColdError> {
    let table = connections.names().migration();
    let number = |record: &dyn Record| record.number(0);
    connections
        .work(Role::Write, "schema", async |exec| {
            let exists = exec
                .fetch(&HAS_MIGRATIONS, 1, &[table.as_str().into()], number)
                .await?;
            if exists.is_empty() {
                return Ok(Vec::new());
            }
            exec.fetch(&MIGRATIONS, 1, &[], number).await
        })
        .await
}

fn compare(applied: &[u64], known: &[u64]) -> SchemaState {
    if applied.iter().any(|version| !known.contains(version)) {
        SchemaState::Newer
    } else if applied.is_empty() {
        SchemaState::Empty
    } else if known.iter().all(|version| applied.contains(version)) {
        SchemaState::Current
    } else {
        SchemaState::Older
    }
}

fn unfit(state: SchemaState) -> ColdError {
    let message = match state {
        SchemaState::Newer => "the schema is newer than this program: use a newer program",
        SchemaState::Empty => {
            "the database holds no tables of this storage: check sql.url and sql.table, or run `landing-worker migrate`"
        }
        _ => "the schema is older than this program: run `landing-worker migrate`",
    };
    ColdError {
        kind: ColdKind::Schema,
        operation: "open",
        message: message.into(),
    }
}

fn migrations<E: Engine>(connections: &Connections<E>) -> Vec<Migration> {
    let made = |&(version, description, template): &(i64, &'static str, &str)| {
        let sql = AssertSqlSafe(connections.names().fill(template)).into_sql_str();
        Migration::new(
            version,
            Cow::Borrowed(description),
            MigrationType::Simple,
            sql,
            false,
        )
    };
    connections.engine().migrations().iter().map(made).collect()
}

/// Applies the migrations that the table does not list. Each engine calls it under its own lock.
pub(crate) async fn apply<C: Migrate>(
    connection: &mut C,
    migrations: &[Migration],
    table: &str,
) -> Result<(), MigrateError> {
    connection.ensure_migrations_table(table).await?;
    let applied = connection.list_applied_migrations(table).await?;
    for migration in migrations {
        match applied
            .iter()
            .find(|applied| applied.version == migration.version)
        {
            None => drop(connection.apply(table, migration).await?),
            Some(applied) if applied.checksum == migration.checksum => {}
            Some(_) => return Err(MigrateError::VersionMismatch(migration.version)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_from_what_was_applied_and_what_is_known() {
        assert_eq!(compare(&[], &[1, 2]), SchemaState::Empty);
        assert_eq!(compare(&[1], &[1, 2]), SchemaState::Older);
        assert_eq!(compare(&[1, 2], &[1, 2]), SchemaState::Current);
        assert_eq!(compare(&[1, 2, 3], &[1, 2]), SchemaState::Newer);
        assert_eq!(compare(&[1, 3], &[1, 2]), SchemaState::Newer);
    }
}
