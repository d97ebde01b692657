//! The parts of a landing transaction that write rows.

use async_trait::async_trait;
use storage_model::Row;

use crate::engine::{Exec, Fault, Session};

/// Writes the rows of a landing, or further rows that follow from them.
///
/// All writers of a landing run in one transaction, in the order of their list, after the fences.
/// The transaction commits all of their rows or none.
#[async_trait]
pub(crate) trait Writer<S: Session>: Send + Sync {
    /// Writes for these rows. They are in key order, each key once.
    ///
    /// The statements must lock their rows in an order that follows from the rows. Otherwise
    /// overlapping landings can deadlock. A repeat of the call must be harmless, because a landing
    /// is repeated after an unknown outcome. The canary's row must be as good as any other row.
    ///
    /// # Errors
    /// A statement failed. If the database rejects its content, the rows count as the cause.
    async fn write(&self, exec: &mut Exec<S>, rows: &[&Row]) -> Result<(), Fault>;
}

/// Some writers, in their order.
pub(crate) type Writers<'a, S> = [&'a dyn Writer<S>];

/// Lets all writers write for these rows.
pub(crate) async fn write<S: Session>(
    exec: &mut Exec<S>,
    writers: &Writers<'_, S>,
    rows: &[&Row],
) -> Result<(), Fault> {
    for writer in writers {
        writer.write(exec, rows).await?;
    }
    Ok(())
}
