//! The rows by plain SQL, without the storage's own code.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use sqlx::mysql::MySqlConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ColumnIndex, ConnectOptions as _, Connection as _, Decode, Row, Type};
use storage_model::{Cell, Field, Owner};

use crate::log::Key;

/// The database with the rows.
#[derive(Clone)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A MySQL or MariaDB server, by its URL. The URL can hold a password, so this type has no
    /// `Debug`.
    Mysql(String),
}

const ALL: &str =
    "SELECT app_id, region_id, logic_type, owner_id, field, value, is_del FROM landing_rows";

impl Database {
    /// All rows of the table.
    ///
    /// # Errors
    /// The database can't be read, or a row has an impossible name.
    pub async fn rows(&self) -> anyhow::Result<BTreeMap<Key, Cell>> {
        let rows = match self {
            Self::Sqlite(path) => {
                let mut connection = SqliteConnectOptions::new()
                    .filename(path)
                    .read_only(true)
                    .connect()
                    .await?;
                let rows = sqlx::query(ALL).fetch_all(&mut connection).await?;
                connection.close().await?;
                rows.iter().map(row).collect()
            }
            Self::Mysql(url) => {
                let mut connection = MySqlConnection::connect(url).await?;
                let rows = sqlx::query(ALL).fetch_all(&mut connection).await?;
                connection.close().await?;
                rows.iter().map(row).collect::<anyhow::Result<_>>()
            }
        };
        rows.context("the rows by SQL")
    }
}

/// One row of either database.
fn row<'r, R: Row>(row: &'r R) -> anyhow::Result<(Key, Cell)>
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
