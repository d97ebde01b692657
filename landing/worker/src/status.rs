//! `status`: what waits to be landed, for how long, and who lands it.

use std::io::{self, Write};

use serde::Serialize;
use storage_dirty::HotError;
use storage_landing::{Backlog, Pressure};
use storage_model::Partition;

use crate::cli::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Give up after this long
    #[arg(long, default_value = "30s")]
    deadline: Deadline,
}

/// What `status --json` prints.
#[derive(Debug, Serialize)]
struct Status {
    /// 0: below the watermarks. 1 to 99: game servers slow writes down. 100: they refuse them.
    pressure_percent: u32,
    /// Which watermark, and what was seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pressure: String,
    total: Line,
    partitions: Vec<Line>,
}

/// One partition, or all of them.
#[derive(Debug, Serialize, Default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    live: u64,
    snapshot: u64,
    errors: u64,
    probation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_unlanded_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// Why the partition could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    away: Option<String>,
}

fn status(backlog: &Backlog, pressure: Pressure) -> Status {
    let mut total = Line { oldest_unlanded_seconds: backlog.oldest().map(|age| age.as_secs_f64()), ..Line::default() };
    let mut partitions = Vec::new();
    for (partition, peek) in &backlog.partitions {
        total.live += peek.live;
        total.snapshot += peek.snapshot;
        total.errors += peek.errors;
        total.probation += peek.probation;
        partitions.push(Line {
            partition: Some(partition.0),
            live: peek.live,
            snapshot: peek.snapshot,
            errors: peek.errors,
            probation: peek.probation,
            oldest_unlanded_seconds: peek.oldest().map(|oldest| backlog.now.since(oldest).as_secs_f64()),
            holder: peek.holder.clone(),
            away: None,
        });
    }
    let away = |(partition, error): &(Partition, HotError)| Line {
        partition: Some(partition.0),
        away: Some(error.to_string()),
        ..Line::default()
    };
    partitions.extend(backlog.away.iter().map(away));
    partitions.sort_by_key(|line| line.partition);
    Status { pressure_percent: pressure.percent, pressure: pressure.reason, total, partitions }
}

fn print(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    let age = |line: &Line| line.oldest_unlanded_seconds.map_or("-".into(), |age| format!("{age:.3} s"));
    let heads = ["partition", "live", "snapshot", "errors", "probation", "oldest"];
    let [partition, live, snapshot, errors, probation, oldest] = heads;
    writeln!(out, "{partition:>9}  {live:>10}  {snapshot:>10}  {errors:>10}  {probation:>10}  {oldest:>14}  holder")?;
    let row = |out: &mut dyn Write, name: &str, line: &Line| {
        let holder = line.holder.as_deref().unwrap_or("-");
        let Line { live, snapshot, errors, probation, .. } = line;
        writeln!(out, "{name:>9}  {live:>10}  {snapshot:>10}  {errors:>10}  {probation:>10}  {:>14}  {holder}", age(line))
    };
    for line in &status.partitions {
        if let Some(why) = &line.away {
            writeln!(out, "{:>9}  away: {why}", line.partition.unwrap_or_default())?;
        } else if line.live + line.snapshot + line.errors + line.probation > 0 || line.holder.is_some() {
            row(out, &line.partition.unwrap_or_default().to_string(), line)?;
        }
    }
    row(out, "total", &status.total)?;
    match status.pressure_percent {
        0 => Ok(()),
        100 => writeln!(out, "writes are refused: {}", status.pressure),
        percent => writeln!(out, "writes are slowed down, {percent} % of the way to being refused: {}", status.pressure),
    }
}

/// Prints what waits, as far as it can be reached; ends with 1 if some of it can't.
///
/// # Errors
/// Nothing of the hot tier can be reached; the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, show(args)).await
}

async fn show(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let hot = open::hot_in_part(&settings).await?;
    let backlog = Backlog::reachable(hot.as_ref()).await?;
    let pressure = Pressure::of(&settings.backpressure, &backlog, hot.memory().await?);
    let status = status(&backlog, pressure);
    let mut out = io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&status)?)?;
    } else {
        print(&status, &mut out)?;
    }
    Ok(if backlog.away.is_empty() { Exit::Fine } else { Exit::Found })
}
