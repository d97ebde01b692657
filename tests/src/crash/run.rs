//! One run, and the loop over all points of a scenario.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::FutureExt as _;
use futures::future::{Either, select};
use tokio::runtime::Runtime;

use super::history::{History, VISITS};
use super::play::Play;
use super::points::{Kind, Points};
use super::scenarios::{POISONED, Scenario};
use super::site::{Database, PARTITIONS, Place, Site};
use crate::feed;
use crate::stack::bounded;

/// The result of trying a scenario.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tried {
    /// The number of runs, including those that did not reach their point.
    pub runs: usize,
    /// The largest number of points of one kind.
    pub points: usize,
    /// The time that it took.
    pub took: Duration,
}

/// Which points of a scenario are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Density {
    /// Every point with every kind.
    Every,
    /// Every sixth point, or every twelfth with a kind that must wait until locks have run out.
    Sample,
}

impl Density {
    fn step(self, kind: Kind) -> usize {
        match (self, kind) {
            (Self::Every, _) => 1,
            (Self::Sample, Kind::Late) => 12,
            (Self::Sample, _) => 6,
        }
    }

    /// The first point. In a sample, each kind of end strikes other requests.
    fn first(self, kind: Kind) -> usize {
        match (self, kind) {
            (Self::Every, _) | (_, Kind::Before | Kind::Late) => 1,
            (Self::Sample, Kind::After | Kind::Lost) => 3,
            (Self::Sample, Kind::Instead | Kind::Twice) => 5,
        }
    }
}

/// Tries the points of a scenario with these kinds of end.
///
/// # Errors
/// Data was lost, halved or left over, or a process got stuck. The error names scenario, kind and
/// point, which repeat it.
pub fn try_all(
    scenario: &Scenario,
    database: Database<'_>,
    kinds: &[Kind],
    density: Density,
) -> Result<Tried> {
    let servers = runtime()?;
    let site = servers.block_on(Site::open(scenario.name, database))?;
    let begun = Instant::now();
    let mut tried = Tried::default();
    for kind in kinds {
        let mut at = density.first(*kind);
        tried.runs += 1;
        while run(&site, &servers, scenario, *kind, at, None)
            .with_context(|| named(scenario, *kind, at))?
            .0
        {
            at += density.step(*kind);
            tried.runs += 1;
        }
        tried.points = tried.points.max(at - 1);
        ensure!(
            at > scenario.points_min,
            "{}: only {} points of kind {kind:?}",
            scenario.name,
            at - 1
        );
    }
    tried.took = begun.elapsed();
    Ok(tried)
}

/// Tries all pairs of points: one in the scenario, and one in the process that comes after it.
///
/// # Errors
/// Like [`try_all`].
pub fn try_pairs(scenario: &Scenario, database: Database<'_>, kinds: &[Kind]) -> Result<Tried> {
    let servers = runtime()?;
    let site = servers.block_on(Site::open(scenario.name, database))?;
    let begun = Instant::now();
    let mut tried = Tried::default();
    for kind in kinds {
        let mut at = 1;
        loop {
            let (mut second, mut reached) = (1, (true, true));
            while reached == (true, true) {
                let what = || format!("{}, then {second}", named(scenario, *kind, at));
                reached =
                    run(&site, &servers, scenario, *kind, at, Some(second)).with_context(what)?;
                tried.runs += 1;
                second += 1;
            }
            if !reached.0 {
                break;
            }
            ensure!(
                second > 5,
                "{}: the process after point {at} has only {second} points",
                scenario.name
            );
            tried.points += second - 2;
            at += 1;
        }
    }
    tried.took = begun.elapsed();
    Ok(tried)
}

/// Tries one point.
///
/// # Errors
/// Like [`try_all`].
pub fn try_one(scenario: &Scenario, database: Database<'_>, kind: Kind, at: usize) -> Result<bool> {
    let servers = runtime()?;
    let site = servers.block_on(Site::open(scenario.name, database))?;
    Ok(run(&site, &servers, scenario, kind, at, None)
        .with_context(|| named(scenario, kind, at))?
        .0)
}

fn named(scenario: &Scenario, kind: Kind, at: usize) -> String {
    format!("scenario {}, kind {kind:?}, point {at}", scenario.name)
}

/// A runtime stands for a process. Its tasks end when it is dropped, and stand still while it is
/// not driven.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")
}

/// Runs the scenario up to a point, and on as the kind says. Then another process lands everything,
/// itself up to point `second`, and the result is checked. Returns which of the two points were
/// reached.
fn run(
    site: &Site,
    servers: &Runtime,
    scenario: &Scenario,
    kind: Kind,
    at: usize,
    second: Option<usize>,
) -> Result<(bool, bool)> {
    let place = servers.block_on(site.fresh())?;
    let history = History::default();
    let points = Arc::new(Points::new(kind, at));
    play(servers, scenario, &place, &history, &points).with_context(|| left_in(servers, &place))?;
    let mut reached = (points.reached(), false);
    if let Some(second) = second.filter(|_| reached.0) {
        let points = Arc::new(Points::new(kind, second));
        let process = runtime()?;
        points.arm();
        let land = bounded(
            "the second process lands",
            land_rest(&place, &history, &points),
        )
        .boxed_local();
        until_stopped(&process, land, &points)?;
        points.disarm();
        drop(process);
        servers.block_on(after_death(&place))?;
        reached.1 = points.reached();
    }
    servers
        .block_on(check(&place, &history, scenario, reached.0))
        .with_context(|| left_in(servers, &place))?;
    Ok(reached)
}

/// The data in Redis, for the report of a failure.
fn left_in(servers: &Runtime, place: &Place<'_>) -> String {
    servers
        .block_on(place.look())
        .map_or_else(|error| error.to_string(), |look| format!("{look:?}"))
}

/// One process, from its start to its end.
fn play(
    servers: &Runtime,
    scenario: &Scenario,
    place: &Place<'_>,
    history: &History,
    points: &Arc<Points>,
) -> Result<()> {
    let process = runtime()?;
    let whole = async {
        if scenario.opening {
            points.arm();
        }
        let play = Play::start(place, history, points).await?;
        (scenario.before)(&play).await.context("before any point")?;
        points.arm();
        bounded("the scenario", (scenario.act)(&play)).await?;
        points.disarm();
        play.close().await
    };
    let mut whole = whole.boxed_local();
    let mut ended = until_stopped(&process, whole.as_mut(), points)?;
    if !ended && points.kind() == Kind::Late {
        // A process that came while the first holds the database's locks would wait for them until
        // the first goes on.
        if !points.in_transaction() {
            servers
                .block_on(take_over(place, history))
                .context("the process that takes over")?;
        }
        points.go_on();
        process.block_on(whole.as_mut())?;
        ended = true;
    }
    drop(whole);
    drop(process);
    if ended {
        let held = servers.block_on(place.look())?.held();
        ensure!(held.is_empty(), "it ended well, and still holds {held:?}");
    }
    // A process that got all its answers has given everything back.
    if points.reached() && points.kind() != Kind::Twice {
        servers.block_on(after_death(place))?;
    }
    Ok(())
}

/// Drives a process until it ends or stands still. Returns whether it ended.
fn until_stopped(
    process: &Runtime,
    whole: impl Future<Output = Result<()>> + Unpin,
    points: &Points,
) -> Result<bool> {
    process.block_on(async {
        match select(whole, pin!(points.stopped())).await {
            Either::Left((ended, _)) => ended.map(|()| true),
            Either::Right(_) => Ok(false),
        }
    })
}

/// Checks that the invariants hold after a process died. Then its locks expire.
async fn after_death(place: &Place<'_>) -> Result<()> {
    place.bury().await?;
    let look = place.look().await?;
    look.check(&place.rows().await?)
        .context("right after it died")?;
    place.time_passes().await
}

/// The steps of another process while the first stands still. It finds the locks expired, changes
/// every owner, and lands and evicts all.
async fn take_over(place: &Place<'_>, history: &History) -> Result<()> {
    place
        .look()
        .await?
        .check(&place.rows().await?)
        .context("while it stands still")?;
    place.time_passes().await?;
    let play = Play::start(place, history, &Arc::new(Points::never())).await?;
    play.free_all().await?;
    for id in history.ids() {
        ensure!(
            play.incr(&id, &[(VISITS, 1)]).await?,
            "{id} can't be written"
        );
    }
    play.land().await?;
    for id in history.ids() {
        ensure!(play.evict(&id).await?, "{id} can't be evicted");
    }
    play.close().await
}

/// Another process lands the rest.
async fn land_rest(place: &Place<'_>, history: &History, points: &Arc<Points>) -> Result<()> {
    let play = Play::start(place, history, points).await?;
    play.free_all().await?;
    land_all(&play).await?;
    play.close().await
}

async fn land_all(play: &Play<'_>) -> Result<()> {
    play.land_until(1, async || {
        let look = play.place.look().await?;
        let waits = look.waiting() + look.refused() > 0;
        let cold = play.storage.tiers().cold();
        Ok(!waits && !feed::has_leads(cold, PARTITIONS).await?)
    })
    .await
}

/// Lands the rest, and compares database, hot reads and cold reads with the history.
async fn check(
    place: &Place<'_>,
    history: &History,
    scenario: &Scenario,
    struck: bool,
) -> Result<()> {
    place.heal(POISONED).await?;
    let play = Play::start(place, history, &Arc::new(Points::never())).await?;
    play.free_all().await.context("taking the held owners")?;
    (scenario.next)(&play).await.context("going on")?;
    land_all(&play).await.context("landing the rest")?;
    let rows = place.rows().await?;
    history
        .rows(&rows)
        .with_context(|| format!("struck: {struck}"))?;
    let owners = history.ids().into_iter();
    let owners = owners.map(|id| Ok(play.owner(&id)?.owner().clone()));
    let owners = owners.collect::<Result<Vec<_>>>()?;
    let cold = play.storage.tiers().cold();
    if let Some(flaw) = feed::flaw(cold, PARTITIONS, &owners).await? {
        bail!("struck: {struck}: {flaw}");
    }
    let look = place.look().await?;
    look.check(&rows)?;
    look.check_quiet()?;
    for round in ["hot", "cold"] {
        for id in history.ids() {
            ensure!(
                play.read(&id).await.with_context(|| round)?,
                "{id} can't be read {round}"
            );
            ensure!(play.evict(&id).await?, "{id} can't be evicted");
        }
    }
    (scenario.compare)(&play).await?;
    play.close().await?;
    place.look().await?.check_quiet()
}
