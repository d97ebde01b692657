//! `get`: owners as they have landed.

use std::io::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use storage_sdk::Owner;
use storage_sdk::settings::parse_duration;
use storage_shard_read::owners::{LandedOwner, Owners};
use storage_shard_read::{Client, Get, Hosts, Mode, Place};

use crate::args::{self, ClientArgs};
use crate::exit::Exit;

/// Arguments of `get`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    client: ClientArgs,
    /// The servers
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        value_parser = args::address,
        required_unless_present = "dns",
        conflicts_with = "dns"
    )]
    hosts: Vec<String>,
    /// All addresses of a name are the servers
    #[arg(long, value_name = "NAME:PORT")]
    dns: Option<String>,
    /// The data centre whose servers are asked first
    #[arg(long, value_name = "NAME")]
    dc: Option<String>,
    /// Which replicas are asked
    #[arg(long, value_name = "MODE", default_value = "hedged")]
    mode: ModeArg,
    /// How old the answer may be. Default: of any age
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_age: Option<Duration>,
    /// The answer has the event of this place of the feed: PARTITION:EPOCH:NUMBER. Can be repeated
    #[arg(long, value_name = "PLACE", value_parser = place)]
    after: Vec<Place>,
    /// Print JSON, one owner a line
    #[arg(long)]
    json: bool,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = args::time)]
    deadline: Duration,
    /// The owners: APP/REGION/TYPE/ID
    #[arg(required = true, value_name = "OWNER", value_parser = owner)]
    owners: Vec<Owner>,
}

/// Which replicas a call asks.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArg {
    /// One, and a second one if the first is slow or fails
    Hedged,
    /// One, and a second one if the first fails
    One,
    /// All of them
    All,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Hedged => Self::Hedged,
            ModeArg::One => Self::One,
            ModeArg::All => Self::All,
        }
    }
}

fn owner(text: &str) -> Result<Owner, String> {
    let names: Vec<&str> = text.splitn(4, '/').collect();
    match *names {
        [app, region, logic_type, id] => {
            Owner::new(app, region, logic_type, id).map_err(|error| error.to_string())
        }
        _ => Err("write APP/REGION/TYPE/ID, such as game/eu/player/ann".to_owned()),
    }
}

fn place(text: &str) -> Result<Place, String> {
    let place = || {
        let numbers: Vec<&str> = text.split(':').collect();
        let [partition, epoch, number] = numbers.try_into().ok()?;
        let partition = partition.parse().ok()?;
        Some(Place::new(
            partition,
            epoch.parse().ok()?,
            number.parse().ok()?,
        ))
    };
    place().ok_or_else(|| "write PARTITION:EPOCH:NUMBER, such as 3:1:250".to_owned())
}

/// Prints owners. Ends with 4 if a key has no answer in time.
pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let hosts = match &args.dns {
        Some(name) => Hosts::dns(name),
        None => Hosts::list(args.hosts.clone()),
    };
    let builder = Client::<Owners>::builder(hosts).mode(args.mode.into());
    let near = match &args.dc {
        Some(dc) => builder.prefer_dc(dc),
        None => builder,
    };
    let client = args.client.apply(near)?.build()?;
    let asked = client.get(args.owners).deadline(args.deadline).partial();
    let young = match args.max_age {
        Some(age) => asked.max_age(age),
        None => asked,
    };
    let found = args.after.into_iter().fold(young, Get::after).await?;
    let mut out = std::io::stdout();
    for (owner, landed) in &found.values {
        if args.json {
            writeln!(out, "{}", as_json(owner, landed.as_ref()))?;
        } else {
            print(&mut out, owner, landed.as_ref())?;
        }
    }
    for (owner, reason) in &found.unanswered {
        writeln!(std::io::stderr(), "error: {owner}: {reason}")?;
    }
    for host in &found.hosts {
        writeln!(
            std::io::stderr(),
            "error: {} said: {}",
            host.address,
            host.reason
        )?;
    }
    Ok(if found.unanswered.is_empty() {
        Exit::Fine
    } else {
        Exit::ServersAway
    })
}

fn print(
    out: &mut impl std::io::Write,
    owner: &Owner,
    landed: Option<&LandedOwner>,
) -> std::io::Result<()> {
    let Some(landed) = landed else {
        return writeln!(out, "{owner}: no row");
    };
    writeln!(out, "{owner}: version {}", landed.version())?;
    for (field, value) in landed.fields() {
        writeln!(out, "  {field} = {}", value_of(&value))?;
    }
    Ok(())
}

fn as_json(owner: &Owner, landed: Option<&LandedOwner>) -> Value {
    let fields = landed.map(|landed| {
        let fields = landed.fields().into_iter();
        fields
            .map(|(field, value)| (field, value_of(&value)))
            .collect::<Map<_, _>>()
    });
    json!({ "owner": owner.to_string(), "version": landed.map(LandedOwner::version), "fields": fields })
}

/// Text, or `{"base64": …}` for bytes that are no text.
fn value_of(bytes: &Bytes) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}
