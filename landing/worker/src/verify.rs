//! `verify`: whether Redis and the database agree on landed data.

use std::io::Write;

use storage_tiers::Compared;

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Compare one owner in N. A hash of the name picks the same owners each time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
    /// Give up after this long. A tier that is away ends the command at once
    #[arg(long, default_value = "1day")]
    deadline: Deadline,
}

/// Owners that are listed and compared at once.
const PAGE: usize = 200;

/// Compares the owners that have a live row in the database, prints each conflict, and ends with 1
/// if there is one. The hot tier lists marks, not owners. So a landed owner with only lost or
/// removed rows is not found.
///
/// # Errors
/// A tier can't be reached, or the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, compare(args)).await
}

async fn compare(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let tiers = open::tiers_for_reading(&settings).await?;
    let mut out = std::io::stdout();
    let mut total = Compared::default();
    let mut after = None;
    loop {
        let owners = tiers.cold().rows.all_owners(after.as_ref(), PAGE).await?;
        let Some(last) = owners.last().cloned() else {
            break;
        };
        let picked: Vec<_> = owners
            .into_iter()
            .filter(|owner| owner.partition(args.one_in).0 == 0)
            .collect();
        let compared = tiers.compare(&picked).await?;
        compared
            .conflicts
            .iter()
            .try_for_each(|conflict| writeln!(out, "{conflict}"))?;
        total.owners += compared.owners;
        total.cold += compared.cold;
        total.moving += compared.moving;
        total.conflicts.extend(compared.conflicts);
        after = Some(last);
    }
    let Compared {
        owners,
        cold,
        moving,
        conflicts,
    } = total;
    writeln!(
        out,
        "{owners} owners compared, {cold} only in the database, {moving} written all the time, {} conflicts. \
         Owners without a live row in the database were skipped",
        conflicts.len()
    )?;
    Ok(if conflicts.is_empty() {
        Exit::Fine
    } else {
        Exit::Found
    })
}
