//! `demo`: the embedded mode, with nothing to install.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use storage_sdk::{Settings, Storage};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::game::{self, Plan};
use crate::table::{Run, Table};
use crate::{progress, rows, verify};

/// The requested file, which must not exist yet. Without a request, a file in a new temporary
/// folder. The folder is kept.
///
/// # Errors
/// The file exists, or there is no temporary folder.
pub fn database_file(asked: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match asked {
        Some(path) if path.exists() => {
            anyhow::bail!(
                "{} exists, but the demo compares every row: name a file that does not exist yet",
                path.display()
            )
        }
        Some(path) => Ok(path),
        None => Ok(TempDir::with_prefix("landing-demo-")
            .context("a temporary folder")?
            .keep()
            .join("game.db")),
    }
}

/// Plays in memory while the storage lands in a SQLite file, and compares.
///
/// # Errors
/// The storage fails.
pub async fn run(
    plan: Plan,
    time: Duration,
    file: &Path,
    bar: &ProgressBar,
) -> anyhow::Result<Table> {
    let storage = Storage::open(Settings::embedded(file))
        .await
        .with_context(|| file.display().to_string())?;
    let over = async {
        sleep(time).await;
        Ok(())
    };
    let (played, ()) = game::play(&storage, plan, over, progress::show(bar)).await?;
    let stats = verify::landed(&storage, bar).await?;
    let compared = verify::compare(&storage, &played, &rows::of_file(file).await?).await?;
    storage.close(verify::CLOSE).await;

    let end = vec![("database file", file.display().to_string())];
    let run = Run {
        rows_landed: stats.rows_landed,
        loads_in_play: stats.hot_loads,
        more: Vec::new(),
        end,
    };
    Ok(Table::new(plan, &played, &compared, run))
}
