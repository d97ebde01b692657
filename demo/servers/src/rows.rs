//! The rows of a MySQL or MariaDB by plain SQL, without the storage's own code.

use std::collections::BTreeMap;

use anyhow::Context as _;
use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use storage_demo::log::Key;
use storage_demo::rows;
use storage_model::Cell;

/// All rows of the database with this URL.
///
/// # Errors
/// The database can't be read, or a row has an impossible name.
pub(crate) async fn of_database(url: &str) -> anyhow::Result<BTreeMap<Key, Cell>> {
    let rows = async {
        let mut connection = MySqlConnection::connect(url).await?;
        let rows = sqlx::query(rows::ALL).fetch_all(&mut connection).await?;
        connection.close().await?;
        rows::cells(&rows)
    };
    rows.await.context("the rows by SQL")
}
