//! The database seen by plain SQL, past all of the project's own code.

use anyhow::Result;
use sqlx::mysql::MySqlConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{ColumnIndex, Connection as _, Database, Decode, Row, Type};

/// A row as the database holds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredRow {
    /// `logic_type/owner_id/field`.
    pub name: String,
    /// The value's bytes.
    pub value: Vec<u8>,
    /// The version.
    pub version: u64,
    /// 0 live, 1 removed, 2 purged.
    pub is_del: u8,
}

const ALL: &str = "SELECT logic_type, owner_id, field, value, up_version, is_del FROM landing_rows \
                   ORDER BY app_id, region_id, logic_type, owner_id, field";

/// All rows of a MySQL, MariaDB or SQLite database, in key order.
///
/// # Errors
/// The database can't be read.
pub async fn rows(url: &str) -> Result<Vec<StoredRow>> {
    if url.starts_with("sqlite:") {
        let mut connection = SqliteConnection::connect(url).await?;
        let all = sqlx::query(ALL).fetch_all(&mut connection).await?;
        connection.close().await?;
        return all.iter().map(stored).collect();
    }
    let mut connection = MySqlConnection::connect(url).await?;
    let all = sqlx::query(ALL).fetch_all(&mut connection).await?;
    connection.close().await?;
    all.iter().map(stored).collect()
}

fn stored<'r, R: Row>(row: &'r R) -> Result<StoredRow>
where
    usize: ColumnIndex<R>,
    Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    u64: Decode<'r, R::Database> + Type<R::Database>,
    u8: Decode<'r, R::Database> + Type<R::Database>,
    R::Database: Database,
{
    let text = |at: usize| -> Result<String> { Ok(String::from_utf8(row.try_get::<Vec<u8>, _>(at)?)?) };
    Ok(StoredRow {
        name: format!("{}/{}/{}", text(0)?, text(1)?, text(2)?),
        value: row.try_get(3)?,
        version: row.try_get(4)?,
        is_del: row.try_get(5)?,
    })
}
