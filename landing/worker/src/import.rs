//! `import`: write owners, given as JSON lines, through the SDK.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use storage_model::Limits;
use storage_sdk::{Bytes, CloseReport, Storage};
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

/// The fields of one owner, divided into what one call may hold, in their order. A value that no call may hold has one of its own, so
/// that it is refused by name and limit.
fn calls(fields: Vec<(String, Bytes)>, limits: &Limits) -> Vec<Vec<(String, Bytes)>> {
    let mut calls: Vec<Vec<(String, Bytes)>> = Vec::new();
    let mut bytes = 0_usize;
    for (name, value) in fields {
        let with = bytes.saturating_add(value.len());
        match calls.last_mut().filter(|call| call.len() < limits.fields_max && with <= limits.call_bytes_max) {
            Some(call) => {
                bytes = with;
                call.push((name, value));
            }
            None => {
                bytes = value.len();
                calls.push(vec![(name, value)]);
            }
        }
    }
    calls
}

/// Writes one line's owner; none in a line without one.
async fn write(storage: &Storage, limits: &Limits, line: &[u8]) -> anyhow::Result<Option<usize>> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let entity: Entity = serde_json::from_slice(line)?;
    let (owner, fields) = entity.parts()?;
    let count = fields.len();
    let bytes = storage.scope(owner.app(), owner.region())?.bytes();
    let owner = bytes.owner(owner.logic_type(), owner.id())?;
    for call in calls(fields, limits) {
        owner.update(call).await?;
    }
    Ok(Some(count))
}

/// What closing left that may not be in the database; none if nothing is.
fn left(report: &CloseReport) -> Option<String> {
    let CloseReport { under_way, unlanded, errors, .. } = report;
    (under_way + unlanded + errors > 0).then(|| {
        format!(
            "{under_way} writes were still under way, {unlanded} marks were not landed, {errors} were refused by the database"
        )
    })
}

/// Writes all lines, many at once and in any order, so an owner should have one line. A bad line is named by its number, and the
/// others go on. Ends with 1 if there was one, or if something may not be in the database although nobody is left to land it.
///
/// # Errors
/// The file can't be read, or the storage can't be opened. What was read before is written.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = open::settings(&args.config)?;
    let named = || format!("{}", args.file.display());
    let file = File::open(&args.file).await.with_context(named)?;
    let bar = progress::bar(file.metadata().await?.len(), "bytes");
    let limits = settings.limits;
    let storage = Storage::open(settings).await?;
    // Not as text: a line that isn't UTF-8 is a bad line, but a file that can't be read on has no further lines, good or bad.
    let lines = tokio_stream::wrappers::SplitStream::new(BufReader::new(file).split(b'\n'));
    let mut read = Ok(());
    let mut written = lines
        .scan(&mut read, |read, line| std::future::ready(line.map_err(|error| **read = Err(error)).ok()))
        .enumerate()
        .map(|(number, line)| {
            let (storage, limits, bar) = (&storage, &limits, &bar);
            async move {
                let result = write(storage, limits, &line).await;
                bar.inc(line.len() as u64 + 1);
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
    let left = left(&report);
    if let Some(left) = &left {
        eprintln!("error: {left}");
    }
    read.with_context(named)?;
    Ok(if bad == 0 && left.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_divided_by_both_limits_of_a_call() {
        let sizes = |bytes: &[usize], fields_max, call_bytes_max| -> Vec<Vec<usize>> {
            let limits = Limits { value_bytes_max: 8, fields_max, call_bytes_max };
            let fields = bytes.iter().enumerate().map(|(at, bytes)| (at.to_string(), vec![0; *bytes].into()));
            calls(fields.collect(), &limits).iter().map(|call| call.iter().map(|(_, value)| value.len()).collect()).collect()
        };
        assert_eq!(sizes(&[1, 1, 1, 1, 1], 2, 10), [vec![1, 1], vec![1, 1], vec![1]]);
        assert_eq!(sizes(&[4, 4, 2, 1, 0], 9, 10), [vec![4, 4, 2], vec![1, 0]]);
        assert_eq!(sizes(&[1, 11, 1], 9, 10), [vec![1], vec![11], vec![1]]);
        assert!(sizes(&[], 9, 10).is_empty());
    }

    #[test]
    fn whatever_closing_left_is_counted() {
        let mut report = CloseReport::default();
        assert_eq!(left(&report), None);
        let counts: [fn(&mut CloseReport) -> &mut u64; 3] = [|r| &mut r.under_way, |r| &mut r.unlanded, |r| &mut r.errors];
        for count in counts {
            *count(&mut report) = 7;
            assert!(left(&report).is_some_and(|left| left.contains('7')), "{report:?}");
            *count(&mut report) = 0;
        }
    }
}
