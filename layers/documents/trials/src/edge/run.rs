//! One run, from the start of the gateway to the verdict.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use reqwest::Client;
use serde_json::json;
use storage_tests::torture::oracle::Flaw;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::args::Args;
use super::crowd::{Tallies, come};
use super::gate::Gate;
use super::honest::{Fared, Honest};
use super::kind::Kind;
use super::listener::{Heard, Hearing, follow};
use super::report::Report;
use super::rogue::live;

/// The honest clients that write.
const WRITERS: u32 = 6;
/// The honest clients that follow the live feed.
const LISTENERS: usize = 3;
/// The items of a long list, and the bytes of each.
const ITEMS: u64 = 100;
const ITEM: usize = 20_000;
/// The bytes of each change at the end. All of them are more than the system keeps for a client.
const CHANGE: usize = 60_000;
/// How long honest clients go on behind the others.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// The clients of each kind that are there when the gateway ends, and stay.
const LAST: u32 = 3;
const LONG: Duration = Duration::from_secs(300);

/// Lets all clients come, and judges what honest ones met. `exe` is this program, or one with its
/// hidden subcommand.
///
/// # Errors
/// The run itself fails: the gateway does not start, or it has ended.
pub async fn run(args: &Args, exe: &Path) -> Result<Report> {
    // The client asks for it, also for plain HTTP. Another client of the process may have named it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let gate = Gate::start(args, exe).await?;
    fill(&gate, "bulk~", ITEM).await?;
    let mut flaws = Vec::new();
    let before = settled(&gate).await?;
    let (id, mut most, mut least) = (gate.id()?, 0, 0);
    Gate::look(id, &mut least)?;
    if let Err(error) = besieged(args, &gate).await {
        flaws.push(Flaw::new("strangers", "", format!("{error:#}")));
    }
    let (tallies, honest, heard) = tokio::select! {
        all = all(args, &gate) => all?,
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
    let returned = storage_tests::until("all sockets are closed", async || {
        Ok(gate.sockets()? <= before)
    });
    if let Err(error) = returned.await {
        let detail = format!("{error:#}: {} are open, and {before} were", gate.sockets()?);
        flaws.push(Flaw::new("files", "", detail));
    }
    if let Err(error) = ends(args, gate).await {
        flaws.push(Flaw::new("ends", "", format!("{error:#}")));
    }
    flaws.extend(heard.iter().flat_map(|heard| heard.flaws.clone()));
    Ok(Report {
        seed: args.seed,
        tallies,
        honest,
        heard: heard.iter().map(|heard| heard.changes).sum(),
        resets: heard.iter().map(|heard| heard.resets).sum(),
        memory: (most, least),
        flaws,
    })
}

/// Makes many long documents below a path.
async fn fill(gate: &Gate, below: &str, size: usize) -> Result<()> {
    let mut honest = Honest::new(&gate.process.url("content/"), WRITERS, 0)?;
    for number in 0..ITEMS {
        let body = json!({ "text": "x".repeat(size) });
        let path = format!("{below}/{number}");
        honest.write(&path, number, &body).await?;
    }
    let flaws = honest.fared().flaws;
    ensure!(flaws.is_empty(), "{below} can't be filled: {flaws:?}");
    Ok(())
}

/// The sockets of the gateway without clients.
async fn settled(gate: &Gate) -> Result<usize> {
    let mut sockets = gate.sockets()?;
    let same = async || {
        sleep(AFTERWARDS).await;
        let before = std::mem::replace(&mut sockets, gate.sockets()?);
        Ok(before == sockets)
    };
    storage_tests::until("the gateway rests", same).await?;
    Ok(sockets)
}

/// Strangers take all places, and keep them by short requests. A further client is served all the same.
async fn besieged(args: &Args, gate: &Gate) -> Result<()> {
    let mut strangers = JoinSet::new();
    for number in 0..args.connections + args.connections / 4 {
        let rng = StdRng::seed_from_u64(args.seed ^ u64::from(number));
        strangers.spawn(live(gate.process.address, Kind::Stranger, LONG, rng));
    }
    let most = usize::try_from(args.connections)?;
    let taken = async || Ok(gate.sockets()? > most);
    storage_tests::until("all places are taken", taken).await?;
    let mut honest = Honest::new(&gate.process.url("content/"), WRITERS, 0)?;
    let body = json!({});
    let written = honest.write("beside", 0, &body);
    let written = storage_tests::bounded("a client is served beside strangers", written).await?;
    ensure!(written.is_some(), "{:?}", honest.fared().flaws);
    Ok(())
}

/// All clients together.
async fn all(args: &Args, gate: &Gate) -> Result<(Tallies, Fared, Vec<Heard>)> {
    let hearings: Vec<Hearing> = (0..LISTENERS).map(|_| Hearing::default()).collect();
    let mut listeners = JoinSet::new();
    for hearing in &hearings {
        let url = gate.process.url("feed?prefix=honest/");
        listeners.spawn(follow(Client::new(), url, Arc::clone(hearing)));
    }
    let begun = || {
        hearings
            .iter()
            .all(|hearing| look(hearing, |heard| heard.has_begun))
    };
    storage_tests::until("the feed begins", async || Ok(begun())).await?;
    let is_over = Arc::<AtomicBool>::default();
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let honest = Honest::new(&gate.process.url("content/"), number, args.seed)?;
        writers.spawn(honest.play(Arc::clone(&is_over)));
    }
    let tallies = come(args, gate.process.address).await?;
    sleep(AFTERWARDS).await;
    is_over.store(true, Ordering::SeqCst);
    let mut honest = Fared::default();
    while let Some(writer) = writers.join_next().await {
        honest.add(writer??);
    }
    let written = &honest.revisions;
    let up_to_date = || {
        hearings
            .iter()
            .all(|hearing| look(hearing, |heard| heard.is_up_to_date(written)))
    };
    let heard = storage_tests::until("followers hear all", async || {
        // One that has ended has met something else than events.
        Ok(up_to_date() || listeners.try_join_next().is_some())
    });
    if heard.await.is_err() || !up_to_date() {
        let detail = "a follower has not heard the last change of a document";
        honest.flaws.push(Flaw::new("feed", "", detail));
    }
    listeners.shutdown().await;
    let take = |hearing: &Hearing| {
        std::mem::take(&mut *hearing.lock().unwrap_or_else(PoisonError::into_inner))
    };
    Ok((tallies, honest, hearings.iter().map(take).collect()))
}

fn look(hearing: &Hearing, at: impl Fn(&Heard) -> bool) -> bool {
    at(&hearing.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Ends the gateway while clients are there that hold nothing but their connections, or the feed.
async fn ends(args: &Args, gate: Gate) -> Result<()> {
    let mut rogues = JoinSet::new();
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.may_see_the_end());
    for kind in kinds {
        for number in 0..LAST {
            let rng = StdRng::seed_from_u64(args.seed ^ u64::from(number));
            rogues.spawn(live(gate.process.address, kind, LONG, rng));
        }
    }
    sleep(AFTERWARDS).await;
    // Nobody reads so many changes.
    fill(&gate, "honest", CHANGE).await?;
    gate.close().await
}
