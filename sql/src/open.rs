//! From settings to a store.

use std::sync::Arc;

use storage_config::{ColdUrl, SqlSettings};
use storage_model::Intercept;

use crate::access::Access;
use crate::database::Database;
use crate::mysql::MySql;
use crate::registry::{hooks, statements};
use crate::session::Engine;
use crate::sqlite::{Hold, Sqlite};
use crate::{ColdError, ColdKind, ColdStore, SchemaState, schema};

/// A database of the engine in the URL.
enum Opened {
    MySql(Database<MySql>),
    Sqlite(Database<Sqlite>),
}

impl Opened {
    fn new(
        settings: &SqlSettings,
        access: Access,
        intercept: Option<Arc<dyn Intercept>>,
    ) -> Result<Self, ColdError> {
        settings
            .validate()
            .map_err(|error| ColdError::settings(error.to_string()))?;
        Ok(match &settings.url {
            ColdUrl::Mysql {
                address, database, ..
            } => {
                let engine = MySql::new(address, database, settings, access);
                Self::MySql(database_of(engine, settings, access, intercept))
            }
            ColdUrl::SqliteFile(path) => {
                let engine = Sqlite::file(path, settings, access);
                Self::Sqlite(database_of(engine, settings, access, intercept))
            }
            ColdUrl::SqliteMemory => {
                let engine = Sqlite::memory(settings);
                Self::Sqlite(database_of(engine, settings, access, intercept))
            }
        })
    }
}

/// The engine's database, with the statements of all modules and the hooks of all layers.
fn database_of<E: Engine>(
    engine: E,
    settings: &SqlSettings,
    access: Access,
    intercept: Option<Arc<dyn Intercept>>,
) -> Database<E> {
    Database::new(engine, settings, access, intercept, statements(), hooks())
}

/// Opens a database. Creates the schema in an empty one.
///
/// A database that is away is no error. The store is returned, each call tries again, and the first
/// successful call checks the schema.
///
/// # Errors
/// The settings name an impossible database, the schema is older ("run `landing-worker migrate`")
/// or newer, or an operator must act.
///
/// # Cancel safety
/// The call can be dropped at any await. The next call completes a half-made schema.
pub async fn open(settings: &SqlSettings) -> Result<Arc<dyn ColdStore>, ColdError> {
    open_as(settings, Access::Creates, None).await
}

/// As [`open`], but leaves an empty database as it is. [`ColdStore::pair`] creates the schema. So
/// nothing is written into a wrong database.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// As [`open`].
pub async fn open_for_pairing(settings: &SqlSettings) -> Result<Arc<dyn ColdStore>, ColdError> {
    open_as(settings, Access::Pairs, None).await
}

/// A database that one process has for itself.
#[derive(Debug)]
pub struct Alone {
    /// The database.
    pub store: Arc<dyn ColdStore>,
    /// The file was in use at its last change, and its write-ahead log is not beside it. So it is a copy
    /// that lacks the last changes, unless another program wrote the log back after a kill.
    pub lacks_log: bool,
}

/// As [`open_for_pairing`], for a process that has a SQLite file for itself. Until the store is closed
/// or the process ends, no other call of this function opens the file, except with `takes_over`.
/// Another program or database is opened as by [`open_for_pairing`].
///
/// # Errors
/// As [`open`], or another program has the file open (`Operator`).
///
/// # Cancel safety
/// As [`open`].
pub async fn open_alone(settings: &SqlSettings, takes_over: bool) -> Result<Alone, ColdError> {
    let shared = |store| Alone {
        store,
        lacks_log: false,
    };
    match (&settings.url, Opened::new(settings, Access::Pairs, None)?) {
        (ColdUrl::SqliteFile(path), Opened::Sqlite(database)) => {
            // ORDER: before a connection makes a log.
            let hold = Hold::take(path, takes_over)
                .await
                .map_err(|fault| fault.into_cold("open"))?;
            let database = checked(database).await?;
            let lacks_log = database.connections().engine().hold(hold).await;
            Ok(Alone {
                store: database,
                lacks_log,
            })
        }
        (_, Opened::Sqlite(database)) => Ok(shared(checked(database).await?)),
        (_, Opened::MySql(database)) => Ok(shared(checked(database).await?)),
    }
}

/// Whether a process has the SQLite file of the settings for itself at this moment. Then its memory
/// holds changes that the file lacks.
#[must_use]
pub fn is_in_use(settings: &SqlSettings) -> bool {
    matches!(&settings.url, ColdUrl::SqliteFile(path) if Hold::is_taken(path))
}

/// As [`open`], for reading only. The store never writes. The database is told so, and calls that
/// would write fail.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// As [`open`].
pub async fn open_for_reading(settings: &SqlSettings) -> Result<Arc<dyn ColdStore>, ColdError> {
    open_as(settings, Access::Reads, None).await
}

/// As [`open`], with every statement passing through `intercept`.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// As [`open`].
pub async fn open_through(
    settings: &SqlSettings,
    intercept: Arc<dyn Intercept>,
) -> Result<Arc<dyn ColdStore>, ColdError> {
    open_as(settings, Access::Creates, Some(intercept)).await
}

async fn open_as(
    settings: &SqlSettings,
    access: Access,
    intercept: Option<Arc<dyn Intercept>>,
) -> Result<Arc<dyn ColdStore>, ColdError> {
    match Opened::new(settings, access, intercept)? {
        Opened::MySql(database) => Ok(checked(database).await?),
        Opened::Sqlite(database) => Ok(checked(database).await?),
    }
}

async fn checked<E: Engine>(database: Database<E>) -> Result<Arc<Database<E>>, ColdError> {
    match database.fits_or_is_empty().await {
        Err(error) if error.kind == ColdKind::Unwell => {
            tracing::warn!(%error, "the database is away: its schema is checked when it answers");
            Ok(Arc::new(database))
        }
        checked => checked.map(|()| Arc::new(database)),
    }
}

/// Compares the database's schema with this program's. Changes nothing.
///
/// # Errors
/// The settings name an impossible database, or it does not answer.
///
/// # Cancel safety
/// The call can be dropped at any await.
pub async fn schema_state(settings: &SqlSettings) -> Result<SchemaState, ColdError> {
    match Opened::new(settings, Access::Creates, None)? {
        Opened::MySql(database) => schema::state(database.connections()).await,
        Opened::Sqlite(database) => schema::state(database.connections()).await,
    }
}

/// The statements that [`migrate`] would run now, one item for each migration. Changes nothing.
///
/// # Errors
/// The settings name an impossible database, or it does not answer.
///
/// # Cancel safety
/// The call can be dropped at any await.
pub async fn pending_sql(settings: &SqlSettings) -> Result<Vec<String>, ColdError> {
    match Opened::new(settings, Access::Creates, None)? {
        Opened::MySql(database) => schema::pending(database.connections()).await,
        Opened::Sqlite(database) => schema::pending(database.connections()).await,
    }
}

/// Brings the schema up to date. Returns the state before.
///
/// # Errors
/// The schema is newer than this program, the settings name an impossible database, or it does not
/// answer or rejects a statement.
///
/// # Cancel safety
/// The call can be dropped at any await. The next call completes the work.
pub async fn migrate(settings: &SqlSettings) -> Result<SchemaState, ColdError> {
    match Opened::new(settings, Access::Creates, None)? {
        Opened::MySql(database) => schema::migrate(database.connections()).await,
        Opened::Sqlite(database) => schema::migrate(database.connections()).await,
    }
}
