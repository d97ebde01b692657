//! From options to a store.

use std::sync::Arc;

use storage_model::Intercept;

use crate::database::Database;
use crate::mysql::MySql;
use crate::registry::statements;
use crate::session::Engine;
use crate::sqlite::Sqlite;
use crate::{ColdError, ColdKind, ColdOptions, ColdStore, SchemaState, schema};

/// A database of the engine in the URL.
enum Opened {
    MySql(Database<MySql>),
    Sqlite(Database<Sqlite>),
}

impl Opened {
    fn new(
        options: &ColdOptions,
        intercept: Option<Arc<dyn Intercept>>,
    ) -> Result<Self, ColdError> {
        options.check()?;
        match options.url.split_once(':') {
            Some(("mysql", _)) => Ok(Self::MySql(Database::new(
                MySql::new(options)?,
                options,
                intercept,
                statements(),
            ))),
            Some(("sqlite", _)) => Ok(Self::Sqlite(Database::new(
                Sqlite::new(options)?,
                options,
                intercept,
                statements(),
            ))),
            Some((scheme, _)) => Err(ColdError::settings(format!(
                "no engine for {scheme:?}: use mysql: or sqlite:"
            ))),
            None => Err(ColdError::settings(
                "the URL has no scheme: it must begin with mysql: or sqlite:".into(),
            )),
        }
    }
}

/// Opens a database. Creates the schema in an empty one, unless the options forbid it.
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
pub async fn open(options: &ColdOptions) -> Result<Arc<dyn ColdStore>, ColdError> {
    open_as(options, None).await
}

/// As [`open`], with every statement passing through `intercept`.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// As [`open`].
pub async fn open_through(
    options: &ColdOptions,
    intercept: Arc<dyn Intercept>,
) -> Result<Arc<dyn ColdStore>, ColdError> {
    open_as(options, Some(intercept)).await
}

async fn open_as(
    options: &ColdOptions,
    intercept: Option<Arc<dyn Intercept>>,
) -> Result<Arc<dyn ColdStore>, ColdError> {
    match Opened::new(options, intercept)? {
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
pub async fn schema_state(options: &ColdOptions) -> Result<SchemaState, ColdError> {
    match Opened::new(options, None)? {
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
pub async fn pending_sql(options: &ColdOptions) -> Result<Vec<String>, ColdError> {
    match Opened::new(options, None)? {
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
pub async fn migrate(options: &ColdOptions) -> Result<SchemaState, ColdError> {
    match Opened::new(options, None)? {
        Opened::MySql(database) => schema::migrate(database.connections()).await,
        Opened::Sqlite(database) => schema::migrate(database.connections()).await,
    }
}
