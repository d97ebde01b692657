//! `export`: print all owners as JSON lines, through the SDK.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use storage_sdk::{Owner, Storage};

use crate::cli::ConfigArgs;
use crate::entity::Entity;
use crate::open;

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Write here instead of to stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Owners read at the same time.
const AT_ONCE: usize = 200;

async fn write(storage: &Storage, owners: &[Owner], out: &mut dyn Write) -> anyhow::Result<u64> {
    let mut written = 0;
    for owners in owners.chunks(AT_ONCE) {
        let read = async |owner: &Owner| -> anyhow::Result<Entity> {
            let bytes = storage.scope(owner.app(), owner.region())?.bytes();
            let record = bytes.owner(owner.logic_type(), owner.id())?.get_all().await?;
            Ok(Entity::new(owner, &record))
        };
        for entity in futures::future::join_all(owners.iter().map(read)).await {
            serde_json::to_writer(&mut *out, &entity?)?;
            out.write_all(b"\n")?;
            written += 1;
        }
    }
    Ok(written)
}

/// Prints all owners in key order, hot or cold, unlanded ones included.
///
/// # Errors
/// The storage can't be opened or read, or the output can't be written.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = open::settings(&args.config)?;
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(std::fs::File::create(path).with_context(|| path.display().to_string())?),
        None => Box::new(std::io::stdout()),
    };
    let storage = Storage::open(settings).await?;
    let mut buffered = BufWriter::new(&mut *out);
    let mut pages = storage.owners().await?;
    let mut written = 0;
    while let Some(owners) = pages.next().await? {
        written += write(&storage, &owners, &mut buffered).await?;
    }
    buffered.flush()?;
    drop(buffered);
    storage.close(Duration::from_secs(10)).await;
    eprintln!("{written} owners");
    Ok(ExitCode::SUCCESS)
}
