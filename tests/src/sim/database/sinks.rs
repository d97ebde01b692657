//! Sinks on the model of the database.

use async_trait::async_trait;
use storage_model::{Partition, Position, SinkName};
use storage_sql::{ColdError, Parked, SinkStore};

use super::store::ModelStore;
use super::tables::Tables;

/// The most bytes of a reason.
const MESSAGE_BYTES_MAX: usize = 1_000;

impl ModelStore {
    /// Changes the tables in one statement.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        point: &'static str,
        change: impl FnOnce(&mut Tables) -> T + Send + 'static,
    ) -> Result<T, ColdError> {
        let transaction = self.way.begin().await?;
        let life = Some(transaction.life());
        self.way.statement(point, life).await?;
        self.way
            .commit(transaction, move |database| database.change(change))
            .await
    }
}

#[async_trait]
impl SinkStore for ModelStore {
    async fn sink_positions(
        &self,
        sink: &SinkName,
        partitions: &[Partition],
    ) -> Result<Vec<Position>, ColdError> {
        self.read("sink_positions").await?;
        Ok(self.way.database.tables(|tables| {
            let of = |partition: &Partition| tables.sinks.get(&(sink.clone(), *partition));
            let all = partitions.iter();
            all.map(|partition| of(partition).copied().unwrap_or_default())
                .collect()
        }))
    }

    async fn advance_sink(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        let key = (sink.clone(), partition);
        self.change("advance_sink", move |tables| {
            let stored = tables.sinks.entry(key).or_default();
            *stored = position.max(*stored);
        })
        .await
    }

    async fn park(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
        message: &str,
    ) -> Result<(), ColdError> {
        let key = (sink.clone(), partition, position);
        let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
        let message = message[..end].to_owned();
        self.change("park", move |tables| {
            tables.parked.insert(key, message);
        })
        .await
    }

    async fn parked(
        &self,
        sink: &SinkName,
        after: (Partition, Position),
        limit: usize,
    ) -> Result<Vec<Parked>, ColdError> {
        self.read("parked").await?;
        let is_next = |of: &SinkName, place| of == sink && place > after;
        Ok(self.way.database.tables(|tables| {
            let all = tables.parked.iter();
            let next = all.filter(|((of, partition, at), _)| is_next(of, (*partition, *at)));
            next.take(limit)
                .map(|((_, partition, position), message)| Parked {
                    partition: *partition,
                    position: *position,
                    message: message.clone(),
                })
                .collect()
        }))
    }

    async fn parked_count(&self, sink: &SinkName) -> Result<u64, ColdError> {
        Ok(self
            .parked(sink, (Partition(0), Position::ZERO), usize::MAX)
            .await?
            .len() as u64)
    }

    async fn unpark(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        let key = (sink.clone(), partition, position);
        self.change("unpark", move |tables| {
            tables.parked.remove(&key);
        })
        .await
    }
}
