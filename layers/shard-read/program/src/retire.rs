//! `retire`: the end of a plan.

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use storage_sdk::layer::claims::DataCentre;

use crate::args::{self, ClientArgs, DatabaseArgs, ServiceArgs};
use crate::exit::{self, Exit};
use crate::survey::{Survey, Surveyor};

/// Arguments of `retire`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// The data centre
    #[arg(long, value_name = "NAME", value_parser = DataCentre::new)]
    dc: DataCentre,
    /// The number of the plan
    #[arg(long, value_name = "N")]
    plan: u32,
    /// Drop the plan before the next one is served, or the last plan of a data centre: another data centre answers
    /// meanwhile
    #[arg(long)]
    in_place: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = args::time)]
    deadline: Duration,
}

/// Drops a plan, unless keys would be without a server.
pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    args::within(args.deadline, retire(&args)).await
}

async fn retire(args: &Args) -> anyhow::Result<Exit> {
    let cold = args.database.open().await?;
    let service = &args.service.service;
    let surveyor = Surveyor::new(cold.clone(), service.clone(), &args.client)?;
    check(&surveyor.survey().await?, args)?;
    let claims = args::claims(&cold)?;
    let ranges = claims.drop_plan(service, &args.dc, args.plan).await?;
    let mut out = std::io::stdout();
    if args.json {
        let dropped = json!({
            "service": service.as_str(), "dc": args.dc.as_str(), "plan": args.plan, "ranges": ranges,
        });
        writeln!(out, "{dropped}")?;
    } else {
        writeln!(
            out,
            "plan {} of {service} in {} is dropped, with {ranges} ranges",
            args.plan, args.dc
        )?;
    }
    Ok(Exit::Fine)
}

/// Whether each key has a server without the plan.
fn check(survey: &Survey, args: &Args) -> anyhow::Result<()> {
    let Args { dc, plan, .. } = args;
    let mut plans = survey.plans(dc);
    if !plans.remove(plan) {
        let service = &args.service.service;
        let numbers: Vec<String> = plans.iter().map(u32::to_string).collect();
        let message = match numbers.is_empty() {
            true => format!("there is no plan of {service} in {dc}"),
            false => format!(
                "there is no plan {plan} of {service} in {dc}, but these: {}",
                numbers.join(", ")
            ),
        };
        return Err(exit::error(Exit::Found, message));
    }
    if args.in_place {
        let mut others = survey.dcs().into_iter().filter(|other| *other != dc);
        if others.any(|other| survey.is_complete(other)) {
            return Ok(());
        }
        let message =
            format!("no other data centre than {dc} serves all keys: nothing was dropped");
        return Err(exit::error(Exit::Refused, message));
    }
    let Some(next) = plans.pop_last() else {
        let message = format!(
            "plan {plan} is the only one of {dc}: nothing was dropped. Add the next one with `shard-read plan`, or \
             drop this one with --in-place while another data centre answers"
        );
        return Err(exit::error(Exit::Refused, message));
    };
    let unserved = survey.unserved(dc, next);
    if unserved.is_empty() {
        return Ok(());
    }
    let said = unserved.iter().filter_map(|shard| {
        let holder = shard
            .row
            .holder
            .as_ref()
            .map_or("-", |holder| holder.as_str());
        Some(format!("{} {holder}: {}", shard.range()?, shard.state()))
    });
    let said: Vec<String> = said.collect();
    let message = format!(
        "plan {next} in {dc} is not served as a whole: {}. Nothing was dropped. Start servers, or mend what a silent one \
         says, and wait with `shard-read status --wait`. Or drop plan {plan} with --in-place while another data centre answers",
        said.join("; ")
    );
    Err(exit::error(Exit::Refused, message))
}
