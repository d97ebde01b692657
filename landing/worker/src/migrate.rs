//! `migrate`: create or upgrade the schema.

use std::io::Write;

use storage_sql::SchemaState;

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `migrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the SQL of the migration, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Give up after this long. The next run continues an interrupted migration
    #[arg(long, default_value = "1h")]
    deadline: Deadline,
}

/// Upgrades the schema to the version of this program. Does nothing if it is current.
///
/// # Errors
/// The database can't be reached, rejects a statement, or has a newer schema. Or the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, migrate(args)).await
}

async fn migrate(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let mut out = std::io::stdout();
    if args.dry_run {
        for statement in storage_sql::pending_sql(&settings.sql).await? {
            writeln!(out, "{statement}")?;
        }
        return Ok(Exit::Fine);
    }
    let before = storage_sql::schema_state(&settings.sql).await?;
    storage_sql::migrate(&settings.sql).await?;
    writeln!(
        out,
        "{}",
        if before == SchemaState::Current {
            "the schema was up to date"
        } else {
            "the schema is up to date now"
        }
    )?;
    Ok(Exit::Fine)
}
