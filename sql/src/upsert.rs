//! The versioned upsert: writes rows that are newer than the table's (R3).

use async_trait::async_trait;
use storage_model::Row;

use crate::RowFault;
use crate::engine::{Arg, Exec, Fault, Session, Statement, statement};
use crate::split::{BYTES_MAX, row_bytes, split};
use crate::writer::Writer;

pub(crate) static UPSERT: Statement = statement!("upsert");

pub(crate) const STATEMENTS: &[&Statement] = &[&UPSERT];

/// MySQL's number for a packet that is too large. Also for a row that is rejected before it is
/// sent.
const PACKET_TOO_LARGE: u32 = 1153;

/// Writes the rows of a landing to the table of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VersionedRows;

#[async_trait]
impl<S: Session> Writer<S> for VersionedRows {
    async fn write(&self, exec: &mut Exec<S>, rows: &[&Row]) -> Result<(), Fault> {
        for (size, args) in upserts(rows, value_bytes_max(exec.packet_bytes_max())) {
            exec.execute(&UPSERT, size, &args).await?;
        }
        Ok(())
    }
}

/// The limit of a value for this limit of a statement. It is half, so that names and lengths fit
/// beside the value.
pub(crate) const fn value_bytes_max(packet_bytes_max: usize) -> usize {
    packet_bytes_max / 2
}

/// The upserts of the rows, in their order: the number of rows of each, and its arguments.
pub(crate) fn upserts<'a>(
    rows: &'a [&'a Row],
    bytes_max: usize,
) -> impl Iterator<Item = (usize, Vec<Arg<'a>>)> {
    let bytes: Vec<usize> = rows.iter().map(|row| row_bytes(row)).collect();
    split(&bytes, BYTES_MAX.min(bytes_max))
        .into_iter()
        .map(move |range| {
            let rows = rows.get(range).unwrap_or_default();
            (
                rows.len(),
                rows.iter().flat_map(|row| row_args(row)).collect(),
            )
        })
}

fn row_args(row: &Row) -> [Arg<'_>; 8] {
    let owner = &row.owner;
    [
        owner.app().into(),
        owner.region().into(),
        owner.logic_type().into(),
        owner.id().into(),
        row.field.as_str().into(),
        Arg::Bytes(row.cell.value()),
        Arg::Number(row.version.get()),
        Arg::Number(u64::from(row.cell.is_del())),
    ]
}

/// Rejects a value that would break the connection instead of getting an error answer.
pub(crate) fn refuse_too_large(rows: &[&Row], limit: usize) -> Result<(), RowFault> {
    let Some(row) = rows.iter().find(|row| row.cell.value().len() > limit) else {
        return Ok(());
    };
    let bytes = row.cell.value().len();
    let message = format!(
        "field {} of {} has a value of {bytes} bytes, but the database takes {limit}, half of max_allowed_packet: split the value, or raise max_allowed_packet",
        row.field, row.owner
    );
    Err(RowFault {
        code: PACKET_TOO_LARGE,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Dialect;

    #[test]
    fn the_version_is_the_last_assignment_of_the_upsert() {
        let text = UPSERT.template(Dialect::MySql);
        let last = text.lines().last().unwrap().trim();
        assert_eq!(
            last,
            "up_version = GREATEST(VALUES(up_version), up_version)"
        );
    }
}
