//! `status`: each range with its claim, and what its server says.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use storage_sdk::layer::claims::DataCentre;
use tokio::time::{Instant, sleep};

use crate::args::{self, ClientArgs, DatabaseArgs, ServiceArgs};
use crate::exit::{self, Exit};
use crate::survey::{Survey, SurveyedShard, Surveyor};

/// Between two looks of `--wait`.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A look takes no longer.
const LATE: Duration = Duration::from_secs(10);

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// Only this data centre
    #[arg(long, value_name = "NAME", value_parser = DataCentre::new)]
    dc: Option<DataCentre>,
    /// Wait until all ranges of the newest plan of each data centre are served
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = args::time)]
    deadline: Duration,
}

/// Shows the ranges. Ends with 1 if one of the newest plans is without a server.
pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    // Room for the last look, which is shown although it is late.
    args::within(args.deadline + LATE, show(&args)).await
}

async fn show(args: &Args) -> anyhow::Result<Exit> {
    let cold = args.database.open().await?;
    let surveyor = Surveyor::new(cold, args.service.service.clone(), &args.client)?;
    let until = Instant::now() + args.deadline;
    let (survey, is_late) = loop {
        let mut survey = surveyor.survey().await?;
        let is_meant =
            |shard: &SurveyedShard| args.dc.as_ref().is_none_or(|dc| shard.row.key.dc == *dc);
        survey.0.retain(is_meant);
        let is_late = args.wait && Instant::now() >= until;
        if !args.wait || is_late || is_complete(&survey) {
            break (survey, is_late);
        }
        sleep(LOOK_EVERY).await;
    };
    if survey.0.is_empty() {
        let service = &args.service.service;
        let place = args
            .dc
            .as_ref()
            .map(|dc| format!(" in {dc}"))
            .unwrap_or_default();
        let message =
            format!("there is no plan of {service}{place}: add one with `shard-read plan`");
        return Err(exit::error(Exit::Found, message));
    }
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", as_json(&survey, args))?;
    } else {
        for shard in &survey.0 {
            writeln!(out, "{}", line(shard))?;
        }
    }
    Ok(match is_complete(&survey) {
        true => Exit::Fine,
        false if is_late => Exit::Late,
        false => Exit::Found,
    })
}

fn is_complete(survey: &Survey) -> bool {
    let dcs = survey.dcs();
    !dcs.is_empty() && dcs.into_iter().all(|dc| survey.is_complete(dc))
}

fn line(shard: &SurveyedShard) -> String {
    let key = &shard.row.key;
    let range = shard
        .range()
        .map(|range| range.to_string())
        .unwrap_or_default();
    let holder = shard
        .row
        .holder
        .as_ref()
        .map_or("-", |holder| holder.as_str());
    let mut line = format!(
        "{} plan {} {range} {holder}: {}",
        key.dc,
        key.plan,
        shard.state()
    );
    if let Some(age) = shard.told.as_ref().and_then(|told| told.age) {
        line.push_str(&format!(", age {} ms", age.as_millis()));
    }
    line
}

fn as_json(survey: &Survey, args: &Args) -> Value {
    let shard = |shard: &SurveyedShard| {
        let (row, key) = (&shard.row, &shard.row.key);
        let age = shard.told.as_ref().and_then(|told| told.age);
        json!({
            "dc": key.dc.as_str(),
            "plan": key.plan,
            // Text, since not every reader of JSON has whole numbers of 64 bits.
            "begin": format!("{:016x}", key.begin),
            "end": row.end.map(|end| format!("{end:016x}")),
            "holder": row.holder.as_ref().map(|holder| holder.as_str()),
            "state": shard.state(),
            "age_ms": age.map(millis),
            "renewed_ago_ms": row.holder.as_ref().map(|_| millis(row.renewed_ago)),
            "transitions": row.transitions,
        })
    };
    json!({
        "service": args.service.service.as_str(),
        "is_complete": is_complete(survey),
        "shards": survey.0.iter().map(shard).collect::<Vec<_>>(),
    })
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}
