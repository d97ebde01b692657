//! Rows, landing, partitions and the database as a whole, for all engines.

use std::path::Path;

use async_trait::async_trait;
use storage_model::{Field, Owner, Partition, Row, Scope};

use crate::engine::{Database, Engine};
use crate::upsert::value_bytes_max;
use crate::{
    Batch, ColdError, ColdPairing, DatabaseStore, LandError, LandStore, Loaded, Pair,
    PartitionRecord, PartitionStore, Raise, Raised, RowStore,
};
use crate::{land, owners, pairing, partition, read};

/// The limit of a value while no connection was ever opened: half of MariaDB's default packet.
const VALUE_BYTES_UNKNOWN: usize = 8 << 20;

#[async_trait]
impl<E: Engine> RowStore for Database<E> {
    async fn load(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Loaded>, ColdError> {
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        self.read("load", async |exec| {
            read::load(exec, owners, rows_max).await
        })
        .await
    }

    async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>, ColdError> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        self.read("load_fields", async |exec| {
            read::load_fields(exec, owner, fields).await
        })
        .await
    }

    async fn load_newest(&self, owner: &Owner) -> Result<Option<Row>, ColdError> {
        self.read("load_newest", async |exec| {
            read::load_newest(exec, owner).await
        })
        .await
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
        self.read("owners", async |exec| owners::owners(exec, &page).await)
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
        self.read("all_owners", async |exec| owners::owners(exec, &page).await)
            .await
    }
}

#[async_trait]
impl<E: Engine> LandStore for Database<E> {
    async fn land(&self, batch: &Batch) -> Result<(), LandError> {
        if batch.fences.is_empty() && batch.rows.is_empty() {
            return Ok(());
        }
        land::land(self, batch).await
    }

    fn value_bytes_max(&self) -> usize {
        let packet = self.connections().packet_bytes_max();
        packet.map_or(VALUE_BYTES_UNKNOWN, value_bytes_max)
    }
}

#[async_trait]
impl<E: Engine> PartitionStore for Database<E> {
    async fn partitions(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionRecord>, ColdError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.read("partitions", async |exec| {
            partition::records(exec, partitions).await
        })
        .await
    }

    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError> {
        if raises.is_empty() {
            return Ok(Vec::new());
        }
        self.write("raise", async |exec| partition::raise(exec, raises).await)
            .await
    }
}

#[async_trait]
impl<E: Engine> DatabaseStore for Database<E> {
    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        let place = self.connections().place();
        if self.is_empty().await? {
            return Ok(ColdPairing {
                address: place.to_owned(),
                ..ColdPairing::default()
            });
        }
        self.read("pairing", async |exec| pairing::read(exec, place).await)
            .await
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        self.create("pair").await?;
        self.write("pair", async |exec| pairing::pair(exec, seen, pair).await)
            .await
    }

    async fn forgets(&self) -> Result<Option<String>, ColdError> {
        self.read("forgets", async |exec| Ok(exec.server().forgets.clone()))
            .await
    }

    async fn backup(&self, to: &Path) -> Result<(), ColdError> {
        self.connections().copy(to).await
    }

    async fn close(&self) {
        self.connections().close().await;
    }
}
