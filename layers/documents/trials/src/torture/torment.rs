//! The faults of a run: those of the tiers and the workers from the core's torture, and those of the
//! gateways and the sink.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use storage_tests::torture::faults::{Fault, Group};
use storage_tests::torture::nemesis::{self, Coverage, Injection, Planned};
use tokio::time::{Instant, sleep};

use super::args::Args;
use super::place::{GATES, Place};

/// The faults that happened.
#[derive(Debug)]
pub struct Torment {
    /// The faults of the tiers and the workers.
    pub faults: Vec<Coverage>,
    /// Planned faults that never happened.
    pub missed: Vec<&'static str>,
    /// The number of kills of gateways.
    pub gate_kills: u64,
}

/// Injects faults of the tiers, the workers, the gateways and the sink until the time is over.
///
/// # Errors
/// A fault can't be made, or its damage can't be repaired.
pub async fn torment(args: &Args, place: &Place) -> Result<Torment> {
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
    let happened = |fault| injections.iter().any(|injection| injection.fault == fault);
    let planned = plans.iter().flatten().map(|planned| planned.fault);
    let mut missed: Vec<_> = planned.filter(|fault| !happened(*fault)).collect();
    missed.sort_unstable();
    missed.dedup();
    Ok(Torment {
        faults: nemesis::coverage(&faults, &injections),
        missed: missed.into_iter().map(Fault::name).collect(),
        gate_kills,
    })
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
