//! `serve`: a server of owners.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::json;
use shard_read_server::{Claims, Ended, OnLost, OwnerShard, ReadAhead, Server, ServerBuilder};
use storage_sdk::layer::ColdTier;
use storage_sdk::layer::claims::{DataCentre, Holder};
use storage_sdk::settings::parse_duration;
use storage_sdk::{Kind, Settings};
use storage_shard_read::owners::Owners;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use crate::args::{self, DatabaseArgs};
use crate::exit::{self, Exit};
use crate::figures::FiguresPage;

/// Between two tries to open a database that is away.
const OPEN_EVERY: Duration = Duration::from_secs(1);
/// The time for calls under way, after the drain.
const GRACE: Duration = Duration::from_secs(15);

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The data centre, whose newest plan has the range
    #[arg(long, value_name = "NAME", value_parser = DataCentre::new)]
    dc: DataCentre,
    /// The address to listen at. With port 0 the machine chooses one. Other machines reach it only if you name another
    /// host, which needs a token
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
    /// The address that clients and other commands use, and the name of the claim. Default: that of --listen
    #[arg(long, value_name = "HOST:PORT", value_parser = name_of)]
    name: Option<Holder>,
    /// The most memory for owners, in MiB
    #[arg(long, value_name = "MIB", default_value = "256", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    memory_mib: u64,
    /// An owner is loaded again after this time. Changes that leave no event are seen by then
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = lifetime)]
    lifetime: Duration,
    /// Read the owners of this type with this field before serving, until 90 % of the memory is taken:
    /// APP/REGION/TYPE/FIELD
    #[arg(long, value_name = "OWNERS", value_parser = read_ahead)]
    read_ahead: Option<ReadAhead>,
    /// The time between two renewals of the claim. All servers of a service have the same
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = period)]
    period: Duration,
    /// How long the server answers after it has left its range
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    drain: Duration,
    /// What happens when another server has the claim
    #[arg(long, value_name = "WHAT", default_value = "reclaim")]
    on_lost: OnLostArg,
    /// The file with the token that clients have to send
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Speak TLS with the certificates of this file (PEM), the server's first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Clients need a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Serve /metrics, /livez and /readyz at this address, for programs of the operator alone
    #[arg(long, value_name = "IP:PORT")]
    http: Option<SocketAddr>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn name_of(text: &str) -> Result<Holder, String> {
    Holder::new(&args::address(text)?).map_err(|error| error.to_string())
}

fn read_ahead(text: &str) -> Result<ReadAhead, String> {
    let names: Vec<&str> = text.split('/').collect();
    match *names {
        [app, region, logic_type, field] => {
            ReadAhead::new(app, region, logic_type, field).map_err(|error| error.to_string())
        }
        _ => Err("write APP/REGION/TYPE/FIELD, such as game/eu/player/gold".to_owned()),
    }
}

fn period(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_millis(10), Duration::from_hours(1))
}

fn lifetime(text: &str) -> Result<Duration, String> {
    between(
        text,
        Duration::from_millis(1),
        Duration::from_hours(30 * 24),
    )
}

fn between(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let time = args::time(text)?;
    match (least..=most).contains(&time) {
        true => Ok(time),
        false => Err(format!("give {least:?} to {most:?}")),
    }
}

/// What a server does when another one has its claim.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnLostArg {
    /// It claims a range again
    Reclaim,
    /// It ends with 1
    End,
}

impl From<OnLostArg> for OnLost {
    fn from(on_lost: OnLostArg) -> Self {
        match on_lost {
            OnLostArg::Reclaim => Self::Reclaim,
            OnLostArg::End => Self::End,
        }
    }
}

/// Serves until a signal.
pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut signals = Signals::watch()?;
    let settings = args.database.settings()?;
    check_access(&args)?;
    let listener = TcpListener::bind(args.listen);
    let listener = listener.with_context(|| format!("--listen {}", args.listen))?;
    let name = name(&args, listener.local_addr()?)?;
    let page = match args.http {
        Some(address) => Some(FiguresPage::serve(address).await?),
        None => None,
    };
    let cold = tokio::select! {
        cold = open(&settings) => cold?,
        () = signals.any() => return Ok(Exit::Fine),
    };
    let claims = Claims::of(cold.clone(), args.dc.as_str(), name.as_str())?.period(args.period);
    let shard = OwnerShard::new(cold)
        .memory_max(args.memory_mib << 20)
        .lifetime(args.lifetime);
    let shard = match &args.read_ahead {
        Some(owners) => shard.read_ahead(owners.clone()),
        None => shard,
    };
    let builder = Server::<Owners>::builder(shard, claims)
        .drain(args.drain)
        .on_lost(args.on_lost.into());
    let mut server = secured(builder, &args)?.listen_with(listener).await?;
    if let Some(page) = &page {
        page.show(server.view());
    }
    let mut out = std::io::stdout();
    if args.json {
        let http = page.as_ref().map(|page| page.address.to_string());
        let begun = json!({ "address": server.address(), "name": name.as_str(), "http": http });
        writeln!(out, "{begun}")?;
    } else {
        writeln!(out, "{name}")?;
    }
    let ended = tokio::select! {
        ended = server.ended() => Some(ended),
        () = signals.any() => None,
    };
    tracing::info!("the server ends: a signal from now on ends the process at once");
    let report = tokio::select! {
        report = server.close(args.drain + GRACE) => report,
        () = signals.any() => return Ok(Exit::Signal),
    };
    match ended {
        Some(ended) => Err(exit::error(Exit::Found, why(ended))),
        None if report.is_orderly => Ok(Exit::Fine),
        None => Err(exit::error(
            Exit::Found,
            "calls were under way for too long, and were cut off",
        )),
    }
}

/// The database. Waits while it is away, or has no game yet.
async fn open(settings: &Settings) -> anyhow::Result<ColdTier> {
    let mut was_told = false;
    let mut wait = async |why: &dyn std::fmt::Display| {
        if !std::mem::replace(&mut was_told, true) {
            tracing::warn!("{why}: this server waits");
        }
        sleep(OPEN_EVERY).await;
    };
    loop {
        match ColdTier::open_for_layers(settings).await {
            Ok(cold) if cold.partitions() == 0 => wait(&"no game has used the database yet").await,
            Err(error) if error.kind() == Kind::ColdUnavailable => wait(&error).await,
            opened => return Ok(opened?),
        }
    }
}

/// The name of the server, by which clients reach it.
fn name(args: &Args, listens_at: SocketAddr) -> anyhow::Result<Holder> {
    if let Some(name) = &args.name {
        return Ok(name.clone());
    }
    if listens_at.ip().is_unspecified() {
        let message =
            format!("no client can use the address {listens_at}: name another one with --name");
        return Err(exit::error(Exit::Usage, message));
    }
    Holder::new(&listens_at.to_string()).context("--listen")
}

/// Other machines need a token or a certificate.
fn check_access(args: &Args) -> anyhow::Result<()> {
    let is_guarded = args.token_file.is_some() || args.tls_client_ca.is_some();
    if is_guarded || args.listen.ip().is_loopback() {
        return Ok(());
    }
    let message = format!(
        "everybody who reaches {} could read all owners: name a token with --token-file, or authorities of clients with \
         --tls-client-ca",
        args.listen
    );
    Err(exit::error(Exit::Usage, message))
}

fn secured(builder: ServerBuilder<Owners>, args: &Args) -> anyhow::Result<ServerBuilder<Owners>> {
    let guarded = match &args.token_file {
        Some(file) => builder.token(args::token(file)?),
        None => builder,
    };
    let encrypted = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => guarded.tls(args::text(certificate)?, args::text(key)?),
        _ => guarded,
    };
    Ok(match &args.tls_client_ca {
        Some(file) => encrypted.client_authorities(args::text(file)?),
        None => encrypted,
    })
}

fn why(ended: Ended) -> &'static str {
    match ended {
        Ended::Lost => {
            "the claim is lost: another server has it, or its plan was dropped (--on-lost)"
        }
        Ended::NameTaken => "another server has the same name: give each one its own with --name",
        _ => "the server failed by a fault of its code",
    }
}

/// The signals that end a server in order.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
