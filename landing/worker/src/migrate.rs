//! `migrate`: create or upgrade the schema.

use std::io::Write;

use anyhow::Context as _;
use storage_config::{HotUrl, Settings};
use storage_model::LAYOUT;
use storage_sql::SchemaState;

use crate::config_args::ConfigArgs;
use crate::exit::{self, Exit};
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

/// Upgrades the schema to the version of this program, and Redis' keys to its layout. Does nothing
/// if both are current.
///
/// # Errors
/// The database can't be reached, rejects a statement, or has a newer schema. Or Redis can't be
/// reached, or holds marks of an older layout. Or the deadline passed.
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
    if before == SchemaState::Older && settings.redis.url != HotUrl::Memory {
        // ORDER: Redis first. Either number stops a program of the older layout, and a repeat finds
        // the remaining work.
        leave_layout(&settings, &mut out).await?;
    }
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

/// Upgrades Redis to this program's layout of keys.
async fn leave_layout(settings: &Settings, out: &mut impl Write) -> anyhow::Result<()> {
    let hot = open::hot(settings).await?;
    let seen = hot.pairing().await.context("the hot tier")?;
    let Some(paired) = seen.paired.filter(|paired| paired.layout < LAYOUT) else {
        return Ok(());
    };
    let marked = hot.leave_layout(&seen).await.context("the hot tier")?;
    if marked.is_empty() {
        writeln!(
            out,
            "the keys of the hot tier had layout {}, and have layout {LAYOUT} now",
            paired.layout
        )?;
        return Ok(());
    }
    let message = format!(
        "{} partitions of the hot tier at {} hold marks of layout {}, which this program does not read: run `drain` with the older program, \
         and repair or drop the rows that its `errors` lists",
        marked.len(),
        seen.address,
        paired.layout
    );
    Err(exit::error(Exit::Refused, message))
}
