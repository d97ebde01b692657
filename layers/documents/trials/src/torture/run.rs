//! One run, from the start of the servers to the verdict.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use storage_tests::torture::finals::drained;
use storage_tests::torture::oracle::Flaw;
use storage_tests::torture::run::keep;
use tokio::time::sleep;

use super::args::Args;
use super::client::Client;
use super::company::Company;
use super::finals::{caught_up, stored};
use super::follower::changes;
use super::heard::{judge_follower, judge_reader, judge_sink};
use super::history::History;
use super::judge::judge;
use super::order;
use super::place::Place;
use super::report::{Counts, Report};
use super::shared;
use super::told::{Reader, Told};
use super::torment::torment;

/// How long everything goes on after the last fault.
const AFTERWARDS: Duration = Duration::from_millis(1_500);

/// Plays, torments, heals, drains, compares. `exe` is this program, or one with its hidden
/// subcommands.
///
/// # Errors
/// The run itself fails: a server does not start, or a fault can't be made.
pub async fn run(args: &Args, exe: &Path) -> Result<Report> {
    let place = Place::start(args, exe).await?;
    // Faults wait for writes by the length of such files.
    let history = Arc::new(History::create(&place.file("clients.history"))?);
    let client = place.client();
    shared::create(&client, &history).await?;
    let mut company = Company::begin(&client, &history, args.seed);
    let torment = torment(args, &place).await?;
    sleep(AFTERWARDS).await;
    eprintln!("all is well again; draining");
    let along = company.end_play().await?;
    let mut flaws: Vec<Flaw> = drained(&place.arena).await.err().into_iter().collect();
    let told = told(&client, along, &mut flaws).await?;
    flaws.extend(compare(&place, &client, &history, &told).await?);
    let heard = company.end(&told).await?;
    flaws.extend(heard.iter().flat_map(|heard| judge_follower(heard, &told)));
    flaws.extend(close(&place).await?);
    keep(&args.core(), place.arena.folder.path())?;
    Ok(Report {
        seed: args.seed,
        seconds: args.seconds,
        counts: Counts::of(&history.asked()),
        reads: history.reads(),
        repeats: history.repeats(),
        events: told.len(),
        heard: heard.iter().map(|heard| changes(heard)).sum(),
        caught_up: heard.iter().map(|heard| order::caught_up(heard)).sum(),
        sink_away: place.receiver.turned_away(),
        torment,
        flaws,
    })
}

/// The whole landed feed. The reader that followed it must have read the same.
async fn told(client: &Client, mut along: Reader, flaws: &mut Vec<Flaw>) -> Result<Vec<Told>> {
    along.read_all(client).await?;
    let mut whole = Reader::default();
    whole.read_all(client).await?;
    flaws.extend(judge_reader(&along.told, &whole.told));
    Ok(whole.told)
}

/// The flaws that clients saw at once, and those of the sink, the landed feed and the stored data.
async fn compare(
    place: &Place,
    client: &Client,
    history: &History,
    told: &[Told],
) -> Result<Vec<Flaw>> {
    let mut flaws = history.flaws();
    flaws.extend(judge_sink(&caught_up(place, told.len()).await, told));
    let asked = history.asked();
    let finals = stored(client, asked.iter().map(|asked| asked.path.as_str())).await?;
    flaws.extend(judge(&asked, told, &finals));
    Ok(flaws)
}

/// Ends the gateways in order. Returns those that did not end well.
async fn close(place: &Place) -> Result<Vec<Flaw>> {
    let mut flaws = Vec::new();
    for gate in place.gates.iter() {
        flaws.extend(gate.close().await?.map(|why| Flaw::new("ends", "", why)));
    }
    Ok(flaws)
}
