//! From settings to a store.

use std::sync::Arc;

use storage_config::{ColdUrl, SqlSettings};
use storage_model::Intercept;
use tokio::runtime::Handle;

use crate::access::Access;
use crate::database::Database;
#[cfg(feature = "mysql")]
use crate::mysql::MySql;
use crate::registry::{Layers, hooks, statements};
use crate::session::Engine;
#[cfg(feature = "sqlite")]
use crate::sqlite::{Hold, Sqlite};
use crate::{Cold, ColdError, ColdKind, SchemaState, schema};

/// How a database is opened.
#[derive(Debug, Clone)]
#[must_use]
pub struct Opening {
    settings: SqlSettings,
    access: Access,
    home: Option<Handle>,
    intercept: Option<Arc<dyn Intercept>>,
}

/// A database of the engine in the URL.
enum OpenedDatabase {
    #[cfg(feature = "mysql")]
    MySql(Database<MySql>),
    #[cfg(feature = "sqlite")]
    Sqlite(Database<Sqlite>),
}

/// A database that one process has for itself.
#[derive(Debug)]
pub struct Alone {
    /// The database.
    pub store: Cold,
    /// The file was in use at its last change, and its write-ahead log is not beside it. So it is a copy
    /// that lacks the last changes, unless another program wrote the log back after a kill.
    pub lacks_log: bool,
}

impl Opening {
    /// The database of these settings. Its schema is created if it is empty.
    pub fn new(settings: &SqlSettings) -> Self {
        Self {
            settings: settings.clone(),
            access: Access::Creates,
            home: None,
            intercept: None,
        }
    }

    /// Leaves an empty database as it is. [`DatabaseStore::pair`](crate::DatabaseStore::pair) creates the
    /// schema. So nothing is written into a wrong database.
    pub fn for_pairing(mut self) -> Self {
        self.access = Access::Pairs;
        self
    }

    /// Works with the tables that are there. Nothing creates them, and an empty database is refused.
    pub fn for_layers(mut self) -> Self {
        self.access = Access::Writes;
        self
    }

    /// Never writes. The database is told so, and calls that would write fail.
    pub fn for_reading(mut self) -> Self {
        self.access = Access::Reads;
        self
    }

    /// The runtime of all connections and time limits, which must live as long as the store is used.
    /// Default: that of each caller, whose connections end with it.
    pub fn at(mut self, home: Handle) -> Self {
        self.home = Some(home);
        self
    }

    /// Every statement passes through this. Default: none does.
    pub fn through(mut self, intercept: Arc<dyn Intercept>) -> Self {
        self.intercept = Some(intercept);
        self
    }

    /// Opens it.
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
    pub async fn open(self) -> Result<Cold, ColdError> {
        match self.opened()? {
            #[cfg(feature = "mysql")]
            OpenedDatabase::MySql(database) => Ok(cold_of(&checked(database).await?)),
            #[cfg(feature = "sqlite")]
            OpenedDatabase::Sqlite(database) => Ok(cold_of(&checked(database).await?)),
        }
    }

    /// Opens it for a process that has a SQLite file for itself. Until the store is closed or the process
    /// ends, no other call of this function opens the file, except with `takes_over`. A database of another
    /// kind is opened as by [`Opening::open`].
    ///
    /// # Errors
    /// As [`Opening::open`], or another program has the file open (`Operator`).
    ///
    /// # Cancel safety
    /// As [`Opening::open`].
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(unused_variables, reason = "a file of SQLite alone can be taken over")
    )]
    pub async fn open_alone(self, takes_over: bool) -> Result<Alone, ColdError> {
        let shared = |store| Alone {
            store,
            lacks_log: false,
        };
        match (&self.settings.url, self.opened()?) {
            #[cfg(feature = "sqlite")]
            (ColdUrl::SqliteFile(path), OpenedDatabase::Sqlite(database)) => {
                // ORDER: before a connection makes a log.
                let hold = Hold::take(path, takes_over)
                    .await
                    .map_err(|fault| fault.into_cold("open"))?;
                let database = checked(database).await?;
                let lacks_log = database.connections().engine().hold(hold).await;
                Ok(Alone {
                    store: cold_of(&database),
                    lacks_log,
                })
            }
            #[cfg(feature = "sqlite")]
            (_, OpenedDatabase::Sqlite(database)) => Ok(shared(cold_of(&checked(database).await?))),
            #[cfg(feature = "mysql")]
            (_, OpenedDatabase::MySql(database)) => Ok(shared(cold_of(&checked(database).await?))),
        }
    }

    fn opened(&self) -> Result<OpenedDatabase, ColdError> {
        let (settings, access) = (&self.settings, self.access);
        settings
            .validate()
            .map_err(|error| ColdError::settings(error.to_string()))?;
        Ok(match &settings.url {
            #[cfg(feature = "mysql")]
            ColdUrl::Mysql {
                address, database, ..
            } => OpenedDatabase::MySql(
                self.database(MySql::new(address, database, settings, access)),
            ),
            #[cfg(feature = "sqlite")]
            ColdUrl::SqliteFile(path) => {
                OpenedDatabase::Sqlite(self.database(Sqlite::file(path, settings, access)))
            }
            #[cfg(feature = "sqlite")]
            ColdUrl::SqliteMemory => {
                OpenedDatabase::Sqlite(self.database(Sqlite::memory(settings)))
            }
            #[cfg(not(all(feature = "mysql", feature = "sqlite")))]
            url => {
                return Err(ColdError::settings(format!(
                    "sql.url is {url}, and this program is built without that engine: turn on the feature `mysql` or `sqlite` of storage-sdk"
                )));
            }
        })
    }

    /// The engine's database, with the statements of all modules and the hooks of all layers.
    fn database<E: Engine>(&self, engine: E) -> Database<E> {
        Database::new(
            engine,
            &self.settings,
            self.access,
            self.home.clone(),
            self.intercept.clone(),
            statements(),
            hooks(),
        )
    }
}

/// Opens a database. Creates the schema in an empty one. See [`Opening::open`].
///
/// # Errors
/// As [`Opening::open`].
///
/// # Cancel safety
/// As [`Opening::open`].
pub async fn open(settings: &SqlSettings) -> Result<Cold, ColdError> {
    Opening::new(settings).open().await
}

/// Whether a process has the SQLite file of the settings for itself at this moment. Then its memory
/// holds changes that the file lacks.
#[must_use]
pub fn is_in_use(settings: &SqlSettings) -> bool {
    match &settings.url {
        #[cfg(feature = "sqlite")]
        ColdUrl::SqliteFile(path) => Hold::is_taken(path),
        _ => false,
    }
}

/// All parts of a database.
fn cold_of<E: Engine>(database: &Arc<Database<E>>) -> Cold {
    Cold {
        layers: Arc::new(Layers::of(database)),
        ..Cold::of(database)
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
    match Opening::new(settings).opened()? {
        #[cfg(feature = "mysql")]
        OpenedDatabase::MySql(database) => schema::state(database.connections()).await,
        #[cfg(feature = "sqlite")]
        OpenedDatabase::Sqlite(database) => schema::state(database.connections()).await,
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
    match Opening::new(settings).opened()? {
        #[cfg(feature = "mysql")]
        OpenedDatabase::MySql(database) => schema::pending(database.connections()).await,
        #[cfg(feature = "sqlite")]
        OpenedDatabase::Sqlite(database) => schema::pending(database.connections()).await,
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
    match Opening::new(settings).opened()? {
        #[cfg(feature = "mysql")]
        OpenedDatabase::MySql(database) => schema::migrate(database.connections()).await,
        #[cfg(feature = "sqlite")]
        OpenedDatabase::Sqlite(database) => schema::migrate(database.connections()).await,
    }
}
