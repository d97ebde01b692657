//! `errors`: what the database refused, and why.

use std::process::ExitCode;

use storage_dirty::ErrorEntry;
use storage_model::Partition;

use crate::cli::ConfigArgs;
use crate::open;

/// Arguments of `errors`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Entries that the hot tier is asked for at once.
const PAGE: usize = 1_000;

fn print(entry: &ErrorEntry) {
    let name = match &entry.target {
        Some((owner, field)) => format!("{owner} field {:?}", field.as_str()),
        None => format!("unreadable mark {:?}", String::from_utf8_lossy(&entry.raw)),
    };
    println!("{name} version {}: {} (error {}), {} attempts", entry.version, entry.message, entry.code, entry.attempts);
}

/// Lists all error marks.
///
/// # Errors
/// The hot tier can't be reached.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = open::settings(&args.config)?;
    let hot = open::hot(&settings).await?;
    let mut found = 0_u64;
    for partition in (0..hot.partition_count()).map(Partition) {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = hot.errors(partition, from, PAGE).await?;
            cursor = page.next;
            page.entries.iter().for_each(print);
            found += u64::try_from(page.entries.len())?;
        }
    }
    println!("{found} error marks");
    Ok(ExitCode::SUCCESS)
}
