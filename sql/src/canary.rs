//! Whether a rejection is the row's own fault. If a database rejects every row, the rows must not
//! all go to the error map (H38).

use storage_model::{Bytes, Cell, Field, Owner, Row, Version};

use crate::Statement;
use crate::exec::Exec;
use crate::fault::Fault;
use crate::land::row_args;
use crate::session::Session;

/// Writes a trivial row to the table and rolls it back.
///
/// # Errors
/// The database rejects that row, too, or is away. The rejection is then a matter for the operator.
pub(crate) async fn check<S: Session>(exec: &mut Exec<S>) -> Result<(), Fault> {
    let Some(row) = trivial() else { return Ok(()) };
    exec.begin().await?;
    let taken = exec.execute(Statement::Upsert, 1, &row_args(&row)).await;
    // Never committed, for any answer.
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
