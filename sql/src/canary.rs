//! Whether a rejection is the row's own fault. If a database rejects every row, the rows must not
//! all go to the error map (H38).

use storage_model::{Bytes, Cell, Field, Owner, Row, Version};

use crate::engine::{Exec, Fault, Session};
use crate::writer::{self, Writers};

/// Lets the writers write a trivial row and rolls it back.
///
/// # Errors
/// The database rejects that row, too, or is away. The rejection is then a matter for the operator.
pub(crate) async fn check<S: Session>(
    exec: &mut Exec<S>,
    writers: &Writers<'_, S>,
) -> Result<(), Fault> {
    let Some(row) = trivial() else { return Ok(()) };
    // Never committed, for any answer.
    let tried = exec
        .transaction(async |exec| -> Result<(), RolledBack> {
            let taken = writer::write(exec, writers, &[&row]).await;
            Err(RolledBack(taken.map_err(Fault::of_any_row)))
        })
        .await;
    tried.or_else(|RolledBack(taken)| taken)
}

struct RolledBack(Result<(), Fault>);

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
