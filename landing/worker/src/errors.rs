//! `errors`: the rows that the database rejected, and the reasons.

use std::collections::BTreeSet;
use std::io::{self, Write};

use storage_dirty::{ErrorEntry, Hot, Marks};
use storage_model::{Owner, Partition};
use storage_tiers::{TierError, Tiers};

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `errors`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Try to land all of them now, before their next retry. The command ends with 1 if a row is
    /// still rejected
    #[arg(long)]
    retry: bool,
    /// Let rejected owners land without their rejected fields, and apart from those of their
    /// transactions, without waiting for `landing.torn_after`. A running worker does it at its next retry
    #[arg(long, requires = "retry")]
    apart: bool,
    /// Give up after this long. Rows that landed until then stay landed. A tier that is away ends
    /// the command at once
    #[arg(long, default_value = "1min")]
    deadline: Deadline,
}

/// The ways out for rejected rows.
const ADVICE: &str = "\
The values are still in Redis, and each is retried automatically. To land them now, repair the database, then run: landing-worker errors --retry
To correct a value, import a line with a value that the database takes. To give it up, import the value that the database has (the chapter Operations of the book says how)";

/// Entries of one request to the hot tier.
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

/// Lists all error marks. With `--retry`, first lands their owners, then lists the rows that are
/// still rejected, and ends with 1 if there are any.
///
/// # Errors
/// The hot tier can't be reached, or for a retry the database. Or the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, list(args)).await
}

async fn list(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let mut out = io::stdout();
    if args.retry {
        let tiers = open::tiers_at_once(&settings).await?;
        let owners: BTreeSet<Owner> = all(tiers.hot())
            .await?
            .into_iter()
            .filter_map(|entry| Some(entry.target?.0))
            .collect();
        let landed = retry(&tiers, &owners).await?;
        writeln!(
            out,
            "tried {} owners again, {landed} of them landed whole",
            owners.len()
        )?;
        if args.apart {
            let torn = tear(tiers.hot().marks.as_ref(), &owners).await?;
            writeln!(
                out,
                "{torn} rejected owners land without their rejected fields at the next retry of a worker"
            )?;
        }
    }
    let hot = open::hot_for_reading(&settings).await?;
    let compared = open::compared(&settings, &hot).await;
    let entries = all(&hot).await?;
    entries
        .iter()
        .try_for_each(|entry| print(entry, &mut out))?;
    writeln!(out, "{} error marks", entries.len())?;
    if !entries.is_empty() {
        writeln!(out, "{ADVICE}")?;
    }
    compared?;
    // Without a retry the list itself is the result, so a long list is fine.
    Ok(match args.retry && !entries.is_empty() {
        true => Exit::Found,
        false => Exit::Fine,
    })
}

/// Lands owners now. Returns how many of them landed whole.
async fn retry(tiers: &Tiers, owners: &BTreeSet<Owner>) -> anyhow::Result<usize> {
    let mut landed = 0;
    for owner in owners {
        match tiers.flush(owner).await {
            Ok(_) => landed += 1,
            Err(TierError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(landed)
}

/// Has workers land rejected owners without their rejected fields. Returns how many there are.
async fn tear(store: &dyn Marks, owners: &BTreeSet<Owner>) -> anyhow::Result<usize> {
    let mut torn = 0;
    for owner in owners {
        torn += usize::from(store.tear(owner).await?);
    }
    Ok(torn)
}

async fn all(hot: &Hot) -> anyhow::Result<Vec<ErrorEntry>> {
    let mut entries = Vec::new();
    for partition in (0..hot.partitions.partition_count()).map(Partition) {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = hot.marks.errors(partition, from, PAGE).await?;
            cursor = page.next;
            entries.extend(page.entries);
        }
    }
    Ok(entries)
}
