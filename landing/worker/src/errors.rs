//! `errors`: what the database refused, and why.

use std::collections::BTreeSet;
use std::io::{self, Write};

use storage_dirty::{ErrorEntry, HotStore};
use storage_model::{Owner, Partition};
use storage_tiers::TierError;

use crate::cli::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `errors`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Try to land all of them now, without waiting for their time; ends with 1 if something is
    /// still refused
    #[arg(long)]
    retry: bool,
    /// Give up after this long; what was landed until then stays landed, and a tier that is away
    /// ends it at once
    #[arg(long, default_value = "1min")]
    deadline: Deadline,
}

/// What is to be done with refused rows.
const ADVICE: &str = "\
The values are still in Redis, and each is tried again by itself. To land them now, mend the database, then: landing-worker errors --retry
To mend a value, import a line with one that the database takes; to give it up, import the one that the database has (docs/operations.md)";

/// Entries that the hot tier is asked for at once.
const PAGE: usize = 1_000;

fn print(entry: &ErrorEntry, out: &mut impl Write) -> io::Result<()> {
    let name = match &entry.target {
        Some((owner, field)) => format!("{owner} field {:?}", field.as_str()),
        None => format!("unreadable mark {:?}", String::from_utf8_lossy(&entry.raw)),
    };
    writeln!(
        out,
        "{name} version {}: {} (error {}), {} attempts",
        entry.version, entry.message, entry.code, entry.attempts
    )
}

/// Lists all error marks; with `--retry`, lands their owners first, lists what is still refused,
/// and ends with 1 if something is.
///
/// # Errors
/// The hot tier can't be reached; for a retry, the database; the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, list(args)).await
}

async fn list(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let mut out = io::stdout();
    if args.retry {
        let tiers = open::tiers_at_once(&settings).await?;
        let owners: BTreeSet<Owner> = all(tiers.hot().as_ref())
            .await?
            .into_iter()
            .filter_map(|entry| Some(entry.target?.0))
            .collect();
        let mut landed = 0_usize;
        for owner in &owners {
            match tiers.flush(owner).await {
                Ok(_) => landed += 1,
                Err(TierError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        writeln!(
            out,
            "tried {} owners again, {landed} of them landed whole",
            owners.len()
        )?;
    }
    let hot = open::hot_for_reading(&settings).await?;
    let belongs = open::belongs(&settings, &hot).await;
    let entries = all(hot.as_ref()).await?;
    entries
        .iter()
        .try_for_each(|entry| print(entry, &mut out))?;
    writeln!(out, "{} error marks", entries.len())?;
    if !entries.is_empty() {
        writeln!(out, "{ADVICE}")?;
    }
    // Without a retry the list is all that was asked for, however long it is.
    Ok(match (belongs, args.retry && !entries.is_empty()) {
        (false, _) => Exit::Refused,
        (true, true) => Exit::Found,
        (true, false) => Exit::Fine,
    })
}

async fn all(hot: &dyn HotStore) -> anyhow::Result<Vec<ErrorEntry>> {
    let mut entries = Vec::new();
    for partition in (0..hot.partition_count()).map(Partition) {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = hot.errors(partition, from, PAGE).await?;
            cursor = page.next;
            entries.extend(page.entries);
        }
    }
    Ok(entries)
}
