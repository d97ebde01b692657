//! The mark of a file that a process holds: SQLite's `user_version`, a number of the file that nobody
//! else uses.
//!
//! A process that holds the file alone sets it, and a close takes it back. So a file with this mark and
//! without a write-ahead log beside it is a copy of a file in use, and its last changes are missing.

use std::path::{Path, PathBuf};

use sqlx::{Executor, Row, SqliteConnection};

use super::exec::{fault, query};
use crate::fault::Fault;

/// No process holds the file.
pub(super) const FREE: i32 = 0;
/// A process holds the file, or was killed while it did.
pub(super) const HELD: i32 = 1;

/// The mark of a file. Other numbers are not of this program.
pub(super) async fn read(connection: &mut SqliteConnection) -> Result<i32, Fault> {
    let row = connection
        .fetch_one(query("PRAGMA user_version".into(), &[]))
        .await
        .map_err(fault)?;
    row.try_get(0).map_err(fault)
}

/// Marks a file, unless it has a number of somebody else.
pub(super) async fn set(connection: &mut SqliteConnection, mark: i32) -> Result<(), Fault> {
    let held = read(connection).await?;
    if held == mark || !matches!(held, FREE | HELD) {
        return Ok(());
    }
    let text = format!("PRAGMA user_version = {mark}");
    let set = connection.execute(query(text.into(), &[])).await;
    set.map(drop).map_err(fault)
}

/// Writes the log back, so that the mark is in the file itself.
pub(super) async fn write_back(connection: &mut SqliteConnection) -> Result<(), Fault> {
    let text = "PRAGMA wal_checkpoint(TRUNCATE)";
    let written = connection.execute(query(text.into(), &[])).await;
    written.map(drop).map_err(fault)
}

/// The write-ahead log of a file.
pub(super) fn log_of(file: &Path) -> PathBuf {
    beside(file, "-wal")
}

/// A file beside another, with a longer name.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
