//! `backup`: copy the file of an embedded game, also while the game runs.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use storage_config::{ColdUrl, SqlSettings};

use crate::config_args::ConfigArgs;
use crate::exit::{self, Exit};
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `backup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// The SQLite file of the game, such as game.db, in place of the settings
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The new file. A file that is there is not overwritten
    #[arg(value_name = "COPY")]
    to: PathBuf,
    /// Give up after this long. Then there is no copy
    #[arg(long, default_value = "1h")]
    deadline: Deadline,
}

/// Copies the file.
///
/// # Errors
/// The file can't be read, the copy can't be written or is there already, or the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, copy(args)).await
}

async fn copy(args: Args) -> anyhow::Result<Exit> {
    let sql = match args.file {
        Some(file) => SqlSettings::new(ColdUrl::SqliteFile(file)),
        None => open::settings(&args.config)?.sql,
    };
    if !matches!(sql.url, ColdUrl::SqliteFile(_)) {
        let message = "the database of the settings is no SQLite file: name one by --file, or use the tools of the database, such as mariadb-dump --single-transaction";
        return Err(exit::error(Exit::Settings, message));
    }
    let file = storage_sql::Opening::new(&sql)
        .for_reading()
        .open()
        .await
        .context("the game's file")?;
    file.database.backup(&args.to).await?;
    file.database.close().await;
    let bytes = std::fs::metadata(&args.to)?.len();
    let _ = writeln!(std::io::stderr(), "{bytes} bytes");
    Ok(Exit::Fine)
}
