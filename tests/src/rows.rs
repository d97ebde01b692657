//! The database seen by plain SQL, without the project's own code.

use anyhow::{Context as _, Result};
use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use sqlx::sqlite::SqliteConnection;

/// A row of the database.
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

/// All rows, in key order.
const ALL: &str = "SELECT logic_type, owner_id, field, value, up_version, is_del FROM landing_rows \
                   ORDER BY app_id, region_id, logic_type, owner_id, field";

type Columns<V, D> = (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, V, D);

/// All rows of a database, in key order: `mysql://…` or `sqlite:PATH`.
///
/// # Errors
/// The database can't be read.
pub async fn rows(url: &str) -> Result<Vec<StoredRow>> {
    if url.starts_with("sqlite:") {
        let mut connection = SqliteConnection::connect(url).await?;
        let all: Vec<Columns<i64, i64>> = sqlx::query_as(ALL).fetch_all(&mut connection).await?;
        connection.close().await?;
        return all.into_iter().map(stored).collect();
    }
    let mut connection = MySqlConnection::connect(url).await?;
    let all: Vec<Columns<u64, u8>> = sqlx::query_as(ALL).fetch_all(&mut connection).await?;
    connection.close().await?;
    all.into_iter().map(stored).collect()
}

fn stored<V: TryInto<u64>, D: TryInto<u8>>(
    (logic_type, id, field, value, version, is_del): Columns<V, D>,
) -> Result<StoredRow> {
    let name = [logic_type, id, field]
        .map(String::from_utf8)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?
        .join("/");
    let version = version.try_into().ok().context("a version below 0")?;
    Ok(StoredRow {
        name,
        value,
        version,
        is_del: is_del
            .try_into()
            .ok()
            .context("is_del is no small number")?,
    })
}
