//! The landing transaction: fences first, then events, rows and the rows of hooks.

use storage_model::{Partition, Row};

use crate::classify::Class;
use crate::engine::{Database, Engine, Exec, Fault, Session};
use crate::fence::{ascending, elsewhere};
use crate::hooks::NeededHooks;
use crate::split::ordered;
use crate::upsert::{refuse_too_large, value_bytes_max};
use crate::writer::{self, Writers};
use crate::{Batch, Fence, LandError, RowFault, canary, feed, fence};

/// Why a transaction ends early.
enum Stop {
    Fenced(Vec<Partition>),
    /// The rows of a trial are written, and go again.
    Tried,
    /// The answer to a statement that writes rows.
    Rows(Fault),
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Why a batch did not land.
enum LandFailure {
    Fenced(Vec<Partition>),
    Refused(RowFault),
    /// A statement that writes rows was cut. One of the rows may be at fault.
    Cut(Fault),
    /// The database would take the rows of a trial.
    Tried,
    Fault(Fault),
}

impl From<Stop> for LandFailure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Fenced(partitions) => Self::Fenced(partitions),
            Stop::Tried => Self::Tried,
            Stop::Rows(fault) if fault.is_cut() => Self::Cut(fault),
            Stop::Rows(fault) | Stop::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// How often one owner's rows are sent before they count as the cause of cuts.
const CUTS_MAX: u32 = 3;

/// How often a batch is sent before its rows count as the cause of cuts. A batch of several owners
/// is halved after the first cut, because its parts are sent again anyway. The rows of one owner
/// stay together as long as possible (R16), and those of owners that must land together always (G1).
fn cuts_max(batch: &Batch) -> u32 {
    let one_owner = batch
        .rows
        .windows(2)
        .all(|pair| matches!(pair, [one, next] if one.owner == next.owner));
    if one_owner || batch.whole {
        CUTS_MAX
    } else {
        1
    }
}

/// Lands the batch if every fence matches, with the rows of the hooks. Repeats it after a cut.
pub(crate) async fn land<E: Engine>(
    database: &Database<E>,
    batch: &Batch,
) -> Result<(), LandError> {
    let hooks = database.hooks();
    let mut cuts = 0;
    loop {
        let landed = database.write("land", async |exec| {
            let known = hooks.known(exec).await?;
            Ok(land_once(exec, batch, &known).await)
        });
        let cut = match landed.await? {
            Ok(()) | Err(LandFailure::Tried) => return Ok(()),
            Err(LandFailure::Fenced(partitions)) => {
                hooks.forget();
                return Err(LandError::Fenced(partitions));
            }
            Err(LandFailure::Refused(fault)) => return Err(LandError::Refused(fault)),
            Err(LandFailure::Fault(fault)) => return Err(database.error_of(fault, "land").into()),
            Err(LandFailure::Cut(fault)) => fault,
        };
        cuts += 1;
        // Rows count as the cause only while another row succeeds, over its own connection.
        let taken = database.write("land", async |exec| {
            let known = hooks.known(exec).await?;
            canary::check(exec, &known.writers()).await
        });
        if taken.await.is_err() {
            return Err(database.error_of(cut, "land").into());
        }
        if cuts == cuts_max(batch) {
            return Err(LandError::Refused(cut.each_time(cuts).of_rows()));
        }
    }
}

async fn land_once<S: Session>(
    exec: &mut Exec<S>,
    batch: &Batch,
    known: &NeededHooks<S>,
) -> Result<(), LandFailure> {
    let writers = &known.writers()[..];
    let rows = ordered(&batch.rows);
    refuse_too_large(&rows, value_bytes_max(exec.packet_bytes_max()))
        .map_err(LandFailure::Refused)?;
    let fences = ascending(&batch.fences);
    let elsewhere = elsewhere(&fences, exec.server().id);
    if !elsewhere.is_empty() {
        return Err(LandFailure::Fenced(elsewhere));
    }
    let held = LandingCondition {
        fences: &fences,
        definitions: known.definitions,
    };
    match transaction(exec, batch, held, writers, &rows).await {
        Err(Stop::Rows(fault)) if fault.may_be_of_rows() && rows.len() > 1 && !batch.whole => {
            Err(LandFailure::Refused(fault.of_rows()))
        }
        Err(Stop::Rows(fault)) if fault.may_be_of_rows() && exec.is_between_transactions() => {
            // Only rows that can't be cut count as the cause, and only while another row succeeds.
            canary::check(exec, writers)
                .await
                .map_err(LandFailure::Fault)?;
            if fault.class == Class::Refused {
                return Err(LandFailure::Refused(fault.of_rows()));
            }
            // The meaning of the number is unknown, so the fault may have passed.
            match transaction(exec, batch, held, writers, &rows).await {
                Err(Stop::Rows(again)) if again.code == fault.code => {
                    Err(LandFailure::Refused(again.of_rows()))
                }
                other => Ok(other?),
            }
        }
        other => Ok(other?),
    }
}

/// The condition of a landing.
#[derive(Clone, Copy)]
struct LandingCondition<'a> {
    fences: &'a [Fence],
    definitions: u64,
}

async fn transaction<S: Session>(
    exec: &mut Exec<S>,
    batch: &Batch,
    held: LandingCondition<'_>,
    writers: &Writers<'_, S>,
    rows: &[&Row],
) -> Result<(), Stop> {
    exec.transaction(async |exec| {
        // ORDER: fences before rows, fences ascending, rows in key order. Overlapping transactions
        // then wait for each other and never in a circle. The fences' locks last until the commit,
        // so no row is written under an epoch that was raised meanwhile.
        let moved = fence::hold(exec, held.fences, held.definitions).await?;
        if !moved.is_empty() {
            return Err(Stop::Fenced(moved));
        }
        let moved = feed::write(exec, batch).await?;
        if !moved.is_empty() {
            return Err(Stop::Fenced(moved));
        }
        writer::write(exec, writers, rows)
            .await
            .map_err(Stop::Rows)?;
        if batch.trial {
            Err(Stop::Tried)
        } else {
            Ok(())
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use storage_config::{ColdUrl, SqlSettings};
    use storage_model::{
        Bytes, Cell, Epoch, Field, HotId, Owner, Paired, SeededIds, Stamp, Timestamp, Token,
        Version,
    };

    use super::*;
    use crate::access::Access;
    use crate::engine::{Arg, Record, Statement};
    use crate::hooks::Derive;
    use crate::sqlite::Sqlite;
    use crate::writer::Writer;
    use crate::{
        ColdError, ColdKind, DatabaseStore, HookStore, Pair, PartitionStore, Raise, RowStore,
        registry,
    };

    /// The statements of a layer that keeps each landed version of a field.
    static CREATE: Statement = of_sqlite(
        "create",
        "CREATE TABLE `{stem}_history` (field BLOB NOT NULL CHECK (field <> CAST('poison' AS BLOB)), \
         up_version INTEGER NOT NULL, PRIMARY KEY (field, up_version))",
    );
    static KEEP: Statement = of_sqlite(
        "keep",
        "INSERT INTO `{stem}_history` (field, up_version) VALUES (?, ?) ON CONFLICT DO NOTHING",
    );
    static FORBID: Statement = of_sqlite(
        "forbid",
        "CREATE TRIGGER mistake BEFORE INSERT ON `{stem}_history` \
         BEGIN SELECT RAISE(ABORT, 'no row fits'); END",
    );
    static KEPT: Statement = of_sqlite(
        "kept",
        "SELECT up_version FROM `{stem}_history` ORDER BY up_version",
    );
    static LAYER: [&Statement; 4] = [&CREATE, &KEEP, &FORBID, &KEPT];

    const fn of_sqlite(name: &'static str, text: &'static str) -> Statement {
        Statement::new(name, "", text)
    }

    #[derive(Debug)]
    struct History;

    #[async_trait]
    impl<S: Session> Writer<S> for History {
        async fn write(&self, exec: &mut Exec<S>, rows: &[&Row]) -> Result<(), Fault> {
            for row in rows {
                let args = [row.field.as_str().into(), Arg::Number(row.version.get())];
                exec.execute(&KEEP, 1, &args).await?;
            }
            Ok(())
        }
    }

    #[async_trait]
    impl<S: Session> Derive<S> for History {
        fn name(&self) -> &'static str {
            "history"
        }

        async fn writer(&self, _: &mut Exec<S>) -> Result<Arc<dyn Writer<S>>, Fault> {
            Ok(Arc::new(History))
        }
    }

    /// A database in memory with the layer's table and hook, and partition 0 at epoch 1.
    async fn layered() -> Database<Sqlite> {
        let settings = SqlSettings::new(ColdUrl::SqliteMemory);
        let statements = registry::statements().chain(LAYER);
        let engine = Sqlite::memory(&settings);
        let hooks: Vec<Arc<dyn Derive<_>>> = vec![Arc::new(History)];
        let database = Database::new(
            engine,
            &settings,
            Access::Creates,
            None,
            None,
            statements,
            hooks,
        );
        run(&database, &CREATE).await.unwrap();
        pair(&database).await;
        let raise = Raise::by_one(Partition(0), Epoch(0));
        database.raise(&[raise]).await.unwrap();
        database.define("history", true).await.unwrap();
        database
    }

    /// Without a hot tier, the database does not know how many partitions there are.
    async fn pair(database: &Database<Sqlite>) {
        let ids = SeededIds::new(1);
        let hot = Paired {
            token: Token::draw(&ids),
            since: Timestamp(1),
            prefix: "game".into(),
            address: "localhost".into(),
        };
        let pair = Pair {
            identity: Token::draw(&ids),
            partitions: 2,
            layout: 2,
            hot,
            by: HotId::of("first"),
            stamp: Stamp(1),
            if_silent: None,
        };
        let seen = database.pairing().await.unwrap();
        assert!(database.pair(&seen, &pair).await.unwrap());
    }

    async fn run(
        database: &Database<Sqlite>,
        statement: &'static Statement,
    ) -> Result<(), ColdError> {
        database
            .write("layer", async |exec| {
                exec.execute(statement, 1, &[]).await.map(drop)
            })
            .await
    }

    async fn kept(database: &Database<Sqlite>) -> Vec<u64> {
        let number = |record: &dyn Record| record.number(0);
        database
            .read("kept", async |exec| exec.fetch(&KEPT, 1, &[], number).await)
            .await
            .unwrap()
    }

    fn ann() -> Owner {
        Owner::new("game", "eu", "player", "ann").unwrap()
    }

    /// Lands a row of each field with one more version than the row before.
    async fn land_fields(
        database: &Database<Sqlite>,
        fields: &[&str],
        landed: u64,
    ) -> Result<(), LandError> {
        land_batch(database, fields, landed, false).await
    }

    /// As [`land_fields`]. If `whole`, all rows are rejected if one is.
    async fn land_batch(
        database: &Database<Sqlite>,
        fields: &[&str],
        landed: u64,
        whole: bool,
    ) -> Result<(), LandError> {
        let version = |number| Version::new(number).unwrap();
        let rows: Vec<Row> = (landed + 1..)
            .zip(fields)
            .map(|(number, field)| Row {
                owner: ann(),
                field: Field::new(field).unwrap(),
                cell: Cell::Live(Bytes::from("1")),
                version: version(number),
            })
            .collect();
        let fence = Fence {
            partition: Partition(0),
            epoch: Epoch(1),
            stamp: Stamp::NONE,
            landed: version(landed),
            reaches: rows.last().unwrap().version,
            database: None,
        };
        let batch = Batch {
            fences: vec![fence],
            rows,
            whole,
            ..Batch::default()
        };
        land(database, &batch).await
    }

    async fn rows(database: &Database<Sqlite>) -> usize {
        database.load(&[ann()], 9).await.unwrap()[0].rows.len()
    }

    #[tokio::test]
    async fn a_writer_that_joins_a_landing_commits_with_it_or_not_at_all() {
        let database = layered().await;
        land_fields(&database, &["gold", "level"], 1).await.unwrap();
        assert_eq!(
            (rows(&database).await, kept(&database).await),
            (2, vec![2, 3])
        );
        assert_eq!(
            land_fields(&database, &["name"], 1).await,
            Err(LandError::Fenced(vec![Partition(0)]))
        );
        assert_eq!(
            (rows(&database).await, kept(&database).await),
            (2, vec![2, 3])
        );
    }

    /// D1: the database says which hooks landings need.
    #[tokio::test]
    async fn a_hook_that_is_switched_off_writes_no_further_rows() {
        let database = layered().await;
        land_fields(&database, &["gold"], 1).await.unwrap();
        database.define("history", false).await.unwrap();
        let record = database.partitions(&[Partition(0)]).await.unwrap()[0];
        let landed = record.last_version.get();
        // The landing knows only the earlier definitions.
        assert_eq!(
            land_fields(&database, &["level"], landed).await,
            Err(LandError::Fenced(vec![Partition(0)]))
        );
        land_fields(&database, &["level"], landed).await.unwrap();
        assert_eq!((rows(&database).await, kept(&database).await), (2, vec![2]));
    }

    #[tokio::test]
    async fn a_row_that_a_writer_can_not_follow_is_refused_as_one_of_the_table_is() {
        let database = layered().await;
        for fields in [&["gold", "poison"][..], &["poison"]] {
            let landed = land_fields(&database, fields, 1).await;
            assert!(matches!(landed, Err(LandError::Refused(_))), "{landed:?}");
        }
        assert_eq!((rows(&database).await, kept(&database).await), (0, vec![]));
    }

    /// H38: rows of owners that must land together are rejected only while another row is taken.
    #[tokio::test]
    async fn rows_that_can_not_be_cut_are_refused_only_while_the_canary_is_taken() {
        let database = layered().await;
        let fields = ["gold", "poison"];
        let landed = land_batch(&database, &fields, 1, true).await;
        assert!(matches!(landed, Err(LandError::Refused(_))), "{landed:?}");
        run(&database, &FORBID).await.unwrap();
        let landed = land_batch(&database, &fields, 1, true).await;
        assert!(matches!(landed, Err(LandError::Cold(_))), "{landed:?}");
        assert_eq!(rows(&database).await, 0);
    }

    /// H38: the canary passes through all writers.
    #[tokio::test]
    async fn a_writer_that_can_follow_no_row_blames_none() {
        let database = layered().await;
        run(&database, &FORBID).await.unwrap();
        match land_fields(&database, &["gold"], 1).await {
            Err(LandError::Cold(error)) => assert_eq!(error.kind, ColdKind::Operator),
            other => panic!("{other:?}"),
        }
        assert_eq!(rows(&database).await, 0);
    }
}
