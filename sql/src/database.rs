//! A database whose schema is checked before any work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use storage_config::SqlSettings;
use storage_model::Intercept;
use tokio::runtime::Handle;

use crate::access::Access;
use crate::connections::Connections;
use crate::exec::Exec;
use crate::fault::Fault;
use crate::hooks::{Derive, Hooks};
use crate::session::{Engine, Role};
use crate::statement::Statement;
use crate::{ColdError, SchemaState, schema};

/// A database of one engine.
pub(crate) struct Database<E: Engine> {
    connections: Connections<E>,
    /// Whether the schema fits. Set by any call that checked it, and read before any work, because
    /// the database can be away when the store is opened. Several calls can check at the same time.
    /// A queue for one check would add up their time limits.
    fits: AtomicBool,
    access: Access,
    hooks: Hooks<E::Session>,
}

impl<E: Engine> Database<E> {
    /// A database that runs these statements, and these hooks in its landings. Connects to nothing.
    pub(crate) fn new(
        engine: E,
        settings: &SqlSettings,
        access: Access,
        home: Option<Handle>,
        intercept: Option<Arc<dyn Intercept>>,
        statements: impl Iterator<Item = &'static Statement>,
        hooks: Vec<Arc<dyn Derive<E::Session>>>,
    ) -> Self {
        Self {
            connections: Connections::new(engine, settings, home, intercept, statements),
            fits: AtomicBool::new(false),
            access,
            hooks: Hooks::new(hooks),
        }
    }

    /// The hooks of this program.
    pub(crate) fn hooks(&self) -> &Hooks<E::Session> {
        &self.hooks
    }

    /// The connections, for work that needs no schema.
    pub(crate) fn connections(&self) -> &Connections<E> {
        &self.connections
    }

    /// Runs some reads on one connection, with a deadline for each statement.
    ///
    /// # Errors
    /// The schema does not fit, no connection came in time, or `work` failed.
    pub(crate) async fn read<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut Exec<E::Session>) -> Result<T, Fault>,
    ) -> Result<T, ColdError> {
        self.fits().await?;
        self.connections.work(Role::Read, operation, work).await
    }

    /// Runs some writes on one connection, with a deadline for each statement. Writes that belong
    /// together need [`Exec::transaction`].
    ///
    /// # Errors
    /// As [`Database::read`], or the database is open for reading only.
    pub(crate) async fn write<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut Exec<E::Session>) -> Result<T, Fault>,
    ) -> Result<T, ColdError> {
        self.writable(operation)?;
        self.fits().await?;
        self.connections.work(Role::Write, operation, work).await
    }

    /// The error of a fault for callers.
    pub(crate) fn error_of(&self, fault: Fault, operation: &'static str) -> ColdError {
        self.connections.error_of(fault, operation)
    }

    /// Checks the schema when the store opens. An empty database gets its schema now, or later from
    /// [`Database::create`] if it may. It is refused if nobody creates its schema.
    pub(crate) async fn fits_or_is_empty(&self) -> Result<(), ColdError> {
        match schema::state(&self.connections).await? {
            SchemaState::Empty if matches!(self.access, Access::Pairs | Access::Reads) => Ok(()),
            _ => self.fits().await,
        }
    }

    /// Whether the database has no tables yet.
    pub(crate) async fn is_empty(&self) -> Result<bool, ColdError> {
        Ok(!self.fits.load(Ordering::Acquire)
            && schema::state(&self.connections).await? == SchemaState::Empty)
    }

    /// Creates missing tables, unless the database is open for reading only or for its tables alone.
    pub(crate) async fn create(&self, operation: &'static str) -> Result<(), ColdError> {
        self.writable(operation)?;
        match self.access {
            Access::Writes => schema::check(&self.connections).await,
            _ => schema::ensure(&self.connections).await,
        }
    }

    /// Checks the schema. Creates it in an empty database if it may.
    async fn fits(&self) -> Result<(), ColdError> {
        if !self.fits.load(Ordering::Acquire) {
            if self.access == Access::Creates {
                schema::ensure(&self.connections).await?
            } else {
                schema::check(&self.connections).await?
            }
            self.fits.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn writable(&self, operation: &'static str) -> Result<(), ColdError> {
        if self.access != Access::Reads {
            return Ok(());
        }
        Err(ColdError {
            operation,
            ..ColdError::settings(
                "the database is open for reading only: nothing was written".into(),
            )
        })
    }
}

impl<E: Engine> fmt::Debug for Database<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("engine", self.connections.engine())
            .field("names", self.connections.names())
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}
