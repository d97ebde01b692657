//! `parked`: the events that sinks refused, and the reasons.

use std::io::{self, Write};

use anyhow::Context as _;
use storage_config::{Settings, SinkSettings};
use storage_landing::{Sink, SinkError};
use storage_model::{Content, Event, Partition, Position, SinkName};
use storage_sql::{Cold, EventStore, Parked, SinkStore};

use crate::config_args::ConfigArgs;
use crate::exit::{self, Exit};
use crate::limit::{self, Deadline};
use crate::{open, sinks};

/// Arguments of `parked`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only this sink. Without it all sinks of the settings
    #[arg(long, value_name = "NAME")]
    sink: Option<SinkName>,
    /// Send all of them again. The command ends with 1 if a sink still refuses one
    #[arg(long, conflicts_with = "drop")]
    retry: bool,
    /// Forget all of them. The sinks never get them
    #[arg(long)]
    drop: bool,
    /// Give up after this long. A sink or a database that is away ends the command at once
    #[arg(long, default_value = "1min")]
    deadline: Deadline,
}

/// Parked events of one request to the database.
const PAGE: usize = 500;

/// The ways out for parked events.
const ADVICE: &str = "\
The sinks went on without these events. To send them again, repair the receiver, then run: landing-worker parked --retry
To give them up, run: landing-worker parked --drop";

/// Lists all parked events. With `--retry`, first sends them again. With `--drop`, first forgets
/// them.
///
/// # Errors
/// The database can't be reached, or for a retry a sink. Or the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, list(args)).await
}

async fn list(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let chosen = chosen(&settings, args.sink.as_ref())?;
    let cold = open_cold(&settings, args.retry || args.drop).await?;
    let (mut out, mut count) = (io::stdout(), 0_usize);
    for (name, settings) in chosen {
        if args.retry {
            let feed = open::identity(cold.database.as_ref()).await?;
            let sink = sinks::one(name, settings, feed)?;
            retry(&cold, name, sink.as_ref()).await?;
        } else if args.drop {
            give_up(cold.sinks.as_ref(), name, &mut out).await?;
        }
        count += print(cold.sinks.as_ref(), name, &mut out).await?;
    }
    writeln!(out, "{count} parked events")?;
    if count > 0 {
        writeln!(out, "{ADVICE}")?;
    }
    Ok(if args.retry && count > 0 {
        Exit::Found
    } else {
        Exit::Fine
    })
}

async fn open_cold(settings: &Settings, writes: bool) -> anyhow::Result<Cold> {
    let opened = if writes {
        storage_sql::Opening::new(&settings.sql)
            .for_pairing()
            .open()
            .await
    } else {
        storage_sql::Opening::new(&settings.sql)
            .for_reading()
            .open()
            .await
    };
    opened.context("the cold tier")
}

/// Prints the parked events of a sink. Returns how many there are.
async fn print(
    sinks: &dyn SinkStore,
    name: &SinkName,
    out: &mut impl Write,
) -> anyhow::Result<usize> {
    let all = all(sinks, name).await?;
    for parked in &all {
        writeln!(out, "{}", line(name, parked))?;
    }
    Ok(all.len())
}

/// Forgets the parked events of a sink.
async fn give_up(
    sinks: &dyn SinkStore,
    name: &SinkName,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for parked in all(sinks, name).await? {
        sinks
            .unpark(name, parked.partition, parked.position)
            .await?;
        writeln!(out, "given up: {}", line(name, &parked))?;
    }
    Ok(())
}

/// The sinks that the command is about.
fn chosen<'a>(
    settings: &'a Settings,
    name: Option<&'a SinkName>,
) -> anyhow::Result<Vec<(&'a SinkName, &'a SinkSettings)>> {
    let Some(name) = name else {
        return Ok(settings.sinks.iter().collect());
    };
    match settings.sinks.get(name) {
        Some(sink) => Ok(vec![(name, sink)]),
        None => {
            let names: Vec<&str> = settings.sinks.keys().map(SinkName::as_str).collect();
            let known = names.join(", ");
            let message = format!("the settings have no sink {name}; they have: {known}");
            Err(exit::error(Exit::Usage, message))
        }
    }
}

fn line(name: &SinkName, parked: &Parked) -> String {
    let Parked {
        partition,
        position,
        message,
    } = parked;
    format!("{name} partition {partition} position {position}: {message}")
}

/// All events that a sink has refused.
async fn all(sinks: &dyn SinkStore, name: &SinkName) -> anyhow::Result<Vec<Parked>> {
    let (mut all, mut after) = (Vec::new(), (Partition(0), Position::ZERO));
    loop {
        let page = sinks.parked(name, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(all);
        };
        after = (last.partition, last.position);
        all.extend(page);
    }
}

/// Sends the parked events of a sink again, one at a time. A reason that is new replaces the
/// earlier one.
async fn retry(cold: &Cold, name: &SinkName, sink: &dyn Sink) -> anyhow::Result<()> {
    for parked in all(cold.sinks.as_ref(), name).await? {
        let (partition, position) = (parked.partition, parked.position);
        let event = event(cold.events.as_ref(), partition, position).await?;
        match sink.send(partition, &[event]).await {
            Ok(()) => cold.sinks.unpark(name, partition, position).await?,
            Err(SinkError::Rejected { message }) => {
                cold.sinks.park(name, partition, position, &message).await?;
            }
            Err(error) => {
                let message = format!("sink {name} takes no events now: {error}");
                return Err(exit::error(Exit::Found, message));
            }
        }
    }
    Ok(())
}

/// The event at a position. If it was dropped for its age, a gap takes its place.
async fn event(
    events: &dyn EventStore,
    partition: Partition,
    position: Position,
) -> anyhow::Result<Event> {
    let before = Position::new(position.epoch.0, position.number.saturating_sub(1));
    let behind = events.events(partition, before, 1).await?;
    let event = behind.into_iter().find(|event| event.position == position);
    Ok(event.unwrap_or(Event {
        partition,
        position,
        content: Content::Gap,
    }))
}
