//! Whether a refusal is the row's own fault: a database that refuses any row must not have all of
//! them parked (H38).

use storage_model::{Bytes, Cell, Field, Owner, Row, Version};

use crate::Statement;
use crate::exec::Exec;
use crate::fault::Fault;
use crate::land::row_args;
use crate::session::Session;

/// Puts a trivial row into the table and takes it back.
///
/// # Errors
/// The database refuses that row too, or is away. A refusal has become the operator's matter.
pub(crate) async fn check<S: Session>(exec: &mut Exec<S>) -> Result<(), Fault> {
    let Some(row) = trivial() else { return Ok(()) };
    exec.begin().await?;
    let taken = exec.execute(Statement::Upsert, 1, &row_args(&row)).await;
    // Never committed, whatever the answer.
    let Err(RolledBack(taken)) = exec.end::<(), _>(Err(RolledBack(taken))).await else {
        return Ok(());
    };
    taken.map(drop).map_err(Fault::of_any_row)
}

struct RolledBack(Result<u64, Fault>);

impl From<Fault> for RolledBack {
    fn from(fault: Fault) -> Self {
        Self(Err(fault))
    }
}

fn trivial() -> Option<Row> {
    let owner = Owner::new("canary", "canary", "canary", "canary").ok()?;
    Some(Row {
        owner,
        field: Field::new("canary").ok()?,
        cell: Cell::Live(Bytes::new()),
        version: Version::ZERO,
    })
}
