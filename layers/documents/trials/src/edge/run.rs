//! One run, from the start of the gateway to the verdict.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use storage_tests::torture::oracle::Flaw;
use tokio::task::JoinSet;

use super::args::Args;
use super::company::{Company, WRITERS};
use super::crowd::{Tallies, come};
use super::gate::{CONNECTIONS, FEEDS, Gate};
use super::honest::{Fared, Honest};
use super::kind::Kind;
use super::listener::Heard;
use super::report::Report;
use super::rogue::{Fared as Rogue, Stay, live};

/// The items of a long list, and the bytes of each.
const ITEMS: u64 = 100;
const ITEM: usize = 20_000;
/// The bytes of each change at the end. All of them are more than the system keeps for a client.
const CHANGE: usize = 60_000;
/// The idle times for which strangers keep their places. The gateway ends a connection after up to two.
const SILENT: u32 = 4;
/// The clients of each kind that are there when the gateway ends, and stay.
const LAST: u32 = 3;
const LONG: Stay = Stay::For(Duration::from_secs(300));

/// Lets all clients come, and judges what honest ones met. `exe` is this program, or one with its
/// hidden subcommand.
///
/// # Errors
/// The run itself fails: the gateway does not start, or it has ended.
pub async fn run(args: &Args, exe: &Path) -> Result<Report> {
    // The client asks for it, also for plain HTTP. Another client of the process may have named it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let gate = Gate::start(args, exe).await?;
    // No client has come yet.
    let before = gate.sockets()?;
    fill(&gate, "bulk~", ITEM).await?;
    let mut flaws = Vec::new();
    let (id, mut most, mut least) = (gate.id()?, 0, 0);
    Gate::look(id, &mut least)?;
    let (tallies, honest, heard) = tokio::select! {
        all = all(args, &gate, &mut flaws) => all?,
        ended = Gate::watch(id, &mut most) => {
            ended?;
            anyhow::bail!("the watch has ended");
        }
    };
    if most > args.memory * 1_024 {
        let detail = format!(
            "the gateway had {most} KiB; the bound is {} MiB",
            args.memory
        );
        flaws.push(Flaw::new("memory", "", detail));
    }
    flaws.extend(left_open(&gate, before).await?);
    if let Err(error) = ends(args, gate).await {
        flaws.push(Flaw::new("ends", "", format!("{error:#}")));
    }
    Ok(Report {
        seed: args.seed,
        tallies,
        honest,
        heard,
        memory: (most, least),
        flaws,
    })
}

/// A further honest client, which keeps its connection.
fn one_more(gate: &Gate) -> Honest {
    Honest::new(gate.process.address, WRITERS, 0)
}

/// Makes many long documents below a path.
async fn fill(gate: &Gate, below: &str, size: usize) -> Result<()> {
    let mut honest = one_more(gate);
    for number in 0..ITEMS {
        let body = json!({ "text": "x".repeat(size) });
        let path = format!("{below}/{number}");
        honest.write(&path, number, &body).await?;
    }
    met_no_flaw(honest).with_context(|| format!("{below} can't be filled"))
}

fn met_no_flaw(honest: Honest) -> Result<()> {
    let flaws = honest.fared().flaws;
    ensure!(flaws.is_empty(), "an honest client met {flaws:?}");
    Ok(())
}

/// The flaw of a gateway that keeps more sockets than before, although all clients have gone.
async fn left_open(gate: &Gate, before: usize) -> Result<Option<Flaw>> {
    let as_before = async || Ok(gate.sockets()? <= before);
    let closed = storage_tests::until("all sockets are closed", as_before);
    let Err(error) = closed.await else {
        return Ok(None);
    };
    let detail = format!("{error:#}: {} are open, and {before} were", gate.sockets()?);
    Ok(Some(Flaw::new("files", "", detail)))
}

/// All clients together.
async fn all(
    args: &Args,
    gate: &Gate,
    flaws: &mut Vec<Flaw>,
) -> Result<(Tallies, Fared, Vec<Heard>)> {
    let mut company = Company::begin(gate).await?;
    if let Err(error) = besieged(args, gate).await {
        flaws.push(Flaw::new("strangers", "", format!("{error:#}")));
    }
    // Those that open connections again and again would have left places free.
    company.write(args, gate);
    let tallies = come(args, gate.process.address).await?;
    if let Err(error) = company.gets_on().await {
        flaws.push(Flaw::new("answers", "", format!("{error:#}")));
    }
    let (fared, heard) = company.end().await?;
    Ok((tallies, fared, heard))
}

/// Strangers take all places, and keep them by short requests. A further client is served all the same,
/// and those that are known keep their connections: the followers, and the one that looks.
async fn besieged(args: &Args, gate: &Gate) -> Result<()> {
    let mut strangers = JoinSet::new();
    for number in 0..args.connections + args.connections / 4 {
        let rng = StdRng::seed_from_u64(args.seed ^ u64::from(number));
        strangers.spawn(live(gate.process.address, Kind::Stranger, LONG, rng));
    }
    let mut looks = one_more(gate);
    let most = f64::from(args.connections);
    let taken = async || Ok(looks.figure(CONNECTIONS).await? >= most);
    storage_tests::until("all places are taken", taken).await?;
    let mut honest = one_more(gate);
    let body = json!({});
    let written = honest.write("beside", 0, &body);
    storage_tests::bounded("a client is served beside strangers", written).await?;
    outlasted(args, gate).await?;
    // On a slow machine the gateway may find that some of them are late.
    let left = looks.figure(CONNECTIONS).await?;
    ensure!(left >= most / 2.0, "{left} are left of {most} strangers");
    met_no_flaw(honest)?;
    met_no_flaw(looks)
}

/// Clients that send nothing come one after the other, and the gateway ends each of them. So the idle
/// time has passed more than once, and whoever pauses for longer has lost its place.
async fn outlasted(args: &Args, gate: &Gate) -> Result<()> {
    for _ in 0..SILENT {
        let rng = StdRng::seed_from_u64(args.seed);
        let fared = live(gate.process.address, Kind::Silent, Stay::UntilEnded, rng).await;
        ensure!(fared == Rogue::Ended, "a silent client: {fared:?}");
    }
    Ok(())
}

/// Ends the gateway while clients are there that hold nothing but their connections, or the feed.
async fn ends(args: &Args, gate: Gate) -> Result<()> {
    let (mut rogues, mut looks) = (JoinSet::new(), one_more(&gate));
    let address = gate.process.address;
    let rng = |number| StdRng::seed_from_u64(args.seed ^ u64::from(number));
    for number in 0..LAST {
        rogues.spawn(live(address, Kind::DeafFeed, LONG, rng(number)));
    }
    let open = async || Ok(looks.figure(FEEDS).await? >= f64::from(LAST));
    storage_tests::until("the feeds are open", open).await?;
    // Nobody reads so many changes.
    fill(&gate, "honest", CHANGE).await?;
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.holds_no_request());
    for kind in kinds {
        for number in 0..LAST {
            rogues.spawn(comes_back(address, kind, rng(number)));
        }
    }
    // With the one that looks.
    let count = u32::try_from(rogues.len())? + 1;
    let count = f64::from(count.min(args.connections));
    let there = async || Ok(looks.figure(CONNECTIONS).await? >= count);
    storage_tests::until("all of them are there", there).await?;
    met_no_flaw(looks)?;
    gate.close().await
}

/// Comes again each time that the idle time has ended its connection, until the gateway is away.
async fn comes_back(address: SocketAddr, kind: Kind, mut rng: StdRng) -> Rogue {
    loop {
        let life = StdRng::seed_from_u64(rng.random());
        if live(address, kind, LONG, life).await == Rogue::Refused {
            return Rogue::Refused;
        }
    }
}
