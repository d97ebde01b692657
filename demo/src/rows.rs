//! The rows by plain SQL, without the storage's own code.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ColumnIndex, ConnectOptions as _, Connection as _, Decode, Row, Type};
use storage_model::{Cell, Field, Owner};

use crate::log::Key;

/// The statement for all rows, in the order of columns that [`cells`] expects.
pub const ALL: &str =
    "SELECT app_id, region_id, logic_type, owner_id, field, value, is_del FROM landing_rows";

/// All rows of a SQLite file.
///
/// # Errors
/// The file can't be read, or a row has an impossible name.
pub async fn of_file(path: &Path) -> anyhow::Result<BTreeMap<Key, Cell>> {
    let rows = async {
        let options = SqliteConnectOptions::new().filename(path).read_only(true);
        let mut connection = options.connect().await?;
        let rows = sqlx::query(ALL).fetch_all(&mut connection).await?;
        connection.close().await?;
        cells(&rows)
    };
    rows.await.context("the rows by SQL")
}

/// The cells of the rows of [`ALL`], of any database.
///
/// # Errors
/// A row has an impossible name.
pub fn cells<'r, R: Row>(rows: &'r [R]) -> anyhow::Result<BTreeMap<Key, Cell>>
where
    usize: ColumnIndex<R>,
    Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    u8: Decode<'r, R::Database> + Type<R::Database>,
{
    rows.iter().map(cell).collect()
}

fn cell<'r, R: Row>(row: &'r R) -> anyhow::Result<(Key, Cell)>
where
    usize: ColumnIndex<R>,
    Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    u8: Decode<'r, R::Database> + Type<R::Database>,
{
    let text = |column: usize| anyhow::Ok(String::from_utf8(row.try_get(column)?)?);
    let owner = Owner::new(&text(0)?, &text(1)?, &text(2)?, &text(3)?)?;
    let value: Vec<u8> = row.try_get(5)?;
    Ok((
        (owner, Field::new(&text(4)?)?),
        Cell::from_row(row.try_get(6)?, value.into()),
    ))
}
