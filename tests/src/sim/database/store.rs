//! The engine on the model of the database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{Epoch, Event, Field, HotId, Lead, Owner, Partition, Position, Row, Scope};
use storage_sql::{
    Batch, Cold, ColdError, ColdKind, ColdPairing, DatabaseStore, EventStore, Events, FeedEnds,
    Fence, Hook, HookStore, HotTier, HotTierStore, LandError, LandStore, Layers, Loaded, Pair,
    PartitionRecord, PartitionStore, PurgedPage, Raise, Raised, RangeStore, RowFault, RowKey,
    RowRange, RowStore, SweepStore,
};

use super::server::Lockable;
use super::tables::Tables;
use super::transaction::{Way, unwell};

/// The largest number of bytes of a value.
const VALUE_BYTES_MAX: usize = 8 << 20;
/// The rows of one statement.
const ROWS_AT_ONCE: usize = 4;

/// The cold tier on the model of the database, for one process.
#[derive(Debug)]
pub struct ModelStore {
    pub(super) way: Way,
    closed: AtomicBool,
}

impl ModelStore {
    /// A store of one process.
    #[must_use]
    pub fn new(way: Way) -> Self {
        Self {
            way,
            closed: AtomicBool::new(false),
        }
    }

    /// The parts of a store of one process.
    #[must_use]
    pub fn cold(way: Way) -> Cold {
        let store = Arc::new(Self::new(way));
        let layers = Layers::default().with_claims(Arc::clone(&store) as _);
        Cold {
            layers: Arc::new(layers),
            ..Cold::of(&store)
        }
    }

    pub(super) async fn read(&self, point: &'static str) -> Result<(), ColdError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(unwell(point, "the store is closed"));
        }
        self.way.statement(point, None).await
    }
}

#[async_trait]
impl RowStore for ModelStore {
    async fn load(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Loaded>, ColdError> {
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        self.read("load").await?;
        let loaded = self.way.database.tables(|tables| {
            owners
                .iter()
                .map(|owner| tables.loaded(owner, rows_max))
                .collect()
        });
        self.way.answer("load").await;
        Ok(loaded)
    }

    async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>, ColdError> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        self.read("load").await?;
        let rows = self
            .way
            .database
            .tables(|tables| tables.loaded(owner, usize::MAX).rows);
        self.way.answer("load").await;
        Ok(rows
            .into_iter()
            .filter(|row| fields.contains(&row.field))
            .collect())
    }

    async fn load_newest(&self, owner: &Owner) -> Result<Option<Row>, ColdError> {
        self.read("load").await?;
        let rows = self
            .way
            .database
            .tables(|tables| tables.loaded(owner, usize::MAX).rows);
        self.way.answer("load").await;
        Ok(rows.into_iter().rev().max_by_key(|row| row.version))
    }

    async fn owners(
        &self,
        scope: &Scope,
        logic_type: &str,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        self.read("owners").await?;
        let wanted = |owner: &&Owner| {
            (owner.app(), owner.region(), owner.logic_type())
                == (scope.app(), scope.region(), logic_type)
                && after.is_none_or(|after| *owner > after)
        };
        Ok(self.way.database.tables(|tables| {
            tables
                .living()
                .filter(wanted)
                .take(limit)
                .cloned()
                .collect()
        }))
    }

    async fn all_owners(
        &self,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        self.read("owners").await?;
        let wanted = |owner: &&Owner| after.is_none_or(|after| *owner > after);
        Ok(self.way.database.tables(|tables| {
            tables
                .living()
                .filter(wanted)
                .take(limit)
                .cloned()
                .collect()
        }))
    }
}

#[async_trait]
impl LandStore for ModelStore {
    async fn land(&self, batch: &Batch) -> Result<(), LandError> {
        if batch.fences.is_empty() && batch.rows.is_empty() {
            return Ok(());
        }
        if let Some(row) = batch
            .rows
            .iter()
            .find(|row| row.cell.value().len() > VALUE_BYTES_MAX)
        {
            let bytes = row.cell.value().len();
            let message =
                format!("a value of {bytes} bytes is above the limit of {VALUE_BYTES_MAX}");
            return Err(LandError::Refused(RowFault {
                code: 1153,
                message,
            }));
        }
        let fences: BTreeMap<Partition, Fence> = batch
            .fences
            .iter()
            .map(|fence| (fence.partition, *fence))
            .collect();
        let mut rows: BTreeMap<(&Owner, &Field), &Row> = BTreeMap::new();
        for row in &batch.rows {
            let held = rows.entry((&row.owner, &row.field)).or_insert(row);
            if held.version < row.version {
                *held = row;
            }
        }
        let rows: Vec<Row> = rows.into_values().cloned().collect();

        let mut transaction = self.way.begin().await?;
        let life = Some(transaction.life());
        for partition in fences.keys() {
            self.way
                .lock(&mut transaction, Lockable::Partition(*partition))
                .await?;
            self.way.statement("fence", life).await?;
        }
        let moved = |fence: &&Fence| !self.way.database.tables(|tables| tables.matches(fence));
        let moved: Vec<Partition> = fences
            .values()
            .filter(moved)
            .map(|fence| fence.partition)
            .collect();
        if !moved.is_empty() {
            return Err(LandError::Fenced(moved));
        }
        let ended = |events: &&Events| {
            let end = self
                .way
                .database
                .tables(|tables| tables.feed_end(events.partition));
            events.after != end
        };
        let moved: Vec<Partition> = batch
            .events
            .iter()
            .filter(ended)
            .map(|events| events.partition)
            .collect();
        if !moved.is_empty() {
            return Err(LandError::Fenced(moved));
        }
        if !batch.events.is_empty() {
            self.way.statement("events", life).await?;
        }
        for some in rows.chunks(ROWS_AT_ONCE) {
            for row in some {
                self.way
                    .lock(
                        &mut transaction,
                        Lockable::Row(row.owner.clone(), row.field.clone()),
                    )
                    .await?;
            }
            self.way.statement("upsert", life).await?;
            if some.iter().any(|row| self.way.database.refuses(row)) {
                return Err(LandError::Refused(RowFault {
                    code: 1406,
                    message: "the value is refused".to_owned(),
                }));
            }
        }
        if batch.trial {
            return Ok(());
        }
        let batch = Batch {
            fences: fences.into_values().collect(),
            rows,
            whole: false,
            trial: false,
            events: batch.events.clone(),
            leads: batch.leads.clone(),
        };
        Ok(self
            .way
            .commit(transaction, move |database| database.land(&batch))
            .await?)
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }
}

#[async_trait]
impl PartitionStore for ModelStore {
    async fn partitions(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionRecord>, ColdError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.read("partitions").await?;
        Ok(self.way.database.tables(|tables| {
            partitions
                .iter()
                .map(|partition| tables.record(*partition))
                .collect()
        }))
    }

    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError> {
        if raises.is_empty() {
            return Ok(Vec::new());
        }
        let mut transaction = self.way.begin().await?;
        let life = Some(transaction.life());
        let partitions: std::collections::BTreeSet<Partition> =
            raises.iter().map(|raise| raise.partition).collect();
        for partition in partitions {
            self.way
                .lock(&mut transaction, Lockable::Partition(partition))
                .await?;
        }
        self.way.statement("raise", life).await?;
        let raises = raises.to_vec();
        self.way
            .commit(transaction, move |database| {
                database.change(|tables| tables.raise(&raises))
            })
            .await
    }
}

#[async_trait]
impl DatabaseStore for ModelStore {
    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        self.read("pairing").await?;
        Ok(self.way.database.tables(|tables| tables.pairing.clone()))
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        let mut transaction = self.way.begin().await?;
        let life = Some(transaction.life());
        self.way.lock(&mut transaction, Lockable::Meta).await?;
        for partition in (0..pair.partitions).map(Partition) {
            self.way
                .lock(&mut transaction, Lockable::Partition(partition))
                .await?;
        }
        self.way.statement("pair", life).await?;
        let (seen, pair) = (seen.clone(), pair.clone());
        self.way
            .commit(transaction, move |database| {
                database.change(|tables| tables.pair(&seen, &pair))
            })
            .await
    }

    async fn forgets(&self) -> Result<Option<String>, ColdError> {
        Ok(None)
    }

    async fn backup(&self, _: &Path) -> Result<(), ColdError> {
        Err(ColdError {
            kind: ColdKind::Settings,
            operation: "backup",
            message: "the model of the database has no file".to_owned(),
        })
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl EventStore for ModelStore {
    async fn feeds(&self, partitions: &[Partition]) -> Result<Vec<FeedEnds>, ColdError> {
        self.read("feeds").await?;
        let ends = self.way.database.tables(|tables| {
            let ends = partitions.iter().map(|partition| FeedEnds {
                partition: *partition,
                last: tables.feed_end(*partition),
                trimmed: Position::ZERO,
            });
            ends.collect()
        });
        self.way.answer("feeds").await;
        Ok(ends)
    }

    async fn events(
        &self,
        partition: Partition,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Event>, ColdError> {
        self.read("events").await?;
        Ok(self.way.database.tables(|tables| {
            let events = tables.events(partition).iter();
            let events = events.filter(|event| event.position > after);
            events.take(limit).cloned().collect()
        }))
    }

    async fn leads(&self, partition: Partition, before: Epoch) -> Result<Vec<Lead>, ColdError> {
        self.read("leads").await?;
        let leads = self
            .way
            .database
            .tables(|tables| tables.leads(partition).collect::<Vec<_>>());
        self.way.answer("leads").await;
        let is_before = |lead: &Lead| lead.position.epoch < before;
        Ok(leads.into_iter().filter(is_before).collect())
    }

    async fn drop_events(
        &self,
        _partition: Partition,
        _older_than: Duration,
        _limit: usize,
    ) -> Result<usize, ColdError> {
        Ok(0)
    }
}

#[async_trait]
impl HotTierStore for ModelStore {
    async fn introduce(&self, hot: HotId, address: &str) -> Result<(), ColdError> {
        self.read("introduce").await?;
        let database = &self.way.database;
        database.change(|tables| tables.introduce(hot, address));
        Ok(())
    }

    async fn hot_tiers(&self) -> Result<Vec<HotTier>, ColdError> {
        self.read("hot_tiers").await?;
        Ok(self.way.database.tables(Tables::hot_tiers))
    }

    async fn touch(&self, hot: &[HotId]) -> Result<(), ColdError> {
        if hot.is_empty() {
            return Ok(());
        }
        self.read("touch").await?;
        let database = &self.way.database;
        hot.iter()
            .for_each(|hot| database.change(|tables| tables.touch(*hot)));
        Ok(())
    }
}

/// No layer has a hook in the database of the simulator.
#[async_trait]
impl HookStore for ModelStore {
    async fn hooks(&self) -> Result<Vec<Hook>, ColdError> {
        self.read("hooks").await?;
        self.way.answer("hooks").await;
        Ok(Vec::new())
    }

    async fn define(&self, name: &str, _: bool) -> Result<(), ColdError> {
        Err(ColdError {
            kind: ColdKind::Settings,
            operation: "define",
            message: format!("the database of the simulator takes no hook, such as {name:?}"),
        })
    }
}

/// The simulator plays no layers.
#[async_trait]
impl RangeStore for ModelStore {
    async fn between(&self, range: &RowRange) -> Result<Vec<Row>, ColdError> {
        Err(ColdError {
            kind: ColdKind::Settings,
            operation: "between",
            message: format!(
                "the database of the simulator reads no range of {:?}",
                range.logic_type
            ),
        })
    }
}

/// The model keeps no time of a row, so no row is old.
#[async_trait]
impl SweepStore for ModelStore {
    async fn purged(
        &self,
        _: Option<&RowKey>,
        _: Duration,
        _: usize,
    ) -> Result<PurgedPage, ColdError> {
        self.read("purged").await?;
        self.way.answer("purged").await;
        Ok(PurgedPage {
            purged: Vec::new(),
            last: None,
        })
    }

    async fn sweep(
        &self,
        _: &Fence,
        _: &[(Owner, Field)],
        _: Duration,
    ) -> Result<Option<u64>, ColdError> {
        Ok(None)
    }
}
