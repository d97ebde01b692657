//! Whether the tables fit the program, and how they are created.

use std::borrow::Cow;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::connections::Connections;
use crate::exec::Exec;
use crate::fault::Fault;
use crate::session::{Engine, Record, Role, Session};
use crate::statement::{Statement, statement};
use crate::{ColdError, ColdKind, pairing};

static HAS_TABLE: Statement = statement!("has_table");
static IS_MIGRATING: Statement = statement!("is_migrating");
static MIGRATIONS: Statement = statement!("migrations");

pub(crate) const STATEMENTS: &[&Statement] = &[&HAS_TABLE, &IS_MIGRATING, &MIGRATIONS];

/// The relation of the database's schema to this program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// No program has used the database yet. It has no tables, or they are being created, or their
    /// creation was interrupted.
    Empty,
    /// All of this program's migrations were applied, and no others.
    Current,
    /// Some of this program's migrations are missing.
    Older,
    /// Migrations were applied that this program does not know.
    Newer,
}

/// The state of the database's schema. A schema that another program is upgrading is an error that
/// passes.
pub(crate) async fn state<E: Engine>(
    connections: &Connections<E>,
) -> Result<SchemaState, ColdError> {
    let known = known(connections);
    connections
        .work(Role::Write, "schema", async |exec| {
            // ORDER: the migrations last. So a program that creates or upgrades the tables
            // meanwhile does not make them look older than they were at the first question.
            let is_changing = is_migrating(exec).await?;
            let is_used = is_used(exec).await?;
            match compare(&applied(exec).await?, &known) {
                // Tables without an identity hold no data of a game. So any program can complete them.
                SchemaState::Empty | SchemaState::Older if !is_used => Ok(SchemaState::Empty),
                SchemaState::Empty | SchemaState::Older if is_changing => Err(Fault::lost(
                    "another program is upgrading the schema: wait until it has finished",
                )),
                SchemaState::Empty => Ok(SchemaState::Older),
                state => Ok(state),
            }
        })
        .await
}

fn known<E: Engine>(connections: &Connections<E>) -> Vec<u64> {
    let migrations = connections.engine().migrations().iter();
    migrations
        .map(|(version, ..)| version.unsigned_abs())
        .collect()
}

/// Applies the missing migrations, after those that another program is applying. Returns the state
/// before.
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
            // A cluster of servers may let two programs migrate at once. The attempt of one of them
            // fails for that reason.
            if applied.is_err() && state(connections).await? == SchemaState::Current {
                Ok(before)
            } else {
                applied.map(|()| before)
            }
        }
    }
}

/// Checks that the schema fits, and creates it in an empty database.
pub(crate) async fn ensure<E: Engine>(connections: &Connections<E>) -> Result<(), ColdError> {
    match state(connections).await? {
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
    let applied = connections
        .work(Role::Write, "schema", async |exec| applied(exec).await)
        .await?;
    let missing = migrations(connections)
        .into_iter()
        .filter(|migration| !applied.contains(&migration.version.unsigned_abs()));
    Ok(missing
        .map(|migration| migration.sql.as_str().to_owned())
        .collect())
}

/// The migrations that were applied completely.
async fn applied<S: Session>(exec: &mut Exec<S>) -> Result<Vec<u64>, Fault> {
    let table = exec.names().migration();
    if !has_table(exec, &table).await? {
        return Ok(Vec::new());
    }
    let number = |record: &dyn Record| record.number(0);
    exec.fetch(&MIGRATIONS, 1, &[], number).await
}

/// Whether a program has used the tables. The first one stores the database's identity.
async fn is_used<S: Session>(exec: &mut Exec<S>) -> Result<bool, Fault> {
    let table = exec.names().meta();
    Ok(has_table(exec, &table).await? && pairing::has_facts(exec).await?)
}

/// Whether another program holds the lock for migrations.
async fn is_migrating<S: Session>(exec: &mut Exec<S>) -> Result<bool, Fault> {
    let lock = exec.names().migration_lock();
    let held = exec
        .fetch(&IS_MIGRATING, 1, &[lock.as_str().into()], |_| Ok(()))
        .await?;
    Ok(!held.is_empty())
}

async fn has_table<S: Session>(exec: &mut Exec<S>, table: &str) -> Result<bool, Fault> {
    let found = exec
        .fetch(&HAS_TABLE, 1, &[table.into()], |_| Ok(()))
        .await?;
    Ok(!found.is_empty())
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
