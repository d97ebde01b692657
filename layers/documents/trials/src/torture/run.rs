//! One run, from the start of the servers to the verdict.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use storage_tests::torture::faults::{Fault, Group};
use storage_tests::torture::finals::drained;
use storage_tests::torture::nemesis::{self, Coverage, Injection, Planned};
use storage_tests::torture::oracle::Flaw;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::args::Args;
use super::client::{Client, Request};
use super::follower::{Follower, Heard, Hearing};
use super::heard::{is_up_to_date, judge_follower, judge_sink};
use super::history::{End, History};
use super::judge::{Finals, Read, judge};
use super::owned::without_id;
use super::place::{GATES, Place};
use super::play::{PLAYERS, Player};
use super::receiver::At;
use super::shared;
use super::told::{Reader, Told, head};

/// How long everything goes on after the last fault.
const AFTERWARDS: Duration = Duration::from_millis(1_500);
/// How long the sink and the followers may need to hear the last event.
const CATCH_UP: Duration = Duration::from_secs(60);

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    seed: u64,
    seconds: u64,
    acknowledged: usize,
    unknown: usize,
    not_applied: usize,
    reads: u64,
    events: usize,
    heard: usize,
    sink_away: u64,
    gate_kills: u64,
    faults: Vec<Coverage>,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
}

impl Report {
    /// Whether nothing is wrong and something was done.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.flaws.is_empty() && self.acknowledged > 0 && self.reads > 0
    }
}

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
    let (faults, gate_kills) = torment(args, &place).await?;
    sleep(AFTERWARDS).await;
    eprintln!("all is well again; draining");
    let mut along = company.end_play().await?;
    let mut flaws = history.flaws();
    flaws.extend(drained(&place.arena).await.err());
    along.read_all(&client).await?;
    let mut whole = Reader::default();
    whole.read_all(&client).await?;
    let (told, asked) = (whole.told, history.asked());
    flaws.extend(same(&along.told, &told));
    flaws.extend(judge_sink(&caught_up(&place, told.len()).await, &told));
    let finals = finals(&client, asked.iter().map(|asked| asked.path.as_str())).await?;
    flaws.extend(judge(&asked, &told, &finals));
    let heard = company.end(&told).await?;
    flaws.extend(heard.iter().flat_map(|heard| judge_follower(heard, &told)));
    for gate in place.gates.iter() {
        flaws.extend(gate.close().await?.map(|why| Flaw::new("ends", "", why)));
    }
    keep(args, place.arena.folder.path())?;
    let ends = |is: fn(&End) -> bool| asked.iter().filter(|asked| is(&asked.end)).count();
    Ok(Report {
        seed: args.seed,
        seconds: args.seconds,
        acknowledged: ends(|end| matches!(end, End::Acked { .. })),
        unknown: ends(|end| matches!(end, End::Unknown)),
        not_applied: ends(|end| matches!(end, End::NotApplied)),
        reads: history.reads(),
        events: told.len(),
        heard: heard.iter().map(Vec::len).sum(),
        sink_away: place.receiver.turned_away(),
        gate_kills,
        faults,
        flaws,
    })
}

/// All that use the gateways during a run.
struct Company {
    play_is_over: Arc<AtomicBool>,
    players: JoinSet<Result<()>>,
    reader: JoinHandle<Result<Reader>>,
    all_is_over: Arc<AtomicBool>,
    followers: JoinSet<Result<()>>,
    heard: Vec<Hearing>,
}

impl Company {
    fn begin(client: &Client, history: &Arc<History>, seed: u64) -> Self {
        let (play_is_over, all_is_over) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let mut players = JoinSet::new();
        for task in 0..PLAYERS {
            let (client, history) = (client.clone(), Arc::clone(history));
            let player = Player::new(client, history, (seed, task), Arc::clone(&play_is_over));
            players.spawn(player.play());
        }
        let (mut followers, mut heard) = (JoinSet::new(), Vec::new());
        for gate in 0..GATES {
            let (hearing, over) = (Hearing::default(), Arc::clone(&all_is_over));
            heard.push(Arc::clone(&hearing));
            followers.spawn(Follower::new(client.clone(), (gate, seed), hearing, over).follow());
        }
        let reader = tokio::spawn(read_along(client.clone(), Arc::clone(&play_is_over)));
        Self {
            play_is_over,
            players,
            reader,
            all_is_over,
            followers,
            heard,
        }
    }

    /// Ends the play. Returns the reader of the landed feed, which read from the beginning.
    async fn end_play(&mut self) -> Result<Reader> {
        self.play_is_over.store(true, Ordering::SeqCst);
        while let Some(player) = self.players.join_next().await {
            player??;
        }
        (&mut self.reader).await?
    }

    /// Ends the followers once they have heard all of it, or after a while. Returns all that they
    /// heard.
    async fn end(mut self, told: &[Told]) -> Result<Vec<Vec<Heard>>> {
        let begun = Instant::now();
        let copy = |hearing: &Hearing| {
            let heard = hearing.lock().unwrap_or_else(PoisonError::into_inner);
            heard.clone()
        };
        let mut all: Vec<_> = self.heard.iter().map(copy).collect();
        while !all.iter().all(|heard| is_up_to_date(heard, told)) && begun.elapsed() < CATCH_UP {
            sleep(Duration::from_millis(100)).await;
            all = self.heard.iter().map(copy).collect();
        }
        self.all_is_over.store(true, Ordering::SeqCst);
        while let Some(follower) = self.followers.join_next().await {
            follower??;
        }
        Ok(all)
    }
}

/// Reads the landed feed while it grows, from any gateway.
async fn read_along(client: Client, is_over: Arc<AtomicBool>) -> Result<Reader> {
    let (mut reader, mut gate) = (Reader::default(), 0_usize);
    while !is_over.load(Ordering::SeqCst) {
        gate = gate.wrapping_add(1);
        if reader.read(&client, gate).await? != Some(true) {
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(reader)
}

/// Injects faults of the tiers, the workers, the gateways and the sink until the time is over.
async fn torment(args: &Args, place: &Place) -> Result<(Vec<Coverage>, u64)> {
    let (core, faults) = (args.core(), args.faults()?);
    let time = Duration::from_secs(args.seconds);
    let groups = [Group::Process, Group::Hot, Group::Cold];
    let plans = groups.map(|group| nemesis::plan(&faults, group, time, args.seed));
    let torments = groups.iter().zip(&plans).map(|(group, plan)| {
        let inject = async |planned: Planned, rng: &mut StdRng| {
            let fault: Fault = planned.fault;
            fault.inject(&place.arena, planned.phase, rng).await
        };
        nemesis::torment(&core, &faults, *group, plan, inject)
    });
    let (injections, gate_kills, ()) = tokio::try_join!(
        futures::future::try_join_all(torments),
        torment_gates(args, place),
        torment_sink(args, place),
    )?;
    let injections: Vec<Injection> = injections.concat();
    Ok((nemesis::coverage(&faults, &injections), gate_kills))
}

/// Kills, stops and reopens gateways. Returns the number of kills.
async fn torment_gates(args: &Args, place: &Place) -> Result<u64> {
    let mut rng = StdRng::seed_from_u64(args.seed ^ 0x6A7E);
    let (begun, mut kills) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(args.seconds) {
        sleep(Duration::from_millis(rng.random_range(100..1_500))).await;
        let gate = place.gates.get(rng.random_range(0..GATES));
        let gate = gate.context("a gateway")?;
        let pause = Duration::from_millis(rng.random_range(0..2_500));
        match rng.random_range(0..6) {
            0 => gate.reopen().await?,
            1 | 2 => gate.stop_for(pause).await?,
            _ => {
                gate.kill(pause / 4).await?;
                kills += 1;
            }
        }
    }
    Ok(kills)
}

/// Takes the receiver of the sink away, again and again.
async fn torment_sink(args: &Args, place: &Place) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(args.seed ^ 0x51);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(args.seconds) {
        for is_away in [true, false] {
            place.receiver.set_away(is_away);
            sleep(Duration::from_millis(rng.random_range(100..3_000))).await;
        }
    }
    Ok(())
}

/// The feed that was read along is the feed that is read at the end: each change once, none taken
/// back.
fn same(along: &[Told], whole: &[Told]) -> Option<Flaw> {
    let by_partition = |told: &[Told]| {
        let mut told = told.to_vec();
        told.sort_by_key(|told| told.at().map(|at| at.0));
        told
    };
    let (along, whole) = (by_partition(along), by_partition(whole));
    let differs = along
        .iter()
        .zip(&whole)
        .find(|(along, whole)| along != whole);
    let detail = match differs {
        Some((along, whole)) => format!("{along:?} was read along, and {whole:?} at the end"),
        None if along.len() != whole.len() => {
            format!(
                "{} changes were read along, and {} at the end",
                along.len(),
                whole.len()
            )
        }
        None => return None,
    };
    Some(Flaw::new("changes", "", detail))
}

/// The places that the sink got, once it has got so many, or after a while.
async fn caught_up(place: &Place, events: usize) -> Vec<At> {
    let begun = Instant::now();
    loop {
        let got = place.receiver.got();
        let different: BTreeSet<At> = got.iter().copied().collect();
        if different.len() >= events || begun.elapsed() > CATCH_UP {
            return got;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The documents and collections that are stored.
async fn finals(client: &Client, paths: impl Iterator<Item = &str>) -> Result<Finals> {
    let mut finals = Finals::default();
    let heads: BTreeSet<&str> = paths.map(head).collect();
    let mut rng = StdRng::seed_from_u64(0);
    for head in heads {
        let mut next = Some(head.to_owned());
        while let Some(path) = next {
            let request = Request::get(&path);
            let answer = client.ask(&mut rng, &request).await;
            let answer = answer.with_context(|| format!("no answer for {head}"))?;
            next = answer.next.clone();
            if answer.status == 404 {
                continue;
            }
            anyhow::ensure!(answer.status == 200, "{head}: {}", answer.body);
            if let Some(items) = answer.body.as_array() {
                finals
                    .collections
                    .insert(head.to_owned(), (answer.count, answer.revision));
                finals
                    .documents
                    .extend(items.iter().filter_map(|item| item_of(head, item)));
            } else {
                let read = Read {
                    tag: answer.tag,
                    revision: answer.revision,
                    body: answer.body.as_object().cloned().unwrap_or_default(),
                };
                finals.documents.insert(head.to_owned(), read);
            }
        }
    }
    Ok(finals)
}

/// An item of a list, with its path.
fn item_of(collection: &str, item: &Value) -> Option<(String, Read)> {
    let body = item.as_object()?.clone();
    let id = body.get("id")?.as_str()?;
    let path = format!("{collection}/{id}");
    let read = Read {
        tag: None,
        revision: None,
        body: without_id(body),
    };
    Some((path, read))
}

/// Copies histories and logs to the requested folder.
fn keep(args: &Args, folder: &Path) -> Result<()> {
    let Some(to) = &args.keep else { return Ok(()) };
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_good() { "good" } else { "**BAD**" };
        writeln!(f, "seed {}, {} s: {verdict}\n", self.seed, self.seconds)?;
        for (what, count) in [
            ("acknowledged changes", self.acknowledged),
            ("changes that were not made", self.not_applied),
            ("changes of unknown outcome", self.unknown),
            ("events of the landed feed", self.events),
            (
                "events of the live feed, heard by all followers",
                self.heard,
            ),
        ] {
            writeln!(f, "- {what}: {count}")?;
        }
        for (what, count) in [
            ("reads and lists compared", self.reads),
            ("kills of gateways", self.gate_kills),
            ("calls that found the sink's receiver away", self.sink_away),
        ] {
            writeln!(f, "- {what}: {count}")?;
        }
        let faults = self.faults.iter().filter(|fault| fault.times > 0);
        let faults: Vec<String> = faults
            .map(|fault| format!("{} {}", fault.fault, fault.times))
            .collect();
        writeln!(f, "- faults: {}", faults.join(", "))?;
        writeln!(f, "- flaws: {}", self.flaws.len())?;
        for flaw in self.flaws.iter().take(20) {
            writeln!(f, "  - {} {}: {}", flaw.check, flaw.name, flaw.detail)?;
        }
        Ok(())
    }
}
