//! `adopt`: pair the hot tier and the database of the settings on purpose.

use std::io::Write as _;

use anyhow::Context as _;
use storage_landing::Backlog;
use storage_tiers::{TierError, Tiers};

use crate::cli::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `adopt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Say what would be paired, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Give up after this long; a tier that is away ends it at once
    #[arg(long, default_value = "1min")]
    deadline: Deadline,
}

/// Pairs the tiers, whatever they belonged to: an older Redis, or a restored database. Does nothing
/// if they belong together.
///
/// # Errors
/// A tier is away, or has another number of partitions or another layout; the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, adopt(args)).await
}

async fn adopt(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let tiers = open::tiers_apart(&settings).await?;
    let mut out = std::io::stdout();
    match tiers.compare_pairing().await {
        Ok(()) => return belong(&tiers, args.dry_run, &mut out).await,
        Err(TierError::Unpaired(why)) => writeln!(out, "found: {why}")?,
        Err(error) => return Err(error.into()),
    }
    let waiting = Backlog::reachable(tiers.hot().as_ref()).await?;
    writeln!(
        out,
        "the hot tier holds {} unlanded marks, and refused rows of {} owners",
        waiting.marks(),
        waiting.errors()
    )?;
    if args.dry_run {
        writeln!(out, "nothing was changed (--dry-run)")?;
        return Ok(Exit::Found);
    }
    pair(&tiers, &mut out).await
}

/// Of tiers that nothing is to be adopted of.
async fn belong(tiers: &Tiers, dry_run: bool, out: &mut std::io::Stdout) -> anyhow::Result<Exit> {
    let is_blank = tiers.hot().pairing().await?.paired.is_none();
    if is_blank && dry_run {
        writeln!(
            out,
            "the hot tier is blank, so it would take over the database; nothing was changed (--dry-run)"
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
    writeln!(out, "{said}; nothing is to be adopted")?;
    Ok(Exit::Fine)
}

async fn pair(tiers: &Tiers, out: &mut std::io::Stdout) -> anyhow::Result<Exit> {
    tiers
        .adopt()
        .await
        .context("the database may know of this Redis already; repeat this command")?;
    let (hot, cold) = (tiers.hot().pairing().await?, tiers.cold().pairing().await?);
    writeln!(
        out,
        "adopted: the hot tier at {} (redis.prefix = {:?}) is the one of the database at {} from now on; any other one is refused",
        hot.address, hot.prefix, cold.address
    )?;
    Ok(Exit::Fine)
}
