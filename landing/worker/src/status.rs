//! `status`: the waiting marks, their age, and the workers that land them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use storage_config::Settings;
use storage_dirty::HotError;
use storage_landing::{Backlog, BackpressureLevel};
use storage_model::Partition;
use storage_sql::Hook;
use storage_tiers::TierError;

use crate::config_args::ConfigArgs;
use crate::exit::{self, Exit};
use crate::limit::{self, Deadline};
use crate::open;
use crate::sinks::lag::{self, Lag};

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

/// The output of `status --json`.
#[derive(Debug, Serialize)]
struct Status {
    /// 0: below the watermarks. 1 to 99: game servers slow down writes. 100: they reject writes.
    backpressure_percent: u32,
    /// The watermark and the observed value.
    #[serde(skip_serializing_if = "String::is_empty")]
    backpressure: String,
    /// The hooks that landings need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<HookLine>,
    total: StatusLine,
    /// Whether something waits, and no worker holds a partition.
    nobody_lands: bool,
    partitions: Vec<StatusLine>,
    /// The sinks of the settings. Empty if the database is away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sinks: Vec<Lag>,
}

/// A hook that landings need.
#[derive(Debug, Serialize)]
struct HookLine {
    name: String,
    definitions: u64,
    /// Workers of this program have it. Otherwise they claim no partition.
    is_built_in: bool,
}

impl From<Hook> for HookLine {
    fn from(hook: Hook) -> Self {
        Self {
            name: hook.name,
            definitions: hook.definitions,
            is_built_in: !hook.is_lacked,
        }
    }
}

/// One partition, or the total.
#[derive(Debug, Serialize, Default)]
struct StatusLine {
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
    /// Why the partition could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    away: Option<String>,
}

fn status(
    backlog: &Backlog,
    level: BackpressureLevel,
    hooks: Vec<Hook>,
    sinks: Vec<Lag>,
) -> Status {
    let mut total = StatusLine {
        oldest_unlanded_seconds: backlog.oldest().map(|age| age.as_secs_f64()),
        ..StatusLine::default()
    };
    let mut partitions = Vec::new();
    for (partition, peek) in &backlog.partitions {
        total.live += peek.live;
        total.snapshot += peek.snapshot;
        total.errors += peek.errors;
        total.probation += peek.probation;
        partitions.push(StatusLine {
            partition: Some(partition.0),
            live: peek.live,
            snapshot: peek.snapshot,
            errors: peek.errors,
            probation: peek.probation,
            oldest_unlanded_seconds: peek
                .oldest()
                .map(|oldest| backlog.now.since(oldest).as_secs_f64()),
            holder: peek.holder.clone(),
            away: None,
        });
    }
    let away = |(partition, error): &(Partition, HotError)| StatusLine {
        partition: Some(partition.0),
        away: Some(error.to_string()),
        ..StatusLine::default()
    };
    partitions.extend(backlog.away.iter().map(away));
    partitions.sort_by_key(|line| line.partition);
    let is_held = partitions.iter().any(|line| line.holder.is_some());
    Status {
        nobody_lands: !is_held && backlog.marks() + backlog.notes() > 0,
        backpressure_percent: level.percent,
        backpressure: level.reason,
        hooks: hooks.into_iter().map(HookLine::from).collect(),
        total,
        partitions,
        sinks,
    }
}

impl StatusLine {
    /// Whether the partition has anything to show.
    fn is_busy(&self) -> bool {
        self.away.is_some() || self.live + self.snapshot + self.errors + self.probation > 0
    }

    /// The age of the oldest waiting mark. Rejected rows have no age.
    fn age(&self) -> String {
        match self.oldest_unlanded_seconds {
            Some(age) => format!("{age:.3} s"),
            None if self.live + self.snapshot == 0 && self.errors > 0 => "only rejected".to_owned(),
            None => "-".to_owned(),
        }
    }
}

fn print(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    let heads = [
        "partition",
        "live",
        "snapshot",
        "errors",
        "probation",
        "oldest",
    ];
    let [partition, live, snapshot, errors, probation, oldest] = heads;
    writeln!(
        out,
        "{partition:>9}  {live:>10}  {snapshot:>10}  {errors:>10}  {probation:>10}  {oldest:>14}  holder"
    )?;
    let row = |out: &mut dyn Write, name: &str, line: &StatusLine, holder: &str| {
        let StatusLine {
            live,
            snapshot,
            errors,
            probation,
            ..
        } = line;
        writeln!(
            out,
            "{name:>9}  {live:>10}  {snapshot:>10}  {errors:>10}  {probation:>10}  {:>14}  {holder}",
            line.age()
        )
    };
    for line in status.partitions.iter().filter(|line| line.is_busy()) {
        let partition = line.partition.unwrap_or_default();
        match &line.away {
            Some(why) => writeln!(out, "{partition:>9}  away: {why}")?,
            None => row(
                out,
                &partition.to_string(),
                line,
                line.holder.as_deref().unwrap_or("nobody"),
            )?,
        }
    }
    row(out, "total", &status.total, "")?;
    if let Some(idle) = idle(&status.partitions) {
        writeln!(out, "{idle}")?;
    }
    if status.nobody_lands {
        writeln!(out, "no worker lands: start one by landing-worker run")?;
    }
    if status.total.errors > 0 {
        writeln!(
            out,
            "the database rejected rows of {} owners: landing-worker errors lists them",
            status.total.errors
        )?;
    }
    for hook in status.hooks.iter().filter(|hook| !hook.is_built_in) {
        let name = &hook.name;
        writeln!(
            out,
            "landings need the hook {name:?}, which this program lacks: its workers claim no partition (see landing-worker hooks)"
        )?;
    }
    for lag in &status.sinks {
        writeln!(out, "{}", lag.line())?;
    }
    match status.backpressure_percent {
        0 => Ok(()),
        100 => writeln!(out, "writes are refused: {}", status.backpressure),
        percent => writeln!(
            out,
            "writes are slowed down, {percent} % of the way to refusal: {}",
            status.backpressure
        ),
    }
}

/// How many partitions are idle, and their holders.
fn idle(partitions: &[StatusLine]) -> Option<String> {
    let mut holders: BTreeMap<&str, u32> = BTreeMap::new();
    for line in partitions.iter().filter(|line| !line.is_busy()) {
        *holders
            .entry(line.holder.as_deref().unwrap_or("nobody"))
            .or_default() += 1;
    }
    let count: u32 = holders.values().sum();
    let held: Vec<String> = holders
        .iter()
        .map(|(holder, count)| format!("{holder} ({count})"))
        .collect();
    (count > 0).then(|| format!("{count} partitions are idle, held by {}", held.join(", ")))
}

/// Prints the waiting marks of all reachable partitions. Ends with 1 if some are unreachable.
///
/// # Errors
/// No partition can be reached, or the deadline passed. After the table: the database does not
/// answer, or does not belong to the hot tier.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, show(args)).await
}

async fn show(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let hot = open::hot_for_reading(&settings).await?;
    let compared = open::compared(&settings, &hot).await;
    let backlog = Backlog::reachable(&hot).await?;
    let level = BackpressureLevel::of(
        &settings.backpressure,
        &backlog,
        &hot.tier.memory().await?,
        &[],
    );
    // A database that does not answer is asked once.
    let (hooks, sinks) = match compared {
        Ok(()) => (
            open::hooks(&settings).await,
            lags(&settings, hot.partitions.partition_count()).await,
        ),
        Err(_) => Default::default(),
    };
    let status = status(&backlog, level, hooks, sinks);
    let mut out = io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&status)?)?;
    } else {
        print(&status, &mut out)?;
    }
    let why = compared.as_ref().err().and_then(|why| why.downcast_ref());
    let outlook = match why {
        Some(TierError::Unpaired(_)) => Some("land nowhere"),
        Some(TierError::Behind(_)) => Some("do not land until this hot tier is used"),
        _ => None,
    };
    if let Some(outlook) = outlook {
        let marks = backlog.marks();
        writeln!(io::stderr(), "{marks} marks wait here, and {outlook}")?;
    }
    // After the table, which is worth reading in any case. If a part of the hot tier is away, the table
    // says so, and a comparison that fails for the same reason adds nothing.
    match (compared, backlog.away.is_empty()) {
        (Err(error), false) if exit::of(&error) == Exit::HotAway => Ok(Exit::Found),
        (Err(error), _) => Err(error),
        (Ok(()), true) => Ok(Exit::Fine),
        (Ok(()), false) => Ok(Exit::Found),
    }
}

/// How far the sinks are behind. None if there is no sink, or if the database can't be read.
async fn lags(settings: &Settings, partitions: u32) -> Vec<Lag> {
    if settings.sinks.is_empty() {
        return Vec::new();
    }
    let lags = async {
        let cold = storage_sql::Opening::new(&settings.sql)
            .for_reading()
            .open()
            .await?;
        lag::all(settings, &cold, partitions).await
    };
    lags.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the positions of the sinks could not be read");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(partition: u32, holder: Option<&str>) -> StatusLine {
        StatusLine {
            partition: Some(partition),
            holder: holder.map(str::to_owned),
            ..StatusLine::default()
        }
    }

    fn printed(partitions: Vec<StatusLine>, total: StatusLine) -> String {
        let status = Status {
            backpressure_percent: 0,
            backpressure: String::new(),
            hooks: Vec::new(),
            nobody_lands: false,
            total,
            partitions,
            sinks: Vec::new(),
        };
        let mut out = Vec::new();
        print(&status, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn partitions_with_work_are_listed_and_the_others_are_counted_by_holder() {
        let busy = StatusLine {
            live: 2,
            oldest_unlanded_seconds: Some(1.5),
            ..line(1, Some("w1"))
        };
        let away = StatusLine {
            away: Some("no answer".into()),
            ..line(4, None)
        };
        let all = vec![
            line(0, Some("w1")),
            busy,
            line(2, Some("w2")),
            line(3, Some("w1")),
            away,
            line(5, None),
        ];
        let table = printed(
            all,
            StatusLine {
                live: 2,
                oldest_unlanded_seconds: Some(1.5),
                ..StatusLine::default()
            },
        );
        let names: Vec<_> = table
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(names, ["partition", "1", "4", "total", "4"], "{table}");
        assert!(
            table.ends_with("4 partitions are idle, held by nobody (1), w1 (2), w2 (1)\n"),
            "{table}"
        );
    }

    #[test]
    fn what_was_refused_has_no_age_and_says_where_it_is_listed() {
        let refused = StatusLine {
            errors: 3,
            ..line(7, Some("w"))
        };
        let table = printed(
            vec![refused],
            StatusLine {
                errors: 3,
                ..StatusLine::default()
            },
        );
        assert_eq!(table.matches("only rejected").count(), 2, "{table}");
        assert!(
            table.contains("rejected rows of 3 owners: landing-worker errors"),
            "{table}"
        );
        assert!(!table.contains("idle"), "{table}");
    }
}
