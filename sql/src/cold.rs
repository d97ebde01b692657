//! The only implementation of [`ColdStore`], for all engines.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use storage_config::SqlSettings;
use storage_model::{Field, Owner, Partition, Row, Scope};

use crate::access::Access;
use crate::exec::{Exec, Shared};
use crate::fault::Fault;
use crate::land::Unlanded;
use crate::pool::{Lease, Pool};
use crate::session::{Engine, Role, Share};
use crate::statement::{Names, Texts};
use crate::{
    Batch, ColdError, ColdPairing, ColdStore, LandError, Loaded, Pair, PartitionRecord, Raise,
    Raised, SchemaState, Seam,
};
use crate::{canary, land, owners, pairing, partition, read, schema};

/// The limit of a value while no connection was ever opened: half of MariaDB's default packet.
const VALUE_BYTES_UNKNOWN: usize = 8 << 20;

/// A database of one engine.
pub(crate) struct Cold<E: Engine> {
    engine: Arc<E>,
    /// The database's address, for errors.
    place: String,
    shared: Arc<Shared>,
    writers: Arc<Pool<E>>,
    /// The same pool as `writers` if all connections read and write.
    readers: Arc<Pool<E>>,
    /// Whether the schema fits. Set by any call that checked it, and read before any work, because
    /// the database can be away when the store is opened. Several calls can check at the same time.
    /// A queue for one check would add up their time limits.
    fits: AtomicBool,
    access: Access,
}

impl<E: Engine> Cold<E> {
    pub(crate) fn new(
        engine: E,
        settings: &SqlSettings,
        access: Access,
        seam: Arc<dyn Seam>,
    ) -> Self {
        let names = Names::new(&settings.table);
        let texts = Texts::new(&names, engine.template());
        let shared = Arc::new(Shared {
            texts,
            names,
            seam,
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
            fits: AtomicBool::new(false),
            access,
        }
    }

    /// Checks the schema. Creates it in an empty database if it may.
    pub(crate) async fn fits(&self) -> Result<(), ColdError> {
        if !self.fits.load(Ordering::Acquire) {
            if self.access == Access::Creates {
                schema::ensure(self).await?
            } else {
                schema::check(self).await?
            }
            self.fits.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Checks the schema when the store opens. An empty database gets its schema now, or later from
    /// [`ColdStore::pair`] if it may.
    pub(crate) async fn fits_or_is_empty(&self) -> Result<(), ColdError> {
        match schema::state(self).await? {
            SchemaState::Empty if self.access != Access::Creates => Ok(()),
            _ => self.fits().await,
        }
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }

    /// The tables' names.
    pub(crate) fn names(&self) -> &Names {
        &self.shared.names
    }

    /// A connection for this role. The schema may not fit.
    pub(crate) async fn lease(&self, role: Role) -> Result<Lease<E>, Fault> {
        match role {
            Role::Read => self.readers.lease().await,
            Role::Write => self.writers.lease().await,
        }
    }

    /// Runs some work on a connection for this role.
    async fn work<T>(
        &self,
        role: Role,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut Exec<E::Session>) -> Result<T, Fault>,
    ) -> Result<T, ColdError> {
        let mut lease = self.checked(role, operation).await?;
        let done = match lease.exec() {
            Ok(exec) => work(exec).await,
            Err(fault) => Err(fault),
        };
        done.map_err(|fault| self.told(fault, operation))
    }

    /// The error of a fault for callers.
    pub(crate) fn told(&self, fault: Fault, operation: &'static str) -> ColdError {
        fault.into_cold(operation).at(&self.place)
    }

    fn told_of_land(&self, unlanded: Unlanded) -> Unlanded {
        match unlanded {
            Unlanded::Known(LandError::Cold(error)) => {
                Unlanded::Known(LandError::Cold(error.at(&self.place)))
            }
            other => other,
        }
    }

    async fn land_once(&self, batch: &Batch) -> Result<(), Unlanded> {
        let mut lease = self
            .checked(Role::Write, "land")
            .await
            .map_err(LandError::Cold)?;
        let landed = match lease.exec() {
            Ok(exec) => land::land(exec, batch).await,
            Err(fault) => Err(Unlanded::Known(fault.into_land())),
        };
        landed.map_err(|unlanded| self.told_of_land(unlanded))
    }

    /// A connection for this role to a database with a fitting schema.
    async fn checked(&self, role: Role, operation: &'static str) -> Result<Lease<E>, ColdError> {
        self.fits().await?;
        self.lease(role)
            .await
            .map_err(|fault| self.told(fault, operation))
    }
}

impl<E: Engine> fmt::Debug for Cold<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cold")
            .field("engine", &self.engine)
            .field("names", &self.shared.names)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<E: Engine> ColdStore for Cold<E> {
    async fn load(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Loaded>, ColdError> {
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        self.work(Role::Read, "load", async |exec| {
            read::load(exec, owners, rows_max).await
        })
        .await
    }

    async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>, ColdError> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        self.work(Role::Read, "load_fields", async |exec| {
            read::load_fields(exec, owner, fields).await
        })
        .await
    }

    async fn load_newest(&self, owner: &Owner) -> Result<Option<Row>, ColdError> {
        self.work(Role::Read, "load_newest", async |exec| {
            read::load_newest(exec, owner).await
        })
        .await
    }

    async fn land(&self, batch: &Batch) -> Result<(), LandError> {
        if batch.fences.is_empty() && batch.rows.is_empty() {
            return Ok(());
        }
        if self.access == Access::Reads {
            return Err(LandError::Cold(pairing::read_only("land")));
        }
        let mut cuts = 0;
        loop {
            let cut = match self.land_once(batch).await {
                Err(Unlanded::Cut(fault)) => fault,
                Err(Unlanded::Known(error)) => return Err(error),
                Ok(()) => return Ok(()),
            };
            cuts += 1;
            // Rows count as the cause only while another row succeeds, over its own connection.
            let taken = self
                .work(Role::Write, "land", async |exec| canary::check(exec).await)
                .await;
            if taken.is_err() {
                return Err(self.told(cut, "land").into());
            }
            if cuts == land::cuts_max(batch) {
                return Err(cut.each_time(cuts).of_rows());
            }
        }
    }

    async fn owners(
        &self,
        scope: &Scope,
        logic_type: &str,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        let Some(page) = owners::Page::of_type(scope, logic_type, after, limit) else {
            return Ok(Vec::new());
        };
        self.work(Role::Read, "owners", async |exec| {
            owners::owners(exec, &page).await
        })
        .await
    }

    async fn all_owners(
        &self,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        let Some(page) = owners::Page::of_all(after, limit) else {
            return Ok(Vec::new());
        };
        self.work(Role::Read, "all_owners", async |exec| {
            owners::owners(exec, &page).await
        })
        .await
    }

    async fn partitions(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionRecord>, ColdError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.work(Role::Read, "partitions", async |exec| {
            partition::records(exec, partitions).await
        })
        .await
    }

    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError> {
        if raises.is_empty() {
            return Ok(Vec::new());
        }
        if self.access == Access::Reads {
            return Err(pairing::read_only("raise"));
        }
        self.work(Role::Write, "raise", async |exec| {
            partition::raise(exec, raises).await
        })
        .await
    }

    async fn forgets(&self) -> Result<Option<String>, ColdError> {
        self.work(Role::Write, "forgets", async |exec| {
            Ok(exec.server().forgets.clone())
        })
        .await
    }

    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        if !self.fits.load(Ordering::Acquire) && schema::state(self).await? == SchemaState::Empty {
            return Ok(ColdPairing {
                address: self.place.clone(),
                ..ColdPairing::default()
            });
        }
        self.work(Role::Read, "pairing", async |exec| {
            pairing::read(exec, &self.place).await
        })
        .await
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        if self.access == Access::Reads {
            return Err(pairing::read_only("pair"));
        }
        schema::ensure(self).await?;
        self.work(Role::Write, "pair", async |exec| {
            pairing::pair(exec, seen, pair).await
        })
        .await
    }

    fn value_bytes_max(&self) -> usize {
        let packet = self
            .writers
            .packet_bytes_max()
            .or_else(|| self.readers.packet_bytes_max());
        packet.map_or(VALUE_BYTES_UNKNOWN, land::value_bytes_max)
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }
}
