//! `migrate`: create or upgrade the schema.

use std::io::Write;

use storage_sql::{ColdOptions, SchemaState};

use crate::cli::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `migrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the SQL that would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Give up after this long; a migration that was cut goes on at the next try
    #[arg(long, default_value = "1h")]
    deadline: Deadline,
}

/// Brings the schema to what this program needs. Does nothing to one that is.
///
/// # Errors
/// The database can't be reached, refuses a statement, or has a newer schema; the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, migrate(args)).await
}

async fn migrate(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let options = ColdOptions::from(&settings.sql);
    let mut out = std::io::stdout();
    if args.dry_run {
        for statement in storage_sql::pending_sql(&options).await? {
            writeln!(out, "{statement}")?;
        }
        return Ok(Exit::Fine);
    }
    let before = storage_sql::schema_state(&options).await?;
    storage_sql::migrate(&options).await?;
    writeln!(
        out,
        "{}",
        if before == SchemaState::Current { "the schema was up to date" } else { "the schema is up to date now" }
    )?;
    Ok(Exit::Fine)
}
