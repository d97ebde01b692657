//! The connections to one database, for readers and writers. The schema may not fit.
//!
//! A socket and a timer belong to the runtime in whose context they are made. So all work is done in the
//! context of the runtime that the store was opened for, whichever thread polls it. Then connections
//! outlive the runtime of the caller that opened them (H60), and time limits follow the clock of that
//! runtime, and not one that a test has paused (H61).

use std::path::Path;
use std::sync::Arc;

use storage_config::SqlSettings;
use storage_model::Intercept;
use tokio::runtime::Handle;
use tokio_util::context::TokioContext;

use crate::ColdError;
use crate::exec::{Exec, Shared};
use crate::fault::Fault;
use crate::pool::{Lease, Pool};
use crate::session::{Engine, Role, Share};
use crate::statement::{Names, Statement, Texts};

/// The pools of one database.
pub(crate) struct Connections<E: Engine> {
    engine: Arc<E>,
    /// The runtime of all connections and time limits. Without one, that of each caller.
    home: Option<Handle>,
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
        home: Option<Handle>,
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
            home,
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
        let done = self.at_home(async {
            let mut lease = self.lease(role).await?;
            work(lease.exec()?).await
        });
        done.await.map_err(|fault| self.error_of(fault, operation))
    }

    /// Does some work in the context of the runtime of this store.
    pub(crate) async fn at_home<W: Future>(&self, work: W) -> W::Output {
        match &self.home {
            Some(home) => TokioContext::new(work, home.clone()).await,
            None => work.await,
        }
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
        self.at_home(async {
            self.readers.close().await;
            self.writers.close().await;
            self.engine.closed().await;
        })
        .await;
    }

    /// Copies the database to a new file.
    pub(crate) async fn copy(&self, to: &Path) -> Result<(), ColdError> {
        let copied = self.at_home(self.engine.copy(to, self.names())).await;
        copied.map_err(|fault| self.error_of(fault, "backup"))
    }
}
