//! `plan`: how the keys of a data centre are divided.

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use storage_sdk::layer::claims::{DataCentre, Ranges};

use crate::args::{self, DatabaseArgs, ServiceArgs};
use crate::exit::Exit;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    service: ServiceArgs,
    /// The data centre
    #[arg(long, value_name = "NAME", value_parser = DataCentre::new)]
    dc: DataCentre,
    /// The number of ranges, all of one size. Owners of a storage: a power of two, and at most as many as there are
    /// partitions, so that a server follows the events of its owners alone
    #[arg(long, value_name = "N", value_parser = ranges)]
    shards: Ranges,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = args::time)]
    deadline: Duration,
}

fn ranges(text: &str) -> Result<Ranges, String> {
    let shards = text
        .parse()
        .map_err(|_| "give a number, such as 4".to_owned())?;
    Ranges::even(shards).map_err(|error| error.to_string())
}

/// Adds a plan, and prints its number.
pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    args::within(args.deadline, async {
        let cold = args.database.open().await?;
        let (service, dc) = (&args.service.service, &args.dc);
        let plan = args::claims(&cold)?
            .add_plan(service, dc, &args.shards)
            .await?;
        let mut out = std::io::stdout();
        if args.json {
            let added = json!({ "service": service.as_str(), "dc": dc.as_str(), "plan": plan });
            writeln!(out, "{added}")?;
        } else {
            writeln!(out, "plan {plan} of {service} in {dc}")?;
        }
        Ok(Exit::Fine)
    })
    .await
}
