//! `import`: write owners, given as JSON lines, through the SDK.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use storage_sdk::Storage;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cli::ConfigArgs;
use crate::entity::Entity;
use crate::{open, progress};

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// JSON lines: {"app","region","logic_type","owner_id","fields":{name: text, or {"base64": …}}}
    file: PathBuf,
    /// Owners written at the same time
    #[arg(long, default_value_t = 256)]
    at_once: usize,
}

/// The most fields of one write; an owner with more is written in several.
const FIELDS_AT_ONCE: usize = 500;

/// Writes one line's owner.
async fn write(storage: &Storage, line: &str) -> anyhow::Result<usize> {
    let entity: Entity = serde_json::from_str(line)?;
    let (owner, fields) = entity.parts()?;
    let bytes = storage.scope(owner.app(), owner.region())?.bytes();
    let owner = bytes.owner(owner.logic_type(), owner.id())?;
    for part in fields.chunks(FIELDS_AT_ONCE) {
        owner.update(part.iter().cloned()).await?;
    }
    Ok(fields.len())
}

/// Writes all lines, many at once and in any order, so an owner should have one line. A bad line is named by its number, and the
/// others go on.
///
/// # Errors
/// The file can't be read, or the storage can't be opened.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = open::settings(&args.config)?;
    let named = || format!("{}", args.file.display());
    let file = File::open(&args.file).await.with_context(named)?;
    let bar = progress::bar(file.metadata().await?.len(), "bytes");
    let storage = Storage::open(settings).await?;
    let lines = tokio_stream::wrappers::LinesStream::new(BufReader::new(file).lines());
    let mut written = lines
        .enumerate()
        .map(|(number, line)| {
            let (storage, bar) = (&storage, &bar);
            async move {
                let line = line.map_err(anyhow::Error::from);
                let length = line.as_ref().map_or(1, |line| line.len() + 1);
                let result = match &line {
                    Ok(line) if line.trim().is_empty() => Ok(None),
                    Ok(line) => write(storage, line).await.map(Some),
                    Err(error) => Err(anyhow::anyhow!("{error}")),
                };
                bar.inc(length as u64);
                (number + 1, result)
            }
        })
        .buffered(args.at_once.max(1));
    let (mut owners, mut fields, mut bad) = (0_u64, 0, 0_u64);
    while let Some((number, result)) = written.next().await {
        match result {
            Ok(None) => {}
            Ok(Some(count)) => {
                owners += 1;
                fields += count;
            }
            Err(error) => {
                bad += 1;
                bar.suspend(|| eprintln!("{}:{number}: {error:#}", args.file.display()));
            }
        }
    }
    bar.finish_and_clear();
    drop(written);
    let report = storage.close(Duration::from_secs(300)).await;
    writeln!(std::io::stdout(), "wrote {owners} owners, {fields} fields; {bad} bad lines")?;
    anyhow::ensure!(report.unlanded == 0, "{} marks were not landed", report.unlanded);
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
