//! The connections to one database, for readers and writers. The schema may not fit.

use std::sync::Arc;

use storage_config::SqlSettings;
use storage_model::Intercept;

use crate::ColdError;
use crate::exec::{Exec, Shared};
use crate::fault::Fault;
use crate::pool::{Lease, Pool};
use crate::session::{Engine, Role, Share};
use crate::statement::{Names, Statement, Texts};

/// The pools of one database.
pub(crate) struct Connections<E: Engine> {
    engine: Arc<E>,
    /// The database's address, for errors.
    place: String,
    shared: Arc<Shared>,
    writers: Arc<Pool<E>>,
    /// The same pool as `writers` if all connections read and write.
    readers: Arc<Pool<E>>,
}

impl<E: Engine> Connections<E> {
    pub(crate) fn new(
        engine: E,
        settings: &SqlSettings,
        intercept: Option<Arc<dyn Intercept>>,
        statements: impl Iterator<Item = &'static Statement>,
    ) -> Self {
        let names = Names::new(&settings.table);
        let texts = Texts::new(&names, engine.dialect(), statements);
        let shared = Arc::new(Shared {
            texts,
            names,
            intercept,
            statement_timeout: settings.statement_timeout,
        });
        let engine = Arc::new(engine);
        let pool = |size| {
            let (engine, shared) = (Arc::clone(&engine), Arc::clone(&shared));
            Arc::new(Pool::new(
                engine,
                shared,
                size,
                settings.acquire_timeout,
                settings.connect_timeout,
            ))
        };
        let (writers, readers) = match engine.connections() {
            Share::All(size) => {
                let all = pool(size);
                (Arc::clone(&all), all)
            }
            Share::OneWriter { readers } => (pool(1), pool(readers)),
        };
        Self {
            place: engine.place(),
            engine,
            shared,
            writers,
            readers,
        }
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }

    /// The database's address.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The tables' names.
    pub(crate) fn names(&self) -> &Names {
        &self.shared.names
    }

    /// The most bytes of one statement, if a connection was ever opened.
    pub(crate) fn packet_bytes_max(&self) -> Option<usize> {
        self.writers
            .packet_bytes_max()
            .or_else(|| self.readers.packet_bytes_max())
    }

    /// Runs some work on a connection for this role.
    pub(crate) async fn work<T>(
        &self,
        role: Role,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut Exec<E::Session>) -> Result<T, Fault>,
    ) -> Result<T, ColdError> {
        let done = match self.lease(role).await {
            Ok(mut lease) => match lease.exec() {
                Ok(exec) => work(exec).await,
                Err(fault) => Err(fault),
            },
            Err(fault) => Err(fault),
        };
        done.map_err(|fault| self.error_of(fault, operation))
    }

    async fn lease(&self, role: Role) -> Result<Lease<E>, Fault> {
        match role {
            Role::Read => self.readers.lease().await,
            Role::Write => self.writers.lease().await,
        }
    }

    /// The error of a fault for callers.
    pub(crate) fn error_of(&self, fault: Fault, operation: &'static str) -> ColdError {
        fault.into_cold(operation).at(&self.place)
    }

    /// Closes all connections, after the running statements.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
        self.engine.closed().await;
    }
}
