//! The sweep: deletes rows of purged fields.
//!
//! A purged row has no value. It is the proof that a change has landed, and is newer than the copy
//! of the field in an earlier hot tier. Whoever sweeps decides when nobody needs that any more.

use std::time::Duration;

use async_trait::async_trait;
use storage_model::{Field, Owner};

use crate::engine::{
    Arg, Database, Engine, Exec, Fault, Record, Session, Statement, padded, statement,
};
use crate::fence::{elsewhere, hold};
use crate::{ColdError, Fence, PurgedPage, RowKey, SweepStore};

static READ_PAGE: Statement = statement!("sweep/read_page").in_order_of("PRIMARY");
static DELETE_PURGED: Statement = statement!("sweep/delete_purged")
    .by_keys()
    .through("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[&READ_PAGE, &DELETE_PURGED];

#[async_trait]
impl<E: Engine> SweepStore for Database<E> {
    async fn purged(
        &self,
        after: Option<&RowKey>,
        older_than: Duration,
        limit: usize,
    ) -> Result<PurgedPage, ColdError> {
        self.read("purged", async |exec| {
            page(exec, after, older_than, limit).await
        })
        .await
    }

    async fn sweep(
        &self,
        fence: &Fence,
        rows: &[(Owner, Field)],
        older_than: Duration,
    ) -> Result<Option<u64>, ColdError> {
        let swept = self.write("sweep", async |exec| {
            if !elsewhere(&[*fence], exec.server().id).is_empty() {
                return Ok(None);
            }
            let definitions = self.hooks().known(exec).await?.definitions;
            let swept = exec
                .transaction(async |exec| sweep(exec, *fence, definitions, rows, older_than).await);
            match swept.await {
                Ok(deleted) => Ok(Some(deleted)),
                Err(SweepFailure::Fenced) => Ok(None),
                Err(SweepFailure::Fault(fault)) => Err(fault),
            }
        });
        let swept = swept.await?;
        if swept.is_none() {
            self.hooks().forget();
        }
        Ok(swept)
    }
}

/// Why a sweep deletes nothing.
enum SweepFailure {
    Fenced,
    Fault(Fault),
}

impl From<Fault> for SweepFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

async fn page<S: Session>(
    exec: &mut Exec<S>,
    after: Option<&RowKey>,
    older_than: Duration,
    limit: usize,
) -> Result<PurgedPage, Fault> {
    let mut args = vec![Arg::Number(older_than.as_secs())];
    // A comparison of one column, then of two, and so on.
    for columns in 1..=COLUMNS {
        args.extend((0..columns).map(|column| Arg::Bytes(name(after, column))));
    }
    args.push(Arg::Number(u64::try_from(limit).unwrap_or(u64::MAX)));
    let read = |record: &dyn Record| Ok((row_key(record)?, record.number(5)? != 0));
    let rows = exec.fetch(&READ_PAGE, 1, &args, read).await?;
    let last = rows
        .last()
        .filter(|_| rows.len() == limit)
        .map(|(key, _)| key.clone());
    let due = rows.iter().filter(|(_, is_due)| *is_due);
    Ok(PurgedPage {
        // A row that another program wrote stays.
        purged: due.filter_map(|(key, _)| target(key)).collect(),
        last,
    })
}

/// The columns of the primary key.
const COLUMNS: usize = 5;

/// A column of a key. Empty without a key.
fn name(key: Option<&RowKey>, column: usize) -> &[u8] {
    let name = key.and_then(|key| key.0.get(column));
    name.map_or(&[], |name| name)
}

fn row_key(record: &dyn Record) -> Result<RowKey, Fault> {
    let names: Result<Vec<_>, Fault> = (0..COLUMNS)
        .map(|column| record.bytes(column).map(Box::from))
        .collect();
    Ok(RowKey(names?))
}

fn target(key: &RowKey) -> Option<(Owner, Field)> {
    let text = |column| std::str::from_utf8(name(Some(key), column)).ok();
    let owner = Owner::new(text(0)?, text(1)?, text(2)?, text(3)?).ok()?;
    Some((owner, Field::new(text(4)?).ok()?))
}

async fn sweep<S: Session>(
    exec: &mut Exec<S>,
    fence: Fence,
    definitions: u64,
    rows: &[(Owner, Field)],
    older_than: Duration,
) -> Result<u64, SweepFailure> {
    // ORDER: the fence before the rows, as in a landing.
    if !hold(exec, &[fence], definitions).await?.is_empty() {
        return Err(SweepFailure::Fenced);
    }
    let mut rows: Vec<&(Owner, Field)> = rows.iter().collect();
    rows.sort_unstable();
    rows.dedup();
    let mut deleted = 0;
    for chunk in rows.chunks(DELETE_PURGED.longest) {
        let chunk = padded(chunk);
        let mut args = vec![Arg::Number(older_than.as_secs())];
        args.extend(chunk.iter().flat_map(|row| row_args(row)));
        deleted += exec.execute(&DELETE_PURGED, chunk.len(), &args).await?;
    }
    Ok(deleted)
}

fn row_args((owner, field): &(Owner, Field)) -> [Arg<'_>; COLUMNS] {
    [
        owner.app().into(),
        owner.region().into(),
        owner.logic_type().into(),
        owner.id().into(),
        field.as_str().into(),
    ]
}
