//! `adopt`: pair the hot tier and the database of the settings on purpose.

use std::io::Write as _;

use anyhow::Context as _;
use storage_landing::Backlog;
use storage_tiers::{TierError, Tiers};

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `adopt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Show the pair, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Give up after this long. A tier that is away ends the command at once
    #[arg(long, default_value = "1min")]
    deadline: Deadline,
}

/// Pairs the tiers, also an older Redis or a restored database. It does not matter where they
/// belonged before. Does nothing if they belong together.
///
/// # Errors
/// A tier is away, or has another partition count or another layout. Or the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, adopt(args)).await
}

async fn adopt(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let tiers = open::tiers_apart(&settings).await?;
    let mut out = std::io::stdout();
    match tiers.compare_to_adopt().await {
        Ok(()) => return belong(&tiers, args.dry_run, &mut out).await,
        Err(why @ (TierError::Unpaired(_) | TierError::Behind(_))) => {
            writeln!(out, "found: {why}")?;
        }
        Err(error) => return Err(error.into()),
    }
    let waiting = Backlog::reachable(tiers.hot()).await?;
    writeln!(
        out,
        "the hot tier holds {} unlanded marks, and rejected rows of {} owners",
        waiting.marks(),
        waiting.errors()
    )?;
    for replaced in tiers.others().await? {
        writeln!(
            out,
            "it replaces the hot tier at {}, which was used {:.1} s ago and has {} partitions",
            replaced.address,
            replaced.seen_ago.as_secs_f64(),
            replaced.partitions
        )?;
    }
    if args.dry_run {
        writeln!(out, "nothing was changed (--dry-run)")?;
        return Ok(Exit::Found);
    }
    pair(&tiers, &mut out).await
}

/// Answers for tiers that need no adoption.
async fn belong(tiers: &Tiers, dry_run: bool, out: &mut std::io::Stdout) -> anyhow::Result<Exit> {
    let is_blank = tiers.hot().tier.pairing().await?.paired.is_none();
    if is_blank && dry_run {
        writeln!(
            out,
            "the hot tier is blank and would take over the database: nothing was changed (--dry-run)"
        )?;
        return Ok(Exit::Found);
    }
    if !dry_run {
        tiers.belong().await?;
    }
    let said = if is_blank {
        "the hot tier was blank and has taken over the database"
    } else {
        "the tiers belong together"
    };
    writeln!(out, "{said}: there is nothing to adopt")?;
    Ok(Exit::Fine)
}

async fn pair(tiers: &Tiers, out: &mut std::io::Stdout) -> anyhow::Result<Exit> {
    tiers
        .adopt()
        .await
        .context("the database may already name this Redis: repeat this command")?;
    let (hot, cold) = (
        tiers.hot().tier.pairing().await?,
        tiers.cold().database.pairing().await?,
    );
    writeln!(
        out,
        "adopted: the hot tier at {} (redis.prefix = {:?}) belongs to the database at {} from now on, and any other hot tier is rejected",
        hot.address, hot.prefix, cold.address
    )?;
    Ok(Exit::Fine)
}
