//! From options to a store.

use std::sync::Arc;

use crate::cold::Cold;
use crate::mysql::MySql;
use crate::session::Engine;
use crate::sqlite::Sqlite;
use crate::{ColdError, ColdKind, ColdOptions, ColdStore, NoSeam, SchemaState, Seam, schema};

/// A database of the engine in the URL.
enum Opened {
    MySql(Cold<MySql>),
    Sqlite(Cold<Sqlite>),
}

impl Opened {
    fn new(options: &ColdOptions, seam: Arc<dyn Seam>) -> Result<Self, ColdError> {
        options.check()?;
        match options.url.split_once(':') {
            Some(("mysql", _)) => Ok(Self::MySql(Cold::new(MySql::new(options)?, options, seam))),
            Some(("sqlite", _)) => Ok(Self::Sqlite(Cold::new(
                Sqlite::new(options)?,
                options,
                seam,
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
    open_through(options, Arc::new(NoSeam)).await
}

/// As [`open`], with every statement passing through `seam`.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// As [`open`].
pub async fn open_through(
    options: &ColdOptions,
    seam: Arc<dyn Seam>,
) -> Result<Arc<dyn ColdStore>, ColdError> {
    match Opened::new(options, seam)? {
        Opened::MySql(cold) => Ok(checked(cold).await?),
        Opened::Sqlite(cold) => Ok(checked(cold).await?),
    }
}

async fn checked<E: Engine>(cold: Cold<E>) -> Result<Arc<Cold<E>>, ColdError> {
    match cold.fits_or_is_empty().await {
        Err(error) if error.kind == ColdKind::Unwell => {
            tracing::warn!(%error, "the database is away: its schema is checked when it answers");
            Ok(Arc::new(cold))
        }
        checked => checked.map(|()| Arc::new(cold)),
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
    match Opened::new(options, Arc::new(NoSeam))? {
        Opened::MySql(cold) => schema::state(&cold).await,
        Opened::Sqlite(cold) => schema::state(&cold).await,
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
    match Opened::new(options, Arc::new(NoSeam))? {
        Opened::MySql(cold) => schema::pending(&cold).await,
        Opened::Sqlite(cold) => schema::pending(&cold).await,
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
    match Opened::new(options, Arc::new(NoSeam))? {
        Opened::MySql(cold) => schema::migrate(&cold).await,
        Opened::Sqlite(cold) => schema::migrate(&cold).await,
    }
}
