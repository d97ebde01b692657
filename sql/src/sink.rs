//! How far the sinks of the feed have got, and the events that they refused.

use std::collections::BTreeMap;

use async_trait::async_trait;
use storage_model::{Partition, Position, SinkName};

use crate::engine::{
    Arg, Database, Engine, Exec, Fault, MANY_MAX, Record, Session, Statement, padded, statement,
};
use crate::partition::partition_in;
use crate::{ColdError, Parked, SinkStore};

static READ_POSITIONS: Statement = statement!("sink/read_positions").through("PRIMARY");
static ADVANCE: Statement = statement!("sink/advance");
static PARK: Statement = statement!("sink/park");
static READ_PARKED: Statement = statement!("sink/read_parked").in_order_of("PRIMARY");
static COUNT_PARKED: Statement = statement!("sink/count_parked").through("PRIMARY");
static UNPARK: Statement = statement!("sink/unpark").through("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[
    &READ_POSITIONS,
    &ADVANCE,
    &PARK,
    &READ_PARKED,
    &COUNT_PARKED,
    &UNPARK,
];

/// The most bytes of a reason. The column has a little more.
const MESSAGE_BYTES_MAX: usize = 1_000;

#[async_trait]
impl<E: Engine> SinkStore for Database<E> {
    async fn sink_positions(
        &self,
        sink: &SinkName,
        partitions: &[Partition],
    ) -> Result<Vec<Position>, ColdError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.read("sink_positions", async |exec| {
            positions(exec, sink, partitions).await
        })
        .await
    }

    async fn advance_sink(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        self.write("advance_sink", async |exec| {
            let args = event_args(sink, partition, position);
            run(exec, &ADVANCE, &args).await
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
        self.write("park", async |exec| {
            let mut args = event_args(sink, partition, position).to_vec();
            args.push(cut(message).into());
            run(exec, &PARK, &args).await
        })
        .await
    }

    async fn parked(
        &self,
        sink: &SinkName,
        after: (Partition, Position),
        limit: usize,
    ) -> Result<Vec<Parked>, ColdError> {
        self.read("parked", async |exec| {
            let (partition, Position { epoch, number }) = after;
            let limit = u64::try_from(limit).unwrap_or(u64::MAX);
            let args = [
                sink.as_str().into(),
                id(partition),
                id(partition),
                Arg::Number(epoch.0),
                Arg::Number(epoch.0),
                Arg::Number(number),
                Arg::Number(limit.min(i64::MAX.unsigned_abs())),
            ];
            exec.fetch(&READ_PARKED, 1, &args, parked).await
        })
        .await
    }

    async fn parked_count(&self, sink: &SinkName) -> Result<u64, ColdError> {
        self.read("parked_count", async |exec| {
            let read = |record: &dyn Record| record.number(0);
            let counts = exec
                .fetch(&COUNT_PARKED, 1, &[sink.as_str().into()], read)
                .await?;
            Ok(counts.first().copied().unwrap_or_default())
        })
        .await
    }

    async fn unpark(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        self.write("unpark", async |exec| {
            let args = event_args(sink, partition, position);
            run(exec, &UNPARK, &args).await
        })
        .await
    }
}

async fn run<S: Session>(
    exec: &mut Exec<S>,
    statement: &'static Statement,
    args: &[Arg<'_>],
) -> Result<(), Fault> {
    exec.execute(statement, 1, args).await?;
    Ok(())
}

/// How far a sink has got in these partitions, in the requested order.
async fn positions<S: Session>(
    exec: &mut Exec<S>,
    sink: &SinkName,
    partitions: &[Partition],
) -> Result<Vec<Position>, Fault> {
    let mut found = BTreeMap::new();
    for chunk in partitions.chunks(MANY_MAX) {
        let ids = padded(chunk);
        let mut args = vec![Arg::from(sink.as_str())];
        args.extend(ids.iter().copied().map(id));
        let read = |record: &dyn Record| place(record);
        found.extend(exec.fetch(&READ_POSITIONS, ids.len(), &args, read).await?);
    }
    let of = |partition: &Partition| found.get(partition).copied().unwrap_or_default();
    Ok(partitions.iter().map(of).collect())
}

/// The partition and the position in the first columns.
fn place(record: &dyn Record) -> Result<(Partition, Position), Fault> {
    let partition = partition_in(record, 0)?;
    let position = Position::new(record.number(1)?, record.number(2)?);
    Ok((partition, position))
}

fn parked(record: &dyn Record) -> Result<Parked, Fault> {
    let (partition, position) = place(record)?;
    Ok(Parked {
        partition,
        position,
        message: String::from_utf8_lossy(record.bytes(3)?).into_owned(),
    })
}

/// The place of an event, for a sink.
fn event_args(sink: &SinkName, partition: Partition, position: Position) -> [Arg<'_>; 4] {
    [
        sink.as_str().into(),
        id(partition),
        Arg::Number(position.epoch.0),
        Arg::Number(position.number),
    ]
}

/// The beginning of a reason, as far as the column has room.
fn cut(message: &str) -> &str {
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    message.get(..end).unwrap_or_default()
}

fn id<'a>(partition: Partition) -> Arg<'a> {
    Arg::Number(u64::from(partition.0))
}
