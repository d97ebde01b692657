//! Copies of the embedded mode's file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use storage_config::{ColdUrl, SqlSettings};
use storage_sql::Opening;

/// Copies the database in a file, as another program does while the storage that owns it runs.
pub async fn back_up(file: PathBuf, to: &Path) -> Result<()> {
    let settings = SqlSettings::new(ColdUrl::SqliteFile(file));
    let cold = Opening::new(&settings).for_reading().open().await?;
    cold.database.backup(to).await?;
    Ok(())
}
